"""Noise on the times of events, or on when cases start and how long their steps take, given the
control flow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import JsonValue

from cloakwork.budget import Currency
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.addresses import event_addresses
from cloakwork.mechanisms.base import (
    Decision,
    Gives,
    MapCases,
    MapCasesBySummary,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
)
from cloakwork.mechanisms.timestamps.completed_times import times_of
from cloakwork.mechanisms.timestamps.laplace_params import (
    LaplaceParams,
    offer_case_scope,
    offer_event_scope,
)
from cloakwork.mechanisms.timestamps.noised_sample import NoisedSample, SampledValues
from cloakwork.mechanisms.timestamps.starts_and_gaps import (
    CALENDAR,
    READABLE,
    Bounds,
    Grid,
    StartsAndGaps,
    noised_within,
    starts_and_gaps_of,
)
from cloakwork.noise import Noise, Stream, drawn_scale
from cloakwork.privacy_event import Composed, DiscreteLaplace, PrivacyEvent, Repeated

SATURATED: Final = 2**60
"""Grid steps; noise is clamped to this, as no sum of it and a time of the calendar then leaves
int64.
"""


class TimestampLaplace:
    """Discrete Laplace noise on times; the order inside a case is restored by isotonic projection.

    Raw times are rounded to the grid, relative to the declared epoch.

    **Scope event** (metric privacy of each raw time). Let one raw time move by at most ``shift``,
    the order of events being the same. Rounding is monotone and commutes with shifts by whole
    steps, so the rounded time moves by at most s = ceil(shift / grid) steps: round first, then add
    noise or take differences. Each rounded time gets noise of its own: one raw time moves one
    noised value by at most s steps, and scale s / epsilon gives epsilon. Who knows how the steps of
    a case follow each other can average its n noised times, and finds out when the case as a whole
    took place the better the longer it is; the claim is about single times.

    With option ``noised: gaps`` a case is its start (its first raw time) and the gaps between
    *consecutive events that have a raw time*, and each of these gets noise. The rounded time of an
    event enters the start, if it is the first, or else the gap before it; and the gap behind it, if
    it is not the last. So at most two noised values move, each by at most s steps, and noise of
    scale 2 s / epsilon gives epsilon. Errors add up along a case; in return when a case as a whole
    took place is shown by one value only. Where k-anonymisation deleted events between two kept
    ones, or inserted some, the gap spans from one raw time to the next all the same: which events
    are kept follows from the control flow, so a deleted event's time enters nothing, a kept one's
    at most two values. Scope case knows gaps alone, for a time is bounded far more loosely than a
    gap.

    **Scope case** (bounded differential privacy of all times of a unit, given the control flow).
    The start is clamped to the window (W steps), each of at most M - 1 gaps to [0, longest_gap] (G
    steps). One case's times move the start by at most W and each gap by at most G, whatever they
    are; by composition the cost is W / start_scale + (M - 1) G / gap_scale, times the cases of a
    unit. The default ``start_share`` minimises the expected absolute error summed over the values
    of a case: shares of epsilon proportional to the root of each width (Lagrange).

    **What follows is free post-processing** of the noised values, the control flow, declared facts
    and fresh randomness: an event without a raw time (inserted, or missing in the source) takes a
    gap drawn between two noised gaps of its activity (else of any; else none), a case without any a
    start drawn between two noised starts; times are projected to non-decreasing order, what that
    pools is drawn apart by what the noised gaps say of each directly-follows pair
    (docs/decisions/0022), and cases are moved into a public range. No released time is null, so a
    missing raw time leaves no null behind; every time lies on the grid.

    **Edge cases.** Empty log, cases without events: unchanged. A log without a time column has no
    times to release: it stays. One event a case: starts only. No raw time at all: every event takes
    the start of the declared window, or the epoch.
    """

    name: ClassVar[str] = "timestamps/laplace"
    gives: ClassVar[tuple[Gives, ...]] = (
        Gives("metric-privacy", TIMESTAMPS),
        Gives("differential-privacy", TIMESTAMPS),
    )
    summary: ClassVar[str] = (
        "Adds noise to the time of each event, "
        "or to when cases start and how long their steps take."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="Given the control flow, the released times are epsilon-DP in each raw time "
        "moved by at most `shift` (scope event), or in all times of one unit (scope case, bounded "
        "neighbours).",
        source="Laplace mechanism: Dwork and Roth 2014, theorem 3.6, in its discrete form (Ghosh, "
        "Roughgarden and Sundararajan 2009); metric form: Chatzikokolakis et al. 2013; "
        "sensitivities proved in this class's docstring",
    )
    Params = LaplaceParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[LaplaceParams] | Refusal:
        """Meet metric privacy (scope event) or bounded differential privacy (scope case) of the
        timestamps.
        """
        if not isinstance(goal, MetricPrivacy | DifferentialPrivacy):
            return Refusal(
                "never",
                "noise on times gives metric or differential privacy of timestamps, nothing else",
            )
        if goal.over != (TIMESTAMPS,):
            return Refusal("never", f"it writes timestamps only, not {', '.join(goal.over)}")
        if isinstance(goal, MetricPrivacy):
            return offer_event_scope(goal, facts, options)
        if goal.neighbours == "unbounded":
            return Refusal(
                "not_yet",
                "it keeps one time an event, so how many there are shows; "
                "whether somebody is in the log at all stays unprotected. "
                "That takes timestamps/histogram, which comes later",
            )
        return offer_case_scope(goal, facts, options)

    def event(self, params: LaplaceParams, facts: Facts) -> PrivacyEvent:
        """Scope event: what one raw time moves, two values or one. Scope case: start and M - 1 gaps
        of every case.
        """
        start_scale = drawn_scale(params.start_scale)
        if params.scope == "event":
            moved = 2 if params.noised == "gaps" else 1
            return DiscreteLaplace(scale=start_scale, sensitivity=moved * params.start_steps)
        values: tuple[PrivacyEvent, ...] = (
            DiscreteLaplace(scale=start_scale, sensitivity=params.start_steps),
        )
        if params.noises_gaps and params.longest_case:
            gap = DiscreteLaplace(scale=drawn_scale(params.gap_scale), sensitivity=params.gap_steps)
            values += (Repeated(times=params.longest_case - 1, event=gap),)
        return Repeated(times=params.max_cases, event=Composed(events=values))

    def currency(self, params: LaplaceParams) -> Currency:
        """Scope event: metric privacy per value. Scope case: a unit's differential privacy."""
        return "metric" if params.scope == "event" else "unit"

    def lineage(self, params: LaplaceParams) -> Lineage:
        """Looks at times through noise only, and at the control flow as it stands.

        Not stable: events without a raw time draw from the noised gaps of others, so a second
        measurement of the released times would see one raw time in any number of them.
        """
        return Lineage(
            reads=frozenset({CONTROL_FLOW}),
            measures=frozenset({TIMESTAMPS}),
            writes=frozenset({TIMESTAMPS}),
            stability=None,
        )

    def facts_after(self, params: LaplaceParams, facts: Facts) -> Facts:
        """Unchanged."""
        return facts

    def summarise(self, params: LaplaceParams) -> None:
        """Needs nothing from the log."""
        return

    def decide(self, params: LaplaceParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Nothing is left to decide; ``summary`` is not looked at."""
        return Decision(pl.DataFrame())

    def rewrite(self, params: LaplaceParams, decision: Decision, stream: Stream) -> Rewrite:
        """Noise every time by a draw of its own, case by case, in two passes.

        Only what follows the noise looks beyond a case, and at noised values alone: events without
        a raw time draw from the gaps of others, and how far pooled events are drawn apart follows
        from the gaps of all events of their directly-follows pair. The first pass samples these,
        ``SAMPLED`` of each kind at most; the second draws the same noise again, by its addresses.
        """
        noised = _NoisedLog(params, stream)
        sample = NoisedSample(noised.starts_and_gaps, stream.part("sample"))
        return MapCasesBySummary(sample, noised.mapping)


def _bounds(params: LaplaceParams, grid: Grid) -> Bounds:
    """The public bounds of what is noised and of what is released, in grid steps from the epoch."""
    if params.scope == "event" or params.window is None:
        return Bounds(released=grid.edges(READABLE))
    first, last = grid.edges(params.window)
    span = ((params.longest_case or 1) - 1) * params.gap_steps
    return Bounds(
        released=(first, min(last + span, grid.edges(CALENDAR)[1])),
        start=(first, last),
        longest_gap=params.gap_steps,
        times=params.longest_case,
    )


@dataclass(frozen=True, slots=True)
class _NoisedLog:
    """The two passes over a log, batch by batch; both see the same noise."""

    params: LaplaceParams
    stream: Stream

    @property
    def grid(self) -> Grid:
        return Grid(self.params.epoch, self.params.grid)

    @property
    def bounds(self) -> Bounds:
        return _bounds(self.params, self.grid)

    def starts_and_gaps(self, log: EventLog) -> StartsAndGaps:
        """The noised starts and gaps of a batch."""
        raw = starts_and_gaps_of(log, self.grid, self.bounds)
        add_noise = _noised_times if self.params.noised == "times" else _noised_gaps
        noised = add_noise(log, raw, self.params, self.stream.part("noise"))
        return noised_within(noised, self.bounds)

    def mapping(self, table: pl.DataFrame) -> MapCases:
        """The second pass; ``table``: the sample that the first one took."""
        sample = SampledValues.of(table)
        return MapCases(lambda log: self._completed(log, sample), together="case")

    def _completed(self, log: EventLog, sample: SampledValues) -> EventLog:
        """A batch with a time for every event."""
        if TIMESTAMP not in log.events.columns:
            return log
        noised = self.starts_and_gaps(log)
        steps = times_of(log, noised, sample, self.bounds, self.stream.part("filled"))
        return replace(log, events=log.events.with_columns(self.grid.instants(steps)))


def _draw_saturating(
    stream: Stream, scale: float, log: EventLog, rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Noise for the events at ``rows``; far outside the calendar it saturates, and never wraps."""
    if len(rows) == 0:
        return np.zeros(0, np.int64)
    drawn = stream.laplace_values(scale, event_addresses(log, rows))
    return np.clip(drawn, -SATURATED, SATURATED)


def _noised_gaps(
    log: EventLog, raw: StartsAndGaps, params: LaplaceParams, stream: Stream
) -> StartsAndGaps:
    """Noise on each start and gap; an event has one of the two, so its address serves for it."""
    starts = raw.starts + _draw_saturating(stream, params.start_scale, log, raw.start_rows)
    gaps = raw.gaps + _draw_saturating(stream, params.gap_scale, log, raw.gap_rows)
    return replace(raw, starts=starts, gaps=gaps)


def _noised_times(
    log: EventLog, raw: StartsAndGaps, params: LaplaceParams, stream: Stream
) -> StartsAndGaps:
    """Noise on every time: a start gets its own, a gap the difference of two times' noise."""
    rows = np.concatenate([raw.start_rows, raw.gap_rows])
    # In the order of rows an event's noise comes right after that of its predecessor.
    by_row = np.argsort(rows)
    drawn = _draw_saturating(stream, params.start_scale, log, rows[by_row])
    begins = by_row < len(raw.starts)
    gap_noise = np.diff(drawn, prepend=0)[~begins]
    return replace(raw, starts=raw.starts + drawn[begins], gaps=raw.gaps + gap_noise)
