"""The attack on membership by the name of a mechanism."""

import pytest

from cloakwork.errors import MechanismError
from cloakwork.evaluation.membership import attack_membership
from cloakwork.testing.contract_logs import log_of

LOG = log_of(["ab"] * 20 + ["acb"] * 5)


def test_declared_facts_and_options_reach_the_mechanism() -> None:
    """A mechanism that needs some, with the claim beside it."""
    found = attack_membership(
        "variants/prefix-tree",
        LOG,
        epsilon=2.0,
        delta=1e-3,
        runs=20,
        options={"noise": "laplace"},
        alphabet=("a", "b", "c"),
        longest_case=3,
    )
    assert found.mechanism == "variants/prefix-tree"
    assert found.claimed is not None
    assert (found.claimed.epsilon, found.claimed.basis) == (2.0, "derived")


def test_what_the_mechanism_refuses_is_said() -> None:
    with pytest.raises(MechanismError, match="delta"):
        attack_membership("variants/threshold", LOG, epsilon=1.0, delta=0.0, runs=20)
