"""Noise on values by themselves: probabilities, audits with broken counterparts, and what the
kernel refuses.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.dp_audit import empirical_epsilon
from cloakwork.kernel import Books, local
from cloakwork.kernel.local import BoundedNoise, Randomisation, Randomising, Response, kept_parts
from cloakwork.noise import Addresses, reproducible

ONE = 1 << 62
RUNS = 60_000


def outcomes(noise, seed, code):
    """Many releases of one value, each at an address of its own."""
    stream = reproducible(seed).stream()

    def run(count):
        books = Books.of(noise.event())
        randomising = Randomising(Randomisation({"x": noise}), frozenset(), books, stream)
        at = Addresses(np.arange(count), np.zeros(count, np.int64))
        return randomising.released("x", np.full(count, code), at)

    return run


@pytest.mark.parametrize("places", [2, 3, 10, 1_000, 10**6])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.0, 4.0, 20.0, 100.0])
def test_the_true_value_stays_with_no_more_than_epsilon_allows(places, epsilon):
    """In exact rationals; and with nearly that, where floating point tells."""
    kept = Fraction(kept_parts(places, epsilon), ONE)
    other = (1 - kept) / (places - 1)
    assert kept >= other > 0
    assert float(kept / other) <= math.exp(epsilon) * (1 + 1e-15)
    expected = 1 / (1 + (places - 1) * math.exp(-epsilon))
    assert float(kept) == pytest.approx(expected, rel=1e-8)


def test_responses_are_what_they_say():
    """Frequencies of a response over three values and the missing one, seeded: within 5 standard
    deviations.
    """
    noise = Response(3, 1.0)
    found = outcomes(noise, 1, 1)(RUNS)
    kept = kept_parts(4, 1.0) / ONE
    for value in (-1, 0, 1, 2):
        share = kept if value == 1 else (1 - kept) / 3
        spread = math.sqrt(share * (1 - share) / RUNS)
        assert abs((found == value).mean() - share) < 5 * spread


NOISES = [
    (Response(3, 1.0), (0, -1)),
    (Response(3, 1.0), (0, 2)),
    (BoundedNoise(100, 200.0, 0.5), (0, 100)),
    (BoundedNoise(100, 200.0, 0.5), (100, -1)),
]


@pytest.mark.parametrize(("noise", "codes"), NOISES)
def test_no_output_tells_more_than_is_charged(noise, codes):
    """The farthest values, and a missing one: at most the charge, and some of it is there."""
    claim = cost(noise.event(), 0.0).epsilon
    assert claim == pytest.approx(1.0)
    sides = [outcomes(noise, seed, code) for seed, code in enumerate(codes, 1)]
    found = empirical_epsilon(*sides, runs=RUNS, claim=claim)
    assert found.passed
    assert found.epsilon_lower_bound > 0.3


@pytest.mark.parametrize("twin", ["response", "scale", "presence"])
def test_broken_counterparts_fail(twin):
    """Values that stay twice as likely in the exponent, half the noise, presence as it is."""
    noise, codes = NOISES[0] if twin == "response" else NOISES[2]
    claim = cost(noise.event(), 0.0).epsilon
    if twin == "scale":
        broken = BoundedNoise(100, 25.0, 0.5)
    elif twin == "presence":
        broken, codes = BoundedNoise(100, 200.0, 40.0), (100, -1)
    else:
        broken = Response(3, 2.0)
    sides = [outcomes(broken, seed, code) for seed, code in enumerate(codes, 1)]
    assert not empirical_epsilon(*sides, runs=RUNS, claim=claim).passed


def test_a_value_has_one_draw():
    """However often it is asked for, and in whatever company; other attributes have others."""
    noise = Response(1_000, 0.1)
    books = Books.of(noise.event())
    declared = Randomisation({"x": noise, "y": noise})
    randomising = Randomising(declared, frozenset(), books, reproducible(1).stream())
    at = Addresses(np.arange(50), np.zeros(50, np.int64))
    codes = np.arange(50)
    whole = randomising.released("x", codes, at)
    assert randomising.released("x", codes[20:], at.at(slice(20, None))).tolist() == (
        whole[20:].tolist()
    )
    assert (randomising.released("y", codes, at) != whole).any()
    assert len(randomising.released("x", codes[:0], at.at(slice(0, 0)))) == 0


def test_values_behind_the_longest_case_count_for_nothing():
    """With the same draws, other values there change nothing; before, they do."""
    noise = Response(5, 50.0)
    declared = Randomisation({"x": noise}, per_case=3, times=3)
    books = Books.of(declared.event())
    randomising = Randomising(declared, frozenset(), books, reproducible(1).stream())
    at = Addresses(np.zeros(6, np.int64), np.arange(6))
    one = randomising.released("x", np.array([0, 1, 2, 3, 4, 0]), at)
    other = randomising.released("x", np.array([1, 1, 2, 4, 0, 3]), at)
    assert one[:3].tolist() == [0, 1, 2]
    assert other[:3].tolist() == [1, 1, 2]
    assert one[3:].tolist() == other[3:].tolist() == [-1, -1, -1]


def randomise(declared, of_cases=frozenset(), event=None):
    """Hand a declaration to the kernel, under the plan's ``event``."""
    books = Books.of(declared.event() if event is None else event)
    return Randomising(declared, of_cases, books, reproducible(1).stream())


def test_what_the_plan_does_not_list_is_refused():
    """More epsilon; a case with more values than are charged, or with any number of them; classes
    of others; attributes of different costs.
    """
    noise = Response(3, 1.0)
    with pytest.raises(PlanUnsound, match="does not list"):
        randomise(Randomisation({"x": noise}), event=Response(3, 0.5).event())
    randomise(Randomisation({"x": noise, "case:y": noise}, 5, 4), frozenset({"case:y"}))
    for declared in (
        Randomisation({"x": noise, "case:y": noise}, 4, 4),
        Randomisation({"x": noise, "z": noise}, 5, 4),
        Randomisation({"x": noise}, 5, None),
    ):
        with pytest.raises(PlanUnsound, match="more values"):
            randomise(declared, frozenset({"case:y"}))
    with pytest.raises(PlanUnsound, match="one cost"):
        randomise(Randomisation({"x": noise, "y": Response(3, 2.0)}))

    class Silent(Response):
        """Says less than it does."""

    with pytest.raises(PlanUnsound, match="own classes"):
        randomise(Randomisation({"x": Silent(3, 1.0)}))
    for values, epsilon in ((0, 1.0), (3, 0.0), (3, math.inf)):
        with pytest.raises(ValueError, match="epsilon above 0"):
            Response(values, epsilon)


def test_a_case_costs_all_its_values():
    """Five values at a tenth each."""
    declared = Randomisation({"x": Response(3, 0.1)}, per_case=5, times=5)
    assert cost(declared.event(), 0.0).epsilon == pytest.approx(0.5)
    assert local.Randomisation({"x": Response(3, 0.1)}).event() == Response(3, 0.1).event()
