"""Logs as numbers: activities by one alphabet that several logs share, and times as integers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import variants_of

SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
"""In microseconds."""


@dataclass(frozen=True)
class CodedLog:
    """A log whose cases all have events.

    - ``log``: the log itself. ``alphabet``: the activities that several logs share, by code.
    - ``codes``: int64, shape (events,); activities. ``times``: int64, microseconds since 1970, or
      None where the log has none; an event without a time has that of the event before it.
    - ``variant``: int64, shape (cases,). ``sequences``: the codes of each variant.
      ``sizes``: int64, shape (variants,); the cases of each.
    """

    log: EventLog
    alphabet: tuple[str, ...]
    codes: Ints
    times: Ints | None
    variant: Ints
    sequences: tuple[tuple[int, ...], ...]
    sizes: Ints

    @property
    def offsets(self) -> Ints:
        """Case i has the events ``offsets[i]:offsets[i + 1]``: int64, shape (cases + 1,)."""
        return self.log.offsets

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return len(self.variant)

    def events_of(self, case: int) -> slice:
        """The rows of a case's events."""
        return slice(int(self.offsets[case]), int(self.offsets[case + 1]))

    @cached_property
    def starts(self) -> Ints:
        """The first time of each case: int64, shape (cases,)."""
        return self.clock[self.offsets[:-1]]

    @cached_property
    def durations(self) -> Ints:
        """From the first time of each case to its last: int64, shape (cases,)."""
        return self.clock[self.offsets[1:] - 1] - self.starts

    @property
    def clock(self) -> Ints:
        """``times``, where the log has them."""
        if self.times is None:
            raise ValueError("the log has no times")
        return self.times

    @cached_property
    def counts(self) -> Ints:
        """How often each variant has each activity: int64, shape (variants, activities)."""
        counts = np.zeros((len(self.sequences), len(self.alphabet)), np.int64)
        for row, sequence in enumerate(self.sequences):
            np.add.at(counts[row], list(sequence), 1)
        return counts

    @cached_property
    def beginnings(self) -> Ints:
        """The first three activities of each variant, -1 behind its end: shape (variants, 3)."""
        return np.array([(*each[:3], -1, -1, -1)[:3] for each in self.sequences], np.int64)

    @cached_property
    def _by_variant(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.variant, kind="stable")
        return order, np.concatenate([[0], np.cumsum(self.sizes)])

    def cases_of(self, variant: int) -> Ints:
        """The cases of a variant: int64, ascending."""
        order, begins = self._by_variant
        return order[begins[variant] : begins[variant + 1]]

    @cached_property
    def _times_seen(self) -> dict[int, Ints]:
        return {}

    def times_of(self, variant: int) -> Ints:
        """The times of a variant's cases: int64, shape (cases of it, events)."""
        if variant not in self._times_seen:
            rows = self.offsets[self.cases_of(variant)][:, None]
            places = rows + np.arange(len(self.sequences[variant]))
            self._times_seen[variant] = self.clock[places]
        return self._times_seen[variant]

    @cached_property
    def _by_activity(self) -> dict[int, tuple[Ints, Ints, Ints]]:
        return {}

    def occurrences(self, activity: int) -> tuple[Ints, Ints, Ints]:
        """The events of an activity: their rows, the cases that have some, and where in the rows
        each of these begins.
        """
        if activity not in self._by_activity:
            rows = np.flatnonzero(self.codes == activity)
            case = self.log.case_of[rows]
            begins = np.flatnonzero(np.diff(case, prepend=-1))
            self._by_activity[activity] = (rows, case[begins], begins)
        return self._by_activity[activity]

    def contains_in_order(self, known: Sequence[int], among: Bools) -> Bools:
        """Which of the variants marked by ``among`` have the activities ``known`` in this order,
        others in between or not: bool, shape (variants,).
        """
        found = np.zeros(len(self.sequences), np.bool_)
        for variant in np.flatnonzero(among):
            rest = iter(self.sequences[variant])
            found[variant] = all(activity in rest for activity in known)
        return found


