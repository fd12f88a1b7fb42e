"""A small object-centric log, written as JSON and as SQLite (OCEL 2.0), and as JSON of OCEL 1.0."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

EVENTS: Final[list[tuple[str, str, str, dict[str, Any], list[str]]]] = [
    ("e1", "place order", "2024-03-01T10:00:00Z", {"cost": 12.5}, ["o1", "i1", "i2"]),
    ("e2", "place order", "2024-03-01T11:00:00Z", {"cost": 7}, ["o2", "i3"]),
    ("e3", "ship", "2024-03-02T10:00:00Z", {}, ["o1", "o2", "i1", "i3"]),
    ("e4", "audit", "2024-03-02T11:00:00Z", {}, ["i1"]),
    ("e5", "pay", "2024-03-02T10:00:00Z", {}, ["o1"]),
]
OBJECTS: Final = {"o1": "order", "o2": "order", "o3": "order", "i1": "item", "i2": "item"} | {
    "i3": "item"
}
STATES: Final = [
    ("o1", "1970-01-01T00:00:00Z", "open"),
    ("o1", "2024-03-02T00:00:00Z", "sent"),
    ("o2", "2024-03-05T00:00:00Z", "late"),
]
BETWEEN: Final = [("o1", "i1"), ("o1", "i2")]


def write_json(path: Path) -> Path:
    """The log as JSON."""
    document = {
        "objectTypes": [
            {"name": "order", "attributes": [{"name": "state", "type": "string"}]},
            {"name": "item", "attributes": []},
        ],
        "eventTypes": [
            {"name": name, "attributes": attributes}
            for name, attributes in (
                ("place order", [{"name": "cost", "type": "float"}]),
                ("ship", []),
                ("audit", []),
                ("pay", []),
            )
        ],
        "objects": [
            {
                "id": id_,
                "type": type_,
                "attributes": [
                    {"name": "state", "time": time, "value": value}
                    for owner, time, value in STATES
                    if owner == id_
                ],
                "relationships": [
                    {"objectId": target, "qualifier": "has"}
                    for source, target in BETWEEN
                    if source == id_
                ],
            }
            for id_, type_ in OBJECTS.items()
        ],
        "events": [
            {
                "id": id_,
                "type": type_,
                "time": time,
                "attributes": [{"name": name, "value": value} for name, value in values.items()],
                "relationships": [{"objectId": each, "qualifier": "of"} for each in objects],
            }
            for id_, type_, time, values, objects in EVENTS
        ],
    }
    path.write_text(json.dumps(document), "utf-8")
    return path


def write_sqlite(path: Path) -> Path:
    """The log as a SQLite database."""
    short = {"place order": "PlaceOrder", "ship": "Ship", "audit": "Audit", "pay": "Pay"}
    with closing(sqlite3.connect(path)) as base, base:
        base.executescript("""
            PRAGMA synchronous = OFF;
            PRAGMA journal_mode = OFF;
            CREATE TABLE event (ocel_id TEXT PRIMARY KEY, ocel_type TEXT);
            CREATE TABLE object (ocel_id TEXT PRIMARY KEY, ocel_type TEXT);
            CREATE TABLE event_object
              (ocel_event_id TEXT, ocel_object_id TEXT, ocel_qualifier TEXT);
            CREATE TABLE object_object
              (ocel_source_id TEXT, ocel_target_id TEXT, ocel_qualifier TEXT);
            CREATE TABLE event_map_type (ocel_type TEXT, ocel_type_map TEXT);
            CREATE TABLE object_map_type (ocel_type TEXT, ocel_type_map TEXT);
            CREATE TABLE event_PlaceOrder (ocel_id TEXT, ocel_time TIMESTAMP, cost REAL);
            CREATE TABLE event_Ship (ocel_id TEXT, ocel_time TIMESTAMP);
            CREATE TABLE event_Audit (ocel_id TEXT, ocel_time TIMESTAMP);
            CREATE TABLE event_Pay (ocel_id TEXT, ocel_time TIMESTAMP);
            CREATE TABLE object_Order
              (ocel_id TEXT, ocel_time TIMESTAMP, state TEXT, ocel_changed_field TEXT);
            CREATE TABLE object_Item (ocel_id TEXT, ocel_time TIMESTAMP, ocel_changed_field TEXT);
            INSERT INTO object_map_type VALUES ('order', 'Order'), ('item', 'Item');
        """)
        base.executemany("INSERT INTO event_map_type VALUES (?, ?)", short.items())
        base.executemany("INSERT INTO object VALUES (?, ?)", OBJECTS.items())
        base.executemany("INSERT INTO object_object VALUES (?, ?, 'has')", BETWEEN)
        for id_, type_, time, values, objects in EVENTS:
            base.execute("INSERT INTO event VALUES (?, ?)", (id_, type_))
            row = (id_, time, *values.values())
            marks = ", ".join("?" * len(row))
            base.execute(f"INSERT INTO event_{short[type_]} VALUES ({marks})", row)
            base.executemany(
                "INSERT INTO event_object VALUES (?, ?, 'of')", [(id_, each) for each in objects]
            )
        base.executemany(
            "INSERT INTO object_Order VALUES (?, ?, ?, 'state')",
            [(owner, time, value) for owner, time, value in STATES],
        )
    return path


def write_first_json(path: Path) -> Path:
    """The log as OCEL 1.0 has it: objects have one value of an attribute, and no relations."""
    last = {owner: value for owner, _, value in STATES}
    document = {
        "ocel:global-log": {"ocel:version": "1.0", "ocel:object-types": ["order", "item"]},
        "ocel:events": {
            id_: {
                "ocel:activity": type_,
                "ocel:timestamp": time,
                "ocel:omap": objects,
                "ocel:vmap": values,
            }
            for id_, type_, time, values, objects in EVENTS
        },
        "ocel:objects": {
            id_: {
                "ocel:type": type_,
                "ocel:ovmap": {"state": last[id_]} if id_ in last else {},
            }
            for id_, type_ in OBJECTS.items()
        },
    }
    path.write_text(json.dumps(document))
    return path
