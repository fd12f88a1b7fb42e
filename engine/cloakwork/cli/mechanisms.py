"""``cloakwork mechanisms``: what there is, with proof status, parameters and theorem."""

import textwrap
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import click

from cloakwork.cli.options import json_option, print_json, print_lines
from cloakwork.mechanisms.base import Mechanism
from cloakwork.report.ledger_text import fields_json
from cloakwork.report.screen import columns, paragraphs


@click.command()
@click.argument("name", required=False)
@json_option
def mechanisms(name: str | None, as_json: bool) -> None:
    """List the mechanisms, or describe the one called NAME."""
    from cloakwork.base.errors import MechanismError
    from cloakwork.mechanisms.registry import catalogue
    from cloakwork.policy.document import did_you_mean

    known = catalogue()
    if name is not None and name not in known:
        guess = did_you_mean(name, known)
        raise click.UsageError(
            f"there is no mechanism '{name}'{guess}; 'cloakwork mechanisms' lists them"
        )
    described = []
    for each in [name] if name else known:
        try:
            described.append(_describe(known[each]))
        except MechanismError as error:
            # One that cannot be loaded hides no other.
            if name:
                raise
            click.echo(str(error), err=True)
    if as_json:
        print_json(described[0] if name else described)
    else:
        for item in described:
            print_lines(_lines(item, verbose=name is not None))


def _describe(mechanism: Mechanism[Any]) -> dict[str, Any]:
    schema = mechanism.Params.model_json_schema()
    required = schema.get("required", [])
    return {
        **fields_json(mechanism, "name", "summary", "proof", "package"),
        "gives": [each.kind for each in mechanism.gives],
        "theorem": mechanism.theorem.statement,
        "source": mechanism.theorem.source,
        "about": _plain(mechanism.__doc__),
        "options": None if mechanism.package else dict(mechanism.options),
        "parameters": {
            key: {"type": value.get("type", "see schema"), "required": key in required}
            for key, value in schema.get("properties", {}).items()
        },
        "parameters_say": _plain(mechanism.Params.__doc__),
    }


def _plain(text: str | None) -> str:
    """A docstring as people read it on a terminal."""
    return cleandoc(text or "").replace("``", "'")


def _lines(item: dict[str, Any], *, verbose: bool) -> Iterator[str]:
    from cloakwork.plan.sentences import proof_in_words

    origin = f"  (package {item['package']})" if item["package"] else ""
    proof = proof_in_words(item["proof"])
    yield from _wrapped(f"{item['name']}  [{proof}]  {item['summary']}{origin}")
    if not verbose:
        return
    yield ""
    yield from paragraphs(item["about"], columns())
    yield from _wrapped(f"Gives: {item['theorem']}")
    yield from _wrapped(f"Source: {item['source']}")
    # What a policy may set; what a mechanism of another package accepts is not known here.
    yield ""
    heading = "Options under mechanisms.parameters of a policy"
    if item["options"] is None:
        yield f"{heading}: see the package {item['package']}"
    elif not item["options"]:
        yield f"{heading}: none"
    else:
        yield f"{heading}, defaults in brackets:"
        for name, text in item["options"].items():
            yield from _wrapped(f"  {name}: {text}")
    yield ""
    about = paragraphs(f"Parameters that a plan holds: {item['parameters_say']}", columns())
    yield from "\n".join(about).rstrip("\n").split("\n")
    for key, value in item["parameters"].items():
        yield f"  {key} ({value['type']}{', required' if value['required'] else ''})"


def _wrapped(text: str) -> list[str]:
    """One entry, at the width of the screen; what does not fit on its first line is indented."""
    return textwrap.wrap(text, columns(), subsequent_indent="    ", break_on_hyphens=False)
