"""A case as a start and gaps: one raw time moves few of them, and by little."""

from datetime import UTC, datetime, timedelta

import numpy as np

from cloakwork.mechanisms.timestamps.starts_and_gaps import Bounds, Grid, starts_and_gaps_of
from contracts.sample_logs import BEGIN, log_of

GRID = Grid(datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1))


def test_one_raw_time_moves_two_values_by_at_most_the_rounded_shift() -> None:
    """Shifts of every size, on either side of the grid, at the first, a middle and the last event,
    some without time.
    """
    random = np.random.default_rng(5)
    microseconds = np.sort(random.integers(0, 10**10, size=8))
    for moved in range(8):
        for shift in (1, 499_999, 500_000, 999_999, 1_000_000, 3_600_000_000):
            times = [BEGIN + timedelta(microseconds=int(value)) for value in microseconds]
            others = [
                time + timedelta(microseconds=shift) * (row == moved)
                for row, time in enumerate(times)
            ]
            one, two = (
                starts_and_gaps_of(
                    log_of(
                        ["abcdefgh"], [[None if row in (2, 5) else case[row] for row in range(8)]]
                    ),
                    GRID,
                    FREE,
                )
                for case in (times, others)
            )
            differences = np.abs(np.concatenate([one.starts - two.starts, one.gaps - two.gaps]))
            assert np.count_nonzero(differences) <= 2
            assert differences.max() <= -(-shift // 1_000_000)


FREE = Bounds(released=(-(10**12), 10**12))
