"""Writing XES: a constant header, then whole columns joined into text; and reading back what a
written log says of itself. The same log gives the same bytes.

Nothing of a source file comes along: the header is the same for every log save for the annotations
and extensions that the caller states. Characters that XML 1.0 cannot express (most control
characters, lone U+FFFE and U+FFFF) become U+FFFD.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import owners_of
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.formats.source import LogStream, open_output
from cloakwork.log.formats.xes_full import XmlReader

Value = str | int | float | bool | datetime | None
_TRUE: Final = {"true", "1"}
_ELEMENTS: Final = {"string", "id", "int", "float", "boolean", "date", "list", "container"}


@frozen
class Attribute:
    """One attribute of the log element.

    Its XES type follows from the Python type of ``value``; a ``datetime`` without a zone is
    taken as UTC. With ``value`` None it is a list,
    and ``children`` are the entries; otherwise ``children`` are nested attributes.
    """

    key: str
    value: Value
    children: tuple["Attribute", ...] = ()


@frozen
class Extension:
    """A XES extension that a written log declares."""

    name: str
    prefix: str
    uri: str


_BATCH: Final = 50_000  # events a time, so that the text of a large log never lies in memory whole
_STANDARD: Final = (
    Extension("Concept", "concept", "http://www.xes-standard.org/concept.xesext"),
    Extension("Time", "time", "http://www.xes-standard.org/time.xesext"),
)
_NAME: Final = '\t\t<string key="concept:name" value="UNKNOWN"/>\n'
_TIME: Final = '\t\t<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>\n'
FORBIDDEN: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
_ESCAPES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}


def write_xes(
    log: EventLog,
    path: Path,
    annotations: tuple[Attribute, ...] = (),
    extensions: tuple[Extension, ...] = (),
) -> None:
    """Write ``log`` as XES; packed by gzip when ``path`` ends in ``.gz``. ``OSError`` when it
    cannot be written.
    """
    with open_output(path) as out:
        out.write(_file_header(log, annotations, extensions).encode())
        for text in _trace_batches(log):
            out.write(text.encode())
        out.write(b"</log>\n")


def _file_header(
    log: EventLog, annotations: tuple[Attribute, ...], extensions: tuple[Extension, ...]
) -> str:
    declared = "".join(
        f"\t<extension name={_quoted_text(each.name)} prefix={_quoted_text(each.prefix)}"
        f" uri={_quoted_text(each.uri)}/>\n"
        for each in (*_STANDARD, *extensions)
    )
    nested = any(attribute.children for attribute in annotations)
    features = "nested-attributes" if nested else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<log xes.version="1849-2023" xes.features="{features}"'
        ' xmlns="http://www.xes-standard.org/">\n'
        + declared
        + _globals_of(log)
        + "".join(_annotation_text(attribute, 1) for attribute in annotations)
    )


def _globals_of(log: EventLog) -> str:
    """The standard attributes that no trace, or no event, lacks: a reader may rely on these. The
    classifier names global attributes alone, so it stands where each event has an activity.
    """
    declared = held = ""
    traces = ("trace", log.cases, {CASE_ID: _NAME})
    events = ("event", log.events, {ACTIVITY: _NAME, TIMESTAMP: _TIME})
    for scope, table, elements in (traces, events):
        held = "".join(elements.get(each.name, "") for each in table if not each.null_count())
        if held:
            declared += f'\t<global scope="{scope}">\n{held}\t</global>\n'
    return declared + '\t<classifier name="Activity" keys="concept:name"/>\n' * (_NAME in held)


def _annotation_text(attribute: Attribute, depth: int) -> str:
    indent = "\t" * depth
    # The entries of a list stand one level deeper, inside ``values``.
    below = depth + 2 if attribute.value is None else depth + 1
    inner = "".join(_annotation_text(child, below) for child in attribute.children)
    if attribute.value is None:
        values = f"{indent}\t<values>\n{inner}{indent}\t</values>\n"
        return f"{indent}<list key={_quoted_text(attribute.key)}>\n{values}{indent}</list>\n"
    element, text = _element_and_text(attribute.value)
    start = f"{indent}<{element} key={_quoted_text(attribute.key)} value={text}"
    return f"{start}>\n{inner}{indent}</{element}>\n" if inner else f"{start}/>\n"


def _element_and_text(value: str | int | float | bool | datetime) -> tuple[str, str]:
    """The XES element of a value's type, and the value as it stands in the file, in quotes."""
    values = pl.Series("value", [value])
    element, text = _column_text(values)
    return element, f'"{values.to_frame().select(text).item()}"'


def _quoted_text(text: str) -> str:
    return _element_and_text(text)[1]


def _trace_batches(log: EventLog) -> Iterator[str]:
    """The traces as text, some whole cases at a time."""
    # A batch begins at the first case that starts at or behind a multiple of the batch's size.
    every_batch = np.arange(0, max(log.events.height, 1), _BATCH)
    starts = np.searchsorted(log.offsets, every_batch, side="left")
    bounds = np.unique(np.concatenate([[0], starts, [log.cases.height]]))
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        offsets = log.offsets[first : end + 1]
        cases = _element_texts(log.cases[first:end], "\t<trace>\n", 2, "", CASE_PREFIX)
        inside = log.events[int(offsets[0]) : int(offsets[-1])]
        events = _element_texts(inside, "\t\t<event>\n", 3, "\t\t</event>\n", "")
        row = owners_of(np.diff(offsets))
        of_events = pl.DataFrame({"row": row, "text": events}).group_by("row", maintain_order=True)
        grouped = of_events.agg(pl.col("text").str.join(""))
        of_cases = pl.DataFrame({"row": np.arange(end - first), "case": cases})
        merged = of_cases.join(grouped, on="row", how="left", maintain_order="left")
        # A case without events has no row in ``grouped``.
        text_of_events = pl.col("text").fill_null("")
        trace = pl.concat_str("case", text_of_events, pl.lit("\t</trace>\n"))
        text = merged.select(trace.str.join("")).item()
        yield text or ""


