"""D13: tables are read by one grammar, no row is lost in silence, codes stay text, and odd types
end in one line.
"""

import csv
import datetime
import decimal
import io
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloakwork.errors import LogError
from cloakwork.log.formats import read_log

TIME = "2024-03-01T10:0{}:00+00:00"


def table(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_inch_marks_lose_no_row(tmp_path: Path) -> None:
    """A quote inside a field that is not quoted is a character, in the header as in the body."""
    rows = [
        f'1,5" pipe,{TIME.format(0)},2"',
        f"1,b,{TIME.format(1)},3",
        f'2,"6"" pipe",{TIME.format(2)},4',
    ]
    log = read_log(
        table(
            tmp_path / "log.csv", 'case_id,activity,timestamp,size "in\n' + "\n".join(rows) + "\n"
        )
    )
    assert log.events["concept:name"].to_list() == ['5" pipe', "b", '6" pipe']
    assert log.events['size "in'].to_list() == ['2"', "3", "4"]


def test_a_quote_in_the_body_hides_no_row(tmp_path: Path) -> None:
    """Two inch marks far apart are not a quoted stretch."""
    rows = [
        f"{row},{'5' + chr(34) if row in (2, 7) else 'a'},{TIME.format(0)}" for row in range(10)
    ]
    log = read_log(table(tmp_path / "log.csv", "case_id,activity,timestamp\n" + "\n".join(rows)))
    assert log.events.height == 10


def test_old_line_ends_are_refused_not_read_as_no_events(tmp_path: Path) -> None:
    """A CR alone ends a line for some readers and is a character for others."""
    text = f"case_id,activity,timestamp\r1,a,{TIME.format(0)}\r2,b,{TIME.format(1)}\r"
    with pytest.raises(LogError) as refusal:
        read_log(table(tmp_path / "log.csv", text))
    assert ":1: " in str(refusal.value)
    assert "carriage return" in str(refusal.value)


def test_a_carriage_return_in_a_field_is_not_swallowed(tmp_path: Path) -> None:
    """Either the character stays, or the file is refused."""
    text = f"case_id,activity,timestamp\n1,a\r,{TIME.format(0)}\n"
    with pytest.raises(LogError) as refusal:
        read_log(table(tmp_path / "log.csv", text))
    assert ":2: " in str(refusal.value)


@pytest.mark.parametrize(
    "codes",
    [
        ["+491701", "+4930"],
        ["1E5", "2E7"],
        ["401.90", "401.9"],
        ["1.50", "2.50"],
        ["-0", "1"],
        ["250", "250.1"],
    ],
)
def test_codes_stay_text(codes: list[str], tmp_path: Path) -> None:
    """A column is numbers only where each is spelt as the number would be."""
    rows = [f"{row},a,{TIME.format(row)},{code}" for row, code in enumerate(codes)]
    log = read_log(
        table(tmp_path / "log.csv", "case_id,activity,timestamp,code\n" + "\n".join(rows))
    )
    assert log.events["code"].to_list() == codes


def test_random_tables_are_read_as_python_reads_them(tmp_path: Path) -> None:
    """Quotes and line ends anywhere: the same rows as Python's strict reader, or a refusal where
    that refuses, too.
    """
    chance = random.Random(13)
    taken = 0
    for _ in range(400):
        pieces = [
            '"',
            '""',
            ",",
            "\n",
            "\r\n",
            'x"',
            "a",
            "b c",
            f",{TIME.format(0)}\n",
            '"q",',
            "1,",
        ]
        body = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 14)))
        text = f"case_id,activity,timestamp\n1,a,{TIME.format(0)}\n{body}"
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
            whole = all(len(row) == 3 for row in rows)
        except csv.Error:
            whole = False
        try:
            log = read_log(table(tmp_path / "log.csv", text))
        except LogError:
            continue  # a row may have no time that can be read
        assert whole, text
        assert log.events.height == sum(bool(row[0]) for row in rows[1:]), text
        taken += log.events.height > 1
    assert taken > 5


