"""The independent checker, against all knowledge there can be, one piece after the other in plain
Python.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.facts import Unit
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import ConfidenceBound, confidence_bound
from cloakwork.guarantees.confidence_bound import WorstKnowledge
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from conftest import runs
from contracts.sample_logs import BEGIN, log_of
from guarantees.by_definition import ILLNESS, PERSON, plainly
from guarantees.measuring import require, worst_knowledge

BACKGROUNDS = ("set", "multiset", "sequence", "relative")
SEQUENCES = st.lists(st.text("abc", max_size=5), max_size=14)


def bound(**more: Any) -> ConfidenceBound:
    """A guarantee over two known events."""
    precision = timedelta(hours=1) if more.get("background") == "relative" else None
    return ConfidenceBound(
        kind="confidence-bound", **({"L": 2, "K": 2, "precision": precision} | more)
    )


def log_with(
    sequences: Sequence[str], persons: Sequence[str | None], illnesses: Sequence[str | None]
) -> EventLog:
    """Cases of persons with an illness each; every case begins at one time, an event an hour."""
    log = log_of(
        sequences,
        [
            [BEGIN + timedelta(hours=step) for step in range(len(sequence))]
            for sequence in sequences
        ],
    )
    columns = {PERSON: list(persons), ILLNESS: list(illnesses)}
    return EventLog(
        log.events,
        log.cases.with_columns(
            pl.Series(name, column, dtype=pl.String) for name, column in columns.items()
        ),
        log.offsets,
    )


@pytest.mark.parametrize("background", BACKGROUNDS)
@settings(max_examples=runs(10))
@given(sequences=SEQUENCES, longest=st.integers(1, 3), drawn=st.data())
def test_finds_what_plain_python_finds(
    background: str, sequences: list[str], longest: int, drawn: st.DataObject
) -> None:
    """In every background; by case and by person; missing persons and illnesses among them."""
    some = st.sampled_from(["p", "q", "r", None])
    persons, illnesses = ([drawn.draw(some) for _ in sequences] for _ in range(2))
    log = log_with(sequences, persons, illnesses)
    goal = bound(L=longest, background=background, attribute=ILLNESS, C=0.5)
    assert worst_knowledge(log, goal) == plainly(log, goal, persons=False)
    assert worst_knowledge(log, goal, Unit(attribute=PERSON)) == plainly(log, goal, persons=True)


def test_counts_knowledge_and_confidence() -> None:
    """Who knows b before a finds one case; who knows b finds three, of which two have the flu."""
    log = log_with(["ab", "ab", "ba", "a"], ["p"] * 4, ["flu", "flu", None, "cold"])
    assert worst_knowledge(log, bound()) == WorstKnowledge(1, None)
    assert worst_knowledge(
        log, bound(background="set", attribute=ILLNESS, C=0.5)
    ) == WorstKnowledge(3, 2 / 3)
    assert worst_knowledge(log, bound(attribute=ILLNESS, C=0.5)) == WorstKnowledge(1, 1.0)


def test_values_of_events_count_where_they_occur_at_all() -> None:
    """Twice in one case is once."""
    log = log_of(["ab", "ab"])
    log = EventLog(
        log.events.with_columns(ward=pl.Series(["x", "x", None, "y"])), log.cases, log.offsets
    )
    assert worst_knowledge(log, bound(attribute="ward", C=0.6)) == WorstKnowledge(2, 0.5)


def test_released_times_are_taken_as_they_stand() -> None:
    """Cases of one sequence at other times are not alike to somebody who knows times."""
    log = log_of(["ab"] * 2)
    assert worst_knowledge(log, bound(background="relative")) == WorstKnowledge(1, None)
    assert worst_knowledge(log, bound()) == WorstKnowledge(2, None)
    alike = log.events.with_columns(pl.lit(BEGIN).alias(TIMESTAMP))
    assert worst_knowledge(
        EventLog(alike, log.cases, log.offsets), bound(background="relative")
    ) == WorstKnowledge(2, None)


def test_an_empty_log_holds() -> None:
    """There is nobody to be known."""
    require(log_of([]), bound())
    assert worst_knowledge(log_of([]), bound()) is None


def test_a_broken_guarantee_says_what_was_seen() -> None:
    """Too few who fit, or too much told."""
    log = log_with(["ab", "ab", "b"], ["p"] * 3, ["flu", "flu", "cold"])
    with pytest.raises(GuaranteeBroken, match="up to 2 events fits at least 2 released cases"):
        require(log, bound(K=3))
    with pytest.raises(GuaranteeBroken, match=r"confidence in a value is 100\.0%.*the same value"):
        require(log, bound(attribute=ILLNESS, C=0.9))
    require(log, bound(K=2))


def test_what_is_needed_and_missing_is_said() -> None:
    """A unit that no case has; times that no event has. An attribute that nobody has is held by
    nobody.
    """
    log = log_of(["ab"] * 3)
    with pytest.raises(GuaranteeBroken, match="no column 'case:Person'"):
        worst_knowledge(log, bound(), Unit(attribute=PERSON))
    timeless = EventLog(log.events.drop(TIMESTAMP), log.cases, log.offsets)
    with pytest.raises(GuaranteeBroken, match="no column 'time:timestamp'"):
        worst_knowledge(timeless, bound(background="relative"))
    assert worst_knowledge(log, bound(attribute=ILLNESS, C=0.5)) == WorstKnowledge(3, 0.0)


def test_too_much_knowledge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, before memory is short."""
    monkeypatch.setattr(confidence_bound, "MOST_PAIRS", 50)
    monkeypatch.setattr(confidence_bound, "_SLICE", 7)
    with pytest.raises(
        GuaranteeBroken, match=r"cannot be measured: there is too much knowledge of up to 5 events"
    ):
        worst_knowledge(log_of(["abcdefgh"] * 3), bound(L=5))


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """However few rows a join may make at a time."""
    log = log_with(
        ["abcab", "bca", "", "abcab", "cab"],
        ["p", "q", None, "p", "r"],
        ["flu", None, "flu", "cold", "flu"],
    )
    goal, unit = bound(L=3, attribute=ILLNESS, C=0.5), Unit(attribute=PERSON)
    whole = worst_knowledge(log, goal, unit)
    monkeypatch.setattr(confidence_bound, "_SLICE", rows)
    assert worst_knowledge(log, goal, unit) == whole
