"""Bins of spans of time, and slots of a week."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import UNIX_EPOCH
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins


@given(st.integers(1, 4_000_000_000), st.integers(1, 128))
def test_bins_part_all_spans(longest, bins):
    """Every span has one bin, and what is drawn of a bin lies in it."""
    found = LogBins.up_to(longest, bins)
    assert 1 <= len(found) <= max(bins, 2)
    assert found.edges[0] == 0
    assert found.edges[-1] == longest + 1
    assert (np.diff(found.edges) > 0).all()
    steps = np.array([0, 1, longest // 2, longest, longest + 5, -3])
    place = found.place(steps)
    inside = np.clip(steps, 0, longest)
    assert (found.edges[place] <= inside).all()
    assert (inside < found.edges[place + 1]).all()
    every = np.arange(len(found))
    for part in (0.0, 0.5, 1 - 2**-53):
        assert (found.place(found.inside(every, np.full(len(found), part))) == every).all()


def test_short_spans_have_bins_of_their_own():
    """Where the grid allows no finer ones."""
    assert LogBins.up_to(1000, 64).edges[:4].tolist() == [0, 1, 2, 3]


def test_slots_of_a_week():
    clock = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)))
    assert (clock.hours, clock.slots) == (24, 168)
    monday = datetime(2024, 1, 1, 9, 30, tzinfo=UTC)
    steps = clock.grid.nearest(np.array([int(monday.timestamp()) * 1_000_000]))
    assert clock.slot(steps).tolist() == [9]
    assert clock.steps(clock.local(steps)).tolist() == steps.tolist()


@pytest.mark.parametrize("hours", [-11, 0, 1, 13])
def test_a_clock_of_days_counts_local_ones(hours):
    zone = timezone(timedelta(hours=hours))
    clock = Clock.of(Grid(datetime(2000, 1, 1, tzinfo=zone), timedelta(days=1)))
    assert clock.slots == 7
    tuesday = datetime(2024, 1, 2, tzinfo=zone)
    steps = clock.grid.nearest(np.array([int(tuesday.timestamp()) * 1_000_000]))
    assert clock.slot(steps).tolist() == [1]
    assert clock.steps(clock.local(steps)).tolist() == steps.tolist()
