"""Verification: is a release what its signed statement says, and does it still hold what can be
measured?

Nothing is trusted before it is authentic. First the envelope's signature, then the digests of the
files; only a plan and a log that the statement signs are parsed and examined further. The internal
folder is never looked at: a release is passed on without it. What is found is told in three groups
(``privacy.md`` 10): what was *measured* on the file, what was *derived again* from the plan, and
what remains the *signer's word*. Advisories then say which claims of the version that made the
release were found false since.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import ValidationError

from cloakwork.advisories import Advisory, Finding, Parameters, advisories_for, has_raw_times
from cloakwork.errors import (
    CloakworkError,
    GuaranteeBroken,
    LogError,
    PlanUnsound,
    VerificationFailed,
)
from cloakwork.facts import Unit
from cloakwork.guarantees import short_description
from cloakwork.lineage import TIMESTAMPS
from cloakwork.plan.model import Claim, Plan
from cloakwork.plan.prove import with_own_sentences
from cloakwork.publishing import earlier
from cloakwork.publishing.archive import LOG_NAME, unpacked
from cloakwork.publishing.dsse import Envelope, is_signed_by, read_envelope, read_json
from cloakwork.publishing.folder import (
    PLAN_FILE,
    STATEMENT_FILE,
    Check,
    check_entries,
    check_file,
    holds_internal,
    is_signed,
    read_document,
)
from cloakwork.publishing.keys import SigningKey, keyid_of, public_key, trusted_key, why_trusted
from cloakwork.publishing.released import faults
from cloakwork.publishing.stamp import differences, flat, read_stamp, stamp
from cloakwork.publishing.statement import (
    PREDICATE_TYPE,
    PrivacyStatement,
    Statement,
    in_canonical_form,
    in_own_words,
    state,
)
from cloakwork.publishing.traits import traits_of
from cloakwork.records import stated

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from cloakwork.guarantees import Guarantee
    from cloakwork.log.eventlog import EventLog

_UNPROVABLE: Final = (PlanUnsound, CloakworkError, ValueError, TypeError, LookupError)
"""What a plan that nobody could have made meets while it is proved: unknown steps, parameters,
goals.
"""

EXPECTABLE: Final = ("policy", "dataset", "release")
"""What a caller may expect of a release."""


class _Signed(Protocol):
    """A statement of any format: which files it signs."""

    def digests(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Verification:
    """A release that is what its statement says: who signed it, and what was looked at, in groups.

    ``path``: the folder or file that was named. ``trusted``: why the key counts. ``internal``: the
    internal folder came along. ``advisories``: what was found false since in the version that made
    it, as far as it concerns this release.
    """

    path: Path
    keyid: str
    trusted: str
    statement: PrivacyStatement | earlier.EarlierStatement
    authentic: tuple[Check, ...]
    derived: tuple[Check, ...]
    measured: tuple[Check, ...]
    internal: bool
    advisories: tuple[Finding, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder or file that was named."""
        return self.path

    @property
    def checks(self) -> tuple[str, ...]:
        """Everything looked at, one line each."""
        return tuple(check.says for check in (*self.authentic, *self.derived, *self.measured))

    @property
    def is_earlier(self) -> bool:
        """Whether the release is in the format of version 0.1.0, so that its claims were not
        derived again.
        """
        return isinstance(self.statement, earlier.EarlierStatement)

    @property
    def signers_word(self) -> tuple[str, ...]:
        """What no check can show, one line each."""
        return (
            "that this plan ran on that dataset, with fresh noise, and that its public facts are true",
            *([earlier.NOTE] if self.is_earlier else []),
        )

    @property
    def guarantees(self) -> tuple[tuple[str, str], ...]:
        """Kind and sentence of each guarantee."""
        if isinstance(self.statement, earlier.EarlierStatement):
            signers = "in the signer's words:"
            return tuple(
                (each.kind, f"{each.brief()}; {signers} {each.sentence}")
                for each in self.statement.guarantees
            )
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
    def void(self) -> tuple[Finding, ...]:
        """The guarantees that an advisory voids."""
        return tuple(finding for finding in self.advisories if finding.status == "void")


