"""What the internal report says of a log: contradicted facts, and columns that look like times."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork import make_plan
from cloakwork.base.facts import Facts, ProcessRules, RangeType, Window
from cloakwork.evaluation.utility import TimeHints, contradicted_facts
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.model import Plan
from cloakwork.plan.policies import parse_policy
from contracts.sample_logs import log_of
from log_in_parts import LogInParts

CASES = 100
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def log_with(**columns: list[Any]) -> EventLog:
    """A log of cases of two events, an hour apart; ``columns``: values by case."""
    rows = {
        "case:concept:name": [f"c{place}" for place in range(CASES) for _ in range(2)],
        "concept:name": ["A", "B"] * CASES,
        "time:timestamp": [
            BEGIN + timedelta(days=place, hours=hour) for place in range(CASES) for hour in range(2)
        ],
    }
    doubled = {
        name: [value for value in given for _ in range(2)] for name, given in columns.items()
    }
    return EventLog.from_polars(pl.DataFrame(rows | doubled))


BERLIN = timezone(timedelta(hours=1))
ALL_YEAR = Window(
    start=datetime(2024, 1, 1, 1, tzinfo=BERLIN), end=datetime(2025, 1, 1, tzinfo=BERLIN)
)
NARROW = Window(start=BEGIN, end=BEGIN + timedelta(days=24))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (Facts(alphabet=("A", "B", "C")), ()),
        (Facts(alphabet=("A",)), ("50% of the log's events have activities",)),
        (Facts(alphabet=("A",), measured=("alphabet",)), ()),
        (Facts(rules=ProcessRules(starts_with=("A",), before=(("A", "B"),))), ()),
        (Facts(rules=ProcessRules(starts_with=("B",))), ("100% of the log's cases break",)),
        # What is not declared is dropped first.
        (
            Facts(alphabet=("B", "C"), rules=ProcessRules(starts_with=("B",))),
            ("50% of the log's events have activities",),
        ),
        (Facts(window=ALL_YEAR), ()),
        (Facts(window=NARROW), ("75% of the log's cases start outside of assume.window",)),
        (Facts(longest_gap=timedelta(hours=1)), ()),
        (Facts(longest_gap=timedelta(minutes=59)), ("100% of the log's gaps are longer",)),
    ],
)
def test_contradicted_activities_and_times_are_named(facts: Facts, said: tuple[str, ...]) -> None:
    found = contradicted_facts(log_with(), facts, ())
    assert len(found) == len(said)
    assert all(note.startswith(start) for note, start in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("values", "domain", "outside"),
    [
        (["low"] * 90 + ["Low"] * 10, ("low", "high"), "10%"),
        (["low"] * 90 + [None] * 10, ("low", "high"), None),
        ([5] * 100, ("5", "6"), None),
        ([5.0] * 99 + [7.0], (5, 6), "1%"),
        (["5"] * 100, (5.0,), None),
        ([True] * 80 + [False] * 20, (True,), "20%"),
        (["True"] * 100, (True, False), None),
        ([None] * 100, ("low",), None),
    ],
)
def test_values_outside_of_a_domain_are_counted(
    values: list[Any], domain: tuple[Any, ...], outside: str | None
) -> None:
    found = contradicted_facts(log_with(risk=values), Facts(domains={"risk": domain}), ["risk"])
    expected = () if outside is None else (f"{outside} of the log's values of 'risk' are none of",)
    assert len(found) == len(expected)
    assert all(note.startswith(start) for note, start in zip(found, expected, strict=True))


def test_numbers_outside_of_a_range_are_counted() -> None:
    facts = Facts(ranges={"case:age": (0, 120)})
    ages: dict[str, list[Any]] = {"case:age": [30] * 98 + [200, -1]}
    (note,) = contradicted_facts(log_with(**ages), facts, ["case:age"])
    assert note == "2% of the log's values of 'case:age' lie outside of its range"


def test_an_attribute_that_the_log_lacks_is_named() -> None:
    """The prefix of attributes of cases is easily forgotten."""
    facts = Facts(ranges={"age": (0, 120)})
    ages: dict[str, list[Any]] = {"case:age": [30] * CASES}
    assert contradicted_facts(log_with(**ages), facts, ["age"]) == (
        "the log has no attribute 'age'",
    )


def test_an_empty_log_contradicts_little() -> None:
    facts = Facts(alphabet=("A",), window=NARROW, longest_gap=timedelta(hours=1))
    assert contradicted_facts(EventLog.empty(), facts, ()) == ()


@pytest.mark.parametrize(
    ("values", "type_", "limits", "outside"),
    [
        ([BEGIN.date()] * 99 + [BEGIN.date() - timedelta(days=1)], "date", (19_723, 19_725), "1%"),
        (["2024-01-02"] * 99 + ["soon"], "date", (19_723, 19_725), "1%"),
        ([BEGIN] * 98 + [BEGIN + timedelta(days=1)] * 2, "time", (0, 19_723 * 86_400), "2%"),
        ([5] * 97 + [50] * 3, "integer", (0, 10), "3%"),
    ],
)
def test_days_outside_of_a_range_are_counted(
    values: list[Any], type_: RangeType, limits: tuple[float, float], outside: str
) -> None:
    facts = Facts(ranges={"due": limits}, types={"due": type_})
    (found,) = contradicted_facts(log_with(due=values), facts, ["due"])
    assert found == f"{outside} of the log's values of 'due' lie outside of its range"


def test_lists_are_named() -> None:
    (found,) = contradicted_facts(
        log_with(tags=[["a"]] * CASES), Facts(domains={"tags": ("a",)}), ["tags"]
    )
    assert found == "the log's values of 'tags' are lists, which are released as missing"


NAMES = ("day", "text", "words", "most", "fewest", "missing", "none", "truth", "case:number")
KEPT = "".join(f'    "{name}": {{role: insensitive, treatment: keep}}\n' for name in NAMES)
EXPOSED = ", ".join(f'"{name}": for a test' for name in NAMES)
POLICY = f"""
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: p, version: 1.0.0, owner: o, purpose: test, dataset: d}}
spec:
  attributes:
    "case:concept:name": {{role: identifier}}
    "concept:name": {{role: control-flow}}
    "time:timestamp": {{role: timestamp}}
{KEPT}  guarantees:
    - {{kind: k-anonymity, k: 2, over: [control-flow]}}
    - {{kind: metric-privacy, epsilon: 1.0, shift: 1h, over: [timestamps]}}
  expose: {{{EXPOSED}}}
