"""Answers that complete a suggested policy: which values attributes can have, and who confirms what
was read off the log.

The file keeps its comments: a line that ``suggest`` wrote is rewritten in its place. No answer may
be looked up in the log; what a code list or a data dictionary says is known without it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from cloakwork.authoring.suggestion import (
    AUDIENCES,
    HARMS,
    KNOWLEDGE,
    TIMES,
    SuggestionRequest,
)
from cloakwork.base.errors import FileProblem, PolicyError
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.document import (
    Document,
    SourcePosition,
    did_you_mean,
    in_quotes,
    read_document,
    read_text,
)
from cloakwork.policy.load import UnreadableList, code_list
from cloakwork.policy.model import Policy

LEAVE_OUT: Final = "drop"

HOW: Final = (
    "write values separated by commas, LOW..HIGH for numbers, FILE.csv:COLUMN for a code list, "
    "found for values that noise finds (whole logs only), or drop"
)

_RANGE: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)\s*")
_CODE_LIST: Final = re.compile(r"(.+\.csv):(.+)", re.IGNORECASE)
_RULE: Final = re.compile(r"(?P<key>[^{}]*:\s*)\{(?P<rule>[^{}]*)\}\s*(?:#\s*(?P<comment>.*))?")
"""An attribute's rule on one line; the key ends where its only braces begin."""
_ASKED: Final = "; asked: "
_BETWEEN: Final = "; asked: which two"
_LIST: Final = re.compile(r"""\[((?:[^]"'#]|"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')*)\]""")


@dataclass(frozen=True, slots=True)
class AskedAttribute:
    """One attribute that is left out until it is answered for."""

    name: str
    reason: str
    question: str


def asked_in(text: str, label: str = "policy") -> tuple[AskedAttribute, ...]:
    """What a policy that was suggested still asks, in its order. Raises PolicyError for what is no
    policy.
    """
    document, lines = read_document(text, label), text.splitlines()
    found = []
    for name, match in _left_out(document, lines).items():
        reason, is_asked, question = (match["comment"] or "").partition(_ASKED)
        if is_asked:
            found.append(AskedAttribute(name, reason, question))
    return tuple(found)


def _left_out(document: Document, lines: list[str]) -> dict[str, re.Match[str]]:
    """The rules on one line that drop an attribute, by its name; edited by hand or not."""
    spec = document.content.get("spec")
    rules = spec.get("attributes") if isinstance(spec, dict) else None
    found = {}
    for name, rule in rules.items() if isinstance(rules, dict) else ():
        line = document.place(("spec", "attributes", name), of_key=True).line - 1
        match = _RULE.fullmatch(lines[line])
        if match and isinstance(rule, dict) and rule.get("treatment") == LEAVE_OUT:
            found[name] = match
    return found


def answered(
    text: str, label: str, answers: Mapping[str, JsonValue], *, base: Path, confirmed_by: str | None
) -> tuple[str, Policy]:
    """The policy with these answers by attribute, and as it reads then. ``base``: where code lists
    are looked for; ``confirmed_by``: who says that what was read off the log is publicly known.

    An attribute can be answered for where it is dropped by a rule on one line, whatever else
    somebody wrote into it. Raises PolicyError, in one line, for one that is not, an answer that is
    none, or a policy that it makes invalid.
    """
    parse_policy(text, label)
    document, lines = read_document(text, label), text.splitlines()
    left_out, covered = _left_out(document, lines), list[str]()
    for name, answer in answers.items():
        place = document.place(("spec", "attributes", name), of_key=True)
        if name not in left_out:
            known = document.keys.keys() & {("spec", "attributes", name)}
            guess = "; write its rule as {role: ..., treatment: drop}, on one line" if known else ""
            guess = guess or did_you_mean(name, left_out)
            raise _fault(label, f"nothing is asked about '{name}'{guess}", place if known else None)
        match, line = left_out[name], place.line - 1
        if answer == LEAVE_OUT:
            if match["comment"]:
                comment = match["comment"].replace(_ASKED, "; left out, though asked: ")
                lines[line] = lines[line][: match.start("comment")] + comment
            continue
        said = _declaration(answer, name, label, base)
        if document.content["spec"]["attributes"][name].get("role") == "identifier":
            raise _fault(label, f"'{name}' is an identifier; give it another role first", place)
        if _BETWEEN in (match["comment"] or "") and said.startswith("domain"):
            message = f"'{name}': asked is a range of numbers, as LOW..HIGH"
            raise _fault(label, message, place)
        before, word, behind = match["rule"].partition("treatment: drop")
        if not word:
            raise _fault(label, f"write 'treatment: drop' in the rule of '{name}'", place)
        reason = (match["comment"] or "").partition(_ASKED)[0]
        comment = "; ".join(filter(None, (reason, "values as answered")))
        lines[line] = f"{match['key']}{{{before}{said}{behind}}}   # {comment}"
        covered.append(name)
    if covered:
        _cover(document, lines, covered, label)
    if confirmed_by is not None:
        _confirm(document, lines, confirmed_by, label)
    made = "\n".join(lines) + "\n"
    policy = parse_policy(made, label)
    if _beside(read_document(made, label), covered) != _beside(document, covered):
        raise _fault(label, "an answer would change something else; write it into the file")
    return made, policy


