"""Gradient steps: what a case can do to them, what they cost, and that they learn."""

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloakwork.base.costs import FREE, PoissonSampled, Repeated
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Descent, Gaussian
from cloakwork.noise import reproducible
from kernel.asking import UNIVERSE
from kernel.small import Silent, batch, kernel_of, measured

CLIP, SIGMA = 1000, 1e5
DESCENT = Descent(times=4, rate=0.5, grid=1e-3, clip=CLIP, noise=Gaussian(SIGMA), denominator=2.0)
"""A gradient is clipped to 1."""

START = np.zeros(2)
ALL = replace(DESCENT, rate=1.0, times=1, denominator=1.0)
"""One step, on everything."""


def charged(descent, size=2, max_cases=1):
    """What all steps cost."""
    return Repeated(times=descent.times, event=descent.event(size, max_cases))


def lengths(parameters, cases, step):
    """As many times (1, -1) as a case has events."""
    return cases.lengths[:, None] * np.array([1.0, -1.0])


def told_lengths(parameters, cases, step):
    """A hundredth of a case's events."""
    return cases.lengths[:, None] * np.array([0.01, 0.0])


def take_mean(parameters, mean):
    return mean


def one_step(seen, gradient, descent=ALL, max_cases=1):
    """The exact sum, in grid steps, of one step on everything."""
    kernel = kernel_of(seen, charged(descent, 2, max_cases), max_cases=max_cases)
    mean = kernel.steps(gradient, START, take_mean, descent)
    return np.rint(mean * descent.denominator / descent.grid).astype(np.int64)


def told(answer):
    """A gradient that says of every case what ``answer`` returns, whatever its shape."""
    return lambda parameters, cases, step: answer


def test_a_gradient_is_clipped():
    """To the clip in L2, rounded towards zero; a short one stays as it is."""
    seen = measured(["a"])
    assert one_step(seen, told([[0.375, -0.5]])).tolist() == [375, -500]
    assert one_step(seen, told([[0.0019, -0.0019]])).tolist() == [1, -1]
    assert one_step(seen, told([[3e9, -4e9]])).tolist() == [600, -800]
    assert one_step(seen, lengths).tolist() == [707, -707]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([[np.nan, 0.5]], [0, 500]),
        ([[np.inf, -np.inf]], [0, 0]),
        ([[-np.inf, -2.0]], [0, -1000]),
        ([[1e308, 1e308]], [707, 707]),
        ([[5e-324, 0.0]], [0, 0]),
        ([[1.0]], [0, 0]),
        ([1.0, 1.0], [0, 0]),
        ([[1.0, 1.0, 1.0]], [0, 0]),
        ([[1.0, 1.0], [1.0, 1.0]], [0, 0]),
        (1.0, [0, 0]),
        (None, [0, 0]),
        ("abc", [0, 0]),
        ([[True, 0]], [1000, 0]),
        ([["0.5", "x"]], [0, 0]),
        ([[10**400, 1]], [0, 0]),
    ],
)
def test_whatever_a_gradient_says(answer, expected):
    """What is not finite counts as zero; what has another shape, or is no number, as zeros."""
    assert one_step(measured(["a"]), told(answer)).tolist() == expected


def test_a_case_that_fails_counts_as_zeros():
    """Silently, and the others as if it were not there."""

    def fails_on_b(parameters, cases, step):
        if ("b",) in cases.variants():
            raise RuntimeError("b")
        return np.full((len(cases), 2), 0.1)

    seen = measured(["a", "b", "ab"], [3, 100, 2])
    assert one_step(seen, fails_on_b).tolist() == [500, 500]

    def shape_by_case(parameters, cases, step):
        return np.full((len(cases), 2 + int(("b",) in cases.variants())), 0.1)

    assert one_step(seen, shape_by_case).tolist() == [500, 500]


