"""Gradients by factors: no longer than the clip whatever they hold, and summed exactly; gradient
steps: what a case can do to them, what they cost, and that they learn.
"""

import tracemalloc
import warnings
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloakwork.base.costs import FREE, PoissonSampled, Repeated
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Descent, Factors, Gaussian, gradients
from cloakwork.kernel.gradients import clipped_factors, length_chunks
from cloakwork.noise import reproducible
from kernel.asking import UNIVERSE
from kernel.small import Silent, batch, kernel_of, measured

CLIP = 1 << 30
GRID = 1 / CLIP
CASES = 3
"""A gradient is clipped to 1."""

RANDOM = np.random.default_rng(15)
ODD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-2, 2),
    st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e300]),
)


def factors(left, right):
    return Factors(np.array(left, np.float64), np.array(right, np.float64))


def squares(moves):
    """The squared norm of each case's vector, in Python's integers."""
    return [sum(value * value for value in row) for row in moves.rows().tolist()]


def matrices(found):
    """What the factors stand for, one row a case."""
    rows = [np.einsum("itp,itq->ipq", each.left, each.right) for each in found]
    return np.concatenate([each.reshape(len(each), -1) for each in rows], 1)


def random_factors(cases, scale=1.0):
    """Two layers, at three places and at one."""
    shapes = ((3, 4, 5), (1, 6, 2))
    drawn = [
        (RANDOM.normal(size=(cases, places, inputs)), RANDOM.normal(size=(cases, places, outputs)))
        for places, inputs, outputs in shapes
    ]
    return [Factors(left, scale * right) for left, right in drawn]


@given(
    arrays(np.float64, (CASES, 2, 3), elements=ODD),
    arrays(np.float64, (CASES, 2, 2), elements=ODD),
    arrays(np.float64, (CASES, 1, 1), elements=ODD),
    st.sampled_from([1e-300, GRID, 1.0, 1e300]),
    st.sampled_from([1, 1000, CLIP]),
)
def test_no_gradient_is_longer_than_the_clip(left, right, other, grid, clip):
    """Over all layers together, whatever the factors hold."""
    found = [Factors(left, right), Factors(other, other)]
    moves = clipped_factors(found, CASES, 7, grid, clip)
    assert max(squares(moves)) <= clip**2


def test_a_short_gradient_stays_as_it_is_and_a_long_one_is_scaled():
    """Up to rounding."""
    for scale, most in ((0.001, np.inf), (1000.0, 1.0)):
        found = random_factors(50, scale)
        exact = matrices(found)
        norms = np.linalg.norm(exact, axis=1, keepdims=True)
        expected = exact * np.minimum(1.0, most / norms)
        kept = clipped_factors(found, 50, 32, GRID, CLIP).rows() * GRID
        assert np.abs(kept - expected).max() <= 0.002 * np.abs(expected).max()


def test_a_gradient_that_cancels_out_is_no_longer_than_it_is():
    """Two places whose products are opposite."""
    found = [factors([[[1e6], [1e6]]], [[[1.0], [-1.0]]])]
    assert clipped_factors(found, 1, 1, GRID, CLIP).rows().tolist() == [[0]]


@pytest.mark.parametrize("most", [1, 3, 1 << 22, 1 << 30])
def test_sums_are_exact(most):
    """As the vectors themselves add up, in integers, however often a case counts."""
    moves = clipped_factors(random_factors(40), 40, 32, GRID, CLIP)
    counts = RANDOM.integers(0, most + 1, 40)
    expected = [
        sum(count * value for count, value in zip(counts.tolist(), column, strict=True))
        for column in moves.rows().T.tolist()
    ]
    assert moves.summed(counts).tolist() == expected


def test_what_a_case_counts_for_follows_from_that_case_alone():
    """The others may be as they like."""
    found = random_factors(20)
    everything = clipped_factors(found, 20, 32, GRID, CLIP).rows()
    for rows in ([3], [7, 3, 11]):
        some = [Factors(each.left[rows], each.right[rows]) for each in found]
        assert np.array_equal(
            clipped_factors(some, len(rows), 32, GRID, CLIP).rows(), everything[rows]
        )
    wild = [Factors(each.left.copy(), each.right.copy()) for each in found]
    wild[0].left[5], wild[1].right[5] = np.nan, np.inf
    rest = np.arange(20) != 5
    assert np.array_equal(clipped_factors(wild, 20, 32, GRID, CLIP).rows()[rest], everything[rest])


