"""What a released log shows by itself: its stamp, its attributes, and the guarantees that can be
measured on it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloakwork.errors import GuaranteeBroken, LogError, first_line
from cloakwork.facts import Unit
from cloakwork.guarantees import short_description
from cloakwork.lineage import TIMESTAMPS
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import Check
from cloakwork.publishing.released import column_mismatches
from cloakwork.publishing.stamp import differences, flat, read_stamp, stamp
from cloakwork.publishing.statement import PrivacyStatement

if TYPE_CHECKING:
    from cloakwork.guarantees import Guarantee
    from cloakwork.log.eventlog import EventLog
    from cloakwork.log.handle import LogHandle

_SHOWS_UNITS: Final = ("keep", "pseudonymise")
"""After these treatments of the unit's attribute a released log shows which cases belong together.
"""
_UNITS_HIDDEN: Final = (
    "; units are not in the file, so that the cases belong to different ones is the signer's word"
)


def measure_again(log: Path, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Everything that the released file shows by itself, each as a check."""
    yield from _check_stamp(log, plan, predicate)
    yield from _check_contents(log, plan, predicate)


def _check_stamp(log: Path, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the log says of itself what the statement says."""
    if predicate.stamp == "none":
        yield Check(True, f"{log.name}: its format cannot hold a stamp, as the statement says")
        return
    try:
        wrong = differences(flat(stamp(plan, predicate)), read_stamp(log))
    except LogError as error:
        wrong = (first_line(error),)
    for line in wrong:
        yield Check(False, f"{log.name}: stamp: {line}")
    if not wrong:
        yield Check(True, f"{log.name}: its stamp has this statement's digest and guarantees")


def _check_contents(log: Path, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the log holds the attributes that the statement lists, and the guarantees that can be
    measured on it.
    """
    from cloakwork.checks.measure import check_of

    unit = plan.facts.unit
    measurable = [claim.guarantee for claim in plan.claims if check_of(claim.guarantee, unit)]
    try:
        as_values, as_written = _read_both_ways(log, plan, measurable)
    except LogError as error:
        yield Check(False, f"{log.name}: cannot be read as an event log: {first_line(error)}")
        return
    yield from _check_columns(log, as_values, plan, predicate)
    for guarantee in measurable:
        released = as_written if guarantee.quasi_identifiers() else as_values
        yield from _measure_guarantee(released, guarantee, plan)


def _read_both_ways(
    log: Path, plan: Plan, measurable: "list[Guarantee]"
) -> "tuple[EventLog, EventLog]":
    """The log with its values, and with quasi-identifiers as they are written.

    k-anonymity distinguishes values by their spelling, other guarantees by what they mean. The file
    is read a second time only where an attribute is needed both ways.
    """
    from cloakwork.log.io import read_log

    timeless = TIMESTAMPS not in plan.released
    spelled: set[str] = set()
    by_value: set[str] = set()
    for guarantee in measurable:
        quasi_identifiers = guarantee.quasi_identifiers()
        spelled.update(quasi_identifiers)
        by_value.update(set(guarantee.over) - set(quasi_identifiers))
    both = spelled & by_value
    as_values = read_log(log, timeless=timeless, text=spelled - both)
    if not both:
        return as_values, as_values
    as_written = read_log(log, timeless=timeless, text=spelled, keep=spelled.__contains__)
    return as_values, as_written


def _check_columns(
    log: Path, released: "EventLog", plan: Plan, predicate: PrivacyStatement
) -> Iterator[Check]:
    """Whether the log's attributes are exactly those that the statement lists, each under a rule of
    the plan.
    """
    mismatches = tuple(column_mismatches(released, plan, predicate.released))
    for mismatch in mismatches:
        yield Check(False, f"{log.name}: {mismatch}")
    if not mismatches:
        listed = len(predicate.released)
        yield Check(True, f"{log.name}: its {listed} attributes are those that the statement lists")


def _measure_guarantee(
    released: "LogHandle", guarantee: "Guarantee", plan: Plan
) -> Iterator[Check]:
    """Measure a guarantee on the released log, of which one batch at a time is in memory.

    Where the file does not show units, cases count: a unit owns at least one, so fewer than k
    cases are fewer than k units.
    """
    from cloakwork.checks.measure import measure

    unit = plan.facts.unit
    visible = _shows_units(released, plan)
    try:
        found = measure(released, guarantee, unit if visible else Unit())
    except GuaranteeBroken as error:
        yield Check(False, f"measured again: {short_description(guarantee)}: {error.observed}")
        return
    if found is None:
        return
    note = _UNITS_HIDDEN if _counts_units(guarantee, unit) and not visible else ""
    yield Check(found.holds, f"measured again: {short_description(guarantee)}: {found.seen}{note}")


def _shows_units(released: "LogHandle", plan: Plan) -> bool:
    attribute = plan.facts.unit.attribute
    is_kept = any(
        item.attribute == attribute and item.treatment in _SHOWS_UNITS for item in plan.attributes
    )
    first = next(released.batches(), None)
    return is_kept and first is not None and attribute in first.cases.columns


def _counts_units(guarantee: "Guarantee", unit: Unit) -> bool:
    group = guarantee.least_group()
    return unit.attribute is not None and group is not None and group.counts == "units"