@dataclass(frozen=True, slots=True)
class _Inside:
    """What plan and log say, both being authentic."""

    derived: tuple[Check, ...] = ()
    measured: tuple[Check, ...] = ()
    advisories: tuple[Finding, ...] = ()
    plan: Plan | None = None


def verify(
    path: Path, *, public_key: Path | None = None, expect: Sequence[tuple[str, str]] = ()
) -> Verification:
    """Check a published release, a folder or the file that ``pack`` made, and measure again what
    can be measured.

    The signature is checked with the key in the file ``public_key``, else with one that is trusted
    here; a key that travels with the release would prove nothing. ``expect``: pairs of ``policy``
    (NAME@VERSION), ``dataset`` or ``release`` and the value that the statement must have.

    Raises VerificationFailed with every mismatch found; also where an advisory voids a guarantee,
    and where the release is not the one expected (``found`` then holds what was verified).
    OutputError when ``public_key``, or a key kept here, cannot be relied on: that says nothing of
    the release.
    """
    if path.is_file():
        with unpacked(path) as folder:
            found = _examined(path, folder, public_key)
    else:
        found = _examined(path, path, public_key)
    failed = [
        *_unexpected(found.statement, expect),
        *(f"void: {finding}" for finding in found.void),
    ]
    if failed:
        raise VerificationFailed(failed, found=found)
    return found


def verify_written(folder: Path, key: SigningKey) -> None:
    """Check a release that was just written by ``key`` and not published yet, by the code of
    ``verify``.

    Raises VerificationFailed, in one line, unless the files are what the statement signs and the
    claims hold on them.
    """
    envelope = read_envelope(read_document(folder / STATEMENT_FILE))
    public = key.private.public_key()
    signed = _signature(envelope, public)
    statement = read_statement(envelope)
    plan, files = _files(folder, statement)
    checks = [signed, *files]
    if all(check.holds for check in checks):
        inside = _inside(folder, plan, statement)
        checks += [*inside.derived, *inside.measured]
    if failed := [check.says for check in checks if not check.holds]:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise VerificationFailed(
            [f"no release, since what was written is not what it states: {failed[0]}{more}"]
        )


def _examined(path: Path, folder: Path, given: Path | None) -> Verification:
    """Verify the folder; raises VerificationFailed with every mismatch. Advisories and expectations
    are left to the caller.
    """
    envelope = read_envelope(read_document(folder / STATEMENT_FILE))
    key = _signer(envelope, given)
    signed = _signature(envelope, key)
    statement = _any_statement(envelope)
    plan, files = _files(
        folder, statement if isinstance(statement, Statement) else statement.envelope
    )
    known = statement if isinstance(statement, Statement) else statement.envelope
    files += check_entries(folder, known.digests())
    mark = _private(known.predicate)
    inside = _Inside()
    if signed.holds and all(check.holds for check in files):
        inside = (
            _inside(folder, plan, statement)
            if isinstance(statement, Statement)
            else _earlier(folder, plan, statement)
        )
    checks = [signed, *files, mark, *inside.derived, *inside.measured]
    if failed := [check.says for check in checks if not check.holds]:
        raise VerificationFailed(failed)
    assert key is not None  # noqa: S101 - without a key the signature check has failed
    said = known.predicate
    if isinstance(said, PrivacyStatement) and inside.plan is not None:
        said = in_own_words(said, with_own_sentences(inside.plan))
    keyid = keyid_of(key)
    trusted = why_trusted(keyid) if given is None else f"given by --public-key {given.name}"
    return Verification(
        path=path,
        keyid=keyid,
        trusted=trusted,
        statement=said,
        authentic=(signed, *files, mark),
        derived=inside.derived,
        measured=inside.measured,
        internal=holds_internal(folder),
        advisories=inside.advisories,
    )


