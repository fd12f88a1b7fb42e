"""Settings beside each other, before one of them is chosen."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from starlette.responses import HTMLResponse, JSONResponse, Response

from cloakwork import api
from cloakwork.api import compare
from cloakwork.authoring.advice import lint_dataset
from cloakwork.authoring.answers import CHOICES, QUESTIONS, asked_request
from cloakwork.authoring.registry import read_profile
from cloakwork.authoring.suggestion import (
    AUDIENCES,
    GOALS,
    HARMS,
    KNOWLEDGE,
    OPTIONS,
    Suggestion,
    SuggestionRequest,
    forms_beside,
)
from cloakwork.authoring.versions import text_digest
from cloakwork.base.errors import CloakworkError, PlanMoved
from cloakwork.console.guard import REPORT_POLICY
from cloakwork.console.visits import (
    PLAN_ENDING,
    Job,
    JobProgress,
    JobResult,
    OutsideFolder,
    Visit,
    address,
    go,
    job_page,
    policy_file,
    policy_names,
    policy_source,
    write_text,
)
from cloakwork.evaluation.compare import rehearsed, release_fault
from cloakwork.plan.budget import Profile
from cloakwork.plan.model import Plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.document import read_text
from cloakwork.policy.lint import lint
from cloakwork.policy.load import read_policy_text
from cloakwork.policy.model import Policy
from cloakwork.report.comparison import beside_lines, comparison_html, form_rows, table_rows
from cloakwork.report.failures import noting_remains
from cloakwork.report.ledger_text import is_charged
from cloakwork.report.outcome import outcome
from cloakwork.report.plan_screen import branches, plan_sections
from cloakwork.report.policy_findings import placed_advice
from cloakwork.report.texts import warning_lines

_COLUMNS: Final = (
    ("case", "Column of the case", ""),
    ("activity", "Column of the activity", ""),
    ("timestamp", "Column of the time", ""),
)
_OTHER_COLUMNS: Final = "other_columns"
_OPTIONS: Final = tuple(
    (name, name.replace("_", " ").capitalize(), note) for name, note in OPTIONS.items()
)
READING: Final = (
    *_COLUMNS,
    (_OTHER_COLUMNS, "Columns of the whole case", "case:NAME=COLUMN, divided by semicolons"),
    *_OPTIONS,
)
"""Each field: its name, its label, and a note."""


def reading_sent(visit: Visit) -> tuple[dict[str, str], dict[str, str]]:
    """Which column holds what, and the other keys of ``spec.input``: what the form says."""
    columns = {name: visit.sent(name) for name, _, _ in _COLUMNS if visit.sent(name)}
    for pair in filter(None, map(str.strip, visit.sent(_OTHER_COLUMNS).split(";"))):
        name, sign, column = pair.partition("=")
        if not (sign and name.strip() and column.strip()):
            raise OutsideFolder(f"columns of the whole case: {pair!r} is not case:NAME=COLUMN")
        columns[name.strip()] = column.strip()
    said = {name: visit.sent(name) for name, _, _ in _OPTIONS if visit.sent(name)}
    return columns, said


def all_logs(visit: Visit) -> Response:
    """The logs of the folder."""
    found = visit.workplace.look()
    rows = [
        {"name": name, "bytes": visit.workplace.existing_file(name).stat().st_size}
        for name in found.logs
    ]
    return visit.page("logs.html", rows=rows, all_seen=found.all_seen)


def suggest_form(visit: Visit) -> Response:
    """What to say about a policy that is to be proposed for a log."""
    log = visit.asked("log")
    stem = Path(log).name.split(".")[0]
    return visit.page(
        "suggest.html",
        logs=visit.workplace.look().logs,
        log=log,
        out=f"{stem}.yaml" if stem else "",
        audiences=AUDIENCES,
        goals=GOALS,
        reading=READING,
        questions=QUESTIONS,
        knowledge=KNOWLEDGE,
        harms=HARMS,
    )


def suggest(visit: Visit) -> Response:
    """Read a log, and write a policy that fits it."""
    log = visit.workplace.existing_file(visit.sent("log"))
    out, name = visit.new_file(".yaml")
    audience = visit.sent("audience")
    goal = visit.sent("goal") or None
    if audience not in AUDIENCES or goal not in (*GOALS, None):
        raise OutsideFolder("there is no such audience or goal; choose one of the list")
    columns, said = reading_sent(visit)
    request = SuggestionRequest(
        log=log,
        out=out,
        header={name: visit.sent(name) or None for name in ("dataset", "owner", "purpose")},
        audience=audience,
        goal=goal,
        columns=columns,
        said=said,
    )
    # Who receives the release, and what else they hold.
    answers: dict[str, object] = {"public": visit.sent("public"), "who": visit.sent("who") or None}
    for each in ("knowledge", "harm"):
        if value := visit.sent(each):
            if value not in CHOICES[each]:
                raise OutsideFolder(f"{each} is one of {', '.join(CHOICES[each])}")
            answers[each] = value
    answers["contract"] = visit.sent("contract") != "no"
    request = asked_request(request, answers, base=log.parent, label="public")
    tries = bool(visit.sent("try"))

    def work(progress: JobProgress) -> JobResult:
        progress("reading the log")
        ledger = visit.state.ledger()
        found = request.suggestion(progress).known_to(ledger)
        found = replace(found, confirmed_by=visit.sent("confirm") or None)
        beside = forms_beside(found)
        assert found.log is not None  # noqa: S101 - it was read just now
        forms = rehearsed(found.log, beside, ledger, progress) if tries else ()
        # What can never be applied is not proposed.
        fault = release_fault(beside[found.form], found.log, ledger)
        if fault is None:
            write_text(out, found.text)
        return JobResult(
            "suggested.html",
            {
                "file": name,
                "log": visit.sent("log"),
                # The log would stay in memory as long as the job is remembered.
                "suggestion": replace(found, log=None),
                "fault": fault,
                "forms": forms,
                "rows": form_rows(forms, found.threshold),
            },
        )

    return visit.begin(f"Propose a policy for {visit.sent('log')}", work)


def take(visit: Visit) -> Response:
    """Write another form of release than the proposed one; the policy says that it was chosen."""
    job = visit.state.jobs.get(visit.sent("job"))
    content = {} if job is None else job.result.content
    found = content.get("suggestion")
    form = visit.sent("form")
    if not isinstance(found, Suggestion):
        raise OutsideFolder("this proposal is not known any more; propose again")
    others = [each.name for each in content["forms"] if each.name != found.form]
    forms = {found.form: found} | {each: found.taking(each) for each in others}
    if form not in forms:
        raise OutsideFolder("there is no such form; choose one of the table")
    if fault := release_fault(forms_beside(forms[form])[form], None, visit.state.ledger()):
        raise CloakworkError(f"{form}: {fault}")
    # Only the proposal itself is replaced, never what somebody has made of it since.
    name = content["file"]
    path = visit.workplace.root / name
    if not path.exists():
        path = visit.workplace.new(name)
    elif read_text(policy_file(visit, name)) not in [each.text for each in forms.values()]:
        raise OutsideFolder(f"{name}: has changed since it was proposed; propose again")
    write_text(path, forms[form].text)
    return go(address("/policy", file=name))


def lint_log(visit: Visit) -> Response:
    """Advice on a saved policy that only its log can give."""
    name = visit.sent("file")
    log_name = visit.sent("log")
    path = policy_file(visit, name)
    log = visit.workplace.existing_file(log_name)
    text = read_policy_text(path)
    policy = parse_policy(text, name)

    def work(progress: JobProgress) -> JobResult:
        progress("reading the log")
        # The log's advice is internal; the page says so.
        advice = lint(policy) + api.advice_on_log(policy, log)
        advice += lint_dataset(policy, visit.state.ledger())
        found = placed_advice(policy, advice, text, name, with_log=True, with_ledger=True)
        return JobResult("linted.html", {"file": name, "log": log_name, "advice": found})

    return visit.begin(f"Lint {name} beside {log_name}", work)


def plan_form(visit: Visit) -> Response:
    """Which policy and which log to plan for."""
    found = visit.workplace.look()
    return visit.page(
        "plan.html",
        policies=policy_names(visit),
        logs=found.logs,
        plans=found.plans,
        policy=visit.asked("policy"),
        log=visit.asked("log"),
        saved=visit.asked("saved"),
    )


def plan(visit: Visit) -> Response:
    """Say what would be done, what it gives and what it costs."""
    policy_name = visit.sent("policy")
    log_name = visit.sent("log")
    window = visit.sent("window")
    source = policy_source(visit, policy_name)
    log = visit.workplace.existing_file(log_name)

    def work(progress: JobProgress) -> JobResult:
        made = source.plan(window=window or None)
        budget = api.budget(made, ledger=visit.state.ledger())
        # What differential privacy protects is never read while planning.
        progress("trying the steps out" if api.previewable(made) else "planned")
        previewed = api.preview(made, log, reporter=progress) if api.previewable(made) else ()
        warnings = warning_lines(made, budget.without_dp)
        out = _free(visit, f"release-{made.policy.metadata.name}")
        return JobResult(
            "planned.html",
            {
                "policy": policy_name,
                "log": log_name,
                "window": window,
                "spends": is_charged(made),
                "digest": text_digest(made.model_dump_json()),
                "sections": plan_sections(made, log.name, previewed, budget),
                "branches": tuple(branches(made, previewed, warnings, show_all=True)),
                "out": out,
                "plan_out": _free(visit, f"plan-{made.policy.metadata.name}", PLAN_ENDING),
            },
        )

    return visit.begin(f"Plan {policy_name} for {log_name}", work)


def _free(visit: Visit, name: str, ending: str = "") -> str:
    """The first name that is free, as a proposal; the form may hold another."""
    names = (f"{name}-{number}{ending}" for number in count(1))
    return next(each for each in names if not (visit.workplace.root / each).exists())


def _planned(visit: Visit) -> Plan:
    """The plan that was read on its page, planned again."""
    name = visit.sent("policy")
    window = visit.sent("window")
    plan = policy_source(visit, name).plan(window=window or None)
    if visit.sent("digest") != text_digest(plan.model_dump_json()):
        raise PlanMoved(f"{name}: has changed since it was planned here; plan again")
    return plan


def save_plan(visit: Visit) -> Response:
    """Write the plan to a file of its own, to be opened, compared and applied later, here or with
    ``cloakwork apply PLAN LOG``.
    """
    made = _planned(visit)
    out, name = visit.new_file(PLAN_ENDING)
    write_text(out, policy_source(visit, visit.sent("policy")).saved_as(made, out))
    return go(address("/plan", policy=name, log=visit.sent("log"), saved="1"))


def apply(visit: Visit) -> Response:
    """Make the release that was planned."""
    policy_name = visit.sent("policy")
    log_name = visit.sent("log")
    log = visit.workplace.existing_file(log_name)
    out, name = visit.new_file()
    is_required = bool(visit.sent("require_approval"))

    def work(progress: JobProgress) -> JobResult:
        # What was read on the page of the plan is what is applied.
        made = _planned(visit)
        spends = is_charged(made)
        progress.spends(is_so=spends)
        book = visit.state.ledger(progress)
        with noting_remains(book, out):
            published = api.release(
                made, log, out, ledger=book, reporter=progress, require_approval=is_required
            )
        # Paths below the folder are shown as the pages call them.
        named = visit.workplace.in_own_names
        sections = [
            replace(each, entries=tuple(map(named, each.entries))) for each in outcome(published)
        ]
        return JobResult(
            "applied.html",
            {
                "folder_name": name,
                "spends": spends,
                "dataset": made.policy.metadata.dataset,
                "sections": sections,
                "new_key": published.new_public_key,
            },
        )

    return visit.begin(f"Apply {policy_name} to {log_name}", work, spends=True)


def all_work(visit: Visit) -> Response:
    """All jobs since the console was started."""
    return visit.page("jobs.html", jobs=visit.state.jobs.newest_first())


def follow(visit: Visit) -> Response:
    """How far a job is; once it is done, what came of it."""
    job = _job(visit)
    if job.state == "done":
        return visit.page(job.result.template, job=job, **job.result.content)
    return visit.page("job.html", job=job)


def document(visit: Visit) -> Response:
    """The page of its own that came of a job, which may do nothing but be read."""
    job = _job(visit)
    if not job.result.document:
        raise OutsideFolder("no page came of this work")
    return HTMLResponse(job.result.document, headers={"Content-Security-Policy": REPORT_POLICY})


def progress(visit: Visit) -> Response:
    """The same for the script that keeps the page up to date."""
    job = _job(visit)
    said = {"state": job.state, "ended": job.ended, "messages": job.messages, "detail": job.detail}
    return JSONResponse(said)


def stop(visit: Visit) -> Response:
    """Ask a job to end; it does so before its next step."""
    job = _job(visit)
    job.stop.set()
    return go(job_page(job))


def _job(visit: Visit) -> Job:
    number = str(visit.request.path_params["job"])
    job = visit.state.jobs.get(number)
    if job is None:
        raise OutsideFolder("this work is not known; the console was started anew since")
    return job


# More digits than the cases of any log have.
_MOST_DIGITS: Final = 13


def compare_form(visit: Visit) -> Response:
    """Which settings to compare on which log."""
    return visit.page(
        "compare.html",
        policies=policy_names(visit),
        logs=visit.workplace.look().logs,
        chosen=visit.request.query_params.getlist("policy"),
        log=visit.asked("log"),
    )


def compare_settings(visit: Visit) -> Response:
    """Compare them; the ledger notes that, and is charged nothing."""
    log_name = visit.sent("log")
    names = visit.fields.get("policy", ())
    if not names:
        raise OutsideFolder("no policy was chosen; choose one or more")
    policies = [policy_source(visit, name).policy() for name in names]
    cases = _number_of_cases(visit.sent("cases"))
    profile_name = visit.sent("profile")
    profile = read_profile(visit.workplace.existing_file(profile_name)) if profile_name else None
    sweeps = [part.strip() for part in visit.sent("sweep").split(";") if part.strip()]
    window = visit.sent("window") or None
    title = ", ".join(names)
    return compared(visit, log_name, policies, sweeps, title, profile, cases, window)


def compared(
    visit: Visit,
    log_name: str,
    policies: Sequence[Policy],
    sweeps: Sequence[str],
    title: str,
    profile: Profile | None = None,
    cases: int | None = None,
    window: str | None = None,
) -> Response:
    """Begin a comparison, with what is publicly known of the log."""
    log = visit.workplace.existing_file(log_name)

    def work(progress: JobProgress) -> JobResult:
        progress("comparing")
        found = compare(
            log,
            policies,
            sweep=sweeps,
            ledger=visit.state.ledger(progress),
            profile=profile,
            cases=cases,
            window=window,
            reporter=progress,
        )
        content = {
            "log": log_name,
            "found": found,
            "rows": table_rows(found),
            "beside": beside_lines(found),
        }
        return JobResult("compared.html", content, document=comparison_html(found, log.name))

    return visit.begin(f"Compare {title} for {log_name}", work)


def _number_of_cases(text: str) -> int | None:
    """The number in a field; None where it is empty."""
    if not text:
        return None
    digits = text.replace(",", "")
    # Digits of other scripts count as digits, too, and superscripts, which int() refuses.
    if not (digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS and int(digits)):
        raise OutsideFolder(f"number of cases: must be a whole number above 0, not '{text}'")
    return int(digits)
