"""A policy file as plain values: each with its path and its place in the file, and how errors
show it.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Step = str | int
Steps = tuple[Step, ...]


class SourcePosition(NamedTuple):
    """Line and column, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at one place of the document; ``steps`` is the dotted path as a tuple, empty for
    the whole document.
    """

    place: SourcePosition
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
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


def shown_value(value: object, width: int = 60) -> str:
    """A value as it may stand in an error of one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    if isinstance(value, str) and not value.isprintable():
        text = ascii(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


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
