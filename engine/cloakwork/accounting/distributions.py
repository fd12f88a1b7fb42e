"""Privacy loss distributions (PLD) of compositions: ``dp_accounting``'s, discretised upwards, and
samples of several parts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cloakwork.accounting.exact import rounded_up
from cloakwork.accounting.losses import Losses, composed
from cloakwork.accounting.parts import Parts, own_figures, parts_of
from cloakwork.privacy_event import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)

if TYPE_CHECKING:
    from cloakwork.accounting.losses import Floats

LARGEST_SHIFT: Final = 1000
"""Discrete Laplace sensitivities up to this many grid steps are charged by their own PLD."""

_STEEP: Final = 1e-12
"""Charged for a Gaussian whose masses fall so steeply that an error of one may exceed the next."""

_STEP_BETWEEN_DOTS, _STEP_OF_BUCKETS, _STEPS_PER_EVENT, _MOST_CELLS = 1e-3, 1e-4, 200, 100_000


@dataclass(frozen=True, slots=True)
class Distribution:
    """The privacy losses of a composition when a unit is removed, and when one is added; ``alike``:
    they are the same.
    """

    remove: Losses
    add: Losses
    alike: bool = False

    def delta_at(self, epsilon: float) -> float:
        """An upper bound of delta at ``epsilon``, in both directions."""
        return max(self.remove.delta_at(epsilon), self.add.delta_at(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """An upper bound of epsilon at ``delta``, in both directions; infinite where there is none."""
        return max(self.remove.epsilon_at(delta), self.add.epsilon_at(delta))


@lru_cache(maxsize=64)
def distribution_of(parts: Parts, interval: float | None = None) -> Distribution:
    """The composed PLD; all parts share one discretisation, fine enough for the smallest and not
    too fine for all.
    """
    step = interval or _interval(parts)
    leaves = [(_distribution_of_leaf(event, step), times) for event, times in parts]
    remove = composed([(leaf.remove, times) for leaf, times in leaves])
    if all(leaf.alike for leaf, _ in leaves):
        return Distribution(remove, remove, alike=True)
    return Distribution(remove, composed([(leaf.add, times) for leaf, times in leaves]))


def _distribution_of_leaf(event: PrivacyEvent, step: float) -> Distribution:
    rate, leaf = (event.rate, event.event) if isinstance(event, PoissonSampled) else (1.0, event)
    sampling: Mapping[str, Any] = {
        "sampling_prob": rate, "value_discretization_interval": step, "use_connect_dots": True
    }  # fmt: skip
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    match leaf:
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity) if sensitivity <= LARGEST_SHIFT:
            found = _read(
                pld.from_discrete_laplace_mechanism(1 / scale, sensitivity, **sampling), step, 1
            )
            # Its losses are bounded: a mass at infinity is rounding alone, and what rounding took
            # is made up for.
            return replace(
                found,
                remove=replace(found.remove, infinite=0.0),
                add=replace(found.add, infinite=0.0),
            )
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            # Wide enough that what is cut off, and charged as a catastrophe, has a mass below 1e-30
            # after the move too.
            reach = math.ceil(11.6 * sigma) + sensitivity
            found = pld.from_discrete_gaussian_mechanism(sigma, sensitivity, reach, **sampling)
            return _read(found, step, 2 * reach + 2, _STEEP if sigma < 0.5 else 0.0)
        case Composed() | Repeated() | PoissonSampled():
            return _sampled(distribution_of(parts_of(leaf), step), rate)
    figure = own_figures(event)
    if figure is None:
        raise TypeError(f"no privacy loss distribution for {event.kind}")
    bounds = common.DifferentialPrivacyParameters(*(rounded_up(number) for number in figure))
    return _read(pld.from_privacy_parameters(bounds, value_discretization_interval=step), step, 1)


def _read(found: Any, step: float, summands: int, certain: float = 0.0) -> Distribution:
    """A leaf of ``dp_accounting``, raised by more than its floating-point arithmetic can have
    lowered it.

    ``summands``: of how many terms it sums its cumulative distribution. ``certain``: what is
    charged as a loss without bound on top.
    """
    remove = _raised(found._pmf_remove, step, summands, certain)
    same = found._pmf_add is found._pmf_remove
    return Distribution(
        remove, remove if same else _raised(found._pmf_add, step, summands, certain), same
    )


def _raised(pmf: Any, step: float, summands: int, certain: float) -> Losses:
    import numpy as np

    dense = pmf.to_dense_pmf()
    masses = np.maximum(np.asarray(dense._probs, np.float64), 0.0)
    found = Losses(step, int(dense._lower_loss), masses, float(dense._infinity_mass))
    size = len(masses)
    farthest = float(np.abs(found.losses).max())
    cells = max(1, min(size // 8, math.ceil(1 / step)))
    # Of a cumulative probability, relatively; and of the masses, which are differences of
    # differences.
    values = 80 * summands + 4000 + 8 * farthest
    differences = 4 * size * min(size * step, 2.0)
    share = 2 * 2.0**-53 * (values + differences) / -math.expm1(-cells * step / 2)
    infinite = min(1.0, found.infinite * (1 + 1e-12) + certain + (2e-30 if summands > 1 else 0.0))
    return Losses(step, found.lowest, masses, infinite).raised(share, cells)


def _interval(parts: Parts) -> float:
    """The discretisation: connecting dots errs in its square, rounding up by itself, so the latter
    gets a finer one.
    """
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
            figure = own_figures(event)
            return (
                float(figure[0])
                if figure
                else sum(times * _spread(part) for part, times in parts_of(inner))
            )
    figure = own_figures(event)
    return float(figure[0]) if figure else 1.0


def _sampled(inner: Distribution, rate: float) -> Distribution:
    """The PLD of a Poisson sample at ``rate`` from that of what is measured on it, for adding and
    for removing a unit.
    """
    return Distribution(_sampled_remove(inner.remove, rate), _sampled_add(inner.add, rate))


def _sampled_remove(inner: Losses, rate: float) -> Losses:
    """(1-q) Q + q P against Q: loss ln(1-q + q e**loss).

    ``rest``, the mass of Q where P has none, lies at the least loss of all: where the masses of P
    are bounded from above it may come out smaller, for then more of Q lies higher.
    """
    import numpy as np

    below = inner.masses * np.exp(-np.clip(inner.losses, -700, None))
    rest = max(0.0, 1.0 - float(below.sum())) + len(below) * 2.0**-52
    losses = np.append(
        np.logaddexp(math.log1p(-rate), math.log(rate) + inner.losses), math.log1p(-rate)
    )
    masses = np.append((1 - rate) * below + rate * inner.masses, (1 - rate) * rest)
    return _on_grid(losses, masses, rate * inner.infinite, inner.step)


def _sampled_add(inner: Losses, rate: float) -> Losses:
    """P against (1-q) P + q Q: loss -ln(1-q + q e**-loss), at most -ln(1-q)."""
    import numpy as np

    losses = np.append(
        -np.logaddexp(math.log1p(-rate), math.log(rate) - inner.losses), -math.log1p(-rate)
    )
    return _on_grid(losses, np.append(inner.masses, inner.infinite), 0.0, inner.step)


def _on_grid(losses: "Floats", masses: "Floats", infinite: float, step: float) -> Losses:
    """Masses on the grid, every loss rounded up; each mass a little above what rounding can have
    taken from it.
    """
    import numpy as np

    cells = np.ceil(losses / step + 1e-9).astype(np.int64)
    lowest = int(cells.min())
    held = np.asarray(np.bincount(cells - lowest, weights=masses), np.float64)
    return Losses(step, lowest, held * (1 + 1e-9), infinite * (1 + 1e-12))
