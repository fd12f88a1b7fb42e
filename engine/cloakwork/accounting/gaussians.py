"""Gaussian noise too coarse for a distribution of its own, by itself, in Poisson samples, and
composed with other events.

**By itself**: closed forms, which hold for Laplace noise too.

**In samples**: charged as samples with the continuous Gaussian, and a surcharge. Let X be normal
with deviation sigma, p(y) the discrete Gaussian's probability of noise y, and r(y) that of round(X)
= y. With c = 1/(24 sigma^2), p <= e^c r everywhere (``_epsilon_of_rounding``). Conversely, r(y) is
p(y) times the mean of exp(-t^2/(2 sigma^2)) cosh(y t/sigma^2) over |t| <= 1/2, times the discrete
normaliser over the density's; for sigma above 1,000 the latter exceeds 1 by less than 1e-300
(Poisson summation). As cosh u <= exp(u^2/2), r(y) <= exp(y^2/(8 sigma^4)) p(y), about.

Take a unit that moves the cells of a vector by s_j, and let no noise of all runs exceed 15 sigma,
but for a probability of 2 exp(-15^2/2) a cell (the tail is subgaussian: Canonne, Kamath and Steinke
2020, corollary 26). Then, from either centre, |y_j| <= 15 sigma + s_j, so the product of r over the
cells is at most exp(b) times that of p, where b sums (15 + s_j/sigma)^2/(8 sigma^2), which is at
most (15^2 + (s_j/sigma)^2)/(4 sigma^2). A mixture, such as a sample, keeps pointwise bounds. So
delta(epsilon) <= tail + e^(sum c) delta'(epsilon - sum (b + c)), where delta' is that of vectors
with rounded normal noise: post-processing of normal noise on a vector that moves by mu sigma, with
mu^2 = sum (s_j/sigma)^2, hence of one normal number. All sums depend on the s_j by the number of
cells and the sum of squares alone: they hold for every split of a norm.

**With other events**: by one distribution of all of them, the coarse ones as rounded normal noise,
whatever they are composed with. Let F and F' be the distributions of the other answers on two
neighbours, p and p' those of the discrete Gaussians' answers, and r and r' those with rounded
normal noise instead. Both derivations bound pointwise, given whatever was answered before:

- p <= e^c r, and outside of a set of a probability of at most t, p' >= e^-b r' (as in samples).
  Hence the sum of (p F - e^epsilon p' F')_+ is at most t plus e^c times that of
  (r F - e^(epsilon - b - c) r' F')_+.
- p <= e^c r, and the losses of p at x, which are linear, are at most those of the normal noise at
  any point that is rounded to x, and h (as by itself). The losses of F add to both. So the sum is
  at most e^c times that of (n F - e^(epsilon - h) n' F')_+, n and n' being the normal answers. This
  holds where nothing is sampled.

In both, what is left is delta' of F composed with one normal number (rounding is post-processing),
at epsilon less a surcharge. Its distribution is composed as any other (``losses``).

An event that is (e, d)-DP with a small e is added up instead: delta(epsilon) <= d + delta'(epsilon
- e). That is exact for e = 0, and spares a discretisation as fine as e.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cloakwork.accounting.distributions import Distribution, from_dp_accounting, leaf_distributions
from cloakwork.accounting.leaf_events import LeafCounts, closed_form_cost, leaves_of
from cloakwork.accounting.losses import compose
from cloakwork.base.costs import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    PoissonSampled,
    PrivacyEvent,
)
from cloakwork.base.exact import exactly, rounded_up

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
    return (_epsilon_of_move(found.mu, target, -found.surcharge) + found.surcharge) * (1 + 1e-12)


@dataclass(frozen=True, slots=True)
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
    square, surcharge, factor = 0.0, 0.0, 0.0
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
    return Rounding(math.sqrt(square) * (1 + 1e-12), surcharge, factor)


def epsilon_of_normal(mu: float, delta: float) -> float:
    """Epsilon at ``delta`` of one normal number of deviation 1 that a unit moves by ``mu`` (Balle
    and Wang 2018, theorem 8), rounded up.
    """
    return _epsilon_of_move(mu, delta, 0.0)


def mu_of_cost(epsilon: float, delta: float) -> float:
    """The ``mu`` of ``epsilon_of_normal``, about, whose cost is (``epsilon``, ``delta``): where a
    search for noise begins.
    """
    low, high = 0.0, 1.0
    while high < 1e6 and _epsilon_of_move(high, delta, 0.0) < epsilon:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _epsilon_of_move(middle, delta, 0.0) <= epsilon:
            low = middle
        else:
            high = middle
    return high


def _epsilon_of_move(mu: float, target: float, least: float) -> float:
    """The least epsilon, from ``least`` on, at which ``_normal_delta`` is at most ``target``;
    infinite for a target that is not above 0.
    """
    if target <= 0:
        return math.inf
    # Phi(-40) is no float above zero: here delta' is.
    low, high = least, mu * (mu / 2 + 40)
    if _normal_delta(mu, low) <= target:
        return low
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _normal_delta(mu, middle) <= target:
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
    log_above, log_alpha = np.log(above), np.log1p(above)
    first = rho * (1 + above)
    second = (log_alpha - log_inverse_delta) / above
    third = log_above - log_alpha
    # The sum of all terms without their signs: a share of it is more than they can err by.
    size_of_second = (log_alpha + log_inverse_delta) / above
    rounding = first + size_of_second + np.abs(log_above) + log_alpha
    bounds = first - second + third + 1e-14 * rounding
    return max(0.0, float(bounds.min()))


_REACH: Final = 15.0
"""Sigmas within which all noise lies, up to ``_TAIL`` a cell and centre."""

_TAIL: Final = 2e-48
"""At least four times 2 exp(-15^2/2)."""

_STEP: Final = 1e-4
"""Discretisation of losses, for noise of one deviation."""

_LARGEST_MOVE: Final = 20.0
"""Deviations; beyond, sampling gains nothing that matters."""

_ROUNDING: Final = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: ``move``, in deviations of one normal number; ``factor``, ``shift`` and ``tail``:
    what delta and epsilon are raised by.
    """

    rate: float
    move: float
    factor: float
    shift: float
    tail: float


