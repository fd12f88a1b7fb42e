"""The checks of t-closeness and l-diversity against slow and obvious ones, on small logs."""

import math
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.facts import Unit
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import LDiversity, TCloseness
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.log.formats import read_log, write_log
from conftest import runs
from contracts.sample_logs import BEGIN, log_of
from contracts.value_logs import CLASSES, KINDS, logs_with_values, with_values
from guarantees.by_definition import by_rank, plain_distance, plain_groups
from guarantees.measuring import largest_distance, least_diversity, measure, require


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attribute", ["x", "case:x"])
@pytest.mark.parametrize("classes", CLASSES)
@settings(max_examples=runs(8))
@given(data=st.data())
def test_both_measures_are_those_of_the_definitions(
    kind: str, attribute: str, classes: Any, data: st.DataObject
) -> None:
    """Distances by scipy, variety by counting."""
    log = data.draw(logs_with_values(kind, attribute))
    groups = plain_groups(log, attribute, classes)
    scale: Any = data.draw(st.sampled_from(["rank", "range"]))
    closeness = TCloseness(
        kind="t-closeness", t=1, attribute=attribute, classes=classes, scale=scale
    )
    far = largest_distance(log, closeness)
    varied = {
        variety: least_diversity(
            log,
            LDiversity(
                kind="l-diversity", l=2, attribute=attribute, variety=variety, classes=classes
            ),
        )
        for variety in ("distinct", "entropy")
    }
    every = [value for _, whole in groups for value in whole if value is not None]
    if not every:
        assert (far, varied) == (None, {"distinct": None, "entropy": None})
        return
    width = (max(every) - min(every) if kind in ("whole", "decimal") else 0) or 1
    place = by_rank if scale == "rank" else lambda value, _: value / width
    distances = [plain_distance(part, whole, place) for part, whole in groups]
    assert all(exact <= bound + 1e-9 for exact, bound in distances)
    assert far == pytest.approx(max(bound for _, bound in distances), abs=1e-9)
    if None not in {value for _, whole in groups for value in whole}:
        assert far == pytest.approx(max(exact for exact, _ in distances), abs=1e-9)
    groups = [
        (there, [])
        for part, _ in groups
        if (there := [value for value in part if value is not None])
    ]
    if not groups:
        assert varied == {"distinct": None, "entropy": None}
        return
    assert varied["distinct"] == min(len(set(part)) for part, _ in groups)
    shares = [[count / len(part) for count in Counter(part).values()] for part, _ in groups]
    entropies = [math.exp(-sum(share * math.log(share) for share in part)) for part in shares]
    assert varied["entropy"] == pytest.approx(min(entropies))


CYCLES = log_of(
    [["a", "b"], ["a", "b"], ["a", "c", "b"]],
    [
        [BEGIN, BEGIN + timedelta(hours=1)],
        [BEGIN, BEGIN + timedelta(hours=3)],
        [BEGIN, None, BEGIN + timedelta(hours=9)],
    ],
)


def test_cycle_times_are_times_since_the_event_before() -> None:
    """Gaps of 1 and 3 hours in one class; in the other nobody knows: its neighbour has no time."""
    goal = LDiversity(kind="l-diversity", l=2, attribute="timestamps")
    assert least_diversity(CYCLES, goal) == 2
    moved = CYCLES.events.with_columns(pl.col(TIMESTAMP).fill_null(BEGIN + timedelta(hours=4)))
    whole = EventLog(moved, CYCLES.cases, CYCLES.offsets)
    assert least_diversity(whole, goal) == 1
    # b: {1, 3} against {1, 3, 5}: (1/6 + 1/3) x 2 hours; {5} against it: 2 hours; the range is 4
    # hours (1 to 5, c takes 4).
    closeness = TCloseness(kind="t-closeness", t=0.5, attribute="timestamps", scale="range")
    # By rank, 1, 3 and 5 lie at 1/6, 1/2 and 5/6: {5} is 1/3 from them on average.
    ranked = TCloseness(kind="t-closeness", t=0.5, attribute="timestamps")
    assert largest_distance(whole, ranked) == pytest.approx(1 / 3)
    assert largest_distance(whole, closeness) == pytest.approx(0.5)
    require(whole, closeness)
    with pytest.raises(GuaranteeBroken, match=r"0\.5 from all values"):
        require(whole, closeness.model_copy(update={"t": 0.49}))
    with pytest.raises(GuaranteeBroken, match=r"holds 1 different values"):
        require(whole, goal)


def test_nothing_to_measure_holds() -> None:
    """No log, no column, no values: nothing is given away."""
    for log in (
        EventLog.empty(),
        log_of([["a"]] * 3),
        with_values(log_of([["a"]] * 3), "Age", [None] * 3),
    ):
        for goal in (
            TCloseness(kind="t-closeness", t=0.1, attribute="Age"),
            LDiversity(kind="l-diversity", l=2, attribute="Age"),
        ):
            found = measure(log, goal, Unit())
            assert found is not None
            assert found.holds
            assert "no value of 'Age'" in found.seen


def test_what_is_no_number_has_no_distance() -> None:
    """An infinite value cannot be passed over: it would be released without any bound."""
    log = with_values(log_of([["a"]] * 3), "Age", [1.0, math.inf, 2.0])
    with pytest.raises(GuaranteeBroken, match="not finite"):
        largest_distance(log, TCloseness(kind="t-closeness", t=1, attribute="Age"))


def test_a_promise_about_probabilities_is_not_measured() -> None:
    """Stochastic t-closeness says nothing about any one release."""
    goal = TCloseness(kind="t-closeness", t=2, attribute="timestamps", distance="stochastic")
    assert goal.check(Unit()) is None


WRITTEN = {
    "whole": [3, 1, None, 2, 7, 7],
    "decimal": [0.1, 1 / 3, None, 2.5e-7, 1e6, 2.0],
    "text": ["burn", "flu", None, "flu", "colic", "burn"],
    "truth": [True, False, None, True, True, False],
    "time": [
        BEGIN,
        BEGIN + timedelta(microseconds=7),
        None,
        BEGIN + timedelta(days=3),
        BEGIN,
        BEGIN,
    ],
}


@pytest.mark.parametrize("form", ["xes", "csv", "parquet"])
def test_a_written_log_measures_the_same(form: Any, tmp_path: Path) -> None:
    """What verify reads again has the distances and the variety of what was released."""
    log = log_of([["a", "b"], ["a"], ["a", "b"], ["a"]])
    for kind, values in WRITTEN.items():
        log = with_values(log, kind, values)
    write_log(log, tmp_path / f"log.{form}", form)
    read = read_log(tmp_path / f"log.{form}")
    for attribute in (*WRITTEN, "timestamps"):
        near = TCloseness(kind="t-closeness", t=1, attribute=attribute)
        far = pytest.approx(largest_distance(log, near), abs=1e-9)
        assert largest_distance(read, near) == far, attribute
        varied = LDiversity(kind="l-diversity", l=2, attribute=attribute)
        assert least_diversity(read, varied) == least_diversity(log, varied), attribute
