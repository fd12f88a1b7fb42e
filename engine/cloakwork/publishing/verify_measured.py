"""What a released log shows by itself: its stamp, its attributes, and the guarantees that can be
measured on it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloakwork.base.errors import GuaranteeBroken, LogError, first_line
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import CASE_ID
from cloakwork.guarantees import short_description
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import Check
from cloakwork.publishing.log_files import LogFiles
from cloakwork.publishing.released import HeldAttributes, column_mismatches
from cloakwork.publishing.stamp import differences, flat, read_stamp, stamp
from cloakwork.publishing.statement import PrivacyStatement

if TYPE_CHECKING:
    from cloakwork.guarantees import Guarantee
    from cloakwork.log.handle import LogHandle
    from cloakwork.publishing.read_files import ReadFiles

_SHOWS_UNITS: Final = ("keep", "pseudonymise")
"""After these treatments of the unit's attribute a released log shows which cases belong together.
"""
_UNITS_HIDDEN: Final = (
    "; units are not in the file, so that the cases belong to different ones is the signer's word"
)


def measure_again(log: LogFiles, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Everything that the released files show by themselves, each as a check. Of a log in parts one
    is in memory at a time.
    """
    yield from _check_stamp(log, plan, predicate)
    yield from _check_contents(log, plan, predicate)


def _check_stamp(log: LogFiles, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether each file of the log says of itself what the statement says."""
    if predicate.stamp == "none":
        yield Check(True, f"{log.name}: its format cannot hold a stamp, as the statement says")
        return
    expected = flat(stamp(plan, predicate))
    wrong = [
        f"{log.name_of(file)}: stamp: {line}"
        for file in log.files
        for line in _stamp_faults(file, expected)
    ]
    for line in wrong:
        yield Check(False, line)
    if not wrong:
        whose = "the stamp of each part" if log.in_parts else "its stamp"
        yield Check(True, f"{log.name}: {whose} has this statement's digest and guarantees")


def _stamp_faults(file: Path, expected: dict[str, str]) -> tuple[str, ...]:
    try:
        return differences(expected, read_stamp(file))
    except LogError as error:
        return (first_line(error),)


def _check_contents(log: LogFiles, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the log holds the attributes that the statement lists, each case in one part, and the
    guarantees that can be measured on it.
    """
    from cloakwork.guarantees.measure import check_of

    unit = plan.facts.unit
    measurable = [claim.guarantee for claim in plan.claims if check_of(claim.guarantee, unit)]
    try:
        found = _read_both_ways(log, plan, measurable)
        yield from _check_columns(log, found.held, plan, predicate)
        if found.cases_in_one_part is not None:
            yield found.cases_in_one_part
        for guarantee in measurable:
            released = found.as_written if guarantee.quasi_identifiers() else found.as_values
            yield from _measure_guarantee(released, guarantee, plan, found.held)
    except LogError as error:
        yield Check(False, f"{log.name}: cannot be read as an event log: {first_line(error)}")


def _read_both_ways(log: LogFiles, plan: Plan, measurable: "list[Guarantee]") -> "ReadFiles":
    """The log with its values, and with quasi-identifiers as they are written.

    k-anonymity distinguishes values by their spelling, other guarantees by what they mean.
    """
    from cloakwork.publishing.read_files import read_files

    spelled: set[str] = set()
    by_value: set[str] = set()
    for guarantee in measurable:
        quasi_identifiers = guarantee.quasi_identifiers()
        spelled.update(quasi_identifiers)
        by_value.update(set(guarantee.over) - set(quasi_identifiers))
    return read_files(
        log,
        timeless=TIMESTAMPS not in plan.released,
        spelled=spelled,
        by_value=by_value,
        units={plan.facts.unit.attribute or CASE_ID},
    )


def _check_columns(
    log: LogFiles, held: HeldAttributes, plan: Plan, predicate: PrivacyStatement
) -> Iterator[Check]:
    """Whether the log's attributes are exactly those that the statement lists, each under a rule of
    the plan.
    """
    mismatches = tuple(column_mismatches(held, plan, predicate.released))
    for mismatch in mismatches:
        yield Check(False, f"{log.name}: {mismatch}")
    if not mismatches:
        listed = len(predicate.released)
        yield Check(True, f"{log.name}: its {listed} attributes are those that the statement lists")


def _measure_guarantee(
    released: "LogHandle", guarantee: "Guarantee", plan: Plan, held: HeldAttributes
) -> Iterator[Check]:
    """Measure a guarantee on the released log, of which one part at a time is in memory.

    Where the files do not show units, cases count: a unit owns at least one, so fewer than k cases
    are fewer than k units.
    """
    from cloakwork.guarantees.measure import measure

    unit = plan.facts.unit
    visible = _shows_units(held, plan)
    try:
        found = measure(released, guarantee, unit if visible else Unit())
    except GuaranteeBroken as error:
        yield Check(False, f"measured again: {short_description(guarantee)}: {error.observed}")
        return
    if found is None:
        return
    note = _UNITS_HIDDEN if _counts_units(guarantee, unit) and not visible else ""
    yield Check(found.holds, f"measured again: {short_description(guarantee)}: {found.seen}{note}")


def _shows_units(held: HeldAttributes, plan: Plan) -> bool:
    attribute = plan.facts.unit.attribute
    is_kept = any(
        item.attribute == attribute and item.treatment in _SHOWS_UNITS for item in plan.attributes
    )
    return is_kept and attribute is not None and ("case", attribute) in held


def _counts_units(guarantee: "Guarantee", unit: Unit) -> bool:
    group = guarantee.least_group()
    return unit.attribute is not None and group is not None and group.counts == "units"
