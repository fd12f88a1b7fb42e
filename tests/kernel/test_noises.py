"""What an answer costs is at least what its noise gives away, however a unit spreads its cases."""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.costs import DiscreteGaussian, DiscreteLaplace, Repeated
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import ONE, Clip, Gaussian, Laplace, Truncated
from cloakwork.kernel.noises import LARGEST, gaussian_tail, laplace_tail, selection_event
from cloakwork.noise import reproducible
from kernel.laws import (
    NEVER,
    LaplaceLaw,
    cells,
    delta_between,
    gaussian_law,
    together,
    truncated_law,
)
from kernel.small import size_of

CLIPS = [
    Clip(norm, most, keys) for norm in ("l1", "l2", "max") for most in (1, 2, 3) for keys in (1, 2)
]


@cache
def moves(clip, cases):
    """All that so many cases can move, as multisets of moves of one sign: the sums of vectors that
    ``clip`` bounds, over as many keys as they may have.
    """
    keys = clip.cells * cases
    bound = clip.most**2 if clip.norm == "l2" else clip.most
    vectors = [
        vector
        for vector in itertools.product(range(clip.most + 1), repeat=keys)
        if size_of(vector, clip.norm) <= bound and sum(map(bool, vector)) <= clip.cells
    ]
    sums = {(0,) * keys}
    for _ in range(cases):
        sums = {
            tuple(sorted(map(sum, zip(one, other, strict=True))))
            for one in sums
            for other in vectors
        }
    return {tuple(move for move in each if move) for each in sums} - {()}


def charged(event):
    """The leaves of a cost, each as often as it is charged."""
    return list(Counter(dict(leaves_of(event))).elements())


@pytest.mark.parametrize("clip", CLIPS, ids=str)
@pytest.mark.parametrize("cases", [1, 2])
def test_no_unit_moves_more_than_is_charged(clip, cases):
    """In L1 for Laplace noise, in L2 for Gaussian noise, over all vectors of all cases of a
    unit.
    """
    for event in Laplace(2.0).events(clip, cases, None):
        total = sum(leaf.sensitivity for leaf in charged(event))
        assert max(map(sum, moves(clip, cases))) <= total
    for event in Gaussian(2048.0).events(clip, cases, None):
        leaves = charged(event)
        square = sum(leaf.sensitivity**2 for leaf in leaves)
        for move in moves(clip, cases):
            assert size_of(move, "l2") <= square
            # The accountant's surcharges grow with the moves' sum and with the cells moved (by
            # 1e-8 each: one cell moved by all is far worse than more that share it).
            assert sum(move) <= sum(leaf.sensitivity for leaf in leaves)
            if clip.norm != "max" and len(leaves) > 1:
                assert len(move) <= len(leaves)


EPSILONS = (0.0, 0.4, 1.0, 2.2, 5.0)


def divergences(law, moved):
    """Of answers that are moved by ``moved``, each with noise of its own."""
    pair = together([cells(law, 0, move, NEVER) for move in moved])
    return [delta_between(*pair, epsilon) for epsilon in EPSILONS]


@pytest.mark.parametrize("scale", [0.6, 2.0])
@pytest.mark.parametrize("clip", CLIPS, ids=str)
def test_laplace_noise_costs_what_is_charged(clip, scale):
    """Exactly, for every way in which two cases may move a sum."""
    for event in Laplace(scale).events(clip, 2, None):
        leaves = charged(event)
        bound = divergences(LaplaceLaw(scale), [leaf.sensitivity for leaf in leaves])
        for moved in moves(clip, 2):
            found = divergences(LaplaceLaw(scale), moved)
            for (least, _), (_, most) in zip(found, bound, strict=True):
                assert least <= most


@pytest.mark.parametrize("sigma", [0.4, 0.8, 1.5])
@pytest.mark.parametrize("clip", [each for each in CLIPS if each.most < 3], ids=str)
def test_gaussian_noise_costs_what_is_charged(clip, sigma):
    """Exactly, for every way in which two cases may move a sum; or it is refused."""
    try:
        events = Gaussian(sigma).events(clip, 2, None)
    except PlanUnsound:
        assert clip.cells > 1
        assert clip.norm == "l2" or clip.most > 1
        return
    law = gaussian_law(sigma, sigmas=4)
    for event in events:
        leaves = charged(event)
        bound = divergences(law, [leaf.sensitivity for leaf in leaves])
        for moved in moves(clip, 2):
            if len(moved) > 3:
                continue
            found = divergences(law, moved)
            for (least, _), (_, most) in zip(found, bound, strict=True):
                assert least <= most


