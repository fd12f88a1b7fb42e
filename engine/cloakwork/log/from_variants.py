"""Cases that follow given variants, range by range: what takes memory is the variants."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog


@dataclass(frozen=True, slots=True)
class CasesOfVariants:
    """So many cases of each of some variants, one variant after another; none of them made yet.

    ``labels``: String, the variants end to end; variant v is ``offsets[v]:offsets[v + 1]`` (int64,
    shape (variants + 1,)). ``cases_before`` and ``events_before``: int64, shape (variants + 1,);
    how many cases, and events, those before each variant have, and last all of them.
    """

    labels: pl.Series
    offsets: Ints
    cases_before: Ints
    events_before: Ints

    @classmethod
    def of(cls, variants: Sequence[tuple[str, ...]], cases: Ints) -> "CasesOfVariants":
        """``cases[i]`` cases of ``variants[i]``; none where the number is below 1."""
        times = np.maximum(np.asarray(cases, np.int64), 0)
        lengths = np.fromiter(map(len, variants), np.int64, len(variants))
        labels = pl.Series(list(chain.from_iterable(variants)), dtype=pl.String)
        return cls(labels, _summed(lengths), _summed(times), _summed(lengths * times))

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        return int(self.cases_before[-1])

    @property
    def event_count(self) -> int:
        """How many events they have."""
        return int(self.events_before[-1])

    def events_until(self, case: int) -> int:
        """How many events the first ``case`` cases have."""
        variant = int(np.searchsorted(self.cases_before, case, side="right")) - 1
        variant = min(variant, len(self.cases_before) - 2)
        if variant < 0:
            return 0
        length = self.offsets[variant + 1] - self.offsets[variant]
        return int(self.events_before[variant] + (case - self.cases_before[variant]) * length)

    def offsets_of_cases(self) -> Ints:
        """Where the events of each case begin, and last where they end: int64, shape
        (cases + 1,).
        """
        return _summed(np.repeat(np.diff(self.offsets), np.diff(self.cases_before)))

    def made(self, first: int, behind: int) -> EventLog:
        """The cases from ``first`` on, before ``behind``, without times or attributes; their ids
        are their numbers.
        """
        bounds = np.clip(self.cases_before, first, behind)
        variant = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        offsets = _summed(np.diff(self.offsets)[variant])
        # An event is as far from the first one of its case as its label from the variant's first.
        moved_by = np.repeat(self.offsets[variant] - offsets[:-1], np.diff(offsets))
        rows = np.arange(offsets[-1]) + moved_by
        events = self.labels.gather(pl.Series(rows)).alias(ACTIVITY).to_frame()
        ids = pl.int_range(first, behind, eager=True).cast(pl.String).alias(CASE_ID).to_frame()
        return EventLog(events, ids, offsets, case_index=np.arange(first, behind))


def log_of_variants(variants: Sequence[tuple[str, ...]], cases: Ints) -> EventLog:
    """``cases[i]`` cases of ``variants[i]`` as one log, numbered, without times or attributes; none
    where the number is below 1.
    """
    made = CasesOfVariants.of(variants, cases)
    return replace(made.made(0, made.case_count), case_index=None)


def _summed(sizes: Ints) -> Ints:
    """How many there are before each, and last how many in all: int64, shape (sizes + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
