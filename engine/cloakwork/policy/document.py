"""From the bytes of a policy file to plain values, each with its path and its place in the file,
and how errors show them.

YAML is read narrowly: one document, no duplicate keys, no custom tags, few aliases, bounded depth
and size, the scalar types of YAML 1.2: there ``1e-6`` is a number and ``1.0.0`` is text. Words that
YAML 1.1 reads as truth values (``no``, ``on``) are refused, because readers of the file would
disagree about them.
"""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from cloakwork.base.errors import FileProblem, PolicyError
from cloakwork.base.frozen import frozen

MOST_COMPARED: Final = 200  # words; a suggestion out of more would be luck

Step = str | int
Steps = tuple[Step, ...]


class SourcePosition(NamedTuple):
    """Line and column, from 1."""

    line: int
    column: int


@frozen
class Fault:
    """One fault at one place of the document; ``steps`` is the dotted path as a tuple, empty for
    the whole document.
    """

    place: SourcePosition
    message: str
    hint: str | None = None


@frozen
class Document:
    """A policy's values, and where each of them stands.

    ``values`` and ``keys`` map a path to the place of the value and of the key that leads to it.
    """

    content: dict[str, Any]
    values: dict[Steps, SourcePosition] = field(repr=False)
    keys: dict[Steps, SourcePosition] = field(repr=False)
    faults: tuple[Fault, ...] = ()

    def place(self, steps: Steps, *, of_key: bool = False) -> SourcePosition:
        """Where a value (or its key) stands; for a value that is absent, where its nearest parent
        stands.
        """
        if of_key and steps in self.keys:
            return self.keys[steps]
        # The whole document has the empty path, so this ends.
        while steps not in self.values:
            steps = steps[:-1]
        return self.values[steps]


class RefusedValue(str):
    """Stands for a value that was refused already, so that nothing else is said about it."""

    __slots__ = ()


def dotted_path(steps: Steps) -> str:
    """Write a path for people.

    >>> dotted_path(("spec", "guarantees", 0, "k"))
    'spec.guarantees[0].k'
    >>> dotted_path(("spec", "attributes", "case:age", "bins"))
    "spec.attributes['case:age'].bins"
    """
    text = ""
    for step in steps:
        if isinstance(step, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown_value(step)}]"
    return text


