"""A plan is proved from what it holds: nothing that was edited passes."""

import pytest

from cloakwork.errors import PlanMoved, PlanUnsound
from cloakwork.plan.planner import make_plan, prove
from cloakwork.policy.model import Policy


@pytest.mark.parametrize(
    "change", [{"policy_digest": "0" * 64}, {"claims": ()}, {"charges": ()}, {"steps": ()}]
)
def test_prove_refuses_an_edited_plan(dp_policy: Policy, change: dict[str, object]) -> None:
    """Whatever the plan states about itself is derived again."""
    with pytest.raises(PlanUnsound):
        prove(make_plan(dp_policy).model_copy(update=change))


def test_prove_refuses_less_noise(dp_policy: Policy) -> None:
    """A plan with half the noise and a matching event states a cost that its goal does not
    allow.
    """
    plan = make_plan(dp_policy)
    bound, threshold, redact = plan.steps
    weaker = threshold.model_copy(update={"params": threshold.params | {"scale": 0.5}})
    with pytest.raises(PlanUnsound):
        prove(plan.model_copy(update={"steps": (bound, weaker, redact)}))


def test_prove_names_a_missing_mechanism(dp_policy: Policy) -> None:
    """A plan made elsewhere with a mechanism that is not installed here is refused as such."""
    plan = make_plan(dp_policy)
    strange = plan.steps[1].model_copy(update={"mechanism": "variants/elsewhere"})
    with pytest.raises(PlanMoved, match="variants/elsewhere"):
        prove(plan.model_copy(update={"steps": (plan.steps[0], strange, plan.steps[2])}))
