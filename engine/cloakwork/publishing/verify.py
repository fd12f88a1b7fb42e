"""Verification: is a release what its signed statement says, and does it still hold what can be
measured?

Nothing is trusted before it is authentic. These are the rules, in the order in which they are
applied; nothing is parsed or looked into that an earlier rule refuses. Nothing is opened here: what
a rule judges it is given, or the function that reads it (``examine``).

The release is *authentic*:

- the envelope is a plain file of a sane size, and a DSSE envelope in the one form in which they
  are written (``dsse.read_envelope``);
- its signature was made by the key that the caller names, else by one that is trusted here; a key
  that travels with the release would prove nothing (``check_signature``);
- its payload is what the published schema says, canonical JSON, a statement of this version, and
  signs one log, whole or in parts, and one plan (``read_statement``);
- each of these is a plain file with the signed digest (``check_signed_files``), and nothing else
  stands in the folder (``folder.check_entries``);
- the noise is stated to be secret, and its cost charged to a ledger (``check_private``).

What is stated is *derived again* from the plan (``privacy.md`` 10):

- the plan is what the published schema says, one of this version, and in the form in which plans
  are written (``read_plan``), and the log has its format (``check_format``);
- the statement's records are those of a statement of this plan (``check_statement``);
- each step that measures recorded answers, and no more than planned (``check_recorded``);
- noisy tables stand beside the log only where a claim covers them (``check_measurements``);
- every claim follows from the steps (``check_proof``).

What the files show is *measured again*:

- each file is stamped with this statement (``check_stamp``);
- the log holds the attributes that are listed, each case in one part, and every guarantee that can
  be measured on it (``check_contents``).

Whatever fails is told together, and all else is the signer's word. Last, no advisory voids a
guarantee, and the release is the one that the caller demands. The internal folder is never
examined: a release is passed on without it.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from cloakwork.base.costs import Composed, PrivacyEvent, charges_anything
from cloakwork.base.errors import (
    GuaranteeBroken,
    LogError,
    PlanMoved,
    PlanUnsound,
    VerificationFailed,
    first_line,
)
from cloakwork.base.facts import Unit
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import CASE_ID
from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.base.records import stated
from cloakwork.base.text import version_of
from cloakwork.guarantees import Guarantee, KAnonymity, short_description
from cloakwork.kernel import Books
from cloakwork.ledger.advisories import AdvisoryMatch, advisories_for
from cloakwork.log.eventlog import LogHandle
from cloakwork.log.formats.xes_write import paths_and_texts
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import UNPROVABLE, prove
from cloakwork.publishing.folder import (
    MEASUREMENTS_FILE,
    OPTIONAL_FILES,
    PLAN_FILE,
    SIDECAR_FILE,
    STATEMENT_FILE,
    Check,
    LogFiles,
    log_files,
    log_path,
    names_of_log,
)
from cloakwork.publishing.from_plan import (
    HeldAttributes,
    column_mismatches,
    plan_bytes,
    statement_of,
)
from cloakwork.publishing.keys import Envelope, is_signed_by, keyid_of, read_json
from cloakwork.publishing.stamp import differences, sidecar, stamp
from cloakwork.publishing.statement import (
    PREDICATE_TYPE,
    PrivacyStatement,
    Schema,
    Statement,
    canonical_bytes,
    schema_fault,
)
from cloakwork.run.run import tells_measurements

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from cloakwork.publishing.folder import ReadFiles

EXPECTABLE: Final = ("policy", "dataset", "release")
"""What a caller may demand of a release."""

RUN_AS_PLANNED: Final = (
    "that this plan ran on that dataset, with fresh noise, and that its public facts are true"
)

_VERSION: Final = re.compile("[0-9][0-9a-z.+]{0,39}")

_SHOWS_UNITS: Final = ("keep", "pseudonymise")
"""After these treatments of the unit's attribute a released log shows which cases belong together.
"""

_UNITS_HIDDEN: Final = (
    "; units are not in the file, so that the cases belong to different ones is the signer's word"
)

_EMPLOYEES_HIDDEN: Final = (
    "; who performed the events is not in the file, so which share of them one employee has is the "
    "signer's word"
)


@frozen
class Demands:
    """What a caller demands of a release: pairs of ``policy`` (NAME@VERSION), ``dataset`` or
    ``release`` and the value that its statement must have.
    """

    values: tuple[tuple[str, str], ...] = ()

    def unmet_by(self, statement: PrivacyStatement) -> Iterator[str]:
        """What the authentic statement does not say, one line each."""
        says = {
            "policy": f"{statement.policy.name}@{statement.policy.version}",
            "dataset": statement.policy.dataset,
            "release": statement.release,
        }
        issued = f"{statement.issued:%Y-%m-%d %H:%M} UTC"
        for name, value in self.values:
            if name not in says:
                yield f"nothing can be expected of {name!a}; what can: {', '.join(EXPECTABLE)}"
            elif says[name] != value:
                found = f"this release is of {name} {says[name]!a}, made {issued}"
                yield f"expected {name} {value!a}, {found}"


NO_DEMANDS: Final = Demands()


@frozen
class Verification:
    """A release that is what its statement says: who signed it, and what was checked, in groups.

    ``path``: the folder or file that was named. ``trusted``: why the key counts. ``internal``: the
    internal folder came along. ``advisories``: what was found false since in the version that made
    it, as far as it concerns this release.
    """

    path: Path
    keyid: str
    trusted: str
    statement: PrivacyStatement
    authentic: tuple[Check, ...]
    derived: tuple[Check, ...]
    measured: tuple[Check, ...]
    internal: bool
    advisories: tuple[AdvisoryMatch, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder or file that was named."""
        return self.path

    @property
    def checks(self) -> tuple[str, ...]:
        """Every check, one line each."""
        return tuple(check.says for check in (*self.authentic, *self.derived, *self.measured))

    @property
    def unverifiable_claims(self) -> tuple[str, ...]:
        """What no check can show, one line each."""
        return (RUN_AS_PLANNED,)

    @property
    def guarantees(self) -> tuple[tuple[str, str], ...]:
        """Kind and sentence of each guarantee."""
        return tuple((each.guarantee.kind, each.sentence) for each in self.statement.guarantees)

    @property
    def exposed(self) -> tuple[tuple[str, str], ...]:
        """Each column under no guarantee, and what it tells."""
        return tuple((each.column, each.says) for each in self.statement.exposed)

    @property
    def unproven(self) -> tuple[str, ...]:
        """What the release does not guarantee although its policy asked for it, one line each."""
        return tuple(
            f"{item.sentence} Why: {'; '.join(item.why)}" for item in self.statement.unproven
        )

    @property
    def void(self) -> tuple[AdvisoryMatch, ...]:
        """The guarantees that an advisory voids."""
        return tuple(match for match in self.advisories if match.status == "void")

    # Short: what notebooks show says more.
    __repr__ = object.__repr__

    def _repr_html_(self) -> str:
        found = [f"{match.status}: {match}" for match in self.advisories]
        return shown(
            f"Verified: {self.path}",
            paragraph(f"Signed by key {self.keyid}: {self.trusted}."),
            listing("Found false since", found),
            table(("guarantee", "says"), self.guarantees),
            listing("Unproven", self.unproven),
            listing("Not protected", (says for _, says in self.exposed)),
            listing("Checked", self.checks),
            listing("Not checked", self.unverifiable_claims),
        )


