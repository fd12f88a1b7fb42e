"""Public rules of a process in a plan: an assumption of the claim, and refused where they bind
nothing.
"""

from pathlib import Path

import pytest

from cloakwork.errors import PlanImpossible, PolicyError
from cloakwork.plan.planner import make_plan, plan_text
from cloakwork.plan.sentences import assumptions_in_words
from plan.conftest import KANON, policy_of

RULES = {"starts_with": ["a"], "before": [["b", "c"]]}
SHIPPED = Path(__file__).parents[2] / "policies" / "dp-control-flow.yaml"


def test_rules_are_an_assumption_of_the_claim_and_cost_nothing() -> None:
    plain = make_plan(policy_of())
    plan = make_plan(policy_of(assume={"rules": RULES}))
    (claim,) = plan.claims
    said = " ".join(assumptions_in_words(claim))
    assert (
        "it is public, and not read off the log, that each case begins with 'a' and 'c' never "
        "happens unless 'b' happened before; no drawn case breaks this"
    ) in said
    assert plan.charges == plain.charges
    assert plan.policy_digest != plain.policy_digest


def test_where_no_case_is_drawn_they_are_refused_at_their_place() -> None:
    policy = policy_of(guarantees=[KANON], assume={"rules": RULES})
    with pytest.raises(PlanImpossible) as caught:
        make_plan(policy)
    (cause,) = caught.value.causes
    assert cause.where == ("spec", "assume", "rules")
    assert cause.reason.endswith("none draws any; leave them out")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("{before: [[a, b], [b, a]]}", "no case can have 'a': by before it must follow itself"),
        ("{starts_with: [x]}", "names 'x', which assume.alphabet lacks"),
        ("{start_with: [a]}", "did you mean 'starts_with'?"),
        ("{before: [[a, b, a]]}", "rules.before[0]"),
        ("{starts_with: a}", "must be a list, such as [Register] (got 'a')"),
        ("{before: [a]}", "before[0] must be a list, such as [Register, Discharge] (got 'a')"),
        ("{never_together: a}", "must be a list, such as [[Discharge, Die]] (got 'a')"),
        ("{}", "needs a rule"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_column(rules: str, says: str) -> None:
    text = SHIPPED.read_text("utf-8")
    text = text.replace("spec:\n", f"spec:\n  assume:\n    alphabet: [a, b]\n    rules: {rules}\n")
    line = text[: text.index("    rules:")].count("\n") + 1
    with pytest.raises(PolicyError) as caught:
        plan_text(text, "policy.yaml")
    (problem,) = caught.value.problems
    assert says in str(problem)
    assert problem.line == line
    assert problem.column is not None
