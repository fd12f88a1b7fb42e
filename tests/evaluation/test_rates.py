"""Rates of true and false positives, beside counting by hand."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.evaluation.bounds import JudgedScores

scored = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=12, max_size=12).filter(
    lambda cells: len({member for _, member in cells}) == 2
)


def judged(cells: list[tuple[int, bool]]) -> JudgedScores:
    """Four releases of three targets."""
    scores = np.array([score for score, _ in cells], np.float64).reshape(4, 3)
    return JudgedScores(scores, np.array([member for _, member in cells]).reshape(4, 3))


@given(scored)
def test_the_area_is_the_chance_that_a_member_scores_higher(cells: list[tuple[int, bool]]) -> None:
    inside = [score for score, member in cells if member]
    outside = [score for score, member in cells if not member]
    wins = [(a > b) + (a == b) / 2 for a, b in product(inside, outside)]
    area = judged(cells).area()
    assert area.share == pytest.approx(np.mean(wins))
    assert 0 <= area.low <= area.share <= area.high <= 1


@given(scored, st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]))
def test_no_more_false_alarms_than_asked_for(cells: list[tuple[int, bool]], at_most: float) -> None:
    """And the rates are shares of the members and of the others."""
    found = judged(cells)
    threshold = found.threshold(at_most)
    false, true = found.rates(threshold)
    assert false.share <= at_most
    inside = [score > threshold for score, member in cells if member]
    assert true.share == pytest.approx(np.mean(inside))


@given(scored)
def test_a_curve_rises_from_nothing_to_everything(cells: list[tuple[int, bool]]) -> None:
    points = judged(cells).curve()
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (1.0, 1.0)
    assert all(x <= u and y <= v for (x, y), (u, v) in pairwise(points))


def test_bounds_allow_for_what_releases_have_in_common() -> None:
    """Where all targets of a release score alike, there are as many trials as releases."""
    draws = np.random.default_rng(1)
    member = draws.random((100, 400)) < 0.5
    apart = JudgedScores(draws.normal(size=(100, 400)), member)
    together = JudgedScores(np.repeat(draws.normal(size=(100, 1)), 400, axis=1), member)

    def width(scores: JudgedScores) -> float:
        _, true = scores.rates(scores.threshold(0.1))
        return true.high - true.low

    assert width(apart) < 0.01
    assert width(together) > 0.1


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_bounds_hold_the_true_figures(shift: float) -> None:
    """On normal scores, whose area is known: in 100 experiments at 95 % the bounds hold in at
    least 85 (fewer come by chance with probability below 1e-4).
    """
    draws = np.random.default_rng(2)
    true_area = {0.0: 0.5, 1.0: 0.7602499389065233}[shift]
    held = 0
    for _ in range(100):
        member = draws.random((30, 20)) < 0.5
        shared = draws.normal(size=(30, 1)) * 0.01
        area = JudgedScores(draws.normal(size=(30, 20)) + shared + shift * member, member).area()
        held += area.low <= true_area <= area.high
    assert held >= 85
