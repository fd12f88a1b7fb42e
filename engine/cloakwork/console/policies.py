"""The registry: versions of policies that do not change, who wrote and who approved them."""

from dataclasses import dataclass
from pathlib import Path

from starlette.responses import JSONResponse, Response

from cloakwork.authoring.registry import Registry
from cloakwork.authoring.sources import PolicySource, sectors, template_policy, user_name
from cloakwork.authoring.versions import PolicyVersion
from cloakwork.base.errors import MOST_LINES, CloakworkError, FileProblem, PolicyError, first_line
from cloakwork.console.visits import Visit, address, go, policy_file, policy_names, policy_source
from cloakwork.console.workplace import OutsideFolder, read_policy_text, text_digest, write_text
from cloakwork.plan.policies import load_policy, parse_policy
from cloakwork.policy.diff import Change, diff, verdict, version_step
from cloakwork.policy.explain import Section, explain
from cloakwork.policy.lint import lint
from cloakwork.policy.load import with_code_lists
from cloakwork.policy.schema import policy_schema
from cloakwork.report.plan_screen import plan_sections
from cloakwork.report.policy_findings import VERDICTS, Annotation, placed_advice, version_sentence


@dataclass(frozen=True, slots=True)
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
    text = read_policy_text(policy_file(visit, name))
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
    out = visit.workplace.new(visit.sent("out"), ending=".yaml")
    header = {name: visit.sent(name) or None for name in ("dataset", "owner", "purpose")}
    write_text(out, template_policy(template, out, header))
    return go(address("/policy", file=visit.workplace.relative(out) or out.name))


def check(visit: Visit) -> Response:
    """What is to be said about the text as it stands in the editor, which is not saved."""
    name, text = visit.sent("file"), _text_sent(visit)
    # Called for its refusal alone: the name must be that of a policy file of the folder.
    path = policy_file(visit, name)
    # The script of the editor sends the text while it is typed, and shows the findings alone.
    if visit.sent("live"):
        found = findings_of(text, name, path)
        return visit.page("findings.html", findings=found, file=name)
    return _editor(visit, name, text, visit.sent("digest"), note="checked, not saved")


def save(visit: Visit) -> Response:
    """Write the text to its file, valid or not, unless the file has changed since it was opened."""
    name, text = visit.sent("file"), _text_sent(visit)
    path = policy_file(visit, name)
    # Two editors, or an editor and a terminal, must not overwrite each other.
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
        findings=findings_of(text, name, policy_file(visit, name)),
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
    text = with_code_lists(read_policy_text(path), path)
    author, reason = _said(visit, "author", "who wrote it"), visit.sent("reason") or "added"
    version = Registry(visit.state.ledger()).add(text, author=author, reason=reason, label=name)
    return _shown(version.reference)


def approve(visit: Visit) -> Response:
    """Approve a version, signed with your key, which is not its author's."""
    reference = visit.sent("of")
    person, reason = _said(visit, "person", "who approves it"), _said(visit, "reason", "why")
    Registry(visit.state.ledger()).approve(reference, approver=person, reason=reason)
    return _shown(reference)


def revoke(visit: Visit) -> Response:
    """End the approval of a version, for good."""
    reference = visit.sent("of")
    person, reason = _said(visit, "person", "who revokes it"), _said(visit, "reason", "why")
    Registry(visit.state.ledger()).revoke(reference, person=person, reason=reason)
    return _shown(reference)


def _shown(reference: str) -> Response:
    return go(address("/registry/version", of=reference))


def _said(visit: Visit, name: str, what: str) -> str:
    value = visit.sent(name)
    if not value:
        raise OutsideFolder(f"nothing was said of {what}; fill it in")
    return value