def _beside(document: Document, names: Collection[str]) -> JsonValue:
    """What the policy says beside the rules of these attributes, that they are covered by
    differential privacy, and who confirmed it.
    """
    content: dict[str, Any] = deepcopy(document.content)
    spec, metadata = content["spec"], content.get("metadata", {})
    for name in names:
        rule = spec["attributes"][name]
        spec["attributes"][name] = rule.get("role")
    for goal in spec["guarantees"]:
        if goal["kind"] == "differential-privacy":
            goal["over"] = [each for each in goal.get("over", []) if each not in names]
    for name in ("confirmed_by", "confirmed_on"):
        (metadata.get("suggested") or {}).pop(name, None)
    return content


def _declaration(answer: JsonValue, name: str, label: str, base: Path) -> str:
    """The fields of a rule that say which values there are."""
    if isinstance(answer, str):
        answer = _typed(answer)
    match answer:
        case {"file": str(file), "column": str(column)}:
            return _domain(_code_list(base, file, column, label))
        case {"range": [int() | float() as low, int() | float() as high]}:
            whole = isinstance(low, int) and isinstance(high, int)
            return f"range: [{low}, {high}]" + (", type: integer" if whole else "")
        case {"find_values": True}:
            return "find_values: true"
        case [*values] if values and all(isinstance(each, str | int | float) for each in values):
            return _domain(values)
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


def _code_list(base: Path, file: str, column: str, label: str) -> list[str]:
    """The distinct values of a column, in the order of the file."""
    try:
        return code_list(base, file, column)
    except UnreadableList as error:
        raise _fault(label, str(error)) from None


def _cover(document: Document, lines: list[str], names: Iterable[str], label: str) -> None:
    """Let the guarantee of differential privacy cover these attributes as well."""
    goals = ("spec", "guarantees")
    for index, goal in enumerate(document.content["spec"].get("guarantees") or ()):
        if not isinstance(goal, dict) or goal.get("kind") != "differential-privacy":
            continue
        place = document.place((*goals, index, "over"))
        line = lines[place.line - 1]
        match = _LIST.match(line, place.column - 1)
        if match is None:
            raise _fault(label, "write over: [...] on one line, so that it can be added to", place)
        kept = [match[1].strip()] if match[1].strip() else []
        listed = ", ".join([*kept, *map(in_quotes, names)])
        lines[place.line - 1] = f"{line[: match.start()]}[{listed}]{line[match.end() :]}"
        return
    raise _fault(label, "no guarantee of differential privacy covers what is answered; suggest one")


def _confirm(document: Document, lines: list[str], person: str, label: str) -> None:
    found = ("metadata", "suggested")
    place = document.keys.get((*found, "read_off"))
    if place is None or not lines[place.line - 1].lstrip().startswith("read_off:"):
        raise _fault(label, "nothing of it was read off a log, so there is nothing to confirm")
    confirmed = [f"confirmed_by: {in_quotes(person)}   # that it is public"]
    confirmed.append(f"confirmed_on: {datetime.now(UTC).date()}")
    lines[place.line - 1 : place.line - 1] = [" " * (place.column - 1) + each for each in confirmed]
    # Whoever confirmed it before; these lines moved by two where they stand below.
    for name in ("confirmed_by", "confirmed_on"):
        if (old := document.keys.get((*found, name))) is not None:
            lines[old.line - 1 + 2 * (old.line >= place.line)] = ""


