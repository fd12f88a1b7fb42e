"""The network over prefixes."""

import pytest

from extras.networks.lazily import Lazily, needs_torch, torch

pytestmark = needs_torch
PrefixNetwork = Lazily("cloakwork_extras.networks.prefix_network", "PrefixNetwork")
Tape = Lazily("cloakwork_extras.networks.training", "Tape")


def steps():
    return torch.tensor([[0, 1, 2, 3, 1], [0, 3, 3, 1, 2]])


def added(network, steps, zeros=()):
    """What a network of random weights adds."""
    return network(Tape(network.shapes.split(network.shapes.initial(7, zeros))), steps)


@pytest.mark.parametrize("width", [0, 4])
def test_it_adds_nothing_before_training(width):
    """The last layer begins at zero."""
    network = PrefixNetwork(3, width, 64)
    assert not added(network, steps(), (network.last,)).any()


@pytest.mark.parametrize("width", [0, 4])
def test_later_steps_do_not_matter(width):
    """What comes of a place is the same whatever follows it, and whatever other cases there are."""
    network = PrefixNetwork(3, width, 64)
    there = added(network, steps())
    here = added(network, steps()[1:, :3])
    assert there.shape == (2, 5, 4)
    assert torch.allclose(there[1:, :3], here, atol=1e-5)


def test_all_of_the_prefix_matters():
    """Two cases that differ in an early step alone."""
    for width in (0, 4):
        network = PrefixNetwork(3, width, 64)
        found = added(network, torch.tensor([[0, 1, 3, 3, 3], [0, 2, 3, 3, 3]]))
        assert not torch.allclose(found[0, -1], found[1, -1], atol=1e-3)


def test_more_events_than_it_learned_from():
    """From ``places`` on nothing tells how many there are."""
    found = added(PrefixNetwork(3, 0, 4), torch.tensor([[0, *[1] * 9]]))
    assert torch.equal(found[0, 3], found[0, 9])
    assert not torch.equal(found[0, 2], found[0, 3])
