"""The fast way to read XES: split at the quotes, understand each distinct stretch of markup once.

In a plain log, each attribute is written ``<type key="K" value="V"/>`` and double quotes occur
nowhere else. Split at the quotes, the file is a cycle of four: markup, ``K``, `` value=``, ``V``. A
log has millions of attributes, but only a few dozen distinct pieces of markup between them (``/>``,
``</event>``, ``<event>``, ``<string key=`` and blanks), so each is parsed once, by a strict
grammar, and the rest is arithmetic on whole columns.

Nothing is assumed. The grammar admits no comment, CDATA section, declaration, prefix, single quote
or nesting; every piece of markup must match it; opening and closing tags must fit; there must be no
``<`` and no control character outside the markup, and only well-formed UTF-8. Anything else raises
``Declined``, and the full parser reads the file.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.etree.ElementTree import ParseError, fromstring
from xml.parsers import expat

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Places, begins_of, offsets_of
from cloakwork.base.frozen import frozen
from cloakwork.log.formats.kinds import DECLARED
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.xes_full import LogXml
from cloakwork.log.formats.xes_values import (
    KIND_OF,
    BadValue,
    Collector,
    Evidence,
    Scope,
    TooManyKeys,
    ValueRun,
)

CHUNK: Final = 2 << 20  # bytes; small enough to stay in the processor's cache
_HEADER_LIMIT: Final = 64 << 20
_STRETCH_LIMIT: Final = 64 << 20
_VOCABULARY_LIMIT: Final = 4096
_NON_CHARACTERS: Final = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")  # U+FFFE and U+FFFF, which XML forbids
_BLANK: Final = "[ \t\r\n]"
_TAG: Final = re.compile(f"<(/?)(trace|event){_BLANK}*(/?)>{_BLANK}*")
_AFTER_VALUE: Final = re.compile(f"{_BLANK}*/>{_BLANK}*")
_ATTRIBUTE: Final = re.compile(f"<({'|'.join(KIND_OF)}){_BLANK}+key=")
_END: Final = re.compile(f"</log{_BLANK}*>{_BLANK}*")
SCOPES: Final[tuple[Scope, ...]] = ("trace", "event")
ANYWHERE: Final = -1
LOG: Final = 0
TRACE: Final = 1
EVENT: Final = 2
"""Where a reader is: inside the log, a trace or an event; or wherever it was before."""


class Declined(Exception):
    """This file is not of the plain kind; the full parser must read it."""


def fast_chunks(stream: LogStream, collector: Collector) -> Iterator[None]:
    """Hand a plain log to ``collector``, chunk by chunk. ``Declined`` for a file that is not plain
    (well-formed or not), ``LogError`` when the bytes cannot be read.
    """
    reader = _FastReader(collector)
    try:
        for chunk in _quote_cycles(stream, _start_of_traces(stream)):
            reader.read_chunk(chunk)
            yield
    except BadValue as bad:
        raise Declined("a value that is not of its type") from bad
    except TooManyKeys as many:
        raise Declined("more attributes than the limit") from many
    if not reader.ended:
        raise Declined("a log without its end")


def _start_of_traces(stream: LogStream) -> bytes:
    """What follows a header that the XML parser confirms to end there."""
    header = bytearray()
    start, end = -1, 0
    while start < 0 or end == 0:
        more = stream.read(CHUNK)
        if not more or len(header) > _HEADER_LIMIT:
            raise Declined("no trace that is written plainly")
        header += more
        start = header.find(b"<trace")
        end = header.find(b">", start) + 1  # 0 where there is none
    xml = LogXml(stream.path, Collector(Evidence(), {}, ReadRequest(limits=stream.limits)))
    try:
        xml.feed(bytes(header[:end]))
    # The latter two: an encoding that Python does not know.
    except (expat.ExpatError, LookupError, ValueError):
        raise Declined("a header that ends elsewhere") from None
    opens_first = xml.traces == 1 and xml.trace_at == start
    if not (xml.plain and opens_first) or xml.irregular.stray_events:
        raise Declined("a header that ends elsewhere")
    return bytes(header[start:])


def _quote_cycles(stream: LogStream, start: bytes) -> Iterator[tuple[bytes, bool]]:
    """The bytes in chunks that end before a closing quote and hold whole cycles of four quotes;
    True at the last.
    """
    # The body starts with markup that follows no value; with the end of one in front, all pieces
    # look alike.
    rest = b"/>" + start
    while more := stream.read(CHUNK):
        data = rest + more
        quotes = _count_byte(data, b'"')
        if quotes < 4:
            if len(data) > _STRETCH_LIMIT:
                raise Declined("values or markup without end")
            rest = data
            continue
        # Back over the quotes of the unfinished cycle, and over the last one of the whole cycles.
        end = len(data)
        for _ in range(quotes % 4 + 1):
            end = data.rfind(b'"', 0, end)
        yield data[:end], False
        rest = data[end + 1 :]
    yield rest, True


class _FastReader:
    """Where the reader is in the file, and the markup and keys that it already understands."""

    def __init__(self, collector: Collector) -> None:
        self.ended = False
        self._collector = collector
        self._markup = MarkupTable()
        self._keys = KeyTable()
        self._place = LOG

    def read_chunk(self, chunk: tuple[bytes, bool]) -> None:
        """Read one chunk: cycles of four pieces and, if it is the last, the end of the log."""
        data, is_last = chunk
        if not data.isascii() and any(forbidden in data for forbidden in _NON_CHARACTERS):
            raise Declined("characters that XML forbids")
        try:
            text = pl.Series([data], dtype=pl.Binary).cast(pl.String)
        except pl.exceptions.PolarsError as error:
            raise Declined("bytes that are not UTF-8") from error
        # One piece more than there are quotes.
        pieces = text.str.split('"').explode()
        most = self._collector.limits.value_size
        if len(data) > most and (pieces.str.len_bytes() > most).any():
            raise Declined("a value over the limit")
        cycles = len(pieces) // 4
        if len(pieces) != 4 * cycles + is_last:
            raise Declined("quotes that do not come in fours")
        markup = _word_codes(pieces.gather_every(4), self._markup.words, self._markup.learn_markup)
        # Between key and value stands exactly one thing.
        if not (pieces.gather_every(4, 2) == " value=").all():
            raise Declined("attributes written otherwise than key, value")
        # No ``<`` and no control character may stand outside the markup: how often each piece of it
        # occurs, times what it holds, is all that markup explains.
        seen = np.bincount(markup, minlength=len(self._markup.words))
        if _count_byte(data, b"<") != int(seen @ self._markup.tags):
            raise Declined("a '<' inside a value")
        controls = np.count_nonzero(np.frombuffer(data, np.uint8) < 32)
        if int(controls) != int(seen @ self._markup.controls):
            raise Declined("line breaks or control characters inside a value")
        place = self._follow_tags(markup, is_last)
        owner = self._open_elements(markup, place)
        if cycles:
            self._collect_values(markup[:cycles], place[:cycles], owner[:cycles], pieces)
        self.ended = is_last

    def _follow_tags(self, markup: Ints, is_last: bool) -> Places:
        """The place after each piece of markup; the end of the log must be the last, and of the
        last chunk.
        """
        table = self._markup
        ending = np.flatnonzero(table.kind[markup] < 0)
        expected = [len(markup) - 1] if is_last else []
        if ending.tolist() != expected:
            raise Declined("markup behind the end of the log, or no end")
        moves = table.enters[markup] != ANYWHERE
        moving = markup[moves]
        places = np.concatenate([[self._place], table.leaves[moving]]).astype(np.int8)
        if (places[:-1] != table.enters[moving]).any():
            raise Declined("tags that do not fit each other")
        self._place = int(places[-1])
        # After each piece the reader is where the latest moving one left it.
        place: Places = places[np.cumsum(moves)]
        return place

    def _open_elements(self, markup: Ints, place: Places) -> Ints:
        """Tell the collector of the traces and events that open; the ordinal of the one open after
        each piece.
        """
        table, collector = self._markup, self._collector
        first_trace, first_event = collector.traces, collector.events
        # How many each piece opens, and how many those before it do.
        traces, events = table.traces[markup], table.events[markup]
        traces_before = np.cumsum(traces) - traces
        events_before = np.cumsum(events) - events
        # One entry an event: its number among those of its piece, and how many traces the piece
        # opens before it.
        within_piece = np.arange(events.sum()) - np.repeat(events_before, events)
        entry = np.repeat(table.first_event[markup], events) + within_piece
        trace_in_piece = table.event_traces[entry]
        trace_of_event = first_trace + np.repeat(traces_before, events) + trace_in_piece - 1
        collector.open_cases(int(traces.sum()), trace_of_event)
        events_so_far = first_event + events_before + events
        traces_so_far = first_trace + traces_before + traces
        latest: Ints = np.where(place == EVENT, events_so_far, traces_so_far) - 1
        return latest

    def _collect_values(
        self,
        markup: Ints,
        place: Places,
        owner: Ints,
        pieces: pl.Series,
    ) -> None:
        """Hand the values to the collector, one run for each key, scope and kind."""
        words = pieces.gather_every(4, 1)

        def learn(new: list[str]) -> None:
            self._keys.learn_keys(new, self._collector)

        key = _word_codes(words, self._keys.words, learn)
        in_event = (place == EVENT).astype(np.int64)
        if self._keys.reserved.any():
            reserved = self._keys.reserved[key] & (in_event == 1)
            self._collector.irregular.reserved += int(reserved.sum())
        # Tables of keys have two entries a key: for the trace, then for the event.
        scoped = 2 * key + in_event
        chosen = np.flatnonzero(self._keys.is_read[scoped])
        if not len(chosen):
            return
        settled = self._keys.kind[scoped[chosen]]
        kind_of_value = np.where(settled < 0, self._markup.kind[markup[chosen]], settled)
        # One number for key, scope and kind together.
        what = scoped[chosen] * len(DECLARED) + kind_of_value
        # 16 bits are sorted by radix, in linear time.
        sortable = what.astype(np.uint16) if what.max() < 1 << 16 else what
        order = np.argsort(sortable, kind="stable")
        chosen = chosen[order]
        what = what[order]
        # The value is the last of the four pieces of its cycle.
        values = pieces.gather(4 * chosen + 3)
        encoded = values.str.contains("&", literal=True)
        if encoded.any():
            distinct = values.filter(encoded).unique().to_list()
            values = values.replace({text: decode_references(text) for text in distinct})
        owner = owner[chosen]
        starts = begins_of(what)
        ends = np.append(starts[1:], len(what))
        # In the order of the file, by the first value of each run.
        for run in np.argsort(chosen[starts]):
            start, end = int(starts[run]), int(ends[run])
            pair, kind = divmod(int(what[start]), len(DECLARED))
            self._collector.add_run(
                ValueRun(
                    self._keys.names[pair],
                    self._keys.keys[pair // 2],
                    DECLARED[kind],
                    owner[start:end],
                    values.slice(start, end - start),
                )
            )


def _count_byte(data: bytes, byte: bytes) -> int:
    """How often a byte occurs: faster than ``bytes.count`` where it is frequent."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte[0]))


