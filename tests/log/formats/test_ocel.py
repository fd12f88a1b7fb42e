"""Object-centric logs, flattened by one object type; hostile databases."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
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

NAMES = ("one.xmlocel", "one.csv", "one.jsonocel", "two.xml", "two.ocel.csv")
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
    if name.startswith("two"):
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


ODD = 'o1/a#b{c}\\d, "q"'
TYPE = 'it, "em"/#{x}'


def odd_log() -> dict[str, Any]:
    """Names and values that a cell has to escape, values of every kind and missing ones, as OCEL
    2.0 in JSON.
    """
    first = "1970-01-01T00:00:00Z"
    given = [
        (ODD, "state", first, "open"),
        (ODD, "state", "2024-03-02T00:00:00Z", 's{e}n/t#"x"\\ '),
        (ODD, "price", first, 3.5),
        (ODD, "zip", first, "12345"),
        (ODD, "due", first, "2024-05-01T10:00:00Z"),
        (ODD, "paid", first, True),
        ("o2", "state", "2024-03-05T00:00:00Z", "late"),
        ("o2", "zip", first, "54321"),
        ("o2", "paid", first, False),
        ("i1", "weight", first, 1),
    ]
    between = [(ODD, "i1", "has"), (ODD, "i2", "a/b"), ("o2", "o2", "self")]
    types = {ODD: "order", "o2": "order", "i1": TYPE, "i2": TYPE, "o3": "order", "x": "idle"}
    kinds = {"state": "string", "price": "float", "zip": "string", "due": "time"}
    kinds |= {"paid": "boolean", "weight": "integer"}
    objects = [
        {
            "id": id_,
            "type": type_,
            "attributes": [
                {"name": name, "time": time, "value": value}
                for owner, name, time, value in given
                if owner == id_
            ],
            "relationships": [
                {"objectId": target, "qualifier": how}
                for source, target, how in between
                if source == id_
            ],
        }
        for id_, type_ in types.items()
    ]
    rows: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
        ("place", {"cost": 12.5, 'who, "x"': 'Ann, "A"\nB', "late": True, "count": 7}, []),
        ("place", {"cost": 7.0, "late": False, "when": "2024-03-01T10:00:00Z"}, [("o2", "pays")]),
        ("ship", {}, [("o2", "x"), (ODD, "y"), ("i1", "z")]),
        ("audit", {'who, "x"': "7"}, [("i1", "")]),
        ("o2o?", {}, [(ODD, "")]),
    ]
    rows[0][2].extend([(ODD, "pays"), (ODD, "again/#{"), ("i1", "of"), ("i2", "")])
    events = [
        {
            "id": f"e{place}",
            "type": type_,
            "time": f"2024-03-0{place + 1}T10:00:00Z",
            "attributes": [{"name": name, "value": value} for name, value in values.items()],
            "relationships": [{"objectId": id_, "qualifier": how} for id_, how in related],
        }
        for place, (type_, values, related) in enumerate(rows)
    ]
    of_events = {"cost": "float", 'who, "x"': "string", "late": "boolean", "count": "integer"}
    of_events |= {"when": "time"}
    return {
        "objects": objects,
        "events": events,
        "objectTypes": [{"name": each, "attributes": listed(kinds)} for each in {*types.values()}],
        "eventTypes": [{"name": each["type"], "attributes": listed(of_events)} for each in events],
    }


def listed(kinds: dict[str, str]) -> list[dict[str, str]]:
    """Attributes as a type declares them."""
    return [{"name": name, "type": kind} for name, kind in kinds.items()]


@pytest.mark.parametrize("object_type", ["order", TYPE])
def test_compact_csv_is_read_as_the_same_log_in_json(object_type: str, tmp_path: Path) -> None:
    """Both of pm4py, which says in JSON that truth values beside missing ones are texts."""
    pm4py = pytest.importorskip("pm4py")
    (tmp_path / "ours.json").write_text(json.dumps(odd_log()))
    log = pm4py.read_ocel2_json(str(tmp_path / "ours.json"))
    pm4py.write_ocel2_json(log, str(tmp_path / "log.json"))
    pm4py.write_ocel2_csv(log, str(tmp_path / "log.ocel.csv"))
    found, expected = (
        flattened(tmp_path / name, object_type) for name in ("log.ocel.csv", "log.json")
    )
    for part in ("cases", "events"):
        theirs = getattr(expected, part)
        ours = getattr(found, part).select(theirs.columns)
        as_texts = pl.col(pl.Boolean).cast(pl.String)
        assert ours.with_columns(as_texts).equals(theirs), part
    assert found.notes == expected.notes and len(found.notes) > 4
    if object_type == "order":
        assert found.cases["case:paid"].to_list() == [True, False]
        assert found.cases["case:zip"].to_list() == ["12345", "54321"]
        assert found.cases["case:due"][0].year == 2024


def test_compact_csv_is_known_by_its_first_line(by_pm4py: Path, tmp_path: Path) -> None:
    """Whatever separates its fields; a table without types of objects is one."""
    (answer,) = examine_input(by_pm4py / "two.ocel.csv").unanswered
    assert (answer.name, answer.candidates) == ("object_type", ("item", "order"))
    path = tmp_path / "log.csv"
    for text in (COMPACT, "\ufeff" + COMPACT.replace(",", ";"), COMPACT.replace("id,", '"id",')):
        path.write_text(text, "utf-8")
        assert flattened(path).event_count == 3
    path.write_text(COMPACT.replace("ot:", "of:"))
    assert "object_type under spec.input is not for that" in refused(path, object_type="order")


COMPACT = """id,activity,timestamp,ot:order,ot:item,n
e1,a,2024-01-01T00:00:00Z,o1#x/o2,i1,5
e2,b,2024-01-02T00:00:00Z,"o1{""p"":2}",,

