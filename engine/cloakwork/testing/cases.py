"""Cases as a query sees them, taken apart and put into other batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints, offsets_of
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.kernel import Cases, Column, Columns

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


@dataclass(frozen=True, slots=True)
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
