"""From YAML text to its nodes, of bounded depth, with the scalar types of YAML 1.2.

In YAML 1.2 ``1e-6`` is a number and ``1.0.0`` is text. Words that YAML 1.1 reads as truth values
(``no``, ``on``) have a type of their own, ``word``, so that whoever reads the nodes can refuse
them.
"""

import re
from typing import Any, Final

import yaml
from yaml.nodes import Node

from cloakwork.policy.document import SourcePosition

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
        self.message, self.place = message, place


class _BoundedLoader(yaml.SafeLoader):
    """Composes nodes with the scalar types of YAML 1.2, to a bounded depth; constructs nothing."""

    yaml_implicit_resolvers: dict[Any, Any] = {}
    depth = 0
    values = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
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


def compose_yaml(text: str) -> Node | None:
    """The root of a document, None where it is empty; raises UnreadableText."""
    try:
        loader = _BoundedLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise UnreadableText(_yaml_message(error), _error_position(error)) from None
    except yaml.reader.ReaderError as error:
        position = int(error.position)
        line_start = text.rfind("\n", 0, position) + 1
        line = text.count("\n", 0, position) + 1
        place = SourcePosition(line, position - line_start + 1)
        message = f"holds the control character {text[position]!a}"
        raise UnreadableText(message, place) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        complaint = " ".join(str(error).split())
        raise UnreadableText(
            f"is not readable as YAML: {complaint}", SourcePosition(1, 1)
        ) from None


def _error_position(error: yaml.MarkedYAMLError) -> SourcePosition:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return SourcePosition(1, 1)
    return SourcePosition(mark.line + 1, mark.column + 1)


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
    context = f" {error.context}" if error.context else ""
    return f"is not readable as YAML: {problem}{context}"


def start_of(node: Node) -> SourcePosition:
    """Where a node begins in its file."""
    return SourcePosition(node.start_mark.line + 1, node.start_mark.column + 1)
