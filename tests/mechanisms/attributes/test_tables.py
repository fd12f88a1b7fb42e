"""From noisy counts to distributions."""

import numpy as np
import pytest

from cloakwork.mechanisms.attributes import tables
from cloakwork.mechanisms.attributes.contributions import SIDE_WEIGHT, TableLayout
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.tables import (
    Counted,
    NoisyTables,
    expected_beside,
    expected_counts,
    fitted,
)


def counted(values, mass, sigma=1.0):
    values = np.array(values, np.float64)
    side = 2 * sigma
    totals = values.sum(axis=1)
    error = sigma * np.sqrt(max(values.shape[1], 1))
    return Counted(values, sigma, totals, error, np.array(mass, np.float64), side)


def nothing(groups):
    return np.zeros((groups, groups))


def test_presence_is_none_all_or_a_share():
    """An activity whose count is within noise of nothing has the attribute as often as others."""
    rows = [[500.0, 499.0], [0.5, -0.5], [250.0, 251.0], [0.3, 0.1]]
    found = fitted(counted(rows, [1000, 800, 1000, 1.0]), nothing(4))
    assert found.present[:2].tolist() == [1.0, 0.0]
    assert found.present[2] == pytest.approx(0.5, abs=0.01)
    assert found.present[3] == pytest.approx(1500 / 2801, abs=0.01)


def test_shapes_add_up_to_one_and_follow_the_counts():
    found = fitted(counted([[900.0, 100.0, 0.0], [100.0, 900.0, 0.0]], [1000, 1000]), nothing(2))
    assert found.shape.sum(axis=1) == pytest.approx([1, 1])
    assert found.shape[0] == pytest.approx([0.9, 0.1, 0.0], abs=0.02)
    assert found.shape[1] == pytest.approx([0.1, 0.9, 0.0], abs=0.02)


def test_a_group_that_noise_hides_is_like_all_groups():
    rows = [[900.0, 100.0, 0.0], [850.0, 150.0, 0.0], [-3.0, 2.0, 5.0]]
    found = fitted(counted(rows, [1000, 1000, 4], 10.0), nothing(3))
    assert found.shape[2] == pytest.approx([0.875, 0.125, 0.0], abs=0.05)


def test_a_group_is_like_the_one_whose_values_it_keeps():
    """Better than like all groups together."""
    rows = [[900.0, 100.0], [20.0, 980.0], [12.0, 0.0]]
    passed = nothing(3)
    passed[2, 0] = 0.9
    sigma = 10.0
    kept = fitted(counted(rows, [1000, 1000, 12], sigma), passed).shape[2, 0]
    alone = fitted(counted(rows, [1000, 1000, 12], sigma), nothing(3)).shape[2, 0]
    assert kept > alone
    assert kept == pytest.approx(0.85, abs=0.08)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (0, 0), (2, 1)])
@pytest.mark.parametrize("level", [-50.0, 0.0, 50.0])
def test_any_counts_give_a_distribution(shape, level):
    """Of mere noise, too."""
    found = fitted(counted(np.full(shape, level), np.full(shape[0], level)), nothing(shape[0]))
    assert found.shape.shape == shape
    assert ((found.present >= 0) & (found.present <= 1)).all()
    if shape[1]:
        assert found.shape.sum(axis=1) == pytest.approx(np.ones(shape[0]))


@pytest.mark.parametrize(("size", "is_alone"), [(5, False), (100, True)])
def test_totals_weigh_both_counts_by_their_precision(size, is_alone):
    """The total of values, whose noise adds up, and that which is counted by itself."""
    attribute = MeasuredAttribute(name="case:x", domain=tuple(range(size)))
    layout = TableLayout((attribute,), ("a",))

    class Answer:
        """Each value is counted once, and the total by itself is 50."""

        def at(self, codes):
            alone = (codes == layout.totals(0)) & is_alone
            return np.where(alone, 50 * SIDE_WEIGHT, layout.weight(0))

    counted = NoisyTables(layout, [(Answer(), 1.0)], 1.0).counted(0)
    added, side = size / layout.weight(0) ** 2, 1 / SIDE_WEIGHT**2
    expected, variance = size, added
    if is_alone:
        expected = (size * side + 50 * added) / (added + side)
        variance = 1 / (1 / added + 1 / side)
    assert counted.totals == pytest.approx([expected])
    assert counted.total_sigma**2 == pytest.approx(variance)


RANDOM = np.random.default_rng(11)
"""Made-up counts; no guarantee rests on them."""


def test_most_counts_that_are_none_are_found_to_be_none():
    """And large ones are kept: far less error than the noisy counts have."""
    truth = np.zeros(500)
    truth[:10] = 200.0
    noisy = truth + RANDOM.normal(0, 10, 500)
    found = expected_counts(noisy, 10.0)
    assert (found > 0).all()
    assert np.abs(found - truth).sum() < np.abs(noisy - truth).sum() / 5
    assert found[:10].mean() == pytest.approx(200, rel=0.1)


def test_what_is_like_the_guess_is_drawn_to_it_and_what_is_not_is_kept():
    guess = np.full((4, 50), 20.0)
    truth = guess.copy()
    truth[0, 0] = 400.0
    noisy = truth + RANDOM.normal(0, 8, truth.shape)
    found = expected_beside(noisy, guess, 8.0)
    assert found.shape == guess.shape
    assert found[0, 0] == pytest.approx(400, rel=0.1)
    assert np.abs(found - truth)[1:].mean() < 2


@pytest.mark.parametrize("counts", [[], [0.0], [-5.0], [-1e9, 1e9], [1e15], [-1e15], [0.0] * 120])
@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e9])
def test_nothing_overflows(counts, sigma, monkeypatch):
    """Nor where there are more counts than are looked at together."""
    monkeypatch.setattr(tables, "_MOST_ROWS", 50)
    counts = np.array(counts)
    for found in (
        expected_counts(counts, sigma),
        expected_beside(counts, np.full(len(counts), 1e-9), sigma),
    ):
        assert np.isfinite(found).all()
        assert (found > 0).all()
