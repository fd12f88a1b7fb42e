"""The queries and gradients that a mechanism asks a kernel for, and what each finds in a case by
itself; and a kernel that holds a log, and answers as of an empty one.

Cases are taken apart as a query sees them, and put into other batches.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar
from unittest.mock import patch

import numpy as np

from cloakwork.base.arrays import Floats, Ints, offsets_of
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.kernel import (
    Cases,
    Clip,
    Column,
    Columns,
    CustomQuery,
    DenseMoves,
    Descent,
    Kernel,
    Moves,
    NotGranted,
    Query,
)
from cloakwork.kernel.gradients import ROUNDING, ROUNDING_SHARE, Gradient
from cloakwork.kernel.vectors import Answered, Vectors, answered, bounded, vectors_of

Alphabet = tuple[str, ...] | None
"""The labels that cases were narrowed to; None where they are coded by whatever labels occur."""

Batch = tuple[list[int], Cases]
"""Cases, and which of those that were asked about come first among them."""

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


@frozen
class Case:
    """One case as a query sees it; ``columns``: the values of each column, by its name."""

    variant: tuple[str, ...]
    columns: dict[str, tuple[Value, ...]]


def ways_to_ask(asked: Cases, alphabet: Alphabet) -> Iterator[tuple[str, list[Batch]]]:
    """How else the same cases may come: what is said of it, and its batches."""
    cases = cases_apart(asked)
    rows = list(range(len(cases)))
    # The same order in each run, so that a fault that it shows is found again.
    mixed = np.random.default_rng(1).permutation(len(rows)).tolist()
    middle = len(rows) // 2
    decoys = decoys_like(asked)

    def batch(chosen: list[int], others: Sequence[Case] = ()) -> Batch:
        return chosen, batch_of([*(cases[row] for row in chosen), *others], asked, alphabet)

    # Each may show another fault: a memory of cases, their order, their number, their neighbours.
    yield "in another batch of the same cases", [batch(rows), batch(rows)]
    yield "in another order", [batch(mixed)]
    yield "in two batches", [batch(mixed[:middle]), batch(mixed[middle:])]
    yield "by itself", [batch([row]) for row in rows]
    yield "among other cases", [batch([row], decoys) for row in rows]


def batch_of(
    chosen: Sequence[Case],
    like: Cases,
    alphabet: Alphabet,
) -> Cases:
    """These cases, with columns as ``like`` has them, narrowed to ``alphabet``; without one, coded
    as a kernel codes them: by the labels and the texts that occur, in their own order.
    """
    labels, codes = _coded([label for case in chosen for label in case.variant])
    offsets = offsets_of([len(case.variant) for case in chosen])
    columns = {
        name: _column([value for case in chosen for value in case.columns[name]])
        for name in like.columns
    }
    cases = Cases(labels, codes, offsets, Columns(columns))
    return cases if alphabet is None else cases.within(alphabet)


def _coded(texts: Sequence[str | None]) -> tuple[tuple[str, ...], Ints]:
    # Codes in the order of the texts, as a kernel gives them; -1 is missing.
    alphabet = tuple(sorted({text for text in texts if text is not None}))
    place: dict[str | None, int] = {text: code for code, text in enumerate(alphabet)}
    return alphabet, np.array([place.get(text, -1) for text in texts], np.int64)


def _column(values: Sequence[Value]) -> Column:
    alphabet, codes = _coded([text for text, _ in values])
    is_missing = np.array([number is None for _, number in values], np.bool_)
    numbers = [0 if number is None else number for _, number in values]
    # Times are whole numbers; others are floats.
    if all(isinstance(number, int) for number in numbers):
        return Column(np.array(numbers, np.int64), is_missing, codes, alphabet)
    return Column(np.array(numbers, np.float64), is_missing, codes, alphabet)


def cases_apart(cases: Cases) -> list[Case]:
    """Each case by itself."""
    bounds = cases.offsets.tolist()
    columns = {name: _values(column) for name, column in cases.columns.items()}
    found = []
    for row, variant in enumerate(cases.variants()):
        own = {}
        for name, values in columns.items():
            # A column of cases has one value a case, any other one an event.
            of_case = name.startswith(CASE_PREFIX)
            first, behind = (row, row + 1) if of_case else (bounds[row], bounds[row + 1])
            own[name] = tuple(values[first:behind])
        found.append(Case(variant, own))
    return found


def _values(column: Column) -> list[Value]:
    # A code of -1 picks the None at the end.
    texts = (*column.alphabet, None)
    values = zip(
        column.codes.tolist(),
        column.values.tolist(),
        column.is_missing.tolist(),
        strict=True,
    )
    return [(texts[code], None if is_missing else number) for code, number, is_missing in values]


def decoys_like(cases: Cases) -> list[Case]:
    """``DECOYS``, with values of the kinds that ``cases`` have, missing ones among them."""

    def value(column: Column, place: int) -> Value:
        texts = ("Decoy", *column.alphabet[:1], None) if column.alphabet else (None,)
        # Missing, common and far values in turns, so that nulls and clips are met.
        numbers: tuple[float | None, ...] = (None, 7, -(10**12), 7)
        number = numbers[place % 4]
        if number is not None and column.values.dtype.kind == "f":
            number = float(number)
        return texts[place % len(texts)], number

    found = []
    for row, variant in enumerate(DECOYS):
        columns = {}
        for name, column in cases.columns.items():
            many = 1 if name.startswith(CASE_PREFIX) else len(variant)
            columns[name] = tuple(value(column, row + place) for place in range(many))
        found.append(Case(variant, columns))
    return found


def name_of(cases: Cases, row: int) -> str:
    """The activities of a case, as a message names it."""
    (variant,) = cases.take(np.array([row])).variants()
    return " ".join(variant) or "a case without events"


T = TypeVar("T")

Vector = tuple[tuple[int, tuple[str, ...], int], ...]
"""The entries of one case, in their order: number, labels, value."""


@frozen
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

    def differing_rows(self, rows: list[int], batch: Cases) -> list[int]:
        """Those of ``rows``, which are the first cases of ``batch``, that it finds other in."""
        entries = answered(batch, self.query, self.labels)
        found = _vectors_of(batch, entries, self.labels)
        # Others behind the cases asked about have no row, and are not compared.
        return [row for row, vector in zip(rows, found, strict=False) if vector != self.found[row]]


@frozen
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

    def differing_rows(self, rows: list[int], batch: Cases) -> list[int]:
        """As of ``Asked``."""
        moves = _clipped(self.descent, self.gradient, self.parameters, batch, self.step)
        apart = np.abs(moves.rows()[: len(rows)] - self.found[rows]).max(axis=1, initial=0)
        most = max(ROUNDING, ROUNDING_SHARE * self.descent.clip)
        return [rows[place] for place in np.flatnonzero(apart > most).tolist()]


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
        self,
        cases: Cases,
        query: Query,
        labels: str | None = None,
        clip: Clip | None = None,
    ) -> Answered:
        """As the kernel asks, and the same of decoys before and after."""
        alphabet = self._narrowed_to(cases)
        entries = self._asked(lambda batch: answered(batch, query, labels), cases, alphabet)
        found = _vectors_of(cases, entries, labels)
        refused = tuple(sorted(set(self.refused)))
        self.collected.append(Asked(query, cases, found, alphabet, labels, refused, clip))
        return entries

    def vectors_of(
        self,
        cases: Cases,
        query: Query,
        clip: Clip,
        labels: str | None = None,
    ) -> Vectors:
        """As the kernel asks for vectors within ``clip``."""
        return bounded(cases, self.answered(cases, query, labels, clip), clip, labels)

    def clipped(
        self,
        descent: Descent,
        gradient: Gradient,
        parameters: Floats,
        cases: Cases,
        step: int,
    ) -> Moves:
        """As the kernel asks for gradients. Of many steps the first, second, fourth, eighth ... are
        kept.
        """
        alphabet = self._narrowed_to(cases)
        parameters = np.array(parameters, np.float64)
        found = self._asked(
            lambda batch: _clipped(descent, gradient, parameters, batch, step),
            cases,
            alphabet,
        )
        self.steps += 1
        # A power of two shares no bit with the number below it.
        if self.steps & (self.steps - 1) == 0:
            refused = tuple(sorted(set(self.refused)))
            asked = AskedGradient(
                gradient,
                descent,
                parameters,
                cases,
                found.rows(),
                alphabet,
                step,
                refused,
            )
            self.collected.append(asked)
        return found

    def _asked(
        self,
        ask: Callable[[Cases], T],
        cases: Cases,
        alphabet: Alphabet,
    ) -> T:
        """The answer for ``cases``; where disturbed, after one and before another of decoys."""
        decoys = decoys_like(cases) if self.disturbed else []
        # The decoys in one order before the cases, and in the other one behind them.
        batches = [batch_of(each, cases, alphabet) for each in (decoys, decoys[::-1]) if each]
        self.is_asking = True
        self.refused = []
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


# Kept before anything is patched.
_within = Cases.within
_clipped = Descent.clipped
_custom = Kernel.custom


@contextmanager
def queries_collected(*, disturbed: bool = False) -> Iterator[list[Asked | AskedGradient]]:
    """The queries and gradients that kernels ask for inside the block.

    ``disturbed``: each is called on decoys as well, before and after it is called on the cases of
    the log; what it finds there is forgotten.
    """
    observer = _Observer(disturbed=disturbed)
    methods: tuple[tuple[type, str, Callable[..., Any]], ...] = (
        (Cases, "within", observer.within),
        (Descent, "clipped", observer.clipped),
        (Columns, "__missing__", observer.missing),
    )
    with ExitStack() as patched:
        ask_instead(patched, observer.answered, observer.vectors_of)
        for of_class, name, instead in methods:
            patched.enter_context(patch.object(of_class, name, _as_method(instead)))
        yield observer.collected


def _as_method(function: Callable[..., T]) -> Callable[..., T]:
    """A function that a class hands its object to, as it would not do with one that is bound."""

    def method(*given: Any) -> T:
        return function(*given)

    return method


def ask_instead(
    patched: ExitStack,
    answered_by: Callable[..., Answered],
    vectors_by: Callable[..., Vectors],
) -> None:
    """Let the modules of the kernel ask queries by other functions.

    What else calls these, such as a mechanism on variants that are released already, asks no
    kernel.
    """
    asking = {answered: answered_by, vectors_of: vectors_by}
    # A module that imported a function keeps its own reference, so each module is patched.
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
            for row in asked.differing_rows(rows, batch):
                case = name_of(asked.cases, row)
                what = "query" if isinstance(asked, Asked) else "gradient"
                yield f"{how}, a {what} finds something else in <{case}>"


def _vectors_of(
    cases: Cases,
    entries: Answered,
    column: str | None,
) -> tuple[Vector, ...]:
    """What was found in each case, with labels of ``column``."""
    found: list[list[tuple[int, tuple[str, ...], int]]] = [[] for _ in range(len(cases))]
    alphabet, codes, _ = cases.texts(column)
    columns = (entries.case, entries.value, entries.code, entries.start, entries.stop)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for case, value, code, start, stop in rows:
        labels = tuple(alphabet[each] for each in codes[start:stop].tolist())
        found[case].append((code, labels, value))
    return tuple(map(tuple, found))


@contextmanager
def answers_withheld() -> Iterator[None]:
    """Queries and gradients are called on the log inside the block, and what they find there is
    withheld: what a mechanism makes then follows from nothing that the log holds, unless it looks
    at the log beside its answers.
    """
    with ExitStack() as patched:
        ask_instead(patched, _nothing_of, _no_vectors_of)
        patched.enter_context(patch.object(Descent, "clipped", _no_gradients))
        patched.enter_context(patch.object(Kernel, "custom", _noise_alone))
        # How many coins are thrown follows from the log; of every case nothing is found.
        patched.enter_context(patch.object(Kernel, "_Kernel__sample", _everything))
        yield


def _nothing_of(
    cases: Cases,
    query: Query,
    labels: str | None = None,
) -> Answered:
    # Called all the same, as it may remember what it sees.
    answered(cases, query, labels)
    nothing = np.zeros(0, np.int64)
    return Answered(nothing, nothing, nothing, nothing, nothing)


def _no_vectors_of(
    cases: Cases,
    query: Query,
    clip: Clip,
    labels: str | None = None,
) -> Vectors:
    return bounded(cases, _nothing_of(cases, query, labels), clip, labels)


def _no_gradients(descent: Descent, *asked: Any) -> Moves:
    return DenseMoves(np.zeros_like(_clipped(descent, *asked).rows()))


def _noise_alone(
    kernel: Kernel,
    query: CustomQuery,
    noise: Any,
) -> Ints:
    # The same query without data: noise is all that is left of its answer.
    nothing = replace(query, compute=lambda counts: np.zeros(query.size, np.int64))
    found: Ints = _custom(kernel, nothing, noise)
    return found


def _everything(kernel: Any, measured: Any, *asked: Any) -> Ints:
    return np.ones(len(measured.cases), np.int64)
