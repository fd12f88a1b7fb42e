"""The queries and gradients that a mechanism asks a kernel for, and what each finds in a case by
itself.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from unittest.mock import patch

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import (
    Cases,
    Clip,
    Column,
    Columns,
    Descent,
    Moves,
    NotGranted,
    Query,
)
from cloakwork.kernel.gradients import Gradient
from cloakwork.kernel.vectors import Answered, Vectors, answered, bounded, vectors_of
from cloakwork.testing.single_cases import (
    Alphabet,
    batch_of,
    decoys_like,
    name_of,
    ways_to_ask,
)

T = TypeVar("T")

Vector = tuple[tuple[int, tuple[str, ...], int], ...]
"""The entries of one case, in their order: number, labels, value."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it was asked, of which cases, and what it found in each.

    ``alphabet``: the labels that cases of this kernel were narrowed to; None where they are coded
    by whatever labels occur, which a query must not go by. ``labels``: the column that keys take
    their labels from. ``refused``: columns that the query asked for and was not granted. ``clip``:
    what each vector is bounded by; None where the kernel counts what it finds in another way.
    """

    query: Query
    cases: Cases
    found: tuple[Vector, ...]
    alphabet: Alphabet
    labels: str | None = None
    refused: tuple[str, ...] = ()
    clip: Clip | None = None


@dataclass(frozen=True, slots=True)
class AskedGradient:
    """A gradient as one step asked for it, and what it found in each case: in grid steps, within
    the clip (int64, shape (cases, size)). ``step``: its number. The rest as of ``Asked``.
    """

    gradient: Gradient
    descent: Descent
    parameters: Floats
    cases: Cases
    found: Ints
    alphabet: Alphabet
    step: int
    refused: tuple[str, ...] = ()


ROUNDING: Final = 2
ROUNDING_SHARE: Final = 5e-4
"""Grid steps, or the part of the clip if that is more, by which a gradient may differ: sums of
floats depend on how many cases there are, and a last bit of them may decide how a factor is
rounded.
"""


class _Observer:
    """Stands in for what asks queries and for what narrows cases, and notes what they do."""

    def __init__(self, *, disturbed: bool) -> None:
        self.collected: list[Asked | AskedGradient] = []
        self.disturbed = disturbed
        self.steps = 0
        self.narrowed: list[tuple[str, ...]] = []
        self.is_asking = False
        self.refused: list[str] = []

    def answered(
        self, cases: Cases, query: Query, labels: str | None = None, clip: Clip | None = None
    ) -> Answered:
        """As the kernel asks, and the same of decoys before and after."""
        alphabet = self._narrowed_to(cases)
        entries = self._asked(lambda batch: answered(batch, query, labels), cases, alphabet)
        found = _vectors_of(cases, entries, labels)
        refused = tuple(sorted(set(self.refused)))
        self.collected.append(Asked(query, cases, found, alphabet, labels, refused, clip))
        return entries

    def vectors_of(
        self, cases: Cases, query: Query, clip: Clip, labels: str | None = None
    ) -> Vectors:
        """As the kernel asks for vectors within ``clip``."""
        return bounded(cases, self.answered(cases, query, labels, clip), clip, labels)

    def clipped(
        self, descent: Descent, gradient: Gradient, parameters: Floats, cases: Cases, step: int
    ) -> Moves:
        """As the kernel asks for gradients. Of many steps the first, second, fourth, eighth ... are
        kept.
        """
        alphabet = self._narrowed_to(cases)
        parameters = np.array(parameters, np.float64)
        found = self._asked(
            lambda batch: _clipped(descent, gradient, parameters, batch, step), cases, alphabet
        )
        self.steps += 1
        if self.steps & (self.steps - 1) == 0:
            refused = tuple(sorted(set(self.refused)))
            asked = AskedGradient(
                gradient, descent, parameters, cases, found.rows(), alphabet, step, refused
            )
            self.collected.append(asked)
        return found

    def _asked(self, ask: Callable[[Cases], T], cases: Cases, alphabet: Alphabet) -> T:
        """The answer for ``cases``; where disturbed, after one and before another of decoys."""
        decoys = decoys_like(cases) if self.disturbed else []
        batches = [batch_of(each, cases, alphabet) for each in (decoys, decoys[::-1]) if each]
        self.is_asking, self.refused = True, []
        for batch in batches[:1]:
            ask(batch)
        answer = ask(cases)
        for batch in batches[1:]:
            ask(batch)
        self.is_asking = False
        return answer

    def _narrowed_to(self, cases: Cases) -> Alphabet:
        # Cases that were taken from narrowed ones share their alphabet.
        is_narrowed = any(cases.alphabet is each for each in self.narrowed)
        return cases.alphabet if is_narrowed else None

    def missing(self, columns: Columns, name: str) -> Column:
        """As columns refuse what was not granted."""
        self.refused.append(name)
        raise NotGranted(name)

    def within(self, cases: Cases, labels: Sequence[str]) -> Cases:
        """As ``Cases.within``; outside of queries, it is the kernel that narrows."""
        found = _within(cases, labels)
        if not self.is_asking:
            self.narrowed.append(found.alphabet)
        return found


_within, _clipped = Cases.within, Descent.clipped


@contextmanager
def queries_collected(*, disturbed: bool = False) -> Iterator[list[Asked | AskedGradient]]:
    """The queries and gradients that kernels ask for inside the block.

    ``disturbed``: each is called on decoys as well, before and after it is called on the cases of
    the log; what it finds there is forgotten.
    """
    observer = _Observer(disturbed=disturbed)

    def within(cases: Cases, labels: Sequence[str]) -> Cases:
        return observer.within(cases, labels)

    def clipped(*asked: Any) -> Moves:
        return observer.clipped(*asked)

    def missing(columns: Columns, name: str) -> Column:
        return observer.missing(columns, name)

    with ExitStack() as patched:
        ask_instead(patched, observer.answered, observer.vectors_of)
        patched.enter_context(patch.object(Cases, _within.__name__, within))
        patched.enter_context(patch.object(Descent, _clipped.__name__, clipped))
        patched.enter_context(patch.object(Columns, "__missing__", missing))
        yield observer.collected


def ask_instead(
    patched: ExitStack, answered_by: Callable[..., Answered], vectors_by: Callable[..., Vectors]
) -> None:
    """Let the modules of the kernel ask queries by other functions.

    What else calls these, such as a mechanism on variants that are released already, asks no
    kernel.
    """
    asking = {answered: answered_by, vectors_of: vectors_by}
    for name, module in tuple(sys.modules.items()):
        if not name.startswith("cloakwork.kernel.") or name == vectors_of.__module__:
            continue
        for real, instead in asking.items():
            if getattr(module, real.__name__, None) is real:
                patched.enter_context(patch.object(module, real.__name__, instead))


def cases_that_differ(asked: Asked | AskedGradient) -> Iterator[str]:
    """Where something else is found in a case, given that case in another batch or once more; one
    line each.
    """
    for how, batches in ways_to_ask(asked.cases, asked.alphabet):
        for rows, batch in batches:
            for row in _differing_rows(asked, rows, batch):
                case = name_of(asked.cases, row)
                what = "query" if isinstance(asked, Asked) else "gradient"
                yield f"{how}, a {what} finds something else in <{case}>"


def _differing_rows(asked: Asked | AskedGradient, rows: list[int], batch: Cases) -> list[int]:
    if isinstance(asked, Asked):
        entries = answered(batch, asked.query, asked.labels)
        found = _vectors_of(batch, entries, asked.labels)
        return [row for row, vector in zip(rows, found, strict=False) if vector != asked.found[row]]
    moves = _clipped(asked.descent, asked.gradient, asked.parameters, batch, asked.step)
    apart = np.abs(moves.rows()[: len(rows)] - asked.found[rows]).max(axis=1, initial=0)
    most = max(ROUNDING, ROUNDING_SHARE * asked.descent.clip)
    return [rows[place] for place in np.flatnonzero(apart > most).tolist()]


def _vectors_of(cases: Cases, entries: Answered, column: str | None) -> tuple[Vector, ...]:
    """What was found in each case, with labels of ``column``."""
    found: list[list[tuple[int, tuple[str, ...], int]]] = [[] for _ in range(len(cases))]
    alphabet, codes, _ = cases.texts(column)
    for case, value, code, start, stop in zip(*_columns(entries), strict=True):
        labels = tuple(alphabet[each] for each in codes[start:stop].tolist())
        found[case].append((code, labels, value))
    return tuple(map(tuple, found))


def _columns(entries: Answered) -> Iterator[list[int]]:
    for name in ("case", "value", "code", "start", "stop"):
        column: Ints = getattr(entries, name)
        yield column.tolist()
