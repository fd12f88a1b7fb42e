"""Policy in, plan or causes out: one fixture a rule, in ``cases/``."""

from pathlib import Path

import pytest
import yaml

from cloakwork.base.lineage import CONTROL_FLOW, METADATA
from cloakwork.errors import PlanImpossible
from cloakwork.mechanisms.base import Gives
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan, prove
from cloakwork.plan.policies import load_shipped
from plan.conftest import policy_of

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    """The policy is planned with the expected steps, claims and exposures, or refused with the
    expected causes.
    """
    case = yaml.safe_load(path.read_text("utf-8"))
    policy = policy_of(**case["spec"])
    expected = case["expect"]
    if "causes" in expected:
        with pytest.raises(PlanImpossible) as refused:
            make_plan(policy)
        found = [str(cause) for cause in refused.value.causes]
        assert len(expected["causes"]) == len(found), found
        for wanted, cause in zip(expected["causes"], found, strict=True):
            assert wanted in cause
        return
    plan = make_plan(policy)
    assert expected["steps"] == [step.mechanism for step in plan.steps]
    assert expected["claims"] == [claim.guarantee.kind for claim in plan.claims]
    assert expected.get("exposed", ["metadata"]) == [item.column for item in plan.exposed]
    assert expected.get("given", []) == sorted(
        {column for claim in plan.claims if claim.given for column in claim.given.columns}
    )
    assert plan.claims == prove(plan)


MEASURING = sorted(
    name
    for name, mechanism in catalogue().items()
    if mechanism.proof == "proved"
    and Gives("differential-privacy", CONTROL_FLOW) in mechanism.gives
)


@pytest.mark.parametrize("name", MEASURING)
def test_a_plan_is_the_same_when_it_is_read_again(name: str) -> None:
    """Whatever noise it is of: a figure that no file can hold ended a release, charged already."""
    assume = {"alphabet": ["a", "b"], "longest_case": 5}
    plan = make_plan(policy_of(mechanisms={"allow": [name]}, assume=assume))
    assert [step.mechanism for step in plan.steps][1:2] == [name]
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_what_the_form_of_a_release_shows_is_said_with_who_changes_it() -> None:
    """Events that are inserted or taken out, and missing values that change places, show no longer
    as in the source.
    """
    plan = make_plan(load_shipped("kanon-t-closeness"))
    (exposure,) = [item for item in plan.exposed if item.column == METADATA]
    assert exposure.reason.endswith(", except for what kanon/optimal and kanon/closeness change")


def test_there_are_cases() -> None:
    """The folder of fixtures was found."""
    assert len(CASES) >= 12
