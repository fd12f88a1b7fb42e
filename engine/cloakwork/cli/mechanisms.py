"""``cloakwork mechanisms``: what there is, with proof status, parameters and theorem."""

import json
from inspect import cleandoc
from typing import Any

import click

from cloakwork.cli.options import json_option


@click.command()
@click.argument("name", required=False)
@json_option
def mechanisms(name: str | None, as_json: bool) -> None:
    """List the mechanisms, or describe the one called NAME."""
    from cloakwork.errors import MechanismError
    from cloakwork.mechanisms.registry import catalogue

    known = catalogue()
    if name is not None and name not in known:
        raise click.UsageError(f"there is no mechanism '{name}'; there are {', '.join(known)}")
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


def _describe(mechanism: Any) -> dict[str, Any]:
    schema = mechanism.Params.model_json_schema()
    return {
        "name": mechanism.name,
        "summary": mechanism.summary,
        "proof": mechanism.proof,
        "package": getattr(mechanism, "package", None),
        "gives": [each.kind for each in mechanism.gives],
        "theorem": mechanism.theorem.statement,
        "source": mechanism.theorem.source,
        "about": _plain(mechanism.__doc__),
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
    origin = f"  (package {item['package']})" if item["package"] else ""
    click.echo(f"{item['name']}  [{item['proof']}]  {item['summary']}{origin}")
    if verbose:
        click.echo(
            f"\n{item['about']}\n\nGives: {item['theorem']}\nSource: {item['source']}\n\n"
            f"Parameters: {item['parameters_say']}"
        )
        for key, value in item["parameters"].items():
            click.echo(f"  {key} ({value['type']}{', required' if value['required'] else ''})")
