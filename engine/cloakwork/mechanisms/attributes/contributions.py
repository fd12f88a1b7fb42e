"""What a case contributes to the tables of attributes: one vector over all of them.

In each group (an attribute and an activity) a case weighs the root of how many events of the
activity it has, spread over them: each that has a value counts at that value, and one without at
none. Beside the values
stand, with less weight, how many cases have each activity, how many of these have a value, and how
often an attribute keeps the value that it had before in its case, or changes it. The whole vector
is divided by a norm that most cases lie within (``best_norm``), and the kernel clips it to
Euclidean norm 1: one case more or less moves all tables together by at most that, however many
events and attributes it has.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints, distinct
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Cases, Clip, Entries, Query
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute

UNIT_NORM: Final = 1 << 20
"""Grid steps in one case: so fine that a value spread over many events loses little by rounding."""

MOST_CELLS: Final = 1 << 14
"""Different keys that one case may count for."""

SPREAD: Final = Clip("l2", UNIT_NORM, MOST_CELLS)
"""A case counts for a vector of norm 1."""

MOVED: Final = replace(SPREAD, signed=True)
"""The same of a vector whose values may lie below 0."""

WHOLE: Final = Clip("l1", UNIT_NORM, 1)
"""A case counts for one, at one key."""

SIDE_WEIGHT: Final = 0.5
"""Of counts beside the values: cases with an activity, with a value, with one kept or changed."""

FEW_VALUES: Final = 10
"""So many values add up to their group's total well enough; of more, it is counted by itself."""

USUAL_SIZE: Final = 10
"""Values of an attribute that count for 1."""

WEIGHT_POWER: Final = 1 / 6

WEIGHTS: Final = (0.5, 2.0)
"""The least and the largest weight of a value."""

MOST_FOLLOWED: Final = 5
"""Of attributes of so many values it is counted which value follows which."""

NORMS: Final = 14
"""Classes of norms: up to 1, and from each to the root of two times it."""


NOISE_PRICE: Final = 30.0
"""What noise in a count, as a share of the cases, costs beside cases that are weighted unevenly."""


@frozen
class TableLayout:
    """Where the keys of each table begin: ``attributes`` measured, per activity of ``labels`` where
    they are of events.
    """

    attributes: tuple[MeasuredAttribute, ...]
    labels: tuple[str, ...]

    def finer(self, fineness: int) -> "TableLayout":
        """With bins of this fineness."""
        update = {"fineness": fineness}
        finer = [attribute.model_copy(update=update) for attribute in self.attributes]
        return TableLayout(tuple(finer), self.labels)

    def groups(self, attribute: int) -> int:
        """Tables of an attribute: one an activity; one in all, where it is of cases."""
        return 1 if self.attributes[attribute].is_of_cases else len(self.labels)

    @property
    def masses(self) -> int:
        """Where cases with each activity, and last all cases, are counted."""
        return 2 * len(self.attributes)

    def totals(self, attribute: int) -> int:
        """Where cases with a value of the attribute are counted, by group."""
        before = sum(map(self.groups, range(attribute)))
        return self.masses + len(self.labels) + 1 + before

    def values(self, attribute: int) -> int:
        """Where its values are counted: group by group."""
        before = sum(self.groups(i) * self.attributes[i].size for i in range(attribute))
        return self.totals(len(self.attributes)) + before

    def follows(self, attribute: int) -> int:
        """Where is counted which of its values follows which, row by row."""
        sizes = [self.attributes[i].size for i in range(attribute) if self.counts_follows(i)]
        return self.values(len(self.attributes)) + sum(size**2 for size in sizes)

    def counts_follows(self, attribute: int) -> bool:
        """Whether that is counted; else, how often the same value follows."""
        return self.attributes[attribute].size <= MOST_FOLLOWED

    def weight(self, attribute: int) -> float:
        """How much a value counts for: more where there are many, each of which is rare."""
        size = max(self.attributes[attribute].size, 1)
        return float(np.clip((size / USUAL_SIZE) ** WEIGHT_POWER, *WEIGHTS))

    def spelled(self, codes: Ints) -> list[tuple[JsonValue, ...]]:
        """Keys of values as the attribute, the activity (None where it is of cases), and the value
        or both ends of its bin (days or seconds since 1970, of dates and times); of cases with an
        activity, and last of all, as that. Others, which mechanisms alone go by, as their number.
        """
        keys = self._keys
        return [keys.get(code, (code,)) for code in codes.tolist()]

    def ones(self, codes: Ints, norm: float) -> Floats:
        """What a case counts for at each key, in grid steps, where vectors are divided by ``norm``:
        a value by its attribute's weight.
        """
        weight = np.full(len(codes), SIDE_WEIGHT)
        for place, attribute in enumerate(self.attributes):
            begin = self.values(place)
            end = begin + self.groups(place) * attribute.size
            weight[(codes >= begin) & (codes < end)] = self.weight(place)
        return weight * (UNIT_NORM / norm)

    @property
    def _keys(self) -> dict[int, tuple[JsonValue, ...]]:
        names: tuple[tuple[JsonValue, ...], ...] = (*((label,) for label in self.labels), ())
        keys = dict(enumerate(names, self.masses))
        for place, attribute in enumerate(self.attributes):
            groups = (None,) if attribute.is_of_cases else self.labels
            bins = attribute.bins
            values = [(value,) for value in attribute.domain or ()] if bins is None else bins.ends
            rows = ((attribute.name, group, *value) for group in groups for value in values)
            keys.update(enumerate(rows, self.values(place)))
        return keys

    def counts_totals(self, attribute: int) -> bool:
        """Whether its groups' totals are counted by themselves."""
        return self.attributes[attribute].size > FEW_VALUES


