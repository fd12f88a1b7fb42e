"""Making the report of a release, for insiders or for everybody, and writing it to a file."""

import json
import os
from pathlib import Path
from typing import Any, TypeVar

from cloakwork.base.errors import OutputError, VerificationFailed
from cloakwork.base.files import make_file, new_file, output_fault, require_new
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import with_own_sentences
from cloakwork.publishing.examine import known_key
from cloakwork.publishing.folder import INTERNAL_FOLDER, PLAN_FILE, STATEMENT_FILE
from cloakwork.publishing.folder import check_file as check_signed_file
from cloakwork.publishing.from_plan import reworded_statement
from cloakwork.publishing.keys import read_envelope, read_json
from cloakwork.publishing.statement import (
    PLAN_SCHEMA,
    PrivacyStatement,
    Statement,
    published_schema,
    schema_fault,
)
from cloakwork.publishing.verify import check_signature, read_statement
from cloakwork.report.html import bar, internal_html, page
from cloakwork.report.interchange import assessment_results, dpv_terms
from cloakwork.report.model import (
    INTERNAL_BANNER,
    REPORT_SCHEMA,
    Audience,
    Examination,
    Format,
    InternalReport,
    examined,
    internal_report,
    ledger_view,
    other_unbounded_releases,
    public_report,
    released_accuracy,
    released_pictures,
    unprotected_groups,
)
from cloakwork.report.page_tree import markdown_of, pdf_of
from cloakwork.report.risk import require_internal, require_of_release
from cloakwork.report.texts import warning_lines
from cloakwork.run.run import Release

M = TypeVar("M", bound=Frozen)


@frozen
class AuthenticRelease:
    """A folder whose statement is signed by a trusted key, and whose files are the signed ones."""

    folder: Path
    statement: Statement
    keyids: tuple[str, ...]
    examination: Examination


def render(
    folder: Path,
    audience: Audience = "public",
    format: Format = "html",  # noqa: A002 - the option's name
    *,
    public_key: Path | None = None,
    ledger: Ledger | None = None,
    risk: RiskReport | None = None,
) -> str:
    """The report of the release in ``folder`` as text; for a PDF, ``render_pdf``.

    The public report is made of ``statement.json``, ``plan.json`` and the released log, if it is
    there; the internal one of ``internal/report.json``, which nobody signs and which must speak of
    the same statement. ``format``: ``dpv`` is for everybody, ``dpia`` for insiders.
    ``ledger``: where it knows the release, it tells whether there are others that this one can be
    intersected with; without it the report warns that there may be. Raises
    VerificationFailed unless the statement is signed by the key in ``public_key``, else by a key
    that is trusted here, and the files are those that were signed; what ``verify`` finds beyond is
    told in the report. Raises OutputError when a file is missing or is not what it should be.
    ``risk``: what attacks on this release found, for the internal report; OutputError where it is
    of another release, or the report is for everybody.
    """
    if format == "pdf":
        raise OutputError("a PDF is bytes: call render_pdf")
    # Figures of the raw log are refused to outsiders before anything is verified.
    if risk is not None:
        require_internal(audience, format)
    release = _authentic(folder, public_key)
    if audience == "internal":
        return _internal_text(release, format, ledger, risk)
    return _public_text(release, format, ledger)


def render_pdf(
    folder: Path,
    audience: Audience = "public",
    *,
    public_key: Path | None = None,
    ledger: Ledger | None = None,
    risk: RiskReport | None = None,
) -> bytes:
    """The report as a PDF with tags, after PDF/UA-1; arguments and errors as for ``render``.
    Needs the extra ``pdf``.
    """
    page = render(folder, audience, "html", public_key=public_key, ledger=ledger, risk=risk)
    statement = read_statement(read_envelope(_content(folder / STATEMENT_FILE))).predicate
    title = f"Privacy statement: {statement.policy.dataset}"
    running = f"{statement.policy.dataset} · release {statement.release}"
    if audience == "internal":
        title = f"Internal audit report: {statement.policy.dataset}"
        running = f"{INTERNAL_BANNER} {running}"
    return pdf_of(page, title=title, running=running, issued=statement.issued)


def _public_text(release: AuthenticRelease, format_: Format, ledger: Ledger | None) -> str:
    # Prose of the files is not believed: sentences are written anew from the records.
    plan = with_own_sentences(_read(release.folder / PLAN_FILE, Plan, PLAN_SCHEMA))
    statement = release.statement.model_copy(
        update={"predicate": reworded_statement(release.statement.predicate, plan)}
    )
    said = statement.predicate
    if format_ == "dpv":
        return _as_json(dpv_terms(said, unprotected_groups(plan, said)))
    if format_ == "oscal":
        return _as_json(assessment_results(said, plan, release.examination))
    if format_ == "dpia":
        raise OutputError(
            "an impact assessment is filled from the internal report: use --audience internal"
        )
    public = public_report(
        statement,
        plan,
        release.keyids,
        other_unbounded_releases(ledger, said),
        examination=release.examination,
        pictures=released_pictures(release.folder, statement, plan),
        accuracy=released_accuracy(release.folder, statement, plan),
    )
    if format_ == "dp-registry":
        return markdown_of(page("registry.html", report=public))
    if format_ != "html":
        return _json(public)
    return page("public.html", report=public, bars=[*map(bar, said.budget)])


