"""Logs as XES and CSV files, and as gzip packs them."""

import csv
import io
import struct
import zlib
from collections import Counter
from datetime import datetime
from typing import Final
from xml.sax.saxutils import quoteattr

from invented.process import Attributes, Event, Log, Value, local_time

XES_TYPES: Final = {str: "string", int: "int", float: "float", datetime: "date"}

EXTENSIONS: Final = {
    "Concept": "concept",
    "Lifecycle": "lifecycle",
    "Organizational": "org",
    "Time": "time",
}


def value_text(value: Value) -> str:
    """A value as both formats write it; times carry milliseconds and the offset of their season."""
    if isinstance(value, datetime):
        return local_time(value).isoformat(timespec="milliseconds")
    return str(value)


def _xes_attributes(attributes: Attributes, indent: str) -> list[str]:
    return [
        f"{indent}<{XES_TYPES[type(value)]} key={quoteattr(key)} value={quoteattr(value_text(value))}/>"
        for key, value in attributes.items()
    ]


def _event_attributes(event: Event) -> Attributes:
    standard: Attributes = {
        "concept:name": event.activity,
        "lifecycle:transition": "complete",
        "time:timestamp": event.time,
    }
    return standard | event.attributes


_GLOBALS: Final = (
    '\t<global scope="trace">',
    '\t\t<string key="concept:name" value="UNKNOWN"/>',
    "\t</global>",
    '\t<global scope="event">',
    '\t\t<string key="concept:name" value="UNKNOWN"/>',
    '\t\t<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>',
    "\t</global>",
    '\t<classifier name="Activity" keys="concept:name"/>',
    '\t<classifier name="Activity and resource" keys="concept:name \'org:resource\'"/>',
)


def _xes_header(log: Log) -> list[str]:
    """Log-level attributes; like those of published logs, they give exact counts away."""
    events = [event for case in log.cases for event in case.events]
    activities = Counter(event.activity for event in events)
    staff = Counter(str(event.attributes["org:resource"]) for event in events)
    lines = []
    for name, prefix in EXTENSIONS.items():
        uri = f"http://www.xes-standard.org/{prefix}.xesext"
        lines.append(f'\t<extension name="{name}" prefix="{prefix}" uri="{uri}"/>')
    lines += _GLOBALS
    attributes: Attributes = {
        "concept:name": log.title,
        "source:system": "invented",
        "source:exported_by": "Clerk Comma",
        "meta_general:traces_total": len(log.cases),
        "meta_general:events_total": len(events),
        "meta_general:events_average": round(len(events) / len(log.cases), 4),
    }
    lines += _xes_attributes(attributes, "\t")
    lines += _xes_counts("meta_concept:different_names_total", activities)
    lines += _xes_counts("meta_org:different_resources_total", staff)
    return lines


def _xes_counts(key: str, counts: Counter[str]) -> list[str]:
    """How many different values there are, and inside of it how often each occurs."""
    return [
        f'\t<int key="{key}" value="{len(counts)}">',
        *_xes_attributes(dict(sorted(counts.items())), "\t\t"),
        "\t</int>",
    ]


def to_xes(log: Log) -> str:
    """The log as XES 1.0."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<log xes.version="1.0" xes.features="nested-attributes">',
    ]
    lines += _xes_header(log)
    for case in log.cases:
        lines += ["\t<trace>", *_xes_attributes(case.attributes, "\t\t")]
        for event in case.events:
            lines += [
                "\t\t<event>",
                *_xes_attributes(_event_attributes(event), "\t\t\t"),
                "\t\t</event>",
            ]
        lines.append("\t</trace>")
    return "\n".join([*lines, "</log>", ""])


def to_csv(log: Log) -> str:
    """The log as a table, one row an event, all rows in order of time as systems export them."""
    events = [(case, event) for case in log.cases for event in case.events]
    events.sort(key=lambda pair: pair[1].time)
    rows = []
    for case, event in events:
        row = {f"case:{key}": value_text(value) for key, value in case.attributes.items()}
        for key, value in _event_attributes(event).items():
            row[key] = value_text(value)
        rows.append(row)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def gzipped(text: str) -> bytes:
    """Text in gzip's format, with no name and no date in it."""
    data = text.encode()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    # Magic number, deflate, no flags; no date; slowest compression; unknown system (RFC 1952).
    header = b"\x1f\x8b\x08\0" + b"\0\0\0\0" + b"\x02\xff"
    trailer = struct.pack("<II", zlib.crc32(data), len(data))
    return header + body + trailer
