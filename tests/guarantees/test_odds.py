"""Epsilon in odds: what somebody thinks after a release, who thought 10 in 100 before."""

import math
import re

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from cloakwork.base.costs import odds_sentence
from cloakwork.guarantees import DifferentialPrivacy


def told(epsilon: float, delta: float = 0.0) -> float:
    said = odds_sentence(epsilon, delta, "that you are in the log")
    return float(re.search(r"at most ([0-9.]+) in 100", said)[1]) / 100


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 2.0, 4.0, 10.0, 800.0])
def test_the_bound_is_reached_and_never_exceeded(epsilon: float) -> None:
    """Randomised response at epsilon is the worst there is: Bayes' rule on its answer."""
    truthful = 1 / (1 + math.exp(-epsilon))
    after = 0.1 * truthful / (0.1 * truthful + 0.9 * (1 - truthful)) if epsilon < 700 else 1.0
    assert after <= told(epsilon) + 1e-12
    assert told(epsilon) - after < 0.0011
    # The twin: odds taken for probabilities promise less than 10 in 100 times e^epsilon.
    assert epsilon < 0.3 or told(epsilon) < 0.1 * math.exp(min(epsilon, 700))


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-4])
def test_outcomes_that_say_more_are_as_rare_as_is_told(mu: float, delta: float) -> None:
    """Of Gaussian noise all is known: the privacy loss is normal. The twin, which speaks of epsilon
    and delta themselves, promises too much.
    """

    def beyond(loss: float) -> float:
        """How likely an outcome is by which odds grow by more than the exponential of ``loss``."""
        return float(norm.sf(loss, mu**2 / 2, mu))

    def delta_at(epsilon: float) -> float:
        """The delta of noise with this mu (Balle and Wang 2018, theorem 8)."""
        return float(beyond(epsilon) - math.exp(epsilon) * norm.sf(epsilon, -(mu**2) / 2, mu))

    epsilon = brentq(lambda each: delta_at(each) - delta, 0, 30)
    after = told(epsilon, delta)
    loss = math.log(after / (1 - after)) - math.log(0.1 / 0.9)
    said = odds_sentence(epsilon, delta, "that you are in the log")
    rarely = float(re.search(r"of probability (\S+)$", said)[1])
    assert beyond(loss) <= rarely
    assert beyond(epsilon) > delta


def test_a_claim_that_hides_presence_says_so_and_one_of_values_speaks_of_these() -> None:
    hidden = DifferentialPrivacy(
        kind="differential-privacy", epsilon=2.0, delta=1e-6, over=("control-flow",)
    )
    assert "that one case is in the log thinks at most 47.8 in 100" in hidden.in_short()
    assert "apart from outcomes of probability 1e-05" in hidden.in_short()
    values = DifferentialPrivacy(
        kind="differential-privacy", epsilon=2.0, over=("timestamps",), neighbours="bounded"
    )
    assert "is in the log" not in values.in_short()
    assert "of one guess at when the events of one case happened" in values.in_short()
