"""What the writers put into a file, and what other tools make of it."""

import gzip
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cloakwork.errors import OutputError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import Attribute, Extension, read_annotations, read_log, write_log
from conftest import in_long_form

EDGE = Path(__file__).parents[2] / "logs" / "edge"
ANNOTATIONS = (
    Attribute("cloakwork:version", "0.1"),
    Attribute(
        "cloakwork:guarantees",
        None,
        (
            Attribute("first", 'k & l < "5"', (Attribute("k", 5), Attribute("share", 0.25))),
            Attribute("second", True),
        ),
    ),
    Attribute("cloakwork:written", datetime(2024, 3, 1, 12, tzinfo=UTC)),
)
EXTENSIONS = (Extension("Cloakwork", "cloakwork", "https://example.org/cloakwork.xesext"),)
FORMATS = [
    ("xes", ".xes"),
    ("xes", ".xes.gz"),
    ("csv", ".csv"),
    ("csv", ".csv.gz"),
    ("parquet", ".parquet"),
]


@pytest.fixture
def log() -> EventLog:
    return read_log(EDGE / "all-types.xes")


@pytest.mark.parametrize(("form", "suffix"), FORMATS)
def test_the_same_log_gives_the_same_bytes(
    form: str, suffix: str, log: EventLog, tmp_path: Path
) -> None:
    """Whatever the file is called and whenever it is written."""
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "other")]
    for path in paths:
        write_log(log, path, form, annotations=ANNOTATIONS)  # type: ignore[arg-type]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert b"one" not in paths[0].read_bytes()


def test_gzip_tells_neither_time_nor_name(log: EventLog, tmp_path: Path) -> None:
    """Bytes 4 to 8 of the header are the time; flag 8 announces a name."""
    write_log(log, tmp_path / "log.xes.gz", "xes")
    header = (tmp_path / "log.xes.gz").read_bytes()[:10]
    assert header[4:8] == b"\0\0\0\0"
    assert not header[3] & 8


def test_nothing_of_the_source_header_is_written(tmp_path: Path) -> None:
    """Log attributes, globals and classifiers of the source are not in the result."""
    write_log(read_log(EDGE / "log-attributes.xes"), tmp_path / "log.xes", "xes")
    written = (tmp_path / "log.xes").read_text()
    assert "secret" not in written
    assert "meta" not in written
    assert read_annotations(tmp_path / "log.xes") == ()


def false_globals(path: Path) -> list[str]:
    """What a XES file declares of every trace or event, and does not hold of each; classifiers that
    name what is not declared of events.
    """
    root = ET.parse(path).getroot()
    space = root.tag.removesuffix("log")
    wrong = []
    of_events: set[str] = set()
    for declared in root.iter(f"{space}global"):
        wanted = {each.attrib["key"]: each.tag for each in declared}
        if declared.attrib["scope"] == "event":
            of_events |= wanted.keys()
        for element in root.iter(space + declared.attrib["scope"]):
            held = {each.attrib.get("key", ""): each.tag for each in element}
            wrong += [name for name, tag in wanted.items() if held.get(name) != tag]
    named = {each.attrib["keys"] for each in root.iter(f"{space}classifier")}
    return [*wrong, *(named - of_events)]


WITHOUT = {
    "nothing": {},
    "times": {"events": ["time:timestamp"]},
    "activities": {"events": ["concept:name"]},
    "ids": {"cases": ["case:concept:name"]},
    "all": {"events": ["concept:name", "time:timestamp"], "cases": ["case:concept:name"]},
}


@pytest.mark.parametrize("lacking", WITHOUT)
@pytest.mark.parametrize("some", [False, True])
def test_what_is_declared_of_all_holds_of_all(some: bool, lacking: str, tmp_path: Path) -> None:
    """Whether a column is missing whole, or in one row."""
    events = pl.DataFrame(
        {"concept:name": ["a", "b"], "time:timestamp": [datetime(2024, 3, 1, tzinfo=UTC)] * 2}
    )
    cases = pl.DataFrame({"case:concept:name": ["1", "2"]})
    tables = {
        name: table.with_columns(other=1) for name, table in (("events", events), ("cases", cases))
    }
    for table, names in WITHOUT[lacking].items():
        whole = tables[table]
        first = [pl.when(pl.int_range(pl.len()) > 0).then(pl.col(name)) for name in names]
        tables[table] = whole.with_columns(first) if some else whole.drop(names)
    log = EventLog.build(tables["events"], tables["cases"], np.array([0, 1]))
    write_log(log, tmp_path / "log.xes", "xes", annotations=ANNOTATIONS)
    assert false_globals(tmp_path / "log.xes") == []
    text = (tmp_path / "log.xes").read_text()
    assert text.count("<classifier ") == (lacking not in ("activities", "all"))
    assert text.count('<date key="time:timestamp" value="1970') == (lacking not in ("times", "all"))


def test_a_declaration_that_does_not_hold_is_seen(log: EventLog, tmp_path: Path) -> None:
    """The twin: a header that declares times, above events that have none."""
    path = tmp_path / "log.xes"
    write_log(log, path, "xes")
    assert false_globals(path) == []
    path.write_text(path.read_text().replace('key="time:timestamp"', 'key="time:other"', 2))
    assert false_globals(path) == ["time:other"] * (log.events.height - 1)


