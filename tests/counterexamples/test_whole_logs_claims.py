"""What noise for units that come and go does not protect."""

from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.errors import PlanImpossible
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.mechanisms.base import Gives, Offer
from cloakwork.mechanisms.registry import OfPackage, Package
from cloakwork.mechanisms.timestamps.histogram import TimestampHistogram
from cloakwork.mechanisms.timestamps.tables import offered_params
from cloakwork.plan.choose import step_of
from cloakwork.plan.derive import derive
from cloakwork.plan.planner import make_plan
from plan.conftest import policy_of
from plan.toy_parts import NORM, PartParams, ToyTimes, with_toys

BOUNDED = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-6, over=(TIMESTAMPS,), neighbours="bounded"
)


class BoundedTimes(ToyTimes):
    """Times for raw cases, by noise for a case more or less: half of what other times need."""

    proof = "kernel"
    gives = (Gives("differential-privacy", TIMESTAMPS),)

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PartParams]:
        return Offer(PartParams(columns=(TIMESTAMPS,), sigma=4.0 * NORM), "noisy means")


def test_sums_over_cases_give_no_privacy_between_logs_of_other_times():
    """Other times of a unit are one case less and one more: the claim was over half the move."""
    mechanism = OfPackage(BoundedTimes(), Package("toy/times", "toys 1.0"))
    policy = policy_of(
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": CONTROL_FLOW},
            "time:timestamp": {"role": "timestamp"},
            "*": {"treatment": "drop"},
        },
        guarantees=[BOUNDED.model_dump(mode="json")],
        expose={CONTROL_FLOW: "public anyway", "metadata": "public anyway"},
        mechanisms={"allow": ["bound", "attributes/*", "toy/times"]},
    )
    with pytest.raises(PlanImpossible, match="one unit more or less"):
        make_plan(policy, catalogue=with_toys(mechanism))


def test_our_own_tables_give_none_either():
    """Steps that no planner made."""
    facts = Facts()
    params = offered_params(0.1, facts, {})
    step = step_of(TimestampHistogram(), params, facts, why="test", goals=(0,))
    found = derive([BOUNDED], [step], {TIMESTAMPS}, facts)
    assert not found.claims
    assert "one unit more or less" in found.causes[0].reason


def test_no_value_is_locally_private_that_says_which_cases_stay():
    """Of two cases of ward a one is released, of one of a and one of b both are."""
    policy = policy_of(
        unit={"attribute": "case:ward", "max_cases": 1},
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": CONTROL_FLOW},
            "case:ward": {"role": "sensitive", "domain": ["a", "b"]},
            "*": {"treatment": "drop"},
        },
        guarantees=[{"kind": "local-dp", "epsilon": 1.0, "over": ["case:ward"]}],
        expose={CONTROL_FLOW: "public anyway", "metadata": "public anyway"},
    )
    with pytest.raises(PlanImpossible, match="which cases are released follows from raw case:ward"):
        make_plan(policy)
