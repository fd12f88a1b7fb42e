"""Tables whose rows a column numbers: the numbers are the order, wherever the rows stand."""

from pathlib import Path

import polars as pl
import pytest

from cloakwork.errors import LogError
from cloakwork.log.formats import read_log
from cloakwork.log.formats.options import InputOptions
from log.parts_of_logs import assert_same_log, in_parts

COLUMNS = {"row": "line"}
CASES = ["b", "a", "c", "b", "a", "b", "c", "a"]


def rows(**columns: list[object]) -> pl.DataFrame:
    """Rows of one time, so that their numbers alone order them."""
    count = len(CASES)
    return pl.DataFrame(
        {
            "line": [10 * place for place in range(count)],
            "case": CASES,
            "activity": [f"step {place}" for place in range(count)],
            "timestamp": ["2024-01-01T00:00:00Z"] * count,
            "case:sort": ["x"] * (count - 1) + ["y"],
            **columns,
        }
    )


def write(frame: pl.DataFrame, path: Path) -> Path:
    """The rows in a format that the name says."""
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_order_rows_and_cases(suffix: str, tmp_path: Path) -> None:
    """Whatever order the rows and the files have, the log is that of the rows in order."""
    frame = rows()
    ordered = read_log(write(frame.drop("line"), tmp_path / f"ordered.{suffix}"))
    shuffled = frame[[5, 2, 7, 0, 6, 1, 4, 3]]
    found = read_log(write(shuffled, tmp_path / f"log.{suffix}"), columns=COLUMNS)
    folder = tmp_path / "folder"
    folder.mkdir()
    write(shuffled[:3], folder / f"2.{suffix}")
    write(shuffled[3:], folder / f"1.{suffix}")
    for log in (
        found,
        in_parts(tmp_path / f"log.{suffix}", tmp_path / "parts", columns=COLUMNS),
        in_parts(folder, tmp_path / "parts of a folder", columns=COLUMNS),
        read_log(folder, options=InputOptions(columns=COLUMNS)),
    ):
        assert log.events.equals(ordered.events)
        assert log.cases.equals(ordered.cases)
        assert log.source.conflicts == {"case:sort": "row 70"}
        assert_same_log(found, log)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"line": [0, 1, 2, 0, 4, 5, 6, 7]}, r"column 'line' numbers two rows alike \(0\)"),
        ({"line": [1, 0, 1, 3, 4, 5, 6, 7]}, r"column 'line' numbers two rows alike \(1\)"),
        ({"line": [0, None, *range(2, 8)]}, "column 'line' does not number every row"),
        ({"line": [0.5, *map(float, range(1, 8))]}, "column 'line'"),
        ({"line": ["zero", *map(str, range(1, 8))]}, "column 'line' does not number every row"),
        ({"who": [*CASES[:6], "y", "a"]}, r"column 'who' names two values in one case \(row 60\)"),
    ],
)
def test_numbers_that_leave_the_order_open_are_refused(
    suffix: str, columns: dict[str, list[object]], said: str, tmp_path: Path
) -> None:
    """Two rows of a case, or the first rows of two cases, with one number; rows without one."""
    path = write(rows(**columns), tmp_path / f"log.{suffix}")
    mapping = {**COLUMNS, **({"case:who": "who"} if "who" in columns else {})}
    with pytest.raises(LogError, match=said) as whole:
        read_log(path, columns=mapping)
    with pytest.raises(LogError) as parted:
        in_parts(path, tmp_path / "parts", columns=mapping)
    assert str(whole.value) == str(parted.value)


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """In one line, with the columns that are."""
    path = write(rows(), tmp_path / "log.csv")
    with pytest.raises(LogError, match="there is no column 'number' for 'row'"):
        read_log(path, columns={"row": "number"})
