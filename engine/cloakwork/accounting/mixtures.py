"""Coarse Gaussians composed with events that have distributions of their own: by one distribution
of all of them.

The coarse ones (``gaussians``, ``sampled_gaussians``) are charged as rounded normal noise, whatever
they are composed with. Let F and F' be the distributions of the other answers on two neighbours, p
and p' those of the discrete Gaussians' answers, and r and r' those with rounded normal noise
instead. Both derivations bound pointwise, given whatever was answered before:

- p <= e^c r, and outside of a set of a probability of at most t, p' >= e^-b r'
  (``sampled_gaussians``). Hence the sum of (p F - e^epsilon p' F')_+ is at most t plus e^c times
  that of (r F - e^(epsilon - b - c) r' F')_+.
- p <= e^c r, and the losses of p at x, which are linear, are at most those of the normal noise at
  any point that is rounded to x, and h (``gaussians``). The losses of F add to both. So the sum is
  at most e^c times that of (n F - e^(epsilon - h) n' F')_+, n and n' being the normal answers. This
  holds where nothing is sampled.

In both, what is left is delta' of F composed with one normal number (rounding is post-processing),
at epsilon less a surcharge. Its distribution is composed as any other (``losses``).

An event that is (e, d)-DP with a small e is added up instead: delta(epsilon) <= d + delta'(epsilon
- e). That is exact for e = 0, and spares a discretisation as fine as e.
"""

import math
from functools import lru_cache
from typing import Final

from cloakwork.accounting.distributions import Distribution, leaf_distributions
from cloakwork.accounting.exact import exactly, rounded_up
from cloakwork.accounting.gaussians import rounding_of
from cloakwork.accounting.leaf_events import LeafCounts
from cloakwork.accounting.losses import compose
from cloakwork.accounting.sampled_gaussians import normal_distribution, samples_of
from cloakwork.base.privacy_event import (
    DiscreteGaussian,
    EpsilonDelta,
    PoissonSampled,
    PrivacyEvent,
)

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
