"""A6: a case without a unit counts as no unit; k and K are reached by the units that there are."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import cloakwork
from cloakwork.base.facts import Unit
from cloakwork.errors import Infeasible
from cloakwork.guarantees import ConfidenceBound, KAnonymity
from cloakwork.plan.model import Plan
from cloakwork.plan.sentences import assumptions_in_words
from guarantees.measuring import smallest_group, worst_knowledge

UNIT = "case:patient"
META = {
    "name": "units",
    "version": "1.0.0",
    "owner": "o@o.org",
    "purpose": "test",
    "dataset": "units",
}
OF_UNITS = {"kind": "k-anonymity", "k": 5, "over": ["control-flow"], "count": "units"}
TLKC = {"kind": "confidence-bound", "L": 1, "K": 5}
FAMILY = ["kanon/pretsa", "kanon/best-first", "kanon/a-star", "kanon/optimal"]


def planned(folder: Path, goal: dict[str, Any], kept: str = "pseudonymise", **more: Any) -> Plan:
    """A plan for ``goal`` over patients, whose names are released under others."""
    attributes = {
        "case:concept:name": {"role": "identifier"},
        "concept:name": {"role": "control-flow"},
        UNIT: {"role": "identifier", "treatment": kept},
        "*": {"treatment": "drop"},
    }
    spec = {
        "unit": {"attribute": UNIT, "max_cases": 50},
        "attributes": attributes | more.pop("attributes", {}),
        "guarantees": [goal],
        **({"expose": {UNIT: "the partner needs it"}} if kept != "drop" else {}),
        **more,
    }
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": META,
        "spec": spec,
    }
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(document), "utf-8")
    policy = cloakwork.load_policy(file)
    return cloakwork.make_plan(policy, policy.facts())


def rows(cases: list[tuple[str, str | None]], **more: list[Any]) -> pl.DataFrame:
    """One event for each letter of each case's activities, in order; ``more``: further case
    attributes.
    """
    events = [
        (case, place) for case, (course, _) in enumerate(cases) for place in range(len(course))
    ]
    columns: dict[str, list[Any]] = {
        "case:concept:name": [f"c{case}" for case, _ in events],
        "concept:name": [cases[case][0][place] for case, place in events],
        "time:timestamp": [f"2024-01-01T00:00:{place:02d}Z" for _, place in events],
        UNIT: [cases[case][1] for case, _ in events],
    }
    columns |= {
        f"case:{name}": [values[case] for case, _ in events] for name, values in more.items()
    }
    return pl.DataFrame(columns, schema_overrides={UNIT: pl.String})


def log_of(cases: list[tuple[str, str | None]], **more: list[Any]) -> cloakwork.EventLog:
    return cloakwork.EventLog.from_polars(rows(cases, **more))


SOME_WITHOUT = [("abc", f"p{case}") for case in range(20)] + [("z", None)] * 7
"""Seven cases of an activity sequence of their own, without any patient."""


def patients_of_courses(log: cloakwork.EventLog) -> dict[tuple[str, ...], set[str]]:
    """Who has each activity sequence of a release, read row by row."""
    labels = log.events["concept:name"].to_list()
    found: dict[tuple[str, ...], set[str]] = {}
    for case, patient in enumerate(log.cases[UNIT].to_list()):
        course = tuple(labels[log.offsets[case] : log.offsets[case + 1]])
        found.setdefault(course, set()).update([] if patient is None else [patient])
    return found


def release(plan: Plan, log: cloakwork.EventLog, folder: Path) -> cloakwork.EventLog:
    return cloakwork.apply(plan, log, ledger=f"sqlite:///{folder / 'ledger.db'}").log


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("used", FAMILY)
def test_k_counts_patients_that_there_are(used: str, scope: str, tmp_path: Path) -> None:
    """Seven cases of nobody are no five patients; they move, and are not lost."""
    allowed = {"allow": [used, "kanon/fill", "attributes/*", "bound", "timestamps/*"]}
    plan = planned(tmp_path, OF_UNITS | {"scope": scope}, mechanisms=allowed)
    released = release(plan, log_of(SOME_WITHOUT), tmp_path)
    assert min(map(len, patients_of_courses(released).values())) >= 5
    assert released.cases.height == len(SOME_WITHOUT)


def test_cases_without_a_patient_stay_among_enough_patients(tmp_path: Path) -> None:
    """They are released as they are; only they do not count."""
    cases = [("ab", f"p{case}") for case in range(5)] + [("ab", None)] * 3
    released = release(planned(tmp_path, OF_UNITS), log_of(cases), tmp_path)
    assert {course: len(who) for course, who in patients_of_courses(released).items()} == {
        ("a", "b"): 5
    }
    assert released.cases.height == 8


def test_the_bound_on_confidence_counts_patients_that_there_are(tmp_path: Path) -> None:
    """Whoever knows the one activity finds nobody's cases only."""
    released = release(planned(tmp_path, TLKC), log_of(SOME_WITHOUT), tmp_path)
    assert min(map(len, patients_of_courses(released).values())) >= 5


