"""Answers that complete a suggested policy: which values attributes can have, and who confirms what
was read off the log.

The file keeps its comments: a line that ``suggest`` wrote is rewritten in its place. No answer may
be looked up in the log; what a code list or a data dictionary says is known without it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
from cloakwork.base.frozen import frozen
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.document import (
    Document,
    SourcePosition,
    Steps,
    compose_yaml,
    did_you_mean,
    in_quotes,
    node_at,
    read_document,
    read_text,
    with_values,
)
from cloakwork.policy.load import UnreadableList, code_list
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import COLUMNS, mapping_at

LEAVE_OUT: Final = "drop"

HOW: Final = (
    "write values separated by commas, LOW..HIGH for numbers, FILE.csv:COLUMN for a code list, "
    "found for values that noise finds (whole logs only), or drop"
)

_RANGE: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)\s*")
_CODE_LIST: Final = re.compile(r"(.+\.csv):(.+)", re.IGNORECASE)
_ASKING: Final = re.compile(r"[^\n]*?#[ ]*(?P<reason>[^\n]*?); asked: (?P<question>[^\n]*)")
"""The comment behind a rule that says what is asked."""


@frozen
class AskedAttribute:
    """One attribute that is left out until it is answered for."""

    name: str
    reason: str
    question: str


def asked_in(text: str, label: str = "policy") -> tuple[AskedAttribute, ...]:
    """What a policy that was suggested still asks, in its order. Raises PolicyError for what is no
    policy.
    """
    found = []
    for name in _left_out(read_document(text, label)):
        if asking := _asking(text, name):
            found.append(AskedAttribute(name, asking["reason"], asking["question"]))
    return tuple(found)


def _left_out(document: Document) -> dict[str, dict[str, Any]]:
    """The rules that drop an attribute, by its name; edited by hand or not."""
    rules = mapping_at(document.content, "spec", "attributes")
    return {
        name: rule
        for name, rule in rules.items()
        if isinstance(rule, dict) and rule.get("treatment") == LEAVE_OUT
    }


def _asking(text: str, name: str) -> re.Match[str] | None:
    """What stands behind the treatment of an attribute, where that asks something."""
    node = node_at(compose_yaml(text), (*_ATTRIBUTES, name, "treatment"))
    return _ASKING.match(text, node.end_mark.index) if node else None


_ATTRIBUTES: Final = ("spec", "attributes")


def answered(
    text: str, label: str, answers: Mapping[str, JsonValue], *, base: Path, confirmed_by: str | None
) -> tuple[str, Policy]:
    """The policy with these answers by attribute, and as it reads then. ``base``: where code lists
    are looked for; ``confirmed_by``: who says that what was read off the log is publicly known.

    An attribute can be answered for where its own rule drops it, whatever else somebody wrote into
    it. Raises PolicyError, in one line, for one that is not, an answer that is none, or a policy
    that it makes invalid.
    """
    parse_policy(text, label)
    document = read_document(text, label)
    left_out = _left_out(document)
    changed: dict[Steps, str | Mapping[str, str]] = {}
    covered: list[str] = []
    for name, answer in answers.items():
        place = document.place((*_ATTRIBUTES, name), of_key=True)
        if name not in left_out:
            known = (*_ATTRIBUTES, name) in document.keys
            guess = "; its rule does not say treatment: drop" if known else ""
            guess = guess or did_you_mean(name, left_out)
            raise _fault(label, f"nothing is asked about '{name}'{guess}", place if known else None)
        asking = _asking(text, name)
        if answer == LEAVE_OUT:
            said = "left out, though asked: {question}"
        else:
            said = "values as answered"
            declared = _declaration(answer, name, label, base)
            if left_out[name].get("role") == "identifier":
                message = f"'{name}' is an identifier; give it another role first"
                raise _fault(label, message, place)
            if asking and asking["question"].startswith("which two") and "domain" in declared:
                message = f"'{name}': asked is a range of numbers, as LOW..HIGH"
                raise _fault(label, message, place)
            changed[*_ATTRIBUTES, name, "treatment"] = declared
            covered.append(name)
        if asking:
            behind = f"{asking['reason']}; {said.format(question=asking['question'])}"
            text = text[: asking.start("reason")] + behind + text[asking.end() :]
    if covered:
        changed |= _covering(document, covered, label)
    if confirmed_by is not None:
        found = ("metadata", "suggested")
        if (*found, "read_off") not in document.keys:
            message = "nothing of it was read off a log, so there is nothing to confirm"
            raise _fault(label, message)
        changed[*found, "confirmed_by"] = in_quotes(confirmed_by)
        changed[*found, "confirmed_on"] = str(datetime.now(UTC).date())
    made = with_values(text, changed, label) if changed else text
    return made, parse_policy(made, label)


def _declaration(answer: JsonValue, name: str, label: str, base: Path) -> dict[str, str]:
    """The fields of a rule that say which values there are, as YAML."""
    if isinstance(answer, str):
        answer = _typed(answer)
    match answer:
        case {"file": str(file), "column": str(column)}:
            return _domain(_code_list(base, file, column, label))
        case {"range": [int() | float() as low, int() | float() as high]}:
            whole = isinstance(low, int) and isinstance(high, int)
            return {"range": f"[{low}, {high}]"} | ({"type": "integer"} if whole else {})
        case {"find_values": True}:
            return {"find_values": "true"}
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


def _domain(values: Iterable[Any]) -> dict[str, str]:
    shown = (in_quotes(each) if isinstance(each, str) else str(each).lower() for each in values)
    return {"domain": f"[{', '.join(shown)}]"}


def _code_list(base: Path, file: str, column: str, label: str) -> list[str]:
    """The distinct values of a column, in the order of the file."""
    try:
        return code_list(base, file, column)
    except UnreadableList as error:
        raise _fault(label, str(error)) from None


def _covering(document: Document, names: list[str], label: str) -> dict[Steps, str]:
    """What lets the guarantee of differential privacy cover these attributes as well."""
    for index, goal in enumerate(document.content["spec"].get("guarantees") or ()):
        if isinstance(goal, dict) and goal.get("kind") == "differential-privacy":
            listed = (
                each if each in COLUMNS else in_quotes(each) for each in (*goal["over"], *names)
            )
            return {("spec", "guarantees", index, "over"): f"[{', '.join(listed)}]"}
    raise _fault(label, "no guarantee of differential privacy covers what is answered; suggest one")


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
    values = {}
    for name, answer in said.get("values", {}).items():
        values[name] = ""
        if answer != LEAVE_OUT:
            declared = _declaration(answer, name, str(path), path.parent)
            values[name] = ", ".join(f"{key}: {value}" for key, value in declared.items())
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