def epsilon_of_samples(leaves: LeafCounts, delta: float) -> float:
    """Epsilon at ``delta``; infinite for other events than coarse Gaussians and samples of such."""
    found = samples_of(leaves)
    if found is None:
        return math.inf
    factor = sum(times * sample.factor for sample, times in found)
    shift = sum(times * sample.shift for sample, times in found)
    tail = sum(times * sample.tail for sample, times in found)
    target = (delta * (1 - 1e-12) - tail) * math.exp(-factor)
    if target <= 0:
        return math.inf
    moves = tuple(((sample.rate, sample.move), times) for sample, times in found)
    return (_distribution_of_samples(moves).epsilon_at(target) + shift) * _ROUNDING


def samples_of(leaves: LeafCounts) -> tuple[tuple[Sample, int], ...] | None:
    """The leaves as samples with normal noise, each with how often it is run; None where other
    events are among them.
    """
    samples = [(_sample_of(event), times) for event, times in leaves]
    found = tuple((sample, times) for sample, times in samples if sample is not None)
    return found if len(found) == len(leaves) else None


def _sample_of(event: PrivacyEvent) -> Sample | None:
    rate, measured = 1.0, leaves_of(event)
    if isinstance(event, PoissonSampled):
        rate, measured = event.rate, leaves_of(event.event)
    square, factor, spread, cells = 0.0, 0.0, 0.0, 0
    for leaf, times in measured:
        if not isinstance(leaf, DiscreteGaussian) or leaf.sigma <= LARGEST_SIGMA:
            return None
        ratio, fineness = leaf.sensitivity / leaf.sigma, 1 / leaf.sigma
        cells += times
        square += times * ratio * ratio
        factor += times * fineness * fineness / 24
        spread += times * (_REACH * _REACH + ratio * ratio) * fineness * fineness / 4
    move = math.sqrt(square) * _ROUNDING
    if not 0 < move <= _LARGEST_MOVE:
        return None
    return Sample(rate, move, factor, factor + spread, cells * _TAIL)


