"""Rendering the report of a published release, for insiders or for everybody."""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from cloakwork.accounting.ledger import Ledger
from cloakwork.errors import OutputError, VerificationFailed
from cloakwork.plan.model import Plan
from cloakwork.plan.prove import with_own_sentences
from cloakwork.publishing.dsse import is_signed_by, read_envelope
from cloakwork.publishing.folder import INTERNAL_FOLDER, PLAN_FILE, STATEMENT_FILE
from cloakwork.publishing.from_plan import reworded_statement
from cloakwork.publishing.keys import keyid_of, trusted_key
from cloakwork.publishing.keys import public_key as read_key
from cloakwork.publishing.statement import Statement, file_digest
from cloakwork.publishing.verify import read_statement
from cloakwork.quantities import Frozen
from cloakwork.report.earlier_report import earlier_report, is_earlier_release
from cloakwork.report.html import internal_html, public_html
from cloakwork.report.model import (
    Audience,
    Format,
    InternalReport,
    other_unbounded_releases,
    public_report,
)

M = TypeVar("M", bound=Frozen)


def render(
    folder: Path,
    audience: Audience = "public",
    format: Format = "html",  # noqa: A002 - the option's name
    *,
    public_key: Path | None = None,
    ledger: Ledger | None = None,
) -> str:
    """The report of the release in ``folder`` as text.

    The public report is made of ``statement.json`` and ``plan.json`` alone, the internal one of
    ``internal/report.json``, which nobody signs and which must speak of the same statement.
    ``ledger``: where it knows the release, it tells whether there are others that this one can be
    intersected with; without it the report warns that there may be. Raises
    VerificationFailed unless the statement is signed by the key in ``public_key``, else by a key
    that is trusted here, and the files are those that were signed; what they say is checked by
    ``verify``, not here. Raises OutputError when a file is missing or is not what it should be, and
    for PDF.
    """
    if format == "pdf":
        raise OutputError(
            "a PDF is not made here: write the report as html, open it in a browser "
            "and print it to PDF"
        )
    if is_earlier_release(folder):
        return earlier_report(folder, audience, format, public_key)
    statement, keyids = _authentic(folder, public_key)
    if audience == "internal":
        path = folder / INTERNAL_FOLDER / "report.json"
        if not path.parent.exists():
            raise OutputError(
                f"{folder}: holds no internal part: it stays with whoever made the release; "
                "use --audience public"
            )
        internal = _read(path, InternalReport)
        if internal.statement != statement.predicate:
            raise VerificationFailed(
                [f"{INTERNAL_FOLDER}/report.json: speaks of another statement than the signed one"]
            )
        if format == "json":
            return _json(internal)
        return internal_html(internal, other_unbounded_releases(ledger, internal.statement))
    plan = with_own_sentences(_read(folder / PLAN_FILE, Plan))
    statement = statement.model_copy(
        update={"predicate": reworded_statement(statement.predicate, plan)}
    )
    others = other_unbounded_releases(ledger, statement.predicate)
    public = public_report(statement, plan, keyids, others)
    return public_html(public) if format == "html" else _json(public)


def _authentic(folder: Path, given: Path | None) -> tuple[Statement, tuple[str, ...]]:
    """The statement that was signed, and the ids of the keys it names; see ``render``."""
    envelope = read_envelope(_content(folder / STATEMENT_FILE))
    keyids = tuple(signature.keyid for signature in envelope.signatures)
    known = (trusted_key(keyid) for keyid in keyids) if given is None else iter((read_key(given),))
    key = next((key for key in known if key is not None), None)
    if key is None:
        raise VerificationFailed(
            [
                f"signature: made by key {', '.join(keyids)}, which is not trusted here; "
                "get the signer's public key by a way you trust and name it with --public-key FILE"
            ]
        )
    if not is_signed_by(envelope, key, keyid_of(key)):
        raise VerificationFailed([f"signature: does not fit the statement (key {keyid_of(key)})"])
    statement = read_statement(envelope)
    if wrong := [
        f"{name}: {fault}"
        for name, digest in statement.digests().items()
        if (fault := _fault(folder / name, digest))
    ]:
        raise VerificationFailed(wrong)
    return statement, keyids


def _fault(path: Path, digest: str) -> str | None:
    """What is wrong with a file that was signed with ``digest``; one that is not there tells
    nothing false.
    """
    missing = not path.exists() and not path.is_symlink()
    same = missing or (path.is_file() and not path.is_symlink() and file_digest(path) == digest)
    return None if same else "is not the file that was signed"


def _read(path: Path, model: type[M]) -> M:
    try:
        return model.model_validate_json(_content(path))
    except ValidationError as error:
        raise OutputError(
            f"{path}: is not what this version of Cloakwork wrote ({error.error_count()} faults)"
        ) from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror})") from error


def _json(report: Frozen) -> str:
    return report.model_dump_json(by_alias=True, indent=2)