@given(
    arrays(np.float64, (3, 5), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.sampled_from([1e-300, 1e-6, 1.0, 1e300]),
    st.sampled_from([1, 1000, 1 << 24, 1 << 30]),
)
def test_no_gradient_is_longer_than_the_clip(values, grid, clip):
    """Nor has any number another sign, or more than was said."""
    descent = replace(DESCENT, grid=grid, clip=clip)
    found = descent.clipped(told(values), np.zeros(5), batch(["a", "b", "c"])).rows()
    assert found.dtype == np.int64
    assert max(sum(value * value for value in row) for row in found.tolist()) <= clip**2
    finite = np.where(np.isfinite(values), values, 0.0)
    assert (found * np.sign(finite) >= 0).all()
    with np.errstate(over="ignore"):
        assert (np.abs(found) <= np.abs(finite) / grid * (1 + 1e-12)).all()


def test_exhaust_steps():
    """Whatever two cases a unit has, it moves the sum of a step by at most twice the clip."""

    def turned(parameters, cases, step):
        return np.stack([cases.lengths - 1.0, cases.coded(("a", "b"))[cases.offsets[:-1]]], 1)

    for gradient in (lengths, turned):
        everything = one_step(measured(UNIVERSE), gradient)
        for pair in combinations_with_replacement(UNIVERSE, 2):
            counts = [1 + pair.count(case) for case in UNIVERSE]
            moved = one_step(measured(UNIVERSE, counts), gradient) - everything
            assert (moved**2).sum() <= (2 * CLIP) ** 2


def test_a_sample_holds_units_whole():
    """All cases of a unit or none: sums are multiples of what the units have."""
    owners = ([0, 1, 1], [0, 0, 1], [2, 1, 1])
    seen = measured(["a", "b"], [2, 2], owners=owners)

    def by_label(parameters, cases, step):
        return np.eye(2)[cases.coded(("a", "b"))]

    descent = replace(DESCENT, times=200, denominator=1.0)
    kernel = kernel_of(seen, charged(descent, 2, 3), max_cases=3)
    means = []
    kernel.steps(by_label, START, lambda _, mean: means.append(mean.round(9)) or mean, descent)
    # Unit 0 has a twice and b once, unit 1 has b.
    assert {tuple(mean) for mean in means} == {(0, 0), (2, 1), (0, 1), (2, 2)}


def test_units_must_be_granted():
    """As for other samples."""
    seen = measured(["a"], [4])
    with pytest.raises(PlanUnsound, match="must be granted"):
        kernel_of(seen, charged(DESCENT, 2, 2), max_cases=2).steps(
            lengths, START, take_mean, DESCENT
        )


def test_where_everybody_is_in_every_step_units_need_not_be_granted():
    """Each case counts as often as it occurs, whosever it is."""
    seen = measured(["a", "ab"], [4, 3])
    assert one_step(seen, told_lengths, max_cases=2).tolist() == [4 * 10 + 3 * 20, 0]


@pytest.mark.parametrize("seen", [measured([]), measured(["a", "b"])], ids=["log", "sample"])
def test_an_empty_sample_is_a_step_like_any_other(seen):
    """Noise is drawn, and the parameters are updated."""
    descent = replace(DESCENT, rate=2.0**-60)
    noise, means = Silent(), []
    kernel = kernel_of(seen, charged(descent), noise=noise)

    def count(parameters, mean):
        means.append(mean.tolist())
        return parameters + 1

    assert kernel.steps(lengths, START, count, descent).tolist() == [4, 4]
    assert means == [[0, 0]] * 4
    assert [drawn for drawn in noise.drawn if drawn[0] == "gaussian"] == [
        ("gaussian", SIGMA, 2)
    ] * 4


@pytest.mark.parametrize(
    "changed",
    [
        {"times": 5},
        {"noise": Gaussian(SIGMA * 0.99)},
        {"rate": 0.51},
        {"clip": CLIP + 2},
    ],
    ids=str,
)
def test_what_the_plan_does_not_list_is_refused(changed):
    """Before anything is drawn, and before any case is looked at."""
    noise = Silent()
    kernel = kernel_of(measured(["a"]), charged(DESCENT), noise=noise)

    def never(parameters, cases, step):
        raise AssertionError("asked")

    with pytest.raises(PlanUnsound):
        kernel.steps(never, START, take_mean, replace(DESCENT, **changed))
    assert noise.drawn == []
    assert kernel.recorded == FREE


def test_more_parameters_or_cases_are_refused():
    """They are what the event was told."""
    seen = measured(["a"])
    with pytest.raises(PlanUnsound):
        kernel_of(seen, charged(DESCENT)).steps(told(0), np.zeros(3), take_mean, DESCENT)
    with pytest.raises(PlanUnsound):
        kernel_of(seen, charged(DESCENT), max_cases=2).steps(lengths, START, take_mean, DESCENT)


def test_less_of_all_fits():
    """Fewer steps on smaller samples, of shorter gradients; what was drawn is in the books."""
    kernel = kernel_of(measured(["a"]), charged(DESCENT))
    less = replace(DESCENT, times=3, rate=0.25, clip=CLIP // 2)
    kernel.steps(lengths, START, take_mean, less)
    assert kernel.recorded == charged(less)
    assert isinstance(less.event(2, 1), PoissonSampled)


def test_noise_that_the_accountant_cannot_bound_is_refused():
    """A vector needs coarse noise; a single number does not."""
    fine = replace(DESCENT, noise=Gaussian(500.0))
    with pytest.raises(PlanUnsound, match="a vector needs"):
        fine.event(2, 1)
    assert fine.event(1, 1)


def test_an_update_keeps_the_number_of_parameters():
    """The noise of the next step is charged for so many."""
    kernel = kernel_of(measured(["a"]), charged(DESCENT))
    with pytest.raises(PlanUnsound, match="how many parameters"):
        kernel.steps(lengths, START, lambda _, mean: mean[:1], DESCENT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip": 0},
        {"clip": 1 << 31},
        {"grid": 0.0},
        {"grid": np.nan},
        {"grid": np.inf},
        {"denominator": 0.0},
        {"denominator": np.nan},
    ],
    ids=str,
)
def test_numbers_that_make_no_steps(wrong):
    with pytest.raises(ValueError, match=r"positive|between"):
        replace(DESCENT, **wrong)


def test_a_gradient_cannot_change_parameters():
    """They are read-only: it counts as one that fails."""

    def writes(parameters, cases, step):
        parameters[0] = 7.0
        return lengths(parameters, cases, step)

    assert one_step(measured(["a"]), writes).tolist() == [0, 0]


def test_steps_learn():
    """A logistic regression on which of two activities a case has, which says how it ends."""
    seen = measured([("a", "good"), ("b", "bad"), ("a", "bad"), ("b", "good")], [450, 450, 50, 50])

    def gradient(parameters, cases, step):
        has_a = (cases.coded(("a",))[cases.offsets[:-1]] == 0) * 2.0 - 1.0
        is_good = cases.coded(("good",))[cases.offsets[1:] - 1] == 0
        features = np.stack([has_a, np.ones(len(cases))], 1)
        predicted = 1 / (1 + np.exp(-features @ parameters))
        return (predicted - is_good)[:, None] * features

    descent = Descent(
        times=60, rate=0.1, grid=1e-6, clip=1_000_000, noise=Gaussian(2e6), denominator=100.0
    )
    kernel = kernel_of(seen, charged(descent), noise=reproducible(7))
    slope, offset = kernel.steps(gradient, START, lambda old, mean: old - mean, descent)
    # The slope that fits best is ln(450 / 50) / 1 = 2.2, without an offset.
    assert 1.2 < slope < 3.2
    assert abs(offset) < 0.5
