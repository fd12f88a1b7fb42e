"""Transitions of one variant, counted one after the other."""

from collections import Counter

from cloakwork.mechanisms.variants.markov_params import (
    UNIT_NORM,
)

LABELS = 4


def mass_by_hand(variant: list[int], order: int) -> dict[int, float]:
    """One case's vector, before it is rounded down, as long as it has few enough cells."""
    steps = [0, *variant, LABELS + 1]
    counts: Counter[int] = Counter()
    for end in range(order, len(steps)):
        code = 0
        for step in steps[end - order : end + 1]:
            code = code * (LABELS + 2) + step
        counts[code] += 1
    norm = sum(count**2 for count in counts.values()) ** 0.5
    return {code: UNIT_NORM * count / norm for code, count in counts.items()}
