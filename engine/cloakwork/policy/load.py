"""A policy file becomes a Policy, or a list of faults with line and column, in file order, all at
once. And where the policies and schemas lie that come with Cloakwork.

>>> parse_policy("kind: PrivacyPolicy\\n", "policy.yaml", NO_MECHANISMS)
Traceback (most recent call last):
...
cloakwork.base.errors.PolicyError: policy.yaml:1:1: apiVersion is missing
policy.yaml:1:1: metadata is missing
policy.yaml:1:1: spec is missing
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError
from yaml import MappingNode, Node

from cloakwork.base.errors import Cause, FileProblem, PolicyError
from cloakwork.policy.document import (
    Document,
    Fault,
    ShapeError,
    Steps,
    UnreadableText,
    compose_yaml,
    did_you_mean,
    dotted_path,
    entries_of,
    in_quotes,
    node_at,
    read_document,
    read_text,
    shown_value,
    start_of,
)
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import Vocabulary, semantic_faults
from cloakwork.policy.validation_messages import translate_errors


def load_policy(path: str | Path, vocabulary: Vocabulary) -> Policy:
    """Read a policy file; raises PolicyError with every fault found."""
    return parse_policy(read_policy_text(Path(path)), str(path), vocabulary)


def read_policy_text(path: Path) -> str:
    """A policy's text, with the values of its code lists in place of their names."""
    return with_code_lists(read_text(path), path)


def with_code_lists(text: str, path: Path) -> str:
    """The text of a policy at ``path``, in which values stand in place of ``{file: codes.csv,
    column: code}``, on the same line: from then on they are the policy's own, and its digest covers
    them. Files lie beside the policy, or below. Raises PolicyError where one cannot be read.
    """
    if "file" not in text:
        return text
    try:
        root = compose_yaml(text)
    except UnreadableText:
        return text  # whoever parses it says why
    named = dict(_code_lists_in(root))
    # From the end, so that places before stay where they are.
    for start in sorted(named, reverse=True):
        node, steps = named[start]
        try:
            values = _values_of(node, steps, path.parent)
        except UnreadableList as error:
            where = f"{dotted_path(steps)}: {error}"
            raise PolicyError([FileProblem(str(path), where, *start_of(node))]) from None
        stop = node.end_mark.index
        before = text[start:stop]
        # As many lines as before, so that errors name the right ones; a block ends in an indent.
        indent = "" if node.flow_style else before[before.rfind("\n") + 1 :].strip("\n")
        indent = indent if not indent.strip() else ""
        lines = "\n" * before.count("\n")
        text = text[:start] + f"[{', '.join(values)}]" + lines + indent + text[stop:]
    return text


def names_code_lists(text: str) -> bool:
    """Whether a policy's text takes values from files; False where it is no YAML."""
    try:
        return any(_code_lists_in(compose_yaml(text)))
    except UnreadableText:
        return False


def _code_lists_in(root: Node | None) -> Iterator[tuple[int, tuple[MappingNode, Steps]]]:
    """Where domains and ranges are mappings: by the place where these begin."""
    for name, rule in entries_of(node_at(root, ("spec", "attributes"))):
        for key, value in entries_of(rule):
            if key in ("domain", "range") and isinstance(value, MappingNode):
                yield value.start_mark.index, (value, ("spec", "attributes", name, key))


_KEYS: Final[dict[str, set[str]]] = {
    "domain": {"file", "column", "type"},
    "range": {"file", "column", "row", "low", "high"},
}
_NUMBER: Final = re.compile(r"-?\d{1,30}(\.\d{1,30})?")


class UnreadableList(Exception):
    """A code list, or a data dictionary, that cannot be read as it is named."""


def _values_of(node: MappingNode, steps: Steps, base: Path) -> list[str]:
    """The values that a reference to a file stands for, as YAML."""
    name = str(steps[-2])
    kind = str(steps[-1])
    said = {key: value.value for key, value in entries_of(node)}
    if set(said) - _KEYS[kind] or len(said) != len(node.value) or "file" not in said:
        known = ", ".join(sorted(_KEYS[kind]))
        raise UnreadableList(f"is a list, or a mapping of {known}; file is needed")
    if not all(isinstance(each, str) for each in said.values()):
        raise UnreadableList("file, column and the rest are single words or texts")
    column = said.get("column", "name")
    if kind == "domain":
        found = code_list(base, said["file"], column)
        if said.get("type", "text") == "text":
            return [in_quotes(value) for value in found]
    else:
        rows = _table(base, said["file"])
        wanted = said.get("row", name)
        row = next((each for each in rows if _cell(each, column) == wanted), None)
        if row is None:
            raise UnreadableList(f"no row of the file has '{wanted}' as its {column}")
        found = [_cell(row, said.get(end, usual)) for end, usual in _ENDS]
    bad = next((value for value in found if not _NUMBER.fullmatch(value)), None)
    if bad is not None and kind == "domain":
        raise UnreadableList(f"column '{column}' holds what is no number")
    return [value if _NUMBER.fullmatch(value) else in_quotes(value) for value in found]


_ENDS: Final = (("low", "min"), ("high", "max"))


def _cell(row: dict[str, str], column: str) -> str:
    if column not in row:
        known = ", ".join(list(row)[:10])
        raise UnreadableList(f"the file has no column '{column}', but {known}")
    return row[column].strip()


def code_list(base: Path, file: str, column: str) -> list[str]:
    """The distinct values of a column of a table in ``base``, in its order; raises UnreadableList
    as ``_table`` does, and where there is no such column or value.
    """
    found = dict.fromkeys(_cell(row, column) for row in _table(base, file))
    found.pop("", None)
    if not found:
        raise UnreadableList(f"column '{column}' of {file} holds no value")
    return list(found)


