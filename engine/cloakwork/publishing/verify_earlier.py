"""Verification of a release of version 0.1.0.

What it claims is not derived again, since that takes the version that made it. Verified are its
signature and digests (as for any release), that statement, plan and stamp say the same, and
whatever can be measured on the released file, by the meaning that the claim had then.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from cloakwork.base.errors import LogError, first_line
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.publishing.advisories import (
    TIME,
    Advisory,
    Parameters,
    ReleaseProperties,
    advisories_for,
    has_raw_times,
    is_pattern,
)
from cloakwork.publishing.dsse import canonical
from cloakwork.publishing.earlier import (
    EARLIER_ENGINE,
    EarlierPlan,
    EarlierStatement,
    SignedEarlier,
    read_earlier_plan,
)
from cloakwork.publishing.folder import PLAN_FILE, STATEMENT_FILE, Check
from cloakwork.publishing.verification import ContentChecks
from cloakwork.publishing.verify_derived import check_format
from cloakwork.publishing.verify_signature import signed_log

if TYPE_CHECKING:
    from cloakwork.publishing.advisories import MeasureOnFile

_ROLES: Final = {TIMESTAMPS: TIME}
"""The column that advisories know by its standard name."""


def check_earlier_contents(folder: Path, content: bytes, signed: SignedEarlier) -> ContentChecks:
    """What an authentic release of version 0.1.0 shows: ``content`` is its plan, as signed."""
    from cloakwork.log.formats import read_log

    statement = signed.envelope.predicate
    plan = read_earlier_plan(content)
    files = signed_log(folder, signed.envelope)
    if files.in_parts:
        fault = f"{STATEMENT_FILE}: signs a log in parts, which version 0.1.0 did not write"
        return ContentChecks(derived=(Check(False, fault),))
    log = files.path
    derived = (
        check_format(log, plan.policy.spec.output.format),
        *check_same_claims(statement, plan),
    )
    stamp_checks = tuple(check_same_stamp(log, signed))
    try:
        released = read_log(log, timeless=TIMESTAMPS not in plan.released)
    except LogError as error:
        unread = Check(False, f"{log.name}: cannot be read as an event log: {first_line(error)}")
        return ContentChecks(derived, (*stamp_checks, unread))
    measured = (*stamp_checks, *_measure_guarantees(released, statement))
    properties = properties_of(statement, plan)
    measure = _measurement_for_advisories(released, plan, properties)
    return ContentChecks(derived, measured, advisories_for(properties, measure))


def _measure_guarantees(released: EventLog, statement: EarlierStatement) -> Iterator[Check]:
    from cloakwork.publishing.earlier_checks import MEASURABLE, measure_as_0_1_0

    for each in statement.guarantees:
        if each.kind not in MEASURABLE:
            continue
        found = measure_as_0_1_0(released, each.guarantee)
        if found is not None:
            line = f"measured again: {each.short_description()}: {found.seen}"
            yield Check(found.holds, line)


def _measurement_for_advisories(
    released: EventLog, plan: EarlierPlan, properties: ReleaseProperties
) -> "MeasureOnFile":
    """What advisories ask of this file."""
    from cloakwork.publishing.earlier_checks import measure_advisory

    held = read_as_pattern(released, plan)
    raw_times = has_raw_times(properties)

    def measure(advisory: Advisory, guarantee: Parameters | None) -> tuple[bool | None, str] | None:
        if advisory.measure == "columns":
            return None if held is None else (True, held)
        return measure_advisory(released, advisory, guarantee, raw_times=raw_times)

    return measure


def properties_of(statement: EarlierStatement, plan: EarlierPlan) -> ReleaseProperties:
    """What advisories go by."""
    words = [text for each in statement.guarantees for text in (each.sentence, *each.assumptions)]
    return ReleaseProperties(
        engine=EARLIER_ENGINE,
        guarantees=tuple(each.guarantee for each in statement.guarantees),
        mechanisms=tuple(step.mechanism for step in plan.steps),
        rules={_ROLES.get(item.column, item.attribute): item.treatment for item in plan.attributes},
        unit=statement.unit.attribute or "",
        shallow=tuple(_shallow_attributes(plan)),
        words="\n".join(words),
    )


def _shallow_attributes(plan: EarlierPlan) -> Iterator[str]:
    """Attributes that were generalised to a level which a branch of their hierarchy does not
    reach.
    """
    for name, rule in plan.policy.spec.attributes.items():
        if rule.treatment != "generalise" or rule.hierarchy is None:
            continue
        if _shortest_branch(rule.hierarchy) < rule.level:
            yield name


def _shortest_branch(tree: JsonValue) -> int:
    """Edges from the root of a hierarchy to its value nearest to the root."""
    if isinstance(tree, dict) and tree:
        return 1 + min(_shortest_branch(below) for below in tree.values())
    if isinstance(tree, list) and tree:
        # Entries of a list are values, unless they are groups themselves.
        return min(_shortest_branch(item) if isinstance(item, dict) else 1 for item in tree)
    is_empty = tree in ({}, [], None)
    return 0 if is_empty else 1


def read_as_pattern(log: EventLog, plan: EarlierPlan) -> str | None:
    """What the released ``log`` holds because a name was read as a pattern; None where it does not
    show.

    An attribute whose own name is a pattern may hold the values of any other. Times that the plan
    drops, and attributes that none of its rules releases, can have come in no other way.
    """
    for name in log.columns:
        if is_pattern(name):
            return f"the log holds {name!a}, a name that was read as a pattern"
    timed = TIMESTAMPS not in plan.released and TIMESTAMP in log.events.columns
    if timed and log.events[TIMESTAMP].null_count() < log.events.height:
        return "the log holds times, which the plan drops"
    for name in log.columns:
        if name not in (CASE_ID, ACTIVITY, TIMESTAMP) and not plan.releases(name):
            return f"the log holds {name!a}, which the plan drops"
    return None


def check_same_claims(statement: EarlierStatement, plan: EarlierPlan) -> Iterator[Check]:
    """Whether statement and plan say the same about policy, guarantees and exposed columns."""
    of_statement, of_plan = _claims_of_statement(statement), _claims_of_plan(plan)
    different = [name for name, claim in of_statement.items() if claim != of_plan[name]]
    for name in different:
        yield Check(False, f"{STATEMENT_FILE}: '{name}' is not what {PLAN_FILE} says")
    if not different:
        yield Check(
            True, f"{PLAN_FILE}: policy, guarantees and exposed columns are the statement's"
        )


def _claims_of_statement(statement: EarlierStatement) -> dict[str, Any]:
    policy = statement.policy
    return {
        "guarantees": [(each.guarantee, each.sentence) for each in statement.guarantees],
        "exposed": [(each.column, each.reason) for each in statement.exposed],
        "policy": (policy.digest, policy.name, policy.version, policy.dataset),
        "engine": statement.engine,
    }


def _claims_of_plan(plan: EarlierPlan) -> dict[str, Any]:
    metadata = plan.policy.metadata
    policy = (metadata.get(name) for name in ("name", "version", "dataset"))
    return {
        "guarantees": [(claim.guarantee, claim.sentence) for claim in plan.claims],
        "exposed": [(each.get("column"), each.get("reason")) for each in plan.exposed],
        "policy": (plan.policy_digest, *policy),
        "engine": plan.engine,
    }


def check_same_stamp(log: Path, signed: SignedEarlier) -> Iterator[Check]:
    """Whether the stamp in the log names this statement, and says of guarantees and exposed columns
    what it says.
    """
    from cloakwork.publishing.stamp import read_stamp

    if signed.envelope.predicate.stamp == "none":
        yield Check(True, f"{log.name}: its format cannot hold a stamp, as the statement says")
        return
    try:
        found = read_stamp(log)
    except LogError as error:
        yield Check(False, f"{log.name}: stamp: {str(error).partition(chr(10))[0]}")
        return
    wrong = list(_stamp_mismatches(found, _expected_stamp(signed)))
    for line in wrong:
        yield Check(False, f"{log.name}: stamp: {line}")
    if not wrong:
        yield Check(True, f"{log.name}: its stamp has this statement's digest and guarantees")


def _expected_stamp(signed: SignedEarlier) -> Mapping[str, str]:
    statement = signed.envelope.predicate
    expected = {
        "cloakwork:statement": hashlib.sha256(canonical(signed.raw)).hexdigest(),
        "cloakwork:policy": statement.policy.name,
        "cloakwork:policy version": statement.policy.version,
        "cloakwork:policy digest": statement.policy.digest,
        "cloakwork:engine": statement.engine,
    }
    for number, each in enumerate(statement.guarantees, start=1):
        prefix = f"cloakwork:guarantees/cloakwork:guarantee{number}/cloakwork:"
        expected[f"{prefix}kind"] = each.kind
        expected[f"{prefix}sentence"] = each.sentence
    for number, column in enumerate(statement.exposed, start=1):
        prefix = f"cloakwork:exposed/cloakwork:exposed{number}/cloakwork:"
        expected[f"{prefix}column"] = column.column
        expected[f"{prefix}tells"] = column.says
    return expected


def _stamp_mismatches(found: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[str]:
    for place, text in expected.items():
        if place not in found:
            yield f"{place} is missing"
        elif found[place] != text:
            yield f"{place} says {found[place]!a}, the statement {text!a}"
    for place in found:
        if not place.startswith(("cloakwork:", "privacy:")):
            yield f"{place!a} does not belong there"
