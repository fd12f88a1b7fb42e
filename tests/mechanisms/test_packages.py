"""Mechanisms of other packages in joint goals."""

from typing import Any

import pytest

from cloakwork.base.facts import Facts
from cloakwork.errors import MechanismError
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.kanon.pretsa import Pretsa
from cloakwork.mechanisms.registry import OfPackage, Package
from cloakwork.plan.planner import make_plan
from plan.conftest import policy_of
from plan.test_joint import spec
from plan.toy_parts import ToyAttributes, ToyTimes, with_toys

PACKAGE = Package("toy/times", "toys 1.0")


class KernelTimes(ToyTimes):
    """Times of another package."""

    proof = "kernel"


def test_another_package_serves_a_part_of_a_joint_goal() -> None:
    """Where the policy names it; its offer names the package."""
    allowed = ["bound", "variants/*", "attributes/*", "toy/times", "toy/attributes"]
    toys = OfPackage(KernelTimes(), PACKAGE), ToyAttributes()
    plan = make_plan(policy_of(**spec(mechanisms={"allow": allowed})), catalogue=with_toys(*toys))
    (step,) = (step for step in plan.steps if step.mechanism == "toy/times")
    assert step.why.endswith("(package toys 1.0)")


def test_what_it_offers_for_a_part_is_watched() -> None:
    class Failing(KernelTimes):
        def offer_part(self, *asked: Any) -> Any:
            raise KeyError("a fault")

    class OtherParams(KernelTimes):
        def offer_part(self, *asked: Any) -> Any:
            return Offer("none", "says so")  # type: ignore[type-var]

    for twin, said in ((Failing(), "offer_part failed: KeyError"), (OtherParams(), "not Part")):
        with pytest.raises(MechanismError, match=said):
            OfPackage(twin, PACKAGE).offer_part(PartOfGoal(("timestamps",), 1.0, 0.0), Facts(), {})
    refused = OfPackage(Pretsa(), PACKAGE).offer_part(PartOfGoal((), 1.0, 0.0), Facts(), {})
    assert isinstance(refused, Refusal)
