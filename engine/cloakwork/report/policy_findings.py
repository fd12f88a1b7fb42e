"""What is said of policies, each at its place: advice, and changes between two versions.

For screens, pages and the tools that show it beside the code: SARIF 2.1.0 (OASIS), and the commands
that a log of GitHub Actions obeys. Messages quote names from outside. Neither format lets them say
more than text.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cloakwork.base.frozen import frozen
from cloakwork.base.text import version_of
from cloakwork.policy.advice import (
    LEDGER_RULES,
    LOG_RULES,
    WAIVER_RULES,
    Advice,
    AdviceRule,
    Level,
    judged,
)
from cloakwork.policy.diff import Change, VersionStep
from cloakwork.policy.document import dotted_path, read_document
from cloakwork.policy.lint import ADVICE_RULES
from cloakwork.policy.model import Policy

CHANGE_RULES: Final = {
    "looser": AdviceRule("warning", "Something is protected less than before."),
    "tighter": AdviceRule("note", "Something is protected better than before."),
    "other": AdviceRule("note", "Something changed that protects neither better nor less."),
    "version": AdviceRule("warning", "The version was not raised as far as the changes need."),
}

VERDICTS: Final = {
    "same": "The two policies say the same.",
    "other": "Nothing is tighter or looser.",
    "tighter": "The new policy protects at least as well as the old one.",
    "looser": "The new policy protects less than the old one.",
    "mixed": "The new policy protects better in some ways and less in others.",
}
"""What ``policy.diff.verdict`` says of all changes, in one sentence."""


@frozen
class Annotation:
    """One thing to say about a place of a policy.

    ``path``: its file; None where it stands in the registry. ``field``: the dotted path. Lines and
    columns count from 1. ``accepted``: who silenced it and why, where somebody did.
    """

    rule: str
    level: Level
    message: str
    path: Path | None
    line: int
    column: int
    field: str
    accepted: str | None = None

    def __str__(self) -> str:
        return f"{self.field}: {self.message} [{self.rule}]"


def placed_advice(
    policy: Policy,
    advice: tuple[Advice, ...],
    text: str,
    label: str,
    *,
    path: Path | None = None,
    with_log: bool = False,
    with_ledger: bool = False,
) -> tuple[Annotation, ...]:
    """Advice in the order of the policy's ``text``; what the policy waives says so.

    ``with_log``, ``with_ledger``: whether the rules were asked that need them: a waiver of a rule
    that was not asked is not judged.
    """
    document = read_document(text, label)
    unchecked = [*(() if with_log else LOG_RULES), *(() if with_ledger else LEDGER_RULES)]
    found = [
        Annotation(
            each.advice.rule,
            each.advice.level,
            each.advice.message,
            path,
            *document.place(each.advice.steps),
            dotted_path(each.advice.steps),
            None if each.waiver is None else str(each.waiver),
        )
        for each in judged(
            advice,
            policy.spec.waivers,
            # What is said of waivers cannot be waived.
            known=ADVICE_RULES.keys() - WAIVER_RULES.keys(),
            unchecked=unchecked,
        )
    ]
    return tuple(sorted(found, key=lambda each: (each.line, each.column, each.message)))


def placed_changes(
    changes: Iterable[Change], step: VersionStep, text: str, label: str, path: Path | None
) -> tuple[Annotation, ...]:
    """The changes, each at its place in the ``text`` of the new policy or, where it is gone, near
    it.
    """
    places = {
        dotted_path(steps): place for steps, place in read_document(text, label).values.items()
    }
    said: list[tuple[str, str, str]] = [
        (each.verdict, each.words(), each.field) for each in changes
    ]
    if not step.is_enough:
        said.append(("version", version_sentence(step), "metadata.version"))
    found = []
    for rule, message, field in said:
        # The root has a place, so that one is always near.
        near = max((place for place in places if field.startswith(place)), key=len)
        found.append(
            Annotation(rule, CHANGE_RULES[rule].level, message, path, *places[near], field)
        )
    return tuple(found)


def version_sentence(step: VersionStep) -> str:
    """Which version the changes need; of a step that needs one."""
    needs = f"This needs a new {step.bump} version"
    if step.is_enough:
        return f"{needs}; {step.old} -> {step.new} is one."
    return (
        f"{needs}: {step.at_least} or later, and the new policy says {step.new}; "
        "raise metadata.version."
    )


def sarif(found: Iterable[Annotation], rules: Mapping[str, AdviceRule]) -> dict[str, Any]:
    """A log of one run in SARIF 2.1.0; what is silenced stands in it as suppressed."""
    names = list(rules)
    driver = {
        "name": "Cloakwork",
        "version": version_of("cloakwork"),
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
        "results": [_sarif_result(each, names) for each in found],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _sarif_result(each: Annotation, names: list[str]) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": each.field}]}
    if each.path is not None:
        # The name of a file may be no UTF-8: its bytes are quoted.
        uri = quote(os.fsencode(each.path.as_posix()))
        if each.path.is_absolute():
            uri = each.path.as_uri()
        location["physicalLocation"] = {
            "artifactLocation": {"uri": uri},
            "region": {"startLine": each.line, "startColumn": each.column},
        }
    # A viewer sees no link and no placeholder in the message (3.11.5, 3.11.6).
    unlinked = each.message.replace("](", r"\](")
    result: dict[str, Any] = {
        "ruleId": each.rule,
        "level": each.level,
        "message": {"text": re.sub(r"\{(\d+)\}", r"{{\1}}", unlinked)},
        "locations": [location],
    }
    if each.rule in names:
        result["ruleIndex"] = names.index(each.rule)
    if each.accepted is not None:
        accepted = {"kind": "inSource", "status": "accepted", "justification": each.accepted}
        result["suppressions"] = [accepted]
    return result


def github_command(each: Annotation) -> str:
    """One line that GitHub Actions shows beside the file, whatever the names in it."""
    kind = "warning" if each.level == "warning" else "notice"
    properties: dict[str, str] = {}
    if each.path is not None:
        properties |= {
            "file": each.path.as_posix(),
            "line": str(each.line),
            "col": str(each.column),
        }
    properties["title"] = f"cloakwork: {each.rule}"
    # Between properties a colon and a comma mean something, too.
    written = ",".join(
        f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{kind} {written}::{_escaped(each.message)}"


def _escaped(text: str) -> str:
    """As the toolkit of GitHub Actions escapes data; it takes other unprintable letters as text."""
    # Line ends are escaped below; what else cannot be printed is replaced.
    shown = "".join(
        letter if letter.isprintable() or letter in "\r\n" else "\ufffd" for letter in text
    )
    # The percent sign first, so that no escape is escaped again.
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
