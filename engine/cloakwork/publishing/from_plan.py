"""From a plan to the statement of its release: the plan's records, and a sentence for each.

The sentences (``Prose``) are for people who read the JSON without Cloakwork. They are not
compared, and whoever shows a statement shows ``reworded_statement`` of it.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from cloakwork.base.costs import Charge, Cost, PrivacyEvent
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.records import without_prose
from cloakwork.ledger.account import BudgetTerms
from cloakwork.plan.budget import ledger_terms as budget_terms
from cloakwork.plan.model import Claim, Plan, UnprovenClaim
from cloakwork.plan.sentences import (
    assumption_in_words,
    claim_sentence,
    column_in_words,
    exposure_in_words,
    reason_in_words,
    unproven_sentence,
)
from cloakwork.policy.model import Policy
from cloakwork.publishing.released import ReleasedColumn, given_by_name, names_of
from cloakwork.publishing.statement import (
    FAMILY,
    NOT_PRIVATE,
    ExposedColumn,
    PolicyReference,
    PrivacyStatement,
    PublishedCost,
    RecordedStep,
    SpentBudget,
    Stamp,
    StatedGuarantee,
    StatedWindow,
    UnprovenGoal,
)

NOTHING_RECORDED: Final[Mapping[int, PrivacyEvent]] = MappingProxyType({})

_ROLES = (CONTROL_FLOW, TIMESTAMPS, METADATA)
"""Columns that every log has, whatever its attributes are called."""


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
    return PrivacyStatement(
        unproven=tuple(_unproven_goal(item) for item in plan.unproven),
        exposed=tuple(_exposed_columns(plan, released)),
        guarantees=tuple(_stated_guarantee(claim, plan, released) for claim in plan.claims),
        caveats=plan.warnings,
        released=released,
        unit=plan.facts.unit,
        window=_stated_window(plan),
        budget=tuple(_spent_budget(charge, plan.policy) for charge in plan.charges),
        recorded=tuple(_recorded_step(plan, *each) for each in sorted(recorded.items())),
        policy=_policy_reference(plan),
        engine=plan.engine,
        release=release_id,
        ledger_entry=ledger_entry,
        issued=issued or datetime.now(UTC).replace(microsecond=0),
        stamp=_kind_of_stamp(plan),
        mark=None if private else NOT_PRIVATE,
    )


def _stated_window(plan: Plan) -> StatedWindow | None:
    windows, name = plan.policy.spec.budget.windows, plan.facts.release_window
    if windows is None or name is None:
        return None
    start, before = windows.span(name)
    return StatedWindow(name=name, start=start, before=before)


def _recorded_step(plan: Plan, place: int, recorded: PrivacyEvent) -> RecordedStep:
    step = plan.steps[place]
    return RecordedStep(step=place, mechanism=step.mechanism, planned=step.event, recorded=recorded)


def reworded_statement(predicate: PrivacyStatement, plan: Plan) -> PrivacyStatement:
    """The same records, every sentence written anew from them: what may be shown of a statement
    that somebody else made.

    ``plan``: the statement's, reworded too (``plan.prove.with_own_sentences``); its sentences say
    what is unproven.
    """
    return predicate.model_copy(
        update={
            "unproven": _reworded_goals(predicate.unproven, plan),
            "exposed": tuple(_reworded_exposure(item) for item in predicate.exposed),
            "guarantees": tuple(_reworded_guarantee(item) for item in predicate.guarantees),
            "recorded": tuple(without_prose(item) for item in predicate.recorded),
        }
    )


def _reworded_goals(goals: tuple[UnprovenGoal, ...], plan: Plan) -> tuple[UnprovenGoal, ...]:
    """The plan's own words for each goal; no words for a goal that the plan does not know."""
    of_plan = {(item.mechanism, item.guarantee): _unproven_goal(item) for item in plan.unproven}
    reworded = []
    for goal in goals:
        known = of_plan.get((goal.mechanism, goal.guarantee))
        reworded.append(known or without_prose(goal))
    return tuple(reworded)


