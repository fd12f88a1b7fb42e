"""Tables of pandas, and logs of pm4py, from and to those of polars."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from cloakwork.base.errors import LogError, MissingExtra, first_line
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown

if TYPE_CHECKING:
    import pandas as pd

PM4PY_OWN: Final = "@@"
"""What the names of columns begin with that pm4py adds for itself: numbers of rows and cases."""

_NULLABLE: Final = {pl.Int64: "Int64", pl.Boolean: "boolean"}


def table_of(table: object, argument: str = "log") -> pl.DataFrame:
    """A table as one of polars: of polars, of pandas or pm4py (as ``polars_of``), or of whatever
    hands its columns over by Arrow's PyCapsule interface, such as pyarrow and DuckDB.

    Raises LogError for what is none, which says what came as ``argument``.
    """
    if isinstance(table, pl.DataFrame):
        return table
    kind = type(table)
    if kind.__module__.partition(".")[0] in ("pandas", "pm4py"):
        return polars_of(table)
    if not hasattr(table, "__arrow_c_stream__"):
        raise LogError(
            argument,
            "must be an EventLog, a path or a table of pandas, polars, Arrow or DuckDB "
            f"(got {kind.__name__})",
            hint="make it a table of one row an event, such as polars.DataFrame(...)",
        )
    try:
        return pl.DataFrame(table)
    # Whatever goes wrong in code that is not ours.
    except Exception as error:
        raise LogError(
            argument,
            f"a {kind.__name__} that cannot be read by Arrow's stream ({first_line(error)})",
            hint="hand it over as a table of polars or pandas",
        ) from error


def polars_of(frame: object) -> pl.DataFrame:
    """A table of pandas, or an event log or stream of pm4py, one row an event; without pm4py's own
    columns.

    Raises MissingExtra without pandas and pyarrow, LogError for what is no table or cannot be read.
    """
    with _pandas_at_hand("from_pandas"):
        import pandas as pd

        if type(frame).__module__.partition(".")[0] == "pm4py":
            # Whoever made such a log has loaded pm4py.
            frame = sys.modules["pm4py"].convert_to_dataframe(frame)
        if not isinstance(frame, pd.DataFrame):
            raise LogError("table", f"must be a pandas table (got {type(frame).__name__})")
        _require_distinct(frame)
        own = [name for name in frame.columns if str(name).startswith(PM4PY_OWN)]
        frame = frame.drop(columns=own)
        try:
            return pl.from_pandas(frame)
        except (TypeError, ValueError, ArithmeticError):
            # The table fails as a whole: find the column, to name it.
            _require_one_type(frame)
            raise


def pandas_of(frame: pl.DataFrame) -> "pd.DataFrame":
    """A table of pandas; whole numbers and truth values stay what they are where some are
    missing.
    """
    with _pandas_at_hand("to_pandas"):
        table: pd.DataFrame = frame.to_pandas()
        for place, (name, type_) in enumerate(frame.schema.items()):
            nullable = _NULLABLE.get(type(type_))
            values = values_of(frame, name)
            # Without a nullable type pandas turns missing whole numbers into floats.
            if nullable is not None and values.null_count():
                nulls = values.to_pandas(use_pyarrow_extension_array=True)
                table.isetitem(place, nulls.astype(nullable))
        return table


def _require_distinct(frame: "pd.DataFrame") -> None:
    twice = frame.columns[frame.columns.map(str).duplicated()]
    if len(twice):
        raise LogError(
            "table",
            f"has several columns called '{shown(str(twice[0]))}'",
            hint="rename all but one",
        )


def _require_one_type(frame: "pd.DataFrame") -> None:
    """Raise LogError for the first column that polars cannot read."""
    for place, name in enumerate(frame.columns):
        column: Any = frame.iloc[:, [place]]
        try:
            pl.from_pandas(column)
        except (TypeError, ValueError, ArithmeticError):
            kinds = sorted({type(value).__name__ for value in frame.iloc[:, place].dropna()})
            column_name = shown(str(name))
            raise LogError(
                "table",
                f"column '{column_name}' holds values of several types ({', '.join(kinds)})",
                hint=f"give it one: frame[{name!r}] = frame[{name!r}].astype('string')",
            ) from None


@contextmanager
def _pandas_at_hand(verb: str) -> Iterator[None]:
    """Say which extra to install where pandas, or pyarrow behind it, is missing; other faults are
    the table's own.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{verb}: needs pandas and pyarrow; pip install 'cloakwork[pandas]'"
        ) from error
    # pyarrow's own errors are values or types.
    except (TypeError, ValueError, ArithmeticError) as error:
        first = str(error).partition("\n")[0]
        raise LogError(
            "table",
            f"cannot be read ({first})",
            hint="give each column values of one type",
        ) from error
