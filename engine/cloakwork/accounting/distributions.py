"""Privacy loss distributions (PLD) of compositions: ``dp_accounting``'s, discretised upwards, and
those of Poisson samples from which several measurements are taken.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cloakwork.accounting.leaf_events import LeafCounts, closed_form_cost, leaves_of
from cloakwork.accounting.losses import LossDistribution, compose
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.exact import rounded_up

if TYPE_CHECKING:
    from cloakwork.base.arrays import Floats, Ints


def gaussian_distribution(sigma: float, sensitivity: int, reach: int, step: float) -> Any:
    """What ``dp_accounting``'s ``from_discrete_gaussian_mechanism`` gives without sampling: a
    ``PrivacyLossDistribution`` that connects the dots (Doroshenko et al. 2022).

    ``reach``: noise is cut off beyond so many grid steps; ``step``: between two losses, in nats.
    """
    import numpy as np
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss

    noise = DiscreteGaussianPrivacyLoss(sigma, sensitivity=sensitivity, truncation_bound=reach)
    dots = _dots(sigma, sensitivity, reach, step)
    epsilons = np.asarray(dots * step, np.float64)
    deltas = _deltas(noise, epsilons, (sigma, sensitivity, reach))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, dots, deltas)
    return pld.PrivacyLossDistribution(pmf)


def _dots(sigma: float, sensitivity: int, reach: int, step: float) -> "Ints":
    """The grid points around the loss of each outcome: ascending, in ``step``."""
    import numpy as np

    outcomes = np.arange(reach - sensitivity, -reach - 1, -1)
    losses = sensitivity * (-0.5 * sensitivity - outcomes) / sigma**2
    scaled = losses / step
    return np.unique(np.concatenate([np.floor(scaled), np.ceil(scaled)])).astype(np.int64)


def _deltas(noise: Any, epsilons: "Floats", shape: tuple[float, int, int]) -> "Floats":
    """Delta at each epsilon: what is above the last outcome whose loss is at least that."""
    import numpy as np

    sigma, sensitivity, reach = shape
    outcome = -0.5 * sensitivity - epsilons * sigma**2 / sensitivity
    last = np.floor(np.clip(outcome, -reach - 1, reach - sensitivity)).astype(np.int64)
    below = np.exp(epsilons + noise.mu_lower_log_cdf(last))
    return np.asarray(np.clip(noise.mu_upper_cdf(last) - below, 0, 1), np.float64)


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


@dataclass(frozen=True, slots=True)
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
    found = leaf_distributions(leaves, interval)[1]
    remove = compose([(each.remove, times) for each, times in found])
    if all(each.is_symmetric for each, _ in found):
        return Distribution(remove, remove, is_symmetric=True)
    add = compose([(each.add, times) for each, times in found])
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

    rate, leaf = 1.0, event
    if isinstance(event, PoissonSampled):
        rate, leaf = event.rate, event.event
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
            if rate == 1:
                gaussian = gaussian_distribution(sigma, sensitivity, reach, step)
            else:
                gaussian = pld.from_discrete_gaussian_mechanism(
                    sigma, sensitivity, reach, **sampling
                )
            surcharge = _STEEP if sigma < 0.5 else 0.0
            return from_dp_accounting(gaussian, step, 2 * reach + 2, surcharge)
        case Composed() | Repeated() | PoissonSampled():
            return _sampled_distribution(distribution_of(leaves_of(leaf), step), rate)
    figure = closed_form_cost(event)
    if figure is None:
        raise TypeError(f"no privacy loss distribution for {event.kind}")
    bounds = common.DifferentialPrivacyParameters(*(rounded_up(number) for number in figure))
    two_point = pld.from_privacy_parameters(bounds, value_discretization_interval=step)
    return from_dp_accounting(two_point, step, 1)


def from_dp_accounting(
    found: Any, step: float, summands: int, certain: float = 0.0
) -> Distribution:
    """A leaf of ``dp_accounting``, raised by more than its floating-point arithmetic can have
    lowered it.

    ``summands``: of how many terms it sums its cumulative distribution. ``certain``: what is
    charged as a loss without bound on top.
    """
    remove = _with_rounding_margin(found._pmf_remove, step, summands, certain)
    if found._pmf_add is found._pmf_remove:
        return Distribution(remove, remove, is_symmetric=True)
    add = _with_rounding_margin(found._pmf_add, step, summands, certain)
    return Distribution(remove, add)


def _with_rounding_margin(pmf: Any, step: float, summands: int, certain: float) -> LossDistribution:
    """One direction, raised as docs/decisions/0022 derives it."""
    import numpy as np

    lowest, probabilities = _cells_of(pmf)
    masses = np.maximum(probabilities, 0.0)
    found = LossDistribution(step, lowest, masses, float(pmf._infinity_mass))
    size = len(masses)
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
    return LossDistribution(step, found.lowest, masses, infinite).with_margin(share, cells)


def _cells_of(pmf: Any) -> tuple[int, "Floats"]:
    """The least loss, in steps, and the mass of each cell from there on: as of ``to_dense_pmf``,
    which asks for the cells of a sparse one by one.
    """
    import numpy as np

    sparse = getattr(pmf, "_loss_probs", None)
    if sparse is None:
        return int(pmf._lower_loss), np.asarray(pmf._probs, np.float64)
    places = np.fromiter(sparse.keys(), np.int64, len(sparse))
    lowest = int(places.min())
    masses = np.zeros(int(places.max()) - lowest + 1)
    masses[places - lowest] = np.fromiter(sparse.values(), np.float64, len(sparse))
    return lowest, masses


def _common_step(leaves: LeafCounts) -> float:
    """The discretisation: connecting dots errs in its square, rounding up by itself, so the latter
    gets a finer one.
    """
    spreads = [(_typical_loss(event), times) for event, times in leaves]
    positive = [spread for spread, _ in spreads if spread > 0]
    finest = min(positive, default=1.0) / _STEPS_PER_EVENT
    interpolated = all(_connects_dots(event) for event, _ in leaves)
    widest = _STEP_BETWEEN_DOTS if interpolated else _STEP_OF_BUCKETS
    # Losses add up to their mean (``drift``) plus deviations, and to no more than their sum.
    # 1e150: the square of more would overflow.
    deviation = math.sqrt(sum(times * min(spread, 1e150) ** 2 for spread, times in spreads))
    drift = sum(times * spread * math.tanh(spread / 2) for spread, times in spreads)
    largest = sum(times * spread for spread, times in spreads)
    reach = min(largest, 10 * deviation + drift)
    return max(min(widest, finest), reach / _MOST_CELLS)


def _connects_dots(event: PrivacyEvent) -> bool:
    """Whether ``dp_accounting`` interpolates an event's losses ("connect the dots", Doroshenko et
    al. 2022).
    """
    leaf = event.event if isinstance(event, PoissonSampled) else event
    if isinstance(leaf, DiscreteLaplace):
        return leaf.sensitivity <= LARGEST_SHIFT
    return isinstance(leaf, DiscreteGaussian)


def _typical_loss(event: PrivacyEvent) -> float:
    """The privacy loss that one run typically reaches."""
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


def _sampled_distribution(inner: Distribution, rate: float) -> Distribution:
    """The PLD of a Poisson sample at ``rate`` from that of what is measured on it, for adding and
    for removing a unit.
    """
    return Distribution(_sampled_remove(inner.remove, rate), _sampled_add(inner.add, rate))


def _sampled_remove(inner: LossDistribution, rate: float) -> LossDistribution:
    """(1-q) Q + q P against Q: loss ln(1-q + q e**loss), q being ``rate``.

    ``rest``, the mass of Q where P has none, lies at the least loss of all: where the masses of P
    are bounded from above it may come out smaller, for then more of Q lies higher.
    """
    import numpy as np

    # Q has e**-loss times the mass of P; 700: beyond, exp overflows.
    masses_of_q = inner.masses * np.exp(-np.clip(inner.losses, -700, None))
    rest = max(0.0, 1.0 - float(masses_of_q.sum())) + len(masses_of_q) * 2.0**-52
    least_loss = math.log1p(-rate)
    mixed_losses = np.logaddexp(least_loss, math.log(rate) + inner.losses)
    mixed_masses = (1 - rate) * masses_of_q + rate * inner.masses
    losses = np.append(mixed_losses, least_loss)
    masses = np.append(mixed_masses, (1 - rate) * rest)
    return _losses_on_grid(losses, masses, rate * inner.infinite, inner.step)


def _sampled_add(inner: LossDistribution, rate: float) -> LossDistribution:
    """P against (1-q) P + q Q: loss -ln(1-q + q e**-loss), at most -ln(1-q)."""
    import numpy as np

    mixed_losses = -np.logaddexp(math.log1p(-rate), math.log(rate) - inner.losses)
    # Where P has mass and Q has none, the mixture still has (1-q) P.
    losses = np.append(mixed_losses, -math.log1p(-rate))
    masses = np.append(inner.masses, inner.infinite)
    return _losses_on_grid(losses, masses, 0.0, inner.step)


def _losses_on_grid(
    losses: "Floats", masses: "Floats", infinite: float, step: float
) -> LossDistribution:
    """Masses on the grid, every loss rounded up; each mass a little above what rounding can have
    taken from it.
    """
    import numpy as np

    # 1e-9 cells further up: the quotient may have been rounded down past a grid point.
    cells = np.ceil(losses / step + 1e-9).astype(np.int64)
    lowest = int(cells.min())
    held = np.asarray(np.bincount(cells - lowest, weights=masses), np.float64)
    return LossDistribution(step, lowest, held * (1 + 1e-9), infinite * (1 + 1e-12))
