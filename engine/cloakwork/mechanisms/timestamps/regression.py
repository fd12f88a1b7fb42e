"""Times for cases that were made of noisy answers, whose gaps and durations follow regressions on
the activities of a case, and all else tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import Facts
from cloakwork.kernel import Cases, Kernel
from cloakwork.mechanisms.base import (
    YIELDS_ON_KNOWN_FLOW,
    Offer,
    Options,
    PartOfGoal,
    Refusal,
    Theorem,
)
from cloakwork.mechanisms.timestamps.bins import LogBins
from cloakwork.mechanisms.timestamps.drawing import ManyDraws, meet_totals
from cloakwork.mechanisms.timestamps.histogram import GivesTimes, ModelledTimes
from cloakwork.mechanisms.timestamps.regressions import (
    DurationRegression,
    GapRegression,
    RegressionParams,
    offered_regression,
)
from cloakwork.mechanisms.timestamps.tables import pairs_of

SMALL_LOG: Final = 50_000
"""Up to so many units, as declared, few weights err less than many cells."""

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

    def _draw_gaps(self) -> tuple[Ints, Ints]:
        """The gap before each of the ``followers``, and its pair."""
        bins = LogBins.up_to(self.longest, BINS)
        pairs, row = pairs_of(self.cases)
        of_all = self._all_gaps(bins)[0]
        if not len(row):
            return row, row
        model = GapRegression.expecting(self.clock, bins, self.cases, of_all)
        weights = model.trained(self.regression.gaps, self.kernel, self.cases)
        shape = model.distributions(weights, model.inputs(pairs))
        return self.draws.spans(shape, row, bins), row

    def _meet_totals(self, gaps: Ints, pair: Ints) -> Ints:
        """The same gaps, scaled so that the durations of cases follow the regression."""
        cases = self.cases
        rows = np.flatnonzero(cases.lengths > 1)
        if not len(rows):
            return gaps
        bins = LogBins.up_to(self.longest_total, BINS)
        case = np.searchsorted(rows, cases.case_of[self.followers])
        # What gaps add up to in each case, as a bin of durations.
        place = bins.place(np.bincount(case, weights=gaps).astype(np.int64))
        model = DurationRegression.expecting(self.clock, bins, cases, place)
        inputs = model.inputs(cases)[rows]
        weights = model.trained(self.regression.durations, self.kernel, inputs)
        shape = model.distributions(weights, inputs)
        totals = durations_by_rank(shape, place, bins, self.draws)
        # Each case is a group of its own: its total was drawn for it.
        each = np.arange(len(rows))
        return np.clip(meet_totals(gaps, pair, case, totals, each, self.draws), 0, self.longest)


def durations_by_rank(
    shape: Floats,
    place: Ints,
    bins: LogBins,
    draws: ManyDraws,
) -> Ints:
    """A duration for each case, by its distribution in ``shape`` (cases, bins).

    Among about an ``ALIKE``-th of the cases, those whose expected durations are most alike, the
    quantiles of what is drawn lie evenly, and in the order of those of their sums of gaps (whose
    bins are ``place``): what is drawn follows the distributions closely, and changes gaps little.
    """
    size = len(place)
    each = np.arange(size)
    reached = np.cumsum(shape, axis=1)
    reached /= reached[:, -1:]
    before = np.hstack([np.zeros((size, 1)), reached[:, :-1]])
    # The quantile that a case has by its gaps: somewhere in their bin.
    low = before[each, place]
    high = reached[each, place]
    quantile = low + (high - low) * draws.fractions(size)
    # Ties in random order: else a group would hold neighbours, which have much else in common.
    expected = shape @ np.log1p(bins.edges[:-1])
    by_expected = np.lexsort((draws.randomness.permutation(size), expected))
    group = np.empty(size, np.int64)
    group[by_expected] = each * ALIKE // size
    # In each group the quantiles are made even, in their order.
    order = np.lexsort((quantile, group))
    sizes = np.bincount(group, minlength=ALIKE)
    firsts = np.cumsum(sizes) - sizes
    rank = each - firsts[group[order]]
    even = np.empty(size)
    even[order] = (rank + draws.fractions(size)) / sizes[group[order]]
    drawn = np.minimum((reached <= even[:, None]).sum(axis=1), shape.shape[1] - 1)
    width = np.maximum(reached[each, drawn] - before[each, drawn], 1e-300)
    within = np.clip((even - before[each, drawn]) / width, 0.0, 1 - 1e-9)
    return bins.inside(drawn, within)


class TimestampRegression(GivesTimes[RegressionParams]):
    """As timestamps/histogram, with regressions in place of its tables of gaps by activity and
    pair, and of durations.

    A gap is drawn given both activities (``GapRegression``, which starts from the table of all
    gaps), and how long a case takes given its length, its last activity and the activities that it
    has (``DurationRegression``, which starts from what the released gaps add up to): multinomial
    logistic regressions, whose weights follow from noisy sums of the gradients of all cases: two of
    gaps, one of durations. Starts and hours of the week are as of timestamps/histogram.

    **Sensitivity.** Tables as there. The gradient of a case is scaled by the kernel to the clip
    (L2) where it is longer, and rounded to whole grid steps, so a unit of m cases moves a sum by at
    most m times that; where the control flow is taken as known, by twice that. What gradients are
    taken at, and the clip, follow from answers before and from the released control flow.

    **Edge cases.** As of timestamps/histogram. A case with fewer than two known times has no gap
    and no duration, and a gradient of zeros; where no released case has two events, no sum is
    asked for.
    """

    name: ClassVar[str] = "timestamps/regression"
    options: ClassVar[Mapping[str, str]] = {
        "shares": "as of timestamps/histogram, without gaps-by-activity; gaps-by-pair is the share "
        "of the regression of gaps (0.35), totals that of the one of durations (0.32)",
    }
    action: ClassVar[str] = "draw times with noise, gaps and durations by regressions"
    summary: ClassVar[str] = (
        "Gives times to cases made of noisy answers: starts by noisy histograms, gaps and "
        "durations by regressions on the activities of a case, fitted to noisy sums."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): each table, and each sum of the "
        "gradients of all cases, is a sum of vectors of cases whose norm (L2) is at most the clip, "
        "so one unit moves it by at most m times that; given the control flow (bounded "
        "neighbours), other times of a unit move a table by the root of 2 times that at most, and "
        "a sum of gradients by twice it. Weights at which gradients are taken, and clips, follow "
        "from answers before. Discrete Gaussian noise on all of them composes adaptively to the "
        "event that is charged; what is drawn is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Abadi et al. 2016, for sums of clipped "
        "gradients; Dong, Roth, Su 2022, for adaptive composition by mu squared",
    )
    Params = RegressionParams

    def params_at(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> RegressionParams | Refusal:
        """With the tables' shares, and those of both regressions."""
        return offered_regression(part, facts, options)

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[RegressionParams] | Refusal:
        """The times; tables come first where the policy declares a large log, and where gradients
        are charged more than they.
        """
        found = super().offer_part(part, facts, options)
        if isinstance(found, Refusal):
            return found
        if part.replaced:
            return replace(found, yields=YIELDS_ON_KNOWN_FLOW)
        if (facts.units_at_most or 0) > SMALL_LOG:
            return replace(found, yields=f"tables err less above {SMALL_LOG:,} cases")
        return found

    def why(self, params: RegressionParams) -> str:
        """Without figures."""
        return (
            "draws starts from noisy histograms, and gaps and durations from regressions on the "
            "activities of a case, fitted to noisy sums"
        )

    def model(
        self,
        params: RegressionParams,
        kernel: Kernel,
        cases: Cases,
    ) -> ModelledTimes:
        """Some tables, and both regressions."""
        tables = params.tables
        return RegressedTimes(
            tables,
            kernel,
            cases,
            tables.window,
            params,
        )
