"""Rendering the report of a published release, for insiders or for everybody."""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from cloakwork.errors import OutputError, VerificationFailed
from cloakwork.plan.model import Plan
from cloakwork.plan.prove import in_own_words
from cloakwork.quantities import Frozen
from cloakwork.report.dsse import read_envelope
from cloakwork.report.html import internal_html, public_html
from cloakwork.report.model import Audience, Format, InternalReport, PublicReport, public_report
from cloakwork.report.publish import INTERNAL_FOLDER, PLAN_FILE, STATEMENT_FILE
from cloakwork.report.statement import digest_of
from cloakwork.report.statement import in_own_words as reworded
from cloakwork.report.verify import read_statement

M = TypeVar("M", bound=Frozen)


def render(folder: Path, audience: Audience = "public", format: Format = "html") -> str:  # noqa: A002 - the option's name
    """The report of the release in ``folder`` as text.

    The public report is made of ``statement.json`` and ``plan.json`` alone, the internal one of ``internal/report.json``.
    Shows what is stated; checking it is ``verify``'s work. Raises OutputError when a file is missing or is not what it
    should be, and for PDF.
    """
    if format == "pdf":
        raise OutputError("a PDF is not made here: write the report as html, open it in a browser and print it to PDF")
    if audience == "internal":
        internal = _read(folder / INTERNAL_FOLDER / "report.json", InternalReport)
        return internal_html(internal) if format == "html" else _json(internal)
    public = read_public(folder)
    return public_html(public) if format == "html" else _json(public)


def read_public(folder: Path) -> PublicReport:
    """What the statement and the plan in ``folder`` say; raises OutputError when they do not belong together."""
    try:
        envelope = read_envelope(_content(folder / STATEMENT_FILE))
        statement = read_statement(envelope)
    except VerificationFailed as error:
        raise OutputError(error.mismatches[0]) from error
    plan = _read(folder / PLAN_FILE, Plan)
    if statement.digests().get(PLAN_FILE) != digest_of(folder / PLAN_FILE):
        raise OutputError(
            f"{folder / PLAN_FILE}: is not the plan that the statement signs; run: cloakwork verify {folder}"
        )
    plan = in_own_words(plan)
    statement = statement.model_copy(update={"predicate": reworded(statement.predicate, plan)})
    return public_report(statement, plan, tuple(signature.keyid for signature in envelope.signatures))


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