@pytest.mark.parametrize(
    "found",
    [
        [factors(np.zeros((2, 1, 4)), np.zeros((2, 1, 8)))],
        [factors(np.zeros((CASES, 1, 4)), np.zeros((CASES, 2, 8)))],
        [factors(np.zeros((CASES, 1, 4)), np.zeros((CASES, 1, 7)))],
        [factors(np.zeros((CASES, 0, 4)), np.zeros((CASES, 0, 8)))],
        [factors(np.zeros((CASES, 4)), np.zeros((CASES, 8)))],
    ],
    ids=["cases", "places", "size", "nowhere", "flat"],
)
def test_other_shapes_are_refused(found):
    """Whatever they would add up to."""
    with pytest.raises(ValueError, match="factors"):
        clipped_factors(found, CASES, 32, GRID, CLIP)


def test_tensors_are_summed_as_arrays_are():
    """To the last step, on the processor."""
    torch = pytest.importorskip("torch")
    found = random_factors(30, 10.0)
    tensors = [Factors(torch.tensor(each.left), torch.tensor(each.right)) for each in found]
    counts = RANDOM.integers(0, 4, 30)
    by_numpy = clipped_factors(found, 30, 32, GRID, CLIP)
    by_torch = clipped_factors(tensors, 30, 32, GRID, CLIP)
    assert np.abs(by_torch.rows() - by_numpy.rows()).max() <= 2e-3 * CLIP
    assert by_torch.summed(counts).tolist() == (counts @ by_torch.rows()).tolist()


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 5), st.integers(1, 40))
def test_chunks_hold_each_case_once(lengths, cases, events):
    """None holds more than was asked for, but for a case that is too long by itself."""
    lengths = np.array(lengths, np.int64)
    chunks = length_chunks(lengths, cases, events)
    assert sorted(row for chunk in chunks for row in chunk.tolist()) == list(range(len(lengths)))
    for chunk in chunks:
        assert len(chunk) <= cases
        assert len(chunk) == 1 or len(chunk) * lengths[chunk].max() <= events


def by_factors(parameters, cases, step):
    """The gradient of a step is (1, -1) for each event, and more with each step."""
    has_event = (np.arange(max(1, cases.lengths.max(initial=0))) < cases.lengths[:, None]) * 1.0
    right = np.broadcast_to([[[step + 1.0, -step - 1.0]]], (*has_event.shape, 2))
    return [Factors(has_event[:, :, None], right)]


def test_steps_by_factors_are_steps_by_rows():
    """The same sums, up to rounding; and the number of the step is known."""
    descent = Descent.of(times=3, rate=1.0, norm=4.0, multiplier=2.0**-8, denominator=1.0)
    seen = measured(["a", "ab", "abba"], [1, 2, 5])

    def by_rows(parameters, cases, step):
        return cases.lengths[:, None] * np.array([1.0, -1.0]) * (step + 1)

    means = []
    for gradient in (by_rows, by_factors):
        kernel = kernel_of(seen, *[descent.event(2, 1)] * 3)
        found = []
        kernel.steps(
            gradient, np.zeros(2), lambda _, mean, to=found: to.append(mean) or mean, descent
        )
        means.append(found)
    assert np.allclose(*means, rtol=2e-3)
    assert means[0][0][0] == pytest.approx(1 + 2 * 2 + 5 * 4 / np.sqrt(2), rel=1e-3)


def test_a_case_that_fails_counts_as_zeros():
    """Silently, and the others as if it were not there."""

    def fails_on_b(parameters, cases, step):
        if ("b",) in cases.variants():
            raise RuntimeError("b")
        return by_factors(parameters, cases, step)

    descent = Descent.of(times=1, rate=1.0, norm=100.0, multiplier=1.0, denominator=1.0)
    moves = descent.clipped(fails_on_b, np.zeros(2), batch(["a", "b", "ab"]))
    assert np.allclose(moves.rows() * descent.grid, [[1, -1], [0, 0], [2, -2]], rtol=1e-3)
    assert moves.summed(np.array([1, 9, 1])).tolist() == moves.rows().sum(axis=0).tolist()


