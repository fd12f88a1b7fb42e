"""Noise on the times of events, or on when cases start and how long their steps take, given the
control flow.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from pydantic import JsonValue

from cloakwork.base.costs import Composed, DiscreteLaplace, PrivacyEvent, Repeated
from cloakwork.base.exact import drawn_scale
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.kernel.perturb import (
    CALENDAR,
    Grid,
    OneTime,
    Perturbation,
    WholeCases,
)
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal, Theorem
from cloakwork.mechanisms.steps import Completion, NoiseOnTimesStep, NoisySample
from cloakwork.mechanisms.timestamps.bounds import READABLE, Bounds
from cloakwork.mechanisms.timestamps.completed_times import times_of
from cloakwork.mechanisms.timestamps.laplace_params import (
    LaplaceParams,
    offer_case_scope,
    offer_event_scope,
)
from cloakwork.mechanisms.timestamps.usual_values import UsualValues


class TimestampLaplace(Mechanism[LaplaceParams]):
    """Discrete Laplace noise on times; the order inside a case is restored by isotonic projection.

    Raw times are rounded to the grid, relative to the declared epoch.

    How far noised values can move is proved in ``kernel.perturb``, which adds the noise.

    **Scope event** (metric privacy of each raw time). Let one raw time move by at most ``shift``,
    the order of events being the same: by at most s = ceil(shift / grid) steps, once rounded. Each
    rounded time gets noise of its own, and scale s / epsilon gives epsilon. Who knows how the steps
    of a case follow each other can average its n noised times, and finds out when the case as a
    whole took place the better the longer it is; the claim is about single times.

    With option ``noised: gaps`` a case is its start (its first raw time) and the gaps between
    *consecutive events that have a raw time*, and each of these gets noise. At most two of them
    move, each by at most s steps, and noise of scale 2 s / epsilon gives epsilon. Errors add up
    along a case; in return when a case as a whole took place is shown by one value only. Where
    k-anonymisation deleted events between two kept ones, or inserted some, the gap spans from one
    raw time to the next all the same: which events are kept follows from the control flow, so a
    deleted event's time enters nothing, a kept one's at most two values. Scope case knows gaps
    alone, for a time is bounded far more loosely than a gap.

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
    action: ClassVar[str] = "add noise to times"
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
        "sensitivities proved in kernel.perturb",
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
                "That takes timestamps/histogram: name control-flow in the same guarantee",
            )
        return offer_case_scope(goal, facts, options)

    def step(self, params: LaplaceParams, facts: Facts) -> NoiseOnTimesStep:
        """Looks at times through noise only, and at the control flow as it stands. Scope event:
        metric privacy per value. Scope case: a unit's differential privacy.

        Not stable: events without a raw time draw from the noised gaps of others, so a second
        measurement of the released times would see one raw time in any number of them.
        """
        return NoiseOnTimesStep(
            lineage=Lineage(
                reads=frozenset({CONTROL_FLOW}),
                measures=frozenset({TIMESTAMPS}),
                writes=frozenset({TIMESTAMPS}),
                stability=None,
            ),
            event=laplace_event(params),
            currency="metric" if params.scope == "event" else "unit",
            noise=Perturbation(
                grid=Grid(params.epoch, params.grid),
                protects=_protected(params),
                noised=params.noised,
                start_scale=params.start_scale,
                gap_scale=params.gap_scale,
            ),
            complete=partial(_completion, params),
        )


def laplace_event(params: LaplaceParams) -> PrivacyEvent:
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


def _completion(params: LaplaceParams, sample: NoisySample) -> Completion:
    """By what is usual among the noisy values of the log."""
    bounds = _bounds(params, Grid(params.epoch, params.grid))
    usual = UsualValues.of(sample, bounds)
    return lambda noisy: times_of(noisy, usual, bounds)


def _protected(params: LaplaceParams) -> OneTime | WholeCases:
    """What the noise hides; the parameters have been validated."""
    if params.scope == "event":
        assert params.shift is not None  # noqa: S101 - the validator holds
        return OneTime(params.shift)
    assert params.window is not None  # noqa: S101 - the validator holds
    assert params.longest_gap is not None  # noqa: S101
    assert params.longest_case is not None  # noqa: S101
    return WholeCases(params.window, params.longest_gap, params.longest_case)


def _bounds(params: LaplaceParams, grid: Grid) -> Bounds:
    """The public bounds of noisy values and of what is released, in grid steps from the epoch."""
    if params.scope == "event" or params.window is None:
        return Bounds(released=grid.edges(READABLE))
    first, last = grid.edges(params.window)
    span = ((params.longest_case or 1) - 1) * params.gap_steps
    return Bounds(
        released=(first, min(last + span, grid.edges(CALENDAR)[1])),
        start=(first, last),
        longest_gap=params.gap_steps,
    )