def advisories_of_plan(plan: Plan) -> tuple[AdvisoryMatch, ...]:
    """What was found since of a release of ``plan``."""
    return advisories_for(
        plan.engine,
        [claim.guarantee.model_dump(mode="json") for claim in plan.claims],
        [step.mechanism for step in plan.steps],
    )


# --- is it authentic?


def check_signature(envelope: Envelope, key: "Ed25519PublicKey | None") -> Check:
    """Whether the envelope was signed with ``key``; it was not where no key is known."""
    keyids = [signature.keyid for signature in envelope.signatures]
    named = ", ".join(keyids)
    if key is None:
        return Check(
            False,
            f"signature: made by key {named}, which is not trusted here; get the signer's public "
            "key by a way you trust and name it with --public-key FILE",
        )
    keyid = keyid_of(key)
    if keyid not in keyids:
        return Check(False, f"signature: made by key {named}, not by the given key {keyid}")
    if not is_signed_by(envelope, key, keyid):
        return Check(False, f"signature: does not fit the statement (key {keyid})")
    others = len(keyids) - 1
    beside = f"; {others:,} more beside it, of which nothing is known" if others else ""
    return Check(True, f"signature: made over this statement by key {keyid}{beside}")


def read_statement(envelope: Envelope, schema: Schema | None = None) -> Statement:
    """The in-toto statement inside an envelope; raises VerificationFailed where it is malformed,
    not canonical, or no statement of one log and one plan. ``schema``: that of the predicate, which
    is asked first.
    """
    content = envelope.content()
    try:
        value = read_json(content)
        if schema is not None and isinstance(value, dict):
            _require_fit(value.get("predicate"), schema, f"{STATEMENT_FILE}: predicate")
        statement = Statement.model_validate(value)
        is_canonical = canonical_bytes(statement) == content
    except ValueError as error:
        fault = f"{STATEMENT_FILE}: is not a {PREDICATE_TYPE} as this version knows it"
        raise VerificationFailed([fault]) from error
    if not is_canonical:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not in canonical form"])
    # A name that stands twice could have a digest for each reader.
    digests = statement.digests()
    if len(digests) != len(statement.subject):
        raise VerificationFailed([f"{STATEMENT_FILE}: it signs a file twice"])
    of_log = names_of_log(digests) or ()
    beside = (SIDECAR_FILE in digests) == (statement.predicate.stamp == "sidecar")
    if not (of_log and beside and digests.keys() - OPTIONAL_FILES == {PLAN_FILE, *of_log}):
        fault = f"must sign one log and {PLAN_FILE}; parts of a log are numbered from 1"
        raise VerificationFailed([f"{STATEMENT_FILE}: {fault}"])
    return statement


