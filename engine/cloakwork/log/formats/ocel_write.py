"""Writing OCEL 2.0 in JSON (ocel-standard.org, "OCEL 2.0 Specification"): each case is an object of
one type, and each event names the one that it is of. Values are texts, as the standard has them,
beside what their attribute is declared to be.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import polars as pl

from cloakwork.base.errors import OutputError
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, values_of
from cloakwork.log.eventlog import LogHandle
from cloakwork.log.formats.csv import field_texts
from cloakwork.log.formats.source import open_output

_AT_FIRST: Final = "1970-01-01T00:00:00Z"
"""Since when an attribute of an object has its value, as the standard writes it."""

Entry = dict[str, Any]


def write_ocel(log: LogHandle, path: Path, object_type: str) -> None:
    """Write ``log`` a batch at a time; its cases become objects of ``object_type``. Raises
    OutputError where a case has no id of its own, or an event no activity or no time, which the
    standard asks for; ``OSError`` when it cannot be written.
    """
    activities: set[str] = set()
    # All batches have the same columns.
    columns = next(iter(log.batches()))
    declared = _declared(columns.cases, CASE_ID), _declared(columns.events, ACTIVITY, TIMESTAMP)

    def objects() -> Iterator[Entry]:
        for batch in log.batches():
            for entry in _entries(batch.cases, {"id": CASE_ID}, path):
                for attribute in entry["attributes"]:
                    attribute["time"] = _AT_FIRST
                yield {**entry, "type": object_type}

    def events() -> Iterator[Entry]:
        number = 0
        for batch in log.batches():
            owners = batch.cases[CASE_ID].cast(pl.String)[batch.case_of]
            entries = _entries(batch.events, {"type": ACTIVITY, "time": TIMESTAMP}, path)
            for entry, owner in zip(entries, owners, strict=True):
                number += 1
                activities.add(entry["type"])
                relation = {"objectId": owner, "qualifier": object_type}
                yield {"id": f"e{number}", **entry, "relationships": [relation]}

    with open_output(path) as file:
        file.write(b'{"objects": [')
        _write(file, objects())
        file.write(b'], "events": [')
        _write(file, events())
        file.write(b'], "objectTypes": [')
        _write(file, [{"name": object_type, "attributes": declared[0]}])
        file.write(b'], "eventTypes": [')
        _write(file, ({"name": each, "attributes": declared[1]} for each in sorted(activities)))
        file.write(b"]}\n")


def _write(file: IO[bytes], entries: Iterable[Entry]) -> None:
    for place, entry in enumerate(entries):
        file.write(b",\n" if place else b"\n")
        file.write(json.dumps(entry).encode())


def _entries(table: pl.DataFrame, named: Mapping[str, str], path: Path) -> Iterator[Entry]:
    """Each row: the columns that are ``named``, which have a value everywhere, and as attributes
    the values that it has of the others.
    """
    texts = {name: field_texts(values_of(table, name)) for name in table.columns}
    is_missing = any(name not in texts or texts[name].null_count() for name in named.values())
    # Cases of one id stand in one batch.
    if is_missing or ("id" in named and texts[named["id"]].n_unique() < table.height):
        said = "each case needs an id of its own, each event an activity and a time"
        raise OutputError(f"{path}: cannot be written as OCEL 2.0: {said}; write XES")
    fixed = {key: texts.pop(name).to_list() for key, name in named.items()}
    others = {name.removeprefix(CASE_PREFIX): column.to_list() for name, column in texts.items()}
    for row in range(table.height):
        attributes = [
            {"name": name, "value": column[row]}
            for name, column in others.items()
            if column[row] is not None
        ]
        yield {key: column[row] for key, column in fixed.items()} | {"attributes": attributes}


def _declared(table: pl.DataFrame, *standard: str) -> list[Entry]:
    """What the values of each attribute are."""
    return [
        {"name": name.removeprefix(CASE_PREFIX), "type": _type_of(kind)}
        for name, kind in table.schema.items()
        if name not in standard
    ]


def _type_of(kind: pl.DataType) -> str:
    if kind.is_temporal():
        return "time"
    if kind.is_numeric():
        return "integer" if kind.is_integer() else "float"
    return "boolean" if kind == pl.Boolean else "string"
