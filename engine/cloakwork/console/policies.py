"""The editor of policies, as text and as a form; and the registry: versions of policies that do not
change, who wrote and who approved them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, get_args

from pydantic import JsonValue
from starlette.responses import Response

from cloakwork.authoring.answers import answered, asked_in
from cloakwork.authoring.registry import PolicySource, Registry, sectors, template_policy, user_name
from cloakwork.authoring.versions import PolicyVersion, text_digest
from cloakwork.base.errors import MOST_LINES, CloakworkError, FileProblem, PolicyError, first_line
from cloakwork.base.frozen import frozen
from cloakwork.console.visits import (
    OutsideFolder,
    Visit,
    address,
    go,
    policy_file,
    policy_names,
    policy_source,
    write_text,
)
from cloakwork.console.work import compared
from cloakwork.evaluation.sweeping import is_guarantee, swept_numbers
from cloakwork.plan.policies import load_policy, parse_policy
from cloakwork.policy.diff import Change, diff, verdict, version_step
from cloakwork.policy.document import Steps, read_document, read_text, value_at, with_values
from cloakwork.policy.explain import Section, explain
from cloakwork.policy.lint import lint
from cloakwork.policy.load import read_policy_text, schema_text, with_code_lists
from cloakwork.policy.model import Role, Treatment
from cloakwork.report.plan_screen import plan_sections
from cloakwork.report.policy_findings import VERDICTS, Annotation, placed_advice, version_sentence

MOST_ROWS: Final = 100
"""Attributes that stand in the form, which can send so many; the others stand in the text."""

_CHOICES: Final = {"role": get_args(Role), "treatment": get_args(Treatment)}
_SLIDERS: Final = {"k": (2.0, 100.0), "epsilon": (0.1, 16.0)}
_NUMBER: Final = re.compile(r"(\d{1,9}(\.\d{0,12})?|\.\d{1,12})([eE]-?\d{1,2})?")


@frozen
class FormField:
    """One place of a policy that the form changes: a word of ``choices``, or a number.

    ``name``: its path, as JSON. ``slider``: the ends of one, if there is one. ``sweep``: how a
    comparison calls the number; empty where it would vary another one as well.
    """

    name: str
    label: str
    value: str
    choices: tuple[str, ...] = ()
    slider: tuple[float, float] | None = None
    sweep: str = ""


@frozen
class PolicyForm:
    """What the form of a policy shows. ``attributes``: each with what is asked about it, and its
    fields; ``more``: how many are left out. ``numbers``: of the guarantees.
    """

    attributes: tuple[tuple[str, str, tuple[FormField, ...]], ...] = ()
    more: int = 0
    numbers: tuple[FormField, ...] = ()

    def fields(self) -> Iterator[FormField]:
        """All that it changes."""
        yield from self.numbers
        for _, _, fields in self.attributes:
            yield from fields


def form_of_policy(text: str, name: str) -> PolicyForm:
    """A view of the text, which alone counts; empty where the text cannot be read."""
    try:
        content = read_document(text, name).content
    except PolicyError:
        return PolicyForm()
    rules = value_at(content, ("spec", "attributes"))
    rules = {each: rule for each, rule in rules.items() if rule} if isinstance(rules, dict) else {}
    goals = value_at(content, ("spec", "guarantees"))
    goals = list(enumerate(goals)) if isinstance(goals, list) else []
    goals = [(place, goal) for place, goal in goals if is_guarantee(goal)]
    asked = {each.name: each.question for each in asked_in(text)}
    kinds = [goal["kind"] for _, goal in goals]
    return PolicyForm(
        attributes=tuple(
            (
                each,
                asked.get(each, ""),
                tuple(
                    FormField(
                        json.dumps(["spec", "attributes", each, key]),
                        f"{key} of {each}",
                        str(value_at(rule, (key,)) or ""),
                        choices,
                    )
                    for key, choices in _CHOICES.items()
                ),
            )
            for each, rule in islice(rules.items(), MOST_ROWS)
        ),
        more=max(0, len(rules) - MOST_ROWS),
        numbers=tuple(
            FormField(
                json.dumps(["spec", "guarantees", place, key]),
                f"{key} of {goal['kind']}",
                str(goal[key]),
                slider=_SLIDERS.get(key),
                sweep=f"{goal['kind']}.{key}" if kinds.count(goal["kind"]) == 1 else "",
            )
            for place, goal in goals
            for key in swept_numbers(goal)
        ),
    )


def _edited(visit: Visit, name: str) -> tuple[str, str]:
    """The editor's text, into which is written what the form says otherwise than it showed; and why
    that cannot be, if it cannot.
    """
    text = visit.fields.get("text", ("",))[0].replace("\r\n", "\n")
    form = form_of_policy(text, name)
    path = policy_file(visit, name)
    known = {each.name: each for each in form.fields()}
    changed: dict[Steps, str | Mapping[str, str]] = {}
    for sent in visit.fields:
        place = sent.removeprefix("at ")
        field = known.get(place)
        value = visit.sent(sent)
        if place == sent or value == visit.sent(f"was {place}"):
            continue
        if field is None:
            return text, "the form showed another text; this one is shown now"
        if value not in ("", *field.choices) if field.choices else not _NUMBER.fullmatch(value):
            return text, f"{field.label}: {value!r} cannot stand there"
        changed[tuple(json.loads(place))] = value or "null"
    answers: dict[str, JsonValue] = {
        each: said
        for each, question, _ in form.attributes
        if (said := visit.sent(f"answer {each}"))
    }
    try:
        text = with_values(text, changed, name) if changed else text
        if answers:
            text, _ = answered(text, name, answers, base=path.parent, confirmed_by=None)
    except PolicyError as error:
        return text, first_line(error)
    return text, ""


@frozen
class PolicyFindings:
    """What a policy's text is: its faults, or advice and what it says in plain words."""

    problems: tuple[FileProblem, ...] = ()
    more: int = 0
    advice: tuple[Annotation, ...] = ()
    sections: tuple[Section, ...] = ()
    valid: bool = False
    title: str = ""


