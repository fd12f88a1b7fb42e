"""A1: activity labels and unit ids are the characters of the file, whatever the other cases say.

A type that fits a whole column spells values in its own way, and one case more can change the type:
so everybody's labels change with one person's data, and no differential privacy is left.
"""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import yaml

import cloakwork
from cloakwork.errors import CloakworkError
from cloakwork.plan.model import Plan

pd = pytest.importorskip("pandas")


def plan(folder: Path, *, activity: str = "code", unit: str | None = None) -> Plan:
    """k-anonymity with k = 2 over the activities of ``activity``."""
    attributes: dict[str, object] = {
        "case:concept:name": {"role": "identifier"},
        activity: {"role": "control-flow"},
    }
    spec: dict[str, object] = {
        "attributes": attributes,
        "guarantees": [
            {
                "kind": "k-anonymity",
                "k": 2,
                "over": ["control-flow"],
                "count": "units" if unit else "cases",
            }
        ],
        "mechanisms": {"parameters": {"kanon/optimal": {"seconds": 1}}},
    }
    if unit:
        attributes[unit] = {"role": "identifier", "treatment": "drop"}
        spec["unit"] = {"attribute": unit, "max_cases": 1}
    file = folder / "policy.yaml"
    meta = {
        "name": "text",
        "version": "1.0.0",
        "owner": "o@o.org",
        "purpose": "test",
        "dataset": "text",
    }
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": meta,
        "spec": spec,
    }
    file.write_text(yaml.safe_dump(document), "utf-8")
    policy = cloakwork.load_policy(file)
    return cloakwork.make_plan(policy, policy.facts())


def labels(folder: Path, log: cloakwork.EventLog, **options: str) -> Counter[str]:
    release = cloakwork.apply(
        plan(folder, **options), log, ledger=f"sqlite:///{folder / 'ledger.db'}"
    )
    return Counter(release.log.events["concept:name"].to_list())


CODES = {
    "decimals": (["401.90"] * 4, "V27"),
    "whole": (["7"] * 4, "007"),
    "zeros": (["007"] * 4, "x"),
    "truths": (["True"] * 4, "perhaps"),
    "times": (["2024-01-01T00:00:00.000+00:00"] * 4, "never"),
    "signs": (["+49"] * 4, "x"),
    "powers": (["1E5"] * 4, "x"),
}


def csv(folder: Path, codes: list[str]) -> Path:
    lines = [f"c{place},act,2024-01-01T0{place}:00:00Z,{code}" for place, code in enumerate(codes)]
    file = folder / "log.csv"
    file.write_text(
        "\n".join(["case:concept:name,concept:name,time:timestamp,code", *lines]) + "\n", "utf-8"
    )
    return file


@pytest.mark.parametrize("kind", CODES)
def test_csv_labels_are_the_characters_of_the_file(kind: str, tmp_path: Path) -> None:
    """With and without two cases of another spelling: the others' labels stay what stands in the
    file.
    """
    codes, odd = CODES[kind]
    alone = labels(tmp_path, cloakwork.read_log(csv(tmp_path, codes)))
    beside = labels(tmp_path, cloakwork.read_log(csv(tmp_path, [*codes, odd, odd])))
    assert alone == Counter(codes)
    assert beside == Counter([*codes, odd, odd])


def xes(folder: Path, events: list[tuple[str, str]]) -> Path:
    traces = "".join(
        f'<trace><string key="concept:name" value="c{place}"/>'
        '<event><string key="concept:name" value="a"/>'
        '<date key="time:timestamp" value="2024-01-01T00:00:00Z"/>'
        f'<{kind} key="code" value="{value}"/></event></trace>'
        for place, (kind, value) in enumerate(events)
    )
    file = folder / "log.xes"
    file.write_text(f'<?xml version="1.0"?><log>{traces}</log>', "utf-8")
    return file


XES_KINDS = [
    ("int", "007"),
    ("float", "401.90"),
    ("boolean", "1"),
    ("date", "2024-01-01T00:00:00.000+00:00"),
]


