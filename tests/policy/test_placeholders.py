"""Places that are still to be filled in."""

import json

import pytest

from cloakwork.errors import PolicyError
from cloakwork.plan.policies import parse_policy

TEXT = """apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: q, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  guarantees: [{kind: k-anonymity, k: 10, over: [control-flow]}]
  attributes:
    "concept:name": {role: control-flow}
    ward: {role: insensitive, treatment: drop, domain: [<a>, <b>]}
"""


def test_a_question_is_refused_at_its_place() -> None:
    """With the question, and nothing else about it."""
    text = TEXT.replace("owner: me", 'owner: "<who answers for it?>"')
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    message = "metadata.owner is still to be filled in: who answers for it?"
    assert str(caught.value) == f"p.yaml:3:44: {message}"


def test_a_question_in_place_of_a_list_is_one_fault() -> None:
    """That it is no list goes without saying."""
    text = TEXT.replace("domain: [<a>, <b>]", 'domain: "<which values?>"')
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert [problem.message.split(": ")[-1] for problem in caught.value.problems] == [
        "which values?"
    ]


def test_members_of_lists_are_values() -> None:
    """A log may hold anything."""
    rule = parse_policy(TEXT).rule("ward")
    assert rule is not None and rule.domain == ("<a>", "<b>")


@pytest.mark.parametrize("field", ["reason", "by"])
def test_a_waiver_s_question_is_refused(field: str) -> None:
    """Nobody has answered for what it silences."""
    said = {"rule": "small-k", "reason": "agreed", "by": "DPO", "expires": "2099-01-01"}
    said[field] = "<who or why?>"
    text = TEXT + f"  waivers: [{json.dumps(said)}]\n"
    with pytest.raises(PolicyError, match=rf"waivers\[0\].{field} is still to be filled in: who"):
        parse_policy(text)
