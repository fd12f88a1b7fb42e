"""Noise on the times of a log, batch by batch: what a kernel needs of rows, and what becomes of
them.

Two passes. The first takes a sample of the noisy values of the whole log, the second completes each
case by it; both draw the same noise, by its addresses. Of raw times nothing beyond a case is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError
from cloakwork.engines.noised_sample import SampleOfNoised, cases_of, sample_of
from cloakwork.kernel.perturb import (
    Perturbing,
    RawTimes,
    StartsAndGaps,
)
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.noisy_times import Completion, Draws, NoisySample, NoisyTimes
from cloakwork.mechanisms.steps import MapCases, MapCasesBySummary
from cloakwork.noise import Stream


def noise_on_times(
    perturbing: Perturbing, complete: Callable[[NoisySample], Completion], stream: Stream
) -> MapCasesBySummary:
    """Give every event of a log a time made of noisy ones; without a time column it stays as it is.

    ``complete``: makes of a sample of the log's noisy values what completes each batch. ``stream``:
    for draws beside the noise.
    """
    noised = _NoisedLog(perturbing, complete, stream.part("filled"))
    sample = SampleOfNoised(noised.starts_and_gaps, stream.part("sample"))
    return MapCasesBySummary(sample, noised.mapping)


@dataclass(frozen=True, slots=True)
class _NoisedLog:
    """The two passes over a log; both see the same noise."""

    perturbing: Perturbing
    complete: Callable[[NoisySample], Completion]
    stream: Stream

    def starts_and_gaps(self, log: EventLog) -> StartsAndGaps:
        """The noisy starts and gaps of a batch."""
        return self.perturbing.noised(raw_times(log))

    def mapping(self, table: pl.DataFrame) -> MapCases:
        """The second pass; ``table``: the sample that the first one took."""
        completion = self.complete(sample_of(table))
        return MapCases(lambda log: self._completed(log, completion), together="case")

    def _completed(self, log: EventLog, completion: Completion) -> EventLog:
        """A batch with a time for every event."""
        if TIMESTAMP not in log.events.columns:
            return log
        draws = Draws(self.stream, log.offsets, log.index_of_case)
        noisy = NoisyTimes(cases_of(log), self.starts_and_gaps(log), draws)
        steps = _one_step_an_event(completion(noisy), log)
        times = pl.Series(TIMESTAMP, self.perturbing.declared.grid.microseconds(steps))
        return replace(log, events=log.events.with_columns(times.cast(TIME_TYPE)))


def raw_times(log: EventLog) -> RawTimes:
    """The times of a batch, as the kernel reads them."""
    times = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    rows = np.flatnonzero(times.is_not_null().to_numpy())
    microseconds = times.gather(pl.Series(rows)).to_numpy().astype(np.int64)
    return RawTimes(microseconds, rows, log.offsets, log.index_of_case)


def _one_step_an_event(steps: Ints, log: EventLog) -> Ints:
    """``steps``, where they are what a completion promises."""
    found = np.asarray(steps)
    if found.shape == (log.events.height,) and found.dtype.kind == "i":
        return found.astype(np.int64)
    raise MechanismError("times", "what completes them returns no whole number for each event")
