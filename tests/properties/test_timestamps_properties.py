"""Invariants of noised timestamps, for any log."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import Facts, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import assert_is_a_log
from contracts.sample_logs import BEGIN, log_of

GOALS = (
    MetricPrivacy(kind="metric-privacy", epsilon=0.5, shift=timedelta(minutes=90)),
    DifferentialPrivacy(
        kind="differential-privacy", epsilon=3, over=(TIMESTAMPS,), neighbours="bounded"
    ),
)
WINDOW = Window(start=BEGIN, end=BEGIN + timedelta(days=30))
EVENT = st.tuples(
    st.sampled_from("abc"),
    st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)
CASES = st.lists(st.lists(EVENT, max_size=6), max_size=10)


def in_order(case: list[tuple[str, datetime | None]]) -> tuple[list[str], list[datetime | None]]:
    """The events of a case with their times sorted, the missing ones where they were."""
    known = iter(sorted(time for _, time in case if time is not None))
    return [label for label, _ in case], [None if time is None else next(known) for _, time in case]


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.kind)
@given(cases=CASES, longest_case=st.integers(1, 8), grid=st.sampled_from(["1ms", "1s", "7m", "3d"]))
def test_times_are_complete_ordered_and_on_the_grid(
    cases: list[list[tuple[str, datetime | None]]], longest_case: int, grid: str, goal: Guarantee
) -> None:
    """And nothing else of the log changes; no log makes it stop."""
    timed_cases = [in_order(case) for case in cases]
    log = log_of([labels for labels, _ in timed_cases], [times for _, times in timed_cases])
    facts = Facts(
        window=WINDOW, longest_gap=timedelta(days=2), longest_case=longest_case, grid=grid
    )
    mechanism = TimestampLaplace()
    offer = mechanism.offer(goal, facts, {})
    assert isinstance(offer, Offer)
    released = run_step(mechanism, offer.params, log, secret(), facts)

    assert_is_a_log(released)
    assert released.events[TIMESTAMP].null_count() == 0
    assert log.events.drop(TIMESTAMP).equals(released.events.drop(TIMESTAMP))
    assert log.events[ACTIVITY].equals(released.events[ACTIVITY])
    step = facts.grid // timedelta(microseconds=1)
    assert (released.events[TIMESTAMP].dt.timestamp("us") % step == 0).all()
    if goal.kind == "differential-privacy" and released.events.height:
        first, last = released.events[TIMESTAMP].min(), released.events[TIMESTAMP].max()
        assert isinstance(first, datetime)
        assert isinstance(last, datetime)
        assert WINDOW.start - facts.grid <= first
        assert last <= WINDOW.end + 2 * facts.grid * longest_case + timedelta(days=2) * longest_case
