"""Values for events and cases drawn from distributions: as many of each as these say, up to
rounding, in random places; an attribute that keeps its value within a case keeps it.

Which attributes belong together: a forest of pairs, by noisy two-way tables. A table has the first
value that a case has of each of two attributes, in a few classes. Pairs whose table stands out of
its noise most, and which close no circle, become the forest. First values are then exchanged
between cases, within the events of one activity, until pairs of the forest are together as often as
their tables say: no value's own frequency changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Cases, Entries, Query, Randomness
from cloakwork.mechanisms.attributes.contributions import UNIT_NORM, is_of_cases
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.tables import ValueShares, expected_beside, independent

_FINE: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Drawn:
    """``codes``: the value of each row, int64, -1 where it is missing. ``origin``: the row that it
    was copied from, int64; the row itself where it was not.
    """

    codes: Ints
    origin: Ints


def draw_values(found: ValueShares, group: Ints, randomness: Randomness) -> Drawn:
    """Values of rows that are of ``group`` (int64, -1 for none of them), in random order."""
    codes = np.full(len(group), -1)
    order = randomness.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    sizes = np.bincount(group[group >= 0], minlength=len(found.present))
    begin = int((group < 0).sum())
    for place, size in enumerate(sizes.tolist()):
        rows = order[begin : begin + size]
        shares = np.append(found.present[place] * found.shape[place], 1 - found.present[place])
        times = rounded_times(shares * size, randomness)
        codes[rows] = np.repeat(np.append(np.arange(len(shares) - 1), -1), times)
        begin += size
    return Drawn(codes, np.arange(len(group)))


def rounded_times(expected: Floats, randomness: Randomness) -> Ints:
    """Whole numbers with the same total (itself whole), each one of the two next to what is
    expected, and that on average (systematic sampling).
    """
    total = round(float(expected.sum()))
    start = int(randomness.uniform(np.array([_FINE]))[0]) / _FINE
    ends = np.cumsum(expected)
    reached = np.minimum(np.floor(ends + start), total).astype(np.int64)
    if len(reached):
        reached[-1] = total
    return np.diff(reached, prepend=0)


def with_copies(drawn: Drawn, cases: Cases) -> Drawn:
    """The first value of each case in all events of it that have one."""
    has_value = np.flatnonzero(drawn.codes >= 0)
    case = cases.case_of[has_value]
    first = has_value[np.searchsorted(case, case)]
    codes, origin = drawn.codes.copy(), drawn.origin.copy()
    codes[has_value], origin[has_value] = drawn.codes[first], first
    return Drawn(codes, origin)


def with_repeats(
    drawn: Drawn, cases: Cases, group: Ints, rate: float, randomness: Randomness
) -> Drawn:
    """The same values of each group, exchanged between events at the same place of their cases so
    that about a share ``rate`` of them is the value before, as far as there are such.
    """
    codes, origin = drawn.codes.copy(), drawn.origin.copy()
    asking = randomness.coins(rate, len(codes))
    rank = randomness.permutation(len(cases))
    last = np.full(len(cases), -1)
    case_of, place = cases.case_of, cases.place
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((rank[case_of[rows]], place[rows]))]
    bounds = np.flatnonzero(np.diff(place[rows])) + 1
    for all_rows in np.split(rows, bounds):
        # A case's first value stays: others may have been drawn to go with it.
        block = all_rows[last[case_of[all_rows]] >= 0]
        before = last[case_of[block]]
        asks = asking[block]
        values = codes[block][exchanged(codes[block], codes[before], group[block], asks)]
        is_copy = asks & (values == codes[before])
        origin[block] = np.where(is_copy, origin[before], block)
        codes[block] = values
        last[case_of[all_rows]] = all_rows
    return Drawn(codes, origin)


def exchanged(offered: Ints, before: Ints, group: Ints, asks: Bools) -> Ints:
    """Which of the ``offered`` values each row takes, int64: those that ask, that of ``before``
    while there are such in their group; the others, what is left of their group.
    """
    if not len(offered):
        return np.zeros(0, np.int64)
    width = int(max(offered.max(), before.max())) + 1
    supply, demand = group * width + offered, group * width + before
    order = np.argsort(supply, kind="stable")
    rows = np.flatnonzero(asks)
    rows = rows[np.argsort(demand[rows], kind="stable")]
    required = demand[rows]
    # The n-th row that asks for a value takes the n-th that is offered of it.
    place = np.searchsorted(supply[order], required) + _ranks(required)
    inside = np.minimum(place, len(order) - 1)
    is_met = (place < len(order)) & (supply[order][inside] == required)
    taken = np.full(len(offered), -1)
    taken[rows[is_met]] = order[inside[is_met]]
    is_left = np.ones(len(offered), np.bool_)
    is_left[taken[taken >= 0]] = False
    left, without = np.flatnonzero(is_left), np.flatnonzero(taken < 0)
    left = left[np.argsort(group[left], kind="stable")]
    without = without[np.argsort(group[without], kind="stable")]
    taken[without] = left
    return taken


def _ranks(ascending: Ints) -> Ints:
    """The how-manieth of its like each entry is, from 0."""
    return np.arange(len(ascending)) - np.searchsorted(ascending, ascending)


CLASSES: Final = 6
"""Of an attribute's values: missing, and five more."""

