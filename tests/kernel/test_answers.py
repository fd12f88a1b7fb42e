"""Sums with noise are drawn once a key, when it is first read, whether a case has it or not."""

import numpy as np
import pytest

from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Laplace, NoisySums
from cloakwork.kernel.vectors import Sums, key_of
from cloakwork.noise import reproducible
from kernel.small import Silent


def sums_of(keys, sums, noise=None, declared=None):
    return NoisySums(
        Sums(keys, np.array(sums, np.int64)), Laplace(5.0), noise or Silent(), declared
    )


def numbered(noise=None, declared=None):
    """Sums of 30, 10 and 20 at the keys 2, 5 and 7."""
    return sums_of(np.array([2, 5, 7]), [30, 10, 20], noise, declared)


def labelled(noise=None):
    """Sums of 30 and 10 at two keys with labels."""
    return sums_of(sorted([key_of(0, ("a",)), key_of(1, ("a", "b"))]), [30, 10], noise)


def test_every_key_has_noise_and_keeps_it():
    sums = numbered(reproducible(1))
    keys = np.arange(-50, 50)
    first = sums.at(keys)
    assert len(set(first.tolist())) > 10
    assert (sums.at(keys) == first).all()
    assert (sums.at(keys[::-7]) == first[::-7]).all()
    assert (sums.at(np.tile(keys, (2, 1))) == first).all()


def test_noise_is_drawn_when_a_key_is_first_read():
    """As many draws as keys, whether a case has them or not."""
    noise = Silent()
    sums = numbered(noise)
    assert noise.drawn == []
    assert sums.at(np.array([7, 3, 7])).tolist() == [20, 0, 20]
    assert sums.at(np.array([2, 7])).tolist() == [30, 20]
    assert [size for _, _, size in noise.drawn] == [2, 1]
    assert sums.at(np.zeros((0, 3), int)).shape == (0, 3)


def test_keys_with_labels_have_noise_and_keep_it():
    noise = Silent()
    sums = labelled(noise)
    asked = [(1, ("a", "b")), (0, ("b",)), (1, ("a", "b"))]
    assert sums.at_labels(asked).tolist() == [10, 0, 10]
    assert sums.at_labels([(0, ("b",)), (0, ("a",))]).tolist() == [0, 30]
    assert [size for _, _, size in noise.drawn] == [2, 1]
    drawn = labelled(reproducible(2))
    first = drawn.at_labels(asked)
    assert first[0] == first[2]
    assert (drawn.at_labels(asked[::-1]) == first[::-1]).all()
    assert labelled().at(np.array([0, 1])).tolist() == [0, 0]


def test_keys_that_are_not_declared_are_refused():
    sums = numbered(declared=8)
    assert sums.at(np.arange(8)).tolist() == [0, 0, 30, 0, 0, 10, 0, 20]
    for code in (-1, 8):
        with pytest.raises(PlanUnsound, match="outside of the 8"):
            sums.at(np.array([0, code]))
    with pytest.raises(PlanUnsound, match="declared to be numbers"):
        sums.at_labels([(0, ("a",))])


def test_a_number_has_one_place_to_be_read():
    """Else it would have two draws: its mean has less noise than was charged."""
    with pytest.raises(PlanUnsound, match="without labels"):
        numbered().at_labels([(2, ())])
