"""Logs as numbers: activities by one alphabet that several logs share, times as integers, and the
attributes that an attacker may know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints, begins_of
from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.progress import Pace
from cloakwork.evaluation.control_flow import histogram
from cloakwork.evaluation.distances import joint_codes
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.variants import log_of_variants, variants_of
from cloakwork.plan.model import Plan

SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
"""In microseconds."""

MOST_KNOWN: Final = 5
"""Attributes of cases, and of events, that an attacker is taken to know: those with the fewest
values."""

NEIGHBOURS: Final = 20_000
"""Of a log in batches, about how many cases ``CodedLog.neighbours`` are."""

_STANDARD: Final = frozenset({CASE_ID, ACTIVITY, TIMESTAMP})
_IDENTIFYING: Final = 0.9


@dataclass(frozen=True)
class CodedLog:
    """A log whose cases all have events.

    - ``log``: the log itself. ``alphabet``: the activities that several logs share, by code.
    - ``codes``: int64, shape (events,); activities. ``times``: int64, microseconds since 1970, or
      None where the log has none; an event without a time has that of the event before it.
    - ``variant``: int64, shape (cases,). ``sequences``: the codes of each variant.
      ``sizes``: int64, shape (variants,); the cases of each, in a part of a log those of all.
    - ``whole``: all of the log in batches, where this is a sample of its cases, and ``sequences``
      and ``sizes`` are those of all.
    """

    log: EventLog
    alphabet: tuple[str, ...]
    codes: Ints
    times: Ints | None
    variant: Ints
    sequences: tuple[tuple[int, ...], ...]
    sizes: Ints
    whole: LogHandle | None = None

    @property
    def offsets(self) -> Ints:
        """Case i has the events ``offsets[i]:offsets[i + 1]``: int64, shape (cases + 1,)."""
        return self.log.offsets

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return len(self.variant)

    def in_variants(self, whole: "CodedLog") -> "CodedLog":
        """These cases by the variants of all of their log, under the same alphabet."""
        row_of = {sequence: row for row, sequence in enumerate(whole.sequences)}
        variant = np.array([row_of[each] for each in self.sequences])[self.variant]
        return replace(self, variant=variant, sequences=whole.sequences, sizes=whole.sizes)

    def alone(self) -> "CodedLog":
        """These cases as a log of their own; variants that none of them has stay, without cases."""
        return replace(self, sizes=np.bincount(self.variant, minlength=len(self.sizes)), whole=None)

    def parts(self) -> "Iterator[CodedLog]":
        """All of the log, batch by batch."""
        if self.whole is None:
            yield self
            return
        for batch in self.whole.batches():
            if batch.events.height:
                (part,) = code_logs(batch, alphabet=self.alphabet)
                # Of a log with times a part may have none.
                if part.times is None and self.times is not None:
                    part = replace(part, times=np.zeros(len(part.codes), np.int64))
                yield part.in_variants(self)

    def numbered_parts(self, doing: str) -> "Iterator[tuple[int, CodedLog]]":
        """The same, each with the number of its first case; how far it is, is said as ``doing``."""
        first, pace = 0, Pace()
        for part in self.parts():
            pace.report(f"{doing}: case {first:,} of {self.sizes.sum():,}")
            yield first, part
            first += part.cases

    def neighbours(self, seed: int) -> "CodedLog":
        """Of a log in batches, cases that began one after another, from a random time on."""
        if self.whole is None:
            return self
        share = min(1.0, NEIGHBOURS / self.whole.case_count)
        first = np.random.default_rng(seed).uniform(0, 1 - share)
        begin, end = np.quantile(self.starts, [first, first + share])
        near = [
            part.told(case)
            for _, part in self.numbered_parts("looking for neighbours")
            for case in np.flatnonzero((begin <= part.starts) & (part.starts <= end)).tolist()
        ]
        return self.with_cases(near).alone()

    def told(self, case: int) -> tuple[tuple[int, ...], list[int]]:
        """The activities and times of a case, without the rows of its batch, which may go."""
        return self.sequences[self.variant[case]], self.times_of(case).tolist()

    def with_cases(self, cases: Sequence[tuple[tuple[int, ...], list[int]]]) -> "CodedLog":
        """Cases of the log, each as ``told``, by its variants."""
        times = [time for _, each in cases for time in each]
        sequences = [sequence for sequence, _ in cases]
        return code_cases(sequences, times, self.alphabet).in_variants(self)

    def events_of(self, case: int) -> slice:
        """The rows of a case's events."""
        return slice(int(self.offsets[case]), int(self.offsets[case + 1]))

    def times_of(self, case: int) -> Ints:
        """The times of a case's events."""
        return self.clock[self.events_of(case)]

    def first_values(self, name: str) -> pl.Series:
        """The first value of an attribute of events that each case has; null without one."""
        table = pl.DataFrame({"case": self.log.case_of, "value": values_of(self.log.events, name)})
        value = pl.col("value").drop_nulls().first()
        return table.group_by("case", maintain_order=True).agg(value).sort("case")["value"]

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
            # ``add.at`` counts each occurrence; plain indexing would count an activity once.
            np.add.at(counts[row], list(sequence), 1)
        return counts

    @cached_property
    def beginnings(self) -> Ints:
        """The first three activities of each variant, -1 behind its end: shape (variants, 3)."""
        return np.array([(*each[:3], -1, -1, -1)[:3] for each in self.sequences], np.int64)

    @cached_property
    def cases_of(self) -> list[Ints]:
        """The cases of each variant: int64, ascending."""
        order = np.argsort(self.variant, kind="stable")
        return np.split(order, np.cumsum(self.alone().sizes)[:-1])

    @cached_property
    def occurrences(self) -> list[tuple[Ints, Ints, Ints]]:
        """The events of each activity: their rows, the cases that have some, and where in the rows
        each of these begins.
        """
        order = np.argsort(self.codes, kind="stable")
        sizes = np.bincount(self.codes, minlength=len(self.alphabet))
        found = []
        for rows in np.split(order, np.cumsum(sizes)[:-1]):
            case = self.log.case_of[rows]
            begins = begins_of(case)
            found.append((rows, case[begins], begins))
        return found

    def contains_in_order(self, known: Sequence[int], among: Bools) -> Bools:
        """Which of the variants marked by ``among`` have the activities ``known`` in this order,
        others in between or not: bool, shape (variants,).
        """
        found = np.zeros(len(self.sequences), np.bool_)
        for variant in np.flatnonzero(among):
            # An iterator is used up as it is searched: each activity is sought behind the last one.
            rest = iter(self.sequences[variant])
            found[variant] = all(activity in rest for activity in known)
        return found


