"""What the documentation of the language shows is true."""

import re

from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.lint import lint
from cloakwork.policy.load import list_policies, shipped
from cloakwork.policy.schema import with_reference

PAGE = shipped("policies").parent / "docs" / "policy-language.md"
TEXT = PAGE.read_text("utf-8")


def block(language: str) -> str:
    """The first block of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]


def test_the_reference_is_the_generated_one() -> None:
    assert with_reference(TEXT) == TEXT, "run python -m cloakwork.policy.schema"


def test_the_policy_shown_can_be_planned() -> None:
    policy = parse_policy(block("yaml"))
    assert len(make_plan(policy).claims) == 2
    first, second = lint(policy)
    assert "quasi-identifier" in first.message and "read times off 'case:age'" in second.message


def test_every_shipped_policy_is_mentioned() -> None:
    assert all(f"](../policies/{name}.yaml)" in TEXT for name in list_policies())
