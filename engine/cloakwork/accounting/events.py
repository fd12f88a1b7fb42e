"""What a tree of privacy events costs: epsilon at a delta, by privacy loss distributions (PLD) and by plain sums.

The mathematics is ``dp_accounting``'s: every discrete noise is charged through its own PLD, never through the continuous
event (20 Poisson samples at rate .05 with discrete Laplace noise of scale 1 cost .76 at delta 1e-4; the continuous event
would charge .68). PLDs are discretised upwards, so every figure here is an upper bound. Three cases have no PLD of
workable size, and a sound stand-in:

- discrete Laplace noise with a sensitivity above ``LARGEST_SHIFT`` grid steps: it is (sensitivity/scale)-DP, and
  randomised response at that epsilon dominates every pure mechanism (Kairouz, Oh and Viswanath 2015, theorem 3.1);
- a discrete Gaussian with a sigma above ``LARGEST_SIGMA`` grid steps, or a sensitivity above ``LARGEST_RATIO`` sigmas:
  charged by the continuous Gaussian with a proved surcharge (``_epsilon_of_rounding``) or by its zero-concentrated DP,
  rho = sensitivity**2 / (2 sigma**2) (Canonne, Kamath and Steinke 2020, theorem 4), whichever is less; without
  amplification by sampling;
- a Poisson sample from which several measurements are taken: the PLD of the measurements is turned into that of their
  sampled form (Zhu, Dong and Wang 2022, theorem 11).

Sensitivities are of one number. A vector of counts under Laplace noise that moves by s in L1 is charged as one count
moved by s: exactly right for pure epsilon, and the worst split at every delta (checked numerically in the tests, not
proved here). A vector under Gaussian noise is one event per count moved, with that count's sensitivity.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cloakwork.accounting.exact import exactly, rounded_down, rounded_up, truncation_delta
from cloakwork.budget import Cost
from cloakwork.privacy_event import (
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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST_SHIFT: Final = 1000
"""Discrete Laplace sensitivities up to this many grid steps are charged by their own PLD."""

LARGEST_SIGMA: Final = 1000.0
"""Discrete Gaussians up to this many grid steps are charged by their own PLD."""

LARGEST_RATIO: Final = 10
"""Discrete Gaussians of a sensitivity up to this many sigmas are charged by their own PLD; beyond, epsilon is above 50."""

_STEP_BETWEEN_DOTS, _STEP_OF_BUCKETS, _STEPS_PER_EVENT, _MOST_CELLS = 1e-3, 1e-4, 200, 100_000

_ROUNDING = Fraction(1, 10**14)


def cost(event: PrivacyEvent, delta: float) -> Cost:
    """The smallest epsilon that can be derived for ``event`` at ``delta``; infinite when there is none.

    A single event, and a composition where plain addition is no worse than the accountant, costs its exact figure and
    only the delta that it has of its own; otherwise the whole of ``delta`` is spent.

    >>> cost(DiscreteLaplace(scale=1.0), 0.0)
    Cost(epsilon=1.0, delta=0.0)
    """
    return _cost(_parts(event), delta)


def naive(event: PrivacyEvent, delta: float = 0.0) -> Cost:
    """What basic composition charges: epsilons add, deltas add (Dwork and Roth 2014, theorem 3.16).

    Events that have no epsilon of their own (Gaussian noise) share what ``delta`` leaves equally.
    """
    return _naive(_parts(event), delta)


def roughly(event: PrivacyEvent, delta: float) -> float:
    """An epsilon at ``delta`` that is at least the one of ``cost``, by closed forms alone: tells where a search may begin."""
    parts = _parts(event)
    if _unbounded(parts):
        return math.inf
    plain = tuple(part for part in parts if _basic(part[0]) is not None)
    curved = tuple(part for part in parts if part not in plain)
    own = _naive(plain, 0.0)
    left = float(exactly(delta) - exactly(own.delta))
    apart = own.epsilon + (_epsilon_of_coarse(curved, left) if curved else 0.0) if left >= 0 else math.inf
    return min(apart, _epsilon_of_coarse(parts, delta))


def delta_at(event: PrivacyEvent, epsilon: float) -> float:
    """The smallest delta that can be derived for ``event`` at ``epsilon``; 1 when there is none."""
    parts = _parts(event)
    plain = _naive(parts, 0.0)
    best = plain.delta if plain.epsilon <= epsilon else 1.0
    if _unbounded(parts) or not parts:
        return best
    fine, coarse = _by_size(parts)
    if coarse:
        return min(best, _least_delta(parts, epsilon))
    return min(best, 1.0, max(0.0, float(_pld(fine).get_delta_for_epsilon(epsilon))))


Parts = tuple[tuple[PrivacyEvent, int], ...]
"""A composition, flat: leaves and sampled compositions, each with how often it is run."""


@lru_cache(maxsize=4096)
def _parts(event: PrivacyEvent) -> Parts:
    found: Counter[PrivacyEvent] = Counter()
    for part, times in _flat(event):
        found[part] += times
    return tuple(found.items())


def _flat(event: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    match event:
        case Composed(events=events):
            for each in events:
                yield from _flat(each)
        case Repeated(times=times, event=inner):
            for part, count in _flat(inner):
                yield part, count * times
        case PoissonSampled(rate=rate, event=inner):
            yield from _flat_sample(rate, inner)
        case _:
            yield event, 1


def _flat_sample(rate: float, inner: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    """A sample of everything, of nothing, or of a sample is a simpler event."""
    parts = _parts(inner)
    if rate == 1 or not parts or _unbounded(parts):
        yield from parts
        return
    match parts:
        case ((PoissonSampled(rate=second, event=innermost), 1),):
            # Rounded up: a higher rate costs more.
            yield from _flat_sample(min(1.0, math.nextafter(rate * second, 1.0)), innermost)
        case ((single, 1),):
            yield PoissonSampled(rate=rate, event=single), 1
        case _:
            yield PoissonSampled(rate=rate, event=Composed(events=tuple(_times(*part) for part in parts))), 1


def _times(event: PrivacyEvent, times: int) -> PrivacyEvent:
    return event if times == 1 else Repeated(times=times, event=event)


def _unbounded(parts: Parts) -> bool:
    return any(isinstance(event, NonPrivate) for event, _ in parts)


@lru_cache(maxsize=4096)
def _cost(parts: Parts, delta: float) -> Cost:
    plain = _naive(parts, delta)
    single = sum(times for _, times in parts) <= 1
    if (
        not parts
        or _unbounded(parts)
        or (single and plain.delta <= delta and plain.epsilon < math.inf and _pure_sum(parts))
    ):
        return plain
    found = _accounted(parts, delta)
    if plain.delta <= delta and plain.epsilon <= found:
        return plain
    return Cost(epsilon=found, delta=delta)


def _pure_sum(parts: Parts) -> bool:
    return all(_basic(event) is not None for event, _ in parts)


@lru_cache(maxsize=4096)
def _naive(parts: Parts, delta: float) -> Cost:
    if _unbounded(parts):
        return Cost(epsilon=math.inf, delta=delta)
    epsilon, own, curves = Fraction(0), Fraction(0), 0
    for event, times in parts:
        figure = _basic(event)
        if figure is None:
            curves += times
        else:
            epsilon, own = epsilon + times * figure[0], own + times * figure[1]
    if not curves:
        return Cost(epsilon=rounded_up(epsilon), delta=min(1.0, rounded_up(own)))
    share = float((exactly(delta) - own) / curves)
    if share <= 0:
        return Cost(epsilon=math.inf, delta=delta)
    curved = (times * _accounted(((event, 1),), share) for event, times in parts if _basic(event) is None)
    return Cost(epsilon=rounded_up(epsilon) + sum(curved), delta=delta)


def _basic(event: PrivacyEvent) -> tuple[Fraction, Fraction] | None:
    """An event's own epsilon and delta, exact or rounded up; None where it has a curve but no single figure."""
    match event:
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return sensitivity / Fraction(scale), Fraction(0)
        case TruncatedGeometric(scale=scale, bound=bound, sensitivity=sensitivity):
            # A move by 1 has losses of +epsilon, -epsilon and infinity only: the PLD of these figures is the noise's own.
            return sensitivity / Fraction(scale), truncation_delta(scale, bound, sensitivity)
        case EpsilonDelta(epsilon=epsilon, delta=delta):
            return exactly(epsilon), exactly(delta)
        case PoissonSampled(rate=rate, event=inner):
            return _amplified(rate, _parts(inner))
    return None


