"""From a plan to the statement of its release: the plan's records under the actual names of the
released attributes, and a sentence for each.

The sentences (``Prose``) are for people who read the JSON without Cloakwork. They are not
compared, and whoever shows a statement shows ``reworded_statement`` of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import polars as pl

from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.globs import is_glob
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.base.records import without_prose
from cloakwork.guarantees.claims import ConditionedOn
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.formats.round_trip import tables_of
from cloakwork.plan.budget import ledger_terms
from cloakwork.plan.model import RELEASED, Claim, Plan, UnprovenClaim
from cloakwork.plan.sentences import (
    assumption_in_words,
    claim_sentence,
    column_in_words,
    exposure_in_words,
    reason_in_words,
    unproven_sentence,
)
from cloakwork.publishing.statement import (
    FAMILY,
    NOT_PRIVATE,
    ExposedColumn,
    PolicyReference,
    PrivacyStatement,
    PublishedCost,
    RecordedStep,
    ReleasedColumn,
    Scope,
    SpentBudget,
    StatedGuarantee,
    StatedWindow,
    UnprovenGoal,
    published_cost,
)

NOTHING_RECORDED: Final[Mapping[int, PrivacyEvent]] = MappingProxyType({})

HeldAttributes = dict[tuple[Scope, str], bool]
"""The attributes of a log, and whether they have a value."""

_ROLES: Final = {ACTIVITY: CONTROL_FLOW, TIMESTAMP: TIMESTAMPS, CASE_ID: METADATA}
"""The columns that every log has, and that a released log names by their role."""


# --- what a released log holds, and which rule of the plan each attribute follows


def plan_bytes(plan: Plan) -> bytes:
    """A plan as the text of ``plan.json``."""
    return plan.model_dump_json(by_alias=True, indent=2).encode() + b"\n"


def released_columns(log: LogHandle, plan: Plan) -> tuple[ReleasedColumn, ...]:
    """Every attribute that the released ``log`` holds, case attributes first, each part in
    alphabetical order.

    Raises ValueError where an attribute follows no rule of ``plan`` that releases it.
    """
    held = merged_attributes(log.results(lambda _, batch: attributes_of(batch)))
    return tuple(_released_column(scope, name, plan) for scope, name in names_in(held, plan))


def attributes_of(batch: EventLog) -> HeldAttributes:
    """The attributes of one batch, and which of them have a value there."""
    held: HeldAttributes = {}
    for scope, table in tables_of(batch):
        for name in table.columns:
            values = values_of(table, name)
            # The empty text is no value, as CSV writes both alike.
            if values.dtype == pl.String:
                held[scope, name] = bool((values.fill_null("") != "").any())
            else:
                held[scope, name] = values.null_count() < len(values)
    return held


def merged_attributes(found: Iterable[HeldAttributes]) -> HeldAttributes:
    """The attributes of several batches: one that has a value in some batch has a value."""
    merged: HeldAttributes = {}
    for held in found:
        for attribute, has_value in held.items():
            merged[attribute] = merged.get(attribute, False) or has_value
    return merged


def names_in(held: HeldAttributes, plan: Plan) -> Iterator[tuple[Scope, str]]:
    """The attributes that the files of a log hold: XES writes none that has no value, tables name
    them all.
    """
    tables = plan.output.format.startswith(("csv", "parquet"))
    for scope, name in sorted(held):
        # Tables name columns without a value, too, but for times that are not released.
        unreleased_time = name == TIMESTAMP and TIMESTAMPS not in plan.released
        if held[scope, name] or (tables and not unreleased_time):
            yield scope, name


def _released_column(scope: Scope, name: str, plan: Plan) -> ReleasedColumn:
    """The entry for an attribute under the rule that it follows, by its role, else by its name."""
    if name == CASE_ID:
        has_rule = any(item.attribute == CASE_ID for item in plan.attributes)
        own_rule = CASE_ID if has_rule else None
        return ReleasedColumn(name=name, scope=scope, treatment="replace", rule=own_rule)
    # Standard columns follow the rule of their role, whatever the source called them.
    if name in _ROLES:
        of_role = (item for item in plan.attributes if item.column == _ROLES[name])
        rule = next(of_role, None)
    else:
        rule = plan.treated(name)
    if rule is None or rule.treatment not in RELEASED:
        raise ValueError(f"no rule of the plan releases {name!a}")
    return ReleasedColumn.model_validate(
        {"name": name, "scope": scope, "treatment": rule.treatment, "rule": rule.attribute}
    )


def column_mismatches(
    held: HeldAttributes, plan: Plan, listed: Sequence[ReleasedColumn]
) -> Iterator[str]:
    """Why the attributes of a released log are not those that its statement lists, or do not follow
    from the plan.
    """
    # First what no rule releases, then what is listed on one side only.
    found = set()
    for scope, name in names_in(held, plan):
        try:
            found.add(_released_column(scope, name, plan))
        except ValueError as error:
            yield f"it holds {name!a}, and {error}"

    def sort_key(column: ReleasedColumn) -> tuple[str, str]:
        return column.scope, column.name

    for column in sorted(found - set(listed), key=sort_key):
        yield f"it holds {column.name!a} ({column.treatment}), which the statement does not list so"
    for column in sorted(set(listed) - found, key=sort_key):
        yield f"the statement lists {column.name!a} ({column.treatment}), which it does not hold so"


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


# --- the statement


def statement_of(
    plan: Plan,
    release_id: str,
    *,
    released: tuple[ReleasedColumn, ...],
    private: bool,
    ledger_entry: str | None = None,
    issued: datetime | None = None,
    recorded: Mapping[int, PrivacyEvent] = NOTHING_RECORDED,
) -> PrivacyStatement:
    """What a release of ``plan`` claims that holds the attributes ``released``; ``issued`` is now
    unless given.

    ``recorded``: what steps really measured, by their place in the plan.
    """
    family = FAMILY[plan.output.format]
    metadata = plan.policy.metadata
    of_metadata = [name for name in PolicyReference.model_fields if name != "digest"]
    windows = plan.policy.spec.budget.windows
    released_window = plan.facts.release_window
    window = None
    if windows is not None and released_window is not None:
        start, before = windows.span(released_window)
        window = StatedWindow(name=released_window, start=start, before=before)
    return PrivacyStatement(
        unproven=tuple(_unproven_goal(item) for item in plan.unproven),
        exposed=tuple(_exposed_columns(plan, released)),
        guarantees=tuple(_stated_guarantee(claim, plan, released) for claim in plan.claims),
        caveats=plan.warnings,
        released=released,
        unit=plan.facts.protected,
        window=window,
        budget=tuple(_spent_budget(plan)),
        recorded=tuple(
            RecordedStep(
                step=place,
                mechanism=plan.steps[place].mechanism,
                planned=plan.steps[place].event,
                recorded=event,
            )
            for place, event in sorted(recorded.items())
        ),
        policy=PolicyReference(
            digest=plan.policy_digest,
            **{name: getattr(metadata, name) for name in of_metadata},
        ),
        engine=plan.engine,
        release=release_id,
        ledger_entry=ledger_entry,
        issued=issued or datetime.now(UTC).replace(microsecond=0),
        stamp=family if family != "csv" else "sidecar" if plan.output.options else "none",
        mark=None if private else NOT_PRIVATE,
    )


def reworded_statement(predicate: PrivacyStatement, plan: Plan) -> PrivacyStatement:
    """The same records, every sentence written anew from them: what may be shown of a statement
    that somebody else made.

    ``plan``: the statement's, reworded too (``plan.planner.with_own_sentences``); its sentences say
    what is unproven, and there are no words for a goal that it does not know.
    """
    of_plan = {(item.mechanism, item.guarantee): _unproven_goal(item) for item in plan.unproven}
    goals = []
    for goal in predicate.unproven:
        known = of_plan.get((goal.mechanism, goal.guarantee))
        goals.append(known or without_prose(goal))
    return predicate.model_copy(
        update={
            "unproven": tuple(goals),
            "exposed": tuple(_reworded_exposure(item) for item in predicate.exposed),
            "guarantees": tuple(_reworded_guarantee(item) for item in predicate.guarantees),
            "recorded": tuple(without_prose(item) for item in predicate.recorded),
        }
    )


def _unproven_goal(item: UnprovenClaim) -> UnprovenGoal:
    return UnprovenGoal(
        guarantee=item.guarantee,
        mechanism=item.mechanism,
        sentence=unproven_sentence(item),
        published=item.published,
        cost=published_cost(item.cost) or PublishedCost(epsilon=None),
        why=item.why,
    )


def _exposed_columns(plan: Plan, released: tuple[ReleasedColumn, ...]) -> Iterator[ExposedColumn]:
    """The columns without protection; an attribute that the log lacks is not listed."""
    treatments: dict[str, str] = {}
    for item in plan.attributes:
        # The first rule of the policy that names a column decides.
        treatments.setdefault(item.attribute, item.treatment)
        treatments.setdefault(item.column, item.treatment)
    for exposure in plan.exposed:
        names = names_of(exposure.column, plan, released)
        if names or exposure.column in _ROLES.values():
            column = ExposedColumn(
                column=exposure.column,
                names=names,
                treatment=treatments.get(exposure.column, "keep"),
                why=exposure.why,
                says="",
                reason="",
            )
            yield _reworded_exposure(column)


def _reworded_exposure(item: ExposedColumn) -> ExposedColumn:
    says = column_in_words(item.column, item.treatment, item.names)
    return item.model_copy(update={"says": says, "reason": exposure_in_words(item.why)})


def _stated_guarantee(
    claim: Claim, plan: Plan, released: tuple[ReleasedColumn, ...]
) -> StatedGuarantee:
    without_sentences = StatedGuarantee(
        guarantee=claim.guarantee,
        sentence="",
        basis=claim.basis,
        given=_given_by_name(claim.given, plan, released),
        currency=claim.currency,
        cost=published_cost(claim.cost),
        naive=published_cost(claim.naive),
        derivation=claim.derivation,
        because=(),
        assumptions=claim.assumptions,
    )
    return _reworded_guarantee(without_sentences)


def _given_by_name(
    given: ConditionedOn | None, plan: Plan, released: Sequence[ReleasedColumn]
) -> ConditionedOn | None:
    """What a claim takes as known, by the actual names of the attributes."""
    if given is None:
        return None
    names: list[str] = []
    for column in given.columns:
        if column in (CONTROL_FLOW, METADATA):
            names.append(column)
        else:
            names += names_of(column, plan, released)
    return given.model_copy(update={"columns": tuple(dict.fromkeys(names))})


def _reworded_guarantee(item: StatedGuarantee) -> StatedGuarantee:
    return item.model_copy(
        update={
            "sentence": claim_sentence(item.guarantee, item.given),
            "neighbours": item.guarantee.compared_logs(),
            "because": tuple(reason_in_words(reason) for reason in item.derivation),
            "assuming": tuple(assumption_in_words(assumption) for assumption in item.assumptions),
        }
    )


def _spent_budget(plan: Plan) -> Iterator[SpentBudget]:
    declared = ledger_terms(plan.policy)
    for charge in plan.charges:
        # Only differential privacy has a book for each protected unit.
        of_unit = charge.currency == "unit"
        total = None if charge.currency == "none" else declared.totals.get(charge.currency)
        if of_unit:
            total = declared.books.get(str(charge.unit), total)
        yield SpentBudget(
            currency=charge.currency,
            cost=PublishedCost.of(charge.cost),
            shift=charge.shift,
            total=published_cost(total),
            unit=charge.unit,
            apart_from=declared.apart_from(charge.unit) if of_unit else (),
            cases_per_unit=dict(declared.cases_per_unit) if of_unit else {},
            window=charge.window,
        )
