"""A gradient step from noisy tables: by how much the log differs from what they say of it.

The tables are a multinomial logistic regression of an attribute's values on the activity, with an
input for each activity. The gradient of a case's log-likelihood is, at each value, how often the
case has it less how often the tables expect it: zero on average where they are right, and shorter
than what the case adds to the tables wherever some value is usual. A shorter vector is clipped to
a smaller norm, so the same budget buys less noise. As values are shares, one step is Newton's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import Cases, Entries, Gaussian, Kernel, NoisySums, Query
from cloakwork.mechanisms.attributes.contributions import (
    SPREAD,
    UNIT_NORM,
    TableLayout,
    best_norm,
    is_of_cases,
    spread_over_events,
)
from cloakwork.mechanisms.attributes.tables import STANDS_OUT, Counted, NoisyTables, ValueShares

CENTRED: Final = 0.01
"""Shares below this are not taken off: they make gradients no shorter to speak of, and there may be
many.
"""

LEAST_NORM: Final = 0.5
"""No gradient is expected to be shorter, in cases, even where each value is as good as certain."""

AROUND: Final = (0.75, 1.0, 1.25)
"""How long gradients are, in parts of what is expected of a case."""

DEARER: Final = 3.0
"""What noise costs in a step beside uneven weights, as a multiple of that in tables."""

LEAST_SCALE: Final = 0.01
"""The tables are taken to count each case for this at least."""


@dataclass(frozen=True, slots=True)
class GradientStep:
    """``expected``: of each attribute how often each value is, of all cases with the activity,
    shape (groups, values), 0 where that is below ``CENTRED``; ``norm``: what gradients are clipped
    to, in cases; ``scale``: what the tables' clip leaves of a case, over what the gradient's leaves
    of one.
    """

    layout: TableLayout
    expected: tuple[Floats, ...]
    norm: float
    scale: float

    @classmethod
    def starting_at(
        cls,
        shares: Sequence[ValueShares],
        tables: NoisyTables,
        released: Cases,
        sigma: float,
    ) -> "GradientStep":
        """At ``shares``, what ``tables`` say; how long gradients are follows from the ``released``
        cases. ``sigma``: of the step's noise, in grid steps.
        """
        layout = tables.layout
        every = [each.present[:, None] * each.shape for each in shares]
        expected = tuple(np.where(each >= CENTRED, each, 0.0) for each in every)
        squares = [
            (each - usual**2).sum(axis=1) for each, usual in zip(every, expected, strict=True)
        ]
        norms = _expected_norms(layout, squares, released)
        if not len(norms):
            return cls(layout, expected, LEAST_NORM, 1.0)
        norms = np.maximum(np.outer(AROUND, norms).ravel(), LEAST_NORM)
        # Each case comes once for each of these.
        noise = sigma / UNIT_NORM * len(AROUND)
        best = best_norm(norms, np.ones(len(norms)), noise * DEARER)
        norm = min(max(best, float(np.median(norms))), float(norms.max()))
        left = float(np.minimum(1.0, norm / norms).mean())
        return cls(layout, expected, norm, _share_counted(tables, released) / left)

    def taken(self, kernel: Kernel, counted: Sequence[Counted], sigma: float) -> list[Counted]:
        """The counts, with what the step's answer says of them; ``sigma``: of its noise, in grid
        steps.
        """
        answer = kernel.sum(self.gradients(), Gaussian(sigma), SPREAD)
        return [self._corrected(place, each, answer, sigma) for place, each in enumerate(counted)]

    def gradients(self) -> Query:
        """The gradient of each case, at the keys of the tables' values."""

        def gradients(cases: Cases) -> Entries:
            own, expected = _ValueEntries(), _ValueEntries()
            label, share = spread_over_events(cases, self.layout.labels)
            labels, known = len(self.layout.labels), label >= 0
            having = np.unique(cases.case_of[known] * labels + label[known])
            of_events = having // max(labels, 1), having % max(labels, 1)
            every, zeros = np.arange(len(cases)), np.zeros(len(cases), np.int64)
            for place, attribute in enumerate(self.layout.attributes):
                codes = attribute.codes(cases.columns[attribute.name])
                weight, first = self.layout.weight(place), self.layout.values(place)
                if is_of_cases(attribute):
                    case, group, times, present = every, zeros, np.ones(len(cases)), (every, zeros)
                else:
                    case, group, times, present = cases.case_of, label, share, of_events
                rows = np.flatnonzero((codes >= 0) & (group >= 0))
                key = first + group[rows] * attribute.size + codes[rows]
                own.add(case[rows], key, weight * times[rows])
                row, cell, usual = _usual_values(self.expected[place], present[1])
                expected.add(present[0][row], first + cell, -weight * usual)
            return _entries([own, expected], UNIT_NORM / self.norm)

        return gradients

    def _corrected(self, place: int, counted: Counted, answer: NoisySums, sigma: float) -> Counted:
        """The counts of one attribute, averaged with what was expected of them and the answer's
        correction, weighted by how precise both are.
        """
        groups, size = counted.values.shape
        codes = self.layout.values(place) + np.arange(groups * size)
        grain = self.norm * self.scale / (UNIT_NORM * self.layout.weight(place))
        moved = answer.at(codes).reshape(groups, size) * grain
        values = np.maximum(counted.mass, 0.0)[:, None] * self.expected[place] + moved
        noise = sigma * grain
        both = _averaged((counted.values, counted.sigma), (values, noise))
        added = values.sum(axis=1), noise * float(np.sqrt(max(size, 1)))
        totals = _averaged((counted.totals, counted.total_sigma), added)
        return Counted(*both, *totals, counted.mass, counted.mass_sigma)


