"""Values for events and cases drawn from distributions: as many of each as these say, up to
rounding, in random places; an attribute that keeps its value within a case keeps it.

Which attributes belong together: a forest of pairs, by noisy two-way tables. A table has the first
value that a case has of each of two attributes, in a few classes; or of one, beside what the
released case has already: its first and its last activity, how many events it has, how long it
takes. Pairs whose table stands out of its noise most, and which close no circle, become the forest.
First values are then exchanged between cases, within the events of one activity, until pairs of the
forest are together as often as their tables say: no value's own frequency changes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, begins_of, owners_of, place_in_run
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Cases, Entries, Query, Randomness
from cloakwork.mechanisms.attributes.contributions import UNIT_NORM
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.tables import ValueShares, expected_beside, independent

_FINE: Final = 1 << 53

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


@frozen
class Drawn:
    """``codes``: the value of each row, int64, -1 where it is missing. ``origin``: the row that it
    was copied from, int64; the row itself where it was not.
    """

    codes: Ints
    origin: Ints


def draw_values(
    found: ValueShares,
    group: Ints,
    randomness: Randomness,
) -> Drawn:
    """Values of rows that are of ``group`` (int64, -1 for none of them), in random order."""
    codes = np.full(len(group), -1)
    # Rows in random order, gathered by group; those of no group come first and are passed over.
    order = randomness.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    sizes = np.bincount(group[group >= 0], minlength=len(found.present))
    # The last value stands for a missing one.
    values = np.append(np.arange(found.shape.shape[1]), -1)
    begin = int((group < 0).sum())
    for place, size in enumerate(sizes.tolist()):
        present = found.present[place]
        shares = np.append(present * found.shape[place], 1 - present)
        times = rounded_times(shares * size, randomness)
        codes[order[begin : begin + size]] = np.repeat(values, times)
        begin += size
    return Drawn(codes, np.arange(len(group)))


def rounded_times(expected: Floats, randomness: Randomness) -> Ints:
    """Whole numbers with the same total (itself whole), each one of the two next to what is
    expected, and that on average (systematic sampling).
    """
    total = round(float(expected.sum()))
    # One random start for all: each number is rounded by where the running sum meets it.
    start = int(randomness.uniform(np.array([_FINE]))[0]) / _FINE
    ends = np.cumsum(expected)
    reached = np.minimum(np.floor(ends + start), total).astype(np.int64)
    # A sum of floats may fall short of the total by a rounding error.
    if len(reached):
        reached[-1] = total
    return np.diff(reached, prepend=0)


def with_copies(drawn: Drawn, cases: Cases) -> Drawn:
    """The first value of each case in all events of it that have one."""
    has_value = np.flatnonzero(drawn.codes >= 0)
    case = cases.case_of[has_value]
    first = has_value[np.searchsorted(case, case)]
    codes = drawn.codes.copy()
    origin = drawn.origin.copy()
    codes[has_value] = drawn.codes[first]
    origin[has_value] = first
    return Drawn(codes, origin)


def with_repeats(
    drawn: Drawn,
    cases: Cases,
    group: Ints,
    rate: float,
    randomness: Randomness,
) -> Drawn:
    """The same values of each group, exchanged between events at the same place of their cases so
    that about a share ``rate`` of them is the value before, as far as there are such.
    """
    codes = drawn.codes.copy()
    origin = drawn.origin.copy()
    asking = randomness.coins(rate, len(codes))
    # Cases come in random order.
    rank = randomness.permutation(len(cases))[cases.case_of]
    # Place by place, since a value that was copied can be copied on.
    for rows, before in _later_values(codes, cases, rank):
        asks = asking[rows]
        values = codes[rows][exchanged(codes[rows], codes[before], group[rows], asks)]
        is_copy = asks & (values == codes[before])
        origin[rows] = np.where(is_copy, origin[before], rows)
        codes[rows] = values
    return Drawn(codes, origin)


def _later_values(
    codes: Ints,
    cases: Cases,
    rank: Ints,
) -> Iterator[tuple[Ints, Ints]]:
    """Place by place the events there that have a value, in the order of ``rank``, and the last one
    before each in its case that has one; none of a case's first value, which stays: others may have
    been drawn to go with it. What is changed at a place is seen at the next one.
    """
    place = cases.place
    case_of = cases.case_of
    last = np.full(len(cases), -1)
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((rank[rows], place[rows]))]
    for at_place in _runs(rows, place[rows]):
        before = last[case_of[at_place]]
        is_later = before >= 0
        yield at_place[is_later], before[is_later]
        last[case_of[at_place]] = at_place


def _runs(rows: Ints, key: Ints) -> list[Ints]:
    """``rows`` in parts of one ``key`` each, which ascends."""
    return np.split(rows, np.flatnonzero(np.diff(key)) + 1)


def exchanged(
    offered: Ints,
    before: Ints,
    group: Ints,
    asks: Bools,
) -> Ints:
    """Which of the ``offered`` values each row takes, int64: those that ask, that of ``before``
    while there are such in their group; the others, what is left of their group.
    """
    if not len(offered):
        return np.zeros(0, np.int64)
    width = int(max(offered.max(), before.max())) + 1
    # One number for each group and value, on both sides of the exchange.
    supply = group * width + offered
    demand = group * width + before
    order = np.argsort(supply, kind="stable")
    rows = np.flatnonzero(asks)
    rows = rows[np.argsort(demand[rows], kind="stable")]
    required = demand[rows]
    # The n-th row that asks for a value takes the n-th that is offered of it.
    rank = place_in_run(required)
    place = np.searchsorted(supply[order], required) + rank
    inside = np.minimum(place, len(order) - 1)
    is_met = (place < len(order)) & (supply[order][inside] == required)
    taken = np.full(len(offered), -1)
    taken[rows[is_met]] = order[inside[is_met]]
    # The others share what is left, group by group.
    is_left = np.ones(len(offered), np.bool_)
    is_left[taken[taken >= 0]] = False
    left = np.flatnonzero(is_left)
    without = np.flatnonzero(taken < 0)
    left = left[np.argsort(group[left], kind="stable")]
    without = without[np.argsort(group[without], kind="stable")]
    taken[without] = left
    return taken


@frozen
class CaseClasses:
    """Classes of what released cases have before their attributes are drawn. ``ends``: of each
    activity of ``labels`` as the first and as the last one, and behind them of all others, int64;
    ``begins``: where classes of lengths, and of durations where these are granted, begin.
    """

    labels: tuple[str, ...]
    ends: tuple[Ints, ...]
    begins: tuple[Floats, ...]

    @classmethod
    def of_released(cls, cases: Cases, *, timed: bool) -> "CaseClasses":
        """Classes of about as many of these cases each."""
        size = len(cases.alphabet)
        places = _ends(cases, cases.alphabet)
        counts = [np.bincount(place[place >= 0], minlength=size) for place in places]
        sizes = [each[~np.isnan(each)] for each in _sizes(cases, timed=timed)]
        inner = np.arange(1, CLASSES - 1) / (CLASSES - 1)
        begins = [np.quantile(each, inner) if len(each) else np.zeros(0) for each in sizes]
        return cls(cases.alphabet, tuple(map(_by_frequency, counts)), tuple(begins))

    def of(self, cases: Cases) -> list[Ints]:
        """Of each of them the class of each case: int64, shape (cases,); 0 where it has none."""
        places = _ends(cases, self.labels)
        found = [table[place] for table, place in zip(self.ends, places, strict=True)]
        sizes = _sizes(cases, timed=len(self.begins) > 1)
        for each, begins in zip(sizes, self.begins, strict=True):
            place = 1 + np.searchsorted(begins, each, side="right")
            found.append(np.where(np.isnan(each), 0, place))
        return [np.where(cases.lengths == 0, 0, each).astype(np.int64) for each in found]


def _ends(cases: Cases, labels: Sequence[str]) -> tuple[Ints, Ints]:
    """The places in ``labels`` of each case's first and last activity; -1 where it has none."""
    codes = np.append(cases.coded(labels), -1)
    is_empty = cases.lengths == 0
    first = np.where(is_empty, -1, cases.offsets[:-1])
    last = np.where(is_empty, -1, cases.offsets[1:] - 1)
    return codes[first], codes[last]