def _table(base: Path, file: str) -> list[dict[str, str]]:
    """The rows of a code list or a data dictionary: CSV with a header, UTF-8, of at most 1 MiB,
    separated by commas, semicolons or tabs; in ``base``, or below. Raises UnreadableList.
    """
    path = base / file
    try:
        is_inside = path.resolve().is_relative_to(base.resolve())
    except (OSError, ValueError, RuntimeError):
        is_inside = False
    if not is_inside:
        raise UnreadableList(f"{shown_value(file)} does not lie beside this file, or below")
    try:
        text = read_text(path)
        first = text.partition("\n")[0]
        separator = max(",;\t", key=first.count)
        header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    except PolicyError as error:
        fault = error.problems[0]
        where = "" if fault.line is None else f" line {fault.line}:"
        raise UnreadableList(f"{file}:{where} {fault.message.partition(';')[0]}") from None
    except (csv.Error, ValueError) as error:
        raise UnreadableList(f"{file} is no table with a header ({error})") from None
    return [
        {name.strip(): value for name, value in zip(header, row, strict=False)}
        for row in rows
        if len(row) == len(header)
    ] or [dict.fromkeys(map(str.strip, header), "")]


def parse_policy(text: str, path: str, vocabulary: Vocabulary) -> Policy:
    """Read a policy from text; ``path`` is what the errors call it, ``vocabulary`` what it may say
    of mechanisms. Raises PolicyError with every fault found.
    """
    document = read_document(text, path)
    # Faults of meaning first: where both speak of one value, they say it better than pydantic.
    found = list(semantic_faults(document.content, vocabulary))
    policy = None
    try:
        policy = Policy.model_validate(document.content)
    except ValidationError as error:
        reported = {finding.steps for finding in found}
        for finding in translate_errors(error, document.content):
            # Unless something better was said already about the same value or its parent.
            parents = (finding.steps[:length] for length in range(len(finding.steps) + 1))
            if reported.isdisjoint(parents):
                found.append(finding)
    faults = [*document.faults, *(_placed_fault(document, finding) for finding in found)]
    if policy is None or faults:
        # In file order, none twice.
        problems = [
            FileProblem(path, fault.message, fault.place.line, fault.place.column, fault.hint)
            for fault in dict.fromkeys(sorted(faults, key=lambda fault: fault.place))
        ]
        raise PolicyError(problems or [FileProblem(path, "is not a policy")])
    return policy


def placed_causes(causes: Iterable[Cause], text: str, path: str) -> list[Cause]:
    """The causes of a refusal, each that says where with its line and column in the policy's text;
    ``path`` is what errors call it.
    """
    document = read_document(text, path)
    placed = []
    for cause in causes:
        if cause.where:
            line, column = document.place(cause.where)
            placed.append(replace(cause, path=path, line=line, column=column))
        else:
            placed.append(cause)
    return placed


def digest(policy: Policy) -> str:
    """SHA-256 over the canonical JSON of a policy: independent of comments, order of keys and
    formatting.
    """
    return hashlib.sha256(canonical(policy).encode()).hexdigest()


def canonical(policy: Policy) -> str:
    """The policy as JSON with sorted keys and no spaces, defaults written out."""
    content = policy.model_dump(mode="json", by_alias=True)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _placed_fault(document: Document, finding: ShapeError) -> Fault:
    """A fault with its position in the file; the message begins with the path."""
    where = dotted_path(finding.steps[:-1] if finding.of_key else finding.steps)
    link = " "
    if finding.of_key:
        link = ": "
    elif finding.message.startswith(":"):
        link = ""
    message = f"{where}{link}{finding.message}"
    if not where:
        message = finding.message.lstrip(": ")
    place = document.place(finding.steps, of_key=finding.of_key)
    return Fault(place, message, finding.hint)


_PACKAGE: Final = Path(__file__).resolve().parent.parent


def shipped(kind: Literal["policies", "schemas", "examples"]) -> Path:
    """The folder that holds what is shipped.

    In a wheel it lies inside the package, in a checkout at the root of the repository.
    """
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent.parent / kind


SCHEMA_FILE: Final = "privacy-policy-v1.json"


def schema_text() -> str:
    """The JSON Schema of the policy language: for editors and for checks elsewhere. It knows the
    language's shape; the engine alone judges meaning.
    """
    return (shipped("schemas") / SCHEMA_FILE).read_text("utf-8")


def list_policies() -> list[str]:
    """Names of the shipped policies, in alphabetical order."""
    return sorted(path.stem for path in shipped("policies").glob("*.yaml"))


def list_templates() -> list[str]:
    """Names of the templates, one a sector, in alphabetical order: policies with open questions."""
    return sorted(path.stem for path in (shipped("policies") / "templates").glob("*.yaml"))


def template_text(name: str) -> str:
    """A template by its name, as it stands in its file."""
    return (shipped("policies") / "templates" / f"{name}.yaml").read_text("utf-8")


def resolve_policy(name_or_path: str | Path) -> Path:
    """Where a policy lies: a path that exists, or a plain word that is a shipped policy's name."""
    path = Path(name_or_path)
    name = str(name_or_path)
    looks_like_a_name = not path.suffix and path.name == name
    # A file that exists comes before a shipped policy of the same name.
    if looks_like_a_name and not path.exists():
        return shipped_path(name)
    return path


def shipped_path(name: str) -> Path:
    """Where the shipped policy of this name lies; raises PolicyError where there is none."""
    known = list_policies()
    if name not in known:
        message = f"no policy of this name is shipped{did_you_mean(name, known)}"
        hint = "'cloakwork policy list' shows them"
        raise PolicyError([FileProblem(name, message, hint=hint)])
    return shipped("policies") / f"{name}.yaml"
