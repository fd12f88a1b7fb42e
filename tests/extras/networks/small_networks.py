"""What tests of generative mechanisms share: small networks, kernels that write down sums."""

from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import pytest

from cloakwork.accounting.leaf_events import epsilon_of_normal
from cloakwork.base.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.registry import catalogue
from kernel.small import kernel_of, measured

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

NAMES = ("variants/travag", "variants/ddpm")
DOMAIN = (("a", "b"), ("a",), ("c", "c", "c", "c", "c", "c"), ("rare",))
SMALL = {"steps": 3, "hidden": 2}
GOAL = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-3, over=("control-flow",)
)
SEEN = measured([("a", "b"), ("a",), ("x", "y")], [60, 30, 10])


@pytest.fixture
def few_chains(monkeypatch):
    """The diffusion model makes few variants of noise."""
    pytest.importorskip("torch")
    from cloakwork_extras.networks import ddpm_network

    monkeypatch.setattr(ddpm_network, "CHAINS", 64)


def params_of(name, facts=None, goal=GOAL, **options):
    """What is offered, for small networks."""
    answer = catalogue()[name].offer(goal, facts or Facts(), SMALL | options)
    assert isinstance(answer, Offer), answer
    return answer.params


def kernel_for(name, params, seen=SEEN, noise=None):
    """A kernel that answers what the mechanism's event lists."""
    event = catalogue()[name].step(params, Facts()).event
    return kernel_of(seen, event, noise=noise, max_cases=params.max_cases)


@dataclass
class Watched:
    """A kernel that writes down the noisy sum of each step, in norms of a case's gradient."""

    kernel: object
    sums: list = field(default_factory=list)

    def steps(self, gradient, parameters, update, descent):
        """As the kernel's."""

        def watched(weights, mean):
            self.sums.append(mean * (descent.denominator / (descent.grid * descent.clip)))
            return update(weights, mean)

        return self.kernel.steps(gradient, parameters, watched, descent)

    def __getattr__(self, name):
        return getattr(self.kernel, name)


def sums_of(name, params, seen=SEEN, noise=None):
    """The noisy sum of each step of each phase."""
    watched = Watched(kernel_for(name, params, seen, noise))
    catalogue()[name].measure(params, watched)
    return watched.sums


def epsilon_shown(moved, deviations, delta):
    """Epsilon of normal noise of these ``deviations``, one a step, where a unit moves the sum of
    each by ``moved`` (Dong, Roth and Su 2022, corollary 3.3).
    """
    mu = float(np.sqrt(np.square(np.divide(moved, deviations)).sum()))
    return epsilon_of_normal(mu, delta)
