"""``cloakwork mechanisms``: what there is, with proof status, parameters and theorem."""

import json
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import cleandoc
from typing import Any

import click

from cloakwork.cli.options import json_option
from cloakwork.mechanisms.base import Mechanism
from cloakwork.report.screen import columns, paragraphs


@click.command()
@click.argument("name", required=False)
@json_option
def mechanisms(name: str | None, as_json: bool) -> None:
    """List the mechanisms, or describe the one called NAME."""
    from cloakwork.base.errors import MechanismError
    from cloakwork.mechanisms.registry import catalogue

    known = catalogue()
    if name is not None and name not in known:
        raise click.UsageError(_unknown(name, known))
    described = []
    for each in [name] if name else known:
        try:
            described.append(_describe(known[each]))
        except MechanismError as error:
            if name:
                raise
            click.echo(str(error), err=True)
    if as_json:
        click.echo(json.dumps(described[0] if name else described, indent=2, ensure_ascii=False))
    else:
        for item in described:
            _print_mechanism(item, verbose=name is not None)


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"there is no mechanism '{name}'; {hint}'cloakwork mechanisms' lists them"


def _describe(mechanism: Mechanism[Any]) -> dict[str, Any]:
    schema = mechanism.Params.model_json_schema()
    return {
        "name": mechanism.name,
        "summary": mechanism.summary,
        "proof": mechanism.proof,
        "package": mechanism.package,
        "gives": [each.kind for each in mechanism.gives],
        "theorem": mechanism.theorem.statement,
        "source": mechanism.theorem.source,
        "about": _plain(mechanism.__doc__),
        "options": None if mechanism.package else dict(mechanism.options),
        "parameters": {
            key: {
                "type": value.get("type", "see schema"),
                "required": key in schema.get("required", []),
            }
            for key, value in schema.get("properties", {}).items()
        },
        "parameters_say": _plain(mechanism.Params.__doc__),
    }


def _plain(text: str | None) -> str:
    """A docstring as people read it on a terminal."""
    return cleandoc(text or "").replace("``", "'")


def _print_mechanism(item: dict[str, Any], *, verbose: bool) -> None:
    from cloakwork.plan.sentences import proof_in_words

    origin = f"  (package {item['package']})" if item["package"] else ""
    proof = proof_in_words(item["proof"])
    _print_wrapped(f"{item['name']}  [{proof}]  {item['summary']}{origin}")
    if not verbose:
        return
    _print_prose(f"\n{item['about']}\n")
    _print_wrapped(f"Gives: {item['theorem']}")
    _print_wrapped(f"Source: {item['source']}")
    _print_options(item)
    _print_prose(f"\nParameters that a plan holds: {item['parameters_say']}")
    for key, value in item["parameters"].items():
        click.echo(f"  {key} ({value['type']}{', required' if value['required'] else ''})")


def _print_options(item: dict[str, Any]) -> None:
    """What a policy may set; what a mechanism of another package accepts is not known here."""
    heading = "\nOptions under mechanisms.parameters of a policy"
    options = item["options"]
    if options is None:
        click.echo(f"{heading}: see the package {item['package']}")
    elif not options:
        click.echo(f"{heading}: none")
    else:
        click.echo(f"{heading}, defaults in brackets:")
        for name, text in options.items():
            _print_wrapped(f"  {name}: {text}")


def _print_prose(text: str) -> None:
    click.echo("\n".join(paragraphs(text, columns())).rstrip("\n") + "\n" * text.endswith("\n"))


def _print_wrapped(text: str) -> None:
    """One entry, at the width of the screen; what does not fit on its first line is indented."""
    wrapped = textwrap.wrap(text, columns(), subsequent_indent="    ", break_on_hyphens=False)
    click.echo("\n".join(wrapped))