def _amplified(rate: float, parts: Parts) -> tuple[Fraction, Fraction] | None:
    """Amplification by sampling: epsilon becomes ln(1 + rate (e**epsilon - 1)), delta rate * delta (Li et al. 2012)."""
    figures = [(_basic(event), times) for event, times in parts]
    # However the float is read: as the decimal it prints as, or as the binary fraction that is drawn.
    share = max(exactly(rate), Fraction(rate))
    epsilon = sum((times * figure[0] for figure, times in figures if figure), Fraction(0))
    delta = sum((times * figure[1] for figure, times in figures if figure), Fraction(0))
    if any(figure is None for figure, _ in figures):
        return None
    if epsilon > 500:
        return epsilon, share * delta
    amplified = Fraction(math.log1p(rate * math.expm1(float(epsilon)))) * (1 + _ROUNDING)
    return min(epsilon, amplified), share * delta


def _accounted(parts: Parts, delta: float) -> float:
    """Epsilon at ``delta``: the PLD of all parts that have one; coarse Gaussians by closed forms on a share of delta.

    The share is a half, or what the other parts leave that have a delta of their own: whichever gives less.
    """
    fine, coarse = _by_size(parts)
    if not coarse:
        return _epsilon_of_pld(fine, delta)
    if not fine:
        return _epsilon_of_coarse(coarse, delta)
    found = _epsilon_of_coarse(coarse, delta / 2) + _epsilon_of_pld(fine, delta / 2)
    if _pure_sum(fine):
        own = _naive(fine, 0.0)
        left = rounded_down(exactly(delta) - exactly(own.delta))
        if left > 0:
            found = min(found, _epsilon_of_coarse(coarse, left) + own.epsilon)
    return found