MOST_PAIRS: Final = 60
"""Tables that are counted; of more, so many are drawn at random."""

STANDS_OUT: Final = 1.5
"""How many times what noise alone makes of a table it must differ from independence."""

_NOISE_ALONE: Final = 0.8
"""The mean size of a normal number of deviation 1 (rounded up)."""

_MOST_APART: Final = 0.7
"""The share of all cases by which tables of attributes that belong together closely differ from
independence, about.
"""

_ROUNDS: Final = 20
"""Of raking a table to its margins."""


@dataclass(frozen=True, slots=True)
class Classes:
    """For each attribute the class of each of its values, and last that of none: int64, shape
    (values + 1,).
    """

    attributes: tuple[MeasuredAttribute, ...]
    tables: tuple[Ints, ...]

    def of(self, place: int, codes: Ints) -> Ints:
        """The classes of values of one attribute."""
        return self.tables[place][codes]


def class_table(attribute: MeasuredAttribute, shares: Floats) -> Ints:
    """Classes of an attribute whose values have these ``shares``, shape (values,): numbers in
    classes of about the same share, in their order; of other values the most frequent each by
    itself, and all others together.
    """
    size, most = len(shares), CLASSES - 1
    if size <= most:
        return np.append(np.arange(1, size + 1), 0)
    if attribute.is_of_numbers:
        total = max(float(shares.sum()), 1e-9)
        middle = np.cumsum(shares) - shares / 2
        found = 1 + np.clip(most * middle / total, 0, most - 1).astype(np.int64)
    else:
        rank = np.argsort(np.argsort(-shares, kind="stable"), kind="stable")
        found = 1 + np.minimum(rank, most - 1)
    return np.append(found, 0)


def first_rows(cases: Cases, codes: Ints) -> Ints:
    """The first event of each case that has a value: int64, ascending; none for other cases."""
    rows = np.flatnonzero(codes >= 0)
    case = cases.case_of[rows]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = np.diff(case) != 0
    return rows[is_first]


def first_values(attribute: MeasuredAttribute, cases: Cases, codes: Ints) -> Ints:
    """The first value of each case: int64, shape (cases,); -1 where it has none."""
    if is_of_cases(attribute):
        return codes
    found = np.full(len(cases), -1)
    rows = first_rows(cases, codes)
    found[cases.case_of[rows]] = codes[rows]
    return found


def pairs_of(classes: Classes, pairs: Sequence[tuple[int, int]]) -> Query:
    """The two-way tables of ``pairs``, of which a case has one cell each: a vector of norm 1."""

    def tables(cases: Cases) -> Entries:
        found = []
        for place, attribute in enumerate(classes.attributes):
            codes = attribute.codes(cases.columns[attribute.name])
            found.append(classes.of(place, first_values(attribute, cases, codes)))
        value = int(UNIT_NORM / np.sqrt(max(len(pairs), 1)))
        keys = [
            (pair * CLASSES + found[one]) * CLASSES + found[other]
            for pair, (one, other) in enumerate(pairs)
        ]
        case = np.tile(np.arange(len(cases)), len(pairs))
        return Entries(case, np.full(len(case), value), np.concatenate(keys))

    return tables