def _unexpected(
    statement: PrivacyStatement | earlier.EarlierStatement, expect: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """What the caller expected and the authentic statement does not say."""
    says = {
        "policy": f"{statement.policy.name}@{statement.policy.version}",
        "dataset": statement.policy.dataset,
        "release": statement.release,
    }
    for name, value in expect:
        if name not in says:
            yield f"nothing can be expected of {name!a}; what can: {', '.join(EXPECTABLE)}"
        elif says[name] != value:
            when = f"{statement.issued:%Y-%m-%d %H:%M} UTC"
            yield f"expected {name} {value!a}, this release is of {name} {says[name]!a}, made {when}"


def _any_statement(envelope: Envelope) -> Statement | earlier.Earlier:
    """A statement of this version, or one of version 0.1.0."""
    content = envelope.content()
    try:
        value = read_json(content)
    except ValueError as error:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not JSON"]) from error
    return (
        earlier.read_earlier(value, content)
        if earlier.is_earlier(value)
        else read_statement(envelope)
    )


def read_statement(envelope: Envelope) -> Statement:
    """The in-toto statement inside an envelope; raises VerificationFailed when it is malformed or
    not canonical.
    """
    content = envelope.content()
    try:
        value = read_json(content)
        statement = Statement.model_validate(value)
        if in_canonical_form(statement) != content:
            raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not in canonical form"])
        return statement
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        fault = f"is not a {PREDICATE_TYPE} as this version knows it: {place}: {first['msg']}"
        raise VerificationFailed([f"{STATEMENT_FILE}: {fault}"]) from error
    except ValueError as error:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not JSON"]) from error


def _signer(envelope: Envelope, given: Path | None) -> "Ed25519PublicKey | None":
    """The key to check the signature with: the one given, else the first trusted one that the
    envelope names.
    """
    if given is not None:
        return public_key(given)
    keys = (trusted_key(signature.keyid) for signature in envelope.signatures)
    return next((key for key in keys if key is not None), None)


def _signature(envelope: Envelope, key: "Ed25519PublicKey | None") -> Check:
    named = ", ".join(signature.keyid for signature in envelope.signatures)
    if key is None:
        return Check(
            False,
            f"signature: made by key {named}, which is not trusted here; get the signer's public key by a way you trust "
            "and name it with --public-key FILE",
        )
    keyid = keyid_of(key)
    if keyid not in named:
        return Check(False, f"signature: made by key {named}, not by the given key {keyid}")
    if not is_signed_by(envelope, key, keyid):
        return Check(False, f"signature: does not fit the statement (key {keyid})")
    return Check(True, f"signature: made over this statement by key {keyid}")


def _files(folder: Path, statement: _Signed) -> tuple[bytes, list[Check]]:
    """The plan's bytes, and the files that the statement signs: which they are, and their digests."""
    digests = statement.digests()
    logs = [name for name in digests if LOG_NAME.fullmatch(name)]
    if len(logs) != 1 or set(digests) != {PLAN_FILE, *logs}:
        return b"", [Check(False, f"{STATEMENT_FILE}: must sign one log and {PLAN_FILE}")]
    plan, of_plan = _plan_file(folder / PLAN_FILE, digests[PLAN_FILE])
    return plan, [check_file(folder / logs[0], digests[logs[0]]), of_plan]


def _plan_file(path: Path, digest: str) -> tuple[bytes, Check]:
    """Read once, so that what is examined is what was signed."""
    try:
        content = read_document(path)
    except VerificationFailed as error:
        return b"", Check(False, error.mismatches[0])
    return content, is_signed(path.name, hashlib.sha256(content).hexdigest() == digest)


def _private(predicate: PrivacyStatement | earlier.EarlierStatement) -> Check:
    if predicate.mark is not None:
        return Check(False, f"the release is marked '{predicate.mark}': it protects nobody")
    if predicate.ledger_entry is None:
        return Check(
            False,
            "the statement names no entry of a ledger: no budget was charged for this release",
        )
    return Check(True, "randomness: stated to be secret, and the cost charged to a ledger")


def _inside(folder: Path, content: bytes, statement: Statement) -> _Inside:
    """What plan and log say, both being authentic."""
    try:
        plan = Plan.model_validate_json(content)
    except ValidationError as error:
        fault = (
            f"{PLAN_FILE}: is not a plan as this version knows it ({error.error_count()} faults)"
        )
        return _Inside(derived=(Check(False, fault),))
    log = folder / next(name for name in statement.digests() if name != PLAN_FILE)
    derived = (_format(log, plan), *_plan(plan, statement.predicate), *_proof(plan))
    measured = (*_stamp(log, plan, statement.predicate), *_contents(log, plan, statement.predicate))
    return _Inside(derived, measured, advisories_for(traits_of(plan)), plan)


def _earlier(folder: Path, content: bytes, statement: earlier.Earlier) -> _Inside:
    """What a release of version 0.1.0 says, measured by the meaning that its claims had then."""
    from cloakwork.log.io import read_log
    from cloakwork.publishing.earlier_checks import MEASURABLE, measured_then, settled

    predicate = statement.envelope.predicate
    plan = earlier.read_earlier_plan(content)
    log = folder / next(name for name in statement.envelope.digests() if name != PLAN_FILE)
    asked_format = log.name == f"log.{plan.policy.spec.output.format}"
    derived = [
        Check(
            asked_format,
            f"{log.name}: is {'' if asked_format else 'not '}in the format of the plan",
        )
    ]
    derived += earlier.same_claims(predicate, plan)
    measured = list(earlier.same_stamp(log, statement))
    try:
        released = read_log(log, timeless=TIMESTAMPS not in plan.released)
    except LogError as error:
        unread = Check(False, f"{log.name}: cannot be read as an event log: {_first_line(error)}")
        return _Inside(tuple(derived), (*measured, unread))
    for each in predicate.guarantees:
        seen = measured_then(released, each.guarantee) if each.kind in MEASURABLE else None
        if seen is not None:
            measured.append(Check(seen.holds, f"measured again: {each.brief()}: {seen.seen}"))
    traits = earlier.traits_of(predicate, plan)
    held, raw_times = earlier.read_as_pattern(released, plan), has_raw_times(traits)

    def settle(advisory: Advisory, guarantee: Parameters | None) -> tuple[bool | None, str] | None:
        if advisory.measure == "columns":
            return None if held is None else (True, held)
        return settled(released, advisory, guarantee, raw_times=raw_times)

    findings = advisories_for(traits, settle)
    return _Inside(tuple(derived), tuple(measured), findings)


def _format(log: Path, plan: Plan) -> Check:
    asked = f"log.{plan.policy.spec.output.format}"
    return Check(
        log.name == asked,
        f"{log.name}: "
        + ("is in" if log.name == asked else "is not in")
        + " the format of the plan",
    )


def _plan(plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the statement says of the plan what a statement of this plan would say."""
    again = state(
        plan,
        predicate.release,
        released=predicate.released,
        private=predicate.mark is None,
        ledger_entry=predicate.ledger_entry,
        issued=predicate.issued,
    )
    different = [
        name
        for name in PrivacyStatement.model_fields
        if stated(getattr(again, name)) != stated(getattr(predicate, name))
    ]
    for name in different:
        yield Check(False, f"{STATEMENT_FILE}: '{name}' is not what {PLAN_FILE} says")
    if not different:
        yield Check(
            True, f"{PLAN_FILE}: policy, guarantees, exposed columns and budget are the statement's"
        )


def prove_again(plan: Plan) -> tuple[Claim, ...]:
    """Derive a plan's claims from scratch; raises PlanUnsound where they cannot be derived."""
    from cloakwork.plan.prove import prove

    return prove(plan)


def _proof(plan: Plan) -> Iterator[Check]:
    try:
        proved = prove_again(plan)
    except _UNPROVABLE as error:
        yield Check(
            False,
            f"{PLAN_FILE}: its claims cannot be derived again: {_first_line(error)}{_other_engine(plan)}",
        )
        return
    if stated(plan.claims) == stated(proved):
        yield Check(
            True,
            f"{PLAN_FILE}: "
            + (_DERIVED if proved else "it claims no guarantee; that was derived again"),
        )
    else:
        yield Check(False, f"{PLAN_FILE}: claims other than can be derived from its steps")


_DERIVED: Final = "every claim and cost was derived again from the steps"


def _other_engine(plan: Plan) -> str:
    """What to try where another version made the plan: costs are computed by the engine's version."""
    here = version("cloakwork")
    return (
        ""
        if plan.engine == here
        else f" (made by Cloakwork {plan.engine}, this is {here}: verify with that version)"
    )


def _stamp(log: Path, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the log says of itself what the statement says."""
    if predicate.stamp == "none":
        yield Check(True, f"{log.name}: its format has no room for a stamp, as the statement says")
        return
    try:
        wrong = differences(flat(stamp(plan, predicate)), read_stamp(log))
    except LogError as error:
        wrong = (_first_line(error),)
    for line in wrong:
        yield Check(False, f"{log.name}: stamp: {line}")
    if not wrong:
        yield Check(True, f"{log.name}: its stamp carries this statement's digest and guarantees")


def _contents(log: Path, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the log holds the attributes that the statement lists, and whatever can be measured
    on it alone.

    What k counts as quasi-identifiers is read as it is written, since that is how k tells values
    apart.
    """
    from cloakwork.checks.measure import checker_of
    from cloakwork.log.io import read_log

    timeless = TIMESTAMPS not in plan.released
    measurable = [claim.guarantee for claim in plan.claims if checker_of(claim.guarantee)]
    spelled = {name for guarantee in measurable for name in guarantee.quasi_identifiers()}
    by_value = {
        name
        for guarantee in measurable
        for name in set(guarantee.over) - set(guarantee.quasi_identifiers())
    }
    both = spelled & by_value
    try:
        released = read_log(log, timeless=timeless, text=spelled - both)
        as_written = (
            read_log(log, timeless=timeless, text=spelled, keep=spelled.__contains__)
            if both
            else released
        )
    except LogError as error:
        yield Check(False, f"{log.name}: cannot be read as an event log: {_first_line(error)}")
        return
    yield from _columns(log, released, plan, predicate)
    for guarantee in measurable:
        yield from _measured_again(
            as_written if guarantee.quasi_identifiers() else released, guarantee, plan
        )


def _columns(
    log: Path, released: "EventLog", plan: Plan, predicate: PrivacyStatement
) -> Iterator[Check]:
    """Whether the log's attributes are exactly those that the statement lists, each under a rule of
    the plan.
    """
    found = tuple(faults(released, plan, predicate.released))
    for fault in found:
        yield Check(False, f"{log.name}: {fault}")
    if not found:
        yield Check(
            True,
            f"{log.name}: its {len(predicate.released)} attributes are those that the statement lists",
        )


def _measured_again(released: "EventLog", guarantee: "Guarantee", plan: Plan) -> Iterator[Check]:
    """Where the file does not tell units, cases count: a unit owns at least one, so fewer than k
    cases are fewer than k.
    """
    from cloakwork.checks.measure import measure

    unit = plan.facts.unit
    kept = any(
        item.attribute == unit.attribute and item.treatment in _TELLING for item in plan.attributes
    )
    visible = kept and unit.attribute in released.cases.columns
    try:
        found = measure(released, guarantee, unit if visible else Unit())
    except GuaranteeBroken as error:
        yield Check(False, f"measured again: {short_description(guarantee)}: {error.observed}")
        return
    if found is None:
        return
    note = _BLIND if _counts_units(guarantee, unit) and not visible else ""
    yield Check(found.holds, f"measured again: {short_description(guarantee)}: {found.seen}{note}")


_TELLING: Final = ("keep", "pseudonymise")
_BLIND: Final = (
    "; units are not in the file, so that the cases belong to different ones is the signer's word"
)


def _counts_units(guarantee: "Guarantee", unit: Unit) -> bool:
    if unit.attribute is None:
        return False
    group = guarantee.least_group()
    return group is not None and group.counts == "units"


def _first_line(error: BaseException) -> str:
    line = str(error).partition("\n")[0]
    return line if len(line) <= 300 else line[:297] + "..."
