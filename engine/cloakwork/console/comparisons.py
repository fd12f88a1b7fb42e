"""Settings beside each other, before one of them is chosen."""

from typing import Final

from starlette.responses import Response

from cloakwork.cli.options import read_profile
from cloakwork.console.jobs import JobProgress, JobResult
from cloakwork.console.sources import policy_names, policy_source
from cloakwork.console.visits import Visit
from cloakwork.console.workplace import OutsideFolder
from cloakwork.evaluation.compare import compare
from cloakwork.evaluation.comparison_messages import beside_lines
from cloakwork.report.comparison_page import comparison_html, table_rows

_MOST_DIGITS: Final = 13


def compare_form(visit: Visit) -> Response:
    """Which settings to compare on which log."""
    return visit.page(
        "compare.html",
        policies=policy_names(visit),
        logs=visit.workplace.look().logs,
        chosen=visit.asked("policy"),
        log=visit.asked("log"),
    )


def compare_settings(visit: Visit) -> Response:
    """Compare them; the ledger notes that, and is charged nothing."""
    log_name, names = visit.sent("log"), visit.fields.get("policy", ())
    if not names:
        raise OutsideFolder("no policy was chosen; choose one or more")
    log = visit.workplace.existing_file(log_name)
    policies = [policy_source(visit, name).policy() for name in names]
    cases = _number_of_cases(visit.sent("cases"))
    profile_name = visit.sent("profile")
    profile = read_profile(visit.workplace.existing_file(profile_name)) if profile_name else None
    sweeps = [part.strip() for part in visit.sent("sweep").split(";") if part.strip()]

    def work(progress: JobProgress) -> JobResult:
        progress("comparing")
        found = compare(
            log,
            policies,
            sweep=sweeps,
            ledger=visit.state.ledger(progress),
            profile=profile,
            cases=cases,
            window=visit.sent("window") or None,
            reporter=progress,
        )
        content = {
            "log": log_name,
            "found": found,
            "rows": table_rows(found),
            "beside": beside_lines(found),
        }
        return JobResult("compared.html", content, document=comparison_html(found, log.name))

    return visit.begin(f"Compare {', '.join(names)} for {log_name}", work)


def _number_of_cases(text: str) -> int | None:
    """The number in a field; None where it is empty."""
    if not text:
        return None
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS and int(digits)):
        raise OutsideFolder(f"number of cases: must be a whole number above 0, not '{text}'")
    return int(digits)