def test_no_split_of_a_norm_bounds_all_others_under_fine_noise():
    """Why a vector under fine Gaussian noise is refused: at sigma 1, four counts moved by 1 cost
    less than one moved by 2.
    """
    law = gaussian_law(1.0, sigmas=6)
    whole = cells(law, 0, 2, NEVER)
    parted = together([cells(law, 0, 1, NEVER)] * 4)
    least = [delta_between(*whole, epsilon)[0] for epsilon in np.arange(0, 8, 0.25)]
    most = [delta_between(*parted, epsilon)[1] for epsilon in np.arange(0, 8, 0.25)]
    assert max(np.subtract(least, most)) > 0.04
    for clip in (Clip("l2", 2, 4), Clip("l1", 2, 2)):
        with pytest.raises(PlanUnsound, match="more than 1000 grid steps"):
            Gaussian(1000.0).events(clip, 1, None)
        assert Gaussian(1001.0).events(clip, 1, None)


def test_declared_keys_bound_the_cells_that_move():
    clip = Clip("l2", 100, 64)
    (spread,) = Gaussian(2048.0).events(clip, 2, 3)
    assert spread == Repeated(
        times=3, event=DiscreteGaussian(sigma=2048.0, sensitivity=math.ceil(200 / math.sqrt(3)))
    )
    (spread,) = Gaussian(2048.0).events(clip, 2, None)
    assert spread.times == 128


def test_what_is_charged_is_what_is_drawn():
    """A scale below the finest is rounded up, by the noise and in the books."""
    (event,) = Laplace(1e-30).events(ONE, 1, None)
    assert event == DiscreteLaplace(scale=2.0**-60)
    event, *_ = Gaussian(1e-30).events(ONE, 3, None)
    assert event == DiscreteGaussian(sigma=2.0**-60, sensitivity=3)


NOISES = {
    "laplace": (Laplace(3.0), LaplaceLaw(3.0)),
    "small laplace": (Laplace(0.5), LaplaceLaw(0.5)),
    "gaussian": (Gaussian(2.5), gaussian_law(2.5)),
    "small gaussian": (Gaussian(0.7), gaussian_law(0.7)),
    "truncated": (Truncated(3.0, 20), truncated_law(3.0, 20)),
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("clip", [Clip("l1", 3, 3), *CLIPS], ids=str)
def test_keys_of_one_unit_are_told_as_rarely_as_is_charged(name, clip):
    """The exact chance that any of them is, for all vectors of two cases."""
    noise, law = NOISES[name]
    for tau in (3, 8, 15, 21, 30):
        charge = noise.selection_delta(tau, clip, 2)
        unreached = {
            each: 1 - float(law.reaching(tau - each).a) for each in range(clip.most * 2 + 1)
        }
        for moved in moves(clip, 2):
            unseen = math.prod(unreached[value] for value in moved)
            if isinstance(noise, Truncated):
                # Its chance is part of the event: (epsilon, delta) of one count, moved by all.
                assert charge == (0.0 if tau > 20 else 1.0)
            else:
                assert 1 - unseen <= charge + 1e-15


def test_a_threshold_within_reach_of_one_unit_hides_nothing():
    for noise in (Laplace(1.0), Gaussian(1.0)):
        for clip in (Clip("l1", 3, 2), Clip("l2", 3, 2), Clip("max", 3, 2)):
            assert noise.selection_delta(6, clip, 2) == 1.0
            assert noise.selection_delta(40, clip, 2) < 1e-6
    assert selection_event(1.0).delta < 1


@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0, 3.7, 40.0])
def test_tails_are_bounded(spread):
    """From above, and closely where it matters."""
    laplace, gaussian = LaplaceLaw(spread), gaussian_law(spread)
    for least in range(1, 30):
        exact = laplace.reaching(least)
        assert exact.a <= laplace_tail(spread, least) <= float(exact.b) * (1 + 1e-9)
        assert gaussian.reaching(least).a <= gaussian_tail(spread, least)


@pytest.mark.parametrize("bound", [1, 4])
def test_truncated_noise_is_laplace_noise_that_does_not_exceed_its_bound(bound):
    """Every value as often as it should, by five standard errors."""
    size = 100_000
    drawn = Truncated(2.0, bound).draw(reproducible(3), size)
    assert np.abs(drawn).max() == bound
    law = truncated_law(2.0, bound)
    for value in range(-bound, bound + 1):
        mass = law.high[value + bound]
        error = math.sqrt(mass * (1 - mass) * size)
        assert abs((drawn == value).sum() - mass * size) < 5 * error


def test_truncated_noise_is_for_sums_of_sizes():
    with pytest.raises(ValueError, match="summed"):
        Truncated(1.0, 5).events(Clip("l2", 2, 2), 1, None)


def test_noise_leaves_room_for_the_answer():
    """At the largest scales no sum wraps."""
    noise = reproducible(1)
    for drawn in (Laplace(2.0**53).draw(noise, 1000), Gaussian(2.0**53).draw(noise, 1000)):
        assert np.abs(drawn).max() <= LARGEST
        assert len(drawn) == 1000
