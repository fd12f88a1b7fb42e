"""Poisson samples with Gaussian noise too coarse for a distribution of its own: charged as samples
with the continuous Gaussian, and a surcharge.

Let X be normal with deviation sigma, p(y) the discrete Gaussian's probability of noise y, and r(y)
that of round(X) = y. With c = 1/(24 sigma^2), p <= e^c r everywhere (``gaussians``). Conversely,
r(y) is p(y) times the mean of exp(-t^2/(2 sigma^2)) cosh(y t/sigma^2) over |t| <= 1/2, times the
discrete normaliser over the density's; for sigma above 1,000 the latter exceeds 1 by less than
1e-300 (Poisson summation). As cosh u <= exp(u^2/2), r(y) <= exp(y^2/(8 sigma^4)) p(y), about.

Take a unit that moves the cells of a vector by s_j, and let no noise of all runs exceed 15 sigma,
but for a probability of 2 exp(-15^2/2) a cell (the tail is subgaussian: Canonne, Kamath and Steinke
2020, corollary 26). Then, from either centre, |y_j| <= 15 sigma + s_j, so the product of r over the
cells is at most exp(b) times that of p, where b sums (15 + s_j/sigma)^2/(8 sigma^2), which is at
most (15^2 + (s_j/sigma)^2)/(4 sigma^2). A mixture, such as a sample, keeps pointwise bounds. So
delta(epsilon) <= tail + e^(sum c) delta'(epsilon - sum (b + c)), where delta' is that of vectors
with rounded normal noise: post-processing of normal noise on a vector that moves by mu sigma, with
mu^2 = sum (s_j/sigma)^2, hence of one normal number. All sums depend on the s_j by the number of
cells and the sum of squares alone: they hold for every split of a norm.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cloakwork.accounting.distributions import Distribution, from_dp_accounting
from cloakwork.accounting.gaussians import LARGEST_SIGMA
from cloakwork.accounting.leaf_events import LeafCounts, leaves_of
from cloakwork.accounting.losses import compose
from cloakwork.base.privacy_event import DiscreteGaussian, PoissonSampled, PrivacyEvent

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
    return (_distribution_of(moves).epsilon_at(target) + shift) * _ROUNDING


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
def _distribution_of(moves: tuple[tuple[tuple[float, float], int], ...]) -> Distribution:
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