def _require_fit(value: JsonValue, schema: Schema, name: str) -> None:
    if fault := schema_fault(value, schema):
        raise VerificationFailed([f"{name}: does not fit its schema: {fault}"])


def check_signed_files(statement: Statement, found: Mapping[str, Check]) -> list[Check]:
    """Whether each file is the one that was signed; ``found``: what became of each, by name."""
    of_log = names_of_log(statement.digests()) or ()
    if len(of_log) == 1 or not all(found[name].holds for name in of_log):
        return [*found.values()]
    # One line for many parts that are all as they were signed.
    whole = f"its {len(of_log)} parts are the files that were signed"
    others = (check for name, check in found.items() if name not in of_log)
    return [Check(True, f"{log_path(of_log[0])}: {whole}"), *others]


def read_plan(content: bytes, digest: str, schema: Schema) -> Plan:
    """The plan in ``plan.json``; raises VerificationFailed where it is not what was signed, none of
    this version, or in other bytes than those that are written.
    """
    # Asked of what is examined: somebody may have replaced the file meanwhile.
    if hashlib.sha256(content).hexdigest() != digest:
        raise VerificationFailed([f"{PLAN_FILE}: is not the file that was signed"])
    try:
        _require_fit(read_json(content), schema, PLAN_FILE)
        plan = Plan.model_validate_json(content)
    except ValueError as error:
        fault = f"{PLAN_FILE}: is not a plan as this version knows it"
        raise VerificationFailed([fault]) from error
    if plan_bytes(plan) != content:
        raise VerificationFailed([f"{PLAN_FILE}: is not in the form in which plans are written"])
    return plan


def signed_log(folder: Path, statement: Statement) -> LogFiles:
    """The log that the statement signs."""
    return log_files(folder, names_of_log(statement.digests()) or ())


def check_private(predicate: PrivacyStatement) -> Check:
    """Whether the noise was secret and its cost charged to a ledger, as the statement says."""
    if predicate.mark is not None:
        return Check(False, f"the release is marked '{predicate.mark}': it protects nobody")
    if predicate.ledger_entry is None:
        reason = "the statement names no entry of a ledger: no budget was charged for this release"
        return Check(False, reason)
    return Check(True, "randomness: stated to be secret, and the cost charged to a ledger")


# --- does it say what its plan says, and can its claims be derived again?


def check_format(log: LogFiles, plan: Plan) -> Check:
    """Whether the log's file, or its folder of parts, has the format that its plan names."""
    as_planned = log.name == f"log.{plan.output.format}"
    verb = "is in" if as_planned else "is not in"
    return Check(as_planned, f"{log.name}: {verb} the format of the plan")


