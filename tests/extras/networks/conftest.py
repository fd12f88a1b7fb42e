"""torch and what needs it, loaded when a test asks for it: collecting the tests loads none."""

import pytest


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def seeded(torch):
    """A generator of torch by its seed."""
    return lambda seed=1: torch.Generator().manual_seed(seed)


@pytest.fixture(scope="session")
def training(torch):
    from cloakwork_extras.networks import training

    return training


@pytest.fixture(scope="session")
def prefixes(torch):
    """The network over prefixes."""
    from cloakwork_extras.networks import prefix_network

    return prefix_network


@pytest.fixture(scope="session")
def published(torch):
    """The networks as their papers have them."""
    from cloakwork_extras.networks import published_networks

    return published_networks