def _internal_text(
    release: AuthenticRelease, format_: Format, ledger: Ledger | None, risk: RiskReport | None
) -> str:
    if format_ in ("dpv", "dp-registry"):
        raise OutputError(f"{format_} is of the public statement: use --audience public")
    # Figures of another release would be read as this one's.
    if risk is not None:
        require_of_release(risk, release.statement.predicate.release)
    report = _internal_report(release, ledger).model_copy(update={"risk": risk})
    if format_ == "json":
        return _json(report)
    if format_ == "oscal":
        observed = {verdict.sentence: verdict.observed for verdict in report.verdicts}
        document = assessment_results(report.statement, report.plan, report.examination, observed)
        return _as_json(document)
    if format_ == "dpia":
        return markdown_of(page("dpia.html", report=report))
    return internal_html(report, release.statement.digests())


def _internal_report(release: AuthenticRelease, ledger: Ledger | None) -> InternalReport:
    """The report as it was written, and what this run found beside."""
    path = release.folder / INTERNAL_FOLDER / "report.json"
    if not path.parent.exists():
        raise OutputError(
            f"{release.folder}: holds no internal part: it stays with whoever made the release; "
            "use --audience public"
        )
    written = _read(path, InternalReport, REPORT_SCHEMA)
    # Nobody signs the internal part, so it must at least speak of the same release.
    if written.statement != release.statement.predicate:
        raise VerificationFailed(
            [f"{INTERNAL_FOLDER}/report.json: speaks of another statement than the signed one"]
        )
    # A report that was written without a ledger may find it now.
    others = other_unbounded_releases(ledger, written.statement)
    seen = written.ledger or ledger_view(ledger, written.plan, written.statement.release)
    return written.model_copy(
        update={
            "examination": release.examination,
            "unprotected": unprotected_groups(written.plan, written.statement),
            "ledger": seen,
            "warnings": warning_lines(written.plan, others, which="other"),
        }
    )


def _authentic(folder: Path, given: Path | None) -> AuthenticRelease:
    """The release with the statement that was signed; see ``render``."""
    # Nothing of the folder is believed before its signature is checked.
    envelope = read_envelope(_content(folder / STATEMENT_FILE))
    keyids = tuple(signature.keyid for signature in envelope.signatures)
    signed = check_signature(envelope, known_key(given, envelope))
    if not signed.holds:
        raise VerificationFailed([signed.says])
    statement = read_statement(envelope)
    # A file that is missing tells nothing false.
    checks = [
        check_signed_file(folder, name, digest)
        for name, digest in statement.digests().items()
        if os.path.lexists(folder / name)
    ]
    if wrong := [check.says for check in checks if not check.holds]:
        raise VerificationFailed(wrong)
    return AuthenticRelease(folder, statement, keyids, examined(folder, given))


def _read(path: Path, model: type[M], schema: str) -> M:
    content = _content(path)
    try:
        if fault := schema_fault(read_json(content), published_schema(schema)):
            raise OutputError(f"{path}: does not fit its schema: {fault}")
        return model.model_validate_json(content)
    except ValueError as error:
        raise OutputError(f"{path}: is not what this version of Cloakwork wrote") from error


def _content(path: Path) -> bytes:
    with output_fault(f"{path}: cannot be read"):
        return path.read_bytes()


def _as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2)


def _json(report: Frozen) -> str:
    return report.model_dump_json(by_alias=True, indent=2)


def internal_files(
    release: Release, statement: PrivacyStatement, writing: float
) -> dict[str, bytes]:
    """The report in the formats that the policy asks for, by file name; none where it asks for
    none.

    ``writing``: seconds that writing the log took.
    """
    formats = release.plan.policy.spec.output.report
    if not formats:
        return {}
    report = internal_report(release, statement, writing)
    banner = f"{INTERNAL_BANNER}\nRemove this folder before the release is passed on.\n"
    files = {"README.txt": banner.encode()}
    if "json" in formats:
        files["report.json"] = _json(report).encode() + b"\n"
    if "html" in formats:
        files["report.html"] = internal_html(report).encode()
    return files


def check_file(out: Path) -> None:
    """Refuse a file that exists, or that would lie among the signed files of a release, before
    anything is computed. Raises OutputError.
    """
    require_new(out)
    place = out.resolve()
    for folder in place.parents:
        # The internal folder is not signed: a report may lie in it.
        if (folder / STATEMENT_FILE).exists() and folder / INTERNAL_FOLDER not in place.parents:
            raise OutputError(
                f"{out}: lies in a release, whose files are signed; name a file outside it"
            )


def write_file(
    out: Path,
    content: bytes,
    *,
    private: bool,
) -> None:
    """Write ``content`` to the new file ``out``; ``private``: readable by its owner only. Raises
    OutputError; then there is no file.
    """
    with new_file(out) as draft:
        make_file(draft, content, 0o600 if private else 0o666)
