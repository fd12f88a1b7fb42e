"""A tree of privacy events taken apart: its leaves, how often each is run, and what each costs by
itself.
"""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Final

from cloakwork.accounting.exact import exactly, truncation_delta
from cloakwork.privacy_event import (
    Composed,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
    TruncatedGeometric,
)

_ROUNDING: Final = Fraction(1, 10**14)

Parts = tuple[tuple[PrivacyEvent, int], ...]
"""A composition, flat: leaves and sampled compositions, each with how often it is run."""


@lru_cache(maxsize=4096)
def parts_of(event: PrivacyEvent) -> Parts:
    """The leaves and samples of ``event``, each with how often it is run; equal ones are counted
    together.
    """
    found: Counter[PrivacyEvent] = Counter()
    for part, times in _flat(event):
        found[part] += times
    return tuple(found.items())


def _flat(event: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    match event:
        case Composed(events=events):
            for each in events:
                yield from _flat(each)
        case Repeated(times=times, event=inner):
            for part, count in _flat(inner):
                yield part, count * times
        case PoissonSampled(rate=rate, event=inner):
            yield from _flat_sample(rate, inner)
        case _:
            yield event, 1


def _flat_sample(rate: float, inner: PrivacyEvent) -> Iterator[tuple[PrivacyEvent, int]]:
    """A sample of everything, of nothing, or of a sample is a simpler event."""
    parts = parts_of(inner)
    if rate == 1 or not parts or unbounded(parts):
        yield from parts
        return
    match parts:
        case ((PoissonSampled(rate=second, event=innermost), 1),):
            # Rounded up: a higher rate costs more.
            yield from _flat_sample(min(1.0, math.nextafter(rate * second, 1.0)), innermost)
        case ((single, 1),):
            yield PoissonSampled(rate=rate, event=single), 1
        case _:
            yield (
                PoissonSampled(
                    rate=rate, event=Composed(events=tuple(_times(*part) for part in parts))
                ),
                1,
            )


def _times(event: PrivacyEvent, times: int) -> PrivacyEvent:
    return event if times == 1 else Repeated(times=times, event=event)


def unbounded(parts: Parts) -> bool:
    """Whether nothing bounds the cost of some part."""
    return any(isinstance(event, NonPrivate) for event, _ in parts)


def own_figures(event: PrivacyEvent) -> tuple[Fraction, Fraction] | None:
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
            return _amplified(rate, parts_of(inner))
    return None


def _amplified(rate: float, parts: Parts) -> tuple[Fraction, Fraction] | None:
    """Amplification by sampling: epsilon becomes ln(1 + rate (e**epsilon - 1)), delta rate * delta
    (Li et al. 2012).
    """
    figures = [(own_figures(event), times) for event, times in parts]
    # However the float is read: as the decimal it prints as, or as the binary fraction that is
    # drawn.
    share = max(exactly(rate), Fraction(rate))
    epsilon = sum((times * figure[0] for figure, times in figures if figure), Fraction(0))
    delta = sum((times * figure[1] for figure, times in figures if figure), Fraction(0))
    if any(figure is None for figure, _ in figures):
        return None
    if epsilon > 500:
        return epsilon, share * delta
    amplified = Fraction(math.log1p(rate * math.expm1(float(epsilon)))) * (1 + _ROUNDING)
    return min(epsilon, amplified), share * delta
