"""The values of an attribute in two logs as integers that mean the same in both."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.naming import values_of
from cloakwork.evaluation.distances import MISSING, bins_of, round_edges
from cloakwork.log.eventlog import CASE_PREFIX, EventLog

MOST_NUMBERS: Final = 20
"""Different numbers of the source that stay as they are where no range is declared; more are put
into bins.
"""


@dataclass(frozen=True, slots=True)
class CodedAttribute:
    """One attribute of two logs: for each event (or case) of each log its value as int64, from 0 to
    ``values - 1``, or MISSING. ``numbers``: what is known of the numbers of each log, float64.
    """

    name: str
    source: Ints
    release: Ints
    values: int
    numbers: tuple[Floats, Floats] | None = None

    def missing_share(self, side: Ints) -> float | None:
        """The share of a side's values that is missing; None for no values."""
        return float((side == MISSING).mean()) if len(side) else None

    def by_case(self, source: EventLog, release: EventLog) -> tuple[Ints, Ints]:
        """One value for each case of each log; of an attribute of events the first that is not
        missing.
        """
        if self.name.startswith(CASE_PREFIX):
            return self.source, self.release
        return _first_of_cases(self.source, source), _first_of_cases(self.release, release)


def coded(
    source: EventLog, release: EventLog, name: str, declared: tuple[float, float] | None
) -> CodedAttribute | str:
    """The attribute ``name`` of both logs as codes, or a note in one sentence why not.

    Numbers and times go into bins of one round width over the ``declared`` range, else over the
    source's range where it has more than MOST_NUMBERS different ones; everything else is text. A
    log without the attribute has it missing everywhere.
    """
    before, after = _values(source, name), _values(release, name)
    if before is None and after is None:
        return f"'{name}' is in neither log"
    before = _all_missing(source, name) if before is None else before
    after = _all_missing(release, name) if after is None else after
    if declared is not None or {_kind(before), _kind(after)} == {"text", "numbers"}:
        before, after = _as_numbers(before), _as_numbers(after)
    kinds = {_kind(values) for values in (before, after)} - {"none"}
    if kinds == {"text", "truth values"}:
        # What is measured under noise is read as text, and released as what its domain says.
        before, after = (_texts(values).str.to_lowercase() for values in (before, after))
        kinds = {"text"}
    if len(kinds) > 1:
        one, other = sorted(kinds)
        return f"'{name}' holds {one} in one log and {other} in the other: it was not compared"
    if kinds == {"numbers"}:
        return _coded_numbers(name, _numbers(before), _numbers(after), declared)
    codes = joint_codes(_texts(before), _texts(after))
    return CodedAttribute(name, codes[0], codes[1], len(codes[2]))


def joint_codes(before: pl.Series, after: pl.Series) -> tuple[Ints, Ints, list[str]]:
    """Texts as places in the sorted list of all that occur, which comes third; null is MISSING."""
    texts = [values.cast(pl.String).alias("") for values in (before, after)]
    labels = pl.concat(texts).drop_nulls().unique().sort()
    kind = pl.Enum(labels)
    codes = [
        text.cast(kind).to_physical().cast(pl.Int64).fill_null(MISSING).to_numpy() for text in texts
    ]
    return codes[0], codes[1], labels.to_list()


def _values(log: EventLog, name: str) -> pl.Series | None:
    table = log.cases if name.startswith(CASE_PREFIX) else log.events
    return values_of(table, name) if name in table.columns else None


def _all_missing(log: EventLog, name: str) -> pl.Series:
    table = log.cases if name.startswith(CASE_PREFIX) else log.events
    return pl.Series([None], dtype=pl.String).new_from_index(0, table.height)


def _kind(values: pl.Series) -> str:
    if values.null_count() == len(values):
        return "none"
    if values.dtype.is_numeric() or values.dtype.is_temporal():
        return "numbers"
    return "truth values" if values.dtype == pl.Boolean else "text"


def _as_numbers(values: pl.Series) -> pl.Series:
    """Text that is nothing but numbers as these; everything else as it is."""
    if _kind(values) != "text" or values.dtype.is_nested():
        return values
    numbers = values.cast(pl.String).cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == values.null_count() else values


def _numbers(values: pl.Series) -> Floats:
    """As float64, NaN where missing or infinite; times as microseconds since 1970."""
    if values.dtype.is_temporal():
        values = values.cast(pl.Datetime("us")).to_physical()
    found = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return np.where(np.isfinite(found), found, np.nan)


def _coded_numbers(
    name: str, before: Floats, after: Floats, declared: tuple[float, float] | None
) -> CodedAttribute:
    known, released = (side[~np.isnan(side)] for side in (before, after))
    numbers = known, released
    if declared is None and len(np.unique(known)) > MOST_NUMBERS:
        declared = float(known.min()), float(known.max())
    if declared is None:
        different = np.unique(np.concatenate(numbers))
        codes = [
            np.where(np.isnan(side), MISSING, np.searchsorted(different, side)).astype(np.int64)
            for side in (before, after)
        ]
        return CodedAttribute(name, codes[0], codes[1], len(different), numbers)
    edges = round_edges(*declared)
    codes = [bins_of(side, edges) for side in (before, after)]
    return CodedAttribute(name, codes[0], codes[1], len(edges) - 1, numbers)


def _texts(values: pl.Series) -> pl.Series:
    if values.dtype.is_nested():
        listed = [None if value is None else repr(_plain(value)) for value in values.to_list()]
        return pl.Series(listed, dtype=pl.String)
    return values.cast(pl.String)


def _plain(value: object) -> object:
    return value.to_list() if isinstance(value, pl.Series) else value


def _first_of_cases(codes: Ints, log: EventLog) -> Ints:
    known = np.flatnonzero(codes != MISSING)
    cases, first = np.unique(log.case_of[known], return_index=True)
    found = np.full(log.cases.height, MISSING, np.int64)
    found[cases] = codes[known[first]]
    return found