def test_noise_is_the_descent_s():
    """``multiplier`` deviations of what a unit moves a sum by."""
    descent = Descent.of(times=1, rate=1.0, norm=2.0, multiplier=3.0, denominator=5.0, max_cases=2)
    assert isinstance(descent.noise, Gaussian)
    owners = ([0], [0], [1])
    seen = measured(["a"], owners=owners)
    kernel = kernel_of(seen, descent.event(4096, 2), noise=reproducible(3), max_cases=2)
    nothing = np.zeros(4096)
    mean = kernel.steps(lambda *_: np.zeros((1, 4096)), nothing, lambda _, mean: mean, descent)
    assert mean.std() == pytest.approx(3 * 2 * 2 / 5, rel=0.05)


def test_frequent_cases_take_no_more_memory_than_others():
    """However often a case counts, no case's matrix is multiplied out: a log would show by what it
    takes how many cases are alike.
    """
    cases, inputs, outputs = 64, 200, 100
    left, right = RANDOM.normal(size=(cases, 1, inputs)), RANDOM.normal(size=(cases, 1, outputs))
    moves = clipped_factors([Factors(left, right)], cases, inputs * outputs, GRID, CLIP)
    counts = np.ones(cases, np.int64)
    counts[7] = (1 << 20) + 3
    tracemalloc.start()
    found = moves.summed(counts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * cases * inputs * outputs / 4
    assert found.tolist() == (counts @ moves.rows()).tolist()


def test_more_places_than_sums_are_exact_for_are_refused():
    """Beyond, a sum would be rounded, and might come out longer than the clip."""
    places = gradients.MOST_PLACES + 1
    ones = np.ones((1, places, 1))
    with pytest.raises(ValueError, match="places"):
        clipped_factors([Factors(ones, ones)], 1, 1, GRID, CLIP)
    turning = np.where(np.arange(places - 1) % 2, -1.0, 1.0)[None, :, None]
    turning[0, 0] = 0.5
    moves = clipped_factors([Factors(ones[:, 1:], turning)], 1, 1, GRID, CLIP)
    assert moves.rows().tolist() != [[0]]
    assert moves.summed(np.array([3])).tolist() == (3 * moves.rows()[0]).tolist()


def test_a_gradient_that_warns_warns_nobody():
    """A division by zero, or a mean of nothing, would tell that such a case is in the log."""

    def odd(parameters, cases, step):
        warnings.warn("b", stacklevel=1)
        return (
            np.log(np.zeros((len(cases), 2))) - np.mean(np.zeros((len(cases), 0)), axis=1)[:, None]
        )

    descent = Descent.of(times=1, rate=1.0, norm=1.0, multiplier=1.0, denominator=1.0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        moves = descent.clipped(odd, np.zeros(2), batch(["a", "b"]))
    assert moves.rows().tolist() == [[0, 0], [0, 0]]
    assert heard == []


@pytest.mark.parametrize(
    "found", [np.ones((1, 1), complex), [Factors(*[np.ones((1, 1, 1), complex)] * 2)]]
)
def test_numbers_that_are_not_real_count_as_zeros(found):
    """As what is no number at all does."""
    descent = Descent.of(times=1, rate=1.0, norm=1.0, multiplier=1.0, denominator=1.0)
    assert descent.clipped(lambda *_: found, np.zeros(1), batch(["a"])).rows().tolist() == [[0]]


STEP_CLIP, SIGMA = 1000, 1e5
DESCENT = Descent(
    times=4, rate=0.5, grid=1e-3, clip=STEP_CLIP, noise=Gaussian(SIGMA), denominator=2.0
)
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


def test_a_case_that_a_gradient_fails_on_counts_as_zeros():
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
def test_no_case_counts_for_more_than_the_clip(values, grid, clip):
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
            assert (moved**2).sum() <= (2 * STEP_CLIP) ** 2


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
        {"clip": STEP_CLIP + 2},
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
    less = replace(DESCENT, times=3, rate=0.25, clip=STEP_CLIP // 2)
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
