"""A minimal policy that the plan tests vary."""

from typing import Any

import pytest

from cloakwork.policy.model import Policy

ATTRIBUTES = {
    "case:concept:name": {"role": "identifier"},
    "concept:name": {"role": "control-flow"},
    "*": {"treatment": "drop"},
}
DP = {"kind": "differential-privacy", "epsilon": 1.0, "delta": 1e-6, "over": ["control-flow"]}
KANON = {"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}


def policy_of(**spec: Any) -> Policy:
    """A valid policy with the given parts of ``spec``."""
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {"name": "p", "version": "1.0.0", "owner": "o", "purpose": "t", "dataset": "d"},
        "spec": {"attributes": ATTRIBUTES, "guarantees": [DP], **spec},
    }
    return Policy.model_validate(document)


@pytest.fixture
def dp_policy() -> Policy:
    """Differential privacy over the control flow, nothing else."""
    return policy_of()
