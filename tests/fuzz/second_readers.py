"""Second readers, of lxml, csv and pyarrow: they share no code with the engine, and follow
``docs/logs.md`` alone.
"""

import csv
import decimal
import gzip
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow.parquet as pq
from lxml import etree

CASE, ACTIVITY, TIME = "case:concept:name", "concept:name", "time:timestamp"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Values = dict[str, Any]


class Unlike(Exception):
    """The two readers differ."""


@dataclass
class Case:
    """One case as a second reader found it."""

    values: Values = field(default_factory=dict)
    events: list[Values] = field(default_factory=list)

    def in_order(self) -> list[Values]:
        """The events by time; one without a time stays behind the one before it."""
        stamps, last = [], -(10**30)
        for event in self.events:
            last = event[TIME] if event.get(TIME) is not None else last
            stamps.append(last)
        return [
            self.events[place]
            for place in sorted(range(len(stamps)), key=lambda place: stamps[place])
        ]


def moment(text: str) -> int | None:
    """Microseconds since 1970 of a timestamp as the page says it may be written."""
    found = re.fullmatch(
        r"\s*(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*"
        r"(Z|z|[+-]\d\d(?::?\d\d)?)?\s*",
        text,
    )
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    digits = (found[7] or "").ljust(6, "0")[:6]
    zone = found[8] or "Z"
    offset = timedelta()
    if zone not in "Zz":
        sign = -1 if zone[0] == "-" else 1
        parts = zone[1:].replace(":", "")
        offset = sign * timedelta(hours=int(parts[:2]), minutes=int(parts[2:] or 0))
    try:
        local = datetime(year, month, day, hour, minute, second, int(digits), tzinfo=UTC)
        utc = local - offset
    except (ValueError, OverflowError):
        return None
    return (utc - EPOCH) // timedelta(microseconds=1)


def unpacked(content: bytes) -> bytes:
    """The content of a file, packed or not."""
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


KINDS = {
    "string": "text",
    "id": "text",
    "int": "int",
    "float": "float",
    "boolean": "boolean",
    "date": "date",
}
FIXED = {CASE: "text", ACTIVITY: "text", TIME: "date"}


