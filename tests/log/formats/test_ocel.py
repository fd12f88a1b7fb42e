"""Object-centric logs, flattened by one object type; hostile databases."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import InputOptions, detect_input, examine_input, read_log
from cloakwork.log.limits import Limits
from log.formats.object_logs import (
    EVENTS,
    OBJECTS,
    write_first_json,
    write_json,
    write_sqlite,
)

NAMES = ("one.xmlocel", "one.csv", "one.jsonocel", "two.xml")
"""What pm4py writes: OCEL 1.0, and 2.0."""


@pytest.fixture(scope="module")
def by_pm4py(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log in a folder of files that pm4py wrote."""
    pm4py = pytest.importorskip("pm4py")
    folder = tmp_path_factory.mktemp("by_pm4py")
    log = pm4py.read_ocel2_json(str(write_json(folder / "ours.json")))
    # It leaves out what has no events.
    pm4py.write_ocel2_json(log, str(folder / "log.json"))
    pm4py.write_ocel_xml(log, str(folder / "one.xmlocel"))
    pm4py.write_ocel_csv(log, str(folder / "one.csv"), str(folder / "objects.csv"))
    pm4py.write_ocel_json(log, str(folder / "one.jsonocel"))
    pm4py.write_ocel2_xml(log, str(folder / "two.xml"))
    pm4py.write_ocel2_csv(log, str(folder / "two.ocel.csv"))
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("object_type", ["order", "item"])
def test_what_pm4py_writes_is_read_as_from_json(
    by_pm4py: Path, name: str, object_type: str
) -> None:
    """By its content; what OCEL 1.0 has no place for apart."""
    expected = flattened(by_pm4py / "log.json", object_type)
    log = flattened(by_pm4py / name, object_type)
    flow = ("case:concept:name", "concept:name", "time:timestamp")
    # Cases stand in the order of their objects, which each file lists in its own.
    rows, expected_rows = (
        each.to_polars().sort(flow[0], maintain_order=True) for each in (log, expected)
    )
    assert rows.select(flow).equals(expected_rows.select(flow))
    kept = [
        note
        for note in expected.notes
        if not note.startswith("relations between") or name.startswith("two")
    ]
    assert list(log.notes) == kept
    assert refused(by_pm4py / name).startswith(": this is an object-centric log; its object types")
    assert rows["cost"].cast(float).equals(expected_rows["cost"])
    has_values = name != "one.csv" and object_type == "order"
    assert ("case:state" in log.cases.columns) == has_values
    if name == "two.xml":
        assert rows.equals(expected_rows)


def test_whoever_says_that_it_is_a_table_gets_a_table(by_pm4py: Path) -> None:
    """As it is written, a list of objects being one name; nothing else is guessed."""
    columns = {
        "case": "ocel:type:order",
        "activity": "ocel:activity",
        "timestamp": "ocel:timestamp",
    }
    assert "format the log has" in refused(by_pm4py / "one.csv", columns=columns)
    options = InputOptions(format="csv", columns=columns)
    log = read_log(by_pm4py / "one.csv", options=options)
    assert sorted(map(len, log.cases["case:concept:name"])) == [6, 6, len("['o2', 'o1']")]


def test_the_second_version_in_csv_is_asked_about(by_pm4py: Path) -> None:
    (answer,) = examine_input(by_pm4py / "two.ocel.csv").unanswered
    assert answer.candidates == ("ot:item", "ot:order")
    assert "which objects are cases is open" in answer.question