def all_policies(visit: Visit) -> Response:
    """The policy files of the folder."""
    found = visit.workplace.look()
    rows = [_row(visit, name) for name in found.policies]
    return visit.page(
        "policies.html", rows=rows, logs=found.logs, all_seen=found.all_seen, sectors=sectors()
    )


def _row(visit: Visit, name: str) -> dict[str, str]:
    """A policy file as the list shows it: what it says of itself, or what is wrong with it."""
    try:
        meta = load_policy(visit.workplace.existing_file(name)).metadata
    except PolicyError as error:
        return {"file": name, "problem": f"{len(error.problems)} to correct"}
    except CloakworkError as error:
        return {"file": name, "problem": str(error)}
    said = {"title": f"{meta.name} {meta.version}", "dataset": meta.dataset}
    return {"file": name, "problem": "", "purpose": meta.purpose, **said}


def editor(visit: Visit) -> Response:
    """The editor of one policy file."""
    name = visit.asked("file")
    text = read_text(policy_file(visit, name))
    saved = "saved" if visit.asked("saved") else ""
    return _editor(visit, name, text, text_digest(text), note=saved)


def from_template(visit: Visit) -> Response:
    """Write a policy from the template of a sector, and open it in the editor, which asks what is
    still to be said.
    """
    template = visit.sent("template")
    # The name comes from a form and picks a file: only those of the list count.
    if template not in dict(sectors()):
        raise OutsideFolder("there is no such template; choose one of the list")
    out, name = visit.new_file(".yaml")
    header = {key: visit.sent(key) or None for key in ("dataset", "owner", "purpose")}
    write_text(out, template_policy(template, out, header))
    return go(address("/policy", file=name))


def check(visit: Visit) -> Response:
    """What is to be said about the text as it stands in the editor, which is not saved."""
    name = visit.sent("file")
    text, fault = _edited(visit, name)
    # The script of the editor sends the text while it is typed, and shows what has changed alone.
    if visit.sent("live"):
        return _editor(visit, name, text, "", fault, template="edited.html")
    return _editor(visit, name, text, visit.sent("digest"), fault or "checked, not saved")


def save(visit: Visit) -> Response:
    """Write the text to its file, valid or not, unless the file has changed since it was opened."""
    name = visit.sent("file")
    path = policy_file(visit, name)
    text, fault = _edited(visit, name)
    # Two editors, or an editor and a terminal, must not overwrite each other.
    if text_digest(read_text(path)) != visit.sent("digest"):
        fault = "the file has changed since it was opened here; copy what you wrote"
    if fault:
        return _editor(visit, name, text, visit.sent("digest"), note=f"NOT saved: {fault}")
    write_text(path, text)
    return go(address("/policy", file=name, saved="1"))


def measure(visit: Visit) -> Response:
    """Compare the policy as it stands in the editor with less and more of one of its numbers."""
    name = visit.sent("file")
    log = visit.sent("log")
    text, fault = _edited(visit, name)
    if fault:
        return _editor(visit, name, text, visit.sent("digest"), fault)
    numbers = {each.sweep: each for each in form_of_policy(text, name).numbers if each.sweep}
    if visit.sent("sweep") not in numbers:
        raise OutsideFolder("there is no such number in the policy; choose one of the form")
    number = numbers[visit.sent("sweep")]
    policy = parse_policy(with_code_lists(text, policy_file(visit, name)), name)
    # The number with half and twice as much, and twice that again, ascending.
    found = [float(number.value) * factor for factor in (0.25, 0.5, 1, 2, 4)]
    if number.label[:2] in _COUNTED:
        found = [round(each) for each in found]
    values = ",".join(f"{each:g}" for each in dict.fromkeys(found) if each)
    return compared(visit, log, [policy], [f"{number.sweep}={values}"], f"{number.label}, {name}")


