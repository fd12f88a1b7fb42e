"""What a release holds, by the actual names of its attributes, and the rule of the plan that each
of them follows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, Literal

import polars as pl
from pydantic import Field

from cloakwork.base.globs import is_glob
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import Frozen
from cloakwork.guarantees.claims import ConditionedOn
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.plan.model import RELEASED, Plan, TreatedAttribute

Family = Literal["xes", "csv", "parquet"]
Scope = Literal["case", "event"]
HeldAttributes = dict[tuple[Scope, str], bool]
"""The attributes of a log, and whether they have a value."""
Treatment = Literal["keep", "pseudonymise", "generalise", "protect", "replace"]

_ROLES: Final = {ACTIVITY: CONTROL_FLOW, TIMESTAMP: TIMESTAMPS, CASE_ID: METADATA}
"""The columns that a released log names by their role, whatever the source called them."""


class ReleasedColumn(Frozen):
    """One attribute of the released log, and the rule of the policy that released it."""

    name: Annotated[
        str, Field(description="As the released log names it; case attributes begin with case:")
    ]
    scope: Annotated[Literal["case", "event"], Field(description="Whether cases or events have it")]
    treatment: Annotated[Treatment, Field(description="What was done to its values")]
    rule: Annotated[
        str | None,
        Field(description="The policy's name or pattern that it follows; null for case ids"),
    ]


def released_columns(log: LogHandle, plan: Plan) -> tuple[ReleasedColumn, ...]:
    """Every attribute that the released ``log`` holds, case attributes first, each part in
    alphabetical order.

    Raises ValueError where an attribute follows no rule of ``plan`` that releases it.
    """
    held = held_attributes(log)
    return tuple(_released_column(scope, name, plan) for scope, name in names_in(held, plan))


def held_attributes(log: LogHandle) -> HeldAttributes:
    """The attributes of all batches, and which of them have a value in some batch."""
    return merged_attributes(log.each_batch(lambda _, batch: attributes_of(batch)))


def attributes_of(batch: EventLog) -> HeldAttributes:
    """The attributes of one batch, and which of them have a value there."""
    return {
        (scope, name): _has_value(values_of(table, name))
        for scope, table in _tables(batch)
        for name in table.columns
    }


def merged_attributes(found: Iterable[HeldAttributes]) -> HeldAttributes:
    """The attributes of several batches: one that has a value in some batch has a value."""
    merged: HeldAttributes = {}
    for held in found:
        for attribute, has_value in held.items():
            merged[attribute] = merged.get(attribute, False) or has_value
    return merged


def _tables(log: EventLog) -> tuple[tuple[Scope, pl.DataFrame], ...]:
    return ("case", log.cases), ("event", log.events)


def names_in(held: HeldAttributes, plan: Plan) -> Iterator[tuple[Scope, str]]:
    """The attributes that the files of a log hold: XES writes none that has no value, tables name
    them all.
    """
    tables = plan.policy.spec.output.format.startswith(("csv", "parquet"))
    for scope, name in sorted(held):
        unreleased_time = name == TIMESTAMP and TIMESTAMPS not in plan.released
        if held[scope, name] or (tables and not unreleased_time):
            yield scope, name


def _has_value(values: pl.Series) -> bool:
    if values.dtype == pl.String:
        return bool((values.fill_null("") != "").any())
    return values.null_count() < len(values)


def _released_column(scope: Scope, name: str, plan: Plan) -> ReleasedColumn:
    """The entry for an attribute under the rule that it follows."""
    if name == CASE_ID:
        has_rule = any(item.attribute == CASE_ID for item in plan.attributes)
        own_rule = CASE_ID if has_rule else None
        return ReleasedColumn(name=name, scope=scope, treatment="replace", rule=own_rule)
    rule = _rule_of(name, plan)
    if rule is None or rule.treatment not in RELEASED:
        raise ValueError(f"no rule of the plan releases {name!a}")
    return ReleasedColumn.model_validate(
        {"name": name, "scope": scope, "treatment": rule.treatment, "rule": rule.attribute}
    )


def _rule_of(name: str, plan: Plan) -> TreatedAttribute | None:
    """The rule that decides about a released attribute: by its role, else by its name."""
    if name in _ROLES:
        return next((item for item in plan.attributes if item.column == _ROLES[name]), None)
    return plan.treated(name)


def column_mismatches(
    held: HeldAttributes, plan: Plan, listed: Sequence[ReleasedColumn]
) -> Iterator[str]:
    """Why the attributes of a released log are not those that its statement lists, or do not follow
    from the plan.
    """
    found = set()
    for scope, name in names_in(held, plan):
        try:
            found.add(_released_column(scope, name, plan))
        except ValueError as error:
            yield f"it holds {name!a}, and {error}"
    for column in sorted(found - set(listed), key=_sort_key):
        yield f"it holds {column.name!a} ({column.treatment}), which the statement does not list so"
    for column in sorted(set(listed) - found, key=_sort_key):
        yield f"the statement lists {column.name!a} ({column.treatment}), which it does not hold so"


def _sort_key(column: ReleasedColumn) -> tuple[str, str]:
    return column.scope, column.name


def names_of(column: str, plan: Plan, released: Iterable[ReleasedColumn]) -> tuple[str, ...]:
    """The actual attributes that a column of the plan stands for, be it a name or a pattern."""
    rules = {item.attribute for item in plan.attributes if item.column == column}
    return tuple(item.name for item in released if item.rule in rules and item.name not in _ROLES)


def absent_attributes(plan: Plan, released: Iterable[ReleasedColumn]) -> tuple[str, ...]:
    """The attributes that the plan releases by name and the released log does not have."""
    found = {item.rule for item in released} | {item.name for item in released}
    released_by_name = [
        item.attribute
        for item in plan.attributes
        if item.treatment in RELEASED and not is_glob(item.attribute)
    ]
    return tuple(name for name in released_by_name if name not in found)


def given_by_name(
    given: ConditionedOn | None, plan: Plan, released: Sequence[ReleasedColumn]
) -> ConditionedOn | None:
    """What a claim takes as known, with the actual attributes in place of the policy's names and
    patterns.
    """
    if given is None:
        return None
    names: list[str] = []
    for column in given.columns:
        if column in (CONTROL_FLOW, METADATA):
            names.append(column)
        else:
            names += names_of(column, plan, released)
    return given.model_copy(update={"columns": tuple(dict.fromkeys(names))})