def parquet(path: Path, **columns: pa.Array) -> Path:
    moments = [datetime.datetime(2024, 3, 1, hour, tzinfo=datetime.UTC) for hour in range(2)]
    whole = {
        "case:concept:name": pa.array(["1", "1"]),
        "concept:name": pa.array(["a", "b"]),
        "time:timestamp": pa.array(moments, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(whole | columns), path)
    return path


@pytest.mark.parametrize("zone", ["+05:30", "-03:00", "Mars/Base"])
@pytest.mark.parametrize("column", ["time:timestamp", "seen"])
def test_zones_that_the_library_does_not_know(zone: str, column: str, tmp_path: Path) -> None:
    """Parquet keeps times in UTC, whatever zone they are to be shown in."""
    moments = [datetime.datetime(2024, 3, 1, hour, tzinfo=datetime.UTC) for hour in range(2)]
    shown = pa.array([moment.replace(tzinfo=None) for moment in moments], pa.timestamp("us", zone))
    log = read_log(parquet(tmp_path / "log.parquet", **{column: shown}))
    assert log.events[column].to_list() == moments


@pytest.mark.parametrize("column", ["case:concept:name", "concept:name"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([b"a", b"\xff"]),
        pa.array([datetime.timedelta(1), datetime.timedelta(2)]),
    ],
    ids=["list", "struct", "bytes", "duration"],
)
def test_labels_without_a_spelling_are_refused_in_one_line(
    values: pa.Array, column: str, tmp_path: Path
) -> None:
    """Whatever the type, what leaves the reader is a log or a LogError."""
    with pytest.raises(LogError) as refusal:
        read_log(parquet(tmp_path / "log.parquet", **{column: values}))
    assert "\n" not in str(refusal.value)


def test_decimals_keep_their_digits(tmp_path: Path) -> None:
    """More digits than a floating-point number holds stay text."""
    digits = [decimal.Decimal("12345678901234567.89"), decimal.Decimal("12345678901234567.90")]
    log = read_log(parquet(tmp_path / "log.parquet", amount=pa.array(digits)))
    assert log.events["amount"].to_list() == ["12345678901234567.89", "12345678901234567.90"]


@pytest.mark.parametrize("column", ["time:timestamp", "seen"])
def test_times_beyond_the_calendar_are_refused(column: str, tmp_path: Path) -> None:
    """No writer can say them."""
    with pytest.raises(LogError):
        read_log(
            parquet(tmp_path / "log.parquet", **{column: pa.array([2**62, 1], pa.timestamp("us"))})
        )


@pytest.mark.parametrize(
    "text", ["2024-3-01T10:00:00+00:00", "2024-03- 1T10:00:00+00:00", "2024-03-01T10:00:00+01: 00"]
)
def test_blanks_and_single_digits_in_times_are_refused(text: str, tmp_path: Path) -> None:
    """A library's leniency is not ours: where a day may lack a digit, so may a year."""
    with pytest.raises(LogError):
        read_log(table(tmp_path / "log.csv", f"case_id,activity,timestamp\n1,a,{text}\n"))


def test_contradicting_encodings_are_refused(tmp_path: Path) -> None:
    """The mark of UTF-8 before a declaration of Latin-1: readers differ on who is right."""
    path = tmp_path / "log.xes"
    declaration = '<?xml version="1.0" encoding="ISO-8859-1"?>\n'
    text = '<log><trace><string key="concept:name" value="é"/></trace></log>'
    path.write_bytes(b"\xef\xbb\xbf" + (declaration + text).encode())
    with pytest.raises(LogError):
        read_log(path)


def test_a_byte_order_mark_in_front_of_the_rows_changes_no_case_id(tmp_path: Path) -> None:
    """Where two files were joined: the mark is part of the first case id, as of any other."""
    path = tmp_path / "log.csv"
    path.write_bytes(
        b"case:concept:name,concept:name,time:timestamp\n\xef\xbb\xbf1,a,2024-01-01T00:00:00Z\n"
    )
    assert read_log(path).cases["case:concept:name"].to_list() == ["\ufeff1"]