Contributions = list[tuple[Ints, Ints, Floats]]
"""Entries of cases whose sizes are not rounded yet, table by table: case and code, int64, and
weight, float64.
"""


def in_steps(found: Contributions, steps: float) -> Entries:
    """All entries in order, in grid steps towards zero, of which a case has ``steps``."""
    case, code, weight = map(np.concatenate, zip(*found, strict=True))
    return Entries(case, np.trunc(weight * steps).astype(np.int64), code)


def _norms(found: Contributions, cases: int) -> Floats:
    """The Euclidean norm of each case's vector."""
    case, code, weight = map(np.concatenate, zip(*found, strict=True))
    width = int(code.max(initial=0)) + 1
    # Entries of the same case and key are one cell: they add up before they are squared.
    cell, place, _ = distinct(case * width + code)
    sums = np.bincount(place, weights=weight, minlength=len(cell))
    return np.sqrt(np.bincount(cell // width, weights=sums * sums, minlength=cases))


def spread_over_events(cases: Cases, labels: Sequence[str]) -> tuple[Ints, Floats]:
    """The place of each event's activity in ``labels`` (int64, -1 where it is not there), and 1
    over the root of the number of events of its case that have it (0 there): between events that
    count alike and cases that do.
    """
    label = cases.coded(labels)
    known = np.flatnonzero(label >= 0)
    share = np.zeros(len(label))
    share[known] = np.sqrt(_shares(cases.case_of[known] * len(labels) + label[known]))
    return label, share


def norms_of(layout: TableLayout) -> Query:
    """The class of each case's norm, of ``NORMS``; none of a case that counts for nothing."""

    def norms(cases: Cases) -> Entries:
        norm = _norms(_contributions(cases, layout), len(cases))
        rows = np.flatnonzero(norm > 0)
        # A norm that is a class's bound lies in it, whatever the last digit of a sum.
        place = np.ceil(2 * np.log2(norm[rows]) - 1e-9)
        code = np.clip(place, 0, NORMS - 1).astype(np.int64)
        return Entries(rows, np.full(len(rows), UNIT_NORM), code)

    return norms


def tables_of(layout: TableLayout, norm: float) -> Query:
    """All tables, of vectors divided by ``norm``."""

    def tables(cases: Cases) -> Entries:
        # No weight is below 0, so towards zero is down.
        return in_steps(_contributions(cases, layout), UNIT_NORM / norm)

    return tables


def _contributions(cases: Cases, layout: TableLayout) -> Contributions:
    label, share = spread_over_events(cases, layout.labels)
    known = np.flatnonzero(label >= 0)
    # Cases with each activity, and all cases.
    in_all = np.full(len(cases), layout.masses + len(layout.labels))
    found = [
        (cases.case_of[known], layout.masses + label[known], SIDE_WEIGHT * share[known]),
        (np.arange(len(cases)), in_all, np.full(len(cases), SIDE_WEIGHT)),
    ]
    for place, attribute in enumerate(layout.attributes):
        column = cases.columns[attribute.name]
        codes = attribute.codes(column)
        case, group, weight = counted_rows(cases, attribute, label, share)
        rows = add_values(
            found,
            layout,
            place,
            case,
            group,
            weight,
            codes,
        )
        # Of many values a group's total is noisy as a sum, so it is counted by itself.
        if layout.counts_totals(place):
            total = layout.totals(place) + group[rows]
            found.append((case[rows], total, SIDE_WEIGHT * weight[rows]))
        if not attribute.is_of_cases:
            exact = attribute.exact(column, codes)
            _add_followed(
                found,
                layout,
                place,
                case,
                codes,
                exact,
            )
    return found


def counted_rows(
    cases: Cases,
    attribute: MeasuredAttribute,
    label: Ints,
    share: Floats,
) -> tuple[Ints, Ints, Floats]:
    """Of each value of an attribute the case, the group (-1: none) and what it counts for.
    ``label``, ``share``: of events, as of ``spread_over_events``.
    """
    if not attribute.is_of_cases:
        return cases.case_of, label, share
    every = np.arange(len(cases))
    return every, np.zeros_like(every), np.ones(len(cases))


def add_values(
    found: Contributions,
    layout: TableLayout,
    place: int,
    case: Ints,
    group: Ints,
    share: Floats,
    codes: Ints,
) -> Ints:
    """Add an attribute's values, of ``counted_rows``; returns the rows that have one."""
    rows = np.flatnonzero((codes >= 0) & (group >= 0))
    key = layout.values(place) + group[rows] * layout.attributes[place].size + codes[rows]
    found.append((case[rows], key, share[rows] * layout.weight(place)))
    return rows


def _add_followed(
    found: Contributions,
    layout: TableLayout,
    place: int,
    case: Ints,
    codes: Ints,
    exact: Floats,
) -> None:
    """Entries of one attribute of events, of a case that has several values of it: the share of
    these, but the first, that are another one than before, and that are the same, or that follow
    each value.
    """
    before, after, share = followed(case, codes)
    weight = SIDE_WEIGHT * share
    is_same = exact[before] == exact[after]
    found.append((case[after], 2 * place + is_same, weight))
    # Of few values it is also counted which follows which.
    if layout.counts_follows(place):
        pair = codes[before] * layout.attributes[place].size + codes[after]
        found.append((case[after], layout.follows(place) + pair, weight))


def followed(case: Ints, codes: Ints) -> tuple[Ints, Ints, Floats]:
    """The rows of two events with a value, one after the other in the same case, and 1 over how
    many such pairs the case has.
    """
    rows = np.flatnonzero(codes >= 0)
    later = np.flatnonzero(np.diff(case[rows]) == 0)
    after = rows[later + 1]
    return rows[later], after, _shares(case[after])


def _shares(group: Ints) -> Floats:
    """For each entry 1 over the number of entries of its group."""
    _, place, times = distinct(group)
    return 1 / times[place]


def best_norm(
    norms: Floats,
    times: Floats,
    sigma: float,
) -> float:
    """The norm to clip to, of powers of 2^(1/4) from 1 on, where less would distort more than it
    saves noise: ``times`` cases (above 0 in all) have each of ``norms``, and noise is ``sigma``
    cases where it is 1.
    """
    cases = float(times.sum())
    best = np.inf, 1.0
    for power in range(2 * NORMS - 1):
        candidate = float(2.0 ** (power / 4))
        # Clipped cases weigh less than 1; their mean scales counts up again, noise included.
        weight = np.minimum(1.0, candidate / norms)
        mean = float(times @ weight) / cases
        noise = sigma * candidate / (cases * mean)
        # Half the absolute departure from even weights: a distance between distributions.
        uneven = float(times @ np.abs(weight / mean - 1)) / (2 * cases)
        best = min(best, (NOISE_PRICE * noise + uneven, candidate))
    return best[1]
