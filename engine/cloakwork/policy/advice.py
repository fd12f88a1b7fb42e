"""What advice on a policy consists of, and which rules give it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from cloakwork.policy.document import Steps

Level = Literal["warning", "note"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice about the value at a path.

    ``rule``: the id of the rule that gives it, which does not change from version to version.
    ``level``: *warning* where people may be protected less than the author thinks, or planning will
    refuse; *note* for anything else.
    """

    steps: Steps
    message: str
    rule: str = ""
    level: Level = "warning"


@dataclass(frozen=True, slots=True)
class AdviceRule:
    """What a rule is about, in one sentence, and how serious it is."""

    level: Level
    says: str


POLICY_RULES: Final[dict[str, AdviceRule]] = {
    "purpose-not-stated": AdviceRule("warning", "What the release is for is not stated."),
    "homogeneous-groups": AdviceRule(
        "warning", "A sensitive attribute is released beside k-anonymity alone."
    ),
    "small-k": AdviceRule("warning", "k is small."),
    "weak-closeness": AdviceRule("warning", "t-closeness asks nothing of numbers."),
    "identifier-of-events": AdviceRule(
        "warning", "An identifier of events shows which events were inserted."
    ),
    "pseudonyms": AdviceRule("warning", "Pseudonyms keep the frequencies of values."),
    "uncovered-quasi-identifier": AdviceRule(
        "warning", "A quasi-identifier is released and covered by no guarantee."
    ),
    "person-without-unit": AdviceRule(
        "warning", "Cases are protected, where one person may own several."
    ),
    "cases-counted-for-units": AdviceRule(
        "warning", "k counts cases, where one unit may own several."
    ),
    "large-epsilon": AdviceRule("warning", "epsilon is large."),
    "large-delta": AdviceRule("warning", "delta is larger than planning accepts."),
    "no-delta": AdviceRule("warning", "Differential privacy over the control flow needs a delta."),
    "no-total": AdviceRule("warning", "Nothing limits what all releases cost together."),
    "short-reason": AdviceRule("note", "The reason for an exposure says little."),
    "idle-exposure": AdviceRule("note", "An exposed attribute is dropped."),
    "shallow-branch": AdviceRule("warning", "A value has no group at the level that is asked for."),
    "missing-role": AdviceRule("warning", "No attribute has a role that planning needs."),
    "undeclared-attributes": AdviceRule(
        "note", "What happens to attributes that are not listed is not said."
    ),
    "values-not-declared": AdviceRule(
        "warning", "An attribute is drawn anew, and its values are not declared."
    ),
    "values-not-used": AdviceRule("note", "Declared values are used by no guarantee."),
    "windows-and-facts": AdviceRule("note", "Windows of a growing log change what a key means."),
    "clock-beside-noised-times": AdviceRule(
        "warning", "A column is released that may tell times, beside times under noise."
    ),
    "little-left": AdviceRule("note", "Under these parameters little of a log is left."),
    "undeclared-facts": AdviceRule("note", "Declaring public facts would keep more."),
    "unproven-mechanisms": AdviceRule("warning", "Mechanisms without a proof are accepted."),
    "invisible-characters": AdviceRule("warning", "A text holds characters that nobody sees."),
}
"""The rules that look at the policy alone."""

LOG_RULES: Final[dict[str, AdviceRule]] = {
    "input-of-log": AdviceRule("warning", "The log seems to be written otherwise than stated."),
    "attribute-not-in-log": AdviceRule("warning", "The log lacks an attribute that is named."),
    "glob-releases-attribute": AdviceRule(
        "warning", "A glob releases an attribute that nobody named."
    ),
    "revealing-attribute": AdviceRule(
        "warning", "An attribute that singles out people or cases is released as it is."
    ),
}
"""The rules that look at a log, too."""

LEDGER_RULES: Final[dict[str, AdviceRule]] = {
    "dataset-unit": AdviceRule("warning", "The dataset is declared with another unit."),
    "dataset-windows": AdviceRule("warning", "The dataset has other windows."),
    "dataset-total": AdviceRule("note", "A smaller total than the policy's binds the dataset."),
}
"""The rules that look at the ledger, too."""

WAIVER_RULES: Final[dict[str, AdviceRule]] = {
    "waiver-expired": AdviceRule("warning", "A waiver has expired."),
    "waiver-unused": AdviceRule("note", "A waiver silences nothing."),
}
"""What is said of waivers; it cannot be waived."""

ADVICE_RULES: Final[dict[str, AdviceRule]] = {
    **POLICY_RULES,
    **LOG_RULES,
    **LEDGER_RULES,
    **WAIVER_RULES,
}


def named_advice(rule: str, found: Iterable[Advice]) -> Iterator[Advice]:
    """The advice that the rule with this id gives."""
    for advice in found:
        yield replace(advice, rule=rule, level=ADVICE_RULES[rule].level)