class _ValueEntries:
    """Entries of cases before they are rounded."""

    def __init__(self) -> None:
        self.case: list[Ints] = []
        self.code: list[Ints] = []
        self.weight: list[Floats] = []

    def add(self, case: Ints, code: Ints, weight: Floats) -> None:
        """Entries of one attribute."""
        self.case.append(case)
        self.code.append(code)
        self.weight.append(weight)


def _entries(found: Sequence[_ValueEntries], steps: float) -> Entries:
    """All entries in order, in grid steps, of which a case has ``steps``."""
    weight = np.concatenate([each for entries in found for each in entries.weight])
    return Entries(
        np.concatenate([each for entries in found for each in entries.case]),
        np.trunc(weight * steps).astype(np.int64),
        np.concatenate([each for entries in found for each in entries.code]),
    )


def _usual_values(expected: Floats, group: Ints) -> tuple[Ints, Ints, Floats]:
    """For each entry of ``group`` the values that are usual there: the place of the entry, the cell
    of the table, and the share.
    """
    groups, size = expected.shape
    cells = np.flatnonzero(expected.ravel() > 0)
    times = np.bincount(cells // max(size, 1), minlength=groups)
    first = np.cumsum(times) - times
    row = np.repeat(np.arange(len(group)), times[group])
    rank = np.arange(len(row)) - np.repeat(np.cumsum(times[group]) - times[group], times[group])
    cell = cells[first[group[row]] + rank]
    return row, cell, expected.ravel()[cell]


def _averaged(one: tuple[Floats, float], other: tuple[Floats, float]) -> tuple[Floats, float]:
    """Two answers to the same question, weighted by how precise they are."""
    precision = one[1] ** -2, other[1] ** -2
    both = sum(precision)
    return (one[0] * precision[0] + other[0] * precision[1]) / both, both**-0.5


def _expected_norms(layout: TableLayout, squares: Sequence[Floats], released: Cases) -> Floats:
    """How long the gradient of each of the ``released`` cases would be, about: shape (cases,).
    ``squares``: of each attribute the mean square of what is in a group, shape (groups,).
    """
    labels = len(layout.labels)
    of_events, of_cases = np.zeros(labels), 0.0
    for place, attribute in enumerate(layout.attributes):
        square = layout.weight(place) ** 2 * squares[place]
        if is_of_cases(attribute):
            of_cases += float(square[0])
        else:
            of_events += square
    having = np.unique(released.case_of * labels + released.codes)
    case, label = having // max(labels, 1), having % max(labels, 1)
    found = np.bincount(case, of_events[label], minlength=len(released))
    return np.asarray(np.sqrt(found + of_cases), np.float64)


def _share_counted(tables: NoisyTables, released: Cases) -> float:
    """What the tables count a case for, about: clipping leaves less than 1 of one. Released cases
    are about as many as the log's, and have the same activities. 1 where noise hides it.
    """
    labels = len(released.alphabet)
    having = np.unique(released.case_of * labels + released.codes) % max(labels, 1)
    real = np.append(np.bincount(having, minlength=labels), len(released)).astype(np.float64)
    noisy, sigma = tables.masses()
    length = float(np.sqrt(real @ real))
    along = float(noisy @ real) / max(length, 1.0)
    if along < STANDS_OUT * sigma:
        return 1.0
    return max(along / length, LEAST_SCALE)
