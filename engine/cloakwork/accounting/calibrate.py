"""From a budget to the noise: the user states epsilon and delta, the engine finds scale and
threshold.

Every result errs to the safe side: what it costs, recomputed, is never more than what was asked
for.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from cloakwork.accounting.events import cost, naive, upper_bound_epsilon
from cloakwork.accounting.leaf_events import truncation_delta
from cloakwork.base.costs import Cost, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import (
    LARGEST_SCALE,
    drawn_scale,
    drawn_sigma,
    exactly,
    exp_minus,
    rounded_down,
    rounded_up,
)

SMALLEST: Final = 2.0**-7
"""The least scale that is searched: noise below it is zero for all purposes."""

UNDECLARED_DELTA: Final = 1e-6


def smallest_scale(event_of_scale: Callable[[float], PrivacyEvent], target: Cost) -> float:
    """The smallest scale (grid steps) whose event costs at most ``target``; a millionth above it at
    most.

    ``event_of_scale`` gives the event at a scale (or sigma); its cost must fall as the scale grows.
    Where costs simply add up (one Laplace measurement) the last float that meets the target is
    found.

    Raises MechanismError when no scale up to 2**53 grid steps meets the target.
    """
    high = _scale_meeting_target(event_of_scale, target)
    low = high / 2
    if low < SMALLEST:
        return high
    while True:
        event = event_of_scale(high)
        # Where costs simply add up, down to the last float.
        tolerance = 0.0 if cost(event, target.delta) == naive(event) else 1e-6
        if high - low <= tolerance * high:
            return high
        before = high - low
        for middle in _interpolated_scales(event_of_scale, low, high, target):
            if low < middle < high:
                if meets_target(event_of_scale(middle), target):
                    high = middle
                else:
                    low = middle
        # Bisection where interpolation did not halve the interval: no more than twice its steps.
        if high - low > before / 2:
            middle = (low + high) / 2
            if not low < middle < high:
                return high
            if meets_target(event_of_scale(middle), target):
                high = middle
            else:
                low = middle


def _interpolated_scales(
    event_of_scale: Callable[[float], PrivacyEvent],
    low: float,
    high: float,
    target: Cost,
) -> tuple[float, ...]:
    """Two scales a little below and above where a power law through both ends meets the target;
    none without such a law.
    """
    above = cost(event_of_scale(low), target.delta).epsilon
    below = cost(event_of_scale(high), target.delta).epsilon
    if not 0 < below <= target.epsilon < above < math.inf or high / low < 1 + 1e-12:
        return ()
    share = math.log(above / target.epsilon) / math.log(above / below)
    guess = low * (high / low) ** share
    beside = max((high - low) / 100, 4e-7 * high)
    return guess - beside, guess + beside


def _scale_meeting_target(event_of_scale: Callable[[float], PrivacyEvent], target: Cost) -> float:
    """A scale that meets the target, half of which does not (or is below ``SMALLEST``)."""
    # The least power of two, from 1 on, that closed forms show to meet the target; else 1.
    powers = (2.0**exponent for exponent in range(40))
    scale = next(
        (
            power
            for power in powers
            if upper_bound_epsilon(event_of_scale(power), target.delta) <= target.epsilon
        ),
        1.0,
    )
    while not meets_target(event_of_scale(scale), target):
        scale *= 2
        if scale > LARGEST_SCALE:
            raise MechanismError(
                "calibration",
                f"no amount of noise meets epsilon {target.epsilon:g}, delta {target.delta:g}",
            )
    while scale / 2 >= SMALLEST and meets_target(event_of_scale(scale / 2), target):
        scale /= 2
    return scale


def meets_target(event: PrivacyEvent, target: Cost) -> bool:
    """Whether ``event`` costs no more than ``target``, at its delta, so that both compare."""
    return cost(event, target.delta).is_within(target)


def laplace_scale(epsilon: float, sensitivity: int = 1) -> float:
    """The least scale (a float, grid steps) at which discrete Laplace noise costs at most
    ``epsilon``: sensitivity/epsilon.

    The quotient of two floats may lie a little below; a cost a billionth above the budget is over
    it.

    >>> laplace_scale(0.5), 1 / Fraction(1 / 6.0) > 6 >= 1 / Fraction(laplace_scale(6.0))
    (2.0, True)
    """
    # However epsilon is read: as a decimal, or as the binary fraction that it is.
    allowed = min(exactly(epsilon), Fraction(epsilon))
    scale = drawn_scale(sensitivity / epsilon)
    while sensitivity / Fraction(scale) > allowed:
        scale = drawn_scale(math.nextafter(scale, math.inf))
    return scale


def partition_threshold(
    scale: float,
    delta: float,
    max_cases: int = 1,
) -> int:
    """The least integer tau with ``m * Pr[m + DLap(scale) >= tau] <= delta``, for m = ``max_cases``
    per unit.

    Releasing count + DLap(scale) for the keys present whose noisy count reaches tau is then
    (m/scale, delta)-DP (``privacy.md`` 6.1; Desfontaines, Voss, Gipson and Mandayam 2022 for m =
    1). Computed with proved enclosures.

    Raises MechanismError for a delta outside (1e-60, 1), and unless ``1/scale >= -ln(1 - delta)``,
    which the theorem needs.
    """
    scale = _checked_scale(scale, max_cases)
    _require_delta(delta)
    if exp_minus(1 / Fraction(scale))[1] > 1 - exactly(delta):
        reason = f"a scale of {scale:g} is too large for delta {delta:g}"
        raise MechanismError("threshold", f"{reason}: 1/scale must be at least -ln(1 - delta)")
    allowed = min(exactly(delta), Fraction(delta)) / max_cases
    # More than delta at max_cases itself: there it is 1/(1 + e**(-1/scale)), and delta is at most
    # 1 - e**(-1/scale).
    return max_cases + least_above(
        0, lambda above: _laplace_tail_bounds(scale, above)[1] <= allowed
    )


@lru_cache(maxsize=1024)
def threshold_delta(
    scale: float,
    tau: int,
    max_cases: int = 1,
) -> float:
    """``m * Pr[m + DLap(scale) >= tau]`` for m = ``max_cases``, rounded up and at most 1: the delta
    that ``tau`` spends.
    """
    scale = _checked_scale(scale, max_cases)
    exact = max_cases * _laplace_tail_bounds(scale, tau - max_cases)[1]
    spent = rounded_up(exact)
    # Above the exact figure however the float is read: as a decimal, or as the binary fraction that
    # it is.
    return min(1.0, spent if Fraction(spent) >= exact else math.nextafter(spent, 1.0))


def gaussian_threshold(
    sigma: float,
    delta: float,
    max_cases: int,
) -> int:
    """An integer tau with ``m * Pr[m + N >= tau] <= delta``, N discrete Gaussian of ``sigma``, m =
    ``max_cases`` per unit.

    At most one above the least such tau where sigma is 1 or more (checked in the tests). Raises
    MechanismError for a delta outside (1e-290, 1) or a sigma that cannot be drawn.
    """
    _require_delta(delta, 1e-290)
    return least_above(
        max_cases, lambda tau: gaussian_threshold_delta(sigma, tau, max_cases) <= delta
    )


def gaussian_threshold_delta(
    sigma: float,
    tau: int,
    max_cases: int = 1,
) -> float:
    """``m * Pr[m + N >= tau]`` from above, N discrete Gaussian of ``sigma``, m = ``max_cases``; at
    most 1.

    The sum of exp(-x^2/(2 sigma^2)) over all integers is at least the integral, sqrt(2 pi) sigma
    (Poisson summation). Where the function is convex, from sigma on, its value at x is at most its
    mean over [x - 1/2, x + 1/2] (Jensen), and where it falls, at most its mean over [x - 1, x]. So
    Pr[N >= j] <= Phi(-(j - 1/2)/sigma) for j >= sigma + 1/2, and Phi(-(j - 1)/sigma) for j >= 1.
    """
    sigma = drawn_sigma(sigma)
    _require_cases(max_cases)
    above = tau - max_cases
    if above < 1:
        return 1.0
    start = above - 0.5 if above >= sigma + 0.5 else above - 1.0
    tail = max_cases * math.erfc(start / (sigma * math.sqrt(2))) / 2
    # erfc errs by a few units in the last place, and nowhere by a part in 10**12; below 1e-300 it
    # may lose digits.
    return min(1.0, tail * (1 + 1e-12) + 1e-300)


def truncation_bound(
    scale: float,
    delta: float,
    max_cases: int,
) -> int:
    """The least bound k >= m at which truncated geometric noise costs at most ``delta``, m =
    ``max_cases`` per unit.

    Releasing count + noise for the keys present where it comes out above k is then (m/scale,
    delta)-DP, see ``truncation_delta``; for m = 1, k = ceil(scale ln((1 - r + 2 delta r) / (delta
    (1 + r)))) with r = e**(-1/scale) (Desfontaines, Voss, Gipson and Mandayam 2022). Raises
    MechanismError for a delta outside (1e-60, 1).
    """
    scale = _checked_scale(scale, max_cases)
    _require_delta(delta)
    allowed = min(exactly(delta), Fraction(delta))
    # Below m moves are charged delta 1.
    return least_above(
        max_cases - 1, lambda bound: truncation_delta(scale, bound, max_cases) <= allowed
    )


def least_above(low: int, meets: Callable[[int], bool]) -> int:
    """The least integer above ``low`` that meets a condition which all integers from it on meet."""
    # Farther by twice as much each time, until it is met; then bisected.
    high = low + 1
    while not meets(high):
        low, high = high, high + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


def largest_delta(units_at_most: int | None) -> float:
    """The largest delta a policy may ask for: 1/(10 n0), n0 a declared bound on the number of
    units; 1e-6 undeclared.

    >>> largest_delta(1000), largest_delta(None)
    (0.0001, 1e-06)
    """
    if units_at_most is None:
        return UNDECLARED_DELTA
    return rounded_down(Fraction(1, 10 * units_at_most))


def _checked_scale(scale: float, max_cases: int) -> float:
    """The scale that is really drawn; MechanismError where none can be."""
    _require_cases(max_cases)
    return drawn_scale(scale)


def _require_cases(max_cases: int) -> None:
    if max_cases < 1:
        raise MechanismError(
            "threshold", f"at most {max_cases} cases a unit: the bound must be at least 1"
        )


def _require_delta(delta: float, least: float = 1e-60) -> None:
    # Below it the enclosures of exp, which have 256 bits, would never tell that it is met.
    if not least < delta < 1:
        raise MechanismError(
            "threshold", f"delta must lie between {least:g} and 1; it is {delta:g}"
        )


def _laplace_tail_bounds(scale: float, at_least: int) -> tuple[Fraction, Fraction]:
    """Two rationals that enclose Pr[DLap(scale) >= at_least]: e**(-j/b) / (1 + e**(-1/b)) for j >=
    1.
    """
    if at_least < 1:
        # By symmetry, Pr[X >= j] = 1 - Pr[X >= 1 - j].
        low, high = _laplace_tail_bounds(scale, 1 - at_least)
        return 1 - high, 1 - low
    step_low, step_high = exp_minus(1 / Fraction(scale))
    power_low, power_high = exp_minus(at_least / Fraction(scale))
    return power_low / (1 + step_high), power_high / (1 + step_low)
