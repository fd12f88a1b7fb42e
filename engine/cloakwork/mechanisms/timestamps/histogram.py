"""Times for cases that were made of noisy answers, from noisy histograms of the log's times."""

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
from cloakwork.mechanisms.timestamps.histogram_params import HistogramParams, offered_params
from cloakwork.mechanisms.timestamps.modelled_times import ModelledTimes


class TimestampHistogram(Mechanism[HistogramParams]):
    """Give times to cases that a step before made, by noisy histograms of the times of the log.

    Six tables are measured, of cases without the events whose activity is not released. (1) Gaps
    on a log scale: of all, (2) by the activity that they lead to, (3) by directly-follows pair *of
    the released control flow*; each is shrunk to the one before, so a pair that few cases have
    goes by what is usual of its activity. (4) When cases start: the trend over the window, days of
    the week, hours of the day. (5) Days and hours of the week of all events. (6) How long cases
    take: all, by last activity, and by this and the number of events; these are shrunk to what the
    gaps add up to, and, the more cases a group has, to the one before.

    Without a declared window a table before these finds one, in a century: how many cases start in
    each 13 weeks. Without a declared longest gap it is the length of the window, a year at least.

    Of these, times are drawn: a start and gaps for each case; the gaps are then scaled so that the
    durations of cases follow (6), the longest by gaps getting the longest duration; events that
    lie some hours behind the one before are moved within their week so that (5) holds. Times never
    descend in a case, and lie on the grid; cases start in the window, and no gap is above the
    longest: what noise and usual hours have moved outside is moved inside, by whole weeks.

    **Sensitivity.** The kernel scales the vector of a case to norm 1 (L2), towards zero, in each
    table: whatever a case looks like, and however long it is, it moves a table by at most 1, a unit
    of m cases by at most m. In (2) and (3) a case weighs 1 in each group before, spread over its
    occurrences there; in (1) and (5) each occurrence weighs as much, so that the norm is used up.
    Gaps beyond the longest count as such, starts outside the window count at its edge, events
    without a time count for nothing.

    **Edge cases.** Empty log, no times at all, one event a case: the tables hold noise alone, and
    times come out that follow from that; nothing released: no times. The clock of a grid of a day
    or more knows no hours.
    """

    name: ClassVar[str] = "timestamps/histogram"
    action: ClassVar[str] = "draw times with noise"
    serves_parts: ClassVar[bool] = True
    gives: ClassVar[tuple[Gives, ...]] = ()
    summary: ClassVar[str] = (
        "Gives times to cases made of noisy answers, by noisy histograms of starts, gaps and "
        "durations."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): each table is a sum of "
        "vectors of cases, whose norm (L2) is at most 1, so one unit moves it by at most m; which "
        "cells are read follows from the released control flow and from answers before. Discrete "
        "Gaussian noise on all of them composes adaptively to the event that is charged; what is "
        "drawn from the noisy tables is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Dong, Roth, Su 2022, for adaptive composition "
        "by mu squared",
    )
    Params = HistogramParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[HistogramParams] | Refusal:
        """No goal by itself."""
        return Refusal(
            "never",
            "it gives times to cases that were made of noisy answers: a part of a guarantee over "
            "control flow and timestamps together, and no guarantee by itself",
        )

    def offer_part(
        self, part: PartOfGoal, facts: Facts, options: Options
    ) -> Offer[HistogramParams] | Refusal:
        """The times, at ``mu``; no delta is spent."""
        if part.columns != (TIMESTAMPS,):
            return Refusal("never", f"it writes timestamps only, not {', '.join(part.columns)}")
        found = offered_params(part.mu, facts, options)
        if isinstance(found, Refusal):
            return found
        return Offer(found, _why(found))

    def step(self, params: HistogramParams, facts: Facts) -> EnrichStep:
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

    def enrich(self, params: HistogramParams, kernel: Kernel, cases: Cases) -> Enrichment:
        """Measure the tables, and draw a time for each event of ``cases``."""
        if not len(cases.codes):
            return Enrichment({TIMESTAMPS: Times(np.zeros(0, np.int64))})
        # Sorted: labels in another order would be other codes.
        labels = tuple(sorted(cases.alphabet))
        model = ModelledTimes.of(params, kernel.narrowed(labels), cases.within(labels))
        return Enrichment({TIMESTAMPS: Times(model.clock.grid.microseconds(model.draw_steps()))})


def _why(params: HistogramParams) -> str:
    """What it does, and which share of its budget (of mu squared) undeclared facts take."""
    drawn = "draws times from noisy histograms of starts, gaps and durations"
    if params.is_window_declared:
        return drawn
    squares = {name: 1 / sigma**2 for name, sigma in params.sigmas.items()}
    share = squares["window"] / sum(squares.values())
    return f"{drawn}; {share:.0%} of its budget finds the window, which is not declared"
