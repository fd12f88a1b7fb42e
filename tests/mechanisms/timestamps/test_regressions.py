"""How long gaps and cases take, given activities: regressions over bins, fitted to noisy sums of
gradients, and what these cost.
"""

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import epsilon_of_normal
from cloakwork.base.arrays import shares_in_rows
from cloakwork.base.facts import UNIX_EPOCH, Facts, Unit
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.kernel import Books, Cases, Column, Columns, Factors, Kernel, Measured
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.base import PartOfGoal, Refusal
from cloakwork.mechanisms.timestamps import regression
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.regression import (
    ACTIVITIES,
    ALL,
    ANYTHING,
    GAP_INPUTS,
    GAP_OUTPUTS,
    INPUTS,
    OUTPUTS,
    PAIRS,
    REACH,
    REGRESSION_SHARES,
    BinRegression,
    DurationRegression,
    GapRegression,
    GradientSums,
    bends_of_curves,
    cosines_over,
    distributions_of,
    duration_curves,
    expected_durations,
    fitted,
    gap_curves,
    most_frequent_first,
    offered_regression,
    padded,
    with_shrunk_tails,
)
from cloakwork.mechanisms.timestamps.tables import offered_params
from cloakwork.noise import reproducible

CLOCK = Clock.of(Grid(UNIX_EPOCH, Facts().grid))
BINS = LogBins.up_to(1_000_000, 32)
EVEN = np.full(len(BINS), 1 / len(BINS))
SECOND = 1_000_000
GRADIENTS = pytest.mark.parametrize("kind", ["gaps", "durations"])


def cases_of(variants, steps, missing=None):
    """Cases of activities a to d, with times in steps of a second."""
    alone = Cases.of([tuple(variant) for variant in variants], "abcd")
    times = np.array([SECOND * step for case in steps for step in case], np.int64)
    is_missing = np.zeros(len(times), np.bool_) if missing is None else np.array(missing)
    columns = Columns({TIMESTAMPS: Column.of_times(times, is_missing)})
    return Cases(alone.alphabet, alone.codes, alone.offsets, columns)


def gaps_of(released):
    return GapRegression.expecting(CLOCK, BINS, released, EVEN)


def durations_of(released, at=9):
    """The bins in which cases of two events and more are expected: all in that ``at``, or each."""
    rows = int((released.lengths > 1).sum())
    return DurationRegression.expecting(CLOCK, BINS, released, np.broadcast_to(at, rows))


def kernel_on(cases, event, max_cases=1):
    seen = Measured(cases, np.ones(len(cases), np.int64))
    return Kernel(seen, Books.of(event), reproducible(1), max_cases)


def rows_of(factors, cases):
    """The gradient of each case, multiplied out."""
    return (factors.left.swapaxes(1, 2) @ factors.right).reshape(cases, -1)


# Sums of gradients, and the weights that they speak for.


def sums_of(*mus, inputs=2, outputs=3, max_cases=1):
    return GradientSums(
        multipliers=tuple(1 / mu for mu in mus),
        inputs=inputs,
        outputs=outputs,
        max_cases=max_cases,
    )


def test_distributions_and_how_they_bend():
    """Without weights they are what is expected; their bends are the curves' covariance."""
    base, curves = np.log(np.array([0.5, 0.3, 0.2])), cosines_over(3, 2)
    shape = distributions_of(base, np.ones((4, 2)), np.zeros(4), curves)
    assert np.allclose(shape, [[0.5, 0.3, 0.2]] * 4)
    drawn = np.repeat(np.arange(3), [5, 3, 2])
    assert np.allclose(bends_of_curves(base + 7, curves), np.cov(curves[drawn].T, bias=True))


def fitted_on(cases, sums, base, found):
    """Weights of a model of four bins with three curves; ``found``: the curves of each case less
    what is expected, shape (cases, 3), given what is expected.
    """
    bins, curves = LogBins.up_to(1_000, 4), cosines_over(4, 3)
    model = BinRegression(CLOCK, bins, base, curves, np.zeros(2, np.int64))
    inputs = np.eye(sums.inputs)[:1]

    def gradient(weights, batch, step):
        expected = model.distributions(weights, inputs) @ curves
        known = np.repeat(inputs, len(batch), axis=0)
        return [Factors(known[:, None, :], found(batch, curves, expected)[:, None, :])]

    kernel = kernel_on(cases, sums.event(), sums.max_cases)
    weights, _ = fitted(model, kernel, sums, gradient, inputs, np.array([float(len(cases))]))
    return model, weights, inputs


