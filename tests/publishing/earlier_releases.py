"""Guarantees, logs and ledger entries of version 0.1.0."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import Record
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog

EARLIER = Path(__file__).parents[1] / "releases" / "0.1.0"

METRIC = {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]}

K = {"kind": "k-anonymity", "k": 3, "over": ["control-flow"], "scope": "variants", "count": "cases"}

T = {
    "kind": "t-closeness",
    "t": 0.2,
    "attribute": "case:age",
    "distance": "emd",
    "classes": "variants",
}


def timed(cases: list[list[tuple[str, str | None, bool]]]) -> EventLog:
    """Cases of events with an activity, a value, and whether they have a time."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        {
            CASE_ID: str(number),
            ACTIVITY: activity,
            TIMESTAMP: start if has_time else None,
            "value": value,
        }
        for number, events in enumerate(cases)
        for activity, value, has_time in events
    ]
    types = {"value": pl.String, TIMESTAMP: pl.Datetime("us", "UTC")}
    return EventLog.from_polars(pl.DataFrame(rows, schema_overrides=types))


A, B, INSERTED = ("a", "x", True), ("b", None, True), ("b", None, False)


def records(tmp_path: Path) -> tuple[Record, ...]:
    copy = shutil.copy(EARLIER / "ledger.db", tmp_path / "ledger.db")
    return Ledger(f"sqlite:///{copy}").history()
