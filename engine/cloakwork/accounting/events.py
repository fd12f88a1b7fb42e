"""What a tree of privacy events costs: epsilon at a delta, by privacy loss distributions (PLD) and
by plain sums.

The mathematics is ``dp_accounting``'s: every discrete noise is charged through its own PLD, never
through the continuous event (20 Poisson samples at rate .05 with discrete Laplace noise of scale 1
cost .76 at delta 1e-4; the continuous event would charge .68). PLDs are discretised upwards, so
every figure here is an upper bound. Three cases have no PLD of workable size, and a sound stand-in:

- discrete Laplace noise with a sensitivity above ``distributions.LARGEST_SHIFT`` grid steps: it is
  (sensitivity/scale)-DP, and randomised response at that epsilon dominates every pure mechanism
  (Kairouz, Oh and Viswanath 2015, theorem 3.1);
- a discrete Gaussian with a sigma above ``gaussians.LARGEST_SIGMA`` grid steps, or a sensitivity
  above ``gaussians.LARGEST_RATIO`` sigmas: charged by the continuous Gaussian with a proved
  surcharge or by its zero-concentrated DP, rho = sensitivity**2 / (2 sigma**2) (Canonne, Kamath and
  Steinke 2020, theorem 4), whichever is less; Poisson samples with such by those with the
  continuous Gaussian (``distributions``), or without amplification where other events are in
  them;
- a Poisson sample from which several measurements are taken: the PLD of the measurements is turned
  into that of their sampled form (Zhu, Dong and Wang 2022, theorem 11).

Sensitivities are of one number. A vector of counts under Laplace noise that moves by s in L1 is
charged as one count moved by s: exactly right for pure epsilon, and the worst split at every delta
(checked numerically in the tests, not proved here). A vector under Gaussian noise is one event per
count moved, with that count's sensitivity.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

from cloakwork.accounting.leaf_events import (
    LeafCounts,
    closed_form_cost,
    epsilon_of_gaussians,
    is_coarse,
    is_unbounded,
    leaves_of,
)
from cloakwork.base.costs import (
    Cost,
    DiscreteGaussian,
    PoissonSampled,
    PrivacyEvent,
)
from cloakwork.base.exact import exactly, rounded_down, rounded_up


def cost(event: PrivacyEvent, delta: float) -> Cost:
    """The smallest epsilon that can be derived for ``event`` at ``delta``; infinite when there is
    none.

    A single event, and a composition where plain addition is no worse than the accountant, costs
    its exact figure and only the delta that it has of its own; otherwise the whole of ``delta`` is
    spent.

    >>> from cloakwork.base.costs import DiscreteLaplace
    >>> cost(DiscreteLaplace(scale=1.0), 0.0)
    Cost(epsilon=1.0, delta=0.0)
    """
    return _least_cost(leaves_of(event), delta)


def naive(event: PrivacyEvent, delta: float = 0.0) -> Cost:
    """What basic composition charges: epsilons add, deltas add (Dwork and Roth 2014, theorem 3.16).

    Events that have no epsilon of their own (Gaussian noise) share what ``delta`` leaves equally; a
    whole table with one sigma is one of them, however many of its cells a unit moves.
    """
    return _summed_cost(leaves_of(event), delta)


def upper_bound_epsilon(event: PrivacyEvent, delta: float) -> float:
    """An epsilon at ``delta`` that is at least the one of ``cost``, by closed forms alone: tells
    where a search may begin.
    """
    leaves = leaves_of(event)
    if is_unbounded(leaves):
        return math.inf
    together = epsilon_of_gaussians(leaves, delta)
    # Plain sums where leaves have an epsilon of their own; the others share what delta is left.
    plain = tuple(leaf for leaf in leaves if closed_form_cost(leaf[0]) is not None)
    curved = tuple(leaf for leaf in leaves if leaf not in plain)
    own = _summed_cost(plain, 0.0)
    left = float(exactly(delta) - exactly(own.delta))
    if left < 0:
        return together
    if not curved:
        return min(own.epsilon, together)
    return min(own.epsilon + epsilon_of_gaussians(curved, left), together)


def delta_at(event: PrivacyEvent, epsilon: float) -> float:
    """The smallest delta that can be derived for ``event`` at ``epsilon``; 1 when there is none."""
    leaves = leaves_of(event)
    plain = _summed_cost(leaves, 0.0)
    best = plain.delta if plain.epsilon <= epsilon else 1.0
    if is_unbounded(leaves) or not leaves:
        return best
    # Loaded here and below: most plans do without distributions, and without numpy.
    from cloakwork.accounting.distributions import distribution_of

    fine, coarse = _split_by_noise_size(leaves)
    if coarse:
        return min(best, _least_delta(leaves, epsilon))
    return min(best, distribution_of(fine).delta_at(epsilon))


@lru_cache(maxsize=4096)
def _least_cost(leaves: LeafCounts, delta: float) -> Cost:
    plain = _summed_cost(leaves, delta)
    if not leaves or is_unbounded(leaves):
        return plain
    is_single = sum(times for _, times in leaves) <= 1
    fits = plain.delta <= delta and plain.epsilon < math.inf
    is_known = all(closed_form_cost(event) is not None for event, _ in leaves)
    if is_single and fits and is_known:
        return plain
    found = _accounted_epsilon(leaves, delta)
    if plain.delta <= delta and plain.epsilon <= found:
        return plain
    return Cost(epsilon=found, delta=delta)


@lru_cache(maxsize=4096)
def _summed_cost(leaves: LeafCounts, delta: float) -> Cost:
    if is_unbounded(leaves):
        return Cost(epsilon=math.inf, delta=delta)
    epsilon = Fraction(0)
    own_delta = Fraction(0)
    curved = Counter[LeafCounts]()
    for event, times in leaves:
        figure = closed_form_cost(event)
        if isinstance(event, DiscreteGaussian) and is_coarse(event):
            curved[((event, times),)] += 1
        elif figure is None:
            curved[((event, 1),)] += times
        else:
            epsilon += times * figure[0]
            own_delta += times * figure[1]
    if not curved:
        return Cost(epsilon=rounded_up(epsilon), delta=min(1.0, rounded_up(own_delta)))
    share = float((exactly(delta) - own_delta) / curved.total())
    if share <= 0:
        return Cost(epsilon=math.inf, delta=delta)
    of_curved = sum(times * _accounted_epsilon(leaf, share) for leaf, times in curved.items())
    return Cost(epsilon=rounded_up(epsilon) + of_curved, delta=delta)


def _accounted_epsilon(leaves: LeafCounts, delta: float) -> float:
    """Epsilon at ``delta``: the PLD of all leaves that have one; coarse Gaussians by closed forms,
    or composed with the others (``distributions``).
    """
    from cloakwork.accounting.distributions import added_up, epsilon_of_mixture

    fine, coarse = _split_by_noise_size(leaves)
    if not coarse:
        return _epsilon_of_pld(fine, delta)
    if not fine:
        return _epsilon_of_coarse(coarse, delta)
    rest, epsilon, own_delta = added_up(fine)
    left = rounded_down(exactly(delta) - exactly(own_delta))
    found = epsilon_of_mixture(rest, coarse, left) if rest else _epsilon_of_coarse(coarse, left)
    if found < math.inf:
        return epsilon + found
    # What neither derivation covers is charged apart, each sort at a half of delta.
    return _epsilon_of_coarse(coarse, delta / 2) + _epsilon_of_pld(fine, delta / 2)


def _epsilon_of_coarse(leaves: LeafCounts, delta: float) -> float:
    from cloakwork.accounting.distributions import epsilon_of_samples

    found = epsilon_of_gaussians(leaves, delta)
    if any(isinstance(event, PoissonSampled) for event, _ in leaves):
        return min(found, epsilon_of_samples(leaves, delta))
    return found


def _epsilon_of_pld(leaves: LeafCounts, delta: float) -> float:
    from cloakwork.accounting.distributions import distribution_of

    return distribution_of(leaves).epsilon_at(delta) if delta > 0 else math.inf


def _split_by_noise_size(leaves: LeafCounts) -> tuple[LeafCounts, LeafCounts]:
    """Leaves charged by a PLD, and Gaussians (sampled ones too) too coarse for one."""
    coarse = tuple(leaf for leaf in leaves if is_coarse(leaf[0]))
    fine = tuple(leaf for leaf in leaves if leaf not in coarse)
    return fine, coarse


def _least_delta(leaves: LeafCounts, epsilon: float) -> float:
    """Bisection for the delta that gives ``epsilon``; the returned end keeps to it."""
    low = -700.0
    high = math.log(0.5)
    if _accounted_epsilon(leaves, math.exp(high)) > epsilon:
        return 1.0
    # In the logarithm of delta; 60 halvings leave less than 1e-15 between the ends.
    for _ in range(60):
        middle = (low + high) / 2
        if _accounted_epsilon(leaves, math.exp(middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return math.exp(high)
