"""The thorough way to read XES: every construct of XML, by expat, as a stream, with a line number
for every fault.

What holds for both readers: attribute values keep the type that the file declares; children nested
in an attribute, lists and containers are left out; ``global`` declarations are not applied, for a
default would invent activities and times that nobody observed; attributes of the log itself are
never read.
"""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal
from xml.parsers import expat
from xml.parsers.expat import XMLParserType

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.text import shown, size_text
from cloakwork.log.eventlog import CASE_PREFIX, TIMESTAMP
from cloakwork.log.formats.kinds import Kind
from cloakwork.log.formats.source import LogStream, empty_file, too_long
from cloakwork.log.formats.xes_values import (
    KIND_OF,
    BadValue,
    Collector,
    Scope,
    TooManyKeys,
    ValueRun,
)
from cloakwork.log.limits import Limits, raising
from cloakwork.log.times import TIME_HINT

_CHUNK: Final = 1 << 20  # bytes
_PLAIN_ENCODINGS: Final = {"UTF-8", "UTF8"}
_HINTS: Final = {
    expat.errors.XML_ERROR_NO_ELEMENTS: "the file breaks off or is no XML; export the log again",
    expat.errors.XML_ERROR_SYNTAX: (
        "this is no XML; export the log as XES, or name the file after its format"
    ),
    expat.errors.XML_ERROR_UNCLOSED_TOKEN: "the file breaks off here; export or copy it again",
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION: (
        "the file breaks off here; export or copy it again"
    ),
    expat.errors.XML_ERROR_UNDEFINED_ENTITY: "write the character itself, or a numeric reference",
    expat.errors.XML_ERROR_UNKNOWN_ENCODING: "save the file as UTF-8",
    expat.errors.XML_ERROR_INCORRECT_ENCODING: (
        "save the file in the encoding that its first line names"
    ),
    expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT: "keep one <log> element a file",
    expat.errors.XML_ERROR_TAG_MISMATCH: "close every element that is opened",
    expat.errors.XML_ERROR_DUPLICATE_ATTRIBUTE: "give each element one key and one value",
    expat.errors.XML_ERROR_UNBOUND_PREFIX: "declare the prefix with xmlns on the <log> element",
}
_MARKUP: Final = 1 << 20  # bytes of a tag besides its value
_ANY_HINT: Final = (
    "correct that line, or export the log again (XML holds no NUL or other control character, and "
    "one byte-order mark at most)"
)


@contextmanager
def xml_faults(path: Path) -> Iterator[None]:
    """Tell what is wrong with a file's XML, or its encoding, as a ``LogError``."""
    try:
        yield
    except expat.ExpatError as error:
        said = expat.ErrorString(error.code)
        raise LogError(
            path,
            f"the XML is not well formed ({said})",
            line=error.lineno,
            hint=_HINTS.get(said, _ANY_HINT),
        ) from None
    except (LookupError, UnicodeError, ValueError) as error:
        raise LogError(
            path,
            f"the file's encoding cannot be read ({error})",
            line=1,
            hint="save the file as UTF-8",
        ) from None


