"""How far a version must rise."""

import pytest

from cloakwork.plan.policies import load_shipped
from cloakwork.policy.diff import diff, version_step
from cloakwork.policy.model import Policy
from policy.edits import Edit, edited, goal, put

LOOSER, TIGHTER = goal(k=9), goal(k=11)
OTHER = put("output", {"format": "csv"})


def versioned(policy: Policy, version: str, name: str = "p") -> Policy:
    """The policy under another name and version."""
    metadata = policy.metadata.model_copy(update={"version": version, "name": name})
    return policy.model_copy(update={"metadata": metadata})


@pytest.mark.parametrize(
    ("edits", "old", "new", "at_least", "enough"),
    [
        ((LOOSER,), "1.2.3", "2.0.0", "2.0.0", True),
        ((LOOSER,), "1.2.3", "2.0.0-rc.1", "2.0.0", True),
        ((LOOSER,), "1.2.3", "1.9.9", "2.0.0", False),
        ((LOOSER,), "1.2.3", "1.2.3", "2.0.0", False),
        ((LOOSER, OTHER), "1.2.3", "1.2.4", "2.0.0", False),
        ((TIGHTER,), "1.2.3", "1.3.0", "1.3.0", True),
        ((TIGHTER,), "1.9.3", "1.10.0", "1.10.0", True),
        ((TIGHTER,), "1.2.3", "1.2.4", "1.3.0", False),
        ((OTHER,), "1.2.3", "1.2.4", "1.2.4", True),
        ((OTHER,), "1.2.3", "1.2.3", "1.2.4", False),
        ((OTHER,), "1.2.3", "1.2.2", "1.2.4", False),
        ((LOOSER,), "2.0.0-rc.1", "2.0.0-rc.2", "2.0.0", True),
        ((LOOSER,), "2.0.0-rc.9", "2.0.0-rc.10", "2.0.0", True),
        ((LOOSER,), "2.0.0-rc.2", "2.0.0", "2.0.0", True),
        ((LOOSER,), "2.0.0-rc.2", "2.0.0-rc.1", "2.0.0", False),
        ((OTHER,), "2.0.0", "2.0.0-rc.1", "2.0.1", False),
        ((), "1.0.0", "1.0.1", None, True),
    ],
)
def test_the_version_must_rise_as_far_as_the_changes_need(
    edits: tuple[Edit, ...], old: str, new: str, at_least: str | None, enough: bool
) -> None:
    before = versioned(load_shipped("kanon-control-flow"), old)
    after = versioned(edited("kanon-control-flow", *edits), new)
    step = version_step(before, after, diff(before, after))
    assert (step.at_least, step.is_enough) == (at_least, enough)


def test_policies_of_different_names_have_versions_of_their_own() -> None:
    before = versioned(load_shipped("kanon-control-flow"), "1.0.0")
    after = versioned(edited("kanon-control-flow", LOOSER), "1.0.0", "another")
    assert version_step(before, after, diff(before, after)).bump is None