XML = """<log><object-types><object-type name="order"/></object-types><objects>
<object id="o1" type="order"/></objects><events>
<event id="e1" type="a" time="2024-01-01T00:00:00Z"><objects>
<relationship object-id="o1"/></objects></event></events></log>"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("<log>", '<!DOCTYPE log [<!ENTITY a "b">]><log>', "declares a document type"),
        ("<log>", '<!DOCTYPE log SYSTEM "file:///etc/passwd"><log>', "declares a document type"),
        ('type="a"', 'type="&undeclared;"', "not well formed"),
        ("</log>", "", "not well formed"),
        ("<log>", '<log xmlns="a:b"><log>', "not well formed"),
        ('id="e1"', "", "an entry of kind event has no id"),
        ('object-id="o1"', "", "an entry of kind relationship has no objectId"),
        ("2024-01-01T00:00:00Z", "noon", "the value 'noon'"),
        ('<object id="o1" type="order"/>', 2 * '<object id="o1" type="order"/>', "two objects"),
    ],
)
def test_faults_of_xml(before: str, after: str, said: str, tmp_path: Path) -> None:
    """Each in one line; a log that has none is read."""
    path = tmp_path / "log.xml"
    path.write_text(XML)
    assert flattened(path).events.height == 1
    path.write_text(XML.replace(before, after))
    found = refused(path, object_type="order")
    assert said in found and "\n" not in found


def test_deep_and_large_xml_ends_in_a_line(tmp_path: Path) -> None:
    """What no entry stands in is not kept; a tag is as large as a value may be."""
    path = tmp_path / "log.xml"
    deep = "<a>" * 50_000 + "</a>" * 50_000
    path.write_text(XML.replace("<events>", f"<other>{deep}</other><events>"))
    assert flattened(path).events.height == 1
    path.write_text(XML.replace('type="a"', f'type="{"a" * 3_000_000}"'))
    with pytest.raises(LogError, match="larger than"):
        read_log(path, options=InputOptions(object_type="order"), limits=Limits(value_size=1000))


@pytest.mark.parametrize("name", ["log.xes", "log.xes.gz"])
def test_an_object_centric_log_is_no_xes(name: str, tmp_path: Path) -> None:
    """Neither of OCEL 1.0, which had been read as a log without cases."""
    path = tmp_path / name
    for text in (
        XML,
        XML.replace("<object-types>", "<globals>").replace("</object-types>", "</globals>"),
    ):
        path.write_text(text)
        assert "format: ocel-xml" in refused(path)
        assert read_log(
            path, options=InputOptions(object_type="order", format="ocel-xml")
        ).events.height


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("['o1', 3]", "is no list of objects"),
        ("[" * 5000, "is no list of objects"),
        ("[__import__('os')]", "is no list of objects"),
        ("['o1'", "is no list of objects"),
    ],
)
def test_faults_of_csv(cell: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        f'ocel:eid,ocel:activity,ocel:timestamp,ocel:type:order\ne1,a,2024-01-01,"{cell}"\n'
    )
    found = refused(path, object_type="order")
    assert said in found and "\n" not in found
    # One name by itself, and none.
    path.write_text(path.read_text().replace(f'"{cell}"', "o1") + "e2,b,2024-01-02,\n")
    log = flattened(path)
    assert log.events.height == 1 and log.cases["case:concept:name"].to_list() == ["o1"]
    path.write_text(path.read_text().replace("e2", "e1"))
    assert "two events have the id 'e1'" in refused(path, object_type="order")
    path.write_text(path.read_text().replace("e1,b", ",b"))
    assert "an entry of kind event has no id" in refused(path, object_type="order")


WRITERS = {"log.json": write_json, "log.sqlite": write_sqlite}
FIRST = {"log.jsonocel": write_first_json}


def flattened(path: Path, object_type: str = "order") -> EventLog:
    """The log, one case an object."""
    return read_log(path, options=InputOptions(object_type=object_type))


def refused(path: Path, **options: Any) -> str:
    """What is said of a file, without its path."""
    with pytest.raises(LogError) as refusal:
        read_log(path, options=InputOptions(**options))
    return str(refusal.value).removeprefix(str(path))


@pytest.mark.parametrize("name", WRITERS | FIRST)
@pytest.mark.parametrize("object_type", ["order", "item"])
def test_each_object_is_a_case(name: str, object_type: str, tmp_path: Path) -> None:
    """The same as by hand: its events by time, ties in file order."""
    log = flattened((WRITERS | FIRST)[name](tmp_path / name), object_type)
    expected = {
        object_id: [
            event[1]
            for event in sorted(EVENTS, key=lambda event: event[2])
            if object_id in event[4]
        ]
        for object_id, type_ in OBJECTS.items()
        if type_ == object_type
    }
    activities = log.events["concept:name"].to_list()
    found = {
        id_: activities[log.offsets[row] : log.offsets[row + 1]]
        for row, id_ in enumerate(log.cases["case:concept:name"])
    }
    assert found == {id_: events for id_, events in expected.items() if events}


@pytest.mark.parametrize("name", WRITERS)
def test_attributes_and_losses(name: str, tmp_path: Path) -> None:
    """Values in force, and what flattening costs."""
    log = flattened(WRITERS[name](tmp_path / name))
    assert log.events["cost"].to_list() == [12.5, None, None, 7.0, None]
    assert log.events["object:state"].to_list() == ["open", "sent", "sent", "late", "late"]
    assert log.cases["case:state"].to_list() == ["open", "late"]
    assert log.notes[:7] == (
        "the log was flattened: each object of type 'order' is a case",
        "events of several objects of type 'order', copied into the case of each: 1",
        "cases that one event is in, at most: 2",
        "events of no object of type 'order', left out: 1",
        "objects of type 'order' without events, left out: 1",
        "objects of other types, left out: 3",
        "relations between objects, left out: 2",
    )


def test_the_first_version_says_less(tmp_path: Path) -> None:
    """Values are texts, one of each object; what flattening loses is counted all the same."""
    log = flattened(write_first_json(tmp_path / "log.jsonocel"))
    assert log.events["cost"].to_list() == ["12.5", None, None, "7", None]
    assert log.cases["case:state"].to_list() == ["sent", "late"]
    second = flattened(write_json(tmp_path / "log.json"))
    kept = [note for note in second.notes if not note.startswith("relations between")]
    assert list(log.notes) == kept


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log.update({"ocel:events": 3}), "not as OCEL 1.0"),
        (lambda log: log["ocel:events"].update(e1=[]), "not as OCEL 1.0"),
        (lambda log: log["ocel:events"]["e1"].update({"ocel:omap": 7}), "not as OCEL 1.0"),
        (lambda log: log["ocel:events"]["e1"].update({"ocel:omap": "o1"}), "not as OCEL 1.0"),
        (lambda log: log["ocel:events"]["e1"].update({"ocel:omap": [[]]}), "no objectId"),
        (lambda log: log["ocel:events"]["e1"].update({"ocel:vmap": [1]}), "not as OCEL 1.0"),
        (lambda log: log["ocel:events"]["e1"].update({"ocel:vmap": {"a": {}}}), "no single value"),
        (lambda log: log["ocel:events"]["e1"].pop("ocel:timestamp"), "has no time"),
        (lambda log: log["ocel:events"]["e1"].pop("ocel:activity"), "has no type"),
        (
            lambda log: log["ocel:objects"]["o1"].pop("ocel:type"),
            "an entry of kind object has no type",
        ),
        (lambda log: log.pop("ocel:objects"), "not as OCEL 1.0"),
    ],
)
def test_faults_of_the_first_version(change: Any, said: str, tmp_path: Path) -> None:
    """Each in one line."""
    path = write_first_json(tmp_path / "log.json")
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    found = refused(path, object_type="order")
    assert said in found and "\n" not in found


@pytest.mark.parametrize("name", WRITERS | FIRST)
def test_the_type_is_declared(name: str, tmp_path: Path) -> None:
    """None is chosen."""
    path = (WRITERS | FIRST)[name](tmp_path / name)
    assert refused(path).startswith(": this is an object-centric log; its object types are order, ")
    assert "no object type 'orders'; its object types are" in refused(path, object_type="orders")
    assert "columns under spec.input is not for that" in refused(path, columns={"case": "x"})
    assert detect_input(path) == InputOptions()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log["events"][0].pop("time"), "an entry of kind event has no time"),
        (lambda log: log["events"][0].update(time="noon"), "the value 'noon' of 'time:timestamp'"),
        (lambda log: log["events"][1].update(id="e1"), "two events have the id 'e1'"),
        (lambda log: log.update(objects=3), "'objects' is no list"),
        (lambda log: log["events"][0]["attributes"][0].update(value="x"), "'cost' is no number"),
        (lambda log: log["events"][0]["attributes"][0].update(value=[1]), "no single value"),
        (
            lambda log: log["events"][0]["attributes"][0].update(name="case:x"),
            "would pass as another",
        ),
        (lambda log: log.pop("objectTypes"), "no OCEL 2.0 log"),
    ],
)
def test_faults_of_json(change: Any, said: str, tmp_path: Path) -> None:
    """Each in one line."""
    path = write_json(tmp_path / "log.json")
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    found = refused(path, object_type="order")
    assert said in found and "\n" not in found


def test_deep_json_is_refused(tmp_path: Path) -> None:
    """Whatever the parser does with it."""
    path = tmp_path / "log.json"
    path.write_text("[" * 100_000)
    assert refused(path).startswith(": this is no readable JSON")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE event; CREATE VIEW event AS SELECT 'e1' AS ocel_id, 'ship' AS ocel_type",
        "DROP TABLE event_object; CREATE VIRTUAL TABLE event_object USING fts5(ocel_event_id)",
        "ALTER TABLE object RENAME TO o; CREATE TABLE object (a, ocel_type,"
        " ocel_id GENERATED ALWAYS AS (upper(a)))",
    ],
)
def test_nothing_in_a_database_runs(statement: str, tmp_path: Path) -> None:
    """Views, virtual tables and generated columns are not there."""
    path = write_sqlite(tmp_path / "log.sqlite")
    with closing(sqlite3.connect(path)) as base:
        base.executescript(statement)
    assert "so it is no OCEL 2.0 log" in refused(path, object_type="order") or "has no column" in (
        refused(path, object_type="order")
    )


def test_a_database_is_left_as_it_is_and_counted(tmp_path: Path) -> None:
    """No journal beside it, no byte in it; the limits hold."""
    path = write_sqlite(tmp_path / "log.sqlite")
    before = path.read_bytes()
    flattened(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["log.sqlite"]
    options = InputOptions(object_type="order")
    with pytest.raises(LogError, match="more than 100 bytes, the limit"):
        read_log(path, options=options, limits=Limits(unpacked_size=100))
    path.write_bytes(before[: len(before) // 2])
    assert refused(path, object_type="order").startswith(": this is no readable SQLite log")


def test_an_event_given_twice_is_counted(tmp_path: Path) -> None:
    """The last row counts; that there were two is said."""
    path = write_sqlite(tmp_path / "log.sqlite")
    assert not any("given again" in note for note in flattened(path).notes)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("INSERT INTO event_Ship SELECT * FROM event_Ship")
    assert any("events given again" in note and ": 1" in note for note in flattened(path).notes)
