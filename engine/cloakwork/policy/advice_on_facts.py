"""Advice on what a policy declares public: what a guarantee over a whole log needs, and what none
uses.
"""

from collections.abc import Iterator
from typing import Final

from cloakwork.base.facts import CASE, unit_name
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.policy.advice import Advice
from cloakwork.policy.explain import is_released
from cloakwork.policy.model import Policy

FOUND_SHARE: Final = "a fifth"
"""What finding values takes, in words, unless an option says else."""


def missing_values(policy: Policy) -> Iterator[Advice]:
    """Where attributes are drawn anew, the values that they may have have to be declared."""
    for index, goal in enumerate(policy.spec.guarantees):
        if isinstance(goal, DifferentialPrivacy) and goal.covers_whole_log():
            for place, name in enumerate(goal.over):
                message = _lacking(policy, policy.column(name))
                if message is not None:
                    yield Advice(("spec", "guarantees", index, "over", place), message)


def _lacking(policy: Policy, column: str) -> str | None:
    """What is not declared of a column that is drawn anew; None where nothing is missing."""
    rule = policy.spec.attributes.get(column)
    if rule is None or column in (CONTROL_FLOW, TIMESTAMPS, METADATA):
        return None
    if column == policy.spec.unit.attribute:
        return f"'{column}' says who is protected, and no released case is anybody's: leave it out"
    if rule.role == "identifier":
        return f"'{column}' is an identifier, and has no values that are public: leave it out"
    if rule.find_values:
        return (
            f"the values of '{column}' are found through noise, which takes "
            f"{FOUND_SHARE} of what attributes are measured with, and loses values of few cases; "
            "declare its domain if it is known without the log"
        )
    if rule.domain is None and rule.range is None:
        return (
            f"which values '{column}' may have must be public: give it a domain: [low, high], "
            "or for numbers a range: [0, 100]; if they are not, find_values: true finds those "
            "that many cases have, at a price"
        )
    return None


def windows_and_facts(policy: Policy) -> Iterator[Advice]:
    """What windows of a growing log make of other keys."""
    spec = policy.spec
    if spec.budget.windows is None:
        return
    if spec.assume.window is not None:
        message = "it is not used: a case starts in the window that 'cloakwork apply' names"
        yield Advice(("spec", "assume", "window"), message)
    if unit_name(spec.unit) != CASE:
        message = (
            f"one '{spec.unit.attribute}' may have cases in every window, so all windows share "
            "one total: it has to last for as many releases as are planned"
        )
        yield Advice(("spec", "budget", "windows"), message)


def unused_values(policy: Policy) -> Iterator[Advice]:
    """Values are declared for a guarantee; without one the attribute is dropped, unnoticed."""
    for name, rule in policy.spec.attributes.items():
        is_declared = rule.find_values or rule.domain is not None or rule.range is not None
        if is_declared and rule.treatment is None and not is_released(policy, name):
            message = (
                f"the values of '{name}' are declared, but no guarantee covers it, so it is "
                "dropped: name it under over, or say treatment: drop"
            )
            yield Advice(("spec", "attributes", name), message)
