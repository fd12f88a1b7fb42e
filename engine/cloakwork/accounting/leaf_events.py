"""The leaves of a tree of privacy events: how often each is run, and what each costs by itself.

Gaussian noise too coarse for a distribution of its own is charged by closed forms, which hold for
Laplace noise too.
"""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Final

from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.base.exact import exactly, exp_minus
from cloakwork.base.frozen import frozen

_ROUNDING: Final = Fraction(1, 10**14)

LeafCounts = tuple[tuple[PrivacyEvent, int], ...]
"""A composition, flat: leaves and sampled compositions, each with how often it is run."""


@lru_cache(maxsize=4096)
def leaves_of(event: PrivacyEvent) -> LeafCounts:
    """The leaves and samples of ``event``, each with how often it is run; equal ones are counted
    together.
    """
    found: Counter[PrivacyEvent] = Counter()
    for part, times in _flat_parts(event):
        found[part] += times
    return tuple(found.items())


def _flat_parts(event: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    match event:
        case Composed(events=events):
            for each in events:
                yield from _flat_parts(each)
        case Repeated(times=times, event=inner):
            for part, count in _flat_parts(inner):
                yield part, count * times
        case PoissonSampled(rate=rate, event=inner):
            yield from _flattened_sample(rate, inner)
        case _:
            yield event, 1


def _flattened_sample(rate: float, inner: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    """A sample of everything, of nothing, or of a sample is a simpler event."""
    leaves = leaves_of(inner)
    if rate == 1 or not leaves or is_unbounded(leaves):
        yield from leaves
        return
    match leaves:
        case ((PoissonSampled(rate=second, event=innermost), 1),):
            # Rounded up: a higher rate costs more.
            yield from _flattened_sample(min(1.0, math.nextafter(rate * second, 1.0)), innermost)
        case ((single, 1),):
            yield PoissonSampled(rate=rate, event=single), 1
        case _:
            measured = tuple(
                leaf if times == 1 else Repeated(times=times, event=leaf) for leaf, times in leaves
            )
            yield PoissonSampled(rate=rate, event=Composed(events=measured)), 1


def is_unbounded(leaves: LeafCounts) -> bool:
    """Whether nothing bounds the cost of some leaf."""
    return any(isinstance(event, NonPrivate) for event, _ in leaves)


def closed_form_cost(event: PrivacyEvent) -> tuple[Fraction, Fraction] | None:
    """An event's own epsilon and delta, exact or rounded up; None where it has a curve but no
    single figure.
    """
    match event:
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return sensitivity / Fraction(scale), Fraction(0)
        case TruncatedGeometric(scale=scale, bound=bound, sensitivity=sensitivity):
            # A move by 1 has losses of +epsilon, -epsilon and infinity only: the PLD of these
            # figures is the noise's own.
            return sensitivity / Fraction(scale), truncation_delta(scale, bound, sensitivity)
        case EpsilonDelta(epsilon=epsilon, delta=delta):
            return exactly(epsilon), exactly(delta)
        case PoissonSampled(rate=rate, event=inner):
            return _amplified_cost(rate, leaves_of(inner))
    return None


def _amplified_cost(rate: float, leaves: LeafCounts) -> tuple[Fraction, Fraction] | None:
    """Amplification by sampling: epsilon becomes ln(1 + rate (e**epsilon - 1)), delta rate * delta
    (Li et al. 2012).
    """
    epsilon = Fraction(0)
    delta = Fraction(0)
    for event, times in leaves:
        figure = closed_form_cost(event)
        if figure is None:
            return None
        epsilon += times * figure[0]
        delta += times * figure[1]
    # However the float is read: as the decimal it prints as, or as the binary fraction that is
    # drawn.
    share = max(exactly(rate), Fraction(rate))
    if epsilon > 500:  # expm1 would overflow further up, and there is next to nothing to gain
        return epsilon, share * delta
    amplified = Fraction(math.log1p(rate * math.expm1(float(epsilon)))) * (1 + _ROUNDING)
    return min(epsilon, amplified), share * delta


def truncation_delta(
    scale: float,
    bound: int,
    sensitivity: int = 1,
) -> Fraction:
    """The delta of truncated geometric noise on counts that are released where they come out above
    ``bound``, from above.

    With r = e**(-1/scale) and s = ``sensitivity`` <= bound it is r**(bound-s+1) (1 - r**s) / (1 + r
    - 2 r**(bound+1)): the noise's mass in (bound - s, bound]. A count moved by s comes out beyond
    what it could have been with that probability, and a count of s that was not there before is
    released with it. It is convex in s and nothing at 0, so several counts moved by s together have
    no more. Scale and moves give epsilon = s/scale. Source: Desfontaines, Voss, Gipson and Mandayam
    2022, section 4 (k-TSGD), for s = 1. Above ``bound`` moves are charged delta 1.
    """
    if sensitivity > bound:
        return Fraction(1)
    step = Fraction(scale)
    # Each power of r from the side that makes the delta larger.
    r_below = exp_minus(1 / step)[0]
    moved_below = exp_minus(sensitivity / step)[0]
    last_above = exp_minus((bound - sensitivity + 1) / step)[1]
    beyond_above = exp_minus((bound + 1) / step)[1]
    delta = last_above * (1 - moved_below) / (1 + r_below - 2 * beyond_above)
    return min(Fraction(1), delta)


LARGEST_SIGMA: Final = 1000.0
"""Discrete Gaussians up to this many grid steps are charged by their own PLD."""

LARGEST_RATIO: Final = 10
"""Discrete Gaussians of a sensitivity up to this many sigmas are charged by their own PLD; beyond,
epsilon is above 50.
"""


def is_coarse(event: PrivacyEvent) -> bool:
    """Whether an event is a Gaussian, or a sample with one, that is not charged by its own
    distribution.
    """
    match event:
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return sigma > LARGEST_SIGMA or sensitivity > LARGEST_RATIO * sigma
        case PoissonSampled(event=inner):
            return any(is_coarse(part) for part, _ in leaves_of(inner))
    return False


def epsilon_of_gaussians(leaves: LeafCounts, delta: float) -> float:
    """Epsilon at ``delta``, by zero-concentrated privacy or by the continuous Gaussian, whichever
    is less.
    """
    rho = sum(times * _rho(event) for event, times in leaves)
    return min(_epsilon_of_rho(rho, delta), _epsilon_of_rounding(_without_sampling(leaves), delta))


def _without_sampling(leaves: LeafCounts) -> LeafCounts:
    """The leaves as if every sample held everybody, which costs no less."""
    found: list[tuple[PrivacyEvent, int]] = []
    for event, times in leaves:
        if isinstance(event, PoissonSampled):
            measured = _without_sampling(leaves_of(event.event))
            found += [(leaf, times * count) for leaf, count in measured]
        else:
            found.append((event, times))
    return tuple(found)


def _epsilon_of_rounding(leaves: LeafCounts, delta: float) -> float:
    """Epsilon at ``delta`` of discrete Gaussians, from the continuous Gaussian and a surcharge;
    infinite for other events.

    Let X be normal with deviation sigma, and c = 1/(24 sigma^2). Pr[discrete = x] <= e^c
    Pr[round(X) = x]: the discrete Gaussian's normaliser is at least the density's (Poisson
    summation), and the density at x is at most e^c times its mean over [x - 1/2, x + 1/2] (Jensen).
    The privacy loss is linear in x with slope s / sigma^2, so rounding adds at most h = s / (2
    sigma^2) to it. Hence delta(epsilon) <= e^(sum c) delta'(epsilon - sum h), where delta' is that
    of one normal with mu^2 = sum (s / sigma)^2: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 -
    epsilon/mu) (Balle and Wang 2018, theorem 8).
    """
    found = rounding_of(leaves)
    if found is None:
        return math.inf
    target = delta * math.exp(-found.factor) * (1 - 1e-12)
    return (epsilon_of_normal(found.mu, target, -found.surcharge) + found.surcharge) * (1 + 1e-12)


@frozen
class Rounding:
    """Discrete Gaussians as one normal number of deviation 1 that moves by ``mu``, rounded:
    ``surcharge`` (the sum of h) is added to epsilon, and delta is multiplied by e^``factor`` (the
    sum of c).
    """

    mu: float
    surcharge: float
    factor: float


def rounding_of(leaves: LeafCounts) -> Rounding | None:
    """All ``leaves`` together, as ``_epsilon_of_rounding`` derives it; None where other events are
    among them.
    """
    square = 0.0
    surcharge = 0.0
    factor = 0.0
    for event, times in leaves:
        if not isinstance(event, DiscreteGaussian):
            return None
        ratio = event.sensitivity / event.sigma
        fineness = 1 / event.sigma
        square += times * ratio * ratio
        surcharge += times * ratio * fineness / 2
        factor += times * fineness * fineness / 24
    if not math.isfinite(square):
        return None
    return Rounding(
        math.sqrt(square) * (1 + 1e-12),
        surcharge,
        factor,
    )


def mu_of_cost(epsilon: float, delta: float) -> float:
    """The ``mu`` of ``epsilon_of_normal``, about, whose cost is (``epsilon``, ``delta``): where a
    search for noise begins.
    """
    low = 0.0
    high = 1.0
    while high < 1e6 and epsilon_of_normal(high, delta) < epsilon:
        low = high
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if epsilon_of_normal(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return high


def epsilon_of_normal(
    mu: float,
    delta: float,
    least: float = 0.0,
) -> float:
    """Epsilon at ``delta`` of one normal number of deviation 1 that a unit moves by ``mu`` (Balle
    and Wang 2018, theorem 8), rounded up: the least from ``least`` on; infinite for a delta that
    is not above 0.
    """
    if delta <= 0:
        return math.inf
    # Phi(-40) is no float above zero: here delta' is.
    low = least
    high = mu * (mu / 2 + 40)
    if _normal_delta(mu, low) <= delta:
        return low
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _normal_delta(mu, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def _normal_delta(mu: float, epsilon: float) -> float:
    """Delta at ``epsilon`` (of either sign) of a normal of deviation 1 moved by ``mu``, rounded up
    by more than it can err.
    """
    # Phi(mu/2 - epsilon/mu) and Phi(-mu/2 - epsilon/mu), Balle and Wang 2018, theorem 8.
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    second = math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
    # Above 700 the exponential overflows; without its term the result is larger.
    subtrahend = math.exp(epsilon) * second if epsilon < 700 else 0.0
    return first * (1 + 1e-12) - subtrahend


def _rho(event: PrivacyEvent) -> float:
    """zCDP of an event; a sample's is at most that of what is measured on it (the moments are
    quasi-convex).
    """
    match event:
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            # A product, since a power raises an error where it overflows.
            return (sensitivity / sigma) * (sensitivity / sigma) / 2 * (1 + 1e-14)
        case DiscreteLaplace() | EpsilonDelta(delta=0.0):
            # Bun and Steinke 2016, proposition 3.3.
            figure = closed_form_cost(event)
            if figure is None:
                return math.inf
            return float(figure[0]) ** 2 / 2 * (1 + 1e-14)
        case PoissonSampled(event=inner):
            return sum(times * _rho(part) for part, times in leaves_of(inner))
    return math.inf


def _epsilon_of_rho(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke 2020, corollary 13: any order alpha > 1 gives a bound; the best
    of a grid is taken.
    """
    import numpy as np

    if delta >= 1:
        return 0.0
    if delta <= 0 or not math.isfinite(rho):
        return math.inf
    # Orders alpha around the best one of the leading terms; ``above`` is alpha - 1.
    log_inverse_delta = math.log(1 / delta)
    above = np.geomspace(1e-3, 1e3, 4001) * math.sqrt(log_inverse_delta / rho)
    log_above = np.log(above)
    log_alpha = np.log1p(above)
    first = rho * (1 + above)
    second = (log_alpha - log_inverse_delta) / above
    third = log_above - log_alpha
    # The sum of all terms without their signs: a share of it is more than they can err by.
    size_of_second = (log_alpha + log_inverse_delta) / above
    rounding = first + size_of_second + np.abs(log_above) + log_alpha
    bounds = first - second + third + 1e-14 * rounding
    return max(0.0, float(bounds.min()))
