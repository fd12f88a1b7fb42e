"""Values drawn from distributions."""

import numpy as np
import pytest

from cloakwork.kernel import Cases, Randomness
from cloakwork.mechanisms.attributes.drawing import Drawn, draw_values, with_copies, with_repeats
from cloakwork.mechanisms.attributes.tables import ValueShares
from cloakwork.noise import reproducible

SHAPE = np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]])


def randomness(seed=1):
    return Randomness(reproducible(seed))


def test_as_many_as_the_distribution_says_up_to_one():
    group = np.array([0] * 101 + [1] * 37 + [-1] * 5)
    for seed in range(20):
        drawn = draw_values(ValueShares(np.array([0.9, 1.0]), SHAPE), group, randomness(seed))
        times = np.bincount(drawn.codes[group == 0] + 1, minlength=4)
        expected = np.array([10.1, 45.45, 27.27, 18.18])
        assert (np.abs(times - expected) < 1).all()
        assert (drawn.codes[group == 1] == 2).all()
        assert (drawn.codes[group == -1] == -1).all()
        assert drawn.origin.tolist() == list(range(len(group)))


def test_what_is_rounded_is_right_on_average():
    """A value of less than one event is drawn now and then: 3,000 coins of .25, whose mean is off
    by .05 with probability below 1e-9 (six deviations).
    """
    source = randomness()
    found = ValueShares(np.ones(1), np.array([[0.25, 0.75]]))
    group = np.zeros(1, np.int64)
    ones = [draw_values(found, group, source).codes[0] == 0 for _ in range(3000)]
    assert np.mean(ones) == pytest.approx(0.25, abs=0.05)


def test_order_is_random():
    found = ValueShares(np.ones(1), np.array([[0.5, 0.5]]))
    firsts = {
        tuple(draw_values(found, np.zeros(8, np.int64), randomness(s)).codes) for s in range(9)
    }
    assert len(firsts) > 4


def cases_of(lengths):
    return Cases.of([("a",) * length for length in lengths], ("a",))


def test_a_copied_value_is_the_case_s_first():
    cases = cases_of([3, 0, 2, 1])
    codes = np.array([-1, 2, 0, 1, 0, -1])
    found = with_copies(Drawn(codes, np.arange(6)), cases)
    assert found.codes.tolist() == [-1, 2, 2, 1, 1, -1]
    assert found.origin.tolist() == [0, 1, 1, 3, 3, 5]


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_repeats_keep_the_values_of_each_group(rate):
    """And come about as often as they should."""
    cases = cases_of([5] * 400)
    source = randomness()
    group = np.tile([0, 1, 0, 1, 1], 400)
    shares = ValueShares(np.array([1.0, 0.8]), np.array([[0.25] * 4, [0.4, 0.2, 0.2, 0.2]]))
    before = draw_values(shares, group, source)
    after = with_repeats(before, cases, group, rate, source)
    for each in (0, 1):
        was, now = np.sort(before.codes[group == each]), np.sort(after.codes[group == each])
        assert was.tolist() == now.tolist()
    assert ((before.codes < 0) == (after.codes < 0)).all()
    known = np.flatnonzero(after.codes >= 0)
    follows = np.diff(cases.case_of[known]) == 0
    same = (np.diff(after.codes[known]) == 0)[follows].mean()
    chance = 0.25
    assert same == pytest.approx(chance + rate * (1 - chance), abs=0.12)
    # A copy comes from the row before that has a value, or from where that was copied.
    copied = after.origin != np.arange(len(group))
    assert copied.any() == (rate > 0)
    assert (after.codes[copied] == after.codes[after.origin[copied]]).all()
    assert (cases.case_of[copied] == cases.case_of[after.origin[copied]]).all()


def test_nothing_to_draw():
    none = ValueShares(np.zeros(0), np.zeros((0, 3)))
    drawn = draw_values(none, np.zeros(0, np.int64), randomness())
    assert len(with_copies(drawn, cases_of([])).codes) == 0
    assert len(with_repeats(drawn, cases_of([0, 0]), drawn.codes, 0.5, randomness()).codes) == 0