def _sizes(cases: Cases, *, timed: bool) -> list[Floats]:
    """How many events each case has; and, ``timed``, how long it takes from the earliest to the
    latest time, in microseconds, NaN where it has none.
    """
    found = [cases.lengths.astype(np.float64)]
    if timed:
        times = cases.times
        rows = np.flatnonzero(~times.is_missing)
        case = cases.case_of[rows]
        begins = begins_of(case)
        latest = np.maximum.reduceat(times.values[rows], begins)
        spans = np.full(len(cases), np.nan)
        spans[case[begins]] = latest - np.minimum.reduceat(times.values[rows], begins)
        found.append(spans)
    return found


@frozen
class Classes:
    """For each attribute the class of each of its values, and last that of none: int64, shape
    (values + 1,); and those of ``cases``, whose places come behind the attributes'.
    """

    attributes: tuple[MeasuredAttribute, ...]
    tables: tuple[Ints, ...]
    cases: CaseClasses | None = None

    def of(self, place: int, codes: Ints) -> Ints:
        """The classes of values of one attribute."""
        return self.tables[place][codes]

    def pairs(self) -> list[tuple[int, int]]:
        """The places of each two attributes, and of each attribute and what cases have else."""
        count = len(self.attributes)
        found = [(one, other) for other in range(count) for one in range(other)]
        beside = 0 if self.cases is None else len(self.cases.ends) + len(self.cases.begins)
        return found + [(one, count + other) for other in range(beside) for one in range(count)]


