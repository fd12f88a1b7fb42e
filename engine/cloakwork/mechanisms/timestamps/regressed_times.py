"""Times whose gaps and durations are drawn by regressions on the control flow, and all else by
tables.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import Cases, Kernel
from cloakwork.mechanisms.timestamps.bins import LogBins
from cloakwork.mechanisms.timestamps.duration_regression import DurationRegression
from cloakwork.mechanisms.timestamps.gap_regression import GapRegression
from cloakwork.mechanisms.timestamps.modelled_times import ModelledTimes
from cloakwork.mechanisms.timestamps.regression_params import RegressionParams
from cloakwork.mechanisms.timestamps.sampled_times import ManyDraws, meet_totals

BINS: Final = 64
"""Of gaps, and of durations."""

ALIKE: Final = 8
"""Groups of cases of about the same expected duration, in which the longest case by its gaps gets
the longest duration.
"""


@dataclass(frozen=True, slots=True)
class RegressedTimes(ModelledTimes):
    """As ``ModelledTimes``; ``regression``: the parameters of what stands for its tables of gaps by
    pair and of durations.
    """

    regression: RegressionParams

    @classmethod
    def by(cls, params: RegressionParams, kernel: Kernel, cases: Cases) -> "RegressedTimes":
        """With the clock that the parameters say."""
        model = ModelledTimes.of(params.tables, kernel, cases)
        return cls(
            model.params, kernel, cases, model.clock, model.draws, model.window, regression=params
        )

    def _draw_gaps(self) -> tuple[Ints, Ints]:
        """The gap before each of the ``followers``, and its pair."""
        cases, followers = self.cases, self.followers
        labels = len(cases.alphabet)
        pairs, row = np.unique(
            cases.codes[followers - 1] * labels + cases.codes[followers], return_inverse=True
        )
        bins = LogBins.up_to(self.longest, BINS)
        each = np.broadcast_to(np.zeros(1, np.int64), (labels, labels))
        of_all = self._gap_table("gaps", bins, each, np.zeros_like(row), None)[0]
        if not len(row):
            return row, row
        model = GapRegression.expecting(self.clock, bins, cases, of_all)
        weights = model.trained(self.regression.gaps, self.kernel, cases)
        return self.draws.spans(model.distributions(weights, pairs), row, bins), row

    def _meet_totals(self, gaps: Ints, pair: Ints) -> Ints:
        """The same gaps, scaled so that the durations of cases follow the regression."""
        cases, rows = self.cases, np.flatnonzero(self.cases.lengths > 1)
        if not len(rows):
            return gaps
        grid, window = self.clock.grid, self.window
        longest = max(self.longest, grid.steps_in(window.end - window.start))
        bins = LogBins.up_to(longest, BINS)
        case = np.searchsorted(rows, cases.case_of[self.followers])
        place = bins.place(np.bincount(case, weights=gaps).astype(np.int64))
        model = DurationRegression.expecting(self.clock, bins, cases, place)
        inputs = model.inputs(cases)[rows]
        weights = model.trained(self.regression.durations, self.kernel, inputs)
        shape = model.distributions(weights, inputs)
        totals = durations_by_rank(shape, place, bins, self.draws)
        each = np.arange(len(rows))
        met = meet_totals(gaps, pair, case, totals, each, self.draws)
        return np.clip(met, 0, self.longest)


def durations_by_rank(shape: Floats, place: Ints, bins: LogBins, draws: ManyDraws) -> Ints:
    """A duration for each case, by its distribution in ``shape`` (cases, bins).

    Among about an ``ALIKE``-th of the cases, those whose expected durations are most alike, the
    quantiles of what is drawn lie evenly, and in the order of those of their sums of gaps (whose
    bins are ``place``): what is drawn follows the distributions closely, and changes gaps little.
    """
    size = len(place)
    reached = np.cumsum(shape, axis=1)
    reached /= reached[:, -1:]
    before = np.hstack([np.zeros((size, 1)), reached[:, :-1]])
    each = np.arange(size)
    low, high = before[each, place], reached[each, place]
    quantile = low + (high - low) * draws.fractions(size)
    expected = shape @ np.log1p(bins.edges[:-1])
    group = np.empty(size, np.int64)
    # Ties in random order: else a group would hold neighbours, which have much else in common.
    by_expected = np.lexsort((draws.randomness.permutation(size), expected))
    group[by_expected] = each * ALIKE // size
    order = np.lexsort((quantile, group))
    sizes = np.bincount(group, minlength=ALIKE)
    firsts = np.cumsum(sizes) - sizes
    even = np.empty(size)
    even[order] = (each - firsts[group[order]] + draws.fractions(size)) / sizes[group[order]]
    drawn = np.minimum((reached <= even[:, None]).sum(axis=1), shape.shape[1] - 1)
    width = np.maximum(reached[each, drawn] - before[each, drawn], 1e-300)
    within = np.clip((even - before[each, drawn]) / width, 0.0, 1 - 1e-9)
    return bins.inside(drawn, within)
