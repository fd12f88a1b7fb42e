"""``cloakwork policy``: write, check, explain and compare privacy policies."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.cli.options import column_mapping, column_option, json_option, require_log
from cloakwork.cli.policy_files import write_new
from cloakwork.cli.policy_init import init
from cloakwork.cli.policy_suggest import suggest
from cloakwork.cli.screen import block, printable
from cloakwork.cli.screen import columns as width_of_screen
from cloakwork.errors import MOST_LINES, LogError, PolicyError

if TYPE_CHECKING:
    from cloakwork.policy.advice import Advice
    from cloakwork.policy.model import Policy

INVALID: Final = PolicyError.exit_code


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def policy() -> None:
    """Write, check, explain and compare privacy policies.

    Where a policy is asked for, give a file, or the name of a shipped policy (see 'cloakwork policy
    list').
    """


policy.add_command(init)
policy.add_command(suggest)


@policy.command(short_help="Check policies: a line a problem, with its place.")
@click.argument("policies", metavar="POLICY...", nargs=-1, required=True)
@json_option
@click.pass_context
def validate(context: click.Context, policies: tuple[str, ...], as_json: bool) -> None:
    """Check policies; every problem is one line with its file, line and column."""
    results = [_validated(source) for source in policies]
    if as_json:
        _print_json({"policies": results})
    else:
        for result in results:
            _say(result)
    context.exit(0 if all(result["valid"] for result in results) else INVALID)


def _validated(source: str) -> dict[str, Any]:
    """What there is to say about one policy, as JSON values."""
    from cloakwork.policy.load import digest

    try:
        read = _read(source)
    except PolicyError as error:
        problems = [
            asdict(problem) | {"text": str(problem)} for problem in error.problems[:MOST_LINES]
        ]
        more = max(0, len(error.problems) - MOST_LINES)
        return {"path": source, "valid": False, "problems": problems} | (
            {"more": more} if more else {}
        )
    meta = read.metadata
    return {
        "path": source,
        "valid": True,
        "name": meta.name,
        "version": meta.version,
        "digest": digest(read),
        "problems": [],
    }


def _say(result: dict[str, Any]) -> None:
    if result["valid"]:
        click.echo(f"{result['path']}: ok ({result['name']} {result['version']})")
    for problem in result["problems"]:
        click.echo(problem["text"], err=True)
    if more := result.get("more"):
        click.echo(f"... and {more:,} more", err=True)


@policy.command(short_help="Say in plain words what a policy does.")
@click.argument("policy_", metavar="POLICY")
@json_option
def explain(policy_: str, as_json: bool) -> None:
    """Say in plain words what a policy protects, what it guarantees, what it costs, and what stays
    exposed.
    """
    from cloakwork.policy.explain import explain as explained
    from cloakwork.policy.model import describe_version

    read = _read(policy_)
    sections = explained(read)
    if as_json:
        _print_json(
            {
                "policy": describe_version(read),
                "sections": [asdict(section) for section in sections],
            }
        )
        return
    for place, section in enumerate(sections):
        click.secho(("\n" if place else "") + section.title, bold=True)
        for line in section.lines:
            click.echo("\n".join(block("  - ", [line], width_of_screen(), indent=4)))


@policy.command(short_help="Give advice on a valid policy.")
@click.argument("policy_", metavar="POLICY")
@click.argument("log", type=click.Path(path_type=Path), required=False)
@column_option
@json_option
def lint(policy_: str, log: Path | None, columns: tuple[str, ...], as_json: bool) -> None:
    """Give advice on a valid policy: what a careful reader would ask its author.

    With LOG, also where the two do not fit together: attributes that the log lacks, attributes that
    a glob releases, values that single people out. That advice comes from the raw log: keep it
    inside.
    """
    from cloakwork.policy.document import dotted_path
    from cloakwork.policy.library import resolve_policy
    from cloakwork.policy.lint import lint as advice_on
    from cloakwork.policy.load import parse_policy
    from cloakwork.policy.syntax import read_document, read_text

    path = resolve_policy(policy_)
    text = read_text(path)
    read = parse_policy(text, str(path))
    advice = advice_on(read)
    if log is not None:
        advice += _advice_on_log(read, log, columns)
    elif columns:
        raise click.UsageError("--column is about a log; name one")
    places = read_document(text, str(path))
    found = [(*places.place(item.steps), dotted_path(item.steps), item.message) for item in advice]
    found.sort()
    if as_json:
        keys = ("line", "column", "field", "message")
        _print_json(
            {"path": str(path), "advice": [dict(zip(keys, item, strict=True)) for item in found]}
        )
        return
    for line, column, field, message in found:
        click.echo(printable(f"{path}:{line}:{column}: {field}: {message}"))
    if not found:
        click.echo(f"{path}: nothing to advise")


def _advice_on_log(read: "Policy", log: Path, columns: tuple[str, ...]) -> "tuple[Advice, ...]":
    from cloakwork.authoring import lint_log
    from cloakwork.authoring.lint_input import lint_input
    from cloakwork.run.reading import read_under

    require_log(log)
    mapping = column_mapping(columns, log) or None
    advice = lint_input(read, log)
    try:
        found = read_under(read, log, columns=mapping)
    except LogError:
        if advice:
            return advice  # it says which line of the policy to correct
        raise
    return (*advice, *lint_log(read, found))


@policy.command(short_help="Compare two versions of a policy by meaning.")
@click.argument("old")
@click.argument("new")
@json_option
def diff(old: str, new: str, as_json: bool) -> None:
    """Compare two versions of a policy: what protects better now (tightened), what worse
    (loosened), what else changed.
    """
    from cloakwork.policy.diff import diff as differences
    from cloakwork.policy.diff import verdict

    changes = differences(_read(old), _read(new))
    if as_json:
        _print_json(
            {"verdict": verdict(changes), "changes": [asdict(change) for change in changes]}
        )
        return
    for change in changes:
        click.echo(str(change))
    click.echo(_in_one_sentence(verdict(changes)))


def _in_one_sentence(word: str) -> str:
    return {
        "same": "The two policies say the same.",
        "changed": "Nothing was tightened or loosened.",
        "tightened": "The new policy protects at least as well as the old one.",
        "loosened": "The new policy protects less than the old one.",
        "mixed": "The new policy protects better in some ways and less in others.",
    }[word]


@policy.command(short_help="Print the JSON Schema of the policy language.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write it to this file instead of standard output.",
)
def schema(out: Path | None) -> None:
    """Print the JSON Schema of the policy language, for editors and for checks elsewhere."""
    from cloakwork.policy.schema import schema_text

    if out is None:
        click.echo(schema_text(), nl=False)
        return
    write_new(out, schema_text(), force=True)
    click.echo(f"{out}: written")


@policy.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the policies that come with Cloakwork."""
    from cloakwork.policy.library import list_policies, load_shipped

    found = [(name, load_shipped(name).metadata.purpose) for name in list_policies()]
    if as_json:
        _print_json({"policies": [{"name": name, "purpose": purpose} for name, purpose in found]})
        return
    _print_columns(found)


def _read(source: str) -> "Policy":
    from cloakwork.policy.library import resolve_policy
    from cloakwork.policy.load import load_policy

    return load_policy(resolve_policy(source))


def _print_columns(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max((len(first) for first, _ in rows), default=0)
    for first, second in rows:
        click.echo("\n".join(block(first, [second], width_of_screen(), indent=width + 2)))


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
