"""The bounds of employees against the paper's numbers, and by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cloakwork.api import risk
from cloakwork.errors import LogError
from cloakwork.evaluation.risk import employee_bounds
from cloakwork.log.eventlog import EventLog
from conftest import Said
from contracts.sample_logs import RESOURCE, log_of


def performed(cases: list[str], names: list[str | None]) -> EventLog:
    """Cases of one-letter activities; the names of who performed their events, in order."""
    log = log_of([list(case) for case in cases])
    return replace(log, events=log.events.with_columns(pl.Series(RESOURCE, names, pl.String)))


@pytest.mark.parametrize(("events", "bound"), [(6, 0.5), (12, 0.25)])
def test_the_numbers_of_the_paper(events: int, bound: float) -> None:
    """Fahrenkrog-Petersen et al., section 3.3: three of six payments may be Jim's, so that whoever
    assigns them to him is right with probability 3/6; of twelve, 3/12.
    """
    names = ["Jim"] * 3 + [f"other {row % 4}" for row in range(events - 3)]
    found = employee_bounds(performed(["p"] * events, names), None, RESOURCE).before
    assert (found.most, found.events, found.identity) == (3, events, bound)
    assert (found.places, found.alone, found.membership) == (1, 0, 0)


def test_a_place_of_one_employee_is_certain() -> None:
    """Two sequences: of four places with somebody one is Amy's alone."""
    log = performed(["ab", "ab", "c", "cd"], ["Amy", "Ben", "Amy", "Amy", None, "Eve", "Dan"])
    found = employee_bounds(log, None, RESOURCE).before
    # ab: a is Amy's and Amy's, b is Ben's and Amy's; c: nobody's; cd: one event at each place.
    assert (found.places, found.alone) == (4, 3)
    assert found.identity == 1
    assert found.attribute is not None


def test_a_release_is_bounded_by_all_that_one_performed() -> None:
    """Which of its events are whose it does not say: Amy performed three a in the log, so at most
    three of four at a place are hers, and all of two.
    """
    log = performed(["a"] * 6 + ["ab"] * 2, [*"XYZ", "Amy", "Amy", "Y", "Amy", "B", "Z", "C"])
    released = performed(["a"] * 4 + ["ab"] * 2, [None] * 8).with_columns_of(
        lambda batch: replace(batch, events=batch.events.drop(RESOURCE))
    )
    found = employee_bounds(log, released, RESOURCE).after
    assert found is not None
    # a: 3 of 4; ab: a 3 against 2, b 1 against 2.
    assert (found.places, found.alone, found.most, found.events) == (3, 1, 2, 2)
    assert employee_bounds(log, log_of([]), RESOURCE).after == found.model_copy(
        update={"places": 0, "alone": 0, "most": 0, "events": 0, "attribute": None}
    )


def test_times_that_characterise_a_class_are_measured() -> None:
    """Attribute disclosure: the distance of the t-closeness that the release would have."""
    from datetime import timedelta

    from contracts.sample_logs import BEGIN

    def at(*hours: int) -> list[object]:
        return [BEGIN + timedelta(hours=hour) for hour in hours]

    same = log_of(["ab", "ab", "abc", "abc"], [at(0, 1), at(0, 1), at(0, 1, 2), at(0, 1, 2)])
    apart = log_of(["ab", "ab", "abc", "abc"], [at(0, 1), at(0, 1), at(0, 9, 10), at(0, 9, 10)])
    names = pl.Series(RESOURCE, [f"n{row % 3}" for row in range(10)])
    of = [
        employee_bounds(
            replace(log, events=log.events.with_columns(names)), None, RESOURCE
        ).before.attribute
        for log in (same, apart)
    ]
    assert of[0] == 0
    assert of[1] is not None
    assert of[1] > 0.2


def test_an_attribute_that_names_nobody_is_refused() -> None:
    log = performed(["ab"] * 3, [None, ""] * 3)
    for name in (RESOURCE, "org:resurce"):
        with pytest.raises(LogError, match=f"no event of the log has a value of '{name}'"):
            risk(log, employees=name)


def test_the_command_says_it(tmp_path: Path, cloakwork: Callable[..., Said]) -> None:
    """In words, and as JSON."""
    log = tmp_path / "log.csv"
    rows = [
        f"c{case},{label},2024-01-0{day}T00:00:00Z,{who}"
        for case in range(12)
        for label, day, who in (("a", 1, f"n{case % 4}"), ("b", 2, f"m{case % 3}"))
    ]
    header = "case:concept:name,concept:name,time:timestamp,org:resource"
    log.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    said = cloakwork("risk", str(log), "--employees", "org:resource", "--targets", "10", "--json")
    assert said.code == 0
    bounds = json.loads(said.out)["employees"]["before"]
    assert (bounds["identity"], bounds["most"], bounds["events"]) == (4 / 12, 4, 12)
    assert bounds["membership"] == 0
    said = cloakwork("risk", str(log), "--employees", "org:resource", "--targets", "10", "--all")
    assert "33.3%" in " ".join(said.out.split())
    # A release that protects them says so beside the paper's bound; they need not be named again.
    policy = tmp_path / "staff.yaml"
    policy.write_text(POLICY, "utf-8")
    out, ledger = str(tmp_path / "out"), f"sqlite:///{tmp_path}/ledger.db"
    said = cloakwork("apply", policy, log, "--out", out, "--ledger", ledger, "--quiet")
    assert said.code == 0, said.err
    said = cloakwork("risk", log, out, "--targets", "10", "--json")
    found = json.loads(said.out)["employees"]
    # What was asked for stands on the first screen.
    said = cloakwork("risk", log, out, "--employees", "org:resource", "--targets", "10")
    assert "Who performed an event ('org:resource') is guessed right in the log" in " ".join(
        said.out.split()
    )
    assert (found["attribute"], found["claimed"]) == ("org:resource", 3)
    assert found["after"]["identity"] == 4 / 12


POLICY = """apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: staff, version: 1.0.0, owner: o, purpose: a test, dataset: d}
spec:
  unit: {attribute: "org:resource", level: event}
  attributes:
    "concept:name": {role: control-flow}
    "org:resource": {role: identifier, treatment: drop}
    "*": {treatment: drop}
  guarantees: [{kind: k-anonymity, k: 3}]
"""
