"""Privacy loss distributions (PLD) of compositions: ``dp_accounting``'s, discretised upwards, those
of Poisson samples from which several measurements are taken, and those with Gaussian noise too
coarse for a distribution of its own (``gaussians``).

Such coarse noise is charged as continuous noise, with a surcharge.

**In samples**: charged as samples with the continuous Gaussian, and a surcharge. Let X be normal
with deviation sigma, p(y) the discrete Gaussian's probability of noise y, and r(y) that of round(X)
= y. With c = 1/(24 sigma^2), p <= e^c r everywhere (``gaussians``). Conversely, r(y) is
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
  any point that is rounded to x, and h (as ``gaussians`` derives it). The losses of F add to both.
  So the sum is at most e^c times that of (n F - e^(epsilon - h) n' F')_+, n and n' being the normal
  answers. This holds where nothing is sampled.

In both, what is left is delta' of F composed with one normal number (rounding is post-processing),
at epsilon less a surcharge. Its distribution is composed as any other (``losses``).

An event that is (e, d)-DP with a small e is added up instead: delta(epsilon) <= d + delta'(epsilon
- e). That is exact for e = 0, and spares a discretisation as fine as e.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from cloakwork.accounting.leaf_events import (
    LARGEST_SIGMA,
    LeafCounts,
    closed_form_cost,
    leaves_of,
    rounding_of,
)
from cloakwork.accounting.losses import LossDistribution, compose
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.exact import exactly, rounded_up
from cloakwork.base.frozen import frozen

LARGEST_SHIFT: Final = 1000
"""Discrete Laplace sensitivities up to this many grid steps are charged by their own PLD."""

_STEEP: Final = 1e-12
"""Charged for a Gaussian whose masses fall so steeply that an error of one may exceed the next."""

_STEP_BETWEEN_DOTS: Final = 1e-3
"""The widest discretisation where losses between two grid points are interpolated."""

_STEP_OF_BUCKETS: Final = 1e-4
"""The widest discretisation where losses are rounded up to the next grid point."""

_STEPS_PER_EVENT: Final = 200
"""Grid points within the loss that the event with the smallest losses typically reaches."""

_MOST_CELLS: Final = 100_000
"""About how many grid points a composition may have."""

_MOST_CELLS_OF_NORMALS: Final = 50_000
"""Grid points within which the losses of a normal number lie."""

_SMALL: Final = 1e-3
"""An (epsilon, delta)-DP event of no more than this epsilon is added up."""

_REACH: Final = 15.0
"""Sigmas within which all noise lies, up to ``_TAIL`` a cell and centre."""

_TAIL: Final = 2e-48
"""At least four times 2 exp(-15^2/2)."""

_STEP: Final = 1e-4
"""Discretisation of losses, for noise of one deviation."""

_LARGEST_MOVE: Final = 20.0
"""Deviations; beyond, sampling gains nothing that matters."""

_ROUNDING: Final = 1 + 1e-12


@frozen
class Distribution:
    """The privacy losses of a composition when a unit is removed, and when one is added;
    ``is_symmetric``: they are the same.
    """

    remove: LossDistribution
    add: LossDistribution
    is_symmetric: bool = False

    def delta_at(self, epsilon: float) -> float:
        """An upper bound of delta at ``epsilon``, in both directions."""
        return max(self.remove.delta_at(epsilon), self.add.delta_at(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """An upper bound of epsilon at ``delta``, in both directions; infinite without one."""
        return max(self.remove.epsilon_at(delta), self.add.epsilon_at(delta))


@lru_cache(maxsize=64)
def distribution_of(leaves: LeafCounts, interval: float | None = None) -> Distribution:
    """The composed PLD; all leaves share one discretisation, fine enough for the smallest and not
    too fine for all.
    """
    _, found = leaf_distributions(leaves, interval)
    return _composed(found)


def _composed(leaves: Sequence[tuple[Distribution, int]]) -> Distribution:
    """All ``leaves``, each run so many times, in both directions."""
    remove = compose([(each.remove, times) for each, times in leaves])
    if all(each.is_symmetric for each, _ in leaves):
        return Distribution(remove, remove, is_symmetric=True)
    add = compose([(each.add, times) for each, times in leaves])
    return Distribution(remove, add)


def leaf_distributions(
    leaves: LeafCounts,
    interval: float | None = None,
    beside: LeafCounts = (),
    at_least: float = 0.0,
) -> tuple[float, list[tuple[Distribution, int]]]:
    """The discretisation (by default fine enough for ``leaves`` and what they are composed with,
    ``beside``, and no finer than ``at_least``), and the PLD of each leaf with how often it is run.
    """
    step = max(interval or _common_step((*leaves, *beside)), at_least)
    return step, [(_distribution_of_leaf(event, step), times) for event, times in leaves]


def _distribution_of_leaf(event: PrivacyEvent, step: float) -> Distribution:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    rate = 1.0
    leaf = event
    if isinstance(event, PoissonSampled):
        rate = event.rate
        leaf = event.event
    sampling: Mapping[str, Any] = {
        "sampling_prob": rate,
        "value_discretization_interval": step,
        "use_connect_dots": True,
    }
    match leaf:
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity) if sensitivity <= LARGEST_SHIFT:
            laplace = pld.from_discrete_laplace_mechanism(1 / scale, sensitivity, **sampling)
            found = from_dp_accounting(laplace, step, 1)
            # Its losses are bounded: a mass at infinity is rounding alone, and what rounding took
            # is made up for.
            remove = replace(found.remove, infinite=0.0)
            add = replace(found.add, infinite=0.0)
            return replace(found, remove=remove, add=add)
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            # Wide enough that what is cut off, and charged as a catastrophe, has a mass below 1e-30
            # after the move too.
            reach = math.ceil(11.6 * sigma) + sensitivity
            gaussian = pld.from_discrete_gaussian_mechanism(sigma, sensitivity, reach, **sampling)
            surcharge = _STEEP if sigma < 0.5 else 0.0
            return from_dp_accounting(
                gaussian,
                step,
                2 * reach + 2,
                surcharge,
            )
        case Composed() | Repeated() | PoissonSampled():
            # That of what is measured, turned into that of a sample.
            inner = distribution_of(leaves_of(leaf), step)
            remove = _sampled_remove(inner.remove, rate)
            return Distribution(remove, _sampled_add(inner.add, rate))
    figure = closed_form_cost(event)
    if figure is None:
        raise TypeError(f"no privacy loss distribution for {event.kind}")
    bounds = common.DifferentialPrivacyParameters(*(rounded_up(number) for number in figure))
    two_point = pld.from_privacy_parameters(bounds, value_discretization_interval=step)
    return from_dp_accounting(two_point, step, 1)


def from_dp_accounting(
    found: Any,
    step: float,
    summands: int,
    certain: float = 0.0,
) -> Distribution:
    """A leaf of ``dp_accounting``, raised by more than its floating-point arithmetic can have
    lowered it.

    ``summands``: of how many terms it sums its cumulative distribution. ``certain``: what is
    charged as a loss without bound on top.
    """
    remove = _with_rounding_margin(_losses_of(found._pmf_remove, step), summands, certain)
    if found._pmf_add is found._pmf_remove:
        return Distribution(remove, remove, is_symmetric=True)
    add = _with_rounding_margin(_losses_of(found._pmf_add, step), summands, certain)
    return Distribution(remove, add)


def _with_rounding_margin(
    found: LossDistribution,
    summands: int,
    certain: float,
) -> LossDistribution:
    """One direction, raised as docs/decisions/06 derives it."""
    step = found.step
    size = len(found.masses)
    farthest = float(np.abs(found.losses).max())
    cells = max(1, min(size // 8, math.ceil(1 / step)))
    # How far a cumulative probability can be off, relatively, in units of round-off.
    values = 80 * summands + 4000 + 8 * farthest
    # How far the masses can be off, which are differences of differences of such probabilities.
    differences = 4 * size * min(size * step, 2.0)
    share = 2 * 2.0**-53 * (values + differences) / -math.expm1(-cells * step / 2)
    # What lies beyond the reach of a Gaussian's sums, before the move and after it.
    cut_off = 2e-30 if summands > 1 else 0.0
    infinite = min(1.0, found.infinite * (1 + 1e-12) + certain + cut_off)
    return replace(found, infinite=infinite).with_margin(share, cells)


def _losses_of(pmf: Any, step: float) -> LossDistribution:
    """As of ``to_dense_pmf``, which asks for the cells of a sparse one by one."""
    infinite = float(pmf._infinity_mass)
    sparse = getattr(pmf, "_loss_probs", None)
    if sparse is None:
        masses = np.maximum(np.asarray(pmf._probs, np.float64), 0.0)
        return LossDistribution(step, int(pmf._lower_loss), masses, infinite)
    places = np.fromiter(sparse.keys(), np.int64, len(sparse))
    lowest = int(places.min())
    masses = np.zeros(int(places.max()) - lowest + 1)
    masses[places - lowest] = np.fromiter(sparse.values(), np.float64, len(sparse))
    return LossDistribution(step, lowest, np.maximum(masses, 0.0), infinite)


def _common_step(leaves: LeafCounts) -> float:
    """The discretisation: connecting dots errs in its square, rounding up by itself, so the latter
    gets a finer one.
    """
    spreads = [(_typical_loss(event), times) for event, times in leaves]
    positive = [spread for spread, _ in spreads if spread > 0]
    finest = min(positive, default=1.0) / _STEPS_PER_EVENT
    # ``dp_accounting`` interpolates losses ("connects the dots", Doroshenko et al. 2022) of
    # Gaussian noise, and of Laplace noise up to a sensitivity. A loss of 0 is on every grid.
    inner = [event.event if isinstance(event, PoissonSampled) else event for event, _ in leaves]
    interpolated = all(
        isinstance(event, DiscreteGaussian)
        or (isinstance(event, DiscreteLaplace) and event.sensitivity <= LARGEST_SHIFT)
        or (isinstance(event, EpsilonDelta) and event.epsilon == 0)
        for event in inner
    )
    widest = _STEP_BETWEEN_DOTS if interpolated else _STEP_OF_BUCKETS
    # Losses add up to their mean (``drift``) plus deviations, and to no more than their sum.
    # 1e150: the square of more would overflow.
    deviation = math.sqrt(sum(times * min(spread, 1e150) ** 2 for spread, times in spreads))
    drift = sum(times * spread * math.tanh(spread / 2) for spread, times in spreads)
    largest = sum(times * spread for spread, times in spreads)
    reach = min(largest, 10 * deviation + drift)
    return max(min(widest, finest), reach / _MOST_CELLS)


def _typical_loss(event: PrivacyEvent) -> float:
    match event:
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return sensitivity / sigma
        case PoissonSampled(event=inner):
            figure = closed_form_cost(event)
            if figure is not None:
                return float(figure[0])
            return sum(times * _typical_loss(leaf) for leaf, times in leaves_of(inner))
    figure = closed_form_cost(event)
    return float(figure[0]) if figure else 1.0


def _sampled_remove(inner: LossDistribution, rate: float) -> LossDistribution:
    """(1-q) Q + q P against Q: loss ln(1-q + q e**loss), q being ``rate``.

    ``rest``, the mass of Q where P has none, lies at the least loss of all: where the masses of P
    are bounded from above it may come out smaller, for then more of Q lies higher.
    """
    # Q has e**-loss times the mass of P; 700: beyond, exp overflows.
    masses_of_q = inner.masses * np.exp(-np.clip(inner.losses, -700, None))
    rest = max(0.0, 1.0 - float(masses_of_q.sum())) + len(masses_of_q) * 2.0**-52
    least_loss = math.log1p(-rate)
    mixed_losses = np.logaddexp(least_loss, math.log(rate) + inner.losses)
    mixed_masses = (1 - rate) * masses_of_q + rate * inner.masses
    losses = np.append(mixed_losses, least_loss)
    masses = np.append(mixed_masses, (1 - rate) * rest)
    return _losses_on_grid(
        losses,
        masses,
        rate * inner.infinite,
        inner.step,
    )


def _sampled_add(inner: LossDistribution, rate: float) -> LossDistribution:
    """P against (1-q) P + q Q: loss -ln(1-q + q e**-loss), at most -ln(1-q)."""
    mixed_losses = -np.logaddexp(math.log1p(-rate), math.log(rate) - inner.losses)
    # Where P has mass and Q has none, the mixture still has (1-q) P.
    losses = np.append(mixed_losses, -math.log1p(-rate))
    masses = np.append(inner.masses, inner.infinite)
    return _losses_on_grid(losses, masses, 0.0, inner.step)


def _losses_on_grid(
    losses: Floats,
    masses: Floats,
    infinite: float,
    step: float,
) -> LossDistribution:
    """Every loss rounded up to the grid, each mass raised above what rounding can take."""
    # 1e-9 cells further up: the quotient may have been rounded down past a grid point.
    cells = np.ceil(losses / step + 1e-9).astype(np.int64)
    lowest = int(cells.min())
    held = np.asarray(np.bincount(cells - lowest, weights=masses), np.float64)
    return LossDistribution(
        step,
        lowest,
        held * (1 + 1e-9),
        infinite * (1 + 1e-12),
    )


@frozen
class Sample:
    """One run: ``move``, in deviations of one normal number; ``factor``, ``shift`` and ``tail``:
    what delta and epsilon are raised by.
    """

    rate: float
    move: float
    factor: float
    shift: float
    tail: float

    @classmethod
    def of(cls, event: PrivacyEvent) -> "Sample | None":
        """One run of an event; None where that is no sample with normal noise."""
        rate = 1.0
        measured = leaves_of(event)
        if isinstance(event, PoissonSampled):
            rate = event.rate
            measured = leaves_of(event.event)
        rounding = rounding_of(measured)
        if rounding is None or not 0 < rounding.mu <= _LARGEST_MOVE:
            return None
        spread = 0.0
        cells = 0
        for leaf, times in measured:
            if not isinstance(leaf, DiscreteGaussian) or leaf.sigma <= LARGEST_SIGMA:
                return None
            ratio = leaf.sensitivity / leaf.sigma
            fineness = 1 / leaf.sigma
            cells += times
            spread += times * (_REACH * _REACH + ratio * ratio) * fineness * fineness / 4
        factor = rounding.factor
        return cls(rate, rounding.mu, factor, factor + spread, cells * _TAIL)


Samples = tuple[tuple[Sample, int], ...]
"""Runs, each with how often."""

Moves = tuple[tuple[tuple[float, float], int], ...]
"""Samples of normal noise of deviation 1: rate and move, each with how often it is run."""


def epsilon_of_samples(leaves: LeafCounts, delta: float) -> float:
    """Epsilon at ``delta``; infinite for other events than coarse Gaussians and samples of such."""
    found = samples_of(leaves)
    if found is None:
        return math.inf
    target, shift = _without_surcharge(found, delta)
    if target <= 0:
        return math.inf
    moves = tuple(((sample.rate, sample.move), times) for sample, times in found)
    return (_distribution_of_samples(moves).epsilon_at(target) + shift) * _ROUNDING


def _without_surcharge(samples: Samples, delta: float) -> tuple[float, float]:
    """The delta that is left to continuous noise, and what is added to its epsilon."""
    factor = sum(times * sample.factor for sample, times in samples)
    shift = sum(times * sample.shift for sample, times in samples)
    tail = sum(times * sample.tail for sample, times in samples)
    return (delta * (1 - 1e-12) - tail) * math.exp(-factor), shift


def samples_of(leaves: LeafCounts) -> Samples | None:
    """The leaves as samples with normal noise, each with how often it is run; None where other
    events are among them.
    """
    samples = [(Sample.of(event), times) for event, times in leaves]
    found = tuple((sample, times) for sample, times in samples if sample is not None)
    return found if len(found) == len(leaves) else None


@lru_cache(maxsize=64)
def _distribution_of_samples(moves: Moves) -> Distribution:
    """The losses of samples (rate, move) with normal noise of deviation 1, each run so many times;
    adding or removing a unit.
    """
    step = _STEP * max(1.0, *(move for (_, move), _ in moves))
    return _composed([(normal_distribution(*move, step), times) for move, times in moves])


def normal_distribution(
    rate: float,
    move: float,
    step: float,
) -> Distribution:
    """The losses of a sample at ``rate`` with normal noise of deviation 1 on a number that a unit
    moves by ``move``, discretised to ``step``.
    """
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    found = from_gaussian_mechanism(
        1 / move,
        value_discretization_interval=step,
        sampling_prob=rate,
        use_connect_dots=True,
    )
    return from_dp_accounting(found, step, 1)


def added_up(leaves: LeafCounts) -> tuple[LeafCounts, float, float]:
    """What of ``leaves`` is left for a distribution, and the epsilon and delta of the others, which
    are added to whatever they are composed with.
    """
    left: list[tuple[PrivacyEvent, int]] = []
    epsilon = exactly(0.0)
    delta = exactly(0.0)
    for event, times in leaves:
        if isinstance(event, EpsilonDelta) and event.epsilon <= _SMALL:
            epsilon += times * exactly(event.epsilon)
            delta += times * exactly(event.delta)
        else:
            left.append((event, times))
    return tuple(left), rounded_up(epsilon), rounded_up(delta)


def epsilon_of_mixture(
    fine: LeafCounts,
    coarse: LeafCounts,
    delta: float,
) -> float:
    """Epsilon at ``delta`` of ``fine`` events and ``coarse`` Gaussians together; infinite where
    these are so extreme that neither derivation covers them.
    """
    samples = samples_of(coarse)
    if samples is None or delta <= 0:
        return math.inf
    square = sum(times * sample.move**2 for sample, times in samples if sample.rate == 1)
    moves: Moves = tuple(
        ((sample.rate, sample.move), times) for sample, times in samples if sample.rate < 1
    )
    if square > 0:
        # What is not sampled is one normal number.
        moves = (((1.0, math.sqrt(square) * (1 + 1e-12)), 1), *moves)
    found = _distribution_of(fine, moves)
    target, shift = _without_surcharge(samples, delta)
    best = found.epsilon_at(target) + shift if target > 0 else math.inf
    rounding = rounding_of(coarse)
    if rounding is not None:
        target = delta * (1 - 1e-12) * math.exp(-rounding.factor)
        best = min(best, found.epsilon_at(target) + rounding.surcharge)
    return best * (1 + 1e-12)


@lru_cache(maxsize=64)
def _distribution_of(fine: LeafCounts, moves: Moves) -> Distribution:
    """The losses of all of them together."""
    # Events with about the losses of these normal numbers, for choosing a discretisation.
    normals: list[tuple[PrivacyEvent, int]] = []
    for (rate, move), times in moves:
        noise = DiscreteGaussian(sigma=1 / move)
        normals.append((noise if rate == 1 else PoissonSampled(rate=rate, event=noise), times))
    # Losses of a normal number lie within this reach, in so many cells: more take seconds, and a
    # coarser discretisation is an upper bound as well.
    reach = max(move * (move + 20) for (_, move), _ in moves)
    least_step = reach / _MOST_CELLS_OF_NORMALS
    step, leaves = leaf_distributions(fine, beside=tuple(normals), at_least=least_step)
    leaves += [(normal_distribution(*move, step), times) for move, times in moves]
    return _composed(leaves)
