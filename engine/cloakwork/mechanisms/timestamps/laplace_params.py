"""The parameters of timestamps/laplace, and how they are found for a goal."""

import math
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue, model_validator

from cloakwork.base.exact import LARGEST_SCALE
from cloakwork.base.facts import Facts, Window
from cloakwork.base.quantities import Duration, Frozen, hours
from cloakwork.guarantees import DifferentialPrivacy, MetricPrivacy
from cloakwork.mechanisms.base import Offer, Refusal

START_SHARE: Final = "start_share"
NOISED: Final = "noised"
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
        if self.scope == "event":
            complete = self.shift is not None and self.shift > timedelta(0)
        else:
            complete = (
                None not in (self.window, self.longest_gap, self.longest_case)
                and self.noised == "gaps"
            )
        if not complete:
            raise ValueError(f"scope {self.scope} lacks what it is bounded by")
        if (self.start_steps, self.gap_steps) != self._implied_steps():
            raise ValueError("start_steps and gap_steps do not follow from the rest")
        if self.start_scale <= 0 or (self.gap_scale <= 0 and self.noises_gaps):
            raise ValueError("scales must be positive")
        return self

    @property
    def noises_gaps(self) -> bool:
        """Whether any gap gets noise of its own."""
        return self.noised == "gaps" and self.longest_case != 1

    def _implied_steps(self) -> tuple[int, int]:
        if self.shift is not None and self.scope == "event":
            shift_steps = _grid_steps(self.shift, self.grid)
            return shift_steps, shift_steps
        window, gap = self.window, self.longest_gap
        assert window is not None and gap is not None  # noqa: S101 - the validator holds
        return (_grid_steps(window.end - window.start, self.grid), _grid_steps(gap, self.grid))


def offer_event_scope(
    goal: MetricPrivacy, facts: Facts, options: Mapping[str, JsonValue]
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
    steps = _grid_steps(goal.shift, facts.grid)
    # A raw time enters the gap before it and the gap behind it, or one time.
    moved = 2 if noised == "gaps" else 1
    scale = _rounded_up(Fraction(moved * steps) / Fraction(goal.epsilon))
    if scale > LARGEST_SCALE:
        return _refuse_wide_noise()
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
    goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
) -> Offer[LaplaceParams] | Refusal:
    """The least noise that gives bounded differential privacy of all times of a unit, its epsilon
    shared between starts and gaps.
    """
    if unknown := sorted(set(options) - {START_SHARE}):
        return Refusal(
            "misconfigured",
            f"unknown option {', '.join(unknown)}; for whole cases it knows {START_SHARE}",
        )
    window, gap, events = facts.window, facts.longest_gap, facts.longest_case
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
    start_steps = _grid_steps(window.end - window.start, facts.grid)
    gap_steps = _grid_steps(gap, facts.grid)
    share = options.get(START_SHARE, _balanced_share(start_steps, gap_steps, events))
    if not _is_share(share, events):
        return Refusal("misconfigured", f"{START_SHARE} must be a number above 0 and below 1")
    start_part = Fraction(float(share))  # type: ignore[arg-type]
    # The scale at which one value that moves by one step costs all of epsilon.
    per_step = Fraction(facts.unit.max_cases) / Fraction(goal.epsilon)
    start_scale = _rounded_up(start_steps * per_step / start_part)
    gap_scale = 0.0
    if events > 1:
        gap_scale = _rounded_up((events - 1) * gap_steps * per_step / (1 - start_part))
    if max(start_scale, gap_scale) > LARGEST_SCALE:
        return _refuse_wide_noise()
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


def _refuse_wide_noise() -> Refusal:
    return Refusal(
        "misconfigured",
        "epsilon is too small, or the times too wide, for the grid: "
        "the noise would exceed 2**53 grid steps",
    )


def _is_share(share: JsonValue, events: int) -> bool:
    if isinstance(share, bool) or not isinstance(share, int | float):
        return False
    return 0 < share < 1 or (share == 1 and events == 1)


def _balanced_share(start_steps: int, gap_steps: int, events: int) -> float:
    """The start's share of epsilon that minimises the summed expected error: proportional to the
    root of each width.
    """
    start = math.sqrt(start_steps)
    gaps = (events - 1) * math.sqrt(gap_steps)
    return start / (start + gaps)


def _duration(scale: float, grid: timedelta) -> str:
    """``scale`` in grid steps as people write a duration: ``1 h``."""
    return hours(scale * (grid / timedelta(hours=1)))


def _grid_steps(span: timedelta, grid: timedelta) -> int:
    """``span`` in grid steps, rounded up, at least 1."""
    return max(1, -(-span // grid))


def _rounded_up(scale: Fraction) -> float:
    return math.nextafter(float(scale * _ABOVE), math.inf)
