"""Whether two event logs are the same, in every column, type, order and note; and logs by one
reader of XES alone.
"""

from pathlib import Path

from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.row_source import ReadRequest, collected
from cloakwork.log.formats.xes import XesReader, XesSource


def read_by(reader: XesReader, path: Path) -> EventLog:
    """A XES file as one of the two readers reads it; raises Declined where that is the fast one."""
    return collected(XesSource((path,), ReadRequest(), (reader,)))


def assert_same_log(expected: EventLog, actual: EventLog, *, notes: bool = True) -> None:
    """Fail with the first difference."""
    assert expected.events.schema == actual.events.schema
    assert expected.cases.schema == actual.cases.schema
    assert expected.offsets.tolist() == actual.offsets.tolist()
    assert expected.events.equals(actual.events), (
        f"{expected.events}\n{actual.events}"
    )  # NaN equals NaN here
    assert expected.cases.equals(actual.cases), f"{expected.cases}\n{actual.cases}"
    if notes:
        assert expected.notes == actual.notes
