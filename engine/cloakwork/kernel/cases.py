"""What a query sees: cases, one after another, and nothing that tells one from the rest of the log.

A query maps every case to a sparse vector. It is written for a batch of cases, for speed; what it
returns for a case must follow from that case alone, and that it failed is told to nobody.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import field, replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, offsets_of, owners_of, ranges_of
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX


class NotGranted(LookupError):
    """A query asked for a column that its step was not granted."""


@frozen
class Column:
    """The values of a column, one an event, or one a case where it is of cases (``case:...``). All
    arrays are read-only.

    - ``values``: numbers, float64; of times and gaps, microseconds, int64. 0 where ``is_missing``
      (bool): of a text that is no finite number, too.
    - ``codes``: int64, the place of each text in ``alphabet`` (in no order that means anything);
      -1 where a value is missing, or is known as a number alone.

    Both follow from each value by itself, whatever type the others give the column.
    """

    values: Ints | Floats
    is_missing: Bools
    codes: Ints
    alphabet: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.values, self.is_missing, self.codes):
            array.flags.writeable = False

    @classmethod
    def of_times(cls, microseconds: Ints, is_missing: Bools) -> "Column":
        """Times, or what lies between them."""
        # One number in memory, for all of them.
        no_text = np.broadcast_to(np.int64(-1), microseconds.shape)
        return cls(microseconds, is_missing, no_text)

    def at(self, rows: Any) -> "Column":
        """The values at ``rows`` (places, or marks). Where there are more texts than values, those
        that none of these has are left out.
        """
        codes = self.codes[rows]
        alphabet = self.alphabet
        if len(alphabet) > len(codes):
            used, place = np.unique(codes, return_inverse=True)
            known = used[used >= 0].tolist()
            # What is missing comes first, if anything is.
            codes = place - (len(used) - len(known))
            alphabet = tuple(alphabet[code] for code in known)
        return Column(
            self.values[rows],
            self.is_missing[rows],
            codes,
            alphabet,
        )


class Columns(dict[str, Column]):
    """The columns that a step was granted, by the names of its lineage; NotGranted for others."""

    def __missing__(self, name: str) -> Column:
        raise NotGranted(name)

    def at(self, events: Any, rows: Any = slice(None)) -> "Columns":
        """The values of these ``events`` and cases."""
        return Columns(
            (name, column.at(rows if name.startswith(CASE_PREFIX) else events))
            for name, column in self.items()
        )


@frozen
class Cases:
    """A batch of cases; where several cases are alike they may come once. All arrays are read-only.

    - ``alphabet``: labels, those of the batch among them, in no order that means anything.
    - ``codes``: int64, shape (events,): the place of each event's label in ``alphabet``.
    - ``offsets``: int64, shape (cases + 1,): case i has the events ``offsets[i]:offsets[i + 1]``.
    - ``columns``: what else the step was granted.
    - ``worth``: where these are a part of released cases, so many does each of them stand for.
    """

    alphabet: tuple[str, ...]
    codes: Ints
    offsets: Ints
    columns: Columns = field(default_factory=Columns)
    worth: float = 1.0

    def __post_init__(self) -> None:
        for array in (self.codes, self.offsets):
            array.flags.writeable = False

    @classmethod
    def of(cls, variants: Sequence[tuple[str, ...]], alphabet: Sequence[str]) -> "Cases":
        """One case for each of ``variants``, of labels in ``alphabet``."""
        place = {label: code for code, label in enumerate(alphabet)}
        codes = [place[label] for variant in variants for label in variant]
        offsets = offsets_of([len(variant) for variant in variants])
        return cls(tuple(alphabet), np.array(codes, np.int64), offsets)

    def __len__(self) -> int:
        """How many cases there are."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Events of each case: int64, shape (cases,)."""
        return np.diff(self.offsets)

    @property
    def case_of(self) -> Ints:
        """The case of each event: int64, shape (events,)."""
        return owners_of(self.lengths)

    @property
    def place(self) -> Ints:
        """Where each event stands in its case, from 0: int64, shape (events,)."""
        return np.arange(len(self.codes)) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def times(self) -> Column:
        """When each event took place: microseconds since 1970, int64."""
        return self.columns[TIMESTAMPS]

    @property
    def gaps(self) -> Column:
        """The time from the event before it in its case that has a time: microseconds, int64;
        missing of the first one, and of events without a time.
        """
        # Over events without a time a gap reaches to the last one that has a time.
        times = self.times
        known = np.flatnonzero(~times.is_missing)
        follows = np.diff(self.case_of[known]) == 0
        gaps = np.zeros(len(self.codes), np.int64)
        is_missing = np.ones(len(self.codes), np.bool_)
        gaps[known[1:][follows]] = np.diff(times.values[known])[follows]
        is_missing[known[1:][follows]] = False
        return Column.of_times(gaps, is_missing)

    def texts(self, column: str | None) -> tuple[tuple[str, ...], Ints, Ints]:
        """What keys may be labelled with, the activities where None: alphabet, codes, and offsets
        as of events.
        """
        if column is None:
            return self.alphabet, self.codes, self.offsets
        found = self.columns[column]
        one_each = np.arange(len(self) + 1)
        offsets = one_each if column.startswith(CASE_PREFIX) else self.offsets
        return found.alphabet, found.codes, offsets

    def coded(self, labels: Sequence[str]) -> Ints:
        """The place of each event's label in ``labels``; -1 where it is not there."""
        place = {label: code for code, label in enumerate(labels)}
        table = np.array([place.get(label, -1) for label in self.alphabet], np.int64)
        if not len(table):
            return np.zeros(0, np.int64)
        return table[self.codes]

    def variants(self) -> list[tuple[str, ...]]:
        """The activity sequence of each case."""
        labels = [self.alphabet[code] for code in self.codes.tolist()]
        bounds = self.offsets.tolist()
        return [tuple(labels[start:stop]) for start, stop in pairwise(bounds)]

    def among(self, variants: Sequence[tuple[str, ...]]) -> Ints:
        """The place of each case's activity sequence in ``variants``; -1 where it is not there."""
        place = {variant: row for row, variant in enumerate(variants)}
        return np.array([place.get(variant, -1) for variant in self.variants()], np.int64)

    def within(self, labels: Sequence[str]) -> "Cases":
        """The same cases without any event whose label is not in ``labels``, coded by their places
        there; cases may be left without events.
        """
        # An alphabet that is a superset moves no event.
        codes = self.coded(labels)
        known = codes >= 0
        if known.all():
            return replace(self, alphabet=tuple(labels), codes=codes)
        lengths = np.bincount(self.case_of[known], minlength=len(self))
        offsets = offsets_of(lengths)
        return Cases(
            tuple(labels),
            codes[known],
            offsets,
            self.columns.at(known),
            self.worth,
        )

    def between(self, start: int, stop: int) -> "Cases":
        """The cases from ``start`` to before ``stop``, of the same arrays."""
        offsets = self.offsets[start : stop + 1]
        events = slice(offsets[0], offsets[-1])
        columns = self.columns.at(events, slice(start, stop))
        return Cases(self.alphabet, self.codes[events], offsets - offsets[0], columns)

    def take(self, rows: Ints) -> "Cases":
        """The cases at ``rows``, in that order."""
        lengths = self.lengths[rows]
        offsets = offsets_of(lengths)
        # The events of each case follow its first one.
        events = ranges_of(self.offsets[:-1][rows], lengths)
        columns = self.columns.at(events, rows)
        return Cases(
            self.alphabet,
            self.codes[events],
            offsets,
            columns,
        )


