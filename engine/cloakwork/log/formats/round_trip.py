"""A log as its file will say it: what is checked before a release must be what a reader of the
release checks.

A format keeps some differences and loses others: CSV has no types and writes a missing value and
the empty text alike, XES has no place for an attribute that nobody has. And one value has several
spellings where 0.0 and -0.0 are equal.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Final, Literal

import polars as pl

from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats.csv import field_texts
from cloakwork.log.formats.kinds import Kind, cast_to_kind, inferred, joined_kinds
from cloakwork.log.formats.tables import is_exact, to_simple_type
from cloakwork.log.formats.xes_write import expressible_text

Scope = Literal["case", "event"]

_STANDARD: Final = (CASE_ID, ACTIVITY, TIMESTAMP)
_FOUND: Final = {
    "scope": pl.String,
    "column": pl.String,
    "form": pl.String,
    "holds": pl.Boolean,
    "kind": pl.String,
}


def as_read_back(log: EventLog, output: str) -> EventLog:
    """``log`` as it will be when it is written as ``output`` (``xes``, ``csv``, ``parquet``, packed
    or not) and read.

    Columns that no format can hold are left out.
    """
    types = TypesReadBack(output)
    return types.read_back(log, types.merge(types.of(log)))


@dataclass(frozen=True, slots=True)
class TypesReadBack:
    """What a reader of a log written as ``output`` makes of its columns: an aggregate, since that
    depends on all values of a column, and how it changes a batch.

    The table has a row for each column and form. ``form``: ``number`` or ``text``, where values are
    released as numbers unless one is too long for that; else ``value``. ``holds``: whether all
    values have that form. ``kind``: their ``Kind`` where ``output`` is CSV; else ``empty``
    where there is no value.
    """

    output: str

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The evidence in one batch."""
        rows = [
            row
            for scope, table in _tables(batch)
            for name in table.columns
            if name not in _STANDARD
            for row in self._evidence(scope, name, values_of(table, name))
        ]
        return pl.DataFrame(rows, schema=_FOUND, orient="row")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The evidence of all batches, one row a column and form, sorted."""
        found = summaries.group_by("scope", "column", "form").agg(
            pl.col("holds").all(), pl.col("kind").unique()
        )
        kinds = [reduce(joined_kinds, kinds) for kinds in found["kind"].to_list()]
        merged = found.with_columns(pl.Series("kind", kinds, pl.String))
        return merged.sort("scope", "column", "form")

    def read_back(self, batch: EventLog, found: pl.DataFrame) -> EventLog:
        """A batch as a reader of the whole log has it; ``found``: the merged evidence."""
        settled = _settled(found)
        read = {
            scope: pl.DataFrame(list(self._columns_read_back(scope, table, settled)))
            for scope, table in _tables(batch)
        }
        return replace(batch, events=read["event"], cases=read["case"])

    @property
    def _format(self) -> str:
        return self.output.removesuffix(".gz")

    def _evidence(
        self, scope: Scope, name: str, values: pl.Series
    ) -> Iterator[tuple[str, str, str, bool, Kind]]:
        if not _may_be_too_long(values):
            yield scope, name, "value", True, self._kind(name, values, None)
            return
        stays = is_exact(values)
        kind: Kind = self._kind(name, values, True) if stays else "empty"
        yield scope, name, "number", stays, kind
        yield scope, name, "text", True, self._kind(name, values, False)

    def _kind(self, name: str, values: pl.Series, exact: bool | None) -> Kind:
        simple = to_simple_type(Path("release"), name, values, exact=exact)
        if simple is None or simple.null_count() == len(simple):
            return "empty"
        if self._format != "csv":
            return "text"
        return inferred(_no_empty_text(field_texts(_one_zero(simple))))[1]

    def _columns_read_back(
        self, scope: Scope, table: pl.DataFrame, settled: "dict[tuple[str, str], _Settled]"
    ) -> Iterator[pl.Series]:
        for name in table.columns:
            column = settled.get((scope, name), _STANDARD_COLUMN)
            simple = to_simple_type(
                Path("release"), name, values_of(table, name), exact=column.exact
            )
            if simple is None:
                continue
            read_back = self._through(name, _one_zero(simple), column.kind)
            if read_back is not None:
                yield read_back.alias(name)

    def _through(self, name: str, values: pl.Series, kind: Kind) -> pl.Series | None:
        """What the format makes of a column; None where it loses it.

        Case ids and activities stay text whatever they look like, and stay where all are missing.
        Times are as they were.
        """
        if name in _STANDARD and values.dtype != pl.String:
            return values
        if self._format == "csv":
            texts = _no_empty_text(field_texts(values))
            return texts if name in _STANDARD else cast_to_kind(texts, kind)[0]
        if self._format == "xes":
            if kind == "empty":
                return None
            return expressible_text(values) if values.dtype == pl.String else values
        return values


@dataclass(frozen=True, slots=True)
class _Settled:
    """What holds of a whole column: whether its numbers stay numbers, and its kind."""

    exact: bool | None
    kind: Kind


_STANDARD_COLUMN: Final = _Settled(None, "text")


def _settled(found: pl.DataFrame) -> dict[tuple[str, str], _Settled]:
    """By scope and column: the first form that all values have."""
    settled: dict[tuple[str, str], _Settled] = {}
    for scope, name, form, holds, kind in found.select(*_FOUND).iter_rows():
        if holds:
            exact = {"number": True, "text": False}.get(form)
            settled.setdefault((scope, name), _Settled(exact, kind))
    return settled


def _may_be_too_long(values: pl.Series) -> bool:
    """Whether some values of the type are more than a number of a log holds."""
    narrow = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
    is_number = values.dtype.is_integer() or isinstance(values.dtype, pl.Decimal)
    return is_number and values.dtype not in narrow


def _tables(log: EventLog) -> tuple[tuple[Scope, pl.DataFrame], ...]:
    return ("case", log.cases), ("event", log.events)


def with_one_spelling(table: pl.DataFrame, output: str) -> pl.DataFrame:
    """The table with one spelling for what the release will not tell apart.

    0.0 stands for -0.0 as well; where the release is CSV, the empty text is missing. Each value is
    changed by itself.
    """
    is_csv = output.removesuffix(".gz") == "csv"
    changed = []
    for name, kind in table.schema.items():
        values = values_of(table, name)
        if kind.is_float():
            changed.append(_one_zero(values).alias(name))
        elif kind == pl.String and is_csv and name != CASE_ID:
            changed.append(_no_empty_text(values).alias(name))
    return table.with_columns(changed)


def _one_zero(values: pl.Series) -> pl.Series:
    """0.0 for -0.0, which equals it."""
    if not values.dtype.is_float():
        return values
    return values.set((values == 0.0).fill_null(False), 0.0)


def _no_empty_text(values: pl.Series) -> pl.Series:
    """The empty text is missing in CSV."""
    return values.to_frame("text").select(pl.when(pl.col("text") != "").then("text")).to_series()
