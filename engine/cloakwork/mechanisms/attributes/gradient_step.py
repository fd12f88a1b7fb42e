"""A gradient step from noisy tables: by how much the log differs from what they say of it.

The tables are a multinomial logistic regression of an attribute's values on the activity, with an
input for each activity. The gradient of a case's log-likelihood is, at each value, how often the
case has it less how often the tables expect it: zero on average where they are right, and shorter
than what the case adds to the tables wherever some value is usual. A shorter vector is clipped to
a smaller norm, so the same budget buys less noise. As values are shares, one step is Newton's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import Cases, Entries, Gaussian, Kernel, NoisySums, Query
from cloakwork.mechanisms.attributes.contributions import (
    SPREAD,
    UNIT_NORM,
    Contributions,
    TableLayout,
    best_norm,
    spread_over_events,
)
from cloakwork.mechanisms.attributes.tables import (
    STANDS_OUT,
    Counted,
    NoisyTables,
    ValueShares,
)

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
        # Mean squares: a share less its square where it is taken off, and the share where not.
        squares = [
            (each - usual**2).sum(axis=1) for each, usual in zip(every, expected, strict=True)
        ]
        lengths = _expected_lengths(layout, squares, released)
        if not len(lengths):
            return cls(layout, expected, LEAST_NORM, 1.0)
        # Each case comes once for each of these parts, so noise counts so often, too.
        norms = np.maximum(np.outer(AROUND, lengths).ravel(), LEAST_NORM)
        noise = sigma / UNIT_NORM * len(AROUND)
        best = best_norm(norms, np.ones(len(norms)), noise * DEARER)
        # Not below the median of expected norms, nor above the largest.
        norm = min(max(best, float(np.median(norms))), float(norms.max()))
        left = float(np.minimum(1.0, norm / norms).mean())
        return cls(layout, expected, norm, _share_counted(tables, released) / left)

    def taken(
        self,
        kernel: Kernel,
        counted: Sequence[Counted],
        sigma: float,
    ) -> list[Counted]:
        """The counts, with what the step's answer says of them; ``sigma``: of its noise, in grid
        steps.
        """
        answer = kernel.sum(self.gradients(), Gaussian(sigma), SPREAD)
        return [self._corrected(place, each, answer, sigma) for place, each in enumerate(counted)]

    def gradients(self) -> Query:
        """The gradient of each case, at the keys of the tables' values."""

        def gradients(cases: Cases) -> Entries:
            own, usual = Contributions(), Contributions()
            label, share = spread_over_events(cases, self.layout.labels)
            known = label >= 0
            of_events = _having(cases.case_of[known], label[known], len(self.layout.labels))
            every, zeros = np.arange(len(cases)), np.zeros(len(cases), np.int64)
            for place, attribute in enumerate(self.layout.attributes):
                codes = attribute.codes(cases.columns[attribute.name])
                weight, first = self.layout.weight(place), self.layout.values(place)
                if attribute.is_of_cases:
                    case, group, times = every, zeros, np.ones(len(cases))
                    having, groups = every, zeros
                else:
                    case, group, times = cases.case_of, label, share
                    having, groups = of_events
                # How often the case has each value.
                rows = np.flatnonzero((codes >= 0) & (group >= 0))
                key = first + group[rows] * attribute.size + codes[rows]
                own.add(case[rows], key, weight * times[rows])
                # Less how often the tables expect it.
                row, cell, expected = _usual_values(self.expected[place], groups)
                usual.add(having[row], first + cell, -weight * expected)
            entries = Contributions(
                own.case + usual.case,
                own.code + usual.code,
                own.weight + usual.weight,
            )
            return entries.in_steps(UNIT_NORM / self.norm)

        return gradients

    def _corrected(
        self,
        place: int,
        counted: Counted,
        answer: NoisySums,
        sigma: float,
    ) -> Counted:
        """The counts of one attribute, averaged with what was expected of them and the answer's
        correction, weighted by how precise both are.
        """
        groups, size = counted.values.shape
        codes = self.layout.values(place) + np.arange(groups * size)
        # Back from clipped grid steps to cases, as the tables count them.
        grain = self.norm * self.scale / (UNIT_NORM * self.layout.weight(place))
        moved = answer.at(codes).reshape(groups, size) * grain
        values = np.maximum(counted.mass, 0.0)[:, None] * self.expected[place] + moved
        noise = sigma * grain
        found, deviation = _averaged(counted.values, counted.sigma, values, noise)
        # A total is a sum of as many noisy values.
        totals, total_sigma = _averaged(
            counted.totals,
            counted.total_sigma,
            values.sum(axis=1),
            noise * float(np.sqrt(max(size, 1))),
        )
        return replace(
            counted,
            values=found,
            sigma=deviation,
            totals=totals,
            total_sigma=total_sigma,
        )


def _having(
    case: Ints,
    label: Ints,
    labels: int,
) -> tuple[Ints, Ints]:
    """Each case and each activity that it has, once: both int64, ascending by case."""
    once = np.unique(case * labels + label)
    return once // max(labels, 1), once % max(labels, 1)


def _usual_values(expected: Floats, group: Ints) -> tuple[Ints, Ints, Floats]:
    """For each entry of ``group`` the values that are usual there: the place of the entry, the cell
    of the table, and the share.
    """
    groups, size = expected.shape
    cells = np.flatnonzero(expected.ravel() > 0)
    # Cells stand group by group: ``times`` of each, from ``first`` on.
    times = np.bincount(cells // max(size, 1), minlength=groups)
    first = np.cumsum(times) - times
    of_entry = times[group]
    row = np.repeat(np.arange(len(group)), of_entry)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(of_entry) - of_entry, of_entry)
    cell = cells[first[group[row]] + rank]
    return row, cell, expected.ravel()[cell]


def _averaged(
    one: Floats,
    one_sigma: float,
    other: Floats,
    other_sigma: float,
) -> tuple[Floats, float]:
    """Two answers to the same question, weighted by how precise they are; and its deviation."""
    precision, other_precision = one_sigma**-2, other_sigma**-2
    both = precision + other_precision
    return (one * precision + other * other_precision) / both, both**-0.5


def _expected_lengths(
    layout: TableLayout,
    squares: Sequence[Floats],
    released: Cases,
) -> Floats:
    """How long the gradient of each of the ``released`` cases would be, about: shape (cases,).
    ``squares``: of each attribute the mean square of what is in a group, shape (groups,).
    """
    labels = len(layout.labels)
    of_events, of_cases = np.zeros(labels), 0.0
    for place, attribute in enumerate(layout.attributes):
        square = layout.weight(place) ** 2 * squares[place]
        if attribute.is_of_cases:
            of_cases += float(square[0])
        else:
            of_events += square
    case, label = _having(released.case_of, released.codes, labels)
    found = np.bincount(case, of_events[label], minlength=len(released))
    return np.asarray(np.sqrt(found + of_cases), np.float64)


def _share_counted(tables: NoisyTables, released: Cases) -> float:
    """What the tables count a case for, about: clipping leaves less than 1 of one. Released cases
    are about as many as the log's, and have the same activities. 1 where noise hides it.
    """
    labels = len(released.alphabet)
    _, label = _having(released.case_of, released.codes, labels)
    real = np.append(np.bincount(label, minlength=labels), len(released)).astype(np.float64)
    noisy, sigma = tables.masses()
    # The noisy counts along the real ones (least squares).
    length = float(np.sqrt(real @ real))
    along = float(noisy @ real) / max(length, 1.0)
    if along < STANDS_OUT * sigma:
        return 1.0
    return max(along / length, LEAST_SCALE)
