"""Logs that trip readers: what ``read_log`` makes of them, and that both XES readers agree."""

from pathlib import Path

import pytest
import yaml

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.log.formats.xes_fast import Declined, fast_chunks
from cloakwork.log.formats.xes_full import full_chunks
from log_equality import assert_same_log, read_by

EDGE = Path(__file__).parent / "edge"
EXPECTED = yaml.safe_load((EDGE / "expected.yaml").read_text("utf-8"))
XES = sorted(name for name, expected in EXPECTED.items() if "reader" in expected)


def _cases(log: EventLog) -> list[list[object]]:
    bounds = zip(log.offsets[:-1], log.offsets[1:], strict=True)
    labels = [log.events[ACTIVITY][start:end].to_list() for start, end in bounds]
    return [[name, events] for name, events in zip(log.cases[CASE_ID], labels, strict=True)]


def _columns(log: EventLog) -> dict[str, list[object]]:
    standard = {CASE_ID, ACTIVITY, TIMESTAMP}
    columns = [
        table[name]
        for table in (log.cases, log.events)
        for name in table.columns
        if name not in standard
    ]
    return {column.name: [_plain(value) for value in column] for column in columns}


def _plain(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value


def test_every_edge_file_has_an_expectation() -> None:
    """A file without one would be tested by nobody."""
    assert sorted(EXPECTED) == sorted(
        path.name for path in EDGE.iterdir() if path.suffix != ".yaml"
    )


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_edge_file_is_read_as_expected(name: str) -> None:
    """Cases, activities, times, further columns and notes are those written down."""
    expected = EXPECTED[name]
    log = read_log(EDGE / name)
    assert expected["cases"] == _cases(log)
    assert expected.get("columns", {}) == _columns(log)
    assert expected.get("notes", []) == [note for note in log.notes if "was taken as" not in note]
    times = [_plain(time) for time in log.events[TIMESTAMP]]
    if "times" in expected:
        assert expected["times"] == times
    else:
        assert all(str(time).startswith("2024-03-01T10:0") for time in times)


@pytest.mark.parametrize("name", XES)
def test_both_readers_agree_on_every_edge_file(name: str) -> None:
    """The fast reader gives what the full parser gives, or declines, as written down."""
    full = read_by(full_chunks, EDGE / name)
    if EXPECTED[name]["reader"] == "fast":
        assert_same_log(full, read_by(fast_chunks, EDGE / name))
    else:
        with pytest.raises(Declined):
            read_by(fast_chunks, EDGE / name)


def test_a_multi_byte_character_lies_across_byte_4096() -> None:
    """The fixture stays what it is meant to be."""
    start = (EDGE / "multi-byte-at-4096.xes").read_bytes()[:4096]
    with pytest.raises(UnicodeDecodeError):
        start.decode()


@pytest.mark.parametrize("name", ["all-types.xes", "nested.xes", "comma.csv", "zoneless.parquet"])
def test_attributes_that_are_not_kept_are_not_read(name: str) -> None:
    """Only the standard columns come, whatever else the file has."""
    log = read_log(EDGE / name, keep=lambda attribute: False)
    assert log.columns == (CASE_ID, ACTIVITY, TIMESTAMP)


def test_keep_speaks_of_full_names() -> None:
    """Case attributes are asked for with their prefix."""
    log = read_log(EDGE / "all-types.xes", keep=lambda attribute: attribute in {"case:age", "i"})
    assert log.columns == (CASE_ID, "case:age", ACTIVITY, TIMESTAMP, "i")


def test_columns_map_standard_names_to_the_files_names() -> None:
    """A mapping wins over what the names suggest."""
    path = EDGE / "case-columns.csv"
    log = read_log(path, columns={CASE_ID: "CASE_age", ACTIVITY: "case_id", TIMESTAMP: "timestamp"})
    assert _cases(log) == [["7", ["1"]]]
