"""Round trips of the logs that pm4py's documentation works with, made anew from what it prints:
the running example (van der Aalst, "Process Mining", table 2.2), and an interval log.
"""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pytest

from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import InputOptions, read_log, write_log
from cloakwork.log.formats.source import Format

CASES: Final = """
3: 30.12.2010 14:32 r Pete, 30.12.2010 15:06 c Mike, 30.12.2010 16:34 t Ellen, 06.01.2011 09:18 d \
Sara, 06.01.2011 12:18 i Sara, 06.01.2011 13:06 e Sean, 08.01.2011 11:43 t Pete, 09.01.2011 09:55 \
d Sara, 15.01.2011 10:45 p Ellen
2: 30.12.2010 11:32 r Mike, 30.12.2010 12:12 t Mike, 30.12.2010 14:16 c Sean, 05.01.2011 11:22 d \
Sara, 08.01.2011 12:05 p Ellen
1: 30.12.2010 11:02 r Pete, 31.12.2010 10:06 e Sue, 05.01.2011 15:12 t Mike, 06.01.2011 11:18 d \
Sara, 07.01.2011 14:24 j Pete
5: 06.01.2011 09:02 r Ellen, 07.01.2011 10:16 c Mike, 08.01.2011 11:22 t Pete, 10.01.2011 13:28 d \
Sara, 11.01.2011 16:18 i Sara, 14.01.2011 14:33 t Ellen, 16.01.2011 15:50 c Mike, 19.01.2011 11:18 \
d Sara, 20.01.2011 12:48 i Sara, 21.01.2011 09:06 c Sue, 21.01.2011 11:34 t Pete, 23.01.2011 13:12 \
d Sara, 24.01.2011 14:56 j Mike
6: 06.01.2011 15:02 r Mike, 06.01.2011 16:06 c Ellen, 07.01.2011 16:22 t Mike, 07.01.2011 16:52 d \
Sara, 16.01.2011 11:47 p Mike
4: 06.01.2011 15:02 r Pete, 07.01.2011 12:06 t Mike, 08.01.2011 14:43 e Sean, 09.01.2011 12:02 d \
Sara, 12.01.2011 15:44 j Ellen
"""
NAMES: Final = {
    "r": ("register request", 50),
    "e": ("examine thoroughly", 400),
    "c": ("examine casually", 400),
    "t": ("check ticket", 100),
    "d": ("decide", 200),
    "i": ("reinitiate request", 200),
    "p": ("pay compensation", 200),
    "j": ("reject request", 200),
}
COLUMNS: Final = {"case": "case_id", "activity": "activity", "timestamp": "timestamp"}
COLUMNS_OF_FILE: Final = ("case_id", "activity", "timestamp", "costs", "org:resource")


def rows() -> list[dict[str, Any]]:
    """One event a row, as in the file of pm4py's documentation."""
    found = []
    for line in CASES.strip().splitlines():
        case, events = line.split(": ", 1)
        for event in events.split(", "):
            day, clock, short, who = event.split()
            at = datetime.strptime(f"{day} {clock} +0100", "%d.%m.%Y %H:%M %z")
            name, costs = NAMES[short]
            values = (int(case), name, at, costs, who)
            found.append(dict(zip(COLUMNS_OF_FILE, values, strict=True)))
    return found


@pytest.fixture
def by_pm4py(tmp_path: Path) -> Any:
    """The table as pm4py's documentation reads it, from a CSV file in ``tmp_path``."""
    pytest.importorskip("pm4py")
    import pandas as pd
    import pm4py

    pd.DataFrame(rows()).to_csv(tmp_path / "running-example.csv", sep=";", index=False)
    table = pd.read_csv(tmp_path / "running-example.csv", sep=";")
    names = {"case_id": "case_id", "activity_key": "activity", "timestamp_key": "timestamp"}
    return pm4py.format_dataframe(table, **names)


def same(one: Any, other: Any) -> bool:
    """Two of pm4py's tables: the same events in each case, with times and attributes."""
    keys = ("case:concept:name", "time:timestamp", "concept:name", "org:resource", "costs")
    sides = [
        sorted(tuple(map(str, row)) for row in each[list(keys)].itertuples(index=False))
        for each in (one, other)
    ]
    return sides[0] == sides[1] and len(sides[0]) == len(rows())


@pytest.mark.parametrize("form", ["xes", "csv", "parquet"])
def test_the_running_example(by_pm4py: Any, tmp_path: Path, form: Format) -> None:
    """What pm4py writes is read, and what is written of it pm4py reads again."""
    import pandas as pd
    import pm4py

    own = by_pm4py.drop(columns=["case_id", "activity", "timestamp", "@@index", "@@case_index"])
    read = {
        "xes": lambda path: pm4py.read_xes(str(path)),
        "csv": lambda path: pm4py.format_dataframe(pd.read_csv(path)),
        "parquet": lambda path: pm4py.format_dataframe(pd.read_parquet(path)),
    }[form]
    theirs, ours = tmp_path / f"theirs.{form}", tmp_path / f"ours.{form}"
    if form == "xes":
        pm4py.write_xes(own, str(theirs))
    elif form == "csv":
        own.to_csv(theirs, index=False)
    else:
        own.to_parquet(theirs)
    write_log(read_log(theirs), ours, form)
    assert same(read(ours), by_pm4py)


def test_its_file_is_read_by_its_own_columns(by_pm4py: Any, tmp_path: Path) -> None:
    """As the documentation maps them; the table in memory gives the same."""
    of_file = read_log(
        tmp_path / "running-example.csv", options=InputOptions(columns=COLUMNS, delimiter=";")
    )
    in_memory = EventLog.from_pandas(by_pm4py)
    assert len(rows()) == 42
    assert of_file.case_count == in_memory.case_count == 6
    assert same(of_file.to_pandas(), by_pm4py)
    assert same(in_memory.to_pandas(), by_pm4py)


def test_an_interval_log_comes_back(tmp_path: Path) -> None:
    """With ``start_timestamp`` beside ``time:timestamp``, through XES."""
    pm4py = pytest.importorskip("pm4py")
    import pandas as pd

    begin = datetime(2024, 1, 1, 8, tzinfo=timezone(timedelta(hours=1)))
    table = pd.DataFrame(
        {
            "case:concept:name": [f"{row // 3}" for row in range(12)],
            "concept:name": ["a", "b", "c"] * 4,
            "start_timestamp": [begin + timedelta(minutes=7 * row) for row in range(12)],
            "time:timestamp": [begin + timedelta(minutes=7 * row + row % 5) for row in range(12)],
        }
    )
    pm4py.write_xes(pm4py.format_dataframe(table), str(tmp_path / "theirs.xes"))
    starts = InputOptions(starts="start_timestamp")
    log = read_log(tmp_path / "theirs.xes", options=starts)
    assert log.events["service_time"].to_list() == [60 * (row % 5) for row in range(12)]
    write_log(log, tmp_path / "ours.xes", "xes", options=starts)
    again = pm4py.read_xes(str(tmp_path / "ours.xes"))
    for name in ("start_timestamp", "time:timestamp"):
        assert sorted(again[name]) == sorted(table[name])
