"""A policy that buys a DP profile, and a log for it."""

from typing import Any

from cloakwork.policy.model import Policy
from contracts.sample_logs import log_of
from plan.conftest import policy_of

SHARE = {"epsilon": 0.2, "delta": 1e-7, "activities_per_case": 3}

LOG = log_of([["a", "b"]] * 9000 + [["a", "c", "c", "b"]] * 3000 + [["rare"]])
"""So large that noise of scale 30 hides none of its activities but "rare", save with a probability
of e**-80.
"""


def buying(**spec: Any) -> Policy:
    return policy_of(
        **({"profile": SHARE, "budget": {"total": {"epsilon": 3.0, "delta": 1e-5}}} | spec)
    )
