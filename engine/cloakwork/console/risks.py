"""Attacks on a log and a release of it: what somebody who knows a little about a case finds."""

from starlette.responses import Response

from cloakwork.console.jobs import JobProgress, JobResult
from cloakwork.console.releases import can_write_pdf, stated
from cloakwork.console.visits import Visit
from cloakwork.console.workplace import OutsideFolder
from cloakwork.evaluation.assess import risk
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.report.risk_page import risk_page

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
    log_name, release_name, targets = (
        visit.sent("log"),
        visit.sent("release"),
        visit.sent("targets"),
    )
    log = visit.workplace.existing_file(log_name)
    released = visit.workplace.existing(release_name) if release_name else None
    if targets not in map(str, TARGETS):
        raise OutsideFolder("there is no such number of cases; choose one of the list")

    def work(progress: JobProgress) -> JobResult:
        found = risk(log, released, targets=int(targets), reporter=progress)
        content = {
            "log": log_name,
            "release": release_name,
            "found": found,
            "reports_on": _folder_of(visit, release_name, found),
            "with_pdf": can_write_pdf(),
        }
        return JobResult("attacked.html", content, document=risk_page(found))

    of_release = f" and {release_name}" if release_name else ""
    return visit.begin(f"Attack {log_name}{of_release}", work)


def _folder_of(visit: Visit, name: str, found: RiskReport) -> str:
    """The release folder that a report with these figures can be made of; empty without one."""
    if not name or found.release is None:
        return ""
    folder = visit.workplace.existing(name)
    said = stated(folder) if (folder / "internal").is_dir() else None
    return name if said is not None and said.id == found.release else ""
