"""The leaves of a tree of privacy events: how often each is run, and what each costs by itself."""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Final

from cloakwork.base.costs import (
    Composed,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.base.exact import exactly, exp_minus

_ROUNDING: Final = Fraction(1, 10**14)

LeafCounts = tuple[tuple[PrivacyEvent, int], ...]
"""A composition, flat: leaves and sampled compositions, each with how often it is run."""


@lru_cache(maxsize=4096)
def leaves_of(event: PrivacyEvent) -> LeafCounts:
    """The leaves and samples of ``event``, each with how often it is run; equal ones are counted
    together.
    """
    found: Counter[PrivacyEvent] = Counter()
    for part, times in _flat_parts(event):
        found[part] += times
    return tuple(found.items())


def _flat_parts(event: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    match event:
        case Composed(events=events):
            for each in events:
                yield from _flat_parts(each)
        case Repeated(times=times, event=inner):
            for part, count in _flat_parts(inner):
                yield part, count * times
        case PoissonSampled(rate=rate, event=inner):
            yield from _flattened_sample(rate, inner)
        case _:
            yield event, 1


def _flattened_sample(rate: float, inner: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    """A sample of everything, of nothing, or of a sample is a simpler event."""
    leaves = leaves_of(inner)
    if rate == 1 or not leaves or is_unbounded(leaves):
        yield from leaves
        return
    match leaves:
        case ((PoissonSampled(rate=second, event=innermost), 1),):
            # Rounded up: a higher rate costs more.
            yield from _flattened_sample(min(1.0, math.nextafter(rate * second, 1.0)), innermost)
        case ((single, 1),):
            yield PoissonSampled(rate=rate, event=single), 1
        case _:
            measured = tuple(
                leaf if times == 1 else Repeated(times=times, event=leaf) for leaf, times in leaves
            )
            yield PoissonSampled(rate=rate, event=Composed(events=measured)), 1


def is_unbounded(leaves: LeafCounts) -> bool:
    """Whether nothing bounds the cost of some leaf."""
    return any(isinstance(event, NonPrivate) for event, _ in leaves)


def closed_form_cost(event: PrivacyEvent) -> tuple[Fraction, Fraction] | None:
    """An event's own epsilon and delta, exact or rounded up; None where it has a curve but no
    single figure.
    """
    match event:
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return sensitivity / Fraction(scale), Fraction(0)
        case TruncatedGeometric(scale=scale, bound=bound, sensitivity=sensitivity):
            # A move by 1 has losses of +epsilon, -epsilon and infinity only: the PLD of these
            # figures is the noise's own.
            return sensitivity / Fraction(scale), truncation_delta(scale, bound, sensitivity)
        case EpsilonDelta(epsilon=epsilon, delta=delta):
            return exactly(epsilon), exactly(delta)
        case PoissonSampled(rate=rate, event=inner):
            return _amplified_cost(rate, leaves_of(inner))
    return None


def _amplified_cost(rate: float, leaves: LeafCounts) -> tuple[Fraction, Fraction] | None:
    """Amplification by sampling: epsilon becomes ln(1 + rate (e**epsilon - 1)), delta rate * delta
    (Li et al. 2012).
    """
    epsilon = Fraction(0)
    delta = Fraction(0)
    for event, times in leaves:
        figure = closed_form_cost(event)
        if figure is None:
            return None
        epsilon += times * figure[0]
        delta += times * figure[1]
    # However the float is read: as the decimal it prints as, or as the binary fraction that is
    # drawn.
    share = max(exactly(rate), Fraction(rate))
    if epsilon > 500:  # expm1 would overflow further up, and there is next to nothing to gain
        return epsilon, share * delta
    amplified = Fraction(math.log1p(rate * math.expm1(float(epsilon)))) * (1 + _ROUNDING)
    return min(epsilon, amplified), share * delta


def truncation_delta(
    scale: float,
    bound: int,
    sensitivity: int = 1,
) -> Fraction:
    """The delta of truncated geometric noise on counts that are released where they come out above
    ``bound``, from above.

    With r = e**(-1/scale) and s = ``sensitivity`` <= bound it is r**(bound-s+1) (1 - r**s) / (1 + r
    - 2 r**(bound+1)): the noise's mass in (bound - s, bound]. A count moved by s comes out beyond
    what it could have been with that probability, and a count of s that was not there before is
    released with it. It is convex in s and nothing at 0, so several counts moved by s together have
    no more. Scale and moves give epsilon = s/scale. Source: Desfontaines, Voss, Gipson and Mandayam
    2022, section 4 (k-TSGD), for s = 1. Above ``bound`` moves are charged delta 1.
    """
    if sensitivity > bound:
        return Fraction(1)
    step = Fraction(scale)
    # Each power of r from the side that makes the delta larger.
    r_below = exp_minus(1 / step)[0]
    moved_below = exp_minus(sensitivity / step)[0]
    last_above = exp_minus((bound - sensitivity + 1) / step)[1]
    beyond_above = exp_minus((bound + 1) / step)[1]
    delta = last_above * (1 - moved_below) / (1 + r_below - 2 * beyond_above)
    return min(Fraction(1), delta)