@pytest.mark.parametrize("mus", [(20.0,), (8.0, 18.0), (1.0, 1.0, 20.0)])
def test_sums_reach_what_cases_are_like(mus):
    """Half of them lie in the first bin and half in the last: with little noise that is found, in
    however many sums.
    """
    cases = Cases.of([("a",)] * 100 + [("b",)] * 100, "ab")

    def found(batch, curves, expected):
        return curves[3 * batch.codes] - expected

    model, weights, inputs = fitted_on(cases, sums_of(*mus), np.zeros(4), found)
    shape = model.distributions(weights, inputs)[0]
    assert shape[[0, 3]] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("max_cases", [1, 20])
@pytest.mark.parametrize("mu", [0.03, 0.3])
def test_noise_alone_moves_weights_little(mu, max_cases):
    """Ten cases, as expected, in noise that would hide hundreds: weights are held near 0, whatever
    a unit has.
    """
    cases = Cases.of([("a",)] * 10, "ab")

    def found(batch, curves, expected):
        return np.repeat(curves.mean(axis=0)[None, :] - expected, len(batch), axis=0)

    sums = sums_of(mu, mu, max_cases=max_cases)
    _, weights, _ = fitted_on(cases, sums, np.zeros(4), found)
    assert 0 < np.abs(weights).max() < 1.0


@pytest.mark.parametrize("released", [60, 180, 500])
def test_a_group_is_found_however_many_released_cases_are_in_it(released, monkeypatch):
    """Of 180 cases of one group and 600 of another; released cases have more or fewer of the first.
    Taken for as many as those, its cases would differ by too much or too little.
    """
    cases = Cases.of([("a",)] * 180 + [("b",)] * 600, "ab")
    places = np.repeat([0, 1, 2, 3, 1, 2], [90, 30, 30, 30, 300, 300])
    curves = cosines_over(4, 3)
    model = BinRegression(CLOCK, LogBins.up_to(1_000, 4), np.zeros(4), curves, np.zeros(2))
    sums = sums_of(20.0, 30.0)

    def gradient(weights, batch, step):
        known = np.eye(2)[batch.codes]
        expected = model.distributions(weights, known) @ curves
        return [Factors(known[:, None, :], (curves[places] - expected)[:, None, :])]

    def off():
        kernel = kernel_on(cases, sums.event())
        mass = np.array([float(released), 600.0])
        weights, _ = fitted(model, kernel, sums, gradient, np.eye(2), mass)
        shape = model.distributions(weights, np.eye(2))[0]
        return np.abs(shape * 6 - [3, 1, 1, 1]).sum() / 12

    found = off()
    assert found < 0.11
    monkeypatch.setattr(regression, "UNLIKE", 1e-9)
    assert released == 180 or off() > found + 0.04


# What both regressions cost.


def times(mu, *, replaced=False):
    """What a regression is asked to serve."""
    return PartOfGoal((TIMESTAMPS,), mu, 0.0, replaced)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("max_cases", [1, 3])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_all_of_it_costs_mu(mu, max_cases, replaced):
    """Sums and tables compose to one normal number that a unit moves by mu, and no less; also
    where its times are replaced, for which noise is larger.
    """
    facts = Facts(unit=Unit(attribute="case:who", max_cases=max_cases))
    found = offered_regression(times(mu, replaced=replaced), facts)
    exact, charged = epsilon_of_normal(mu, 1e-5), cost(found.event(), 1e-5).epsilon
    assert exact <= charged * (1 + 1e-6)
    assert charged <= exact * 1.005


def test_a_window_has_more_of_the_budget_where_owners_have_several_cases():
    """Three times its share at most."""

    def parts(cases: int) -> float:
        unit = Unit(attribute="case:who", max_cases=cases)
        tables = offered_params(times(0.3), Facts(unit=unit), REGRESSION_SHARES)
        return (tables.sigmas["starts"] / tables.sigmas["window"]) ** 2

    once = parts(1)
    assert [round(parts(cases) / once) for cases in (2, 3, 5)] == [2, 3, 3]


def test_the_sums_have_shares_of_their_own():
    """Of mu squared; the tables have the rest, in proportion."""
    found = offered_regression(times(0.3), Facts())
    total = sum(REGRESSION_SHARES.values())
    for sums, name in ((found.gaps, "gaps-by-pair"), (found.durations, "totals")):
        assert sums.mu**2 == pytest.approx(REGRESSION_SHARES[name] / total * 0.3**2, rel=1e-3)
    tables = offered_params(times(0.3), Facts(), REGRESSION_SHARES)
    ratios = {round(sigma / tables.sigmas[name], 4) for name, sigma in found.tables.sigmas.items()}
    assert len(ratios) == 1