def shown_value(value: object) -> str:
    """A value as it may stand in an error of one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    # Escaped, so that a hostile value can neither forge a line nor steer a terminal.
    if isinstance(value, str) and not value.isprintable():
        text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
            return shown_value(value)


@frozen
class ShapeError:
    """One thing to say about the value (or the key) at a path; the message follows the path in the
    sentence.
    """

    steps: Steps
    message: str
    hint: str | None = None
    of_key: bool = False


def closest_word(word: object, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was probably meant to be, if any is close enough.

    >>> closest_word("epsilom", ["epsilon", "delta"])
    'epsilon'
    """
    text = str(word)
    names = sorted(islice(known, MOST_COMPARED))
    # One slip is allowed for every three letters, and one in any case.
    most = max(1, len(text) // 3)
    distance = DamerauLevenshtein.distance
    found = process.extractOne(text, names, scorer=distance, processor=str.lower, score_cutoff=most)
    if found:
        return str(found[0])
    # Else a word that was cut short or written on, such as eps for epsilon.
    grown = [
        name for name in names if min(len(text), len(name)) > 2 and (text in name or name in text)
    ]
    return grown[0] if grown else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A question to append to a message; empty when nothing known is close."""
    guess = closest_word(word, known)
    return f", did you mean '{guess}'?" if guess else ""


def value_at(content: Any, steps: Steps) -> Any:
    """The value at a path, None where there is none."""
    for step in steps:
        try:
            content = content[step]
        except (KeyError, IndexError, TypeError):
            return None
    return content


DEEPEST: Final = 40  # levels of nesting
MOST_VALUES: Final = 100_000  # keys, values, lists and mappings, all together

CORE_TAG = "tag:yaml.org,2002:"
SCALARS = {
    "null": re.compile(r"^(~|null|Null|NULL|)$"),
    "bool": re.compile(r"^(true|True|TRUE|false|False|FALSE)$"),
    # Truth values in YAML 1.1, text in YAML 1.2.
    "word": re.compile(r"^(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$"),
    "int": re.compile(r"^[-+]?(0|[1-9][0-9]*)$"),
    "float": re.compile(
        r"^([-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
}


class UnreadableText(Exception):
    """The text cannot be read as one bounded YAML document."""

    def __init__(self, message: str, place: SourcePosition) -> None:
        self.message = message
        self.place = place


class _BoundedLoader(yaml.SafeLoader):
    """Composes nodes with the scalar types of YAML 1.2, to a bounded depth; constructs nothing."""

    # Not those of YAML 1.1, which SafeLoader has; the ones of YAML 1.2 are added below.
    yaml_implicit_resolvers: dict[Any, Any] = {}
    depth = 0
    values = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        # While the text is read, before a hostile one exhausts the memory or the stack.
        self.depth += 1
        self.values += 1
        if self.depth > DEEPEST:
            raise self._too_much(f"is nested more than {DEEPEST} levels deep")
        if self.values > MOST_VALUES:
            raise self._too_much(f"holds more than {MOST_VALUES:,} keys and values")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _too_much(self, message: str) -> UnreadableText:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return UnreadableText(message, SourcePosition(mark.line + 1, mark.column + 1))


# YAML tries a pattern where the text begins with one of these characters ("": where it is empty).
for _kind, _pattern in SCALARS.items():
    _BoundedLoader.add_implicit_resolver(
        CORE_TAG + _kind, _pattern, ["", *"~nNtTfFyYoO-+.0123456789"]
    )


KEPT_LENGTH: Final = 20_000  # characters


def compose_yaml(text: str) -> Node | None:
    """The root of a document, None where it is empty; raises UnreadableText. Nobody changes it:
    the next who reads the same text gets the same nodes.
    """
    # A command reads a policy several times; the nodes of a hostile text would fill the memory.
    return _composed_once(text) if len(text) <= KEPT_LENGTH else _composed(text)


def _composed(text: str) -> Node | None:
    try:
        loader = _BoundedLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = SourcePosition(mark.line + 1, mark.column + 1) if mark else SourcePosition(1, 1)
        raise UnreadableText(_yaml_message(error), place) from None
    except yaml.reader.ReaderError as error:
        # This error knows an offset alone; line and column are counted here.
        position = int(error.position)
        line_start = text.rfind("\n", 0, position) + 1
        line = text.count("\n", 0, position) + 1
        place = SourcePosition(line, position - line_start + 1)
        message = f"holds the control character {text[position]!a}"
        raise UnreadableText(message, place) from None
    # ValueError, OverflowError: an escape such as "\UFFFFFFFF" stands for no character.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        complaint = " ".join(str(error).split())
        raise UnreadableText(
            f"is not readable as YAML: {complaint}", SourcePosition(1, 1)
        ) from None


_composed_once = lru_cache(maxsize=16)(_composed)


def _yaml_message(error: yaml.MarkedYAMLError) -> str:
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
    if "expected <block end>, but found '<block" in problem:
        return "is not readable as YAML: this line is not indented like those it stands among"
    context = f" {error.context}" if error.context else ""
    return f"is not readable as YAML: {problem}{context}"


def start_of(node: Node) -> SourcePosition:
    """Where a node begins in its file."""
    return SourcePosition(node.start_mark.line + 1, node.start_mark.column + 1)


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
            # One byte more than is allowed shows that a file is too large, without reading it all.
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
        # Columns count characters, not bytes.
        column = len(before.rsplit(b"\n", 1)[-1].decode("utf-8", "replace")) + 1
        byte = f"0x{error.object[error.start]:02x}"
        raise PolicyError(
            [FileProblem(path, f"is not UTF-8 text (byte {byte}); save it as UTF-8", line, column)]
        ) from None


def _unreadable_file(path: Path, message: str) -> PolicyError:
    return PolicyError([FileProblem(str(path), message)])


def read_document(text: str, path: str, *, is_policy: bool = True) -> Document:
    """Read YAML text; raises PolicyError when nothing sensible can be read, otherwise collects
    faults in the Document. ``is_policy``: whether it must have the parts of one.
    """
    # Checked here as well, for not every text comes from a file.
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE:
        raise PolicyError([FileProblem(path, "is larger than 1 MiB; a policy is a short document")])
    # Before parsing, for such a mark may stand in a comment, which the parser drops.
    if (turned := _TURNING.search(text)) is not None:
        start = turned.start()
        code = ascii(text[start])[1:-1]
        message = f"holds {code}, which turns the direction of what is shown"
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        hint = f'remove it; in a value write "{code}" in double quotes'
        raise PolicyError([FileProblem(path, message, line, column, hint)])
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
    if not isinstance(content, dict) or (is_policy and not content.keys() & _PARTS):
        # What is no policy may be a log: nothing of it is shown.
        is_shape = isinstance(content, dict | list)
        found = kind_of(content) if is_shape else "a text"
        expected = f"must be a mapping with apiVersion, kind, metadata and spec (got {found})"
        # A fault of the root itself, such as a foreign tag, says more than its shape.
        message = reader.faults[0].message if reader.faults else expected
        raise PolicyError([FileProblem(path, message, *start_of(root))])
    return Document(content, reader.values, reader.keys, tuple(reader.faults))


_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
"""The keys of a policy, of which it has one at least."""


class _DocumentReader:
    """Turns nodes into values, noting every place and every fault."""

    def __init__(self) -> None:
        self.values: dict[Steps, SourcePosition] = {}
        self.keys: dict[Steps, SourcePosition] = {}
        self.faults: list[Fault] = []
        # Nodes by identity: those that were read, those being read, and how many came again.
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
        # An alias is the very node of its anchor; inside itself it is a cycle.
        if id(node) in self._open:
            raise UnreadableText("an anchor refers to itself", start_of(node))
        # Each alias repeats all that is below it, so nested ones grow exponentially.
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
        # An escape such as "\ud800" makes one, and no UTF-8 can hold it.
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._note_fault(
                node, f"{dotted_path(steps)} holds half a character (a lone surrogate)"
            )
            return text.encode("ascii", "replace").decode()
        return text

    def _checked_number(self, node: ScalarNode, kind: str, steps: Steps) -> Any:
        text = str(node.value)
        # An n stands in .inf and .nan alone, both of which are refused below.
        number = math.nan if "n" in text.lower() else float(text)
        # Before int(), which takes quadratic time on long texts.
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
        where = f"{dotted_path(steps)} has" if steps else "the document has"
        self._note_fault(
            node, f"{where} the tag {shown_value(node.tag)}; a policy holds plain values only"
        )
        return RefusedValue("")

    def _note_fault(self, node: Node, message: str, hint: str | None = None) -> None:
        self.faults.append(Fault(start_of(node), message, hint))


LONGEST_LINE: Final = 1_000_000
"""Characters; longer than any text of a policy, so that none is folded."""


def in_quotes(text: str) -> str:
    """``text`` so that YAML reads it as itself, whatever characters it holds, on one line.

    >>> print(in_quotes('a "name": #1'))
    "a \\"name\\": #1"
    >>> print(in_quotes("Gebühr €"), in_quotes("turned\\u202e"))
    "Gebühr €" "turned\\u202E"
    """
    # What is not printable (control characters, marks that turn the direction) stays escaped.
    is_plain = text.isprintable()
    quoted = yaml.safe_dump(text, default_style='"', width=LONGEST_LINE, allow_unicode=is_plain)
    return str(quoted).strip()


def with_values(text: str, changed: Mapping[Steps, str | Mapping[str, str]], path: str) -> str:
    """The text with other values at some places, each as YAML writes it on one line, and new ones
    where a mapping lacks the last key; in place of a pair, other pairs. Comments, order and all
    else stay as they are.

    Raises PolicyError where that would change anything else: below an alias, for instance.
    """
    before = read_document(text, path)
    wanted = deepcopy(before.content)
    root = compose_yaml(text)
    edits: dict[tuple[int, int], str] = {}
    fixed: list[Steps] = []
    for steps, value in changed.items():
        *above, key = steps
        parent = node_at(root, above)
        own = node_at(parent, [key])
        pairs = value if isinstance(value, Mapping) else {str(key): value}
        if isinstance(parent, MappingNode) and parent.value:
            mark = parent.value[0][0].start_mark
            ends = ", " if parent.flow_style else "\n" + " " * mark.column
            written = ends.join(f"{name}: {said}" for name, said in pairs.items())
            # A new key stands first, so that the comment behind the last one stays where it is.
            if own is None:
                place = (mark.index, mark.index)
                edits[place] = edits.get(place, "") + written + ends
            elif isinstance(own, CollectionNode) and not own.flow_style:
                fixed.append(steps)
            else:
                start = own.start_mark.index
                stop = own.end_mark.index
                if isinstance(value, str):
                    edits[start, stop] = value if stop > start else f" {value}"
                else:
                    start = next(
                        name.start_mark.index for name, held in parent.value if held is own
                    )
                    edits[start, stop] = written
        if isinstance(rule := value_at(wanted, tuple(above)), dict):
            if not isinstance(value, str):
                del rule[key]
            for name, said in pairs.items():
                if node := compose_yaml(said):
                    rule[name] = _DocumentReader().read(node, ())
    made = text
    for start, stop in sorted(edits, reverse=True):
        made = made[:start] + edits[start, stop] + made[stop:]
    # What is written is read again: nothing but these values may differ.
    with suppress(PolicyError):
        if read_document(made, path).content == wanted and edits:
            return made
    steps = (fixed or [*changed])[0]
    message = f"{dotted_path(steps)} is written so that only its text can be changed"
    raise PolicyError([FileProblem(path, message, *before.place(steps))])


def node_at(node: Node | None, steps: Iterable[Step]) -> Node | None:
    """The node at a path below ``node``; None where there is none."""
    for step in steps:
        pairs: Iterable[tuple[Step, Node]] = entries_of(node)
        if isinstance(node, SequenceNode):
            pairs = enumerate(node.value)
        node = dict(pairs).get(step)
    return node


def entries_of(node: Node | None) -> list[tuple[str, Node]]:
    """The keys of a mapping that are texts, and their nodes; none where it is no mapping."""
    pairs = node.value if isinstance(node, MappingNode) else []
    return [(key.value, value) for key, value in pairs if isinstance(key.value, str)]
