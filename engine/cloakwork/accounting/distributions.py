"""Privacy loss distributions (PLD) of compositions: ``dp_accounting``'s, discretised upwards, and samples of several parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cloakwork.accounting.exact import rounded_up
from cloakwork.accounting.parts import Parts, own_figures, parts_of
from cloakwork.privacy_event import Composed, DiscreteGaussian, DiscreteLaplace, PoissonSampled, PrivacyEvent, Repeated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST_SHIFT: Final = 1000
"""Discrete Laplace sensitivities up to this many grid steps are charged by their own PLD."""

_STEP_BETWEEN_DOTS, _STEP_OF_BUCKETS, _STEPS_PER_EVENT, _MOST_CELLS = 1e-3, 1e-4, 200, 100_000


@lru_cache(maxsize=64)
def distribution_of(parts: Parts, interval: float | None = None) -> Any:
    """The composed PLD; all parts share one discretisation, fine enough for the smallest and not too fine for all."""
    from dp_accounting.pld.privacy_loss_distribution import identity

    step = interval or _interval(parts)
    total = identity(value_discretization_interval=step)
    for event, times in parts:
        one = _distribution_of_leaf(event, step)
        total = total.compose(one if times == 1 else one.self_compose(times))
    return total


def _distribution_of_leaf(event: PrivacyEvent, step: float) -> Any:
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
            return _sampled(distribution_of(parts_of(leaf), step), rate, step)
    figure = own_figures(event)
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
            figure = own_figures(event)
            return float(figure[0]) if figure else sum(times * _spread(part) for part, times in parts_of(inner))
    figure = own_figures(event)
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
