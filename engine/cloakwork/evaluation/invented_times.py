"""Invented times: starts within a declared window, gaps up to a declared longest one."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Window
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP

_SECOND: Final = 1_000_000
_HOUR: Final = 3_600 * _SECOND
_DAY: Final = 24 * _HOUR
_MONDAY: Final = 3
"""1 January 1970 was a Thursday."""

_SHORTEST_MEDIAN: Final = 60.0
"""Seconds; medians of gaps lie between this and a tenth of the longest gap."""

_BREADTH: Final = 1.2
"""Standard deviation of the logarithm of a gap."""


@dataclass(frozen=True, slots=True)
class InventedTimes:
    """Most cases start in office hours; the gap before an event goes by the pair of activities."""

    window: Window
    longest_gap: timedelta

    def drawn(
        self, codes: Ints, offsets: Ints, activities: int, draw: np.random.Generator
    ) -> pl.Series:
        """A time for each event, ascending within a case.

        ``codes``: each event's activity, 0 to ``activities`` - 1, int64, shape (events,);
        ``offsets``: as in ``EventLog``.
        """
        gaps = self._gaps(codes, activities, draw)
        first = offsets[:-1][np.diff(offsets) > 0]
        gaps[first] = 0
        starts = np.zeros(len(offsets) - 1, np.int64)
        starts[:] = self._starts(len(starts), draw)
        passed = np.cumsum(gaps)
        lengths = np.diff(offsets)
        since_first = passed - np.repeat(passed[first], lengths[lengths > 0])
        stamps = np.repeat(starts, lengths) + since_first
        return pl.Series(TIMESTAMP, stamps, pl.Int64).cast(pl.Datetime("us", "UTC")).cast(TIME_TYPE)

    def _starts(self, count: int, draw: np.random.Generator) -> Ints:
        begin = int(self.window.start.timestamp()) * _SECOND
        span = max(1, int(self.window.end.timestamp()) * _SECOND - begin)
        anywhere = begin + (draw.random(count) * span).astype(np.int64)
        days = anywhere // _DAY
        weekday = (days + _MONDAY) % 7 < 5
        office = days * _DAY + ((8 + 9 * draw.beta(2, 2, count)) * _HOUR).astype(np.int64)
        in_office = weekday & (draw.random(count) < 0.85)
        starts = np.where(in_office, office, anywhere)
        return np.asarray(np.clip(starts, begin, begin + span - 1), np.int64)

    def _gaps(self, codes: Ints, activities: int, draw: np.random.Generator) -> Ints:
        longest = self.longest_gap.total_seconds()
        most = max(longest / 10, _SHORTEST_MEDIAN)
        logs = draw.uniform(np.log(_SHORTEST_MEDIAN), np.log(most), activities * activities)
        pairs = np.concatenate([[0], codes[:-1] * activities + codes[1:]])
        seconds = np.exp(logs[pairs[: len(codes)]] + _BREADTH * draw.standard_normal(len(codes)))
        return np.asarray(np.minimum(seconds, longest) * _SECOND, np.int64)