def xes(content: bytes) -> list[Case]:
    """The cases of a XES file."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
    )
    root = etree.fromstring(unpacked(content), parser)
    space = etree.QName(root).namespace
    cases, kinds = [], dict[str, set[str]]()

    def attributes(element: Any, prefix: str) -> dict[str, list[tuple[str, str]]]:
        values: dict[str, list[tuple[str, str]]] = {}
        for child in element:
            name = etree.QName(child)
            if name.namespace != space or name.localname not in KINDS:
                continue
            key, value = child.get("key"), child.get("value")
            if not key or value is None:
                raise Unlike("an attribute without key or value")
            if not prefix and key.startswith("case:"):
                continue
            kind = FIXED.get(prefix + key, KINDS[name.localname])
            kinds.setdefault(prefix + key, set()).add(kind)
            values.setdefault(prefix + key, []).append((kind, value))
        return values

    raw = []
    for trace in root:
        if etree.QName(trace).namespace == space and etree.QName(trace).localname == "trace":
            events = [
                e
                for e in trace
                if etree.QName(e).namespace == space and etree.QName(e).localname == "event"
            ]
            raw.append((attributes(trace, "case:"), [attributes(event, "") for event in events]))
    settled = {
        name: next(iter(several))
        if len(several) == 1
        else "float"
        if several == {"int", "float"}
        else "text"
        for name, several in kinds.items()
    }
    for values, events in raw:
        cases.append(Case(_typed(values, settled), [_typed(event, settled) for event in events]))
    return cases


def _typed(values: dict[str, list[tuple[str, str]]], settled: dict[str, str]) -> Values:
    typed: Values = {}
    for name, given in values.items():
        for _, text in given:
            typed[name] = _value(settled[name], text)
    return typed


def _value(kind: str, text: str) -> Any:
    plain = text.strip(" \t\r\n")
    match kind:
        case "int":
            return int(plain)
        case "float":
            return float(plain)
        case "boolean":
            return {"true": True, "1": True, "false": False, "0": False}[plain.lower()]
        case "date":
            if (read := moment(plain)) is None:
                raise Unlike(f"no time: {plain[:40]!r}")
            return read
    return text


def csv_rows(content: bytes) -> tuple[list[str], list[list[str | None]]]:
    """Header and rows of a CSV file, blank lines left out."""
    text = unpacked(content).removeprefix(b"\xef\xbb\xbf").decode()
    first = re.sub('"[^"]*"', "", text.split("\n", 1)[0])
    separator = max(",;\t", key=first.count)
    csv.field_size_limit(1 << 30)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    if any(row and len(row) != len(rows[0]) for row in rows):
        raise Unlike("rows of several lengths")
    return rows[0], [[field or None for field in row] for row in rows[1:] if row]


def cases_of(
    header: list[str], rows: list[list[Any]], standard: dict[str, str], times: Callable[[Any], Any]
) -> list[Case]:
    """The cases of a flat table; ``standard`` says which columns are the standard ones."""
    names = {column: full for full, column in standard.items()}
    full = [
        names.get(name) or ("case:" + name[5:] if name.startswith("CASE_") else name)
        for name in header
    ]
    cases: dict[Any, Case] = {}
    for row in rows:
        values = {name: value for name, value in zip(full, row, strict=True) if value is not None}
        if CASE not in values:
            continue
        if TIME in values:
            values[TIME] = times(values[TIME])
        case = cases.setdefault(str(values[CASE]), Case({CASE: values[CASE]}))  # NaN is not itself
        for name, value in values.items():
            if name.startswith("case:"):
                case.values.setdefault(name, value)
        case.events.append(
            {name: value for name, value in values.items() if not name.startswith("case:")}
        )
    return list(cases.values())


def parquet_rows(content: bytes) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of a Parquet file; times as microseconds since 1970."""
    import pyarrow as pa

    table = pq.read_table(io.BytesIO(content))
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            per = {"s": 10**-6, "ms": 10**-3, "us": 1, "ns": 1000}[kind.unit]
            whole = column.cast(pa.int64()).to_pylist()
            scaled = [
                None if v is None else v // 1000 if per == 1000 else v * round(1 / per)
                for v in whole
            ]
            columns.append(scaled)
        else:
            columns.append([_from_arrow(value) for value in column.to_pylist()])
    return table.column_names, [list(row) for row in zip(*columns, strict=True)]


def _from_arrow(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) - EPOCH) // timedelta(
            microseconds=1
        )
    return value


def same(ours: Any, theirs: Any, *, spelt: bool) -> bool:
    """Whether a value of a log is what a second reader found; ``spelt``: that one is the text of a
    CSV field.
    """
    if isinstance(ours, datetime):
        ours = (ours - EPOCH) // timedelta(microseconds=1)
        return ours == (moment(theirs) if isinstance(theirs, str) else theirs)
    if not spelt:
        if isinstance(theirs, float) and math.isnan(theirs):
            return str(ours).lower() == "nan"
        if isinstance(theirs, decimal.Decimal):
            return decimal.Decimal(str(ours)) == theirs
        if isinstance(theirs, time):
            return str(ours).rstrip("0").rstrip(".") == str(theirs).rstrip("0").rstrip(
                "."
            ) or ours == str(theirs)
        return ours == theirs or str(ours).lower() == str(theirs).lower()
    if isinstance(ours, bool):
        return theirs in (str(ours), str(ours).lower(), str(ours).upper())
    if isinstance(ours, int):
        return str(ours) == theirs
    if isinstance(ours, float):
        return float(theirs) == ours and not re.match(r"[+]|-?0\d|.*[+]|.*E", theirs)
    return bool(ours == theirs)


__all__ = [
    "ACTIVITY",
    "CASE",
    "TIME",
    "Case",
    "Unlike",
    "cases_of",
    "csv_rows",
    "moment",
    "parquet_rows",
    "same",
    "xes",
]
