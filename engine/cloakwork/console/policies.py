"""Policies: an editor that shows what is wrong at its line, advice, what changed between two."""

from collections.abc import Collection
from dataclasses import dataclass

from starlette.responses import JSONResponse, Response

from cloakwork.base.errors import MOST_LINES, CloakworkError, PolicyError
from cloakwork.cli.policy_diff import in_one_sentence, version_sentence
from cloakwork.cli.policy_init import sectors, template_policy
from cloakwork.console.sources import policy_file, policy_names, policy_source
from cloakwork.console.visits import Visit, address, go, user_name
from cloakwork.console.workplace import OutsideFolder, read_policy_text, text_digest, write_text
from cloakwork.plan.policies import load_policy, parse_policy
from cloakwork.policy.advice import ADVICE_RULES, LEDGER_RULES, LOG_RULES, WAIVER_RULES, Advice
from cloakwork.policy.diff import Change, diff, verdict
from cloakwork.policy.document import dotted_path
from cloakwork.policy.explain import Section, explain
from cloakwork.policy.lint import lint
from cloakwork.policy.model import Policy
from cloakwork.policy.schema import policy_schema
from cloakwork.policy.syntax import read_document
from cloakwork.policy.versions import version_step
from cloakwork.policy.waivers import judged


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """What is to be said about one place of a policy; lines and columns count from 1. ``waiver``:
    who silenced it and why, where somebody did.
    """

    line: int | None
    column: int | None
    message: str
    waiver: str = ""


@dataclass(frozen=True, slots=True)
class PolicyFindings:
    """What a policy's text is: its faults, or advice and what it says in plain words."""

    problems: tuple[PlacedFinding, ...] = ()
    more: int = 0
    advice: tuple[PlacedFinding, ...] = ()
    sections: tuple[Section, ...] = ()
    valid: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy file as the list shows it."""

    file: str
    title: str
    dataset: str
    purpose: str
    problem: str


def all_policies(visit: Visit) -> Response:
    """The policy files of the folder."""
    found = visit.workplace.look()
    rows = [_row(visit, name) for name in found.policies]
    return visit.page(
        "policies.html", rows=rows, logs=found.logs, all_seen=found.all_seen, sectors=sectors()
    )


def _row(visit: Visit, name: str) -> PolicyRow:
    try:
        read = load_policy(visit.workplace.existing_file(name))
    except PolicyError as error:
        return PolicyRow(name, "", "", "", f"{len(error.problems)} to correct")
    except CloakworkError as error:
        return PolicyRow(name, "", "", "", str(error))
    meta = read.metadata
    return PolicyRow(name, f"{meta.name} {meta.version}", meta.dataset, meta.purpose, "")


def editor(visit: Visit) -> Response:
    """The editor of one policy file."""
    name = visit.asked("file")
    text = read_policy_text(policy_file(visit, name))
    saved = "saved" if visit.asked("saved") else ""
    return _editor(visit, name, text, text_digest(text), note=saved)


def from_template(visit: Visit) -> Response:
    """Write a policy from the template of a sector, and open it in the editor, which asks what is
    still to be said.
    """
    template = visit.sent("template")
    if template not in dict(sectors()):
        raise OutsideFolder("there is no such template; choose one of the list")
    out = visit.workplace.new(visit.sent("out"), ending=".yaml")
    header = {name: visit.sent(name) or None for name in ("dataset", "owner", "purpose")}
    write_text(out, template_policy(template, out, header))
    return go(address("/policy", file=visit.workplace.relative(out) or out.name))


def check(visit: Visit) -> Response:
    """What is to be said about the text as it stands in the editor, which is not saved."""
    name, text = visit.sent("file"), _text_sent(visit)
    policy_file(visit, name)
    if visit.sent("live"):
        return visit.page("findings.html", findings=findings_of(text, name), file=name)
    return _editor(visit, name, text, visit.sent("digest"), note="checked, not saved")


def save(visit: Visit) -> Response:
    """Write the text to its file, valid or not, unless the file has changed since it was opened."""
    name, text = visit.sent("file"), _text_sent(visit)
    path = policy_file(visit, name)
    if text_digest(read_policy_text(path)) != visit.sent("digest"):
        note = "NOT saved: the file has changed since it was opened here; copy what you wrote"
        return _editor(visit, name, text, visit.sent("digest"), note=note)
    write_text(path, text)
    return go(address("/policy", file=name, saved="1"))


def schema(visit: Visit) -> Response:
    """The schema of policies, for completion in the editor."""
    return JSONResponse(policy_schema())


def compare_two(visit: Visit) -> Response:
    """What changed between two policies, by meaning, and which version that needs."""
    old, new = visit.asked("old"), visit.asked("new")
    changes: tuple[Change, ...] = ()
    sentences: list[str] = []
    if old and new:
        before, after = (policy_source(visit, name).policy() for name in (old, new))
        changes = diff(before, after)
        step = version_step(before, after, changes)
        sentences = [in_one_sentence(verdict(changes))]
        if step.bump is not None:
            sentences.append(version_sentence(step))
    return visit.page(
        "diff.html",
        policies=policy_names(visit),
        old=old,
        new=new,
        changes=changes,
        sentences=sentences,
    )


def _text_sent(visit: Visit) -> str:
    """The editor's text: browsers send line ends in the way of the web."""
    return visit.fields.get("text", ("",))[0].replace("\r\n", "\n")


def _editor(visit: Visit, name: str, text: str, digest: str, note: str) -> Response:
    return visit.page(
        "editor.html",
        file=name,
        text=text,
        digest=digest,
        note=note,
        findings=findings_of(text, name),
        logs=visit.workplace.look().logs,
        me=user_name(),
    )


def findings_of(text: str, name: str) -> PolicyFindings:
    """What there is to say about the text of a policy."""
    try:
        read = parse_policy(text, name)
    except PolicyError as error:
        problems = tuple(
            PlacedFinding(each.line, each.column, _with_hint(each.message, each.hint))
            for each in error.problems[:MOST_LINES]
        )
        return PolicyFindings(problems, more=max(0, len(error.problems) - MOST_LINES))
    meta = read.metadata
    return PolicyFindings(
        valid=True,
        title=f"{meta.name} {meta.version}",
        advice=placed_advice(read, lint(read), text, name),
        sections=explain(read),
    )


def placed_advice(
    policy: Policy,
    advice: tuple[Advice, ...],
    text: str,
    name: str,
    *,
    unchecked: Collection[str] = (*LOG_RULES, *LEDGER_RULES),
) -> tuple[PlacedFinding, ...]:
    """Advice with its place in the text, in order; what the policy waives says so.

    ``unchecked``: rules that were not asked.
    """
    document = read_document(text, name)
    known = ADVICE_RULES.keys() - WAIVER_RULES.keys()
    found = [
        PlacedFinding(
            *document.place(each.advice.steps),
            _advice_text(each.advice),
            "" if each.waiver is None else str(each.waiver),
        )
        for each in judged(advice, policy.spec.waivers, known=known, unchecked=unchecked)
    ]
    return tuple(sorted(found, key=lambda each: (each.line or 0, each.column or 0, each.message)))


def _advice_text(advice: Advice) -> str:
    rule = f" [{advice.rule}]" if advice.rule else ""
    return f"{dotted_path(advice.steps)}: {advice.message}{rule}"


def _with_hint(message: str, hint: str | None) -> str:
    return f"{message}; {hint}" if hint else message
