"""A sample of the noised starts and gaps of a log, taken batch by batch: what events without a raw
time draw from, and which gap is typical of a directly-follows pair.

It holds noised values and activities only, so whatever is made of it is post-processing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.addresses import event_addresses
from cloakwork.mechanisms.timestamps.starts_and_gaps import StartsAndGaps, Steps
from cloakwork.noise import Stream

SAMPLED: Final = 10_000
"""Most values of each group that are kept: starts, gaps of an activity, gaps of a pair. Up to so
many it is all of them; beyond, the median of a sample is within 1 % of the ranks of the true one.
"""

_KIND: Final = "kind"
_START: Final = "start"
_GAP: Final = "gap"
_PAIR: Final = "pair"
_BEFORE: Final = "before"
_ACTIVITY: Final = "activity"
_PRIORITY: Final = "priority"
_VALUE: Final = "value"
_TYPICAL: Final = "typical"
_SCHEMA: Final = pl.Schema(
    [
        (_KIND, pl.String()),
        (_BEFORE, pl.String()),
        (_ACTIVITY, pl.String()),
        (_PRIORITY, pl.UInt64()),
        (_VALUE, pl.Int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class NoisedSample:
    """The aggregate: of each group the values of lowest random priority, ``SAMPLED`` at most.

    ``noised``: the noised starts and gaps of a batch. ``stream``: draws the priorities, at the
    events' addresses, so that the same values are kept however the log is parted.
    """

    noised: Callable[[EventLog], StartsAndGaps]
    stream: Stream

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The sample of one batch: ``kind``, ``before`` and ``activity`` name the group."""
        if TIMESTAMP not in batch.events.columns:
            return _SCHEMA.to_frame()
        noised = self.noised(batch)
        labels = activities_of(batch)
        # A pair's gap is measured where both events have a raw time.
        # The first event of a case has no gap, so the row before one is an event of its case.
        of_pair = noised.has_time(batch.events.height)[noised.gap_rows - 1]
        pair_rows = noised.gap_rows[of_pair]
        starts = self._measured(batch, _START, noised.start_rows, noised.starts)
        gaps = self._measured(batch, _GAP, noised.gap_rows, noised.gaps).with_columns(
            labels.gather(noised.gap_rows).alias(_ACTIVITY)
        )
        pairs = self._measured(batch, _PAIR, pair_rows, noised.gaps[of_pair]).with_columns(
            labels.gather(pair_rows - 1).alias(_BEFORE), labels.gather(pair_rows).alias(_ACTIVITY)
        )
        return _lowest_priorities(pl.concat([starts, gaps, pairs]))

    def _measured(
        self, batch: EventLog, kind: str, rows: NDArray[np.int64], values: Steps
    ) -> pl.DataFrame:
        """Values measured at ``rows``, with their priorities; of no activity yet."""
        priorities, _ = self.stream.words(event_addresses(batch, rows))
        measured = pl.DataFrame({_PRIORITY: priorities, _VALUE: values})
        return measured.select(
            pl.lit(kind).alias(_KIND),
            pl.lit("").alias(_BEFORE),
            pl.lit("").alias(_ACTIVITY),
            pl.col(_PRIORITY, _VALUE),
        )

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The lowest priorities of all batches, in their order."""
        return _lowest_priorities(summaries).sort(_PRIORITY, _VALUE, _KIND)


def _lowest_priorities(table: pl.DataFrame) -> pl.DataFrame:
    """At most ``SAMPLED`` rows a group; the lowest of all rows are among the lowest of each batch.

    Priorities have 64 random bits, so that no two of a group are equal.
    """
    highest_kept = pl.col(_PRIORITY).bottom_k(SAMPLED).max().alias("highest_kept")
    of_group = table.group_by(_KIND, _BEFORE, _ACTIVITY).agg(highest_kept)
    rows = table.join(of_group, on=[_KIND, _BEFORE, _ACTIVITY], how="left")
    return rows.filter(pl.col(_PRIORITY) <= pl.col("highest_kept")).drop("highest_kept")


@dataclass(frozen=True)
class SampledValues:
    """What the sample says.

    - ``starts``: int64; noised starts.
    - ``gaps``: int64; noised gaps. ``gap_activity``: int64; each one's activity, as an index of
      ``activities``.
    - ``activities``: distinct labels, ascending.
    - ``typical``: ``before``, ``activity`` (String) and ``typical`` (Int64), one row a
      directly-follows pair.
    """

    starts: Steps
    gaps: Steps
    gap_activity: NDArray[np.int64]
    activities: pl.Enum
    typical: pl.DataFrame

    @classmethod
    def of(cls, table: pl.DataFrame) -> "SampledValues":
        """Read the merged table of ``NoisedSample``."""
        starts = table.filter(pl.col(_KIND) == _START)[_VALUE].to_numpy()
        gaps = table.filter(pl.col(_KIND) == _GAP)
        activities = pl.Enum(gaps[_ACTIVITY].unique().sort())
        pairs = table.filter(pl.col(_KIND) == _PAIR)
        return cls(
            starts,
            gaps[_VALUE].to_numpy(),
            _codes(gaps[_ACTIVITY], activities),
            activities,
            pairs.group_by(_BEFORE, _ACTIVITY).agg(_median_bound().alias(_TYPICAL)),
        )

    def codes_of(self, labels: pl.Series) -> NDArray[np.int64]:
        """For each label its index in ``activities``: int64; -1 where no gap of it was noised."""
        return _codes(labels, self.activities)

    def typical_gaps(self, log: EventLog) -> Steps:
        """For each event a gap that is typical of its directly-follows pair, at least 1; 1 for the
        first event of a case, and where nothing is known of the pair.
        """
        labels = activities_of(log)
        follows = log.position_of_event > 0
        pairs = pl.DataFrame({_BEFORE: labels.shift(1), _ACTIVITY: labels})
        known = pairs.join(self.typical, on=[_BEFORE, _ACTIVITY], how="left", maintain_order="left")
        typical = known[_TYPICAL].fill_null(1).to_numpy()
        return np.maximum(np.where(follows, typical, 1), 1)


def activities_of(log: EventLog) -> pl.Series:
    """The activity of each event: String, empty where it is missing."""
    return log.events[ACTIVITY].cast(pl.String).fill_null("")


def _codes(labels: pl.Series, activities: pl.Enum) -> NDArray[np.int64]:
    codes = labels.cast(activities, strict=False).to_physical().cast(pl.Int64).fill_null(-1)
    return codes.to_numpy()


def _median_bound() -> pl.Expr:
    """A lower confidence bound of the median: the order statistic 1/sqrt(n) below the middle, about
    two standard errors, whatever the distribution. 1 where there are too few values.

    Where the noise hides all about a pair, its events are so drawn apart by one step only.
    """
    size = pl.len().cast(pl.Float64)
    rank = (size / 2 - size.sqrt()).floor().cast(pl.Int64)
    bound = pl.col(_VALUE).sort().get(pl.max_horizontal(rank, 0))
    return pl.when(rank >= 0).then(bound).otherwise(1)
