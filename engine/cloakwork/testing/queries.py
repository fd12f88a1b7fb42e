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
from cloakwork.kernel import Cases, Clip, Entries, Query
from cloakwork.kernel.vectors import Vectors, answered, bounded, vectors_of

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


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it was asked, of which cases, and what it found in each.

    ``alphabet``: the labels that cases of this kernel were narrowed to; None where they are coded
    by whatever labels occur, which a query must not go by.
    """

    query: Query
    cases: Cases
    found: tuple[Vector, ...]
    alphabet: tuple[str, ...] | None


class _Observer:
    """Stands in for what asks queries and for what narrows cases, and notes what they do."""

    def __init__(self, *, disturbed: bool) -> None:
        self.collected: list[Asked] = []
        self.disturbed = disturbed
        self.narrowed: list[Cases] = []
        self.is_asking = False

    def answered(self, cases: Cases, query: Query) -> Entries:
        """As the kernel asks, and the same of decoys before and after."""
        is_narrowed = any(cases is each for each in self.narrowed)
        alphabet = cases.alphabet if is_narrowed else None
        self.is_asking = True
        if self.disturbed:
            answered(_batch(DECOYS, alphabet), query)
        entries = answered(cases, query)
        if self.disturbed:
            answered(_batch(DECOYS[::-1], alphabet), query)
        self.is_asking = False
        self.collected.append(Asked(query, cases, _vectors_of(cases, entries), alphabet))
        return entries

    def vectors_of(self, cases: Cases, query: Query, clip: Clip) -> Vectors:
        """As the kernel asks for vectors within ``clip``."""
        return bounded(cases, self.answered(cases, query), clip)

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

    asking = {answered: observer.answered, vectors_of: observer.vectors_of}
    with ExitStack() as patched:
        for module, real in _asking_modules(tuple(asking)):
            patched.enter_context(patch.object(module, real.__name__, asking[real]))
        patched.enter_context(patch.object(Cases, _within.__name__, within))
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
    variants = asked.cases.variants()
    for how, batches in _ways_to_ask(variants, asked.alphabet):
        for rows, batch in batches:
            entries = answered(batch, asked.query)
            found = _vectors_of(batch, entries)
            for row, vector in zip(rows, found, strict=False):
                if vector != asked.found[row]:
                    case = " ".join(variants[row]) or "a case without events"
                    yield f"{how}, a query finds {vector} in <{case}>, not {asked.found[row]}"


def _ways_to_ask(
    variants: list[tuple[str, ...]], alphabet: tuple[str, ...] | None
) -> Iterator[tuple[str, list[tuple[list[int], Cases]]]]:
    """Batches of the same cases: for each the rows that come first in it, and the batch."""
    rows = list(range(len(variants)))
    mixed = np.random.default_rng(1).permutation(len(rows)).tolist()
    middle = len(rows) // 2

    def batch(chosen: list[int]) -> tuple[list[int], Cases]:
        return chosen, _batch([variants[row] for row in chosen], alphabet)

    def among_decoys(row: int) -> tuple[list[int], Cases]:
        return [row], _batch([variants[row], *DECOYS], alphabet)

    yield "in another batch of the same cases", [batch(rows), batch(rows)]
    yield "in another order", [batch(mixed)]
    yield "in two batches", [batch(mixed[:middle]), batch(mixed[middle:])]
    yield "by itself", [batch([row]) for row in rows]
    yield "among other cases", [among_decoys(row) for row in rows]


def _batch(variants: Sequence[tuple[str, ...]], alphabet: tuple[str, ...] | None) -> Cases:
    """Cases of these activity sequences, narrowed to ``alphabet``; without one, coded as a kernel
    codes them: by the labels that occur, in their own order.
    """
    labels = tuple(sorted({label for case in variants for label in case}))
    place = {label: code for code, label in enumerate(labels)}
    codes = np.array([place[label] for case in variants for label in case], np.int64)
    offsets = np.cumsum([0, *map(len, variants)]).astype(np.int64)
    cases = Cases(labels, codes, offsets)
    return cases if alphabet is None else _within(cases, alphabet)


def _vectors_of(cases: Cases, entries: Entries) -> tuple[Vector, ...]:
    """What was found in each case."""
    found: list[list[tuple[int, tuple[str, ...], int]]] = [[] for _ in range(len(cases))]
    for case, value, code, start, stop in zip(*_columns(entries), strict=True):
        labels = tuple(cases.alphabet[each] for each in cases.codes[start:stop].tolist())
        found[case].append((code, labels, value))
    return tuple(map(tuple, found))


def _columns(entries: Entries) -> Iterator[list[int]]:
    for name in ("case", "value", "code", "start", "stop"):
        column: Ints = getattr(entries, name)
        yield column.tolist()