def class_table(attribute: MeasuredAttribute, shares: Floats) -> Ints:
    """Classes of an attribute whose values have these ``shares``, shape (values,): numbers in
    classes of about the same share, in their order; of other values the most frequent each by
    itself, and all others together.
    """
    size = len(shares)
    most = CLASSES - 1
    # Few values are classes of their own; class 0 is that of missing ones.
    if size <= most:
        return np.append(np.arange(1, size + 1), 0)
    if attribute.is_of_numbers:
        total = max(float(shares.sum()), 1e-9)
        # By the middle of each value's share, so that classes hold about the same share each.
        middle = np.cumsum(shares) - shares / 2
        found = np.clip(most * middle / total, 0, most - 1).astype(np.int64)
    else:
        found = _by_frequency(shares)[:-1] - 1
    return np.append(found + 1, 0)


def _by_frequency(shares: Floats | Ints) -> Ints:
    """The class of each of these values, and last that of all others: the most frequent each have
    one, and all beyond share the last with the others.
    """
    rank = np.argsort(np.argsort(-shares, kind="stable"), kind="stable")
    return np.append(np.minimum(rank + 1, CLASSES - 1), CLASSES - 1).astype(np.int64)


def first_rows(cases: Cases, codes: Ints) -> Ints:
    """The first event of each case that has a value: int64, ascending; none for other cases."""
    rows = np.flatnonzero(codes >= 0)
    is_first = np.diff(cases.case_of[rows], prepend=-1) != 0
    return np.asarray(rows[is_first])


def first_values(
    attribute: MeasuredAttribute,
    cases: Cases,
    codes: Ints,
) -> Ints:
    """The first value of each case: int64, shape (cases,); -1 where it has none."""
    if attribute.is_of_cases:
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
        if classes.cases is not None:
            found += classes.cases.of(cases)
        keys = [
            (pair * CLASSES + found[one]) * CLASSES + found[other]
            for pair, (one, other) in enumerate(pairs)
        ]
        case = np.tile(np.arange(len(cases)), len(pairs))
        # One cell in each table, so that the whole vector has norm 1 at most.
        value = int(UNIT_NORM / np.sqrt(max(len(pairs), 1)))
        return Entries(case, np.full(len(case), value), np.concatenate(keys))

    return tables


def may_stand_out(
    tables: int,
    cases: float,
    sigma: float,
) -> bool:
    """Whether so many tables of pairs could stand out of noise of deviation ``sigma`` on a case's
    whole vector, in a log of so many cases.
    """
    of_a_count = sigma * np.sqrt(min(tables, MOST_PAIRS))
    return bool(tables and _NOISE_ALONE * of_a_count * CLASSES**2 < _MOST_APART * cases)


@frozen
class Edge:
    """Places ``parent`` and ``child`` (an attribute), and how often their classes are together:
    ``table``, float64, shape (CLASSES, CLASSES), the parent's first.
    """

    parent: int
    child: int
    table: Floats


def forest(
    pairs: Sequence[tuple[int, int]],
    noisy: Floats,
    sigma: float,
    attributes: int,
) -> list[Edge]:
    """The pairs that belong together most, without circles; each parent comes before its children.

    ``noisy``: shape (pairs, CLASSES, CLASSES), in cases, with noise of deviation ``sigma``. Places
    from ``attributes`` on are known of each case, so they are one tree from the beginning.
    """
    expected = [independent(table) for table in noisy]
    apart = np.array([np.abs(noisy[pair] - guess).sum() for pair, guess in enumerate(expected)])
    # What noise alone would add up to over all cells of a table, with a margin.
    least = STANDS_OUT * _NOISE_ALONE * sigma * CLASSES**2
    # The tree that each place is in, by one of its places; the furthest apart are joined first.
    tree_of = {place: min(place, attributes) for pair in pairs for place in pair}
    tables: dict[tuple[int, int], Floats] = {}
    for pair in np.argsort(-apart, kind="stable").tolist():
        one, other = (tree_of[place] for place in pairs[pair])
        if apart[pair] <= least or one == other:
            continue
        # Joined: every place of the one tree now belongs to the other.
        tree_of = {place: other if tree == one else tree for place, tree in tree_of.items()}
        guess = np.maximum(expected[pair], 1e-6)
        tables[pairs[pair]] = expected_beside(noisy[pair], guess, sigma)
    return _from_roots(tables, {place for place in tree_of if place >= attributes})


