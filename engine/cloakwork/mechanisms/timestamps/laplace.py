"""Noise on the times of events, or on when cases start and how long their steps take, given the
control flow.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AwareDatetime, Field, model_validator

from cloakwork.base.costs import Composed, DiscreteLaplace, PrivacyEvent, Repeated
from cloakwork.base.exact import LARGEST_SCALE, drawn_scale
from cloakwork.base.facts import Facts, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.base.quantities import Duration, Frozen, hours
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.kernel.perturb import (
    CALENDAR,
    Grid,
    OneTime,
    Perturbation,
    WholeCases,
)
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    Proof,
    Refusal,
    Theorem,
    no_option,
)
from cloakwork.mechanisms.steps import Completion, NoiseOnTimesStep, NoisySample
from cloakwork.mechanisms.timestamps.completion import READABLE, Bounds, UsualValues, times_of

NOISED: Final = "noised"
TOO_WIDE: Final = Refusal(
    "misconfigured",
    "epsilon is too small, or the times too wide, for the grid: "
    "the noise would exceed 2**53 grid steps",
)

_ABOVE: Final = 1 + Fraction(1, 10**12)
"""Scales are rounded up by this factor, so that costs added up in floating point stay within the
budget.
"""

Scale = Annotated[float, Field(ge=0)]
Steps = Annotated[int, Field(ge=1)]


class LaplaceParams(Frozen):
    """What is noised, and by how much.

    ``scope`` ``event``: each raw time is protected against shifts of up to ``shift``. ``case``: all
    times of a unit's cases are protected; ``window`` bounds the starts, ``longest_gap`` the gaps,
    ``longest_case`` the events (all times behind the M-th of a case are ignored), ``max_cases`` the
    cases of a unit; ``start_share`` is the part of ``epsilon`` that goes to the start. ``noised``:
    what noise is added to, ``gaps`` (and starts) or, for scope ``event`` alone, every one of the
    ``times``.

    Derived, in steps of ``grid``: ``start_scale`` and ``gap_scale`` of the discrete Laplace noise
    (``gap_scale`` is 0 where no gap is noised); ``start_steps`` and ``gap_steps``, by how much one
    noised value can move when what the claim protects changes. The scales are what the cost is
    computed from; the steps must be what the rest implies, so a plan that was changed by hand
    either costs more or is not valid.
    """

    scope: Literal["event", "case"]
    epsilon: Annotated[float, Field(gt=0)]
    grid: Duration
    epoch: AwareDatetime
    start_scale: Scale
    gap_scale: Scale
    start_steps: Steps
    gap_steps: Steps
    shift: Duration | None = None
    window: Window | None = None
    longest_gap: Duration | None = None
    longest_case: Annotated[int, Field(ge=1)] | None = None
    max_cases: Annotated[int, Field(ge=1)] = 1
    start_share: Annotated[float, Field(gt=0, le=1)] | None = None
    noised: Literal["gaps", "times"] = "gaps"

    @model_validator(mode="after")
    def _derived_from_the_rest(self) -> "LaplaceParams":
        lacking = ValueError(f"scope {self.scope} lacks what it is bounded by")
        grid = Grid(self.epoch, self.grid)
        if self.scope == "event":
            if self.shift is None or self.shift <= timedelta(0):
                raise lacking
            implied = grid.steps_in(self.shift), grid.steps_in(self.shift)
        else:
            window = self.window
            gap = self.longest_gap
            if window is None or gap is None or self.longest_case is None:
                raise lacking
            if self.noised != "gaps":
                raise lacking
            implied = grid.steps_in(window.end - window.start), grid.steps_in(gap)
        # A plan that was changed by hand must not move less than what it protects does.
        if (self.start_steps, self.gap_steps) != implied:
            raise ValueError("start_steps and gap_steps do not follow from the rest")
        if self.start_scale <= 0 or (self.gap_scale <= 0 and self.noises_gaps):
            raise ValueError("scales must be positive")
        return self

    @property
    def noises_gaps(self) -> bool:
        """Whether any gap gets noise of its own."""
        return self.noised == "gaps" and self.longest_case != 1

    @property
    def protects(self) -> OneTime | WholeCases:
        """What the noise hides."""
        if self.scope == "event":
            assert self.shift is not None  # noqa: S101 - the validator holds
            return OneTime(self.shift)
        assert self.window is not None  # noqa: S101 - the validator holds
        assert self.longest_gap is not None  # noqa: S101
        assert self.longest_case is not None  # noqa: S101
        return WholeCases(self.window, self.longest_gap, self.longest_case)


def offer_event_scope(
    goal: MetricPrivacy,
    facts: Facts,
    options: Options,
) -> Offer[LaplaceParams] | Refusal:
    """The least noise that gives metric privacy of each raw time at the goal's epsilon."""
    if unknown := sorted(set(options) - {NOISED}):
        return Refusal(
            "misconfigured",
            f"unknown option {', '.join(unknown)}; for metric privacy it knows {NOISED}",
        )
    noised = options.get(NOISED, "times")
    if noised not in ("gaps", "times"):
        return Refusal("misconfigured", f"{NOISED} must be gaps or times")
    if goal.shift <= timedelta(0):
        return Refusal("misconfigured", "the shift must be longer than 0")
    steps = Grid(facts.epoch, facts.grid).steps_in(goal.shift)
    # A raw time enters the gap before it and the gap behind it, or one time.
    moved = 2 if noised == "gaps" else 1
    scale = _rounded_up(Fraction(moved * steps) / Fraction(goal.epsilon))
    if scale > LARGEST_SCALE:
        return TOO_WIDE
    params = LaplaceParams(
        scope="event",
        epsilon=goal.epsilon,
        grid=facts.grid,
        epoch=facts.epoch,
        shift=goal.shift,
        start_scale=scale,
        gap_scale=scale if noised == "gaps" else 0.0,
        start_steps=steps,
        gap_steps=steps,
        noised="gaps" if noised == "gaps" else "times",
    )
    where = "each case's start and to each gap" if noised == "gaps" else "each time"
    return Offer(params, f"adds noise of scale {_duration(scale, facts.grid)} to {where}")