def read_answers(path: Path) -> dict[str, JsonValue]:
    """The answers in a file: YAML, attribute to answer."""
    return _read(path).content


def _read(path: Path) -> Document:
    try:
        document = read_document(read_text(path), str(path), is_policy=False)
    except PolicyError as error:
        said = error.problems[0].message
        if "mapping" in said or "empty" in said:
            message = "holds no answers; write attribute: answer, one a line"
            raise PolicyError([FileProblem(str(path), message, 1, 1)]) from None
        raise
    if document.faults:
        fault = document.faults[0]
        raise PolicyError([FileProblem(str(path), fault.message, *fault.place)])
    return document


QUESTIONS: Final[dict[str, str]] = {
    "recipients": "Who receives it: colleagues (internal), partners (share) or anybody (publish)?",
    "contract": "Does a contract forbid them to look for people and to pass it on?",
    "knowledge": "What else do they hold: nothing, events of single people, or records of all?",
    "harm": "What would it do to somebody who is found: little, some or grave harm?",
    "purpose": "What is it needed for?",
    "public": "Which activities are public? FILE.csv:COLUMN, or names separated by commas",
}
"""What decides on form and strictness, by the key of a file of answers."""

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "recipients": AUDIENCES,
    "knowledge": KNOWLEDGE,
    "harm": HARMS,
    "times": TIMES,
}


def with_answers(request: SuggestionRequest, path: Path) -> SuggestionRequest:
    """The request with what a file of answers says: the keys of ``QUESTIONS``, and

    - ``who``: the recipients in words; ``times``: how times are released;
    - ``values``: which values attributes can have, attribute to answer, as in ``answered``.

    Raises PolicyError, with line and column.
    """
    document = _read(path)

    def refuse(name: str, message: str) -> PolicyError:
        place = document.place((name,))
        return PolicyError([FileProblem(str(path), f"{name} {message}", *place)])

    said = document.content
    known = (*QUESTIONS, "who", "times", "values")
    for name, value in said.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"; the questions are {', '.join(known)}"
            raise refuse(name, f"is no question{hint}")
        if name in CHOICES and value not in CHOICES[name]:
            raise refuse(name, f"is one of {', '.join(CHOICES[name])}")
        if name in ("purpose", "who") and not (isinstance(value, str) and 0 < len(value) <= 200):
            raise refuse(name, "is a text of at most 200 characters")
        if name == "contract" and not isinstance(value, bool):
            raise refuse(name, "is true or false")
        if name == "values" and not isinstance(value, dict):
            raise refuse(name, "maps attributes to answers")
    values = {
        name: _declaration(answer, name, str(path), path.parent)
        for name, answer in said.get("values", {}).items()
        if answer != LEAVE_OUT
    }
    return asked_request(request, said, base=path.parent, label=str(path), values=values)


def asked_request(
    request: SuggestionRequest,
    said: Mapping[str, Any],
    *,
    base: Path,
    label: str,
    values: Mapping[str, str] | None = None,
) -> SuggestionRequest:
    """The request with the answers to ``QUESTIONS``, as far as there are some."""
    public = said.get("public")
    if isinstance(public, str):
        public = _typed(public)
    match public:
        case None | []:
            activities = request.circumstances.activities
        case {"file": str(file), "column": str(column)}:
            activities = tuple(_code_list(base, file, column, label))
        case [*names] if all(isinstance(each, str) for each in names):
            activities = tuple(dict.fromkeys(map(str, names)))
        case _:
            raise _fault(label, "public is a list of activities, or FILE.csv:COLUMN")
    given = {name: said[name] for name in ("contract", "knowledge", "harm") if name in said}
    circumstances = replace(
        request.circumstances,
        recipients=said.get("who", request.circumstances.recipients),
        activities=activities,
        **given,
    )
    purpose = said.get("purpose") or request.header.get("purpose")
    return replace(
        request,
        audience=said.get("recipients", request.audience),
        times=said.get("times", request.times),
        header={**request.header, "purpose": purpose},
        circumstances=circumstances,
        values=request.values if values is None else values,
    )


def _fault(label: str, message: str, place: SourcePosition | None = None) -> PolicyError:
    return PolicyError([FileProblem(label, message, *(place or ()))])
