"""Verification: is a release folder what its signed statement says, and does it still hold what can be measured?

Nothing is trusted before it is authentic. First the envelope's signature, then the digests of the files; only a plan
and a log that the statement signs are parsed and examined further. The internal folder is never looked at: a release is
passed on without it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from cloakwork.errors import CloakworkError, GuaranteeBroken, LogError, OutputError, PlanUnsound, VerificationFailed
from cloakwork.guarantees import brief
from cloakwork.lineage import TIMESTAMPS
from cloakwork.plan.model import Claim, Plan
from cloakwork.plan.prove import in_own_words as plan_in_own_words
from cloakwork.records import stated
from cloakwork.report.annotate import differences, flat, read_stamp, stamp
from cloakwork.report.dsse import Envelope, is_signed_by, read_envelope, read_json
from cloakwork.report.keys import keyid_of, public_key, trusted_key
from cloakwork.report.publish import INTERNAL_FOLDER, PLAN_FILE, STATEMENT_FILE
from cloakwork.report.released import faults
from cloakwork.report.statement import (
    PREDICATE_TYPE,
    PrivacyStatement,
    Statement,
    digest_of,
    in_canonical_form,
    in_own_words,
    state,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from cloakwork.guarantees import Guarantee
    from cloakwork.log.eventlog import EventLog

_UNPROVABLE: Final = (PlanUnsound, CloakworkError, ValueError, TypeError, LookupError)
"""What a plan that nobody could have made meets while it is proved: unknown steps, parameters, goals."""
_LOG: Final = re.compile(r"log\.(?:xes|csv|parquet|xes\.gz|csv\.gz)")


@dataclass(frozen=True, slots=True)
class Verification:
    """A release folder that holds what it says: whose key signed it, and what was checked, one line each."""

    folder: Path
    keyid: str
    statement: PrivacyStatement
    checks: tuple[str, ...]

    @property
    def unproven(self) -> tuple[str, ...]:
        """What the release does not guarantee although its policy asked for it, one line each."""
        return tuple(f"{item.sentence} Why: {'; '.join(item.why)}" for item in self.statement.unproven)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: in words, and whether it holds."""

    holds: bool
    says: str


def verify(folder: Path, *, public_key: Path | None = None) -> Verification:
    """Check a published release and measure again what can be measured.

    The signature is checked with the key in the file ``public_key``, else with the one that ``home()/trusted`` holds
    under the statement's keyid; a key that travels with the release would prove nothing. Raises VerificationFailed with
    every mismatch found, and OutputError when ``public_key`` is no key.
    """
    envelope = read_envelope(_content(folder / STATEMENT_FILE))
    key = _signer(envelope, public_key)
    signed = [_signature(envelope, key)]
    statement = read_statement(envelope)
    files = [*_files(folder, statement), *_no_strangers(folder, statement)]
    mark = [_private(statement.predicate)]
    authentic = key is not None and all(check.holds for check in (*signed, *files))
    inside = [*_inside(folder, statement)] if authentic else []
    checks = [*signed, *files, *mark, *inside]
    if failed := [check.says for check in checks if not check.holds]:
        raise VerificationFailed(failed)
    assert key is not None  # noqa: S101 - without a key the signature check has failed
    said = tuple(check.says for check in checks)
    return Verification(folder, keyid_of(key), _reworded(folder, statement.predicate), said)


def _reworded(folder: Path, predicate: PrivacyStatement) -> PrivacyStatement:
    """A verified statement as it may be shown: its records, in this engine's words."""
    plan = Plan.model_validate_json((folder / PLAN_FILE).read_bytes())
    return in_own_words(predicate, plan_in_own_words(plan))


def read_statement(envelope: Envelope) -> Statement:
    """The in-toto statement inside an envelope; raises VerificationFailed when it is malformed or not canonical."""
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


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise VerificationFailed([f"{path.name}: is missing, this is not a release folder"]) from None
    except OSError as error:
        raise VerificationFailed([f"{path.name}: cannot be read ({error.strerror})"]) from error


def _signer(envelope: Envelope, given: Path | None) -> "Ed25519PublicKey | None":
    """The key to check the signature with: the one given, else the first trusted one that the envelope names."""
    if given is not None:
        return public_key(given)
    try:
        keys = (trusted_key(signature.keyid) for signature in envelope.signatures)
        return next((key for key in keys if key is not None), None)
    except OutputError as error:
        raise VerificationFailed([str(error)]) from error


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


def _files(folder: Path, statement: Statement) -> Iterator[Check]:
    """The files that the statement signs: which they are, and their digests."""
    digests = statement.digests()
    logs = [name for name in digests if _LOG.fullmatch(name)]
    if len(logs) != 1 or set(digests) != {PLAN_FILE, *logs} or len(statement.subject) != 2:
        yield Check(False, f"{STATEMENT_FILE}: must sign one log and {PLAN_FILE}")
        return
    for name, digest in digests.items():
        yield _file(folder / name, digest)


