"""A plan is proved from what it holds: nothing that was edited passes."""

import itertools

import pytest

from cloakwork.base.records import agree, stated
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


@pytest.mark.parametrize("share", [1e-15, 1e-11])
def test_prove_forgives_the_last_bits_alone(dp_policy: Policy, share: float) -> None:
    """What another C library, or version of Python, computes; it verified nothing of another's."""
    plan = make_plan(dp_policy)
    bound, threshold, redact = plan.steps
    params = threshold.params | {"scale": threshold.params["scale"] * (1 + share)}
    moved = threshold.model_copy(update={"params": params})
    assert moved != threshold
    elsewhere = plan.model_copy(update={"steps": (bound, moved, redact)})
    if share == 1e-15:
        assert prove(elsewhere) == plan.claims
    else:
        with pytest.raises(PlanUnsound, match="about steps"):
            prove(elsewhere)


def test_different_statements_do_not_agree() -> None:
    """Pairs in a list are no mapping, and what is left out differs."""
    held: list[object] = [{"a": 1.0}, [["a", 1.0]], [{"a": 1.0}], {"a": "1"}, {"b": 1.0}, {}, []]
    for one, other in itertools.permutations(map(stated, held), 2):
        assert not agree(one, other)


def test_prove_names_a_missing_mechanism(dp_policy: Policy) -> None:
    """A plan made elsewhere with a mechanism that is not installed here is refused as such."""
    plan = make_plan(dp_policy)
    strange = plan.steps[1].model_copy(update={"mechanism": "variants/elsewhere"})
    with pytest.raises(PlanMoved, match="variants/elsewhere"):
        prove(plan.model_copy(update={"steps": (plan.steps[0], strange, plan.steps[2])}))