@pytest.mark.parametrize(("kind", "value"), XES_KINDS)
@pytest.mark.parametrize("odd", [("string", "x"), ("float", "1.5")])
def test_xes_labels_are_the_characters_of_the_file(
    kind: str, value: str, odd: tuple[str, str], tmp_path: Path
) -> None:
    """Whatever types an attribute is stated with over the file."""
    alone = labels(tmp_path, cloakwork.read_log(xes(tmp_path, [(kind, value)] * 4)))
    beside = labels(tmp_path, cloakwork.read_log(xes(tmp_path, [*[(kind, value)] * 4, odd, odd])))
    assert alone == Counter([value] * 4)
    assert beside == Counter([value] * 4 + [odd[1]] * 2)


def test_units_are_the_characters_of_the_file(tmp_path: Path) -> None:
    """``7``, ``007`` and ``7.0`` are three persons; each of the three keeps one case."""
    persons = ["7", "007", "7.0", "7", "007", "7.0"]
    lines = [f"c{place},a,2024-01-01T00:00:00Z,{person}" for place, person in enumerate(persons)]
    file = tmp_path / "log.csv"
    file.write_text(
        "\n".join(["case:concept:name,concept:name,time:timestamp,case:person", *lines]) + "\n",
        "utf-8",
    )
    for log in (cloakwork.read_log(file), file):
        made = plan(tmp_path, activity="concept:name", unit="case:person")
        assert (
            cloakwork.apply(
                made, log, ledger=f"sqlite:///{tmp_path / 'ledger.db'}"
            ).log.cases.height
            == 3
        )


@pytest.mark.parametrize("pair", [("7", "007"), ("a", "a "), ("\u00e9", "e\u0301")])
def test_labels_of_other_characters_are_other_labels(pair: tuple[str, str], tmp_path: Path) -> None:
    """Zeros in front, blanks behind, composed or not: different characters, different activities,
    different cases.
    """
    found = labels(
        tmp_path, cloakwork.read_log(xes(tmp_path, [("string", label) for label in pair * 2]))
    )
    assert found == Counter(pair * 2)
    frame = pl.DataFrame({"case:concept:name": list(pair), "concept:name": ["a"] * 2})
    assert cloakwork.EventLog.from_polars(frame).cases["case:concept:name"].to_list() == list(pair)


def table(**columns: list[object]) -> dict[str, list[object]]:
    times = ["2024-01-01T00:00:00Z"] * 4
    return {
        "case:concept:name": list("pqrs"),
        "concept:name": ["a"] * 4,
        "time:timestamp": times,
        **columns,
    }


UNKNOWN = {
    "blank": [10, 10, 10, None],  # pandas makes 10.0 of each 10
    "decimals": [401.90, 401.90, 1.0, 1.0],
    "truths": [True, True, False, False],
}


@pytest.mark.parametrize("kind", UNKNOWN)
@pytest.mark.parametrize("role", ["activity", "unit"])
def test_columns_without_characters_are_refused(kind: str, role: str, tmp_path: Path) -> None:
    """Floats and truth values have no spelling of their own; one line says what to do."""
    name = "code" if role == "activity" else "case:person"
    frame = pd.DataFrame(table(**{name: UNKNOWN[kind]}))
    options = (
        {"activity": name} if role == "activity" else {"activity": "concept:name", "unit": name}
    )
    with pytest.raises(CloakworkError, match=f"'{name}'.*text") as caught:
        labels(tmp_path, cloakwork.EventLog.from_pandas(frame), **options)
    assert "\n" not in str(caught.value)


def test_case_ids_without_characters_are_refused() -> None:
    """A table whose case ids are floats."""
    frame = pd.DataFrame(table() | {"case:concept:name": [1, 1, None, 2]})
    with pytest.raises(CloakworkError, match=r"'case:concept:name'.*text"):
        cloakwork.EventLog.from_pandas(frame)


def test_whole_numbers_and_text_are_taken_as_they_are(tmp_path: Path) -> None:
    """Whole numbers of a column that holds nothing else have one spelling each."""
    frame = pl.DataFrame(table(code=[10, 10, 7, 7]))
    assert labels(tmp_path, cloakwork.EventLog.from_polars(frame)) == Counter({"10": 2, "7": 2})


def test_a_log_made_by_hand_is_held_to_it_too(tmp_path: Path) -> None:
    """Whatever reaches ``apply``."""
    log = cloakwork.EventLog.from_polars(pl.DataFrame(table(code=["1.50"] * 4)))
    log = cloakwork.EventLog(log.events.with_columns(code=pl.lit(1.5)), log.cases, log.offsets)
    with pytest.raises(CloakworkError, match=r"'code'.*text"):
        labels(tmp_path, log)
