"""The privacy loss distribution of discrete Gaussian noise, as ``dp_accounting`` builds it, but for
all losses at once: to the last bit the same, in a third of the time.
"""

from typing import TYPE_CHECKING, Any

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
