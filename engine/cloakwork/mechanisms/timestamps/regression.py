"""Times for cases that were made of noisy answers, whose gaps and durations follow regressions on
the activities of a case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.guarantees import Guarantee
from cloakwork.kernel import Cases, Kernel
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    PartOfGoal,
    Proof,
    Refusal,
    Theorem,
)
from cloakwork.mechanisms.steps import Enrichment, EnrichStep, Times
from cloakwork.mechanisms.timestamps.bins import LogBins
from cloakwork.mechanisms.timestamps.drawing import ManyDraws, meet_totals
from cloakwork.mechanisms.timestamps.histogram import ModelledTimes
from cloakwork.mechanisms.timestamps.regressions import (
    DurationRegression,
    GapRegression,
    RegressionParams,
    offered_regression,
)

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


class TimestampRegression(Mechanism[RegressionParams]):
    """As timestamps/histogram, with regressions in place of its tables of gaps by activity and
    pair, and of durations.

    A gap is drawn given both activities (``GapRegression``, which starts from the table of all
    gaps), and how long a case takes given its length, its last activity and the activities that it
    has (``DurationRegression``, which starts from what the released gaps add up to): multinomial
    logistic regressions, whose weights are found by gradient steps under noise (DP-SGD), each on
    all cases. Starts and hours of the week are as of timestamps/histogram.

    **Sensitivity.** Tables as there. The gradient of a case is scaled by the kernel to the clip
    (L2) where it is longer, and rounded to whole grid steps, so a unit of m cases moves the sum of
    a step by at most m times that; all steps of a regression together are charged as one normal
    number is that moves by the root of their number over the multiplier.

    **Edge cases.** As of timestamps/histogram. A case with fewer than two known times has no gap
    and no duration, and a gradient of zeros; where no released case has two events, no step is
    taken.
    """

    name: ClassVar[str] = "timestamps/regression"
    options: ClassVar[Mapping[str, str]] = {
        "shares": "as of timestamps/histogram, without gaps-by-activity; gaps-by-pair is the share "
        "of the regression of gaps (0.2), totals that of the one of durations (0.47)",
    }
    action: ClassVar[str] = "draw times with noise, gaps and durations by regressions"
    serves_parts: ClassVar[bool] = True
    gives: ClassVar[tuple[Gives, ...]] = ()
    summary: ClassVar[str] = (
        "Gives times to cases made of noisy answers: starts by noisy histograms, gaps and "
        "durations by regressions on the activities of a case, trained under noise."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): each table, and each gradient step "
        "on all cases, is a sum of vectors of cases whose norm (L2) is at most the clip, so one "
        "unit moves it by at most m times that; gradients are computed in floating point, clipped "
        "and summed in integers. Discrete Gaussian noise on all of them composes adaptively to the "
        "event that is charged; what is drawn from tables and weights is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Abadi et al. 2016, for gradient steps; Dong, "
        "Roth, Su 2022, for adaptive composition by mu squared",
    )
    Params = RegressionParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[RegressionParams] | Refusal:
        """No goal by itself."""
        return Refusal(
            "never",
            "it gives times to cases that were made of noisy answers: a part of a guarantee over "
            "control flow and timestamps together, and no guarantee by itself",
        )

    def offer_part(
        self, part: PartOfGoal, facts: Facts, options: Options
    ) -> Offer[RegressionParams] | Refusal:
        """The times, at ``mu``; no delta is spent."""
        if part.columns != (TIMESTAMPS,):
            return Refusal("never", f"it writes timestamps only, not {', '.join(part.columns)}")
        found = offered_regression(part.mu, facts, options)
        if isinstance(found, Refusal):
            return found
        return Offer(
            found,
            "draws starts from noisy histograms, and gaps and durations from regressions on the "
            "activities of a case, trained under noise",
        )

    def step(self, params: RegressionParams, facts: Facts) -> EnrichStep:
        """Measures order and times of the log; reads the order of events that is released."""
        return EnrichStep(
            lineage=Lineage(
                measures=frozenset({CONTROL_FLOW, TIMESTAMPS}),
                reads=frozenset({CONTROL_FLOW}),
                writes=frozenset({TIMESTAMPS}),
                enriches=True,
            ),
            event=params.event(),
            enrich=partial(self.enrich, params),
        )

    def enrich(self, params: RegressionParams, kernel: Kernel, cases: Cases) -> Enrichment:
        """Measure the tables, take the steps, and draw a time for each event of ``cases``."""
        if not len(cases.codes):
            return Enrichment({TIMESTAMPS: Times(np.zeros(0, np.int64))})
        # Sorted: labels in another order would be other codes.
        labels = tuple(sorted(cases.alphabet))
        model = RegressedTimes.by(params, kernel.narrowed(labels), cases.within(labels))
        return Enrichment({TIMESTAMPS: Times(model.clock.grid.microseconds(model.draw_steps()))})
