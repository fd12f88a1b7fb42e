"""From the bytes of a policy file to plain values, each with its place in the file.

YAML is read narrowly: one document, no duplicate keys, no custom tags, few aliases, bounded depth
and size, the scalar types of YAML 1.2. Words that YAML 1.1 reads as truth values are refused,
because readers of the file would disagree about them.
"""

import math
import re
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode

from cloakwork.base.errors import FileProblem, PolicyError
from cloakwork.policy.document import (
    Document,
    Fault,
    RefusedValue,
    SourcePosition,
    Steps,
    dotted_path,
    kind_of,
    shown_value,
)
from cloakwork.policy.yaml_nodes import CORE_TAG, SCALARS, UnreadableText, compose_yaml, start_of

_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Marks that make a text look otherwise than it is read, also in comments: see "Trojan Source:
Invisible Vulnerabilities" (Boucher, Anderson, 2021).
"""

LARGEST_FILE: Final = 1 << 20  # bytes
MOST_REPEATED: Final = 10_000  # values that aliases may repeat, all together
LONGEST_NUMBER: Final = 40  # characters


def read_text(path: Path) -> str:
    """Read a policy file; raises PolicyError when it is missing, too large or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise _unreadable_file(path, "no such file") from None
    except IsADirectoryError:
        raise _unreadable_file(path, "is a folder, not a policy file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable_file(path, f"cannot be read: {reason}") from None
    if len(data) > LARGEST_FILE:
        raise _unreadable_file(path, "is larger than 1 MiB; a policy is a short document")
    return decode_text(data, str(path))


def decode_text(data: bytes, path: str) -> str:
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


def _unreadable_file(path: Path, message: str) -> PolicyError:
    return PolicyError([FileProblem(str(path), message)])


def read_document(text: str, path: str) -> Document:
    """Read YAML text; raises PolicyError when nothing sensible can be read, otherwise collects
    faults in the Document.
    """
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE:
        raise PolicyError([FileProblem(path, "is larger than 1 MiB; a policy is a short document")])
    if (turned := _TURNING.search(text)) is not None:
        raise PolicyError([_turning_mark(text, turned.start(), path)])
    try:
        root = compose_yaml(text)
        reader = _DocumentReader()
        content: Any = reader.read(root, ()) if root is not None else None
    except UnreadableText as error:
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
        raise PolicyError([FileProblem(path, message, *start_of(root))])
    return Document(content, reader.values, reader.keys, tuple(reader.faults))


def _turning_mark(text: str, place: int, path: str) -> FileProblem:
    code = ascii(text[place])[1:-1]
    return FileProblem(
        path,
        f"holds {code}, which turns the direction of what is shown",
        text.count("\n", 0, place) + 1,
        place - text.rfind("\n", 0, place),
        f'remove it; in a value write "{code}" in double quotes',
    )


class _DocumentReader:
    """Turns nodes into values, noting every place and every fault."""

    def __init__(self) -> None:
        self.values: dict[Steps, SourcePosition] = {}
        self.keys: dict[Steps, SourcePosition] = {}
        self.faults: list[Fault] = []
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._repeated = 0

    def read(self, node: Node, steps: Steps) -> Any:
        """The value of a node; cycles and explosions of aliases are refused at once."""
        self._refuse_endless_aliases(node)
        self.values.setdefault(steps, start_of(node))
        self._open.add(id(node))
        try:
            if isinstance(node, ScalarNode):
                return self._read_scalar(node, steps)
            if node.tag not in (CORE_TAG + "map", CORE_TAG + "seq"):
                return self._refuse_foreign_tag(node, steps)
            if isinstance(node, MappingNode):
                return self._read_mapping(node, steps)
            return [self.read(item, (*steps, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _refuse_endless_aliases(self, node: Node) -> None:
        if id(node) in self._open:
            raise UnreadableText("an anchor refers to itself", start_of(node))
        if id(node) in self._seen:
            self._repeated += 1
            if self._repeated > MOST_REPEATED:
                raise UnreadableText(
                    f"aliases repeat more than {MOST_REPEATED} values", start_of(node)
                )
        self._seen.add(id(node))

    def _read_mapping(self, node: MappingNode, steps: Steps) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._read_key(key_node, steps)
            if key is None:
                continue
            below = (*steps, key)
            if key in result:
                first = self.keys[below].line
                self._note_fault(
                    key_node, f"{dotted_path(below)} is given twice, first on line {first}"
                )
                continue
            self.keys[below] = start_of(key_node)
            result[key] = self.read(value_node, below)
        return result

    def _read_key(self, node: Node, steps: Steps) -> str | None:
        self._refuse_endless_aliases(node)
        where = dotted_path(steps) or "the document"
        if not isinstance(node, ScalarNode):
            self._note_fault(node, f"{where} has a key that is not text")
            return None
        if node.tag == CORE_TAG + "str" and node.value == "<<" and node.style is None:
            self._note_fault(
                node, "merge keys (<<) are not part of the policy language; write the keys out"
            )
            return None
        if node.tag != CORE_TAG + "str":
            written = shown_value(node.value)
            self._note_fault(
                node,
                (
                    f"{where} has the key {written}, "
                    "which YAML does not read as text; put it in quotes"
                ),
            )
            return None
        return self._checked_text(node, steps)

    def _read_scalar(self, node: ScalarNode, steps: Steps) -> Any:
        kind = node.tag.removeprefix(CORE_TAG)
        if kind in SCALARS and not SCALARS[kind].match(node.value):
            kind = "other"  # an explicit tag that does not fit its text
        match kind:
            case "str":
                return self._checked_text(node, steps)
            case "null":
                return None
            case "bool":
                return node.value.lower() == "true"
            case "word":
                truth = "true" if node.value.lower() in ("yes", "on") else "false"
                message = (
                    f"{dotted_path(steps)} is ambiguous: "
                    f"many readers of YAML take {node.value} for {truth}"
                )
                self._note_fault(
                    node, message, f"write {truth}, or '{node.value}' in quotes for the word"
                )
                return RefusedValue(node.value)
            case "int" | "float":
                return self._checked_number(node, kind, steps)
            case _:
                return self._refuse_foreign_tag(node, steps)

    def _checked_text(self, node: ScalarNode, steps: Steps) -> str:
        text = str(node.value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._note_fault(
                node, f"{dotted_path(steps)} holds half a character (a lone surrogate)"
            )
            return text.encode("ascii", "replace").decode()
        return text

    def _checked_number(self, node: ScalarNode, kind: str, steps: Steps) -> Any:
        text = str(node.value)
        number = math.nan if "n" in text.lower() else float(text)
        if len(text) > LONGEST_NUMBER:
            self._note_fault(
                node,
                (
                    f"{dotted_path(steps)} has more than {LONGEST_NUMBER} characters, "
                    "too many for a number"
                ),
            )
        elif not math.isfinite(number):
            self._note_fault(node, f"{dotted_path(steps)} must be a finite number (got {text})")
        else:
            return int(text) if kind == "int" else number
        return RefusedValue(text)

    def _refuse_foreign_tag(self, node: Node, steps: Steps) -> Any:
        """A value whose tag is none of YAML's own."""
        where = f"{dotted_path(steps)} has" if steps else "the document has"
        self._note_fault(
            node, f"{where} the tag {shown_value(node.tag)}; a policy holds plain values only"
        )
        return RefusedValue("")

    def _note_fault(self, node: Node, message: str, hint: str | None = None) -> None:
        self.faults.append(Fault(start_of(node), message, hint))