def offer_case_scope(
    goal: DifferentialPrivacy,
    facts: Facts,
    options: Options,
) -> Offer[LaplaceParams] | Refusal:
    """The least noise that gives bounded differential privacy of all times of a unit, its epsilon
    shared between starts and gaps.
    """
    if options:
        return no_option(options)
    window = facts.window
    gap = facts.longest_gap
    events = facts.longest_case
    if window is None or gap is None or events is None:
        declared = {
            "assume.window": window,
            "assume.longest_gap": gap,
            "assume.longest_case": events,
        }
        missing = tuple(name for name, value in declared.items() if value is None)
        return Refusal(
            "needs",
            f"noise for whole cases needs public bounds; declare {', '.join(missing)}",
            missing,
        )
    grid = Grid(facts.epoch, facts.grid)
    start_steps = grid.steps_in(window.end - window.start)
    gap_steps = grid.steps_in(gap)
    # The share with the least summed error: by the root of each width.
    of_start = math.sqrt(start_steps)
    of_gaps = (events - 1) * math.sqrt(gap_steps)
    start_part = Fraction(of_start / (of_start + of_gaps))
    # The scale at which one value that moves by one step costs all of epsilon.
    per_step = Fraction(facts.unit.max_cases) / Fraction(goal.epsilon)
    start_scale = _rounded_up(start_steps * per_step / start_part)
    gap_scale = 0.0
    if events > 1:
        gap_scale = _rounded_up((events - 1) * gap_steps * per_step / (1 - start_part))
    if max(start_scale, gap_scale) > LARGEST_SCALE:
        return TOO_WIDE
    params = LaplaceParams(
        scope="case",
        epsilon=goal.epsilon,
        grid=facts.grid,
        epoch=facts.epoch,
        window=window,
        longest_gap=gap,
        longest_case=events,
        max_cases=facts.unit.max_cases,
        start_share=float(start_part),
        start_scale=start_scale,
        gap_scale=gap_scale,
        start_steps=start_steps,
        gap_steps=gap_steps,
    )
    return Offer(
        params,
        f"adds noise of scale {_duration(start_scale, facts.grid)} to each case's start "
        f"and {_duration(gap_scale, facts.grid)} to each gap",
    )


def _duration(scale: float, grid: timedelta) -> str:
    """``scale`` in grid steps as people write a duration: ``1 h``."""
    return hours(scale * (grid / timedelta(hours=1)))


def _rounded_up(scale: Fraction) -> float:
    return math.nextafter(float(scale * _ABOVE), math.inf)


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
    unit. The share of starts minimises the expected absolute error summed over the values
    of a case: shares of epsilon proportional to the root of each width (Lagrange).

    **What follows is free post-processing** of the noised values, the control flow, declared facts
    and fresh randomness: an event without a raw time (inserted, or missing in the source) takes a
    gap drawn between two noised gaps of its activity (else of any; else none), a case without any a
    start drawn between two noised starts; times are projected to non-decreasing order, what that
    pools is drawn apart by what the noised gaps say of each directly-follows pair
    (docs/decisions/06), and cases are moved into a public range. No released time is null, so a
    missing raw time leaves no null behind; every time lies on the grid.

    **Edge cases.** Empty log, cases without events: unchanged. A log without a time column has no
    times to release: it stays. One event a case: starts only. No raw time at all: every event takes
    the start of the declared window, or the epoch.
    """

    name: ClassVar[str] = "timestamps/laplace"
    options: ClassVar[Mapping[str, str]] = {
        "noised": "for metric privacy, what gets noise: times, or gaps (and starts) (times)",
    }
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
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
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
                protects=params.protects,
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
    # What is drawn is charged, not what was asked for.
    start_scale = drawn_scale(params.start_scale)
    if params.scope == "event":
        moved = 2 if params.noised == "gaps" else 1
        return DiscreteLaplace(scale=start_scale, sensitivity=moved * params.start_steps)
    values: tuple[PrivacyEvent, ...] = (
        DiscreteLaplace(scale=start_scale, sensitivity=params.start_steps),
    )
    # Times behind the M-th event are not looked at, so M - 1 gaps are all there is.
    if params.noises_gaps and params.longest_case:
        gap = DiscreteLaplace(scale=drawn_scale(params.gap_scale), sensitivity=params.gap_steps)
        values += (Repeated(times=params.longest_case - 1, event=gap),)
    return Repeated(times=params.max_cases, event=Composed(events=values))


def _completion(params: LaplaceParams, sample: NoisySample) -> Completion:
    """By what is usual among the noisy values of the log; all values, and what is released, inside
    public bounds.
    """
    grid = Grid(params.epoch, params.grid)
    if params.scope == "event" or params.window is None:
        bounds = Bounds(released=grid.edges(READABLE))
    else:
        first, last = grid.edges(params.window)
        # All gaps of a case at their longest, and no later than the calendar.
        span = ((params.longest_case or 1) - 1) * params.gap_steps
        bounds = Bounds(
            released=(first, min(last + span, grid.edges(CALENDAR)[1])),
            start=(first, last),
            longest_gap=params.gap_steps,
        )
    usual = UsualValues.of(sample, bounds)
    return lambda noisy: times_of(noisy, usual, bounds)
