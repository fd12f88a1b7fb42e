"""A6: a case has one unit or is refused (or split); what is checked is what the written file
says.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import cloakwork
from cloakwork import EventLog
from cloakwork.errors import CloakworkError
from cloakwork.plan.model import Plan
from conftest import runs

UNIT = "case:person"
META = {"name": "units", "version": "1.0.0", "owner": "o", "purpose": "test", "dataset": "units"}
ROLES = {
    "case:concept:name": {"role": "identifier"},
    "concept:name": {"role": "control-flow"},
}
PERSONS = ROLES | {UNIT: {"role": "identifier", "treatment": "drop"}}
COMMENT = pytest.mark.parametrize("comment", ["", "<!-- for the thorough reader -->"])
KINDS = pytest.mark.parametrize("kind", ["csv", "parquet", "memory"])


def planned(folder: Path, spec: dict[str, object]) -> Plan:
    file = folder / "policy.yaml"
    document = {"apiVersion": "cloakwork/v1", "kind": "PrivacyPolicy", "metadata": META}
    file.write_text(yaml.safe_dump(document | {"spec": spec}), "utf-8")
    policy = cloakwork.load_policy(file)
    return cloakwork.make_plan(policy, policy.facts())


def counted(folder: Path, k: int, *, count: str = "units", **unit: object) -> Plan:
    """k-anonymity over activities, counted in persons (or in cases)."""
    goal = {"kind": "k-anonymity", "k": k, "over": ["control-flow"], "count": count}
    unit = {"attribute": UNIT, "max_cases": 9, **unit}
    return planned(folder, {"unit": unit, "attributes": PERSONS, "guarantees": [goal]})


def noisy(folder: Path, **unit: object) -> Plan:
    """Variants under differential privacy, with hardly any noise."""
    kind = "differential-privacy"
    goal = {"kind": kind, "epsilon": 40.0, "delta": 1e-6, "over": ["control-flow"]}
    spec = {
        "unit": {"attribute": UNIT, "max_cases": 1, **unit},
        "attributes": PERSONS,
        "guarantees": [goal],
        "budget": {"total": {"epsilon": 1000, "delta": 0.5}},
        "assume": {"alphabet": ["a"], "longest_case": 5},
        "mechanisms": {"allow": ["variants/threshold", "attributes/*", "bound"]},
    }
    return planned(folder, spec)


@pytest.fixture
def applied(ledger: str) -> Callable[..., Any]:
    return lambda plan, log: cloakwork.apply(plan, log, ledger=ledger)


def rows(persons: list[tuple[str, str | None]]) -> pl.DataFrame:
    """One event for each pair of case and person."""
    minutes = range(len(persons))
    return pl.DataFrame(
        {
            "case:concept:name": [case for case, _ in persons],
            "concept:name": ["a"] * len(persons),
            "time:timestamp": [f"2024-01-01T{m // 60:02d}:{m % 60:02d}:00+00:00" for m in minutes],
            UNIT: [person for _, person in persons],
        },
        schema_overrides={UNIT: pl.String},
    )


def given_as(kind: str, frame: pl.DataFrame, folder: Path) -> EventLog | Path:
    if kind == "memory":
        return EventLog.from_polars(frame)
    file = folder / f"log.{kind}"
    frame.write_csv(file) if kind == "csv" else frame.write_parquet(file)
    return file


@KINDS
def test_a_case_of_two_units_is_refused_with_its_row(kind, tmp_path, applied) -> None:
    """The first value would let one person's rows change another's case."""
    log = given_as(kind, rows([("1", "p"), ("2", "q"), ("2", "r"), ("3", "s")]), tmp_path)
    with pytest.raises(CloakworkError, match=r"row 3.*'case:person'.*on_conflict"):
        applied(counted(tmp_path, 2), log)


@KINDS
def test_two_values_of_another_attribute_harm_nobody(kind, tmp_path, applied) -> None:
    """Only the unit of privacy must be one; and a unit that some rows leave out is none the less
    one.
    """
    frame = rows([("1", "p"), ("1", None), ("2", "q"), ("3", "s")])
    frame = frame.with_columns(pl.Series("case:ward", ["x", "y", "z", "z"]))
    log = given_as(kind, frame, tmp_path)
    assert applied(counted(tmp_path, 3), log).log.cases.height == 3


def xes(folder: Path, traces: list[tuple[str, str]], comment: str = "") -> Path:
    """A trace for each id and the persons that it names."""
    written = "".join(
        "<trace>\n"
        + (f'<string key="concept:name" value="{case}"/>\n' if case else "")
        + "".join(f'<string key="person" value="{person}"/>\n' for person in persons)
        + '<event><string key="concept:name" value="a"/></event></trace>\n'
        for case, persons in traces
    )
    file = folder / "log.xes"
    file.write_text(f'<?xml version="1.0"?>\n<log>{comment}\n{written}</log>', "utf-8")
    return file


@COMMENT
@pytest.mark.parametrize("split", [False, True])
def test_a_trace_of_two_units_is_refused_with_its_line(split, comment, tmp_path, applied) -> None:
    """Both readers; a trace states its unit for the whole case, so nothing can be split."""
    plan = noisy(tmp_path, on_conflict="split") if split else counted(tmp_path, 2)
    log = xes(tmp_path, [("1", "p"), ("2", "qr"), ("3", "ss")], comment)
    with pytest.raises(CloakworkError, match=r"line 10.*'case:person'"):
        applied(plan, log)


@COMMENT
@pytest.mark.parametrize("goal", ["cases", "units", "dp"])
def test_two_traces_of_one_id_are_refused_with_their_line(goal, comment, tmp_path, applied) -> None:
    """Six traces of one id, even of six persons, passed as six cases and as six units."""
    plan = noisy(tmp_path) if goal == "dp" else counted(tmp_path, 2, count=goal)
    log = xes(tmp_path, [("1", "p"), ("2", "q"), *(("DUP", each) for each in "rstuvw")], comment)
    with pytest.raises(CloakworkError, match=r"line 16: .*id of an earlier case"):
        applied(plan, log)


@COMMENT
def test_a_trace_of_two_ids_is_refused_with_its_line(comment, tmp_path, applied) -> None:
    """The last id would count: twenty traces of one case passed as twenty cases."""
    file = xes(tmp_path, [("1", "p"), ("2", "q"), ("DUP", "r")], comment)
    one = '<string key="concept:name" value="DUP"/>'
    first = '<string key="concept:name" value="a"/>\n' + one
    file.write_text(file.read_text("utf-8").replace(one, first), "utf-8")
    with pytest.raises(CloakworkError, match=r"line 13: a case names two ids"):
        applied(counted(tmp_path, 2), file)


def test_traces_without_an_id_are_cases_of_their_own(tmp_path, applied) -> None:
    """Where nothing says that two traces are one case, they are two."""
    file = xes(tmp_path, [("1", "p"), ("2", "q"), ("", "r"), ("", "s")])
    assert applied(counted(tmp_path, 4), file).log.cases.height == 4


@KINDS
def test_split_makes_one_case_of_each_unit(kind, tmp_path, applied) -> None:
    """Every case, conflicting or not; rows that name nobody are a case of their own.

    Noise of scale 1/40 is 0 but for probability 2 * exp(-40) a count, so this fails by chance less
    than once in 10**16.
    """
    persons = [
        (f"c{case}", person)
        for case in range(60)
        for person in (f"p{case}", f"p{case}", f"q{case}", None)
    ]
    log = given_as(kind, rows(persons), tmp_path)
    release = applied(noisy(tmp_path, on_conflict="split"), log)
    assert (release.log.events.height, release.log.cases.height) == (60 * 4, 60 * 3)


def test_each_part_has_what_its_own_rows_say() -> None:
    """One person's rows never reach another's case."""
    frame = rows([("1", "p"), ("1", "q"), ("1", "q"), ("2", None), ("2", "r")]).with_columns(
        pl.Series("case:ward", ["x", None, "y", "z", None]), pl.Series("case:age", [1, 1, 1, 2, 2])
    )
    parts = EventLog.from_polars(frame).split_by(UNIT).cases
    assert parts[UNIT].to_list() == ["p", "q", None, "r"]
    assert parts["case:ward"].to_list() == ["x", "y", "z", None]
    assert parts["case:age"].to_list() == [1, 1, 2, 2]


def test_two_values_of_another_attribute_are_noted() -> None:
    """The first counts, which concerns that case alone; the reader says so."""
    frame = rows([("1", "p"), ("1", "p")]).with_columns(pl.Series("case:ward", ["x", "y"]))
    log = EventLog.from_polars(frame)
    assert log.cases["case:ward"].to_list() == ["x"]
    assert any("'case:ward'" in note and "row 2" in note for note in log.notes)


def test_parts_are_never_counted(tmp_path) -> None:
    """k counts source cases: a policy that would count parts is refused when it is planned. One
    without ``on_conflict`` has the digest it had: plans, approvals and releases made before go on.
    """
    with pytest.raises(CloakworkError, match="parts of a case"):
        counted(tmp_path, 2, on_conflict="split")
    assert "on_conflict" not in counted(tmp_path, 2).model_dump_json()


VALUES = {
    "numbers": [-0.0, 0.0, 1.5, float("nan"), float("inf"), 1e20, 0.1 + 0.2, None],
    "whole": [0, 1, 2, 10**17, None],
    "text": [
        *["", None, "x", "-0.0", "0.0", "0", "007", "7", "7.0", "True", "1E5", "a\x01"],
        *["\ufffd", " a", "a\r\nb", "NaN"],
    ],
    "nothing": [None],
}
TREE = {"1": ["x", "0.0", "a"], "2.0": ["7", "007"], "g": {"h": ["True"]}}
RULES = [
    {"role": "quasi-identifier"},
    {"role": "quasi-identifier", "bins": [0, 1, 2, 10]},
    {"role": "quasi-identifier", "hierarchy": TREE},
]
COVERED = ["control-flow", "case:age", "ward"]


@st.composite
def releases(draw: st.DrawFn) -> tuple[pl.DataFrame, dict[str, object]]:
    """Some 4 to 16 cases of one to two variants with hostile quasi-identifiers, and a policy over
    them.
    """
    of_cases, of_events = (VALUES[draw(st.sampled_from(sorted(VALUES)))] for _ in "ab")
    table = []
    for case in range(draw(st.integers(4, 16))):
        age = draw(st.sampled_from(of_cases))
        for step in draw(st.sampled_from(["ab", "a"])):
            ward = draw(st.sampled_from(of_events))
            table.append((f"c{case}", step, age, ward))
    names = ["case:concept:name", "concept:name", "case:age", "ward"]
    attributes = ROLES | {name: draw(st.sampled_from(RULES)) for name in ("case:age", "ward")}
    spec = {
        "attributes": attributes,
        "guarantees": [{"kind": "k-anonymity", "k": 2, "over": COVERED}],
        "mechanisms": {"parameters": {"kanon/optimal": {"seconds": 0.02}}},
        "output": {"format": draw(st.sampled_from(["xes", "csv", "parquet"])), "report": []},
    }
    return pl.DataFrame(table, names, orient="row", infer_schema_length=None), spec


@settings(max_examples=runs(8), deadline=None)
@given(asked=releases())
def test_what_is_checked_is_what_the_file_says(asked, tmp_path_factory) -> None:
    """Column by column, type by type; and ``verify`` finds what ``apply`` found."""
    frame, spec = asked
    folder = tmp_path_factory.mktemp("release")
    log = EventLog.from_polars(frame)
    release = cloakwork.apply(planned(folder, spec), log, ledger=f"sqlite:///{folder}/ledger.db")
    cloakwork.publish(release, folder / "out")
    cloakwork.verify(folder / "out")
    again = cloakwork.read_log(next((folder / "out").glob("log.*")), timeless=True)
    tables = [(release.log.cases, again.cases)]
    tables.append((release.log.events, again.events.drop("time:timestamp")))
    for made, read in tables:
        assert dict(made.schema) == dict(read.schema)
        assert made.equals(read.select(made.columns))


def test_an_attribute_that_nobody_has_any_more(tmp_path, applied) -> None:
    """All left out: XES cannot say it, so the release does not have it, and verify counts without
    it.
    """
    frame = pl.DataFrame(
        {"case:concept:name": list("pq"), "concept:name": ["a"] * 2, "case:age": ["x", "y"]}
    )
    spec = {
        "attributes": ROLES | {"case:age": {"role": "quasi-identifier"}},
        "guarantees": [{"kind": "k-anonymity", "k": 2, "over": COVERED[:2]}],
        "output": {"format": "xes", "report": []},
    }
    release = applied(planned(tmp_path, spec), EventLog.from_polars(frame))
    assert release.log.cases.columns == ["case:concept:name"]
    cloakwork.publish(release, tmp_path / "out")
    cloakwork.verify(tmp_path / "out")
