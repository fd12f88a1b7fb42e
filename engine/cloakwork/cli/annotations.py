"""What ``policy lint`` and ``policy diff`` found, for the tools that show it beside the code: SARIF
2.1.0 (OASIS), and the commands that a log of GitHub Actions obeys.

Messages quote names from outside. Neither format lets them say more than text.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from cloakwork.base.errors import PlanImpossible
from cloakwork.policy.advice import AdviceRule, Level

FORMATS: Final = ("text", "json", "sarif", "github")
NOT_PASSED: Final = PlanImpossible.exit_code
"""The exit code where what ``--fail-on`` names was found."""

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One thing to say about a place of a policy.

    ``path``: its file; None where it stands in the registry. ``field``: the dotted path.
    ``accepted``: why it is silenced, where it is.
    """

    rule: str
    level: Level
    message: str
    path: Path | None
    line: int
    column: int
    field: str
    accepted: str | None = None


format_option = click.option(
    "--format",
    "output",
    type=click.Choice(FORMATS),
    help="How to print it: text (default), json, sarif (2.1.0), or annotations for GitHub Actions.",
)


def chosen_format(output: str | None, as_json: bool) -> str:
    """The format that ``--format`` and ``--json`` name together."""
    if as_json and output not in (None, "json"):
        raise click.UsageError(f"--json and --format {output} contradict each other")
    return "json" if as_json else output or "text"


def print_document(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_annotations(
    output: str, found: Sequence[Annotation], rules: Mapping[str, AdviceRule]
) -> None:
    """Print what was found as ``sarif`` or ``github``."""
    if output == "sarif":
        print_document(sarif(found, rules))
        return
    for each in found:
        if each.accepted is None:
            click.echo(github_command(each))


def sarif(found: Iterable[Annotation], rules: Mapping[str, AdviceRule]) -> dict[str, Any]:
    """A log of one run in SARIF 2.1.0; what is silenced stands in it as suppressed."""
    names = list(rules)
    driver = {
        "name": "Cloakwork",
        "version": version("cloakwork"),
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": rule.says},
                "defaultConfiguration": {"level": rule.level},
            }
            for name, rule in rules.items()
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, names) for each in found],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(each: Annotation, names: list[str]) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": each.field}]}
    if each.path is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(each.path)},
            "region": {"startLine": each.line, "startColumn": each.column},
        }
    result: dict[str, Any] = {
        "ruleId": each.rule,
        "level": each.level,
        "message": {"text": _plain_message(each.message)},
        "locations": [location],
    }
    if each.rule in names:
        result["ruleIndex"] = names.index(each.rule)
    if each.accepted is not None:
        result["suppressions"] = [
            {
                "kind": "inSource",
                "status": "accepted",
                "justification": each.accepted,
            }
        ]
    return result


def _plain_message(text: str) -> str:
    """Text in which a viewer of SARIF sees no link and no placeholder (3.11.5, 3.11.6)."""
    unlinked = text.replace("](", r"\](")
    return re.sub(r"\{(\d+)\}", r"{{\1}}", unlinked)


def _uri(path: Path) -> str:
    if path.is_absolute():
        return path.as_uri()
    return quote(os.fsencode(path.as_posix()))


def github_command(each: Annotation) -> str:
    """One line that GitHub Actions shows beside the file, whatever the names in it."""
    kind = "warning" if each.level == "warning" else "notice"
    properties = {"title": f"cloakwork: {each.rule}"}
    if each.path is not None:
        place = {"file": each.path.as_posix(), "line": str(each.line), "col": str(each.column)}
        properties = place | properties
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {written}::{_escaped(each.message)}"


def _escaped(text: str) -> str:
    """As the toolkit of GitHub Actions escapes data; it takes other unprintable letters as text."""
    shown = "".join(
        letter if letter.isprintable() or letter in "\r\n" else "\ufffd" for letter in text
    )
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def leave(context: click.Context, failed: bool) -> None:
    """End the command: with the exit code of a check that was not passed, or done."""
    context.exit(NOT_PASSED if failed else 0)
