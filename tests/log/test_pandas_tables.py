"""Tables of pandas and logs of pm4py, there and back."""

import pandas as pd
import pytest

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog

TIMES = pd.to_datetime(["2024-01-01 10:00", "2024-01-01 11:00", "2024-01-02 00:30"])
ROWS = {
    "case:concept:name": ["a", "a", "b"],
    "concept:name": ["x", "y", "x"],
    "time:timestamp": TIMES.tz_localize("Europe/Berlin"),
}


def test_types_and_missing_values_come_back() -> None:
    """Whole numbers stay whole and truth values stay such where some are missing; times are the
    same instants, in UTC.
    """
    own = {
        "count": pd.array([1, None, 2**53 + 1], dtype="Int64"),
        "open": pd.array([True, None, False], dtype="boolean"),
        "share": [0.5, None, 2.0],
        "kind": pd.Categorical(["p", None, "q"]),
        "case:age": pd.array([30, 30, None], dtype="Int64"),
        "case:note": ["n", "n", None],
    }
    frame = pd.DataFrame(ROWS | own)
    log = EventLog.from_pandas(frame)
    assert log.cases.columns == ["case:concept:name", "case:age", "case:note"]
    again = log.to_pandas()
    assert (again["time:timestamp"] == frame["time:timestamp"]).all()
    for name in own:
        assert [None if pd.isna(value) else value for value in again[name]] == [
            None if pd.isna(value) else value for value in frame[name]
        ]
    assert (again["count"].dtype, again["open"].dtype) == ("Int64", "boolean")
    assert EventLog.from_pandas(again).to_polars().equals(log.to_polars())


def test_times_without_a_zone_are_taken_as_utc_and_noted() -> None:
    """It may be an hour or two wrong: the author should hear of it."""
    log = EventLog.from_pandas(pd.DataFrame(ROWS | {"time:timestamp": TIMES}))
    assert "timestamps without a zone (taken as UTC): 3" in log.notes
    assert not EventLog.from_pandas(pd.DataFrame(ROWS)).notes


def test_a_column_of_several_types_is_named() -> None:
    """So is one that stands twice."""
    mixed = pd.DataFrame(ROWS | {"mixed": ["a", 1, None]})
    with pytest.raises(LogError, match=r"column 'mixed' holds values of several types \(int, str"):
        EventLog.from_pandas(mixed)
    twice = pd.concat([pd.DataFrame(ROWS), pd.DataFrame({"concept:name": ["q"] * 3})], axis=1)
    with pytest.raises(LogError, match="several columns called 'concept:name'"):
        EventLog.from_pandas(twice)


def test_pm4py_logs_are_read() -> None:
    """Its tables without the numbers that it adds for itself; its event logs with attributes."""
    pm4py = pytest.importorskip("pm4py")
    frame = pd.DataFrame(ROWS | {"case:age": [3, 3, 4], "org:resource": ["u", None, "v"]})
    formatted = pm4py.format_dataframe(frame.copy())
    assert "@@index" in formatted.columns
    table = EventLog.from_pandas(formatted)
    traces = EventLog.from_pandas(pm4py.convert_to_event_log(formatted))
    for log in (table, traces):
        assert not [name for name in log.columns if name.startswith("@@")]
        assert log.cases["case:age"].to_list() == [3, 4]
        assert log.events["org:resource"].to_list() == ["u", None, "v"]
        assert log.events["time:timestamp"].to_list() == table.events["time:timestamp"].to_list()