def code_logs(*logs: EventLog) -> tuple[CodedLog, ...]:
    """The logs under one alphabet, without cases that have no events; raises LogError where one has
    no event.
    """
    kept = [log.keep_cases(np.flatnonzero(np.diff(log.offsets) > 0)) for log in logs]
    for log in kept:
        if log.events.height == 0:
            raise LogError("log", "has no events, so there is nothing to attack")
    labels = [log.events[ACTIVITY].cast(pl.String).fill_null("") for log in kept]
    alphabet = pl.concat([each.unique() for each in labels]).unique().sort()
    return tuple(_code_log(log, text, alphabet) for log, text in zip(kept, labels, strict=True))


def code_cases(
    sequences: Sequence[Sequence[int]], times: Sequence[int | None], alphabet: Sequence[str]
) -> CodedLog:
    """The log of cases, none of them empty, by the codes of each; ``times``: of all events, in
    microseconds.
    """
    codes = np.fromiter(chain.from_iterable(sequences), np.int64)
    labels = pl.Series(alphabet, dtype=pl.String)
    clock = pl.Series(times, dtype=pl.Int64).cast(TIME_TYPE)
    events = pl.DataFrame({ACTIVITY: labels[codes], TIMESTAMP: clock})
    cases = pl.DataFrame({CASE_ID: np.arange(len(sequences))}).cast(pl.String)
    offsets = np.cumsum([0, *map(len, sequences)])
    return _code_log(EventLog(events, cases, offsets), events[ACTIVITY], labels)


def at_other_times(log: CodedLog, seed: int) -> CodedLog:
    """The same cases some whole weeks earlier or later, inside the span of the log (of a short log,
    some eighths of it), and each step longer or shorter by a third or so: cases like those of the
    log that are not in it.
    """
    draws = np.random.default_rng([seed, 3])
    first, span = int(log.starts.min()), int(np.ptp(log.starts)) + 1
    unit = 7 * DAY if span >= 56 * DAY else max(1, span // 8)
    number = max(2, -(-span // unit))
    moved = log.starts - first + unit * draws.integers(1, number, log.cases)
    starts = first + moved % (number * unit)
    steps = np.diff(log.clock, prepend=log.clock[0])
    steps = np.round(steps * np.exp(draws.normal(0, 0.3, len(steps)))).astype(np.int64)
    steps[log.offsets[:-1]] = 0
    passed = np.cumsum(steps)
    times = np.repeat(starts - passed[log.offsets[:-1]], np.diff(log.offsets)) + passed
    return replace(log, times=times)


def _code_log(log: EventLog, labels: pl.Series, alphabet: pl.Series) -> CodedLog:
    codes = labels.cast(pl.Enum(alphabet)).to_physical().cast(pl.Int64).to_numpy()
    named = EventLog(log.events.with_columns(labels.alias(ACTIVITY)), log.cases, log.offsets)
    found = variants_of(named)
    index = {label: place for place, label in enumerate(alphabet)}
    shared = np.array([index[label] for label in found.alphabet], np.int64)
    sequences = tuple(tuple(shared[found[row]].tolist()) for row in range(len(found)))
    return CodedLog(
        log=log,
        alphabet=tuple(alphabet),
        codes=codes,
        times=_filled_times(log),
        variant=found.of_case,
        sequences=sequences,
        sizes=found.counts,
    )


def _filled_times(log: EventLog) -> Ints | None:
    """The times in microseconds; None where no event has one."""
    if TIMESTAMP not in log.events.columns:
        return None
    times = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    if times.null_count() == len(times):
        return None
    if times.null_count():
        value = pl.col("time")
        filled = value.forward_fill().over("case").fill_null(value.backward_fill().over("case"))
        table = pl.DataFrame({"case": log.case_of, "time": times})
        times = table.select(filled.fill_null(value.min())).to_series()
    return times.to_numpy().astype(np.int64)