def _epsilon_of_pld(parts: Parts, delta: float) -> float:
    return float(_pld(parts).get_epsilon_for_delta(delta)) if delta > 0 else math.inf


def _by_size(parts: Parts) -> tuple[Parts, Parts]:
    """Parts charged by a PLD, and Gaussians (sampled ones too) too coarse for one."""
    coarse = tuple(part for part in parts if _is_coarse(part[0]))
    return tuple(part for part in parts if part not in coarse), coarse


def _is_coarse(event: PrivacyEvent) -> bool:
    match event:
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return sigma > LARGEST_SIGMA or sensitivity > LARGEST_RATIO * sigma
        case PoissonSampled(event=inner):
            return any(_is_coarse(part) for part, _ in _parts(inner))
    return False


def _epsilon_of_coarse(parts: Parts, delta: float) -> float:
    rho = sum(times * _rho(event) for event, times in parts)
    return min(_epsilon_of_rho(rho, delta), _epsilon_of_rounding(_unsampled(parts), delta))


def _unsampled(parts: Parts) -> Parts:
    """The leaves as if every sample held everybody, which costs no less."""
    found: list[tuple[PrivacyEvent, int]] = []
    for event, times in parts:
        if isinstance(event, PoissonSampled):
            found += [(leaf, times * inner) for leaf, inner in _unsampled(_parts(event.event))]
        else:
            found.append((event, times))
    return tuple(found)


def _epsilon_of_rounding(parts: Parts, delta: float) -> float:
    """Epsilon at ``delta`` of discrete Gaussians, from the continuous Gaussian and a surcharge; infinite for other events.

    Let X be normal with deviation sigma, and c = 1/(24 sigma^2). Pr[discrete = x] <= e^c Pr[round(X) = x]: the discrete
    Gaussian's normaliser is at least the density's (Poisson summation), and the density at x is at most e^c times its mean
    over [x - 1/2, x + 1/2] (Jensen). The privacy loss is linear in x with slope s / sigma^2, so rounding adds at most
    h = s / (2 sigma^2) to it. Hence delta(epsilon) <= e^(sum c) delta'(epsilon - sum h), where delta' is that of one normal
    with mu^2 = sum (s / sigma)^2: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) (Balle and Wang 2018, theorem 8).
    """
    square, surcharge, factor = 0.0, 0.0, 0.0
    for event, times in parts:
        if not isinstance(event, DiscreteGaussian):
            return math.inf
        ratio, fineness = event.sensitivity / event.sigma, 1 / event.sigma
        square += times * ratio * ratio
        surcharge += times * ratio * fineness / 2
        factor += times * fineness * fineness / 24
    target = delta * math.exp(-factor) * (1 - 1e-12)
    if target <= 0 or not math.isfinite(square):
        return math.inf
    mu = math.sqrt(square) * (1 + 1e-12)
    # Phi(-40) is no float above zero: here delta' is.
    low, high = -surcharge, mu * (mu / 2 + 40)
    if _normal_delta(mu, low) <= target:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if _normal_delta(mu, middle) <= target else (middle, high)
    return (high + surcharge) * (1 + 1e-12)


