"""Public rules of a process: what contradicts itself is refused, and what they say."""

from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from cloakwork.base.facts import ProcessRules


def rules(**stated: Any) -> ProcessRules:
    return ProcessRules.model_validate(stated)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({}, "needs a rule"),
        ({"never_together": [["a", "a"]]}, "names an activity twice: 'a' and 'a'"),
        ({"before": [["a", "a"]]}, "no case can have 'a': by before it must follow itself"),
        ({"before": [["a", "b"], ["b", "a"]]}, "no case can have 'a'"),
        ({"before": [["a", "b"], ["b", "c"], ["c", "a"]]}, "it must follow itself"),
        ({"starts_with": ["b"], "before": [["a", "b"]]}, "no case can begin with 'b'"),
        ({"before": [["a", "b"]], "never_together": [["a", "b"]]}, "no case can have 'b'"),
        (
            {"before": [["a", "b"], ["b", "c"]], "never_together": [["a", "c"]]},
            "no case can have 'c': what must come with it, never_together rules out",
        ),
        ({"starts_with": ["a"], "never_together": [["a", "b"]]}, "no case can have 'b'"),
    ],
)
def test_what_contradicts_itself_is_refused(stated: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        rules(**stated)


@pytest.mark.parametrize(
    "stated",
    [
        {"starts_with": ["a", "b"], "never_together": [["a", "b"]]},
        {"starts_with": ["a", "b"], "never_together": [["a", "c"]]},
        {"before": [["a", "b"], ["a", "c"]], "never_together": [["b", "c"]]},
        {"starts_with": ["a"], "before": [["a", "b"]], "at_most_once": ["a", "b"]},
    ],
)
def test_what_is_accepted_some_case_keeps_with_each_activity(stated: Any) -> None:
    """So nothing was accepted under which an activity never happens; by exhaustion."""
    found = rules(**stated)
    kept = [case for length in (1, 2, 3) for case in product("abc", repeat=length)]
    kept = [case for case in kept if found.keeps(case)]
    assert {label for case in kept for label in case} >= set(found.labels())


@pytest.mark.parametrize(
    ("case", "keeps"),
    [
        ("ax", True),
        ("xa", False),
        ("aobo", False),
        ("aob", True),
        ("asf", True),
        ("afs", False),
        ("aff", False),
        ("alr", False),
        ("all", True),
        ("", True),
    ],
)
def test_each_rule_says_what_it_says(case: str, keeps: bool) -> None:
    found = rules(
        starts_with=["a"], at_most_once=["o"], before=[["s", "f"]], never_together=[["l", "r"]]
    )
    assert found.keeps(tuple(case)) is keeps
    assert len(list(found.in_words())) == 4


def test_long_chains_of_rules_are_judged_at_once() -> None:
    """What comes before each activity is found along the rules that name it, not along all: a file
    of a thousand would else hold up whoever opens it.
    """
    chain = [[f"a{place}", f"a{place + 1}"] for place in range(1000)]
    assert len(rules(before=chain).labels()) == 1001
    with pytest.raises(ValidationError, match="'a0': by before it must follow itself"):
        rules(before=[*chain, ["a1000", "a0"]])
    with pytest.raises(ValidationError, match="'a1000': what must come with it, never_together"):
        rules(before=chain, never_together=[["a1000", "a0"]])