_COUNTED: Final = ("k ", "l ", "L ", "K ")
"""How the labels of numbers begin that are counts."""


def schema(visit: Visit) -> Response:
    """The schema of policies, for completion in the editor."""
    return Response(schema_text(), media_type="application/json")


def compare_two(visit: Visit) -> Response:
    """What changed between two policies, by meaning, and which version that needs."""
    old = visit.asked("old")
    new = visit.asked("new")
    changes: tuple[Change, ...] = ()
    sentences: list[str] = []
    planned: dict[str, list[tuple[str, ...]]] = {}
    if old and new:
        sources = [policy_source(visit, name) for name in (old, new)]
        before, after = (source.policy() for source in sources)
        outcomes = [_outcome(source) for source in sources]
        labels = dict.fromkeys(label for outcome in outcomes for label in outcome)
        planned = {each: [outcome.get(each, ()) for outcome in outcomes] for each in labels}
        changes = diff(before, after)
        step = version_step(before, after, changes)
        sentences = [VERDICTS[verdict(changes)]]
        if step.bump is not None:
            sentences.append(version_sentence(step))
    return visit.page(
        "diff.html",
        policies=policy_names(visit),
        old=old,
        new=new,
        changes=changes,
        sentences=sentences,
        planned=planned,
    )


def _outcome(source: PolicySource) -> dict[str, tuple[str, ...]]:
    """What a plan gives and costs, by the labels of its screen; else why there is none."""
    try:
        plan = source.plan()
    except CloakworkError as error:
        return {"Plan": (first_line(error),)}
    found = plan_sections(plan, source.label, (), None)
    return {each.label: each.entries for each in found if each.label not in ("", "Would change")}


def _editor(
    visit: Visit, name: str, text: str, digest: str, note: str, template: str = "editor.html"
) -> Response:
    return visit.page(
        template,
        whole=template == "editor.html",
        file=name,
        text=text,
        digest=digest,
        note=note,
        findings=findings_of(text, name, policy_file(visit, name)),
        form=form_of_policy(text, name),
        logs=visit.workplace.look().logs,
        me=user_name(),
    )


def findings_of(text: str, name: str, path: Path | None = None) -> PolicyFindings:
    """What there is to say about the text of a policy."""
    try:
        whole = text if path is None else with_code_lists(text, path)
        read = parse_policy(whole, name)
    except PolicyError as error:
        # A hostile text can have problems without number: the first are shown, the others counted.
        shown = tuple(error.problems[:MOST_LINES])
        return PolicyFindings(shown, more=len(error.problems) - len(shown))
    meta = read.metadata
    return PolicyFindings(
        valid=True,
        title=f"{meta.name} {meta.version}",
        advice=placed_advice(read, lint(read), text, name),
        sections=explain(read),
    )


def all_versions(visit: Visit) -> Response:
    """Every version, the newest first."""
    ledger = visit.state.ledger()
    found = Registry(ledger).versions()
    return visit.page("registry.html", versions=tuple(reversed(found)), ledger=ledger.url)


def one_version(visit: Visit) -> Response:
    """One version: its text, who stands behind it, and what may be done with it."""
    registry = Registry(visit.state.ledger())
    version = registry.get(visit.asked("of"))
    return visit.page(
        "version.html",
        version=version,
        said=version.added.statement,
        earlier=_earlier(registry, version),
        findings=findings_of(version.text, version.reference),
        me=user_name(),
    )


def _earlier(registry: Registry, version: PolicyVersion) -> tuple[str, ...]:
    """Other versions of the same policy, the newest first."""
    others = registry.versions(version.added.statement.name)
    return tuple(each.reference for each in reversed(others) if each.reference != version.reference)


def add(visit: Visit) -> Response:
    """Add a policy file as the version that it names, signed with your key."""
    name = visit.sent("file")
    path = policy_file(visit, name)
    text = read_policy_text(path)
    author = _said(visit, "author", "who wrote it")
    reason = visit.sent("reason") or "added"
    version = Registry(visit.state.ledger()).add(text, author=author, reason=reason, label=name)
    return _shown(version.reference)


def approve(visit: Visit) -> Response:
    """Approve a version, signed with your key, which is not its author's."""
    reference = visit.sent("of")
    person = _said(visit, "person", "who approves it")
    reason = _said(visit, "reason", "why")
    Registry(visit.state.ledger()).approve(reference, approver=person, reason=reason)
    return _shown(reference)


def revoke(visit: Visit) -> Response:
    """End the approval of a version, for good."""
    reference = visit.sent("of")
    person = _said(visit, "person", "who revokes it")
    reason = _said(visit, "reason", "why")
    Registry(visit.state.ledger()).revoke(reference, person=person, reason=reason)
    return _shown(reference)


def _shown(reference: str) -> Response:
    return go(address("/registry/version", of=reference))


def _said(visit: Visit, name: str, what: str) -> str:
    value = visit.sent(name)
    if not value:
        raise OutsideFolder(f"nothing was said of {what}; fill it in")
    return value