@frozen
class Entries:
    """What a query finds: sparse vectors, one a case, as a list of entries.

    ``case``: int64, whose vector an entry is of. ``value``: its size, an integer number of grid
    steps. Its key is ``code``, a number that the mechanism chose, together with the labels of the
    case's own events ``start:stop`` (places in ``Cases.codes``), if any. Entries of one case and
    key add up. Where the question takes its labels from a column, ``start:stop`` are places in
    that; an entry with a missing label is none.
    """

    case: Ints
    value: Ints
    code: Ints | None = None
    start: Ints | None = None
    stop: Ints | None = None

    @classmethod
    def one_each(cls, cases: Cases, code: Ints | None = None) -> "Entries":
        """One entry of value 1 a case, at ``code`` (int64, shape (cases,)); none where it is
        negative.
        """
        code = np.zeros(len(cases), np.int64) if code is None else code
        rows = np.flatnonzero(code >= 0)
        return cls(
            rows,
            np.ones(len(rows), np.int64),
            code[rows],
        )

    @classmethod
    def of_variants(cls, cases: Cases, value: int = 1) -> "Entries":
        """One entry a case, whose key is the sequence of its activities."""
        rows = np.arange(len(cases))
        size = np.full(len(cases), value, np.int64)
        return cls(
            rows,
            size,
            None,
            cases.offsets[:-1],
            cases.offsets[1:],
        )


Query = Callable[[Cases], Entries]
"""The vectors of a batch of cases: a pure function, in which no case's vector depends on another
case.
"""


ASKED_AGAIN: Final = 256
"""Cases of a batch, at most, on which a function of another package is called again."""

DIFFERS: Final = (
    "asked again about the same cases, in another order and batch, it finds something else: what a "
    "case counts for must follow from that case alone"
)


class Silently(AbstractContextManager[None]):
    """Goes on after whatever a query raises, and lets it warn of nothing: that it failed, or met a
    number that it cannot divide by, would tell of one case.
    """

    def __enter__(self) -> None:
        """Warnings are ignored until the end of the block."""
        with ExitStack() as ignored:
            # Numpy's own are ignored thread by thread; other ones, for the whole process.
            ignored.enter_context(np.errstate(all="ignore"))
            ignored.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            self._ignored = ignored.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._ignored.close()
        # What a library in Rust panics with is no Exception; whoever stops the run is heard.
        return kind is not None and not issubclass(kind, (KeyboardInterrupt, SystemExit))