def _from_roots(tables: dict[tuple[int, int], Floats], known: set[int]) -> list[Edge]:
    """The edges, each from a place that is known or was reached before."""
    left = dict(tables)
    reached = set(known)
    found = list[Edge]()
    while left:
        # Go on from a place that was reached; else begin another tree.
        step = next((pair for pair in left if reached & set(pair)), next(iter(left)))
        table = left.pop(step)
        one, other = step
        # The parent is the place that was reached first, so the table may have to be turned.
        if other in reached:
            found.append(Edge(other, one, table.T))
        else:
            found.append(Edge(one, other, table))
        reached |= {one, other}
    return found


def raked(
    table: Floats,
    rows: Floats,
    columns: Floats,
) -> Floats:
    """``table`` scaled to these margins, as far as it can be (iterative proportional fitting)."""
    # No cell is zero, so that raking can reach any margins.
    found = np.maximum(table, 1e-9)
    for _ in range(_ROUNDS):
        found = found * (rows / np.maximum(found.sum(axis=1), 1e-12))[:, None]
        found = found * (columns / np.maximum(found.sum(axis=0), 1e-12))
    return found


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
    count = len(classes.attributes)
    of_cases = [] if classes.cases is None else classes.cases.of(cases)
    for edge in edges:
        child = classes.attributes[edge.child]
        if edge.parent >= count:
            of_parent = of_cases[edge.parent - count]
        else:
            parent = classes.attributes[edge.parent]
            known = first_values(parent, cases, found[edge.parent].codes)
            of_parent = classes.of(edge.parent, known)
        codes = found[edge.child].codes.copy()
        # Attributes of cases are exchanged freely, those of events within one activity.
        if child.is_of_cases:
            rows = case = np.arange(len(cases))
            group = np.zeros(len(cases), np.int64)
        else:
            rows = first_rows(cases, codes)
            case = cases.case_of[rows]
            group = cases.codes[rows]
        offered = classes.of(edge.child, codes[rows])
        taken = _suited(
            edge.table,
            of_parent[case],
            offered,
            group,
            randomness,
        )
        codes[rows] = codes[rows][taken]
        found[edge.child] = Drawn(codes, found[edge.child].origin)
    return found


def with_transitions(
    drawn: Drawn,
    table: Floats,
    cases: Cases,
    randomness: Randomness,
) -> Drawn:
    """The same values of each activity, exchanged between events at the same place of their cases
    so that values follow each other as often as ``table`` (shape (values, values)) says.
    """
    codes = drawn.codes.copy()
    # Classes are the values themselves here, which are few; the rest of the table stays empty.
    padded = np.zeros((CLASSES, CLASSES))
    padded[: len(table), : len(table)] = table
    in_log_order = np.zeros(len(codes), np.int64)
    for rows, before in _later_values(codes, cases, in_log_order):
        offered = codes[rows]
        group = cases.codes[rows]
        taken = _suited(
            padded,
            codes[before],
            offered,
            group,
            randomness,
        )
        codes[rows] = offered[taken]
    return Drawn(codes, drawn.origin)


def _suited(
    table: Floats,
    parent: Ints,
    offered: Ints,
    group: Ints,
    randomness: Randomness,
) -> Ints:
    """Which of the ``offered`` classes of a child each row takes, int64: as many of those in its
    group that suit its parent's class as the table says.
    """
    suited = offered.copy()
    order = randomness.permutation(len(group))
    order = order[np.lexsort((parent[order], group[order]))]
    for rows in _runs(order, group[order]):
        of_parent = np.bincount(parent[rows], minlength=CLASSES)
        of_child = np.bincount(offered[rows], minlength=CLASSES)
        # As often together as the table says, given what there is on both sides.
        joint = raked(table, of_parent.astype(np.float64), of_child.astype(np.float64))
        # Rows of a group come by their parent's class.
        begin = 0
        for shares, size in zip(joint, of_parent.tolist(), strict=True):
            if size:
                drawn = shares / max(float(shares.sum()), 1e-12) * size
                times = rounded_times(drawn, randomness)
                suited[rows[begin : begin + size]] = owners_of(times)
            begin += size
    return exchanged(offered, suited, group, np.ones(len(offered), np.bool_))