@pytest.mark.parametrize("kept", ["pseudonymise", "drop"])
@pytest.mark.parametrize("goal", [OF_UNITS, TLKC], ids=["k", "tlkc"])
@pytest.mark.parametrize(
    "patients", [[None] * 12, ["p", "q", "r", "s", *[None] * 8]], ids=["none", "four"]
)
def test_too_few_patients_are_refused_in_one_line(
    goal: dict[str, Any], kept: str, patients: list[str | None], tmp_path: Path
) -> None:
    """However many cases there are."""
    log = log_of([("ab", patient) for patient in patients])
    with pytest.raises(
        Infeasible, match=r"= 5, but the log holds [04] different values of 'case:patient'"
    ) as refused:
        release(planned(tmp_path, goal, kept), log, tmp_path)
    assert refused.value.exit_code == 3
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("goal", [OF_UNITS, TLKC], ids=["k", "tlkc"])
def test_a_log_without_the_attribute_is_refused(goal: dict[str, Any], tmp_path: Path) -> None:
    """There is nobody to count."""
    log = cloakwork.EventLog.from_polars(rows([("ab", None)] * 12).drop(UNIT))
    with pytest.raises(Infeasible, match=r"case:patient"):
        release(planned(tmp_path, goal, "drop"), log, tmp_path)


def test_quasi_identifiers_are_shared_by_patients_that_there_are(tmp_path: Path) -> None:
    """Ages of nobody's cases become coarser until five patients share them."""
    cases = [("ab", f"p{case}") for case in range(10)] + [("ab", None)] * 6
    age = {"case:age": {"role": "quasi-identifier", "bins": [0, 40, 80]}}
    goal = OF_UNITS | {"over": ["control-flow", "case:age"]}
    plan = planned(tmp_path, goal, attributes=age)
    released = release(plan, log_of(cases, age=[20] * 10 + [60] * 6), tmp_path).cases
    groups = (
        released.group_by("case:age")
        if "case:age" in released.columns
        else released.group_by(pl.lit(0).alias("all"))
    )
    assert groups.agg(pl.col(UNIT).drop_nulls().n_unique())[UNIT].to_numpy().min() >= 5


def test_the_checks_count_nobody_as_nobody() -> None:
    """Whatever made the log."""
    log, unit = log_of(SOME_WITHOUT), Unit(attribute=UNIT, max_cases=50)
    assert smallest_group(log, KAnonymity(kind="k-anonymity", k=5, count="units"), unit) == 0
    assert smallest_group(log, KAnonymity(kind="k-anonymity", k=5), unit) == 7
    found = worst_knowledge(log, ConfidenceBound(kind="confidence-bound", L=1, K=5), unit)
    assert found is not None
    assert found.smallest == 0


def test_cases_of_nobody_do_not_dilute_what_patients_reveal() -> None:
    """All five patients are ill; five cases without a patient are not."""
    cases = [("a", f"p{case}") for case in range(5)] + [("a", None)] * 5
    log = log_of(cases, illness=["flu"] * 5 + [None] * 5)
    goal = ConfidenceBound(kind="confidence-bound", L=1, K=5, C=0.6, attribute="case:illness")
    found = worst_knowledge(log, goal, Unit(attribute=UNIT, max_cases=50))
    assert found is not None
    assert found.confidence == 1.0


def test_suppression_agrees_about_what_patients_reveal(tmp_path: Path) -> None:
    """The same log is refused by the mechanism, not by the check behind it."""
    cases = [("a", f"p{case}") for case in range(5)] + [("a", None)] * 5
    log = log_of(cases, illness=["flu"] * 5 + [None] * 5)
    goal = TLKC | {"C": 0.6, "attribute": "case:illness"}
    plan = planned(tmp_path, goal, attributes={"case:illness": {"role": "sensitive"}})
    with pytest.raises(Infeasible, match=r"more than C = 0.6"):
        release(plan, log, tmp_path)


@pytest.mark.parametrize("goal", [OF_UNITS, TLKC], ids=["k", "tlkc"])
def test_the_premise_says_so(goal: dict[str, Any], tmp_path: Path) -> None:
    """Under differential privacy, and only there, such a case is a unit of its own."""
    said = " ".join(assumptions_in_words(planned(tmp_path, goal).claims[0]))
    assert "a case without 'case:patient' counts as no unit" in said
    assert "unit of its own" not in said


def test_differential_privacy_protects_each_case_without_a_unit(tmp_path: Path) -> None:
    """Its premise is as it was."""
    goal = {"kind": "differential-privacy", "epsilon": 1.0, "delta": 1e-6, "over": ["control-flow"]}
    said = " ".join(assumptions_in_words(planned(tmp_path, goal, "drop").claims[0]))
    assert "a case without 'case:patient' is a unit of its own" in said
