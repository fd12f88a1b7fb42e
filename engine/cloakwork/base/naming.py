"""The standard columns of a log, and columns by their exact names.

A name that comes from a file is data. Most of what polars accepts as a column's name it reads as a
pattern: ``*`` is every column, and ``^time:.*$`` a regular expression, in lists as well as alone.
So every name that is not written out in the code goes through ``named``, ``without`` or
``values_of``; ``tests/repository/test_no_name_is_an_expression.py`` sees to it.
"""

from typing import Final

import polars as pl
import polars.selectors as cs

CASE_ID: Final = "case:concept:name"
ACTIVITY: Final = "concept:name"
TIMESTAMP: Final = "time:timestamp"
CASE_PREFIX: Final = "case:"
TIME_TYPE: Final = pl.Datetime("us", "UTC")
START: Final = "start_timestamp"
LIFECYCLE: Final = "lifecycle:transition"
SERVICE_TIME: Final = "service_time"
"""Of an event: whole seconds from its start to its completion, rounded down."""


def named(*names: str) -> cs.Selector:
    """The columns called exactly so, in this order; none for no names.

    A selector: ``|``, ``&``, ``-`` and ``~`` of it are sets of columns. Where columns are
    calculated with, take ``named(...).as_expr()``. Raises ``polars.exceptions.ColumnNotFoundError``
    where the frame lacks one.
    """
    return cs.by_name(*names)


def without(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """``frame`` without the columns called exactly so; names that it lacks do no harm."""
    return frame.drop(cs.by_name(*names, require_all=False))


def values_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """The column called exactly so, as a series without a name.

    A series of that name would do for what only moves it, but most of its methods look themselves
    up by it, as a pattern. Raises ``polars.exceptions.ColumnNotFoundError`` where the frame lacks
    it.
    """
    return frame.get_column(name).alias("")


_TEXT: Final = pl.String()


def nulls(height: int, kind: pl.DataType = _TEXT) -> pl.Series:
    """A column without values, and without a name."""
    return pl.Series([None], dtype=kind).new_from_index(0, height)


def values_or_nulls(frame: pl.DataFrame, name: str) -> pl.Series:
    """As ``values_of``; nulls (String) where the frame lacks the column."""
    return values_of(frame, name) if name in frame.columns else nulls(frame.height)


# Tables of ``measurements.parquet`` that figures with intervals are read from.
VARIANTS_TABLE: Final = "variants"
OTHERS_TABLE: Final = "other cases"
STEPS_TABLE: Final = "steps of other cases"
LAYERS_TABLE: Final = "layers of variants"
VALUES_TABLE: Final = "values"
DURATIONS_TABLE: Final = "times: totals"
WAVES_TABLE: Final = "times: waves of totals"
WAITS_TABLE: Final = "times: gaps"