e3,c,2024-01-03T00:00:00Z,,,
o1,o2o,,o2#near,i1,
,,,"o1{""p"":1}",,
,,2024-01-03T00:00:00Z,"o2{""p"":null}/o3{""p"":3}",,
"""


def test_rows_of_compact_csv(tmp_path: Path) -> None:
    """By hand: an event may say a value, too; objects that no event names are counted."""
    path = tmp_path / "log.csv"
    path.write_text(COMPACT)
    log = flattened(path)
    assert log.cases["case:concept:name"].to_list() == ["o1", "o2"]
    assert log.events["concept:name"].to_list() == ["a", "b", "a"]
    assert log.events["object:p"].to_list() == [1, 2, None]
    assert log.events["n"].to_list() == [5, None, 5]
    assert log.notes[1:] == (
        "events of several objects of type 'order', copied into the case of each: 1",
        "cases that one event is in, at most: 2",
        "events of no object of type 'order', left out: 1",
        "objects of type 'order' without events, left out: 1",
        "objects of other types, left out: 1",
        "relations between objects, left out: 2",
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('{""p"":2}', '{""p"":2', ":3: '.*' is no list of objects"),
        ('{""p"":2}', '{""p"":[2]}', ":3: the value of 'p' is no single value"),
        ('{""p"":2}', '{""p"":NaN}', ":3: '.*' is no list of objects"),
        ('{""p"":2}', '{""p"":""\\ud800""}', ":3: '.*' is no list of objects"),
        ('{""p"":2}', "{" + 50_000 * '""p"":{', ":3: '.*' is no list of objects"),
        ('{""p"":2}', '{""p"":2}x', ":3: '.*' is no list of objects"),
        ("o1#x/o2", "o1#x/", ":2: '.*' is no list of objects"),
        ("o1#x/o2", "o1\\x", ":2: '.*' is no list of objects"),
        ("2024-01-02T00:00:00Z", "noon", ":3: the value 'noon' of 'time:timestamp' is no time"),
        ("e3,", "e1,", ":5: two events have the id 'e1'"),
        ("e3,", ",", ":5: an entry of kind event has no id"),
        (",b,", ",,", ":3: an entry of kind event has no type"),
        ("2024-01-02T00:00:00Z", "", ":3: an entry of kind event has no time"),
        ("o1#x/o2,i1", "o1#x/o2,o1", ": two objects have the id 'o1'"),
        ("ot:item", "ot:order", ":1: two columns are called 'ot:order'"),
        ("i1,5", "i1,5,6", ":2: the row has 7 fields, the header 6"),
        ("ot:item,n", "ot:item,case:x", ": an event attribute is called 'case:x'"),
        ('1}",,', '1}",,5', ":7: an entry of kind event has no id"),
    ],
)
def test_faults_of_compact_csv(before: str, after: str, said: str, tmp_path: Path) -> None:
    """Each in one line that names the file's."""
    path = tmp_path / "log.csv"
    assert before in COMPACT
    path.write_text(COMPACT.replace(before, after, 1))
    found = refused(path, object_type="order")
    assert re.match(said, found) and "\n" not in found


def test_limits_hold_in_compact_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(COMPACT)
    options = InputOptions(object_type="order")
    for limits, said in (
        (Limits(attributes=5), ":1: the file has 6 columns"),
        (Limits(attributes=6), "more than 6 attributes"),
        (Limits(value_size=1), "is larger than"),
        (Limits(unpacked_size=100), "more than 100 bytes"),
    ):
        if limits.attributes == 6:
            keys = ",".join(f'""{letter}"":1' for letter in "abcdef")
            path.write_text(COMPACT.replace('""p"":2', keys))
        with pytest.raises(LogError, match=said):
            read_log(path, options=options, limits=limits)
    path.write_text(COMPACT.replace("o1#x/", "o/" * 200_000))
    assert ": its lists of objects take more than 100" in refused(path, object_type="order")


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


def test_objects_may_have_no_times(tmp_path: Path) -> None:
    """As pm4py writes it where no value changes."""
    path = write_sqlite(tmp_path / "log.sqlite")
    with closing(sqlite3.connect(path)) as base, base:
        (table,) = base.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'object_Order%'"
        ).fetchone()
        base.execute(f"ALTER TABLE {table} DROP COLUMN ocel_time")
    log = flattened(path)
    assert log.cases["case:state"].drop_nulls().len() > 0
