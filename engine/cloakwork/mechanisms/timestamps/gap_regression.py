"""How long the gap before an event is, given its activity and the one before it: a regression whose
weights are found by gradient steps under noise.

A table of gaps by directly-follows pair has a row of bins for each pair, and rare pairs drown in
noise. Here pairs share what their activities have in common, and a pair that many cases have
differs from that by a few curves.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import Cases, Factors, Kernel
from cloakwork.mechanisms.timestamps.ascent import (
    bends_of_curves,
    cosines_over,
    distributions_of,
    fitted,
)
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.regression_params import (
    ACTIVITIES,
    GAP_INPUTS,
    GAP_OUTPUTS,
    PAIRS,
    GradientSteps,
)
from cloakwork.mechanisms.timestamps.time_queries import KnownTimes

LEAST: Final = 1e-6
"""A share in place of 0, whose logarithm is finite."""


def gap_curves(bins: int) -> Floats:
    """Over the bins of gaps: the first bin by itself, which is that of events at one time, and
    cosines, finer ones flatter; shape (bins, ``GAP_OUTPUTS``).
    """
    waves = np.arange(1, GAP_OUTPUTS)
    at_once = np.zeros((bins, 1))
    at_once[0] = 1.0
    return np.hstack([at_once, cosines_over(bins, GAP_OUTPUTS - 1) / np.sqrt(waves)])


@dataclass(frozen=True, slots=True)
class GapRegression:
    """``base``: log of what is expected of each of ``bins``. ``row_of``: of each label's activity
    among the inputs, the last row for all that have none of their own. ``pairs``: those that have
    an input of their own, ascending, a first label times the number of labels plus a second one
    each; ``pair_rows``: which. All int64.
    """

    clock: Clock
    bins: LogBins
    base: Floats
    row_of: Ints
    pairs: Ints
    pair_rows: Ints
    curves: Floats

    @classmethod
    def expecting(
        cls, clock: Clock, bins: LogBins, released: Cases, expected: Floats
    ) -> "GapRegression":
        """Of the activities and pairs that most ``released`` cases have; ``expected``: how gaps are
        distributed, shape (bins,).
        """
        labels = len(released.alphabet)
        case, after = released.case_of, np.flatnonzero(released.place)
        pairs, row = np.unique(
            released.codes[after - 1] * labels + released.codes[after], return_inverse=True
        )
        rows = most_frequent_first(case[after], row, len(pairs), PAIRS)
        own = rows < PAIRS
        return cls(
            clock,
            bins,
            np.log(np.maximum(expected, LEAST)),
            most_frequent_first(case, released.codes, labels, ACTIVITIES),
            pairs[own],
            rows[own],
            gap_curves(len(bins)),
        )

    def inputs(self, pairs: Ints) -> Floats:
        """What is known of a gap: shape (pairs, ``GAP_INPUTS``). The rarer pairs have no input of
        their own: they go by their activities.
        """
        each, known = np.arange(len(pairs)), ACTIVITIES + 1
        before, after = np.divmod(pairs, len(self.row_of))
        found = np.zeros((len(pairs), GAP_INPUTS))
        found[:, 0] = 1.0
        found[each, 1 + self.row_of[after]] = 1.0
        found[each, 1 + known + self.row_of[before]] = 1.0
        own = np.flatnonzero(np.isin(pairs, self.pairs))
        row = self.pair_rows[np.searchsorted(self.pairs, pairs[own])]
        found[own, 1 + 2 * known + row] = 1.0
        return found

    def distributions(self, weights: Floats, pairs: Ints) -> Floats:
        """How the gaps of each pair are distributed: shape (pairs, bins)."""
        return distributions_of(self.base, self.inputs(pairs), weights, self.curves)

    def gradient(self, weights: Floats, cases: Cases, step: int) -> list[Factors]:
        """Of the log-likelihood of each case's gaps, over the root of how many there are; zeros for
        cases of fewer than two known times.

        A place is a pair that the case has: its inputs, and what comes back of all its gaps.
        """
        del step  # Nothing in it is random.
        labels = len(cases.alphabet)
        known = KnownTimes.of(cases, self.clock)
        after = known.follows
        case = known.case[after]
        pair = known.code[after - 1] * labels + known.code[after]
        bins = self.bins.place(known.steps[after] - known.steps[after - 1])
        count = np.bincount(case, minlength=len(cases))
        once, row = np.unique(case * labels * labels + pair, return_inverse=True)
        case_of, pair_of = np.divmod(once, labels * labels)
        inputs = self.inputs(pair_of)
        expected = distributions_of(self.base, inputs, weights, self.curves) @ self.curves
        back = np.zeros((len(once), GAP_OUTPUTS))
        np.add.at(back, row, self.curves[bins] - expected[row])
        back /= np.sqrt(count[case_of])[:, None]
        return [padded(case_of, inputs, back, len(cases))]

    def trained(self, steps: GradientSteps, kernel: Kernel, released: Cases) -> Floats:
        """Weights after all steps; ``released`` cases are about as many as those of the log, and
        like them.
        """
        after = np.flatnonzero(released.place)
        labels = len(released.alphabet)
        pairs, row = np.unique(
            released.codes[after - 1] * labels + released.codes[after], return_inverse=True
        )
        weight = 1 / np.sqrt(np.maximum(released.lengths - 1, 1))
        mass = np.bincount(row, weights=weight[released.case_of[after]])
        cases = max(1, int((released.lengths > 1).sum()))
        inputs = self.inputs(pairs)
        moments = (inputs * mass[:, None]).T @ inputs / cases
        bends = bends_of_curves(self.base, self.curves)
        return fitted(self.gradient, steps, kernel, cases, moments, bends)


def padded(case: Ints, inputs: Floats, back: Floats, cases: int) -> Factors:
    """Rows of both factors, ascending by ``case``, as arrays of shape (cases, places, numbers)."""
    counts = np.bincount(case, minlength=cases)
    place = np.arange(len(case)) - (np.cumsum(counts) - counts)[case]
    most = max(1, int(counts.max(initial=0)))
    left = np.zeros((cases, most, inputs.shape[1]))
    right = np.zeros((cases, most, back.shape[1]))
    left[case, place], right[case, place] = inputs, back
    return Factors(left, right)


def most_frequent_first(case: Ints, codes: Ints, size: int, rows: int) -> Ints:
    """The row of each of ``size`` codes: those that most cases have come first; all from ``rows``
    on share that one.
    """
    having = np.unique(case * size + codes) % max(size, 1)
    counts = np.bincount(having, minlength=size)
    found = np.empty(size, np.int64)
    found[np.lexsort((np.arange(size), -counts))] = np.arange(size)
    return np.minimum(found, rows)