def pairs_of_places(attributes: int) -> int:
    """How many tables of two attributes are counted."""
    return min(attributes * (attributes - 1) // 2, MOST_PAIRS)


def may_stand_out(attributes: int, cases: float, sigma: float) -> bool:
    """Whether the tables of two attributes could stand out of noise of deviation ``sigma`` on a
    case's whole vector, in a log of so many cases.
    """
    of_a_count = sigma * np.sqrt(pairs_of_places(attributes))
    return bool(_NOISE_ALONE * of_a_count * CLASSES**2 < _MOST_APART * cases)


@dataclass(frozen=True, slots=True)
class Edge:
    """Attributes ``parent`` and ``child`` (places), and how often their classes are together:
    ``table``, float64, shape (CLASSES, CLASSES), the parent's first.
    """

    parent: int
    child: int
    table: Floats


def forest(pairs: Sequence[tuple[int, int]], noisy: Floats, sigma: float) -> list[Edge]:
    """The pairs that belong together most, without circles; each parent comes before its children.

    ``noisy``: shape (pairs, CLASSES, CLASSES), in cases, with noise of deviation ``sigma``.
    """
    expected = [independent(table) for table in noisy]
    apart = np.array(
        [np.abs(table - guess).sum() for table, guess in zip(noisy, expected, strict=True)]
    )
    least = STANDS_OUT * _NOISE_ALONE * sigma * CLASSES**2
    tree: dict[int, int] = {}
    chosen: list[int] = []
    for pair in np.argsort(-apart, kind="stable").tolist():
        one, other = (_root(tree, place) for place in pairs[pair])
        if apart[pair] > least and one != other:
            tree[one] = other
            chosen.append(pair)
    tables = {
        pairs[pair]: expected_beside(noisy[pair], np.maximum(expected[pair], 1e-6), sigma)
        for pair in chosen
    }
    return _from_roots(tables)


def _root(tree: dict[int, int], place: int) -> int:
    while place in tree:
        place = tree[place]
    return place


def _from_roots(tables: dict[tuple[int, int], Floats]) -> list[Edge]:
    """The edges, each from a place that was reached before."""
    left, reached, found = dict(tables), set[int](), list[Edge]()
    while left:
        step = next((pair for pair in left if reached & set(pair)), next(iter(left)))
        table = left.pop(step)
        one, other = step
        if other in reached:
            found.append(Edge(other, one, table.T))
        else:
            found.append(Edge(one, other, table))
        reached |= {one, other}
    return found


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """``table`` scaled to these margins, as far as it can be (iterative proportional fitting)."""
    found = np.maximum(table, 1e-9)
    for _ in range(_ROUNDS):
        found = found * (rows / np.maximum(found.sum(axis=1), 1e-12))[:, None]
        found = found * (columns / np.maximum(found.sum(axis=0), 1e-12))
    return np.asarray(found, np.float64)


def with_pairs(
    columns: Sequence[Drawn],
    edges: Sequence[Edge],
    classes: Classes,
    cases: Cases,
    randomness: Randomness,
) -> list[Drawn]:
    """The drawn values of all attributes, first values of each child exchanged between cases, so
    that they go with those of its parent as often as its table says.
    """
    found = list(columns)
    for edge in edges:
        parent, child = (classes.attributes[place] for place in (edge.parent, edge.child))
        codes = found[edge.child].codes.copy()
        own = classes.of(edge.parent, first_values(parent, cases, found[edge.parent].codes))
        if is_of_cases(child):
            rows = case = np.arange(len(cases))
            group = np.zeros(len(cases), np.int64)
        else:
            rows, case, group = first_rows(cases, codes), cases.case_of, cases.codes
        offered, group = classes.of(edge.child, codes[rows]), group[rows]
        suited = _suited(edge.table, own[case[rows]], offered, group, randomness)
        every = np.ones(len(rows), np.bool_)
        codes[rows] = codes[rows][exchanged(offered, suited, group, every)]
        found[edge.child] = Drawn(codes, found[edge.child].origin)
    return found


def with_transitions(drawn: Drawn, table: Floats, cases: Cases, randomness: Randomness) -> Drawn:
    """The same values of each activity, exchanged between events at the same place of their cases
    so that values follow each other as often as ``table`` (shape (values, values)) says.
    """
    codes, last = drawn.codes.copy(), np.full(len(cases), -1)
    case_of, place = cases.case_of, cases.place
    padded = np.zeros((CLASSES, CLASSES))
    padded[: len(table), : len(table)] = table
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.argsort(place[rows], kind="stable")]
    for all_rows in np.split(rows, np.flatnonzero(np.diff(place[rows])) + 1):
        block = all_rows[last[case_of[all_rows]] >= 0]
        offered, before = codes[block], codes[last[case_of[block]]]
        suited = _suited(padded, before, offered, cases.codes[block], randomness)
        every = np.ones(len(block), np.bool_)
        codes[block] = offered[exchanged(offered, suited, cases.codes[block], every)]
        last[case_of[all_rows]] = all_rows
    return Drawn(codes, drawn.origin)


def _suited(
    table: Floats, parent: Ints, offered: Ints, group: Ints, randomness: Randomness
) -> Ints:
    """For each row a class of the child that suits its parent's, as many of each as the table says
    of those that are offered in its group: int64.
    """
    suited = offered.copy()
    if not len(offered):
        return suited
    order = randomness.permutation(len(group))
    order = order[np.lexsort((parent[order], group[order]))]
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        times = [np.bincount(each[rows], minlength=CLASSES) for each in (parent, offered)]
        joint = raked(table, *(each.astype(np.float64) for each in times))
        # Rows of a group come by their parent's class.
        ends = np.cumsum(times[0])
        for place, (end, size) in enumerate(zip(ends.tolist(), times[0].tolist(), strict=True)):
            if size:
                shares = joint[place] / max(float(joint[place].sum()), 1e-12)
                drawn = rounded_times(shares * size, randomness)
                suited[rows[end - size : end]] = np.repeat(np.arange(CLASSES), drawn)
    return suited
