"""A3: a claim over times names all that it takes as known; no list of looks decides what tells
times.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import cloakwork
from cloakwork import EventLog
from cloakwork.errors import CloakworkError
from cloakwork.plan.model import Claim, Plan
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.lint import lint

POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: p, version: 1.0.0, owner: o, purpose: test, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp}
    "clock": {role: insensitive, treatment: TREATMENT}
    "*": {treatment: OTHERS}
  ASSUME
  guarantees:
    - {kind: k-anonymity, k: 2, over: [control-flow]}
    - GOAL
  expose: {clock: "for a test of claims", "*": "for a test of claims"}
  output: {format: xes}
"""
METRIC = "{kind: metric-privacy, epsilon: 1.0, shift: 1h, over: [timestamps]}"
BOUNDED = "{kind: differential-privacy, epsilon: 1.0, over: [timestamps], neighbours: bounded}"
WINDOW = "{start: 2024-01-01T00:00:00Z, end: 2025-01-01T00:00:00Z}"
ASSUME = f"assume: {{longest_case: 5, longest_gap: 1d, window: {WINDOW}}}"

SPELLINGS = (
    [1704430800123, 1704430860456],  # milliseconds since 1970: the one that was caught
    [45296.2083, 45296.2090],  # a spreadsheet's serial
    ["5 January 2024, 5 o'clock", "5 January 2024, 6 o'clock"],
    ["2024-W01-5", "2024-W01-6"],
    ["20240105T050000", "20240105T060000"],
    ["Fri Jan 5 2024", "Sat Jan 6 2024"],
    ["5 janv. 2024", "6 janv. 2024"],
    ["day 4", "day 5"],
    [4, 5],  # a counter
)


def planned(goal: str = METRIC, treatment: str = "keep", others: str = "drop") -> Plan:
    text = POLICY.replace("GOAL", goal).replace("TREATMENT", treatment).replace("OTHERS", others)
    return make_plan(
        parse_policy(text.replace("  ASSUME\n", f"  {ASSUME}\n" if goal == BOUNDED else ""))
    )


def over_times(plan: Plan) -> Claim:
    return next(claim for claim in plan.claims if claim.guarantee.over == ("timestamps",))


def given(plan: Plan) -> list[str]:
    """What the plan's claim over times says that it takes as known, read from the plan's JSON."""
    claims = json.loads(plan.model_dump_json())["claims"]
    found: Any = next(claim for claim in claims if claim["guarantee"]["kind"] != "k-anonymity")[
        "given"
    ]
    return list(found["columns"]) if isinstance(found, dict) else list(found)


def log_of(clock: list[Any]) -> EventLog:
    return EventLog.from_polars(
        pl.DataFrame(
            {
                "case:concept:name": ["1", "2", "3", "4"],
                "concept:name": ["a"] * 4,
                "time:timestamp": ["2024-01-05T05:00:00Z"] * 4,
                "clock": clock * 2,
                "ward": ["w"] * 4,
                "secret: [x]*": ["s"] * 4,
            }
        )
    )


@pytest.mark.parametrize("goal", [METRIC, BOUNDED])
@pytest.mark.parametrize("treatment", ["keep", "pseudonymise"])
def test_the_claim_names_every_column_that_is_not_made_of_noised_times(
    goal: str, treatment: str
) -> None:
    """A kept clock and a pseudonymised one, and the form of the release, whatever they look
    like.
    """
    assert {"clock", "metadata", "control-flow"} <= set(given(planned(goal, treatment)))


def test_the_sentence_says_so_in_plain_words() -> None:
    """By name, and with what follows for whoever can read a clock."""
    said = over_times(planned()).sentence
    assert (
        "clock" in said
        and "learns those times" in said
        and "not on times" not in planned().model_dump_json()
    )


def test_the_declared_window_is_named() -> None:
    """The noise for all times of a case is scaled to it."""
    claim = json.loads(planned(BOUNDED).model_dump_json())["claims"][1]
    assert isinstance(claim["given"], dict) and claim["given"]["window"]["start"].startswith(
        "2024-01-01"
    )


def test_a_pattern_stands_for_itself_in_the_plan() -> None:
    """Planning reads no log; the actual names come with the release."""
    assert "*" in given(planned(others="keep"))


@pytest.mark.parametrize("clock", SPELLINGS)
def test_no_spelling_changes_the_outcome(clock: list[Any], tmp_path: Path) -> None:
    """The claim does not depend on how a clock looks, and neither does whether there is a
    release.
    """
    try:
        release = cloakwork.apply(
            planned(), log_of(clock), ledger=f"sqlite:///{tmp_path / 'ledger.db'}"
        )
    except CloakworkError as error:
        pytest.fail(f"the run stops by how a column looks: {error}")
    assert "clock" in given(release.plan)


def test_the_statement_names_them_by_their_actual_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern of the policy released 'ward' and an oddly named attribute; the claim takes both as
    known.
    """
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "home"))
    log = log_of(["day 4", "day 5"])
    release = cloakwork.apply(
        planned(others="keep"), log, ledger=f"sqlite:///{tmp_path / 'ledger.db'}"
    )
    out = cloakwork.publish(release, tmp_path / "out")
    claim = json.loads(out.statement.model_dump_json())["guarantees"][1]
    names = claim["given"]["columns"] if isinstance(claim["given"], dict) else claim["given"]
    assert {"ward", "clock", "secret: [x]*", "control-flow", "metadata"} == set(names)
    assert cloakwork.verify(tmp_path / "out").checks


def test_lint_asks_for_each_column_beside_a_claim_over_times() -> None:
    """Only the author can tell what a column tells."""
    asked = [
        advice for advice in lint(planned().policy) if "read times off 'clock'" in advice.message
    ]
    assert [advice.steps for advice in asked] == [("spec", "attributes", "clock")]


def test_lint_does_not_ask_where_no_claim_is_over_times() -> None:
    """k-anonymity takes nothing as known."""
    text = POLICY.replace("    - GOAL\n", "").replace("  ASSUME\n", "").replace("TREATMENT", "keep")
    text = text.replace(
        '"time:timestamp": {role: timestamp}',
        '"time:timestamp": {role: timestamp, treatment: drop}',
    )
    policy = parse_policy(text.replace("OTHERS", "drop"))
    assert not [advice for advice in lint(policy) if "read times off" in advice.message]