@lru_cache(maxsize=64)
def _distribution_of_samples(moves: tuple[tuple[tuple[float, float], int], ...]) -> Distribution:
    """The losses of samples (rate, move) with normal noise of deviation 1, each run so many times;
    adding or removing a unit.
    """
    step = _STEP * max(1.0, *(move for (_, move), _ in moves))
    found = [(normal_distribution(*move, step), times) for move, times in moves]
    remove = compose([(each.remove, times) for each, times in found])
    return Distribution(remove, compose([(each.add, times) for each, times in found]))


def normal_distribution(rate: float, move: float, step: float) -> Distribution:
    """The losses of a sample at ``rate`` with normal noise of deviation 1 on a number that a unit
    moves by ``move``, discretised to ``step``.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    normal = pld.from_gaussian_mechanism(
        1 / move,
        value_discretization_interval=step,
        sampling_prob=rate,
        use_connect_dots=True,
    )
    return from_dp_accounting(normal, step, 1)


_SMALL: Final = 1e-3
"""An (epsilon, delta)-DP event of no more than this epsilon is added up."""

_MOST_CELLS: Final = 50_000

Moves = tuple[tuple[tuple[float, float], int], ...]
"""Samples of normal noise of deviation 1: rate and move, each with how often it is run."""


def added_up(leaves: LeafCounts) -> tuple[LeafCounts, float, float]:
    """What of ``leaves`` is left for a distribution, and the epsilon and delta of the others, which
    are added to whatever they are composed with.
    """
    left: list[tuple[PrivacyEvent, int]] = []
    epsilon, delta = exactly(0.0), exactly(0.0)
    for event, times in leaves:
        if isinstance(event, EpsilonDelta) and event.epsilon <= _SMALL:
            epsilon += times * exactly(event.epsilon)
            delta += times * exactly(event.delta)
        else:
            left.append((event, times))
    return tuple(left), rounded_up(epsilon), rounded_up(delta)


def epsilon_of_mixture(fine: LeafCounts, coarse: LeafCounts, delta: float) -> float:
    """Epsilon at ``delta`` of ``fine`` events and ``coarse`` Gaussians together; infinite where
    these are so extreme that neither derivation covers them.
    """
    samples = samples_of(coarse)
    if samples is None or delta <= 0:
        return math.inf
    factor = sum(times * sample.factor for sample, times in samples)
    shift = sum(times * sample.shift for sample, times in samples)
    tail = sum(times * sample.tail for sample, times in samples)
    square = sum(times * sample.move**2 for sample, times in samples if sample.rate == 1)
    moves: Moves = tuple(
        ((sample.rate, sample.move), times) for sample, times in samples if sample.rate < 1
    )
    if square > 0:
        # What is not sampled is one normal number.
        moves = (((1.0, math.sqrt(square) * (1 + 1e-12)), 1), *moves)
    found = _distribution_of(fine, moves)
    target = (delta * (1 - 1e-12) - tail) * math.exp(-factor)
    best = found.epsilon_at(target) + shift if target > 0 else math.inf
    rounding = rounding_of(coarse)
    if rounding is not None:
        target = delta * (1 - 1e-12) * math.exp(-rounding.factor)
        best = min(best, found.epsilon_at(target) + rounding.surcharge)
    return best * (1 + 1e-12)


@lru_cache(maxsize=64)
def _distribution_of(fine: LeafCounts, moves: Moves) -> Distribution:
    """The losses of all of them together."""
    normals = tuple((_event_of_move(*move), times) for move, times in moves)
    # Losses of a normal number lie within this reach, in so many cells: more take seconds, and a
    # coarser discretisation is an upper bound as well.
    reach = max(move * (move + 20) for (_, move), _ in moves)
    step, leaves = leaf_distributions(fine, beside=normals, at_least=reach / _MOST_CELLS)
    leaves += [(normal_distribution(*move, step), times) for move, times in moves]
    remove = compose([(each.remove, times) for each, times in leaves])
    if all(each.is_symmetric for each, _ in leaves):
        return Distribution(remove, remove, is_symmetric=True)
    return Distribution(remove, compose([(each.add, times) for each, times in leaves]))


def _event_of_move(rate: float, move: float) -> PoissonSampled | DiscreteGaussian:
    """An event with about the losses of a sampled normal number: for choosing a discretisation."""
    noise = DiscreteGaussian(sigma=1 / move)
    return noise if rate == 1 else PoissonSampled(rate=rate, event=noise)
