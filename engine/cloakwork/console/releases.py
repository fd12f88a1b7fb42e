"""Attacks on a log and a release of it: what somebody who knows a little about a case finds."""

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from starlette.responses import FileResponse, HTMLResponse, Response

from cloakwork import api
from cloakwork.api import risk
from cloakwork.base.errors import VerificationFailed
from cloakwork.console.guard import REPORT_POLICY
from cloakwork.console.visits import STATEMENT, JobProgress, JobResult, OutsideFolder, Visit
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.publishing.keys import read_envelope
from cloakwork.publishing.publish import pack as pack_release
from cloakwork.publishing.statement import PrivacyStatement
from cloakwork.publishing.verify import Verification, read_statement
from cloakwork.report.ledger_text import charge_text
from cloakwork.report.model import Audience
from cloakwork.report.render import render, render_pdf
from cloakwork.report.risk import risk_page
from cloakwork.report.screen import ScreenSection
from cloakwork.report.verification import refusal_line, verdict_line, verification_sections


def all_releases(visit: Visit) -> Response:
    """The releases of the folder, and what was packed."""
    found = visit.workplace.look()
    rows = [
        {"folder": name, "stated": stated(visit.workplace.existing(name))}
        for name in found.releases
    ]
    return visit.page("releases.html", rows=rows, packed=found.packed, all_seen=found.all_seen)


def stated(folder: Path) -> PrivacyStatement | None:
    """What the statement of a release says, and nothing of it is verified; None where it is none of
    this version.
    """
    try:
        return read_statement(read_envelope((folder / STATEMENT).read_bytes())).predicate
    except (VerificationFailed, OSError):
        return None


def one_release(visit: Visit) -> Response:
    """One release: what it says, and what can be done with it."""
    name = visit.asked("folder")
    folder = release_folder(visit, name)
    said = stated(folder)
    record = None
    if said is not None:
        records = visit.state.ledger().history(said.policy.dataset)
        record = next((each for each in records if each.id == said.release), None)
    return visit.page(
        "release.html",
        folder_name=name,
        stated=said,
        internal=(folder / "internal").is_dir(),
        with_pdf=can_write_pdf(),
        charged=() if record is None else tuple(map(charge_text, record.charges)),
        state="" if record is None else record.state,
        out=f"{folder.name}.zip",
    )


def can_write_pdf() -> bool:
    """Whether what sets a PDF is installed (extra ``pdf``)."""
    return find_spec("typst") is not None


def release_folder(visit: Visit, name: str) -> Path:
    """The folder of a release; raises OutsideFolder where it is none."""
    folder = visit.workplace.existing(name)
    if not (folder / STATEMENT).is_file():
        raise OutsideFolder(f"{name}: is no release, which holds {STATEMENT}")
    return folder


def report(visit: Visit) -> Response:
    """The audit report as a page of its own, which may do nothing but be read; as a PDF, to be
    saved. ``risk``: the work that attacked the release, for insiders.
    """
    folder = release_folder(visit, visit.asked("folder"))
    audience: Audience = "internal" if visit.asked("audience") == "internal" else "public"
    ledger = visit.state.ledger()
    risk = figures_of(visit, visit.asked("risk"))
    if visit.asked("format") == "pdf":
        made = render_pdf(folder, audience, ledger=ledger, risk=risk)
        # Quoted, so that no name of a folder can end the header and begin another.
        name = quote(f"{folder.name}-{audience}.pdf", safe="")
        headers = {"Content-Disposition": f"attachment; filename*=utf-8''{name}"}
        return Response(made, media_type="application/pdf", headers=headers)
    # The page holds its own style, and may load and run nothing.
    text = render(folder, audience, "html", ledger=ledger, risk=risk)
    return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})


def figures_of(visit: Visit, number: str) -> RiskReport | None:
    """What the job of this number found; None without a number."""
    if not number:
        return None
    job = visit.state.jobs.get(number)
    found = None if job is None else job.result.content.get("found")
    # A comparison has its result under the same name, and holds no figures of an attack.
    if not isinstance(found, RiskReport):
        raise OutsideFolder("no figures of an attack came of this work; attack the release again")
    return found


def verify(visit: Visit) -> Response:
    """Check a release, or a packed file, as whoever receives it does."""
    name = visit.sent("folder")
    path = visit.workplace.existing(name)

    def work(progress: JobProgress) -> JobResult:
        progress("checking the signature, and measuring again")
        failure: tuple[str, ...] = ()
        try:
            found: object = api.verify(path)
        # A failure is a result to be shown, not an error of the console.
        except VerificationFailed as error:
            found = error.found
            failure = error.mismatches
        sections: tuple[ScreenSection, ...] = ()
        verdict = "NOT VERIFIED"
        if isinstance(found, Verification):
            sections = tuple(verification_sections(found, show_all=True))
            verdict = refusal_line(found) if failure else verdict_line(found)
        return JobResult(
            "verified.html",
            {
                "folder_name": name,
                "verdict": verdict,
                "failure": failure,
                "sections": sections,
            },
        )

    return visit.begin(f"Verify {name}", work)


def pack(visit: Visit) -> Response:
    """Put the public parts of a release into one file, once they are verified."""
    name = visit.sent("folder")
    folder = release_folder(visit, name)
    out, packed = visit.new_file(".zip")

    def work(progress: JobProgress) -> JobResult:
        progress("verifying what is packed")
        found = pack_release(folder, out)
        return JobResult(
            "packed.html",
            {
                "folder_name": name,
                "packed": packed,
                "release": found.statement.release,
                "left_out": found.internal,
            },
        )

    return visit.begin(f"Pack {name}", work)


def download(visit: Visit) -> Response:
    """A packed file, to be saved."""
    path = visit.workplace.existing_file(visit.asked("file"))
    # Only packed releases leave the folder so, never a log or an internal figure.
    if path.suffix.lower() != ".zip":
        raise OutsideFolder(f"{path.name}: is no packed release, which ends in .zip")
    return FileResponse(path, media_type="application/zip", filename=path.name)


TARGETS = (100, 300, 1000)
"""Cases that can be looked for: of more, the work takes minutes."""


def risk_form(visit: Visit) -> Response:
    """Which log to attack, and which release of it."""
    found = visit.workplace.look()
    return visit.page(
        "risk.html",
        logs=found.logs,
        releases=(*found.releases, *found.packed),
        log=visit.asked("log"),
        release=visit.asked("folder"),
        targets=TARGETS,
    )


def attack(visit: Visit) -> Response:
    """Attack them; internal."""
    log_name = visit.sent("log")
    release_name = visit.sent("release")
    targets = visit.sent("targets")
    log = visit.workplace.existing_file(log_name)
    released = visit.workplace.existing(release_name) if release_name else None
    # A form can send any number, and the work grows with it.
    if targets not in map(str, TARGETS):
        raise OutsideFolder("there is no such number of cases; choose one of the list")

    def work(progress: JobProgress) -> JobResult:
        found = risk(log, released, targets=int(targets), reporter=progress)
        # The release folder that a report with these figures can be made of, if there is one.
        said = stated(released) if released and (released / "internal").is_dir() else None
        reports_on = release_name if said is not None and said.release == found.release else ""
        content = {
            "log": log_name,
            "release": release_name,
            "found": found,
            "reports_on": reports_on,
            "with_pdf": can_write_pdf(),
        }
        return JobResult("attacked.html", content, document=risk_page(found))

    of_release = f" and {release_name}" if release_name else ""
    return visit.begin(f"Attack {log_name}{of_release}", work)
