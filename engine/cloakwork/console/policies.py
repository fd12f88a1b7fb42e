"""Policies: an editor that shows what is wrong at its line, advice, what changed between two."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import JSONResponse, Response

from cloakwork.console.visits import Visit, address, go
from cloakwork.console.workplace import (
    POLICY_ENDINGS,
    OutsideFolder,
    read_policy_text,
    text_digest,
    write_text,
)
from cloakwork.errors import MOST_LINES, CloakworkError, PolicyError
from cloakwork.policy.advice import Advice
from cloakwork.policy.diff import Change, diff, verdict
from cloakwork.policy.document import dotted_path
from cloakwork.policy.explain import Section, explain
from cloakwork.policy.lint import lint
from cloakwork.policy.load import load_policy, parse_policy
from cloakwork.policy.model import Policy
from cloakwork.policy.schema import policy_schema
from cloakwork.policy.syntax import read_document


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """What is to be said about one place of a policy; lines and columns count from 1."""

    line: int | None
    column: int | None
    message: str


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
    return visit.page("policies.html", rows=rows, logs=found.logs, all_seen=found.all_seen)


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
    """What changed between two policies, by meaning."""
    found = visit.workplace.look()
    old, new = visit.asked("old"), visit.asked("new")
    changes: tuple[Change, ...] = ()
    word = ""
    if old and new:
        changes = diff(read_policy(visit, old), read_policy(visit, new))
        word = verdict(changes)
    return visit.page(
        "diff.html", policies=found.policies, old=old, new=new, changes=changes, verdict=word
    )


def read_policy(visit: Visit, name: str) -> Policy:
    """The policy in a file of the folder; its errors call it by its name there."""
    return parse_policy(read_policy_text(policy_file(visit, name)), name)


def policy_file(visit: Visit, name: str) -> Path:
    """The path of a policy file of the folder; raises OutsideFolder where it is none."""
    if not name.lower().endswith(POLICY_ENDINGS):
        raise OutsideFolder(f"{name}: is no policy file, which ends in .yaml")
    return visit.workplace.existing_file(name)


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
        advice=placed_advice(lint(read), text, name),
        sections=explain(read),
    )


def placed_advice(advice: Iterable[Advice], text: str, name: str) -> tuple[PlacedFinding, ...]:
    """Advice with its place in the text, in order."""
    document = read_document(text, name)
    found = [
        PlacedFinding(*document.place(each.steps), f"{dotted_path(each.steps)}: {each.message}")
        for each in advice
    ]
    return tuple(sorted(found, key=lambda each: (each.line or 0, each.column or 0, each.message)))


def _with_hint(message: str, hint: str | None) -> str:
    return f"{message}; {hint}" if hint else message
