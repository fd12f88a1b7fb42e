"""The confidence bound over the output, for any log and guarantee, by the independent checker."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.facts import Facts, Unit
from cloakwork.errors import MechanismError
from cloakwork.guarantees import ConfidenceBound
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.kanon.tlkc import Tlkc
from cloakwork.mechanisms.steps import MapCases
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import assert_is_a_log
from conftest import runs
from contracts.sample_logs import BEGIN, RESOURCE, courses_of, log_of
from guarantees.measuring import require

TLKC = Tlkc()
PERSON, ILLNESS = "case:Person", "case:Illness"
HOUR = timedelta(hours=1)


@st.composite
def logs(draw: st.DrawFn) -> EventLog:
    """Up to 40 cases over five activities, some with a person, an illness and wards, events up to
    three hours apart.
    """
    sequences = draw(st.lists(st.text("abcde", max_size=6), max_size=40))
    gaps = draw(st.randoms(use_true_random=False))
    times = []
    for row, sequence in enumerate(sequences):
        hours = np.cumsum([gaps.choice([0, 0, 1, 3]) for _ in sequence])
        times.append(
            [
                BEGIN + timedelta(days=row, minutes=gaps.randrange(5)) + int(hour) * HOUR
                for hour in hours
            ]
        )
    log = log_of(sequences, [sorted(case) for case in times])
    persons = [gaps.choice(["p", "q", "r", "s", "t", None]) for _ in sequences]
    illnesses = [gaps.choice(["flu", "cold", "gout", None, None, None]) for _ in sequences]
    wards = [gaps.choice(["north", "south", None, None]) for _ in range(log.events.height)]
    cases = log.cases.with_columns(
        pl.Series(PERSON, persons, dtype=pl.String), pl.Series(ILLNESS, illnesses, dtype=pl.String)
    )
    return EventLog(
        log.events.with_columns(ward=pl.Series(wards, dtype=pl.String)), cases, log.offsets
    )


@st.composite
def goals(draw: st.DrawFn) -> ConfidenceBound:
    """Any guarantee of the kind that means something."""
    background = draw(st.sampled_from(["set", "multiset", "sequence", "relative"]))
    attribute = draw(st.sampled_from([None, ILLNESS, "ward"]))
    return ConfidenceBound(
        kind="confidence-bound",
        L=draw(st.integers(1, 4)),
        K=draw(st.integers(2, 6)),
        C=draw(st.sampled_from([0.3, 0.5, 0.8])) if attribute else 1.0,
        background=background,
        precision=draw(st.sampled_from([HOUR, 4 * HOUR])) if background == "relative" else None,
        attribute=attribute,
    )


@pytest.mark.parametrize("person", [None, PERSON])
@settings(max_examples=runs(40))
@given(log=logs(), goal=goals())
def test_releases_keep_the_bound(person: str | None, log: EventLog, goal: ConfidenceBound) -> None:
    """No knowledge finds too few or tells too much; nothing is invented, and what is kept keeps its
    order and values.
    """
    unit = Unit(attribute=person, max_cases=40)
    offer = TLKC.offer(goal, Facts(unit=unit), {})
    assert isinstance(offer, Offer)
    try:
        decision = TLKC.decide(
            offer.params, TLKC.step(offer.params, Facts()).summary.of(log), secret()
        )
    except MechanismError:
        return
    action = TLKC.rewrite(offer.params, decision, secret().stream())
    assert isinstance(action, MapCases)
    released = action.apply(log)

    require(released, goal, unit)
    require(released, goal.model_copy(update={"attribute": None}))
    assert_is_a_log(released)
    assert all(courses_of(released))
    assert set(released.cases[CASE_ID]) <= set(log.cases[CASE_ID])
    kept = log.events[RESOURCE].is_in(released.events[RESOURCE].to_list())
    expected = log.events.filter(kept)
    if goal.background == "relative":
        assert released.events.drop(TIMESTAMP).equals(expected.drop(TIMESTAMP))
    else:
        assert released.events.equals(expected)
    by_sequence = dict[object, set[tuple[bool, ...]]]()
    for row, sequence in enumerate(courses_of(log)):
        mask = tuple(kept[int(log.offsets[row]) : int(log.offsets[row + 1])])
        times = tuple(log.events[TIMESTAMP][int(log.offsets[row]) : int(log.offsets[row + 1])])
        steps = (
            tuple((time - times[0]) // goal.precision for time in times) if goal.precision else ()
        )
        by_sequence.setdefault((sequence, steps), set()).add(mask)
    assert all(len(masks) == 1 for masks in by_sequence.values())
