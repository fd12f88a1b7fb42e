"""What the passes say about the release beside its claims."""

import pytest

from cloakwork.lineage import METADATA
from cloakwork.plan.planner import make_plan
from cloakwork.policy.library import load_shipped
from cloakwork.policy.model import Policy


def with_option(policy: Policy, mechanism: str, **options: object) -> Policy:
    """The policy with options of one mechanism."""
    mechanisms = policy.spec.mechanisms
    changed = mechanisms.model_copy(update={"parameters": {**mechanisms.parameters, mechanism: options}})
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"mechanisms": changed})})


@pytest.mark.parametrize(
    ("options", "changing"),
    [({}, "kanon/auto changes"), ({"missing": "fill"}, "kanon/auto and kanon/closeness change")],
)
def test_what_the_form_of_a_release_shows_is_said_with_who_changes_it(options: dict[str, str], changing: str) -> None:
    """Events that are inserted or taken out, and values that are filled in, show no longer as in the source."""
    plan = make_plan(with_option(load_shipped("kanon-t-closeness"), "kanon/closeness", **options))
    (exposure,) = [item for item in plan.exposed if item.column == METADATA]
    assert exposure.reason.endswith(f", except for what {changing}")


def test_a_claim_about_whole_cases_covers_the_form() -> None:
    """Noise covers how many cases there are."""
    assert METADATA not in {item.column for item in make_plan(load_shipped("dp-control-flow")).exposed}
