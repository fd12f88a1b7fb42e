"""The markup of a plain XES log: each distinct piece, understood once by a strict grammar."""

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cloakwork.log.formats.column_layout import KIND_OF, Kind, Scope
from cloakwork.log.formats.columns import ColumnBuilder

_BLANK: Final = "[ \t\r\n]"
_TAG: Final = re.compile(f"<(/?)(trace|event){_BLANK}*(/?)>{_BLANK}*")
_AFTER_VALUE: Final = re.compile(f"{_BLANK}*/>{_BLANK}*")
_ATTRIBUTE: Final = re.compile(f"<({'|'.join(KIND_OF)}){_BLANK}+key=")
_END: Final = re.compile(f"</log{_BLANK}*>{_BLANK}*")
_REFERENCE: Final = re.compile("&(?:#([0-9]{1,9})|#x([0-9A-Fa-f]{1,8})|([a-z]{1,4}));")
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
KINDS: Final[tuple[Kind, ...]] = ("text", "int", "float", "boolean", "date")
SCOPES: Final[tuple[Scope, ...]] = ("trace", "event")
ANYWHERE: Final = -1
LOG: Final = 0
TRACE: Final = 1
EVENT: Final = 2
"""Where a reader is: inside the log, a trace or an event; or wherever it was before."""


class Declined(Exception):
    """This file is not of the plain kind; the full parser must read it."""


@dataclass(frozen=True, slots=True)
class Markup:
    """What one piece of markup between a value and the next key does.

    ``enters`` and ``leaves``: where the reader must be before it and is after it (``ANYWHERE``: as
    before); ``kind``: the index in ``KINDS`` of the attribute that it opens, -1 at the end of the
    log; ``traces``: how many traces it opens; ``events``: for each event that it opens, how many
    traces it opened before; ``tags``, ``controls``: how many ``<`` and how many control characters
    (all of them blanks) it holds.
    """

    enters: int
    leaves: int
    kind: int
    traces: int
    events: tuple[int, ...]
    tags: int
    controls: int


def parse_markup(text: str) -> Markup:
    """Understand one piece of markup. ``Declined`` when it is not exactly of the plain form."""
    position = _end_of_match(_AFTER_VALUE, text, 0)
    # Its first tag says where the reader must be before it; until then it may be anywhere.
    enters = place = ANYWHERE
    traces = 0
    events: list[int] = []
    while tag := _TAG.match(text, position):
        closing, element, alone = tag.groups()
        if closing and alone:
            raise Declined("a tag that both closes and is empty")
        inner, outer = (EVENT, TRACE) if element == "event" else (TRACE, LOG)
        before = inner if closing else outer
        if place not in {ANYWHERE, before}:
            raise Declined("tags that do not fit each other")
        if enters == ANYWHERE:
            enters = before
        place = outer if closing or alone else inner
        position = tag.end()
        if not closing and element == "event":
            events.append(traces)
        elif not closing:
            traces += 1
    kind = -1
    attribute = _ATTRIBUTE.match(text, position)
    if attribute:
        kind = KINDS.index(KIND_OF[attribute[1]])
        position = attribute.end()
    else:
        position = _end_of_match(_END, text, position)
    # The log ends inside no trace, and an attribute stands inside one.
    fits_place = place != LOG if kind >= 0 else place == LOG
    if position != len(text) or not fits_place:
        raise Declined("markup that is not of the plain form")
    return Markup(
        enters=enters,
        leaves=place,
        kind=kind,
        traces=traces,
        events=tuple(events),
        tags=text.count("<"),
        controls=sum(char < " " for char in text),
    )


def _end_of_match(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where the match of ``pattern`` at ``position`` ends. ``Declined`` without one."""
    found = pattern.match(text, position)
    if found is None:
        raise Declined("markup that is not of the plain form")
    return found.end()


class MarkupTable:
    """All distinct pieces of markup met so far, and their meaning as columns indexed by code."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.markups: list[Markup] = []

    def learn_markup(self, words: list[str]) -> None:
        """Add pieces of markup that were not met before; ``Declined`` where one is not plain."""
        self.markups += [parse_markup(word) for word in words]
        self.words += words
        self.enters = np.array([markup.enters for markup in self.markups], np.int8)
        self.leaves = np.array([markup.leaves for markup in self.markups], np.int8)
        self.kind = np.array([markup.kind for markup in self.markups], np.int8)
        self.traces = np.array([markup.traces for markup in self.markups], np.int64)
        self.events = np.array([len(markup.events) for markup in self.markups], np.int64)
        self.first_event = np.concatenate([[0], np.cumsum(self.events)])[:-1]
        self.event_traces = np.array(
            [before for markup in self.markups for before in markup.events], np.int64
        )
        self.tags = np.array([markup.tags for markup in self.markups], np.int64)
        self.controls = np.array([markup.controls for markup in self.markups], np.int64)


@dataclass
class KeyTable:
    """All distinct keys met so far; for each and each scope, whether it is read and the kind that
    is settled for it.
    """

    words: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def learn_keys(self, words: list[str], builder: ColumnBuilder) -> None:
        """Add keys that were not met before; ``Declined`` where one is empty."""
        self.words += words
        self.keys += [decode_references(word) for word in words]
        if "" in words:
            raise Declined("an empty key")
        # Two entries a key: for the trace, then for the event.
        scoped = [(scope, key) for key in self.keys for scope in SCOPES]
        is_kept = [builder.name_of(scope, key) is not None for scope, key in scoped]
        kinds = [self._settled_kind(builder, scope, key) for scope, key in scoped]
        self.is_kept = np.array(is_kept, np.bool_)
        self.kind = np.array(kinds, np.int64)
        self.reserved = np.array([key.startswith("case:") for key in self.keys], np.bool_)

    @staticmethod
    def _settled_kind(builder: ColumnBuilder, scope: Scope, key: str) -> int:
        """The index in ``KINDS`` of the kind that an attribute is read as whatever is declared; -1
        if none is.
        """
        name = builder.name_of(scope, key)
        if not name:
            return -1
        kinds = {builder.kind_of(name, kind) for kind in KINDS}
        return KINDS.index(kinds.pop()) if len(kinds) == 1 else -1


def decode_references(text: str) -> str:
    """Resolve character references and the five entities that XML predefines. ``Declined`` for any
    other.
    """
    if "&" not in text:
        return text
    if text.count("&") != len(_REFERENCE.findall(text)):
        raise Declined("an entity that XML does not predefine")
    return _REFERENCE.sub(_resolve_reference, text)


def _resolve_reference(reference: re.Match[str]) -> str:
    decimal, hexadecimal, name = reference.groups()
    if name:
        if name not in _NAMED:
            raise Declined("an entity that XML does not predefine")
        return _NAMED[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if not _is_character(code):
        raise Declined("a reference to no character")
    return chr(code)


def _is_character(code: int) -> bool:
    """Whether XML 1.0 (section 2.2, production Char) admits the code point."""
    if code in {9, 10, 13}:
        return True
    return 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
