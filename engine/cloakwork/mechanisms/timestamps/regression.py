"""Times for cases that were made of noisy answers, whose gaps and durations follow regressions on
the activities of a case.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import JsonValue

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
from cloakwork.mechanisms.timestamps.regressed_times import RegressedTimes
from cloakwork.mechanisms.timestamps.regression_params import RegressionParams, offered_regression


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
