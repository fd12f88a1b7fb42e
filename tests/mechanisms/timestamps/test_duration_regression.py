"""How long cases take, given their activities."""

import numpy as np
import pytest

from cloakwork.base.facts import UNIX_EPOCH, Facts
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.kernel import Books, Cases, Column, Columns, Kernel, Measured
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.regressions import (
    ACTIVITIES,
    ALL,
    ANYTHING,
    BEYOND,
    INPUTS,
    OUTPUTS,
    DurationRegression,
    RegressionParams,
    duration_curves,
    expected_durations,
    offered_regression,
)
from cloakwork.noise import reproducible

CLOCK = Clock.of(Grid(UNIX_EPOCH, Facts().grid))
BINS = LogBins.up_to(1_000_000, 32)
WEIGHTS = INPUTS * OUTPUTS
SECOND = 1_000_000


def cases_of(variants, steps=None):
    """Cases of activities a to d, with times in steps of a second."""
    alone = Cases.of([tuple(variant) for variant in variants], "abcd")
    if steps is None:
        return alone
    times = np.array([SECOND * step for case in steps for step in case], np.int64)
    columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(len(times), np.bool_))})
    return Cases(alone.alphabet, alone.codes, alone.offsets, columns)


def model_of(released):
    rows = np.flatnonzero(released.lengths > 1)
    return DurationRegression.expecting(CLOCK, BINS, released, np.full(len(rows), 9))


def params_of(mu):
    found = offered_regression(mu, Facts(), {})
    assert isinstance(found, RegressionParams)
    return found


def test_what_is_expected_lies_around_what_was_found():
    """All mass in one bin spreads to its neighbours, a little up to some bins beyond, and hardly
    any further up.
    """
    found = expected_durations(np.full(50, 10), 40)
    assert found.sum() == pytest.approx(1)
    assert found.argmax() == 10
    assert found[: 10 + BEYOND + 1].sum() == pytest.approx(1, abs=1e-6)
    assert found[0] == pytest.approx(ANYTHING / (10 + BEYOND + 1), rel=0.01)


@pytest.mark.parametrize("bins", [1, 2, 5, 64])
def test_curves_are_as_many_whatever_the_bins(bins):
    """They are orthogonal, finer ones flatter; zeros where there are not enough bins."""
    curves = duration_curves(bins)
    assert curves.shape == (bins, OUTPUTS)
    products = curves.T @ curves / bins
    assert np.allclose(products, np.diag(np.diag(products)))
    heights = np.sqrt(np.diag(products))
    expected = [1 / wave if wave < bins else 0.0 for wave in range(1, OUTPUTS + 1)]
    assert np.allclose(heights, expected)


def test_inputs_tell_activities_and_length_alone():
    """One for all, the length, the last activity, those there are; nothing of a lone event."""
    cases = cases_of(["abca", "d", "bb"])
    inputs = model_of(cases).inputs(cases)
    assert inputs.shape == (3, INPUTS)
    assert inputs[:, 0].tolist() == [ALL, 0, ALL]
    assert inputs[:, 1].tolist() == [-0.5, 0, -1]
    last, present = np.split(inputs[:, 2:], 2, axis=1)
    assert last.sum(axis=1).tolist() == [1, 0, 1]
    assert (present > 0).sum(axis=1).tolist() == [3, 0, 1]


def test_rare_activities_share_a_row():
    """Those that most released cases have keep rows of their own."""
    labels = [f"a{number}" for number in range(ACTIVITIES + 5)]
    often = [(label, label) for label in labels[:3:-1] for _ in range(2)]
    released = Cases.of([*often, *((label, label) for label in labels)], labels)
    model = model_of(released)
    assert sorted(model.row_of[4:].tolist())[:ACTIVITIES] == list(range(ACTIVITIES))
    assert set(model.row_of[:4].tolist()) == {ACTIVITIES}


def test_the_gradient_is_that_of_the_likelihood():
    """By differences, in a direction of random weights."""
    cases = cases_of(["abc", "ad", "b"], [[0, 5, 900], [7, 50_000], [3]])
    model = model_of(cases)
    random = np.random.default_rng(1)
    weights, direction = random.normal(size=(2, WEIGHTS))
    place = BINS.place(np.array([900, 49_993]))

    def likelihood(at):
        shape = model.distributions(at, model.inputs(cases))[:2]
        return np.log(shape[[0, 1], place])

    (factors,) = model.gradient(weights, cases, 0)
    rows = (factors.left.swapaxes(1, 2) @ factors.right).reshape(3, -1)
    slope = (likelihood(weights + 1e-5 * direction) - likelihood(weights - 1e-5 * direction)) / 2e-5
    assert np.allclose(rows[:2] @ direction, slope, rtol=1e-5)
    assert not rows[2].any()


def test_a_case_without_two_times_counts_for_nothing():
    """Whatever its activities."""
    cases = cases_of(["ab", "ab"], [[0, 9], [0, 9]])
    times = cases.times
    missing = np.array([False, False, True, False])
    columns = Columns({TIMESTAMPS: Column.of_times(times.values, missing)})
    (factors,) = model_of(cases).gradient(
        np.zeros(WEIGHTS), Cases(cases.alphabet, cases.codes, cases.offsets, columns), 0
    )
    assert factors.right[0].any()
    assert not factors.right[1].any()


def test_it_learns_what_activities_say():
    """Cases that end in b take a minute, those that end in c a week: with little noise, both are
    found, from an expectation that knows neither.
    """
    variants, times = ["ab"] * 200 + ["ac"] * 200, [[0, 60]] * 200 + [[0, 604_800]] * 200
    cases = cases_of(variants, times)
    steps = params_of(20.0).durations
    kernel = Kernel(
        Measured(cases, np.ones(len(cases), np.int64)),
        Books.of(steps.event()),
        reproducible(1),
        1,
    )
    model = DurationRegression.expecting(CLOCK, BINS, cases, np.arange(400) % len(BINS))
    weights = model.trained(steps, kernel, model.inputs(cases))
    shape = model.distributions(weights, model.inputs(cases)[[0, -1]])
    short, long = BINS.place(np.array([60, 604_800]))
    assert abs(shape[0].argmax() - short) <= 1
    assert abs(shape[1].argmax() - long) <= 1