def code_logs(*logs: EventLog, alphabet: Sequence[str] = ()) -> tuple[CodedLog, ...]:
    """The logs under one alphabet, which holds ``alphabet``, without cases that have no events;
    raises LogError where one has no event.
    """
    kept = [log.keep_cases(np.flatnonzero(np.diff(log.offsets) > 0)) for log in logs]
    if any(log.events.height == 0 for log in kept):
        raise LogError("log", "has no events, so there is nothing to attack")
    named = [with_labels(log) for log in kept]
    columns = [log.events[ACTIVITY] for log in named]
    codes, labels = joint_codes(*columns, pl.Series(alphabet, dtype=pl.String))
    return tuple(
        _code_log(log, labelled, of_events, labels)
        for log, labelled, of_events in zip(kept, named, codes[:-1], strict=True)
    )


def code_samples(
    samples: Sequence[EventLog], whole: Sequence[LogHandle]
) -> tuple[tuple[CodedLog, ...], list[CodedLog]]:
    """Logs under one alphabet; and the first of them as samples of ``whole``, which is all of
    these.
    """
    counted = [histogram(log.with_columns_of(with_labels)) for log in whole]
    one_each = [log_of_variants(list(each), np.ones(len(each), np.int64)) for each in counted]
    coded = code_logs(*samples, *one_each)
    in_all = []
    for sample, of_log, found, log in zip(
        coded, coded[len(samples) :], counted, whole, strict=False
    ):
        # Each variant is one case, in the order in which they were counted.
        sizes = np.zeros(len(found), np.int64)
        sizes[of_log.variant] = list(found.values())
        in_all.append(replace(sample.in_variants(replace(of_log, sizes=sizes)), whole=log))
    return coded[: len(samples)], in_all


def with_labels(log: EventLog) -> EventLog:
    """``log`` with an empty label for a missing activity, so that every event has a code."""
    labels = log.activities.fill_null("")
    return replace(log, events=log.events.with_columns(labels.alias(ACTIVITY)))


def code_cases(
    sequences: Sequence[Sequence[int]],
    times: Sequence[int | None],
    alphabet: Sequence[str],
) -> CodedLog:
    """The log of cases, none of them empty, by the codes of each; ``times``: of all events, in
    microseconds.
    """
    codes = np.fromiter(chain.from_iterable(sequences), np.int64)
    labels = pl.Series(alphabet, dtype=pl.String)
    clock = pl.Series(times, dtype=pl.Int64).cast(TIME_TYPE)
    events = pl.DataFrame({ACTIVITY: labels[codes], TIMESTAMP: clock})
    cases = pl.DataFrame({CASE_ID: np.arange(len(sequences))}).cast(pl.String)
    log = EventLog(events, cases, np.cumsum([0, *map(len, sequences)]))
    return _code_log(log, log, codes, alphabet)


def _code_log(
    log: EventLog,
    labelled: EventLog,
    codes: Ints,
    alphabet: Sequence[str],
) -> CodedLog:
    """``labelled``: the log with a text for each activity, the codes of which are ``codes``."""
    found = variants_of(labelled)
    code_of = {label: code for code, label in enumerate(alphabet)}
    # From the log's own alphabet to the shared one.
    shared = np.array([code_of[label] for label in found.alphabet], np.int64)
    return CodedLog(
        log=log,
        alphabet=tuple(alphabet),
        codes=codes,
        times=_filled_times(log),
        variant=found.of_case,
        sequences=tuple(tuple(shared[found[row]].tolist()) for row in range(len(found))),
        sizes=found.counts,
    )