def check_statement(plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the statement says of the plan what a statement of this plan would say."""
    expected = statement_of(
        plan,
        predicate.release,
        released=predicate.released,
        private=predicate.mark is None,
        ledger_entry=predicate.ledger_entry,
        issued=predicate.issued,
        recorded=_recorded_by_place(plan, predicate),
    )
    # Sentences are not compared: ``stated`` leaves them out.
    different = [
        name
        for name in PrivacyStatement.model_fields
        if stated(getattr(expected, name)) != stated(getattr(predicate, name))
    ]
    for name in different:
        yield Check(False, f"{STATEMENT_FILE}: '{name}' is not what {PLAN_FILE} says")
    if not different:
        same = "policy, guarantees, exposed columns and budget are the statement's"
        yield Check(True, f"{PLAN_FILE}: {same}")


def _recorded_by_place(plan: Plan, predicate: PrivacyStatement) -> dict[int, PrivacyEvent]:
    return {row.step: row.recorded for row in predicate.recorded if row.step < len(plan.steps)}


def check_recorded(plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether each step that measures recorded something, and no more than its plan lists.

    That fewer answers were given than planned is no fault: a mechanism may stop early.
    """
    measuring = {place for place, step in enumerate(plan.steps) if charges_anything(step.event)}
    recorded = _recorded_by_place(plan, predicate)
    if recorded.keys() != measuring:
        fault = f"what was recorded is not of the steps that {PLAN_FILE} lists"
        yield Check(False, f"{STATEMENT_FILE}: {fault}")
        return
    beyond = [
        plan.steps[place].mechanism
        for place, event in recorded.items()
        if not _fits_planned(event, plan.steps[place].event)
    ]
    for name in beyond:
        fault = f"{name} recorded more, or less noise, than its plan lists"
        yield Check(False, f"{STATEMENT_FILE}: {fault}")
    if recorded and not beyond:
        fits = "each measuring step recorded no more than its plan lists"
        yield Check(True, f"{STATEMENT_FILE}: {fits}")


def check_measurements(
    statement: Statement, plan: Plan, read: Callable[[], object]
) -> Iterator[Check]:
    """Whether noisy tables stand beside the log only where the plan's claim covers them, and are
    such: ``read`` raises VerificationFailed where they are not.
    """
    if MEASUREMENTS_FILE not in statement.digests():
        return
    if not tells_measurements(plan):
        fault = f"no claim of {PLAN_FILE} covers what was measured beside the log"
        yield Check(False, f"{MEASUREMENTS_FILE}: {fault}")
        return
    try:
        read()
    except VerificationFailed as error:
        yield Check(False, error.mismatches[0])
    else:
        says = "noisy tables, of a release whose claim covers them"
        yield Check(True, f"{MEASUREMENTS_FILE}: {says}")


def _fits_planned(recorded: PrivacyEvent, planned: PrivacyEvent) -> bool:
    """Whether the answers, one after another, fill slots of the planned event."""
    books = Books.of(planned)
    try:
        for answer in recorded.events if isinstance(recorded, Composed) else (recorded,):
            books.record(answer)
    except PlanUnsound:
        return False
    return True


def check_proof(plan: Plan) -> Check:
    """Whether every claim can be derived from the steps, by this version alone."""
    # Each version computes its own costs. Which one it was is the release's word.
    here = version_of("cloakwork")
    hint = ""
    if plan.engine != here and _VERSION.fullmatch(plan.engine):
        hint = f" (made by Cloakwork {plan.engine}, this is {here}: verify with that version)"
    try:
        proved = prove(plan)
    except PlanMoved as error:
        claims = "its claims cannot be derived again and are the signer's word"
        return Check(False, f"{PLAN_FILE}: {claims}: {first_line(error)}{hint}")
    except UNPROVABLE as error:
        reason = f"{first_line(error)}{hint}"
        return Check(False, f"{PLAN_FILE}: its claims cannot be derived again: {reason}")
    if not proved:
        return Check(True, f"{PLAN_FILE}: it claims no guarantee; that was derived again")
    return Check(True, f"{PLAN_FILE}: every claim and cost was derived again from the steps")


# --- does the released log hold what can be measured on it?


def check_stamp(
    log: LogFiles,
    plan: Plan,
    predicate: PrivacyStatement,
    read: Callable[[Path], Mapping[str, JsonValue]],
) -> Iterator[Check]:
    """Whether each file of the log, or the one beside it, says of the log what the statement says;
    ``read`` gives what one says, or raises LogError.
    """
    if predicate.stamp == "none":
        yield Check(True, f"{log.name}: its format cannot hold a stamp, as the statement says")
        return
    is_beside = predicate.stamp == "sidecar"
    expected = sidecar(plan, predicate) if is_beside else paths_and_texts(stamp(plan, predicate))
    wrong = 0
    files = (log.path.with_name(SIDECAR_FILE),) if is_beside else log.files
    for file in files:
        try:
            faults = differences(expected, read(file))
        except LogError as error:
            faults = (first_line(error),)
        for fault in faults:
            yield Check(False, f"{log.name_of(file)}: stamp: {fault}")
        wrong += len(faults)
    if not wrong:
        whose = "the stamp of each part" if len(files) > 1 else "its stamp"
        yield Check(True, f"{log.name}: {whose} has this statement's digest and guarantees")


def check_contents(
    log: LogFiles, plan: Plan, predicate: PrivacyStatement, read: "Callable[..., ReadFiles]"
) -> Iterator[Check]:
    """Whether the log holds the attributes that the statement lists, each under a rule of the plan,
    each case in one part, and the guarantees that can be measured on it.

    ``read`` is ``read_files``, and of a log in parts has one in memory at a time. k-anonymity
    distinguishes values by their spelling, other guarantees by what they mean.
    """
    unit = plan.facts.unit
    measurable = [claim.guarantee for claim in plan.claims if claim.guarantee.check(unit)]
    spelled: set[str] = set()
    by_value: set[str] = set()
    for guarantee in measurable:
        quasi_identifiers = guarantee.quasi_identifiers()
        # Of quasi-identifiers the spelling counts, of all other columns the value.
        spelled.update(quasi_identifiers)
        by_value.update(set(guarantee.over) - set(quasi_identifiers))
    try:
        found = read(
            log,
            timeless=TIMESTAMPS not in plan.released,
            spelled=spelled,
            by_value=by_value,
            units={unit.attribute or CASE_ID},
            options=plan.output.options,
        )
        mismatches = tuple(column_mismatches(found.held, plan, predicate.released))
        for mismatch in mismatches:
            yield Check(False, f"{log.name}: {mismatch}")
        if not mismatches:
            listed = len(predicate.released)
            same = f"its {listed} attributes are those that the statement lists"
            yield Check(True, f"{log.name}: {same}")
        if found.cases_in_one_part is not None:
            yield found.cases_in_one_part
        for guarantee in measurable:
            released = found.as_written if guarantee.quasi_identifiers() else found.as_values
            yield from check_guarantee(released, guarantee, plan, found.held)
    except LogError as error:
        yield Check(False, f"{log.name}: cannot be read as an event log: {first_line(error)}")


def check_guarantee(
    released: LogHandle, guarantee: Guarantee, plan: Plan, held: HeldAttributes
) -> Iterator[Check]:
    """Measure a guarantee on the released log.

    Where the files do not show units, cases count: a unit owns at least one, so fewer than k cases
    are fewer than k units.
    """
    unit = plan.facts.unit
    attribute = plan.facts.unit.attribute
    visible = ("case", attribute) in held and any(
        item.attribute == attribute and item.treatment in _SHOWS_UNITS for item in plan.attributes
    )
    what = f"measured again: {short_description(guarantee)}"
    employees = guarantee.employees
    # Who performed an event is in no release: of employees the cases alone are counted.
    if isinstance(guarantee, KAnonymity):
        guarantee = guarantee.model_copy(update={"unit": None})
    check = guarantee.check(unit if visible else Unit())
    if check is None:
        return
    try:
        found = check.measured_on(released)
    except GuaranteeBroken as error:
        yield Check(False, f"{what}: {error.observed}")
        return
    group = guarantee.least_group()
    counts_units = attribute is not None and group is not None and group.counts == "units"
    note = _UNITS_HIDDEN if counts_units and not visible else ""
    if employees is not None:
        note = _EMPLOYEES_HIDDEN
    yield Check(found.holds, f"{what}: {found.seen}{note}")