class XmlReader(ABC):
    """Hears of the elements of a XML file, and refuses what may hide others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start_element
        self.parser.EndElementHandler = self._end_element
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def parse(self, stream: LogStream) -> None:
        """The whole file, tag by tag."""
        with xml_faults(self._path):
            feeder = Feeder(self._path, self.parser, stream.limits)
            while data := stream.read(_CHUNK):
                feeder.feed(data)
            feeder.feed(b"", last=True)

    @abstractmethod
    def _start_element(self, name: str, attributes: dict[str, str]) -> None: ...

    @abstractmethod
    def _end_element(self, name: str) -> None: ...

    def _refuse_doctype(self, *_: object) -> None:
        # Entities of a document type can expand without end, or name other files.
        raise self._fault_here(
            "the file declares a document type, which may hide entities",
            "remove the <!DOCTYPE ...> declaration",
        )

    def _fault_here(self, message: str, hint: str) -> LogError:
        return LogError(self._path, message, line=self.parser.CurrentLineNumber, hint=hint)


class LogXml(XmlReader):
    """A streaming XES parser; feeds what it finds into ``collector``.

    ``traces``, ``events``: how many were opened; ``trace_at``: the byte at which the latest trace
    starts; ``plain``: whether the file is in UTF-8 as far as it says; ``irregular``: what was met
    and left out.
    """

    def __init__(self, path: Path, collector: Collector) -> None:
        super().__init__(path)
        self.traces = self.events = 0
        self.trace_at = -1
        self.plain = True
        self._marked = False  # whether the file begins with the byte-order mark of UTF-8
        self.irregular = collector.irregular
        self._collector = collector
        self._place: Literal["nowhere", "log", "trace", "event"] = "nowhere"
        self._skipping = 0
        self._nested_in_attribute = False
        self._case_of: list[int] = []
        self._opened_traces = 0
        self._runs: dict[tuple[str, str, Kind], list[tuple[int, str, int]]] = {}
        self._read_as: dict[tuple[Scope, str, Kind], tuple[str, str, Kind] | None] = {}
        self.parser.XmlDeclHandler = self._check_declaration
        self._drop = collector.on_excess == "drop"
        self._feeder = Feeder(path, self.parser, None if self._drop else collector.limits)

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Parse the next bytes. ``LogError`` at the first fault; ``ExpatError`` never leaves
        ``full_chunks``.
        """
        self._marked = self._marked or (self._feeder.at_start and data.startswith(codecs.BOM_UTF8))
        self._feeder.feed(data, last=last)
        self._hand_over()

    def _check_declaration(
        self,
        version: str,
        encoding: str | None,
        _standalone: int,
    ) -> None:
        if not version.startswith("1."):
            raise self._fault_here(
                f"the XML version is '{shown(version)}'",
                'begin the file with <?xml version="1.0"?>',
            )
        self.plain = encoding is None or encoding.upper() in _PLAIN_ENCODINGS
        if self._marked and not self.plain:
            raise self._fault_here(
                f"the file begins with the mark of UTF-8 and declares {shown(encoding or '')}",
                "save it in the encoding that its first line names",
            )

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        if self._skipping:
            self._skipping += 1
            self.irregular.nested += self._nested_in_attribute
        elif self._place == "log":
            if name == self._trace:
                self._place = "trace"
                self.traces += 1
                self._opened_traces += 1
                self.trace_at = self.parser.CurrentByteIndex
                return
            if name.rpartition(" ")[2] in ("object-types", "objects", "events"):
                raise self._fault_here(
                    "this is an object-centric log, and no XES",
                    "call the file .xmlocel, or say format: ocel-xml under spec.input",
                )
            self.irregular.stray_events += name == self._event
            self._skip_element()
        elif self._place == "nowhere":
            self._start_root(name)
        elif self._place == "trace" and name == self._event:
            self._place = "event"
            self._case_of.append(self.traces - 1)
            self.events += 1
        else:
            self._start_in_case(name, attributes)

    def _start_root(self, name: str) -> None:
        namespace, blank, local = name.rpartition(" ")
        if local != "log":
            raise self._fault_here(
                f"the file is XML, but its root is <{shown(local)}>, not <log>", "give an XES file"
            )
        self._place = "log"
        # Names of the root's namespace; elements of any other are foreign.
        self._trace = f"{namespace}{blank}trace"
        self._event = f"{namespace}{blank}event"
        self._kinds = {f"{namespace}{blank}{element}": kind for element, kind in KIND_OF.items()}
        self._lists = {f"{namespace}{blank}{element}" for element in ("list", "container")}

    def _start_in_case(self, name: str, attributes: dict[str, str]) -> None:
        kind = self._kinds.get(name)
        if kind is not None:
            self._take_attribute(name, kind, attributes)
            self._skip_element(nested=True)
            return
        if name in self._lists:
            self.irregular.lists += 1
        else:
            self.irregular.foreign += 1
        self._skip_element()

    def _skip_element(self, *, nested: bool = False) -> None:
        self._skipping = 1
        self._nested_in_attribute = nested

    def _end_element(self, name: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif self._place == "event":
            self._place = "trace"
        elif self._place == "trace":
            self._place = "log"

    def _take_attribute(
        self,
        name: str,
        kind: Kind,
        attributes: dict[str, str],
    ) -> None:
        key = attributes.get("key")
        value = attributes.get("value")
        if not key or value is None:
            element = name.rpartition(" ")[2]
            missing = "value" if key else "key"
            raise self._fault_here(
                f"a <{element}> element has no {missing}", f"give it a {missing}, or remove it"
            )
        scope: Scope = "event" if self._place == "event" else "trace"
        collector = self._collector
        self.irregular.reserved += scope == "event" and key.startswith(CASE_PREFIX)
        # What it is read as, None where it is not read: asked once for each.
        attribute = (scope, key, kind)
        if attribute not in self._read_as:
            full = collector.name_of(scope, key)
            as_kind = collector.kind_of(full, kind) if full else kind
            self._read_as[attribute] = (full, key, as_kind) if full else None
        read_as = self._read_as[attribute]
        if read_as is None:
            return
        # A character has 4 bytes at most: short values need not be encoded to be judged.
        most = collector.limits.value_size
        if 4 * len(value) > most and len(value.encode()) > most:
            if not self._drop:
                raise too_long(self._path, key, collector.limits, self.parser.CurrentLineNumber)
            self.irregular.oversized += 1
            return
        row = self.events - 1 if scope == "event" else self.traces - 1
        self._runs.setdefault(read_as, []).append((row, value, self.parser.CurrentLineNumber))

    def _hand_over(self) -> None:
        """Hand what was found since the last time to the collector."""
        runs = self._runs
        self._runs = {}
        case_of = self._case_of
        self._case_of = []
        traces = self._opened_traces
        self._opened_traces = 0
        self._collector.open_cases(traces, np.array(case_of, np.int64))
        for (name, key, kind), found in runs.items():
            rows, values, lines = zip(*found, strict=True)
            text = pl.Series(values, dtype=pl.String)
            self._collector.add_run(
                ValueRun(name, key, kind, np.array(rows, np.int64), text, lines)
            )


def full_chunks(stream: LogStream, collector: Collector) -> Iterator[None]:
    """Hand any XES log to ``collector``, chunk by chunk. ``LogError`` for a file that is not a
    well-formed log, with its line.
    """
    xml = LogXml(stream.path, collector)
    started = False
    try:
        while data := stream.read(_CHUNK):
            started = True
            with xml_faults(stream.path):
                xml.feed(data)
            yield
        if not started:
            raise empty_file(stream.path)
        with xml_faults(stream.path):
            xml.feed(b"", last=True)
    except BadValue as bad:
        hint = f"write a valid {bad.kind}, or declare it as <string>"
        if bad.key == TIMESTAMP:
            hint = TIME_HINT
        raise LogError(
            stream.path,
            f"the value of attribute '{shown(bad.key)}' is no {bad.kind}",
            line=bad.line,
            hint=hint,
        ) from None
    except TooManyKeys:
        most = collector.limits.attributes
        raise LogError(
            stream.path,
            f"the file has more than {most:,} attributes, the limit",
            hint=raising("attributes", 4 * most),
        ) from None


class Feeder:
    """Feeds ``parser``; with ``limits``, a tag or comment that no value within them explains raises
    ``LogError``.

    Work is linear in the file. An expat before 2.6.0 starts again at the first byte of an
    unfinished token each time that it is fed (CVE-2023-52425): a tag of n bytes in pieces of c
    costs n * n / c. Distributions correct it without raising the version, so a version proves
    nothing. Here each piece is at least as large as what is unfinished: every token is begun at
    most log2(n / c) times, whatever expat does, and read over twice at most.
    """

    def __init__(
        self,
        path: Path,
        parser: XMLParserType,
        limits: Limits | None,
    ) -> None:
        self._path = path
        self._parser = parser
        self._limits = limits
        self._waiting: list[bytes] = []
        self._size = self._fed = self._unfinished = 0
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)  # what is fed is to be parsed at once

    @property
    def at_start(self) -> bool:
        """Whether nothing was fed yet."""
        return not (self._fed or self._waiting)

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Take the next bytes; they may wait for more."""
        self._waiting.append(data)
        self._size += len(data)
        # Each piece is at least as large as what is unfinished, which bounds the work.
        if self._size < self._unfinished and not last:
            return
        piece = b"".join(self._waiting)
        self._waiting = []
        self._size = 0
        self._parser.Parse(piece, last)
        self._fed += len(piece)
        self._unfinished = self._fed - max(0, self._parser.CurrentByteIndex)
        if (
            not last
            and self._limits is not None
            and self._unfinished > self._limits.value_size + _MARKUP
        ):
            raise LogError(
                self._path,
                f"a value or tag is larger than {size_text(self._limits.value_size)}, the limit",
                line=self._parser.CurrentLineNumber,
                hint=raising("value-size", 4 * self._limits.value_size),
            )
