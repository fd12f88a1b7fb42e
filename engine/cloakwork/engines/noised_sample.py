"""A sample of the noisy starts and gaps of a log, taken batch by batch: by what is usual in the log
a mechanism completes times.

It holds noisy values and activities only, so whatever is made of it is post-processing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import named
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.perturb import StartsAndGaps
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.addresses import event_addresses
from cloakwork.mechanisms.noisy_times import NoisySample
from cloakwork.noise import Stream

SAMPLED: Final = 10_000
"""Most values of each group that are kept: starts, gaps of an activity, gaps of a pair. Up to so
many it is all of them; beyond, the median of a sample is within 1 % of the ranks of the true one.
"""

_KIND: Final = "kind"
_KINDS: Final = ("start", "gap", "pair")
_BEFORE: Final = "before"
_ACTIVITY: Final = "activity"
_PRIORITY: Final = "priority"
_VALUE: Final = "value"
_GROUP: Final = "group"
_KEYS: Final = named(_KIND, _BEFORE, _ACTIVITY)
_SCHEMA: Final = pl.Schema(
    [
        (_KIND, pl.String()),
        (_BEFORE, pl.String()),
        (_ACTIVITY, pl.String()),
        (_PRIORITY, pl.List(pl.UInt64())),
        (_VALUE, pl.List(pl.Int64())),
    ]
)


@dataclass(frozen=True, slots=True)
class SampleOfNoised:
    """The aggregate: of each group the values of lowest random priority, ``SAMPLED`` at most.

    ``noised``: the noisy starts and gaps of a batch. ``stream``: draws the priorities, at the
    events' addresses, so that the same values are kept however the log is parted.
    """

    noised: Callable[[EventLog], StartsAndGaps]
    stream: Stream

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The sample of one batch, one row a group: ``kind``, ``before`` and ``activity`` name it,
        ``priority`` and ``value`` are lists.
        """
        if TIMESTAMP not in batch.events.columns:
            return _SCHEMA.to_frame()
        noised, cases = self.noised(batch), cases_of(batch)
        # A pair's gap is measured where both events have a raw time.
        # The first event of a case has no gap, so the row before one is an event of its case.
        of_pair = noised.has_time(batch.events.height)[noised.gap_rows - 1]
        pair_rows = noised.gap_rows[of_pair]
        # Groups as numbers: 0 for starts, one more than its code for an activity, then pairs.
        width = len(cases.alphabet) + 1
        code = cases.codes + 1
        gaps = self._measured(batch, code[noised.gap_rows], noised.gap_rows, noised.gaps)
        pair = code[pair_rows - 1] * width + code[pair_rows]
        starts = self._measured(
            batch, np.zeros(len(noised.starts), np.int64), noised.start_rows, noised.starts
        )
        pairs = self._measured(batch, pair, pair_rows, noised.gaps[of_pair])
        kept = _lowest_priorities(pl.concat([starts, gaps, pairs]))
        return _named_groups(kept, cases.alphabet)

    def _measured(self, batch: EventLog, group: Ints, rows: Ints, values: Ints) -> pl.DataFrame:
        """Values measured at ``rows``, with their groups and priorities."""
        priorities, _ = self.stream.words(event_addresses(batch, rows))
        return pl.DataFrame({_GROUP: group, _PRIORITY: priorities, _VALUE: values})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The lowest priorities of all batches, in their order; groups by name."""
        groups = summaries.select(_KEYS).unique().sort(_KEYS).with_row_index(_GROUP)
        numbered = summaries.join(groups, on=_KEYS).select(_GROUP, _PRIORITY, _VALUE)
        kept = _lowest_priorities(numbered.explode(_PRIORITY, _VALUE))
        return groups.join(kept, on=_GROUP).sort(_GROUP).drop(_GROUP)


def _named_groups(table: pl.DataFrame, alphabet: tuple[str, ...]) -> pl.DataFrame:
    """A row for each group, by name."""
    width = len(alphabet) + 1
    labels = pl.Series(["", *alphabet], dtype=pl.String)
    before, activity = np.divmod(table[_GROUP].to_numpy(), width)
    kind = (activity > 0).astype(np.int64) + (before > 0)
    return pl.DataFrame(
        {
            _KIND: pl.Series(_KINDS, dtype=pl.String).gather(kind),
            _BEFORE: labels.gather(before),
            _ACTIVITY: labels.gather(activity),
            _PRIORITY: table[_PRIORITY],
            _VALUE: table[_VALUE],
        }
    )


def _lowest_priorities(table: pl.DataFrame) -> pl.DataFrame:
    """Of each group the values of lowest priority, ``SAMPLED`` at most, as lists in its order; the
    lowest of all rows are among the lowest of each batch.

    Priorities have 64 random bits, so that no two of a group are equal.
    """
    lowest = pl.col(_PRIORITY, _VALUE).sort_by(_PRIORITY).head(SAMPLED)
    return table.group_by(_GROUP).agg(lowest)


def sample_of(table: pl.DataFrame) -> NoisySample:
    """The merged table of ``SampleOfNoised`` as arrays."""
    alphabet = pl.concat([table[_BEFORE], table[_ACTIVITY]]).unique().sort()
    table = table.explode(_PRIORITY, _VALUE).sort(_PRIORITY, _VALUE, _KIND)
    starts, gaps, pairs = (table.filter(pl.col(_KIND) == kind) for kind in _KINDS)
    return NoisySample(
        tuple(alphabet),
        starts[_VALUE].to_numpy(),
        gaps[_VALUE].to_numpy(),
        _codes(gaps[_ACTIVITY], alphabet),
        pairs[_VALUE].to_numpy(),
        _codes(pairs[_BEFORE], alphabet),
        _codes(pairs[_ACTIVITY], alphabet),
    )


def cases_of(log: EventLog) -> Cases:
    """The control flow of a batch; a missing activity is an empty label."""
    labels = log.events[ACTIVITY].cast(pl.String).fill_null("")
    alphabet = labels.unique().sort()
    return Cases(tuple(alphabet), _codes(labels, alphabet), log.offsets)


def _codes(labels: pl.Series, alphabet: pl.Series) -> Ints:
    """The place of each label in ``alphabet``: int64."""
    return labels.cast(pl.Enum(alphabet)).to_physical().cast(pl.Int64).to_numpy()
