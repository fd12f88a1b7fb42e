"""Times whose durations follow a regression."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.timestamps.regression import TimestampRegression
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import EVERY_GOAL, log_of

MECHANISM = TimestampRegression()
FACTS = Facts(
    window=Window(start=datetime(2019, 12, 1, tzinfo=UTC), end=datetime(2020, 12, 1, tzinfo=UTC)),
    longest_gap=timedelta(days=100),
)
DAYS = Facts(window=FACTS.window, longest_gap=timedelta(days=2), grid=timedelta(days=1))
MADE = log_of_variants([("a", "b"), ("a", "c"), ("a",)], np.array([150, 150, 4]))
START = datetime(2020, 3, 2, 9, tzinfo=UTC)


def source():
    """Cases that end in b take ten minutes, those that end in c forty days."""
    variants = [["a", "b"]] * 150 + [["a", "c"]] * 150
    spans = [timedelta(minutes=10)] * 150 + [timedelta(days=40)] * 150
    return log_of(variants, [[START, START + span] for span in spans])


def release(mechanism, log, facts=FACTS, mu=0.5, made=MADE):
    found = mechanism.offer_part(PartOfGoal((TIMESTAMPS,), mu, 0.0), facts, {})
    assert isinstance(found, Offer), found
    return run_step(mechanism, found.params, log, reproducible(1), facts, None, released=made)


def hours(log):
    """From the first to the last time of each case of two events: by its last activity."""
    times = log.events[TIMESTAMP].dt.timestamp("us").to_numpy() / 3.6e9
    last = log.offsets[1:][np.diff(log.offsets) > 1] - 1
    labels = log.events["concept:name"].cast(pl.String).to_numpy()[last]
    return {label: (times[last] - times[last - 1])[labels == label] for label in ("b", "c")}


def test_it_is_a_part_of_a_goal_and_none_by_itself():
    """It writes times alone."""
    assert MECHANISM.serves_parts
    assert all(MECHANISM.offer(goal, FACTS, {}).kind == "never" for goal in EVERY_GOAL)
    refused = MECHANISM.offer_part(PartOfGoal((TIMESTAMPS, "org:resource"), 0.5, 0.0), FACTS, {})
    assert isinstance(refused, Refusal)
    assert (
        MECHANISM.offer_part(PartOfGoal((TIMESTAMPS,), 0.5, 0.0), FACTS, {"x": 1}).kind
        == "misconfigured"
    )


def test_durations_follow_the_last_activity():
    """As they do in the log, at a moderate mu."""
    found = hours(release(MECHANISM, source()))
    assert np.median(found["b"]) < 24
    assert 24 * 20 < np.median(found["c"]) < 24 * 80


@pytest.mark.parametrize("facts", [DAYS, Facts(unit=Unit(attribute="case:who", max_cases=2))])
def test_few_bins_undeclared_facts_and_units(facts):
    """A grid so coarse that there are two bins; units of two cases, whose owners no step needs."""
    after = release(MECHANISM, source(), facts)
    assert after.events[TIMESTAMP].null_count() == 0
    assert (np.concatenate([*hours(after).values()]) >= 0).all()


def test_what_has_no_durations_takes_no_step():
    """Where no released case has two events, times are drawn all the same."""
    made = log_of_variants([("a",)], np.array([5]))
    assert release(MECHANISM, source(), made=made).events[TIMESTAMP].null_count() == 0
