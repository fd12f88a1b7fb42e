"""What a written log says of itself: attributes and extensions of the log element, and reading them
back.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from xml.parsers import expat

from cloakwork.base.errors import LogError
from cloakwork.base.text import shown
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.xml_feed import Feeder

Value = str | int | float | bool | datetime | None
_CHUNK: Final = 1 << 16
_TRUE: Final = {"true", "1"}
_ELEMENTS: Final = {"string", "id", "int", "float", "boolean", "date", "list", "container"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of the log element.

    Its XES type follows from the Python type of ``value``; a ``datetime`` without a zone is
    taken as UTC. With ``value`` None it is a list,
    and ``children`` are the entries; otherwise ``children`` are nested attributes.
    """

    key: str
    value: Value
    children: tuple["Attribute", ...] = ()


@dataclass(frozen=True, slots=True)
class Extension:
    """A XES extension that a written log declares."""

    name: str
    prefix: str
    uri: str


class _FirstTraceReached(Exception):
    """The first trace: everything before it has been read."""


@dataclass
class _OpenElement:
    element: str
    key: str = ""
    value: Value = None
    children: list[Attribute] = field(default_factory=list)


def read_annotations(path: str | Path) -> tuple[Attribute, ...]:
    """The attributes of the log element of a XES file, in file order; reading stops at the first
    trace.

    ``LogError`` when the file is no XES log up to there, or a value is not of its type.
    """
    file = Path(path)
    header = _Header(file)
    with LogStream(file) as stream:
        feeder = Feeder(file, header.parser, stream.limits)
        try:
            while data := stream.read(_CHUNK):
                feeder.feed(data)
            feeder.feed(b"", last=True)
        except _FirstTraceReached:
            pass
        except (LookupError, UnicodeError) as error:
            raise LogError(
                file,
                f"the encoding cannot be read ({error})",
                line=1,
                hint="save the file as UTF-8",
            ) from None
        except expat.ExpatError as error:
            said = expat.ErrorString(error.code)
            raise LogError(
                file,
                f"the XML is not well formed ({said})",
                line=error.lineno,
                hint="write the file again",
            ) from None
    return tuple(header.found)


class _Header:
    """Builds the attributes of the log element from the parser's events."""

    def __init__(self, path: Path) -> None:
        self.found: list[Attribute] = []
        self._path = path
        self._open: list[_OpenElement] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start_element
        self.parser.EndElementHandler = self._end_element
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def _refuse_doctype(self, *_: object) -> None:
        raise self._fault_here(
            "the file declares a document type", "remove the <!DOCTYPE ...> declaration"
        )

    def _fault_here(self, message: str, hint: str) -> LogError:
        return LogError(self._path, message, line=self.parser.CurrentLineNumber, hint=hint)

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        element = name.rpartition(" ")[2]
        if not self._open and element != "log":
            raise self._fault_here(f"the root is <{shown(element)}>, not <log>", "give an XES file")
        if len(self._open) == 1 and element in {"trace", "event"}:
            raise _FirstTraceReached
        opened = _OpenElement(element)
        if element in _ELEMENTS:
            opened.key = attributes.get("key", "")
            opened.value = self._checked_value(element, attributes.get("value"))
        self._open.append(opened)

    def _end_element(self, _name: str) -> None:
        closed = self._open.pop()
        if closed.element == "values" and self._open:
            self._open[-1].children += closed.children
        elif closed.element in _ELEMENTS and self._open:
            attribute = Attribute(closed.key, closed.value, tuple(closed.children))
            siblings = self.found if len(self._open) == 1 else self._open[-1].children
            siblings.append(attribute)

    def _checked_value(self, element: str, text: str | None) -> Value:
        try:
            return parse_value(element, text)
        except ValueError:
            raise self._fault_here(
                f"the value of a <{element}> is none", "write the file again"
            ) from None


def utc_text(moment: datetime) -> str:
    """A moment in UTC, as a log writes it; one without a zone is taken as UTC."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(timespec="microseconds")


def parse_value(element: str, text: str | None) -> Value:
    """One attribute value from its XES element and text; ``ValueError`` where the type differs."""
    if text is None:
        return None
    match element:
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "boolean":
            return text.lower() in _TRUE
        case "date":
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return text
