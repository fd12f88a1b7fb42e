"""A statistical audit of what variants/adaptive adds to its two mechanisms: the noisy layers; and
counterparts that must fail.

Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import Laplace
from cloakwork.mechanisms.variants.adaptive import rank_layers
from cloakwork.noise import reproducible

RUNS = 40_000
EPSILON, TAU = 1.0, 20
Look = Callable[[NDArray[np.int64], int], NDArray[np.int64]]

OTHERS = [3, 40, 1]
PAIRS = {
    "a unique variant": (1, 0),
    "a variant in the middle layer": (15, 14),
    "at the threshold": (20, 19),
    "beyond": (90, 89),
}


def frequent_cases(counts: NDArray[np.int64], tau: int) -> NDArray[np.int64]:
    """A broken look: all cases of variants with tau cases or more, which one case can change by
    tau.
    """
    return np.array([counts[counts < tau].sum(), 0, counts[counts >= tau].sum()], np.int64)


def audit(look: Look, pair: tuple[int, int], scale: float) -> AuditResult:
    """All layers in the one figure that tells the two logs best apart: each along what the case
    changes.
    """
    before, after = (
        look(np.array([*OTHERS, count] if count else OTHERS, np.int64), TAU) for count in pair
    )
    along, noise = np.sign(before - after), reproducible(1)

    def outcomes(seen: NDArray[np.int64]) -> Callable[[int], NDArray[np.int64]]:
        return lambda runs: (seen + Laplace(scale).draw(noise, 3 * runs).reshape(runs, 3)) @ along

    middle = int(after @ along) + 1
    events = [HalfLine(middle, upper=True), HalfLine(middle - 1, upper=False)]
    return empirical_epsilon(
        outcomes(before), outcomes(after), runs=RUNS, delta=0.0, claim=EPSILON, events=events
    )


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_layers_keep_their_claim(pair: tuple[int, int]) -> None:
    """And the audit is sharp."""
    result = audit(rank_layers, pair, 1 / EPSILON)
    assert result.passed, result
    assert result.epsilon_lower_bound > 0.7 * EPSILON


def test_half_the_noise_is_found() -> None:
    """Noise for a sensitivity of a half."""
    assert not audit(rank_layers, PAIRS["beyond"], 0.5 / EPSILON).passed


def test_counting_whole_frequent_variants_is_found() -> None:
    """At the threshold one case moves that sum by all cases of its variant."""
    assert not audit(frequent_cases, PAIRS["at the threshold"], 1 / EPSILON).passed
