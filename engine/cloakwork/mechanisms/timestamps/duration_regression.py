"""How long cases take, given their activities: a regression whose weights are found by gradient
steps under noise.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Cases, Factors, Kernel
from cloakwork.mechanisms.timestamps.ascent import (
    bends_of_curves,
    cosines_over,
    distributions_of,
    fitted,
)
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.gap_regression import most_frequent_first
from cloakwork.mechanisms.timestamps.regression_params import (
    ACTIVITIES,
    INPUTS,
    OUTPUTS,
    GradientSteps,
)
from cloakwork.mechanisms.timestamps.time_queries import KnownTimes

ALL: Final = 3.0
PRESENT: Final = 0.3
"""What all cases share, and an activity that a case has, weigh as inputs, where the last activity
weighs 1.
"""

WIDTH: Final = 2.0
"""Bins by which what is expected is smoothed: the deviation of a normal curve."""

ANYTHING: Final = 0.05
"""The part of what is expected that may be any duration up to ``BEYOND`` bins above the longest."""

BEYOND: Final = 3

NEVER: Final = 1e-9
"""What is expected of longer ones."""


def expected_durations(place: Ints, bins: int) -> Floats:
    """Which durations are expected, where sums of gaps lie in the bins ``place``: a distribution,
    shape (bins,).
    """
    reach = int(4 * WIDTH)
    curve = np.exp(-0.5 * (np.arange(-reach, reach + 1) / WIDTH) ** 2)
    counted = np.bincount(place, minlength=bins).astype(np.float64)
    smooth = np.convolve(counted, curve)[reach:-reach]
    within = np.arange(bins) <= place.max() + BEYOND
    kept = np.where(within, smooth, 0.0)
    shape = (1 - ANYTHING) * kept / kept.sum() + ANYTHING / within.sum()
    found = np.where(within, shape, NEVER)
    return np.asarray(found / found.sum())


def curves_over(bins: int) -> Floats:
    """Cosines over the bins, the j-th with j half-waves and a height of 1 / j: shape (bins,
    ``OUTPUTS``); zeros from the j-th on where there are so few bins.
    """
    return np.asarray(cosines_over(bins, OUTPUTS) / np.arange(1, OUTPUTS + 1))


@dataclass(frozen=True, slots=True)
class DurationRegression:
    """``row_of``: the row of each activity among the inputs, int64, the last one for all that have
    none of their own. ``base``: log of what is expected of each of ``bins``.
    """

    clock: Clock
    bins: LogBins
    row_of: Ints
    base: Floats
    curves: Floats

    @classmethod
    def expecting(
        cls, clock: Clock, bins: LogBins, released: Cases, place: Ints
    ) -> "DurationRegression":
        """Of the activities that most ``released`` cases have; ``place``: the bin of what the gaps
        of each case of two events or more add up to.
        """
        row_of = _rows_of_activities(released)
        base = np.log(expected_durations(place, len(bins)))
        return cls(clock, bins, row_of, base, curves_over(len(bins)))

    def inputs(self, cases: Cases) -> Floats:
        """What is known of each case without its times: shape (cases, ``INPUTS``); zeros for cases
        of fewer than two events.
        """
        size, known = len(cases), ACTIVITIES + 1
        found = np.zeros((size, INPUTS))
        usable = cases.lengths > 1
        found[:, 0] = ALL
        # From 1/64 to 64 times 8 events, as -2 to 2.
        found[:, 1] = np.clip((np.log2(np.maximum(cases.lengths, 1)) - 3) / 2, -2.0, 2.0)
        rows = np.flatnonzero(usable)
        last = cases.codes[cases.offsets[1:][rows] - 1]
        found[rows, 2 + self.row_of[last]] = 1.0
        present = np.bincount(
            cases.case_of * known + self.row_of[cases.codes], minlength=size * known
        )
        found[:, 2 + known :] = PRESENT * (present.reshape(size, known) > 0)
        found[~usable] = 0.0
        return found

    def distributions(self, weights: Floats, inputs: Floats) -> Floats:
        """How durations are distributed for each row of ``inputs``: shape (rows, bins)."""
        return distributions_of(self.base, inputs, weights, self.curves)

    def gradient(self, weights: Floats, cases: Cases, step: int) -> list[Factors]:
        """Of the log-likelihood of each case's duration, from its first to its last known time;
        zeros for cases of fewer than two of these.
        """
        del step  # Nothing in it is random.
        place, is_known = self._durations(cases)
        inputs = self.inputs(cases)
        expected = self.distributions(weights, inputs) @ self.curves
        back = np.where(is_known[:, None], self.curves[place] - expected, 0.0)
        return [Factors(inputs[:, None, :], back[:, None, :])]

    def _durations(self, cases: Cases) -> tuple[Ints, Bools]:
        """The bin of each case's duration, and whether it has one."""
        known = KnownTimes.of(cases, self.clock)
        first, last = known.first, known.last
        lasting = last > first
        first, last = first[lasting], last[lasting]
        place, is_known = np.zeros(len(cases), np.int64), np.zeros(len(cases), np.bool_)
        place[known.case[first]] = self.bins.place(known.steps[last] - known.steps[first])
        is_known[known.case[first]] = True
        return place, is_known

    def trained(self, steps: GradientSteps, kernel: Kernel, released: Floats) -> Floats:
        """Weights after all steps; ``released``: the inputs of released cases, which are about as
        many, and like those of the log.
        """
        moments = released.T @ released / len(released)
        bends = bends_of_curves(self.base, self.curves)
        return fitted(self.gradient, steps, kernel, len(released), moments, bends)


def _rows_of_activities(released: Cases) -> Ints:
    """The row of each label's activity: those that most released cases have come first."""
    labels = len(released.alphabet)
    return most_frequent_first(released.case_of, released.codes, labels, ACTIVITIES)
