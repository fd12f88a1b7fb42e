"""Answers that complete a suggested policy: which values attributes can have, and who confirms what
was read off the log.

The file keeps its comments: a line that ``suggest`` wrote is rewritten in its place. No answer may
be looked up in the log; what a code list or a data dictionary says is known without it.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import JsonValue

from cloakwork.base.errors import FileProblem, PolicyError
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.document import did_you_mean, in_quotes, read_text
from cloakwork.policy.model import Policy

LEAVE_OUT: Final = "drop"

HOW: Final = (
    "write values separated by commas, LOW..HIGH for numbers, FILE.csv:COLUMN for a code list, "
    "found for values that noise finds (whole logs only), or drop"
)

_RANGE: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)\s*")
_CODE_LIST: Final = re.compile(r"(.+\.csv):(.+)", re.IGNORECASE)
_ASKED: Final = re.compile(
    r'    (?P<name>"(?:[^"\\]|\\.)*"): \{role: (?P<role>[a-z-]+), treatment: drop\}'
    r"   # (?P<reason>.*); asked: (?P<question>.*)"
)
_OVER: Final = re.compile(r"( +over: \[)(.*)(\].*)")


@dataclass(frozen=True, slots=True)
class AskedAttribute:
    """One attribute that is left out until it is answered for: ``line`` of the file, from 0."""

    name: str
    role: str
    reason: str
    question: str
    line: int


def asked_in(text: str) -> tuple[AskedAttribute, ...]:
    """What a policy that was suggested still asks, in its order."""
    found = []
    for number, line in enumerate(text.splitlines()):
        if match := _ASKED.fullmatch(line):
            name = str(yaml.safe_load(match["name"]))
            found.append(
                AskedAttribute(name, match["role"], match["reason"], match["question"], number)
            )
    return tuple(found)


def answered(
    text: str, label: str, answers: Mapping[str, JsonValue], *, base: Path, confirmed_by: str | None
) -> tuple[str, Policy]:
    """The policy with these answers by attribute, and as it reads then. ``base``: where code lists
    are looked for; ``confirmed_by``: who says that what was read off the log is publicly known.

    Raises PolicyError, in one line, for an attribute that is not asked about, an answer that is
    none, or a policy that it makes invalid.
    """
    asked = {each.name: each for each in asked_in(text)}
    lines, covered = text.splitlines(), []
    for name, answer in answers.items():
        if name not in asked:
            guess = did_you_mean(name, asked)
            raise _fault(label, f"nothing is asked about '{name}'{guess}")
        each = asked[name]
        if answer == LEAVE_OUT:
            lines[each.line] = lines[each.line].replace("; asked: ", "; left out, though asked: ")
            continue
        said = _declaration(answer, name, label, base)
        comment = f"   # {each.reason}; values as answered"
        lines[each.line] = f"    {in_quotes(name)}: {{role: {each.role}, {said}}}{comment}"
        covered.append(name)
    if covered:
        _cover(lines, covered, label)
    if confirmed_by is not None:
        _confirm(lines, confirmed_by, label)
    made = "\n".join(lines) + "\n"
    return made, parse_policy(made, label)


def _declaration(answer: JsonValue, name: str, label: str, base: Path) -> str:
    """The fields of a rule that say which values there are."""
    if isinstance(answer, str):
        answer = _typed(answer)
    match answer:
        case {"file": str(file), "column": str(column)}:
            return _domain(_code_list(base / file, column, label))
        case {"range": [int() | float() as low, int() | float() as high]}:
            whole = isinstance(low, int) and isinstance(high, int)
            return f"range: [{low}, {high}]" + (", type: integer" if whole else "")
        case {"find_values": True}:
            return "find_values: true"
        case list() if answer:
            return _domain(answer)
    raise _fault(label, f"'{name}': {answer!r} is no answer; {HOW}")


def _typed(text: str) -> JsonValue:
    """An answer as people type it."""
    if match := _RANGE.fullmatch(text):
        ends: list[JsonValue] = [float(end) if "." in end else int(end) for end in match.groups()]
        return {"range": ends}
    if match := _CODE_LIST.fullmatch(text.strip()):
        return {"file": match[1], "column": match[2]}
    if text.strip() == "found":
        return {"find_values": True}
    return [value.strip() for value in text.split(",") if value.strip()]


def _domain(values: Iterable[Any]) -> str:
    shown = (in_quotes(each) if isinstance(each, str) else str(each).lower() for each in values)
    return f"domain: [{', '.join(shown)}]"


def _code_list(path: Path, column: str, label: str) -> list[str]:
    """The distinct values of a column, in the order of the file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if column not in (rows.fieldnames or ()):
                raise _fault(label, f"{path} has no column '{column}'")
            found = dict.fromkeys(value for row in rows if (value := row[column]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _fault(label, f"the code list {path} cannot be read ({error})") from None
    if not found:
        raise _fault(label, f"column '{column}' of {path} holds no value")
    return list(found)


def _cover(lines: list[str], names: Iterable[str], label: str) -> None:
    """Let the guarantee of differential privacy cover these attributes as well."""
    inside = False
    for number, line in enumerate(lines):
        if line.strip().startswith("- kind:"):
            inside = "differential-privacy" in line
        match = _OVER.fullmatch(line)
        if inside and match:
            kept = [match[2]] if match[2] else []
            lines[number] = match[1] + ", ".join([*kept, *map(in_quotes, names)]) + match[3]
            return
    raise _fault(label, "no guarantee of differential privacy covers what is answered; suggest one")


def _confirm(lines: list[str], person: str, label: str) -> None:
    lines[:] = [line for line in lines if not line.startswith("    confirmed_")]
    for number, line in enumerate(lines):
        if line.startswith("    read_off: "):
            day = datetime.now(UTC).date()
            lines[number + 1 : number + 1] = [
                f"    confirmed_by: {in_quotes(person)}   # that it is public",
                f"    confirmed_on: {day}",
            ]
            return
    raise _fault(label, "nothing of it was read off a log, so there is nothing to confirm")


def read_answers(path: Path) -> dict[str, JsonValue]:
    """The answers in a file: YAML, attribute to answer."""
    try:
        found = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = {} if mark is None else {"line": mark.line + 1, "column": mark.column + 1}
        raise PolicyError([FileProblem(str(path), "is not YAML", **place)]) from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise _fault(str(path), "is no mapping from attributes to answers")
    return found


def _fault(label: str, message: str) -> PolicyError:
    return PolicyError([FileProblem(label, message)])
