"""What stands in a policy document, asked of its plain values.

A document may have any shape here: what is absent or of another shape counts as empty.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from cloakwork.base.globs import RuleResolver
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import KINDS, PrivacyGuarantee
from cloakwork.policy.document import Steps
from cloakwork.policy.validation_messages import value_at

COLUMNS: Final = (CONTROL_FLOW, TIMESTAMPS, METADATA)
COLUMN_ROLES: Final = {"control-flow": CONTROL_FLOW, "timestamp": TIMESTAMPS}

Content = Mapping[str, Any]


class PolicyContent(dict[str, Any]):
    """A document, and which of its rules decides about a name."""

    @cached_property
    def resolver(self) -> RuleResolver[Any]:
        """Over the rules as they are written, whatever they are."""
        return RuleResolver(mapping_at(self, "spec", "attributes"))


def mapping_at(content: Any, *steps: str) -> dict[str, Any]:
    """The mapping at a path."""
    found = value_at(content, steps)
    return found if isinstance(found, dict) else {}


def rule_for(content: Content, name: str) -> dict[str, Any]:
    """The rule for a name, as ``Policy.rule_of`` finds it; empty when undeclared."""
    known = content if isinstance(content, PolicyContent) else PolicyContent(content)
    rule = known.resolver.rule_of(name)
    return rule if isinstance(rule, dict) else {}


def column_of(content: Content, name: str) -> str:
    """The column of an attribute: that of its role, else its own name."""
    return COLUMN_ROLES.get(str(rule_for(content, name).get("role")), name)


def is_released(content: Content, name: str) -> bool:
    """Whether ``name`` is a column, or an attribute that the policy declares and does not drop."""
    if name in COLUMNS or name in mapping_at(content, "spec", "attributes"):
        return True
    rule = rule_for(content, name)
    return bool(rule) and rule.get("treatment") != "drop"


def listed_guarantees(content: Content) -> list[Any]:
    """The guarantees as they are written."""
    found = value_at(content, ("spec", "guarantees"))
    return found if isinstance(found, list) else []


def covered_columns(index: int, guarantee: Any) -> Iterator[tuple[Steps, str]]:
    """The columns that a guarantee covers, written or by default."""
    if not isinstance(guarantee, dict):
        return
    kind = KINDS.get(str(guarantee.get("kind")), PrivacyGuarantee)
    for place, name in kind.columns_as_written(guarantee):
        yield ("spec", "guarantees", index, *place), name


def names_in_guarantees(content: Content) -> Iterator[tuple[Steps, str]]:
    """The columns that any guarantee covers, with their paths."""
    for index, guarantee in enumerate(listed_guarantees(content)):
        yield from covered_columns(index, guarantee)


def exposed_names(content: Content) -> Iterator[tuple[Steps, Any]]:
    """The columns under ``expose``, with the paths that name them; mapping or list."""
    expose = value_at(content, ("spec", "expose"))
    if isinstance(expose, dict):
        for name in expose:
            yield ("spec", "expose", name), name
    elif isinstance(expose, list):
        for index, item in enumerate(expose):
            if isinstance(item, dict):
                yield ("spec", "expose", index, "column"), item.get("column")