def _filled_times(log: EventLog) -> Ints | None:
    """The times in microseconds; None where no event has one."""
    if TIMESTAMP not in log.events.columns:
        return None
    times = log.microseconds
    if times.null_count() == len(times):
        return None
    if times.null_count():
        # By the event before, else by the one behind it, else by the earliest time of the log.
        value = pl.col("time")
        filled = value.forward_fill().over("case").fill_null(value.backward_fill().over("case"))
        table = pl.DataFrame({"case": log.case_of, "time": times})
        times = table.select(filled.fill_null(value.min())).to_series()
    return times.to_numpy().astype(np.int64)


def at_other_times(log: CodedLog, seed: int) -> CodedLog:
    """The same cases some whole weeks earlier or later, inside the span of the log (of a short log,
    some eighths of it), and each step longer or shorter by a third or so: cases like those of the
    log that are not in it.
    """
    draws = np.random.default_rng([seed, 3])
    first = int(log.starts.min())
    span = int(np.ptp(log.starts)) + 1
    unit = 7 * DAY if span >= 56 * DAY else max(1, span // 8)
    number = max(2, -(-span // unit))
    # Shifts of 1 to number - 1 units around a ring: no case keeps its start.
    moved = log.starts - first + unit * draws.integers(1, number, log.cases)
    starts = first + moved % (number * unit)
    # Each step takes another time; then each case begins at its new start.
    steps = np.diff(log.clock, prepend=log.clock[0])
    steps = np.round(steps * np.exp(draws.normal(0, 0.3, len(steps)))).astype(np.int64)
    steps[log.offsets[:-1]] = 0
    passed = np.cumsum(steps)
    begins = np.repeat(starts - passed[log.offsets[:-1]], np.diff(log.offsets))
    return replace(log, times=begins + passed)


@dataclass(frozen=True)
class CodedAttributes:
    """Values as numbers; equal values of two logs that were coded together have equal numbers.

    ``of_cases`` and ``of_events``: names. ``cases``: int64, shape (cases, names); ``events``:
    int64, shape (events, names).
    """

    of_cases: tuple[str, ...]
    of_events: tuple[str, ...]
    cases: Ints
    events: Ints


def known_attributes(log: EventLog) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attributes of cases and of events that an attacker may know: neither constant nor, like
    an identifier, a text that is hardly ever the same twice.
    """
    return _knowable(log.cases), _knowable(log.events)


def _knowable(table: pl.DataFrame) -> tuple[str, ...]:
    distinct: dict[str, int] = {}
    for name in table.columns:
        values = values_of(table, name)
        there = len(values) - values.null_count()
        number = values.n_unique()
        is_identifier = values.dtype == pl.String and number > _IDENTIFYING * there
        if name not in _STANDARD and number >= 2 and not is_identifier:
            distinct[name] = number
    return tuple(sorted(distinct, key=distinct.__getitem__)[:MOST_KNOWN])


def code_attributes(
    logs: Sequence[CodedLog],
    of_cases: Sequence[str],
    of_events: Sequence[str],
) -> list[CodedAttributes]:
    """The named attributes of ``logs``, which all have them."""
    of_case = [
        codes_together([values_of(each.log.cases, name) for each in logs]) for name in of_cases
    ]
    of_event = [
        codes_together([values_of(each.log.events, name) for each in logs]) for name in of_events
    ]
    found = []
    for place, each in enumerate(logs):
        cases = _columns([codes[place] for codes in of_case], each.cases)
        events = _columns([codes[place] for codes in of_event], each.log.events.height)
        found.append(CodedAttributes(tuple(of_cases), tuple(of_events), cases, events))
    return found


def codes_together(columns: Sequence[pl.Series]) -> list[Ints]:
    """Values as numbers, one numbering for all columns; a missing value is an empty text."""
    return joint_codes(*(column.cast(pl.String).fill_null("") for column in columns))[0]


def _columns(columns: Sequence[Ints], rows: int) -> Ints:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)


def same_values(before: pl.Series, after: pl.Series) -> bool:
    """Whether the released values are those of the source, not others in their place."""
    known = set(before.cast(pl.String).drop_nulls().unique())
    found = after.cast(pl.String).drop_nulls().unique()
    # A few values may coincide by chance, so more than half must be known ones.
    return not len(found) or sum(value in known for value in found) > len(found) / 2


def kept_attributes(
    before: EventLog,
    after: EventLog,
    plan: Plan | None,
) -> tuple[str, ...]:
    """The attributes of cases that a release left as they were: by its plan, else those whose
    values are as often there as in the log.
    """
    kept = []
    for name in after.cases.columns:
        if name in _STANDARD or name not in before.cases.columns:
            continue
        old, new = (values_of(log.cases, name).cast(pl.String) for log in (before, after))
        treated = None if plan is None else plan.treated(name)
        if treated is not None:
            is_kept = treated.treatment == "keep" and same_values(old, new)
        else:
            # Without a plan: the same values, each as often, whatever the order of cases.
            is_kept = old.sort().equals(new.sort())
        if is_kept:
            kept.append(name)
    return tuple(kept)
