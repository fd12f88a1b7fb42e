"""Workbooks: a cell is what the workbook says that it is."""

import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cloakwork.errors import CloakworkError, LogError, MissingExtra
from cloakwork.log.formats import InputOptions, examine_input, read_log
from cloakwork.log.limits import Limits

ROWS: list[list[Any]] = [
    ["case", "activity", "timestamp", "amount", "code", "mixed", None],
    [1, "a", datetime(2024, 3, 1, 10), 2, "007", 5, "x"],
    [1, "b", datetime(2024, 7, 1, 10), 2.5, "12", "x", None],
    [12345678901, "a", datetime(2024, 3, 2, 10), None, "1e5", 401.9, None],
]


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    """A workbook of these sheets."""
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)  # type: ignore[arg-type]
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def refused(path: Path, **options: Any) -> str:
    """What is said of a workbook, without its path."""
    with pytest.raises(LogError) as refusal:
        read_log(path, options=InputOptions(**options))
    return str(refusal.value).removeprefix(str(path))


def test_cells_are_what_they_are(tmp_path: Path) -> None:
    """Texts that look like numbers stay texts, and each number's spelling is its own."""
    path = workbook(tmp_path / "log.xlsx", Log=ROWS, Other=[])
    log = read_log(path, options=InputOptions(sheet="Log", time_zone="Europe/Berlin"))
    assert log.cases["case:concept:name"].to_list() == ["1", "12345678901"]
    assert log.events["code"].to_list() == ["007", "12", "1e5"]
    assert log.events["amount"].to_list() == [2.0, 2.5, None]
    assert log.events["mixed"].to_list() == ["5", "x", "401.9"]
    spelt = log.text_of("amount")
    assert spelt is not None and spelt.to_list() == ["2", "2.5", None]
    hours = [time.hour for time in log.events["time:timestamp"]]
    assert hours == [9, 8, 9]
    assert log.events["time:timestamp"][0] == datetime(2024, 3, 1, 9, tzinfo=UTC)


def test_sheets_are_named(tmp_path: Path) -> None:
    """None is chosen among several."""
    path = workbook(tmp_path / "log.xlsx", Log=ROWS, Other=[])
    assert refused(path).startswith(": the workbook has 2 sheets: Log, Other; say which: sheet")
    assert "has no sheet 'log'; it has Log" in refused(path, sheet="log")
    assert "'Other' is empty" in refused(path, sheet="Other")
    assert "Log, Other" in examine_input(path).unanswered[0].question


def test_times_in_words_have_their_row(tmp_path: Path) -> None:
    """As in other tables."""
    rows = [ROWS[0][:3], [1, "a", "13.03.2024 10:00"], [1, "b", "soon"]]
    path = workbook(tmp_path / "log.xlsx", Log=rows)
    said = refused(path, time_format="%d.%m.%Y %H:%M")
    assert said.startswith(":3: the timestamp 'soon' cannot be read as %d.%m.%Y %H:%M; ")
    path = workbook(tmp_path / "log.xlsx", Log=rows[:2])
    assert examine_input(path).options.time_format == "%d.%m.%Y %H:%M"


def test_a_table_may_begin_anywhere(tmp_path: Path) -> None:
    """Lines are those of the sheet."""
    rows = [[None, *row] for row in (ROWS[0][:3], [1, "a", "13.03.2024 10:00"], [1, "b", "soon"])]
    path = workbook(tmp_path / "log.xlsx", Log=[[None], [None], *rows])
    said = refused(path, time_format="%d.%m.%Y %H:%M")
    assert said.startswith(":5: the timestamp 'soon' cannot be read")
    path = workbook(tmp_path / "log.xlsx", Log=[[None], [None], *rows[:2]])
    log = read_log(path, options=InputOptions(time_format="%d.%m.%Y %H:%M"))
    assert log.events.height == 1
    for above in ([[None]] * 1_000, [["#REF!"], [None]]):
        path = workbook(tmp_path / "log.xlsx", Log=[*above, *rows[:2]])
        assert examine_input(path).options.time_format == "%d.%m.%Y %H:%M"
        assert read_log(path, options=InputOptions(time_format="%d.%m.%Y %H:%M")).case_count == 1


def test_what_is_no_workbook_or_too_much_of_one(tmp_path: Path) -> None:
    """A zip file of zeros is counted as it unpacks, whatever it declares."""
    path = tmp_path / "log.xlsx"
    path.write_bytes(b"PK\x03\x04 and no more")
    assert refused(path).startswith(": this is no readable workbook")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/workbook.xml", bytes(3 << 20))
    with pytest.raises(LogError, match="more than 1 MiB, the limit"):
        read_log(path, limits=Limits(unpacked_size=1 << 20))


def test_without_the_extra_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what to install."""
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cloakwork\[excel\]'"):
        read_log(tmp_path / "log.xlsx")
    assert issubclass(MissingExtra, CloakworkError)
