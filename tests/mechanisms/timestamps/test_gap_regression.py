"""How long gaps are, given both activities."""

import numpy as np
import pytest

from cloakwork.base.facts import UNIX_EPOCH, Facts
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.kernel import Books, Cases, Column, Columns, Kernel, Measured
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.regressions import (
    GAP_INPUTS,
    GAP_OUTPUTS,
    PAIRS,
    GapRegression,
    gap_curves,
    most_frequent_first,
    offered_regression,
    padded,
)
from cloakwork.noise import reproducible

CLOCK = Clock.of(Grid(UNIX_EPOCH, Facts().grid))
BINS = LogBins.up_to(1_000_000, 32)
EVEN = np.full(len(BINS), 1 / len(BINS))
SECOND = 1_000_000


def cases_of(variants, steps):
    """Cases of activities a to d, with times in steps of a second."""
    alone = Cases.of([tuple(variant) for variant in variants], "abcd")
    times = np.array([SECOND * step for case in steps for step in case], np.int64)
    columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(len(times), np.bool_))})
    return Cases(alone.alphabet, alone.codes, alone.offsets, columns)


def model_of(released):
    return GapRegression.expecting(CLOCK, BINS, released, EVEN)


def rows_of(factors, cases):
    """The gradient of each case, multiplied out."""
    return (factors.left.swapaxes(1, 2) @ factors.right).reshape(cases, -1)


@pytest.mark.parametrize("bins", [1, 2, 64])
def test_the_first_bin_has_a_curve_of_its_own(bins):
    """Events at one time are as frequent as they are; the other curves are flatter, the finer."""
    curves = gap_curves(bins)
    assert curves.shape == (bins, GAP_OUTPUTS)
    assert curves[:, 0].tolist() == [1.0] + [0.0] * (bins - 1)
    heights = np.sqrt((curves[:, 1:] ** 2).mean(axis=0))
    assert (np.diff(heights) <= 1e-12).all()


def test_inputs_tell_both_activities_and_frequent_pairs():
    """The rarest pairs have no input of their own."""
    labels = [f"a{number}" for number in range(12)]
    frequent = [(labels[0], labels[1])] * 3
    released = Cases.of([*frequent, *((one, other) for one in labels for other in labels)], labels)
    model = model_of(released)
    inputs = model.inputs(np.array([1, 143]))
    assert inputs.shape == (2, GAP_INPUTS)
    assert inputs.sum(axis=1).tolist() == [4.0, 3.0]
    assert sorted(model.pair_rows.tolist()) == list(range(PAIRS))
    assert model.pair_rows[model.pairs == 1] == 0


def test_the_gradient_is_that_of_the_likelihood():
    """By differences, in a direction of random weights; a case's gaps count less, the more."""
    cases = cases_of(["abab", "ad", "b"], [[0, 5, 900, 950], [7, 50_000], [3]])
    model = model_of(cases)
    weights, direction = np.random.default_rng(1).normal(size=(2, GAP_INPUTS * GAP_OUTPUTS))
    pairs = np.array([1, 4, 1, 3])
    place = BINS.place(np.array([5, 895, 50, 49_993]))

    def likelihood(at):
        found = np.log(model.distributions(at, pairs)[np.arange(4), place])
        return np.array([found[:3].sum() / np.sqrt(3), found[3]])

    (factors,) = model.gradient(weights, cases, 0)
    rows = rows_of(factors, 3)
    slope = (likelihood(weights + 1e-5 * direction) - likelihood(weights - 1e-5 * direction)) / 2e-5
    assert np.allclose(rows[:2] @ direction, slope, rtol=1e-5)
    assert not rows[2].any()


def test_gaps_are_those_between_known_times():
    """An event without a time is passed over; a case with one known time counts for nothing."""
    cases = cases_of(["abc", "ac", "ab"], [[0, 5, 9], [0, 9], [0, 9]])
    missing = np.array([False, True, False, False, False, False, True])
    columns = Columns({TIMESTAMPS: Column.of_times(cases.times.values, missing)})
    holed = Cases(cases.alphabet, cases.codes, cases.offsets, columns)
    (factors,) = model_of(cases).gradient(np.zeros(GAP_INPUTS * GAP_OUTPUTS), holed, 0)
    rows = rows_of(factors, 3)
    assert np.array_equal(rows[0], rows[1])
    assert rows[0].any()
    assert not rows[2].any()


def test_a_batch_has_as_many_places_as_its_richest_case():
    """Rows of other cases are zeros there; a batch without any gap has one place of zeros."""
    factors = padded(np.array([0, 0, 2]), np.ones((3, 2)), np.ones((3, 4)), 3)
    assert factors.left.shape == (3, 2, 2)
    assert factors.right.sum(axis=(1, 2)).tolist() == [8, 0, 4]
    nothing = padded(np.zeros(0, np.int64), np.zeros((0, 2)), np.zeros((0, 4)), 2)
    assert (nothing.left.shape, nothing.right.shape) == ((2, 1, 2), (2, 1, 4))


def test_the_most_frequent_have_rows_of_their_own():
    """By cases, not by occurrences; ties in the order of codes."""
    case = np.array([0, 0, 0, 1, 1, 2])
    codes = np.array([3, 3, 1, 1, 0, 3])
    assert most_frequent_first(case, codes, 4, 2).tolist() == [2, 0, 2, 1]


def test_it_learns_what_activities_say():
    """From a to b takes a minute, from a to c a week: with little noise, both are found."""
    steps = [[0, 60]] * 200 + [[0, 604_800]] * 200
    cases = cases_of(["ab"] * 200 + ["ac"] * 200, steps)
    params = offered_regression(20.0, Facts(), {})
    kernel = Kernel(
        Measured(cases, np.ones(len(cases), np.int64)),
        Books.of(params.gaps.event()),
        reproducible(1),
        1,
    )
    model = model_of(cases)
    weights = model.trained(params.gaps, kernel, cases)
    shape = model.distributions(weights, np.array([1, 2]))
    short, long = BINS.place(np.array([60, 604_800]))
    assert abs(shape[0].argmax() - short) <= 1
    assert abs(shape[1].argmax() - long) <= 1