"""


def hinted(log: EventLog, plan: Plan) -> set[str]:
    """The columns that are named, the same of the log and of its batches."""
    found = set(TimeHints(plan).notes(log))
    for parts in (1, 3, 9):
        assert set(TimeHints(plan).notes(LogInParts.evenly(log, parts))) == found
    return {hint.split("'")[1] for hint in found}


def test_types_texts_and_most_numbers_tell() -> None:
    """A few numbers far off move nothing; nor does one batch that has nothing else."""
    plan = make_plan(parse_policy(POLICY))
    log = log_of([["a"]] * 9)
    seconds = 1.7e9
    columns = {
        "day": pl.Series([None] * 8 + [datetime(2020, 1, 1, tzinfo=UTC)]),
        "text": ["nothing"] * 8 + ["on 2020-01-31"],
        "words": ["nothing"] * 9,
        "most": [0.0] * 4 + [seconds] * 5,
        "fewest": [0.0] * 5 + [seconds] * 4,
        "missing": pl.Series([None] * 7 + [seconds] * 2),
        "none": pl.Series([None] * 9, dtype=pl.Float64),
        "truth": [True] * 9,
    }
    events = log.events.with_columns(pl.Series(name, values) for name, values in columns.items())
    cases = log.cases.with_columns(pl.Series("case:number", np.arange(9) + int(seconds)))
    given = replace(log, events=events, cases=cases)

    assert hinted(given, plan) == {"day", "text", "most", "missing", "case:number"}
    assert hinted(given.keep_cases(np.arange(0)), plan) == {"day"}
