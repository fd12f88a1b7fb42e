"""What the shape of guarantees and exposures cannot say: names that lead nowhere, and what is said
twice or contradicts itself.
"""

from collections.abc import Iterator
from typing import Final

from cloakwork.base.globs import is_glob
from cloakwork.guarantees import KINDS
from cloakwork.policy.content import (
    COLUMNS,
    Content,
    column_of,
    covered_columns,
    exposed_names,
    is_released,
    listed_guarantees,
    mapping_at,
    names_in_guarantees,
    rule_for,
)
from cloakwork.policy.document import RefusedValue, Steps, kind_of, shown_value
from cloakwork.policy.validation_messages import ShapeError, did_you_mean, value_at

_STRENGTHS: Final = frozenset(name for kind in KINDS.values() for name in kind.stricter_if)
"""The numbers that say how strong a guarantee is; all else says what it is about."""


def names_lead_somewhere(content: Content) -> Iterator[ShapeError]:
    """A guarantee or an exposure speaks of a column, or of an attribute that the policy declares
    and does not drop.
    """
    attributes = mapping_at(content, "spec", "attributes")
    names = [*COLUMNS, *(known for known in attributes if not is_glob(known))]
    for steps, name in names_in_guarantees(content):
        if isinstance(name, str) and is_glob(name):
            yield ShapeError(
                steps,
                (
                    f"names the glob {shown_value(name)}; "
                    "a guarantee covers columns, and attributes by name"
                ),
            )
    for steps, name in [*names_in_guarantees(content), *exposed_names(content)]:
        if isinstance(name, RefusedValue) or not isinstance(name, str):
            continue
        if is_released(content, name):
            continue
        guess = did_you_mean(name, names)
        lacking = "drops" if rule_for(content, name) else "does not declare"
        columns = f"{', '.join(COLUMNS)} or an attribute under spec.attributes"
        yield ShapeError(
            steps,
            f"names {shown_value(name)}, which the policy {lacking}{guess}",
            f"use {columns}",
            of_key=steps[-1] == name,
        )


def guarantees_are_said_once(content: Content) -> Iterator[ShapeError]:
    """Two guarantees of one kind over the same columns in the same sense: one of them is a slip."""
    first: dict[str, int] = {}
    for index, guarantee in enumerate(listed_guarantees(content)):
        if not isinstance(guarantee, dict) or not isinstance(guarantee.get("kind"), str):
            continue
        sense = {key: value for key, value in guarantee.items() if key not in _STRENGTHS}
        sense["over"] = sorted(str(name) for _, name in covered_columns(index, guarantee))
        written = repr(sorted(sense.items()))
        if written in first:
            message = (
                f"says {guarantee['kind']} of the same columns "
                f"as spec.guarantees[{first[written]}]; state one"
            )
            yield ShapeError(("spec", "guarantees", index), message)
        first.setdefault(written, index)


def columns_are_listed_once(content: Content) -> Iterator[ShapeError]:
    """A list of columns or of public values names each of them once."""
    lists: list[Steps] = [("spec", "assume", "alphabet")]
    for index in range(len(listed_guarantees(content))):
        lists.append(("spec", "guarantees", index, "over"))
    for name in mapping_at(content, "spec", "attributes"):
        lists.append(("spec", "attributes", name, "domain"))
    for steps in lists:
        values = value_at(content, steps)
        if not isinstance(values, list):
            continue
        seen: set[str] = set()
        for index, value in enumerate(values):
            # By its spelling, for to Python 1 equals 1.0 and true.
            if repr(value) in seen:
                yield ShapeError((*steps, index), f"repeats {shown_value(value)}")
            seen.add(repr(value))


def exposures_are_well_formed(content: Content) -> Iterator[ShapeError]:
    """Written as a list, ``expose`` holds {column, reason}, each column once."""
    listed = value_at(content, ("spec", "expose"))
    seen: set[str] = set()
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        steps = ("spec", "expose", index)
        if not isinstance(item, dict):
            yield ShapeError(steps, f"must be a mapping {{column, reason}} (got {kind_of(item)})")
            continue
        yield from _exposure_faults(item, steps)
        if str(item.get("column")) in seen:
            yield ShapeError((*steps, "column"), f"repeats {shown_value(item.get('column'))}")
        seen.add(str(item.get("column")))


def _exposure_faults(item: Content, steps: Steps) -> Iterator[ShapeError]:
    for key in item:
        if key not in ("column", "reason"):
            guess = did_you_mean(key, ["column", "reason"])
            yield ShapeError((*steps, key), f"unknown key {shown_value(key)}{guess}", of_key=True)
    for key, least in (("column", 1), ("reason", 3)):
        value = item.get(key)
        if key not in item:
            yield ShapeError((*steps, key), "is missing")
        elif not isinstance(value, RefusedValue) and not isinstance(value, str):
            yield ShapeError(
                (*steps, key), f"must be text; put it in quotes (got {kind_of(value)})"
            )
        elif len(value) < least:
            yield ShapeError(
                (*steps, key),
                f"must be at least {least} characters long (got {shown_value(value)})",
            )


def covered_columns_are_not_exposed(content: Content) -> Iterator[ShapeError]:
    """What a guarantee covers is not exposed; a policy cannot say both."""
    covered: dict[str, int] = {}
    for index, guarantee in enumerate(listed_guarantees(content)):
        for _, name in covered_columns(index, guarantee):
            covered.setdefault(column_of(content, name), index)
    for steps, name in exposed_names(content):
        column = column_of(content, name) if isinstance(name, str) else ""
        if column in covered:
            message = (
                f"exposes {shown_value(name)}, which spec.guarantees[{covered[column]}] covers"
            )
            yield ShapeError(steps, message, of_key=steps[-1] == name)