@pytest.mark.parametrize("suffix", [".xes", ".xes.gz"])
def test_annotations_are_read_back(suffix: str, log: EventLog, tmp_path: Path) -> None:
    """With their types, nested ones too."""
    path = tmp_path / f"log{suffix}"
    write_log(log, path, "xes", annotations=ANNOTATIONS, extensions=EXTENSIONS)
    assert read_annotations(path) == ANNOTATIONS


def test_annotations_do_not_reach_the_log(log: EventLog, tmp_path: Path) -> None:
    """What a log says of itself is no attribute of its cases."""
    write_log(log, tmp_path / "log.xes", "xes", annotations=ANNOTATIONS)
    assert log.columns == read_log(tmp_path / "log.xes").columns


def test_annotations_lie_in_the_footer_of_a_parquet_file(log: EventLog, tmp_path: Path) -> None:
    """As pairs of path and text."""
    path = tmp_path / "log.parquet"
    write_log(log, path, "parquet", annotations=ANNOTATIONS)
    metadata = pl.read_parquet_metadata(path)
    assert metadata["cloakwork:version"] == "0.1"
    assert metadata["cloakwork:guarantees/first/k"] == "5"


def test_characters_that_xml_forbids_are_replaced(log: EventLog, tmp_path: Path) -> None:
    """By U+FFFD; tab and line breaks, which XML can express, stay."""
    events = log.events.with_columns(pl.lit("a\0b\x1fc\ufffed\te\nf\rg\x7f").alias(ACTIVITY))
    write_log(EventLog(events, log.cases, log.offsets), tmp_path / "log.xes", "xes")
    assert read_log(tmp_path / "log.xes").events[ACTIVITY].to_list() == [
        "a\ufffdb\ufffdc\ufffdd\te\nf\rg\x7f"
    ]


@pytest.mark.parametrize(("form", "suffix"), FORMATS)
def test_an_empty_log_can_be_written(form: str, suffix: str, tmp_path: Path) -> None:
    """And is an empty log when read again."""
    path = tmp_path / f"log{suffix}"
    write_log(EventLog.empty(), path, form)  # type: ignore[arg-type]
    log = read_log(path)
    assert (log.cases.height, log.events.height) == (0, 0)
    assert log.columns == (CASE_ID, ACTIVITY, TIMESTAMP)


@pytest.mark.parametrize("name", ["same-id.xes", "no-id.xes"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_cases_that_a_table_would_merge_are_refused(name: str, form: str, tmp_path: Path) -> None:
    """Two cases with one id are told apart in XES only."""
    with pytest.raises(OutputError, match="write XES"):
        write_log(read_log(EDGE / name), tmp_path / f"log.{form}", form)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["same-id.xes", "no-id.xes", "empty-traces.xes"])
def test_xes_keeps_cases_apart(name: str, tmp_path: Path) -> None:
    """Cases with one id, without an id, without events."""
    log = read_log(EDGE / name)
    write_log(log, tmp_path / "log.xes", "xes")
    back = read_log(tmp_path / "log.xes")
    assert log.cases.equals(back.cases)
    assert log.offsets.tolist() == back.offsets.tolist()


@pytest.mark.parametrize("form", ["xes", "csv", "parquet"])
def test_a_place_that_is_not_there_is_told(form: str, log: EventLog, tmp_path: Path) -> None:
    """As an ``OutputError`` of one line."""
    with pytest.raises(OutputError, match=r"log\.x: cannot be written") as refusal:
        write_log(log, tmp_path / "none" / "log.x", form)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_csv_is_what_pm4py_writes(log: EventLog, tmp_path: Path) -> None:
    """Its column names; lines as RFC 4180 has them; times in UTC with their offset."""
    write_log(log, tmp_path / "log.csv", "csv")
    lines = (tmp_path / "log.csv").read_bytes().split(b"\r\n")
    assert lines[0].startswith(b"case:concept:name,case:age,concept:name,time:timestamp,")
    assert lines[1].startswith(b"1,5,a,2024-03-01T10:00:00.000000+00:00,")


@pytest.mark.parametrize("variant", ["ITERPARSE", *in_long_form("CHUNK_REGEX", "LINE_BY_LINE")])
def test_pm4py_opens_what_is_written(variant: str, log: EventLog, tmp_path: Path) -> None:
    """With the same attributes on cases and events."""
    pytest.importorskip("pm4py")
    from pm4py.objects.log.importer.xes import importer

    path = tmp_path / "log.xes"
    write_log(log, path, "xes", annotations=ANNOTATIONS, extensions=EXTENSIONS)
    opened = importer.apply(
        str(path), variant=importer.Variants[variant], parameters={"show_progress_bar": False}
    )
    trace = opened[0]
    assert dict(trace.attributes) == {"concept:name": "1", "age": 5}
    assert trace[0]["i"] == -7
    assert trace[0]["d"] == datetime(2024, 1, 1, tzinfo=UTC)
    if variant == "LINE_BY_LINE":  # which reads nothing of the log element
        return
    assert opened.attributes["cloakwork:version"] == "0.1"
    assert {"first", "second"} == set(dict(opened.attributes["cloakwork:guarantees"]["children"]))


def test_packed_files_hold_the_plain_ones(log: EventLog, tmp_path: Path) -> None:
    """Packing changes nothing else."""
    for form in ("xes", "csv"):
        write_log(log, tmp_path / f"log.{form}", form)  # type: ignore[arg-type]
        write_log(log, tmp_path / f"log.{form}.gz", form)  # type: ignore[arg-type]
        assert (tmp_path / f"log.{form}").read_bytes() == gzip.decompress(
            (tmp_path / f"log.{form}.gz").read_bytes()
        )
