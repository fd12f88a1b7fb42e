"""``cloakwork policy``: write, check, explain and compare privacy policies."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.base.errors import MOST_LINES, PolicyError
from cloakwork.cli.options import (
    PATH,
    json_option,
    ledger_option,
    print_block,
    print_json,
    print_names,
    write_new,
)
from cloakwork.cli.policy_checks import diff, lint
from cloakwork.cli.policy_init import init, suggest

if TYPE_CHECKING:
    from cloakwork.policy.model import Policy


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def policy() -> None:
    """Write, check, explain and compare privacy policies.

    Where a policy is asked for, give a file, the name of a shipped policy (see 'cloakwork policy
    list'), or NAME@VERSION of the registry (see 'cloakwork registry list').
    """


policy.add_command(init)
policy.add_command(suggest)


@policy.command(short_help="Check policies: a line a problem, with its place.")
@click.argument("policies", metavar="POLICY...", nargs=-1, required=True)
@ledger_option
@json_option
@click.pass_context
def validate(
    context: click.Context,
    policies: tuple[str, ...],
    ledger: str | None,
    as_json: bool,
) -> None:
    """Check policies; every problem is one line with its file, line and column."""
    results = [_validated(source, ledger) for source in policies]
    if as_json:
        print_json({"policies": results})
    else:
        for result in results:
            _say(result)
    context.exit(0 if all(result["valid"] for result in results) else PolicyError.exit_code)


def _validated(source: str, ledger: str | None) -> dict[str, Any]:
    """What there is to say about one policy, as JSON values."""
    from cloakwork.policy.load import digest

    try:
        read = _read(source, ledger)
    except PolicyError as error:
        shown = error.problems[:MOST_LINES]
        problems = [asdict(problem) | {"text": str(problem)} for problem in shown]
        found = {"path": source, "valid": False, "problems": problems}
        more = len(error.problems) - MOST_LINES
        return found | {"more": more} if more > 0 else found
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
@ledger_option
@json_option
def explain(policy_: str, ledger: str | None, as_json: bool) -> None:
    """Say in plain words what a policy protects, what it guarantees, what it costs, and what stays
    exposed.
    """
    from cloakwork.policy.explain import explain as explained
    from cloakwork.policy.model import describe_version

    read = _read(policy_, ledger)
    sections = explained(read)
    if as_json:
        said = [asdict(section) for section in sections]
        print_json({"policy": describe_version(read), "sections": said})
        return
    for place, section in enumerate(sections):
        click.secho(("\n" if place else "") + section.title, bold=True)
        for line in section.lines:
            print_block("  - ", line, indent=4)


policy.add_command(lint)
policy.add_command(diff)


@policy.command(short_help="Print the JSON Schema of the policy language.")
@click.option("--out", type=PATH, help="Write it to this file instead of standard output.")
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
    from cloakwork.plan.policies import load_shipped
    from cloakwork.policy.load import list_policies

    found = [(name, load_shipped(name).metadata.purpose) for name in list_policies()]
    if as_json:
        print_json({"policies": [{"name": name, "purpose": purpose} for name, purpose in found]})
    else:
        print_names(found)


def _read(source: str, ledger: str | None) -> "Policy":
    from cloakwork.authoring.sources import policy_source

    return policy_source(source, ledger).policy()