def _word_codes(words: pl.Series, known: list[str], learn: Callable[[list[str]], None]) -> Ints:
    """The index of each word; new ones are learnt first. int64, shape (words,)."""
    coded = words.cast(pl.Enum(known), strict=False)
    if coded.null_count():
        new = words.filter(coded.is_null()).unique(maintain_order=True).to_list()
        if len(known) + len(new) > _VOCABULARY_LIMIT:
            raise Declined("markup or keys without end")
        learn(new)
        coded = words.cast(pl.Enum(known))
    return coded.to_physical().to_numpy().astype(np.int64)


@frozen
class Markup:
    """What one piece of markup between a value and the next key does.

    ``enters`` and ``leaves``: where the reader must be before it and is after it (``ANYWHERE``: as
    before); ``kind``: the index in ``DECLARED`` of the attribute that it opens, -1 at the end of
    the log; ``traces``: how many traces it opens; ``events``: for each event that it opens, how
    many traces it opened before; ``tags``, ``controls``: how many ``<`` and how many control
    characters (all of them blanks) it holds.
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
        kind = DECLARED.index(KIND_OF[attribute[1]])
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
        rows = [
            (one.enters, one.leaves, one.kind, one.traces, len(one.events), one.tags, one.controls)
            for one in self.markups
        ]
        columns = np.array(rows, np.int64).T
        self.enters, self.leaves, self.kind, self.traces, self.events = columns[:5]
        self.tags, self.controls = columns[5:]
        self.first_event = offsets_of(self.events)[:-1]
        self.event_traces = np.array(
            [before for each in self.markups for before in each.events], np.int64
        )


@dataclass
class KeyTable:
    """All distinct keys met so far; for each and each scope, its full name, empty where it is not
    read, and the index in ``DECLARED`` of the kind that it is read as whatever is declared; -1 for
    none.
    """

    words: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def learn_keys(self, words: list[str], collector: Collector) -> None:
        """Add keys that were not met before; ``Declined`` where one is empty."""
        self.words += words
        self.keys += [decode_references(word) for word in words]
        if "" in words:
            raise Declined("an empty key")
        # Two entries a key: for the trace, then for the event.
        self.names = [collector.name_of(scope, key) or "" for key in self.keys for scope in SCOPES]
        kinds: list[int] = []
        for name in self.names:
            read_as = {collector.kind_of(name, kind) for kind in DECLARED} if name else set()
            # Else the kind is what each value declares.
            kinds.append(DECLARED.index(read_as.pop()) if len(read_as) == 1 else -1)
        self.is_read = np.array([name != "" for name in self.names], np.bool_)
        self.kind = np.array(kinds, np.int64)
        self.reserved = np.array([key.startswith("case:") for key in self.keys], np.bool_)


def decode_references(text: str) -> str:
    """Resolve character references and the five entities that XML predefines. ``Declined`` for any
    other.
    """
    if "&" not in text:
        return text
    try:
        return fromstring(f'<a v="{text}"/>').attrib["v"]  # noqa: S314 - one value, without a DTD
    except ParseError as error:
        raise Declined("a reference that XML does not know") from error
