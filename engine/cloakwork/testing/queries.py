"""The queries that a mechanism asks a kernel, and what each finds in a case by itself."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from cloakwork.arrays import Ints
from cloakwork.kernel import Cases, Clip, Column, Columns, Entries, NotGranted, Query
from cloakwork.kernel.vectors import Vectors, answered, bounded, vectors_of
from cloakwork.log.naming import CASE_PREFIX

Vector = tuple[tuple[int, tuple[str, ...], int], ...]
"""The entries of one case, in their order: number, labels, value."""

DECOYS: Final[tuple[tuple[str, ...], ...]] = (
    ("Decoy",),
    ("a", "decoy", "a"),
    (),
    ("c", "b", "a"),
    ("decoy", "Decoy"),
)
"""Cases that no log of the contract holds; some of their labels it holds. Of the others, one comes
before those of the logs, so that the codes of these are others, too.
"""

Value = tuple[str | None, float | None]
"""The text and the number of a value; None where it has none."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case as a query sees it; ``columns``: the values of each column, by its name."""

    variant: tuple[str, ...]
    columns: dict[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it was asked, of which cases, and what it found in each.

    ``alphabet``: the labels that cases of this kernel were narrowed to; None where they are coded
    by whatever labels occur, which a query must not go by. ``labels``: the column that keys take
    their labels from. ``refused``: columns that the query asked for and was not granted.
    """

    query: Query
    cases: Cases
    found: tuple[Vector, ...]
    alphabet: tuple[str, ...] | None
    labels: str | None = None
    refused: tuple[str, ...] = ()


class _Observer:
    """Stands in for what asks queries and for what narrows cases, and notes what they do."""

    def __init__(self, *, disturbed: bool) -> None:
        self.collected: list[Asked] = []
        self.disturbed = disturbed
        self.narrowed: list[Cases] = []
        self.is_asking = False
        self.refused: list[str] = []

    def answered(self, cases: Cases, query: Query, labels: str | None = None) -> Entries:
        """As the kernel asks, and the same of decoys before and after."""
        is_narrowed = any(cases is each for each in self.narrowed)
        alphabet = cases.alphabet if is_narrowed else None
        decoys = _decoys(cases) if self.disturbed else []
        self.is_asking, self.refused = True, []
        if decoys:
            answered(_batch(decoys, cases, alphabet), query, labels)
        entries = answered(cases, query, labels)
        if decoys:
            answered(_batch(decoys[::-1], cases, alphabet), query, labels)
        self.is_asking = False
        found = _vectors_of(cases, entries, labels)
        refused = tuple(sorted(set(self.refused)))
        self.collected.append(Asked(query, cases, found, alphabet, labels, refused))
        return entries

    def vectors_of(
        self, cases: Cases, query: Query, clip: Clip, labels: str | None = None
    ) -> Vectors:
        """As the kernel asks for vectors within ``clip``."""
        return bounded(cases, self.answered(cases, query, labels), clip, labels)

    def missing(self, columns: Columns, name: str) -> Column:
        """As columns refuse what was not granted."""
        self.refused.append(name)
        raise NotGranted(name)

    def within(self, cases: Cases, labels: Sequence[str]) -> Cases:
        """As ``Cases.within``; outside of queries, it is the kernel that narrows."""
        found = _within(cases, labels)
        if not self.is_asking:
            self.narrowed.append(found)
        return found


_within = Cases.within


@contextmanager
def queries_collected(*, disturbed: bool = False) -> Iterator[list[Asked]]:
    """The queries that kernels ask inside the block.

    ``disturbed``: each is called on decoys as well, before and after it is called on the cases of
    the log; what it finds there is forgotten.
    """
    observer = _Observer(disturbed=disturbed)

    def within(cases: Cases, labels: Sequence[str]) -> Cases:
        return observer.within(cases, labels)

    def missing(columns: Columns, name: str) -> Column:
        return observer.missing(columns, name)

    asking = {answered: observer.answered, vectors_of: observer.vectors_of}
    with ExitStack() as patched:
        for module, real in _asking_modules(tuple(asking)):
            patched.enter_context(patch.object(module, real.__name__, asking[real]))
        patched.enter_context(patch.object(Cases, _within.__name__, within))
        patched.enter_context(patch.object(Columns, "__missing__", missing))
        yield observer.collected


def _asking_modules(functions: tuple[Any, ...]) -> Iterator[tuple[ModuleType, Any]]:
    """The modules of the kernel that ask queries, and by which of ``functions``.

    What else calls these, such as a mechanism on variants that are released already, asks no
    kernel.
    """
    for name, module in sys.modules.items():
        if name.startswith("cloakwork.kernel.") and name != vectors_of.__module__:
            for function in functions:
                if getattr(module, function.__name__, None) is function:
                    yield module, function


def cases_that_differ(asked: Asked) -> Iterator[str]:
    """Where the query finds something else in a case, given that case in another batch or once
    more; one line each.
    """
    cases = _apart(asked.cases)
    for how, batches in _ways_to_ask(asked, cases):
        for rows, batch in batches:
            entries = answered(batch, asked.query, asked.labels)
            found = _vectors_of(batch, entries, asked.labels)
            for row, vector in zip(rows, found, strict=False):
                if vector != asked.found[row]:
                    case = " ".join(cases[row].variant) or "a case without events"
                    yield f"{how}, a query finds {vector} in <{case}>, not {asked.found[row]}"


def _ways_to_ask(
    asked: Asked, cases: list[Case]
) -> Iterator[tuple[str, list[tuple[list[int], Cases]]]]:
    """Batches of the same cases: for each the rows that come first in it, and the batch."""
    rows = list(range(len(cases)))
    mixed = np.random.default_rng(1).permutation(len(rows)).tolist()
    middle = len(rows) // 2
    decoys = _decoys(asked.cases)

    def batch(chosen: list[int]) -> tuple[list[int], Cases]:
        return chosen, _batch([cases[row] for row in chosen], asked.cases, asked.alphabet)

    def among_decoys(row: int) -> tuple[list[int], Cases]:
        return [row], _batch([cases[row], *decoys], asked.cases, asked.alphabet)

    yield "in another batch of the same cases", [batch(rows), batch(rows)]
    yield "in another order", [batch(mixed)]
    yield "in two batches", [batch(mixed[:middle]), batch(mixed[middle:])]
    yield "by itself", [batch([row]) for row in rows]
    yield "among other cases", [among_decoys(row) for row in rows]


def _batch(chosen: Sequence[Case], like: Cases, alphabet: tuple[str, ...] | None) -> Cases:
    """These cases, with columns as ``like`` has them, narrowed to ``alphabet``; without one, coded
    as a kernel codes them: by the labels and the texts that occur, in their own order.
    """
    labels, codes = _coded([label for case in chosen for label in case.variant])
    offsets = np.cumsum([0, *(len(case.variant) for case in chosen)]).astype(np.int64)
    columns = Columns(
        (name, _column([value for case in chosen for value in case.columns[name]]))
        for name in like.columns
    )
    cases = Cases(labels, codes, offsets, columns)
    return cases if alphabet is None else _within(cases, alphabet)


def _coded(texts: Sequence[str | None]) -> tuple[tuple[str, ...], Ints]:
    alphabet = tuple(sorted({text for text in texts if text is not None}))
    place: dict[str | None, int] = {text: code for code, text in enumerate(alphabet)}
    return alphabet, np.array([place.get(text, -1) for text in texts], np.int64)


def _column(values: Sequence[Value]) -> Column:
    alphabet, codes = _coded([text for text, _ in values])
    is_missing = np.array([number is None for _, number in values], np.bool_)
    numbers = [0 if number is None else number for _, number in values]
    if all(isinstance(number, int) for number in numbers):
        # Times are whole numbers; others are floats.
        return Column(np.array(numbers, np.int64), is_missing, codes, alphabet)
    return Column(np.array(numbers, np.float64), is_missing, codes, alphabet)


def _apart(cases: Cases) -> list[Case]:
    """Each case by itself."""
    bounds = cases.offsets.tolist()
    columns = {name: _values(column) for name, column in cases.columns.items()}

    def own(name: str, row: int) -> tuple[Value, ...]:
        if name.startswith(CASE_PREFIX):
            return (columns[name][row],)
        return tuple(columns[name][bounds[row] : bounds[row + 1]])

    return [
        Case(variant, {name: own(name, row) for name in columns})
        for row, variant in enumerate(cases.variants())
    ]


def _values(column: Column) -> list[Value]:
    """Text and number of each value of a column."""
    texts = (*column.alphabet, None)
    numbers = zip(column.values.tolist(), column.is_missing.tolist(), strict=True)
    known = [None if is_missing else number for number, is_missing in numbers]
    return [(texts[code], number) for code, number in zip(column.codes, known, strict=True)]


def _decoys(cases: Cases) -> list[Case]:
    """``DECOYS``, with values of the kinds that ``cases`` have, missing ones among them."""

    def value(column: Column, place: int) -> Value:
        texts = ("Decoy", *column.alphabet[:1], None) if column.alphabet else (None,)
        numbers: tuple[float | None, ...] = (None, 7, -(10**12), 7)
        number = numbers[place % 4]
        if number is not None and column.values.dtype.kind == "f":
            number = float(number)
        return texts[place % len(texts)], number

    def own(name: str, column: Column, variant: tuple[str, ...], row: int) -> tuple[Value, ...]:
        many = 1 if name.startswith(CASE_PREFIX) else len(variant)
        return tuple(value(column, row + place) for place in range(many))

    return [
        Case(variant, {name: own(name, each, variant, row) for name, each in cases.columns.items()})
        for row, variant in enumerate(DECOYS)
    ]


def _vectors_of(cases: Cases, entries: Entries, column: str | None) -> tuple[Vector, ...]:
    """What was found in each case, with labels of ``column``."""
    found: list[list[tuple[int, tuple[str, ...], int]]] = [[] for _ in range(len(cases))]
    alphabet, codes, _ = cases.texts(column)
    for case, value, code, start, stop in zip(*_columns(entries), strict=True):
        labels = tuple(alphabet[each] for each in codes[start:stop].tolist())
        found[case].append((code, labels, value))
    return tuple(map(tuple, found))


def _columns(entries: Entries) -> Iterator[list[int]]:
    for name in ("case", "value", "code", "start", "stop"):
        column: Ints = getattr(entries, name)
        yield column.tolist()
