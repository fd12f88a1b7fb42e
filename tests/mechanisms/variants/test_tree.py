"""The tree of noisy counts that several mechanisms grow: its stages, its shares, its tails."""

from itertools import pairwise

import numpy as np
import pytest

from cloakwork.kernel import Randomness
from cloakwork.mechanisms.variants.tree import Tree, TreeLevel
from cloakwork.mechanisms.variants.tree_noise import (
    Stage,
    least_tail_value,
    level_stages,
    tail_probability,
)
from cloakwork.mechanisms.variants.tree_release import consistent_variants
from cloakwork.noise import secret


def test_shares_are_whole_and_on_average_exact():
    """The mean of 600 counts, each 4 or 5, is off by 0.15 with a probability below 1e-11
    (Hoeffding).
    """
    none = np.empty(0, np.int64)
    first = TreeLevel(np.array([0, 0]), np.array([0, 1]), np.array([6, 4]), none, none)
    second = TreeLevel(
        np.array([0]), np.array([1]), np.array([5]), np.array([0, 1]), np.array([10, 3])
    )
    third = TreeLevel(none, none, none, np.array([0]), np.array([2]))
    randomness = Randomness(secret())

    def shared(levels, most_cases):
        tree = Tree(levels, ("a", "b"))
        variants, cases = consistent_variants(tree, most_cases, randomness)
        return dict(zip(variants, cases.tolist(), strict=True))

    for _ in range(600):
        # Six begin with a: four end there, two go on to b; the noisy counts below a are 10 and 5.
        table = shared((first, second, third), None)
        assert table == {("a",): 4, ("a", "b"): 2, ("b",): 4}
    third_left_out = [shared((first, second), 7) for _ in range(600)]
    assert {sum(table.values()) for table in third_left_out} == {7}
    mean = np.mean([table["a",] for table in third_left_out])
    assert abs(mean - 4.2) < 0.15


@pytest.mark.parametrize(
    ("noise", "scale"), [("gaussian", 0.6), ("gaussian", 20.0), ("laplace", 0.6), ("laplace", 20.0)]
)
def test_tails_are_bounded_from_above(noise, scale):
    x = np.arange(-2_000, 2_001)
    mass = np.exp(-(x**2) / (2 * scale**2)) if noise == "gaussian" else np.exp(-np.abs(x) / scale)
    mass /= mass.sum()
    for at_least in (1, 2, 5, 30, 90):
        exact = mass[x >= at_least].sum()
        assert (
            exact * (1 - 1e-9)
            <= tail_probability(scale, at_least, noise)
            <= max(1e-300, exact * 1.5 + 0.3 / scale**2) + exact
        )
    for probability in (0.5, 0.1, 1e-5):
        least = least_tail_value(scale, probability, noise)
        assert mass[x >= least].sum() <= probability
        assert least == 1 or tail_probability(scale, least - 1, noise) > probability


def test_stages_cover_all_levels_with_less_and_less_noise():
    assert level_stages(7, "uniform") == (Stage(levels=7, scale=1.0),)
    found = level_stages(7, "geometric")
    assert [stage.levels for stage in found] == [2, 2, 2, 1]
    assert [round(a.scale / b.scale, 6) for a, b in pairwise(found)] == [round(2 ** (1 / 3), 6)] * 3