def _file(path: Path, digest: str) -> Check:
    if not path.exists():
        return Check(False, f"{path.name}: is missing")
    if path.is_symlink() or not path.is_file():
        return Check(False, f"{path.name}: is not a plain file")
    try:
        same = digest_of(path) == digest
    except OSError as error:
        return Check(False, f"{path.name}: cannot be read ({error.strerror})")
    return Check(
        same, f"{path.name}: " + ("is the file that was signed" if same else "is not the file that was signed")
    )


def _no_strangers(folder: Path, statement: Statement) -> Iterator[Check]:
    """Files that nobody signed would be passed on as if they belonged to the release."""
    known = {STATEMENT_FILE, INTERNAL_FOLDER, *statement.digests()}
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        yield Check(False, f"the folder cannot be listed ({error.strerror})")
        return
    for name in names:
        if name not in known:
            yield Check(False, f"{name!a}: does not belong to the release; remove it")


def _private(predicate: PrivacyStatement) -> Check:
    if predicate.mark is not None:
        return Check(False, f"the release is marked '{predicate.mark}': it protects nobody")
    if predicate.ledger_entry is None:
        return Check(False, "the statement names no entry of a ledger: no budget was charged for this release")
    return Check(True, "randomness: stated to be secret, and the cost charged to a ledger")


def _inside(folder: Path, statement: Statement) -> Iterator[Check]:
    """What plan and log say, both being authentic."""
    try:
        plan = Plan.model_validate_json((folder / PLAN_FILE).read_bytes())
    except ValidationError as error:
        yield Check(False, f"{PLAN_FILE}: is not a plan as this version knows it ({error.error_count()} faults)")
        return
    log = next(folder / name for name in statement.digests() if name != PLAN_FILE)
    yield _format(log, plan)
    yield from _plan(plan, statement.predicate)
    yield from _proof(plan)
    yield from _stamp(log, plan, statement.predicate)
    yield from _contents(log, plan, statement.predicate)


def _format(log: Path, plan: Plan) -> Check:
    asked = f"log.{plan.policy.spec.output.format}"
    return Check(
        log.name == asked, f"{log.name}: " + ("is in" if log.name == asked else "is not in") + " the format of the plan"
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
        yield Check(True, f"{PLAN_FILE}: policy, guarantees, exposed columns and budget are the statement's")


def prove_again(plan: Plan) -> tuple[Claim, ...]:
    """Derive a plan's claims from scratch; raises PlanUnsound where they cannot be derived."""
    from cloakwork.plan.prove import prove

    return prove(plan)


def _proof(plan: Plan) -> Iterator[Check]:
    try:
        proved = prove_again(plan)
    except _UNPROVABLE as error:
        yield Check(
            False, f"{PLAN_FILE}: its claims cannot be derived again: {_first_line(error)}{_other_engine(plan)}"
        )
        return
    if stated(plan.claims) == stated(proved):
        yield Check(True, f"{PLAN_FILE}: " + (_DERIVED if proved else "it claims no guarantee; that was derived again"))
    else:
        yield Check(False, f"{PLAN_FILE}: claims other than can be derived from its steps")


_DERIVED: Final = "every claim and cost was derived again from the steps"


def _other_engine(plan: Plan) -> str:
    """What to try where another version made the plan: costs are computed by the engine's version."""
    here = version("cloakwork")
    return (
        "" if plan.engine == here else f" (made by Cloakwork {plan.engine}, this is {here}: verify with that version)"
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
    """Whether the log holds the attributes that the statement lists, and whatever can be measured on it alone."""
    from cloakwork.checks.measure import CHECKERS
    from cloakwork.log.io import read_log

    measurable = [claim.guarantee for claim in plan.claims if claim.guarantee.kind in CHECKERS]
    try:
        released = read_log(log, timeless=TIMESTAMPS not in plan.released)
    except LogError as error:
        yield Check(False, f"{log.name}: cannot be read as an event log: {_first_line(error)}")
        return
    yield from _columns(log, released, plan, predicate)
    for guarantee in measurable:
        yield from _measured_again(released, guarantee)


def _columns(log: Path, released: "EventLog", plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the log's attributes are exactly those that the statement lists, each under a rule of the plan."""
    found = tuple(faults(released, plan, predicate.released))
    for fault in found:
        yield Check(False, f"{log.name}: {fault}")
    if not found:
        yield Check(True, f"{log.name}: its {len(predicate.released)} attributes are those that the statement lists")


def _measured_again(released: "EventLog", guarantee: "Guarantee") -> Iterator[Check]:
    """Units are counted as cases: a unit owns at least one, so fewer than k cases are fewer than k units."""
    from cloakwork.checks.measure import measure
    from cloakwork.facts import Unit

    try:
        found = measure(released, guarantee, Unit())
    except GuaranteeBroken as error:
        yield Check(False, f"measured again: {brief(guarantee)}: {error.observed}")
        return
    if found is not None:
        yield Check(found.holds, f"measured again: {brief(guarantee)}: {found.seen}")


def _first_line(error: BaseException) -> str:
    line = str(error).partition("\n")[0]
    return line if len(line) <= 300 else line[:297] + "..."