def _kind_of_stamp(plan: Plan) -> Stamp:
    """A CSV file cannot hold a stamp."""
    family = FAMILY[plan.policy.spec.output.format]
    return "none" if family == "csv" else family


def _exposed_columns(plan: Plan, released: tuple[ReleasedColumn, ...]) -> Iterator[ExposedColumn]:
    """The columns without protection; an attribute that the log lacks is not released, and not
    listed.
    """
    treatments = _treatments(plan)
    for exposure in plan.exposed:
        names = names_of(exposure.column, plan, released)
        if names or exposure.column in _ROLES:
            column = ExposedColumn(
                column=exposure.column,
                names=names,
                treatment=treatments.get(exposure.column, "keep"),
                why=exposure.why,
                says="",
                reason="",
            )
            yield _reworded_exposure(column)


def _treatments(plan: Plan) -> dict[str, str]:
    """What is done to each column, by its name in the plan and in the policy."""
    found: dict[str, str] = {}
    for item in plan.attributes:
        # The first rule of the policy that names a column decides.
        found.setdefault(item.attribute, item.treatment)
        found.setdefault(item.column, item.treatment)
    return found


def _reworded_exposure(item: ExposedColumn) -> ExposedColumn:
    says = column_in_words(item.column, item.treatment, item.names)
    return item.model_copy(update={"says": says, "reason": exposure_in_words(item.why)})


def _unproven_goal(item: UnprovenClaim) -> UnprovenGoal:
    return UnprovenGoal(
        guarantee=item.guarantee,
        mechanism=item.mechanism,
        sentence=unproven_sentence(item),
        published=item.published,
        cost=PublishedCost(epsilon=None) if item.cost is None else PublishedCost.of(item.cost),
        why=item.why,
    )


def _stated_guarantee(
    claim: Claim, plan: Plan, released: tuple[ReleasedColumn, ...]
) -> StatedGuarantee:
    without_sentences = StatedGuarantee(
        guarantee=claim.guarantee,
        sentence="",
        basis=claim.basis,
        given=given_by_name(claim.given, plan, released),
        currency=claim.currency,
        cost=_published_cost(claim.cost),
        naive=_published_cost(claim.naive),
        derivation=claim.derivation,
        because=(),
        assumptions=claim.assumptions,
    )
    return _reworded_guarantee(without_sentences)


def _published_cost(cost: Cost | None) -> PublishedCost | None:
    return None if cost is None else PublishedCost.of(cost)


def _reworded_guarantee(item: StatedGuarantee) -> StatedGuarantee:
    return item.model_copy(
        update={
            "sentence": claim_sentence(item.guarantee, item.given),
            "neighbours": item.guarantee.compared_logs(),
            "because": tuple(reason_in_words(reason) for reason in item.derivation),
            "assuming": tuple(assumption_in_words(assumption) for assumption in item.assumptions),
        }
    )


def _spent_budget(charge: Charge, policy: Policy) -> SpentBudget:
    declared = budget_terms(policy)
    # Only differential privacy has a book for each protected unit.
    of_unit = charge.currency == "unit"
    return SpentBudget(
        currency=charge.currency,
        cost=PublishedCost.of(charge.cost),
        shift=charge.shift,
        total=_published_cost(_declared_total(charge, declared)),
        unit=charge.unit,
        apart_from=declared.apart_from(charge.unit) if of_unit else (),
        cases_per_unit=dict(declared.cases_per_unit) if of_unit else {},
        window=charge.window,
    )


def _declared_total(charge: Charge, declared: BudgetTerms) -> Cost | None:
    """What all releases of the dataset may cost in the book of ``charge``; None if undeclared."""
    if charge.currency == "unit" and charge.unit is not None and charge.unit in declared.books:
        return declared.books[charge.unit]
    if charge.currency == "none":
        return None
    return declared.totals.get(charge.currency)


def _policy_reference(plan: Plan) -> PolicyReference:
    metadata = plan.policy.metadata
    of_metadata = [name for name in PolicyReference.model_fields if name != "digest"]
    shared = {name: getattr(metadata, name) for name in of_metadata}
    return PolicyReference(digest=plan.policy_digest, **shared)
