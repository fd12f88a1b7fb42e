"""From the bytes of a policy file to plain values, each with its place in the file.

YAML is read narrowly: one document, no duplicate keys, no custom tags, few aliases, bounded depth
and size, the scalar types of YAML 1.2 (so ``1e-6`` is a number and ``1.0.0`` is text). Words that
YAML 1.1 reads as truth values (``no``, ``on``) are refused, because readers of the file would
disagree about them.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from cloakwork.errors import FileProblem, PolicyError

LARGEST_FILE: Final = 1 << 20  # bytes
DEEPEST: Final = 40  # levels of nesting
MOST_REPEATED: Final = 10_000  # values that aliases may repeat, all together
LONGEST_NUMBER: Final = 40  # characters

Step = str | int
Steps = tuple[Step, ...]


class Place(NamedTuple):
    """Line and column, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at one place of the document; ``steps`` is the dotted path as a tuple, empty for
    the whole document.
    """

    place: Place
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A policy's values, and where each of them stands.

    ``values`` and ``keys`` map a path to the place of the value and of the key that leads to it.
    """

    content: dict[str, Any]
    values: dict[Steps, Place] = field(repr=False)
    keys: dict[Steps, Place] = field(repr=False)
    faults: tuple[Fault, ...] = ()

    def place(self, steps: Steps, *, of_key: bool = False) -> Place:
        """Where a value (or its key) stands; for a value that is absent, where its nearest parent
        stands.
        """
        if of_key and steps in self.keys:
            return self.keys[steps]
        while steps not in self.values:
            steps = steps[:-1]
        return self.values[steps]