def _element_texts(
    table: pl.DataFrame,
    start: str,
    depth: int,
    end: str,
    prefix: str,
) -> pl.Series:
    """One element a row: ``start``, its attributes, ``end``. String, as long as the table."""
    attributes = []
    for column, name in enumerate(table.columns):
        values = values_of(table, name)
        element, text = _column_text(values)
        key = _quoted_text(name.removeprefix(prefix))
        opening = "\t" * depth + f'<{element} key={key} value="'
        # The empty text where the value is null.
        merged = pl.concat_str(pl.lit(opening), text, pl.lit('"/>\n')).fill_null("")
        attributes.append(values.to_frame("value").select(merged.alias(str(column))).to_series())
    if not attributes:
        return pl.Series([], dtype=pl.String)
    joined = pl.concat_str(pl.lit(start), pl.all(), pl.lit(end))
    return pl.DataFrame(attributes).select(joined).to_series()


def expressible_text(text: pl.Series) -> pl.Series:
    """Text with U+FFFD in place of what XML cannot express."""
    return text.str.replace_all(FORBIDDEN, "\ufffd")


def _column_text(values: pl.Series) -> tuple[str, pl.Expr]:
    """The XES element for a column's type, and its values as text."""
    column = pl.col("value")
    dtype = values.dtype
    if dtype.is_integer():
        return "int", column.cast(pl.String)
    if dtype.is_numeric():
        numbers = column.cast(pl.Float64).cast(pl.String)
        return "float", numbers.replace({"inf": "INF", "-inf": "-INF"})
    if dtype == pl.Boolean:
        return "boolean", column.cast(pl.String)
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        # A day counts from midnight, and a time without a zone is taken as UTC.
        return "date", column.cast(pl.Datetime("us", "UTC")).dt.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z")
    text = column.cast(pl.String).str.replace_all(FORBIDDEN, "\ufffd")
    return "string", text.str.replace_many(_ESCAPES)


def paths_and_texts(attributes: Sequence[Attribute]) -> dict[str, str]:
    """Every attribute's value as text by the path of keys that leads to it; a repeated path gets a
    number of its own.

    Lists that hold something have no value of their own and stand only in the paths of what they
    hold.
    """
    values: dict[str, str] = {}
    times = Counter[str]()
    # The first one comes last.
    waiting = [(each.key, each) for each in reversed(attributes)]
    while waiting:
        path, attribute = waiting.pop()
        place = path
        # A forged log may repeat a key to hide what stands under it, as often as it likes.
        while place in values:
            times[path] += 1
            place = f"{path} (again {times[path]})"
        value = attribute.value
        if value is not None:
            values[place] = utc_text(value) if isinstance(value, datetime) else str(value)
        elif not attribute.children:
            values[place] = ""
        waiting += [(f"{place}/{each.key}", each) for each in reversed(attribute.children)]
    return values


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
    with LogStream(file) as stream, suppress(_FirstTraceReached):
        header.parse(stream)
    return tuple(header.found)


class _Header(XmlReader):
    """Builds the attributes of the log element from the parser's events."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.found: list[Attribute] = []
        self._open: list[_OpenElement] = []

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        element = name.rpartition(" ")[2]
        if not self._open and element != "log":
            raise self._fault_here(f"the root is <{shown(element)}>, not <log>", "give an XES file")
        if len(self._open) == 1 and element in {"trace", "event"}:
            raise _FirstTraceReached
        opened = _OpenElement(element)
        if element in _ELEMENTS:
            opened.key = attributes.get("key", "")
            try:
                opened.value = parse_value(element, attributes.get("value"))
            except (ValueError, OverflowError):
                raise self._fault_here(
                    f"the value of a <{element}> is none", "write the file again"
                ) from None
        self._open.append(opened)

    def _end_element(self, name: str) -> None:
        closed = self._open.pop()
        if closed.element == "values" and self._open:
            self._open[-1].children += closed.children
        elif closed.element in _ELEMENTS and self._open:
            attribute = Attribute(closed.key, closed.value, tuple(closed.children))
            siblings = self.found if len(self._open) == 1 else self._open[-1].children
            siblings.append(attribute)


def utc_text(moment: datetime) -> str:
    """A moment in UTC, as a log writes it; one without a zone is taken as UTC."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(timespec="microseconds")


def parse_value(element: str, text: str | None) -> Value:
    """One attribute value from its XES element and text; ``ValueError`` where the type differs,
    ``OverflowError`` for a date that UTC puts before year 1 or after 9999.
    """
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
            # By way of UTC, which has no day before year 1 that another zone still has.
            return datetime.fromisoformat(utc_text(datetime.fromisoformat(text)))
    return text
