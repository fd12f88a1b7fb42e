"""Tables that number their rows: the numbers are the order, wherever the rows stand."""

from pathlib import Path

import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError
from cloakwork.base.text import shown

_HINT = "give each row a number of its own"


def whole_numbers(path: Path, column: str, values: pl.Series) -> pl.Series:
    """The numbers of rows (whole, or such texts) as Int64; ``LogError`` where a row has none."""
    read = values
    if values.dtype == pl.String or values.dtype.is_integer():
        read = values.cast(pl.Int64, strict=False)
    elif values.dtype != pl.Null:
        said = f"column '{shown(column)}', which numbers the rows, holds {values.dtype}"
        raise LogError(path, said, hint=_HINT)
    if read.null_count() or (read.dtype != pl.Int64 and len(read)):
        said = f"column '{shown(column)}' does not number every row"
        raise LogError(path, said, hint=_HINT)
    return read.cast(pl.Int64)


def repeated_number(case_ids: pl.Series, numbers: pl.Series) -> int | None:
    """The least number that two rows of one case have; None where none has."""
    rows = pl.DataFrame({"case": case_ids, "number": numbers}).filter(case_ids.is_not_null())
    again = rows.filter(rows.is_duplicated())
    return int(again["number"].min()) if again.height else None  # type: ignore[arg-type]


def first_numbers(case_ids: pl.Series, numbers: pl.Series) -> Ints:
    """The number of each case's first row."""
    rows = pl.DataFrame({"case": case_ids, "number": numbers}).filter(case_ids.is_not_null())
    return rows.group_by("case").agg(pl.col("number").min())["number"].to_numpy()


def least_repeated(numbers: Ints) -> int | None:
    """The least number that stands twice; None where none does."""
    values = pl.Series(numbers)
    again = values.filter(values.is_duplicated())
    return int(again.min()) if len(again) else None  # type: ignore[arg-type]


def numbered_alike(path: Path, column: str, number: int) -> LogError:
    """The refusal of numbers that leave the order of rows, or of cases, open."""
    said = f"column '{shown(column)}' numbers two rows alike ({number})"
    return LogError(path, said, hint=_HINT)