def _normal_delta(mu: float, epsilon: float) -> float:
    """Delta at ``epsilon`` (of either sign) of a normal of deviation 1 moved by ``mu``, rounded up by more than it can err."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    second = math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
    return first * (1 + 1e-12) - (math.exp(epsilon) * second if epsilon < 700 else 0.0)


def _rho(event: PrivacyEvent) -> float:
    """zCDP of an event; a sample's is at most that of what is measured on it (the moments are quasi-convex)."""
    match event:
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            # A product, since a power raises an error where it overflows.
            return (sensitivity / sigma) * (sensitivity / sigma) / 2 * (1 + 1e-14)
        case DiscreteLaplace() | EpsilonDelta(delta=0.0):
            # Bun and Steinke 2016, proposition 3.3.
            figure = _basic(event)
            return math.inf if figure is None else float(figure[0]) ** 2 / 2 * (1 + 1e-14)
        case PoissonSampled(event=inner):
            return sum(times * _rho(part) for part, times in _parts(inner))
    return math.inf


def _epsilon_of_rho(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke 2020, corollary 13: any order alpha > 1 gives a bound; the best of a grid is taken."""
    import numpy as np

    if delta >= 1:
        return 0.0
    if delta <= 0 or not math.isfinite(rho):
        return math.inf
    above = np.geomspace(1e-3, 1e3, 4001) * math.sqrt(math.log(1 / delta) / rho)  # alpha - 1
    first = rho * (1 + above)
    second = (np.log1p(above) - math.log(1 / delta)) / above
    third = np.log(above) - np.log1p(above)
    # More than the terms can err by.
    rounding = first + (np.log1p(above) + math.log(1 / delta)) / above + np.abs(np.log(above)) + np.log1p(above)
    return max(0.0, float((first - second + third + 1e-14 * rounding).min()))


def _least_delta(parts: Parts, epsilon: float) -> float:
    """Bisection for the delta at which the accountant gives ``epsilon``; the returned end keeps to it."""
    low, high = -700.0, math.log(0.5)
    if _accounted(parts, math.exp(high)) > epsilon:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _accounted(parts, math.exp(middle)) <= epsilon else (middle, high)
    return math.exp(high)


@lru_cache(maxsize=64)
def _pld(parts: Parts, interval: float | None = None) -> Any:
    """The composed PLD; all parts share one discretisation, fine enough for the smallest and not too fine for all."""
    from dp_accounting.pld.privacy_loss_distribution import identity

    step = interval or _interval(parts)
    total = identity(value_discretization_interval=step)
    for event, times in parts:
        one = _leaf_pld(event, step)
        total = total.compose(one if times == 1 else one.self_compose(times))
    return total


def _leaf_pld(event: PrivacyEvent, step: float) -> Any:
    rate, leaf = (event.rate, event.event) if isinstance(event, PoissonSampled) else (1.0, event)
    sampling: Mapping[str, Any] = {
        "sampling_prob": rate, "value_discretization_interval": step, "use_connect_dots": True
    }  # fmt: skip
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    match leaf:
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity) if sensitivity <= LARGEST_SHIFT:
            return pld.from_discrete_laplace_mechanism(1 / scale, sensitivity, **sampling)
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            # Wide enough that what is cut off, and charged as a catastrophe, has a mass below 1e-30 after the move too.
            reach = math.ceil(11.6 * sigma) + sensitivity
            return pld.from_discrete_gaussian_mechanism(sigma, sensitivity, reach, **sampling)
        case Composed() | Repeated() | PoissonSampled():
            return _sampled(_pld(_parts(leaf), step), rate, step)
    figure = _basic(event)
    if figure is None:
        raise TypeError(f"no privacy loss distribution for {event.kind}")
    bounds = common.DifferentialPrivacyParameters(*(rounded_up(number) for number in figure))
    return pld.from_privacy_parameters(bounds, value_discretization_interval=step)


def _interval(parts: Parts) -> float:
    """The discretisation: connecting dots errs in its square, rounding up by itself, so the latter gets a finer one."""
    spreads = [(_spread(event), times) for event, times in parts]
    finest = min((spread for spread, _ in spreads if spread > 0), default=1.0) / _STEPS_PER_EVENT
    widest = _STEP_BETWEEN_DOTS if all(_has_dots(event) for event, _ in parts) else _STEP_OF_BUCKETS
    squares = math.sqrt(sum(times * min(spread, 1e150) ** 2 for spread, times in spreads))
    drift = sum(times * spread * math.tanh(spread / 2) for spread, times in spreads)
    reach = min(sum(times * spread for spread, times in spreads), 10 * squares + drift)
    return max(min(widest, finest), reach / _MOST_CELLS)


def _has_dots(event: PrivacyEvent) -> bool:
    leaf = event.event if isinstance(event, PoissonSampled) else event
    return isinstance(leaf, DiscreteGaussian) or (
        isinstance(leaf, DiscreteLaplace) and leaf.sensitivity <= LARGEST_SHIFT
    )


def _spread(event: PrivacyEvent) -> float:
    """The privacy loss that one run typically reaches."""
    match event:
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return sensitivity / sigma
        case PoissonSampled(event=inner):
            figure = _basic(event)
            return float(figure[0]) if figure else sum(times * _spread(part) for part, times in _parts(inner))
    figure = _basic(event)
    return float(figure[0]) if figure else 1.0


def _sampled(inner: Any, rate: float, step: float) -> Any:
    """The PLD of a Poisson sample at ``rate`` from that of what is measured on it, for adding and for removing a unit."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    remove, add = (_Losses.of(pmf, step) for pmf in (inner._pmf_remove, inner._pmf_add))
    return PrivacyLossDistribution(remove.sampled_remove(rate).pmf(), add.sampled_add(rate).pmf())


@dataclass(frozen=True, slots=True)
class _Losses:
    """A privacy loss distribution as arrays: ``losses`` with ``masses`` under the upper distribution, and at infinity."""

    losses: "NDArray[np.float64]"
    masses: "NDArray[np.float64]"
    infinite: float
    step: float

    @classmethod
    def of(cls, pmf: Any, step: float) -> "_Losses":
        import numpy as np

        dense = pmf.to_dense_pmf()
        losses = (dense._lower_loss + np.arange(dense.size)) * step
        return cls(losses, np.maximum(dense._probs, 0.0), float(dense._infinity_mass), step)

    def sampled_remove(self, rate: float) -> "_Losses":
        """(1-q) Q + q P against Q: loss ln(1-q + q e**loss)."""
        import numpy as np

        below = self.masses * np.exp(-np.clip(self.losses, -700, None))
        rest = max(0.0, 1.0 - float(below.sum()))
        losses = np.append(np.logaddexp(math.log1p(-rate), math.log(rate) + self.losses), math.log1p(-rate))
        masses = np.append((1 - rate) * below + rate * self.masses, (1 - rate) * rest)
        return _Losses(losses, masses, rate * self.infinite, self.step)

    def sampled_add(self, rate: float) -> "_Losses":
        """P against (1-q) P + q Q: loss -ln(1-q + q e**-loss), at most -ln(1-q)."""
        import numpy as np

        losses = np.append(-np.logaddexp(math.log1p(-rate), math.log(rate) - self.losses), -math.log1p(-rate))
        return _Losses(losses, np.append(self.masses, self.infinite), 0.0, self.step)

    def pmf(self) -> Any:
        """Back on the grid, every loss rounded up."""
        import numpy as np
        from dp_accounting.pld.pld_pmf import DensePLDPmf

        cells = np.ceil(self.losses / self.step + 1e-9).astype(np.int64)
        lowest = int(cells.min())
        return DensePLDPmf(
            self.step,
            lowest,
            np.bincount(cells - lowest, weights=self.masses),
            self.infinite,
            pessimistic_estimate=True,
        )