def dotted(steps: Steps) -> str:
    """Write a path for people.

    >>> dotted(("spec", "guarantees", 0, "k"))
    'spec.guarantees[0].k'
    >>> dotted(("spec", "attributes", "case:age", "bins"))
    "spec.attributes['case:age'].bins"
    """
    text = ""
    for step in steps:
        if isinstance(step, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def shown(value: object, width: int = 60) -> str:
    """A value as it may stand in an error of one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def read_text(path: Path) -> str:
    """Read a policy file; raises PolicyError when it is missing, too large or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise _refusal(path, "no such file") from None
    except IsADirectoryError:
        raise _refusal(path, "is a folder, not a policy file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refusal(path, f"cannot be read: {reason}") from None
    if len(data) > LARGEST_FILE:
        raise _refusal(path, "is larger than 1 MiB; a policy is a short document")
    return decode(data, str(path))


def decode(data: bytes, path: str) -> str:
    """Decode UTF-8, with or without a byte-order mark; raises PolicyError at the first bad byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rsplit(b"\n", 1)[-1].decode("utf-8", "replace")) + 1
        byte = f"0x{error.object[error.start]:02x}"
        raise PolicyError(
            [FileProblem(path, f"is not UTF-8 text (byte {byte})", line, column)]
        ) from None


def _refusal(path: Path, message: str) -> PolicyError:
    return PolicyError([FileProblem(str(path), message)])


def read_document(text: str, path: str) -> Document:
    """Read YAML text; raises PolicyError when nothing sensible can be read, otherwise collects
    faults in the Document.
    """
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE:
        raise PolicyError([FileProblem(path, "is larger than 1 MiB; a policy is a short document")])
    try:
        root = _compose(text)
        reader = _Reader()
        content: Any = reader.read(root, ()) if root is not None else None
    except _Unreadable as error:
        raise PolicyError([FileProblem(path, error.message, *error.place)]) from None
    if root is None:
        raise PolicyError(
            [FileProblem(path, "is empty; 'cloakwork policy init' writes a starter", 1, 1)]
        )
    if not isinstance(content, dict):
        expected = (
            f"must be a mapping with apiVersion, kind, metadata and spec (got {kind_of(content)})"
        )
        message = reader.faults[0].message if reader.faults else expected
        raise PolicyError([FileProblem(path, message, *_start(root))])
    return Document(content, reader.values, reader.keys, tuple(reader.faults))


def kind_of(value: object) -> str:
    """What a value is, in plain words."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return shown(value)


class _Unreadable(Exception):
    """The text cannot be read as one bounded YAML document."""

    def __init__(self, message: str, place: Place) -> None:
        self.message, self.place = message, place


def _start(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


class _Loader(yaml.SafeLoader):
    """Composes nodes with the scalar types of YAML 1.2, to a bounded depth; constructs nothing."""

    yaml_implicit_resolvers: dict[Any, Any] = {}
    depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self.depth += 1
        if self.depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _Unreadable(
                f"is nested more than {DEEPEST} levels deep", Place(mark.line + 1, mark.column + 1)
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_CORE = "tag:yaml.org,2002:"
_SCALARS = {
    "null": re.compile(r"^(~|null|Null|NULL|)$"),
    "bool": re.compile(r"^(true|True|TRUE|false|False|FALSE)$"),
    "word": re.compile(
        r"^(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$"
    ),  # truth in YAML 1.1, text in YAML 1.2
    "int": re.compile(r"^[-+]?(0|[1-9][0-9]*)$"),
    "float": re.compile(
        r"^([-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
}
for _kind, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_CORE + _kind, _pattern, ["", *"~nNtTfFyYoO-+.0123456789"])


def _compose(text: str) -> Node | None:
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _Unreadable(_plain(error), _marked(error)) from None
    except yaml.reader.ReaderError as error:
        before = text[: int(error.position)]
        place = Place(before.count("\n") + 1, len(before.rsplit("\n", 1)[-1]) + 1)
        raise _Unreadable(
            f"holds the control character {text[int(error.position)]!a}", place
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        complaint = " ".join(str(error).split())
        raise _Unreadable(f"is not readable as YAML: {complaint}", Place(1, 1)) from None


def _marked(error: yaml.MarkedYAMLError) -> Place:
    mark = error.problem_mark or error.context_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)


def _plain(error: yaml.MarkedYAMLError) -> str:
    """The YAML reader's complaint in plain words."""
    problem = error.problem or "syntax error"
    if "'\\t'" in problem:
        return "a tab stands here; YAML indents with spaces"
    if "but found another document" in problem:
        return "holds several documents; a policy file holds one"
    if "found undefined alias" in problem:
        return "refers to an anchor that is not defined before this line"
    if "mapping values are not allowed here" in problem:
        return (
            "a colon stands where none can; check the indentation, and quote text that holds ': '"
        )
    context = f" {error.context}" if error.context else ""
    return f"is not readable as YAML: {problem}{context}"


class _Reader:
    """Turns nodes into values, noting every place and every fault."""

    def __init__(self) -> None:
        self.values: dict[Steps, Place] = {}
        self.keys: dict[Steps, Place] = {}
        self.faults: list[Fault] = []
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._repeated = 0

    def read(self, node: Node, steps: Steps) -> Any:
        """The value of a node; cycles and explosions of aliases are refused at once."""
        self._count(node)
        self.values.setdefault(steps, _start(node))
        self._open.add(id(node))
        try:
            if isinstance(node, ScalarNode):
                return self._scalar(node, steps)
            if node.tag not in (_CORE + "map", _CORE + "seq"):
                return self._strange(node, steps)
            if isinstance(node, MappingNode):
                return self._mapping(node, steps)
            return [self.read(item, (*steps, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _count(self, node: Node) -> None:
        if id(node) in self._open:
            raise _Unreadable("an anchor refers to itself", _start(node))
        if id(node) in self._seen:
            self._repeated += 1
            if self._repeated > MOST_REPEATED:
                raise _Unreadable(f"aliases repeat more than {MOST_REPEATED} values", _start(node))
        self._seen.add(id(node))

    def _mapping(self, node: MappingNode, steps: Steps) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, steps)
            if key is None:
                continue
            below = (*steps, key)
            if key in result:
                first = self.keys[below].line
                self._fault(key_node, f"{dotted(below)} is given twice, first on line {first}")
                continue
            self.keys[below] = _start(key_node)
            result[key] = self.read(value_node, below)
        return result

    def _key(self, node: Node, steps: Steps) -> str | None:
        self._count(node)
        where = dotted(steps) or "the document"
        if not isinstance(node, ScalarNode):
            self._fault(node, f"{where} has a key that is not text")
            return None
        if node.tag == _CORE + "str" and node.value == "<<" and node.style is None:
            self._fault(
                node, "merge keys (<<) are not part of the policy language; write the keys out"
            )
            return None
        if node.tag != _CORE + "str":
            written = shown(node.value)
            self._fault(
                node,
                f"{where} has the key {written}, which YAML does not read as text; put it in quotes",
            )
            return None
        return self._text(node, steps)

    def _scalar(self, node: ScalarNode, steps: Steps) -> Any:
        kind = node.tag.removeprefix(_CORE)
        if kind in _SCALARS and not _SCALARS[kind].match(node.value):
            kind = "other"  # an explicit tag that its text does not bear out
        match kind:
            case "str":
                return self._text(node, steps)
            case "null":
                return None
            case "bool":
                return node.value.lower() == "true"
            case "word":
                truth = "true" if node.value.lower() in ("yes", "on") else "false"
                message = f"{dotted(steps)} is ambiguous: many readers of YAML take {node.value} for {truth}"
                self._fault(
                    node, message, f"write {truth}, or '{node.value}' in quotes for the word"
                )
                return Unsure(node.value)
            case "int" | "float":
                return self._number(node, kind, steps)
            case _:
                return self._strange(node, steps)

    def _text(self, node: ScalarNode, steps: Steps) -> str:
        text = str(node.value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._fault(node, f"{dotted(steps)} holds half a character (a lone surrogate)")
            return text.encode("ascii", "replace").decode()
        return text

    def _number(self, node: ScalarNode, kind: str, steps: Steps) -> Any:
        text = str(node.value)
        number = math.nan if "n" in text.lower() else float(text)
        if len(text) > LONGEST_NUMBER:
            self._fault(
                node,
                f"{dotted(steps)} has more than {LONGEST_NUMBER} characters, too many for a number",
            )
        elif not math.isfinite(number):
            self._fault(node, f"{dotted(steps)} must be a finite number (got {text})")
        else:
            return int(text) if kind == "int" else number
        return Unsure(text)

    def _strange(self, node: Node, steps: Steps) -> Any:
        """A value whose tag is none of YAML's own."""
        where = f"{dotted(steps)} has" if steps else "the document has"
        self._fault(node, f"{where} the tag {shown(node.tag)}; a policy holds plain values only")
        return Unsure("")

    def _fault(self, node: Node, message: str, hint: str | None = None) -> None:
        self.faults.append(Fault(_start(node), message, hint))


class Unsure(str):
    """Stands for a value that was refused already, so that nothing else is said about it."""

    __slots__ = ()


def walk(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Every value of a document with its path, parents first."""
    yield steps, value
    if isinstance(value, dict):
        for key, below in value.items():
            yield from walk(below, (*steps, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from walk(below, (*steps, index))
