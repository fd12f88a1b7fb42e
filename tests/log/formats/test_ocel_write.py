"""A log as OCEL 2.0: valid by the standard, and the same log when it is read again."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from jsonschema import Draft7Validator

from cloakwork import EventLog, read_log
from cloakwork.engines import partition
from cloakwork.errors import OutputError
from cloakwork.log.formats import InputOptions, ReadRequest
from cloakwork.log.formats.ocel_write import write_ocel
from cloakwork.publishing.publish import convert
from conftest import EXAMPLES

VISIT = InputOptions(object_type="visit")
START = datetime(2024, 3, 30, 22, 0, tzinfo=UTC)
TEXT: dict[str, Any] = {"type": "string"}
TIME = {"type": "string", "format": "date-time"}


def listed(**fields: Any) -> dict[str, Any]:
    """A list of objects that have these fields."""
    asked = [name for name in fields if name not in ("relationships", "attributes")]
    item = {"type": "object", "properties": fields, "required": asked}
    return {"type": "array", "items": item}


RELATIONS = listed(objectId=TEXT, qualifier=TEXT)
TYPES = listed(name=TEXT, attributes=listed(name=TEXT, type=TEXT))
TYPES["items"]["required"] = ["name", "attributes"]
STANDARD = {
    "type": "object",
    "required": ["eventTypes", "objectTypes", "events", "objects"],
    "properties": {
        "eventTypes": TYPES,
        "objectTypes": TYPES,
        "events": listed(
            id=TEXT,
            type=TEXT,
            time=TIME,
            attributes=listed(name=TEXT, value=TEXT),
            relationships=RELATIONS,
        ),
        "objects": listed(
            id=TEXT,
            type=TEXT,
            attributes=listed(name=TEXT, value=TEXT, time=TIME),
            relationships=RELATIONS,
        ),
    },
}
"""What the standard asks of a document (OCEL 2.0 Specification, JSON)."""


def small() -> EventLog:
    """Names and values that could be taken for something else, and some that are missing."""
    table = {
        "case:concept:name": ["a", "a", "b", "Ä\n"],
        "concept:name": ["Buy", "*", 'say "x"', "Buy"],
        "time:timestamp": [START + timedelta(hours=n) for n in range(4)],
        "case:age": [61, 61, 7, None],
        "case:^x.*$": ["p", "p", "q", "q"],
        "cost": [1.5, None, 3.0, float("inf")],
        "is_late": [True, False, None, True],
        "due": [START, None, START, START],
    }
    return EventLog.from_polars(pl.DataFrame(table))


def read_again(path: Path, object_type: str) -> EventLog:
    """The log of a document."""
    return read_log(path, request=ReadRequest(options=InputOptions(object_type=object_type)))


def test_a_document_is_valid_and_says_what_the_log_says(tmp_path: Path) -> None:
    write_ocel(small(), tmp_path / "log.json", "order")
    found = json.loads((tmp_path / "log.json").read_text("utf-8"))
    Draft7Validator(STANDARD).validate(found)
    assert found["objectTypes"] == [
        {
            "name": "order",
            "attributes": [{"name": "age", "type": "integer"}, {"name": "^x.*$", "type": "string"}],
        }
    ]
    kinds = {each["name"]: each["type"] for each in found["eventTypes"][0]["attributes"]}
    assert kinds == {"cost": "float", "is_late": "boolean", "due": "time"}
    assert {each["name"] for each in found["eventTypes"]} == {"Buy", "*", 'say "x"'}
    again = read_again(tmp_path / "log.json", "order")
    for name in ("concept:name", "time:timestamp", "cost", "is_late", "due"):
        assert again.events[name].to_list() == small().events[name].to_list(), name
    assert again.cases["case:age"].to_list() == [61, 7, None]
    assert again.cases["case:concept:name"].to_list() == ["a", "b", "Ä\n"]


def test_batches_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the order of cases; and a converted log is the log."""
    log = EXAMPLES / "hospital.xes.gz"
    write_ocel(read_log(log), tmp_path / "whole.json", "visit")
    monkeypatch.setattr(partition, "EVENTS_A_PART", 500)
    convert(log, tmp_path / "parts.json", "ocel-json", VISIT)
    whole, parts = (
        json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in ("whole", "parts")
    )
    assert whole["eventTypes"] == parts["eventTypes"]

    def told(found: dict[str, Any]) -> list[Any]:
        events = [{**each, "id": ""} for each in found["events"]]
        return [sorted(map(repr, rows)) for rows in (events, found["objects"])]

    assert told(whole) == told(parts)
    assert len({each["id"] for each in parts["events"]}) == len(parts["events"]) == 7_472
    back = tmp_path / "back.parquet"
    convert(tmp_path / "parts.json", back, "parquet", VISIT)
    assert read_log(back).event_count == 7_472


def test_pm4py_reads_it(tmp_path: Path) -> None:
    pm4py = pytest.importorskip("pm4py")
    write_ocel(small(), tmp_path / "log.json", "order")
    found = pm4py.read_ocel2_json(str(tmp_path / "log.json"))
    assert sorted(found.events["ocel:activity"]) == sorted(small().events["concept:name"])
    assert set(found.objects["ocel:oid"]) == {"a", "b", "Ä\n"}
    assert sorted(found.objects["age"].dropna()) == [7, 61]
    assert set(found.relations["ocel:type"]) == {"order"}
    flat = pm4py.ocel_flattening(found, "order")
    assert flat["time:timestamp"].tolist() == small().events["time:timestamp"].to_list()


@pytest.mark.parametrize("column", ["case:concept:name", "concept:name", "time:timestamp"])
def test_what_the_standard_asks_for_must_be_there(tmp_path: Path, column: str) -> None:
    log = small()
    part = "cases" if column.startswith("case:") else "events"
    is_first = pl.int_range(pl.len()) == 0
    broken = getattr(log, part).with_columns(pl.when(~is_first).then(column).alias(column))
    with pytest.raises(OutputError, match=r"cannot be written as OCEL 2\.0"):
        write_ocel(replace(log, **{part: broken}), tmp_path / "log.json", "order")


def test_two_cases_of_one_id_are_not_written_as_one(tmp_path: Path) -> None:
    """Where they stand in a file, too, and nothing is left of it."""
    trace = """<trace><string key="concept:name" value="a"/><event>
      <string key="concept:name" value="x"/><date key="time:timestamp" value="2024-01-01"/>
      </event></trace>"""
    log = tmp_path / "log.xes"
    log.write_text(f"<log>{trace}{trace}</log>", "utf-8")
    with pytest.raises(OutputError, match="each case needs an id of its own"):
        convert(log, tmp_path / "log.json", "ocel-json")
    assert [path.name for path in tmp_path.iterdir()] == ["log.xes"]


def test_a_log_without_cases_is_a_document(tmp_path: Path) -> None:
    write_ocel(EventLog.empty(), tmp_path / "log.json", "order")
    found = json.loads((tmp_path / "log.json").read_text("utf-8"))
    Draft7Validator(STANDARD).validate(found)
    assert not found["events"] and not found["objects"]
