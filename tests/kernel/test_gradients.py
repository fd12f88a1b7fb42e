"""Gradients by factors: no longer than the clip whatever they hold, and summed exactly."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloakwork.kernel import Descent, Factors, Gaussian, gradients
from cloakwork.kernel.gradients import clipped_factors, length_chunks
from cloakwork.noise import reproducible
from kernel.small import batch, kernel_of, measured

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
