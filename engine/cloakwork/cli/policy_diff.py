"""``cloakwork policy diff``: what changed between two policies, and what their versions need."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from cloakwork.cli.annotations import (
    Annotation,
    chosen_format,
    format_option,
    leave,
    print_annotations,
    print_document,
)
from cloakwork.cli.options import json_option, ledger_option
from cloakwork.policy.advice import AdviceRule
from cloakwork.report.screen import printable

if TYPE_CHECKING:
    from cloakwork.authoring.sources import PolicySource
    from cloakwork.policy.diff import Change
    from cloakwork.policy.versions import VersionStep

FAIL_ON: Final = ("looser", "tighter", "other", "version", "any")

CHANGE_RULES: Final = {
    "looser": AdviceRule("warning", "Something is protected less than before."),
    "tighter": AdviceRule("note", "Something is protected better than before."),
    "other": AdviceRule("note", "Something changed that protects neither better nor less."),
    "version": AdviceRule("warning", "The version was not raised as far as the changes need."),
}


@click.command(short_help="Compare two versions of a policy by meaning.")
@click.argument("old")
@click.argument("new")
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    multiple=True,
    help="End with exit code 3 if there is such a change (may be repeated); version: if "
    "metadata.version was not raised far enough.",
)
@format_option
@ledger_option
@json_option
@click.pass_context
def diff(
    context: click.Context,
    old: str,
    new: str,
    fail_on: tuple[str, ...],
    output: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Compare two versions of a policy: what protects better now (tighter), what worse (looser),
    what else changed (other), and how far the version must rise for it.

    OLD and NEW: files, shipped policies, or NAME@VERSION of the registry.
    """
    from cloakwork.authoring.sources import policy_source
    from cloakwork.policy.diff import diff as differences
    from cloakwork.policy.diff import verdict
    from cloakwork.policy.versions import counted_changes, version_step

    form = chosen_format(output, as_json)
    sources = policy_source(old, ledger), policy_source(new, ledger)
    before, after = (source.policy() for source in sources)
    changes = differences(before, after)
    step = version_step(before, after, changes)
    match form:
        case "text":
            for change in changes:
                click.echo(printable(str(change)))
            click.echo(in_one_sentence(verdict(changes)))
            if step.bump is not None:
                click.echo(version_sentence(step))
        case "json":
            print_document(
                {
                    "verdict": verdict(changes),
                    "changes": [asdict(change) for change in changes],
                    "version": asdict(step),
                }
            )
        case _:
            print_annotations(form, _annotations(sources[1], changes, step), CHANGE_RULES)
    found = {change.verdict for change in counted_changes(changes)}
    kinds: set[str] = {*found, *(("any",) if found else ())}
    if not step.is_enough:
        kinds.add("version")
    leave(context, not kinds.isdisjoint(fail_on))


def in_one_sentence(word: str) -> str:
    """What ``policy.diff.verdict`` says of all changes."""
    return {
        "same": "The two policies say the same.",
        "other": "Nothing is tighter or looser.",
        "tighter": "The new policy protects at least as well as the old one.",
        "looser": "The new policy protects less than the old one.",
        "mixed": "The new policy protects better in some ways and less in others.",
    }[word]


def version_sentence(step: "VersionStep") -> str:
    """Which version the changes need; of a step that needs one."""
    needs = f"This needs a new {step.bump} version"
    if step.is_enough:
        return f"{needs}; {step.old} -> {step.new} is one."
    return (
        f"{needs}: {step.at_least} or later, and the new policy says {step.new}; "
        "raise metadata.version."
    )


def _annotations(
    source: "PolicySource", changes: "tuple[Change, ...]", step: "VersionStep"
) -> tuple[Annotation, ...]:
    """The changes, each at its place in the new policy or, where it is gone, near it."""
    from cloakwork.policy.document import dotted_path
    from cloakwork.policy.syntax import read_document

    places = {
        dotted_path(steps): place
        for steps, place in read_document(source.text, source.label).values.items()
    }

    def annotation(rule: str, message: str, field: str) -> Annotation:
        near = max((path for path in places if field.startswith(path)), key=len)
        return Annotation(
            rule, CHANGE_RULES[rule].level, message, source.path, *places[near], field
        )

    found = [annotation(each.verdict, each.words(), each.field) for each in changes]
    if not step.is_enough:
        found.append(annotation("version", version_sentence(step), "metadata.version"))
    return tuple(found)