def test_noise_that_cannot_be_drawn_is_refused():
    """Planning goes on."""
    facts = Facts(unit=Unit(attribute="case:who", max_cases=10_000))
    refused = offered_regression(times(0.001), facts)
    assert isinstance(refused, Refusal)
    assert "cannot be drawn" in refused.reason


# Curves and inputs.


@pytest.mark.parametrize("bins", [1, 2, 5, 64])
def test_curves_are_as_many_whatever_the_bins(bins):
    """They are orthogonal; zeros where there are not enough bins. Those of durations are the
    flatter, the finer; of gaps, the first bin has one of its own: events at one time are as
    frequent as they are.
    """
    waves = np.arange(1, OUTPUTS + 1)
    curves = cosines_over(bins, OUTPUTS)
    assert np.allclose(curves.T @ curves / bins, np.diag(np.where(waves < bins, 1.0, 0.0)))
    curves = duration_curves(bins)
    heights = np.where(waves < bins, 1 / waves, 0.0)
    assert np.allclose(curves.T @ curves / bins, np.diag(heights**2))
    curves = gap_curves(bins)
    assert curves.shape == (bins, GAP_OUTPUTS)
    assert curves[:, 0].tolist() == [1.0] + [0.0] * (bins - 1)
    heights = np.sqrt((curves[:, 1:] ** 2).mean(axis=0))
    assert (np.diff(heights) <= 1e-12).all()


def test_what_is_expected_lies_around_what_was_found():
    """All mass in one bin spreads to its neighbours, a little up to some bins beyond, and hardly
    any further up.
    """
    found = expected_durations(np.full(50, 10), 40)
    assert found.sum() == pytest.approx(1)
    assert found.argmax() == 10
    assert found[: 10 + REACH + 1].sum() == pytest.approx(1, abs=1e-6)
    assert found[0] == pytest.approx(ANYTHING / (10 + REACH + 1), rel=0.01)


def test_any_gap_may_be_where_all_gaps_show_none():
    """Noise on all gaps together hides what few of them are; a pair's own may still show it."""
    none = np.append(1.0, np.zeros(len(BINS) - 1))
    model = GapRegression.expecting(CLOCK, BINS, Cases.of([("a", "b")], "ab"), none)
    assert np.exp(model.base) == pytest.approx(ANYTHING / len(BINS) + (1 - ANYTHING) * none)


def test_inputs_tell_activities_and_length_alone():
    """One for all, the length, the last activity, those there are; nothing of a lone event."""
    cases = Cases.of([tuple("abca"), ("d",), ("b", "b")], "abcd")
    inputs = durations_of(cases).inputs(cases)
    assert inputs.shape == (3, INPUTS)
    assert inputs[:, 0].tolist() == [ALL, 0, ALL]
    assert inputs[:, 1].tolist() == [-0.5, 0, -1]
    last, present = np.split(inputs[:, 2:], 2, axis=1)
    assert last.sum(axis=1).tolist() == [1, 0, 1]
    assert (present > 0).sum(axis=1).tolist() == [3, 0, 1]


def test_inputs_tell_both_activities_and_frequent_pairs():
    """The rarest pairs have no input of their own."""
    labels = [f"a{number}" for number in range(12)]
    frequent = [(labels[0], labels[1])] * 3
    released = Cases.of([*frequent, *((one, other) for one in labels for other in labels)], labels)
    model = gaps_of(released)
    inputs = model.inputs(np.array([1, 143]))
    assert inputs.shape == (2, GAP_INPUTS)
    assert inputs.sum(axis=1).tolist() == [4.0, 3.0]
    assert sorted(model.pair_rows.tolist()) == list(range(PAIRS))
    assert model.pair_rows[model.pairs == 1] == 0


def test_rare_activities_share_a_row():
    """Those that most released cases have keep rows of their own; ties in the order of codes."""
    labels = [f"a{number}" for number in range(ACTIVITIES + 5)]
    often = [(label, label) for label in labels[:3:-1] for _ in range(2)]
    released = Cases.of([*often, *((label, label) for label in labels)], labels)
    model = durations_of(released)
    assert sorted(model.row_of[4:].tolist())[:ACTIVITIES] == list(range(ACTIVITIES))
    assert set(model.row_of[:4].tolist()) == {ACTIVITIES}
    case, codes = np.array([0, 0, 0, 1, 1, 2]), np.array([3, 3, 1, 1, 0, 3])
    assert most_frequent_first(case, codes, 4, 2).tolist() == [2, 0, 2, 1]


# Gradients.


