"""A random sample of the cases of a log that may be too large to look at as a whole."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.log.eventlog import EventLog, LogHandle, joined_batches

MOST_EVENTS: Final = 500_000
"""About how many events a sample has; a log in batches that has no more is taken as it is."""

_MOST_CASES: Final = 4 * MOST_EVENTS
"""A log of cases without events is no reason to hold all of them."""

_PLACE: Final = 40
"""Bits for the row of a case in its batch, where it has no index."""


@dataclass(frozen=True, slots=True)
class CaseSample:
    """Cases of a log of ``case_count`` cases: all of them, or some at random."""

    log: EventLog
    case_count: int

    @property
    def is_whole(self) -> bool:
        """Whether these are all cases of the log."""
        return self.log.cases.height == self.case_count

    def __str__(self) -> str:
        """How many of how many."""
        return f"{self.log.cases.height:,} of {self.case_count:,} cases"


def sampled_cases(log: LogHandle, most_events: int = MOST_EVENTS) -> CaseSample:
    """Cases of all batches with about ``most_events`` events; the whole log where it has no more,
    or is in memory anyway.

    Each case is chosen, or not, by its index in the log alone, so that the same are chosen before
    and after a step. What is chosen follows from no value, and hides nothing: for figures that
    nobody outside sees.
    """
    cases = log.case_count
    if isinstance(log, EventLog):
        return CaseSample(log, cases)
    events = log.event_count
    share = min(most_events / max(events, 1), _MOST_CASES / max(cases, 1))
    if share >= 1:
        return CaseSample(_in_order(list(log.batches())), cases)

    def chosen(place: int, batch: EventLog) -> EventLog:
        numbers = batch.case_index
        if numbers is None:
            # Batch and row in one number, as the cases have no index.
            numbers = (place << _PLACE) + np.arange(batch.cases.height)
        return batch.keep_cases(np.flatnonzero(_are_chosen(numbers, share)))

    return CaseSample(_in_order(log.each_batch(chosen)), cases)


def _in_order(batches: list[EventLog]) -> EventLog:
    """End to end; where cases have indexes, in their order."""
    log = joined_batches(batches)
    if all(batch.case_index is None for batch in batches):
        return replace(log, case_index=None)
    return log.keep_cases(np.argsort(log.index_of_case, kind="stable"))


def _are_chosen(numbers: Ints, share: float) -> Bools:
    """About this share of the numbers, at random by each number (the mixer of SplitMix64)."""
    # Unsigned numbers wrap around, as the mixer wants it.
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(32)) < np.uint64(share * 2**32)