@GRADIENTS
def test_the_gradient_is_that_of_the_likelihood(kind):
    """By differences, in a direction of random weights; a case's gaps count less, the more."""
    cases = cases_of(["abab", "ad", "b"], [[0, 5, 900, 950], [7, 50_000], [3]])
    if kind == "gaps":
        model, size = gaps_of(cases), GAP_INPUTS * GAP_OUTPUTS
        place = BINS.place(np.array([5, 895, 50, 49_993]))

        def likelihood(at):
            shape = model.distributions(at, model.inputs(np.array([1, 4, 1, 3])))
            found = np.log(shape[np.arange(4), place])
            return np.array([found[:3].sum() / np.sqrt(3), found[3]])
    else:
        model, size = durations_of(cases), INPUTS * OUTPUTS
        place = BINS.place(np.array([950, 49_993]))

        def likelihood(at):
            shape = model.distributions(at, model.inputs(cases))
            return np.log(shape[[0, 1], place])

    weights, direction = np.random.default_rng(1).normal(size=(2, size))
    (factors,) = model.gradient(weights, cases, 0)
    rows = rows_of(factors, 3)
    step = 1e-4 * direction
    slope = (likelihood(weights + step) - likelihood(weights - step)) / 2e-4
    assert np.allclose(rows[:2] @ direction, slope, rtol=1e-4)
    assert not rows[2].any()


@GRADIENTS
def test_an_event_without_a_time_is_passed_over(kind):
    """Gaps are those between known times; a case with one known time counts for nothing."""
    steps = [[0, 77, 9], [0, 9, 88], [0, 1, 2]]
    missing = [0, 1, 0, 0, 0, 1, 0, 1, 1]
    cases = cases_of(["aab", "abb", "abb"], steps, np.array(missing, np.bool_))
    if kind == "gaps":
        model, size = gaps_of(cases), GAP_INPUTS * GAP_OUTPUTS
    else:
        model, size = durations_of(cases), INPUTS * OUTPUTS
    (factors,) = model.gradient(np.zeros(size), cases, 0)
    rows = rows_of(factors, 3)
    assert rows[0].any()
    assert not rows[2].any()
    if kind == "gaps":
        assert np.array_equal(rows[0], rows[1])


def test_a_batch_has_as_many_places_as_its_richest_case():
    """Rows of other cases are zeros there; a batch without any gap has one place of zeros."""
    factors = padded(np.array([0, 0, 2]), np.ones((3, 2)), np.ones((3, 4)), 3)
    assert factors.left.shape == (3, 2, 2)
    assert factors.right.sum(axis=(1, 2)).tolist() == [8, 0, 4]
    nothing = padded(np.zeros(0, np.int64), np.zeros((0, 2)), np.zeros((0, 4)), 2)
    assert (nothing.left.shape, nothing.right.shape) == ((2, 1, 2), (2, 1, 4))


@GRADIENTS
def test_it_learns_what_activities_say(kind):
    """Cases from a to b take a minute, those from a to c a week: with little noise, both are found,
    from an expectation that knows neither.
    """
    cases = cases_of(["ab"] * 100 + ["ac"] * 100, [[0, 60]] * 100 + [[0, 604_800]] * 100)
    params = offered_regression(times(20.0), Facts())
    if kind == "gaps":
        sums, model = params.gaps, gaps_of(cases)
        weights = model.trained(sums, kernel_on(cases, sums.event()), cases)
        shape = model.distributions(weights, model.inputs(np.array([1, 2])))
    else:
        sums, model = params.durations, durations_of(cases, np.arange(200) % len(BINS))
        inputs = model.inputs(cases)
        weights, _ = model.trained(sums, kernel_on(cases, sums.event()), inputs)
        shape = model.distributions(weights, inputs[[0, -1]])
    short, long = BINS.place(np.array([60, 604_800]))
    assert abs(shape[0].argmax() - short) <= 1
    assert abs(shape[1].argmax() - long) <= 1


def test_a_tail_that_noise_could_have_made_is_shrunk():
    """Not without noise; and the bins below the median keep their proportions."""
    bins = 128
    curves = duration_curves(bins)
    shape = shares_in_rows(np.tile(np.exp(-np.arange(bins) / 20), (1000, 1)))
    far = [with_shrunk_tails(shape, curves, noise)[:, 64:].sum() for noise in (0.0, 10.0, 100.0)]
    assert far[0] == pytest.approx(shape[:, 64:].sum())
    assert far[0] > far[1] > far[2] > 0
    found = with_shrunk_tails(shape, curves, 10.0)
    assert found.sum(axis=1) == pytest.approx(1.0)
    usual = found[:, :10] / shape[:, :10]
    assert usual == pytest.approx(usual[0, 0])
