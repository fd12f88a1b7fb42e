"""One way to read a log: rows as the file spells them, chunk by chunk in bounded memory, then what
makes logs of them. Reading into memory is collecting them.
"""

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Words
from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP, named, nulls, values_of
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.kinds import TYPES, Kind, read_kind
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.written_times import WrittenTimes
from cloakwork.log.limits import Limits, OnExcess, current_limits

ROW: Final = "row"
"""Of a row: Int64, where it stands in all files together, from 0."""

PLACE: Final = "place"
"""Of a case whose file says more of it than its rows do: Int64, where it stands in all files."""

TEXT: Final = "t"
"""Behind a column's number: what the source says, where the values do not give it back."""

CELLS: Final = 2_500_000
"""Values in a chunk, about."""

MOST_ROWS: Final = 250_000

SPARSE: Final = 32
"""A value that has so many rows to itself is cheaper alone, in a table that is large."""
_LARGE: Final = 1 << 22  # cells: at 16 bytes each, 64 MiB

WHOLE: Final = 1_000_000
"""Rows up to which a log is taken whole where a sample of its cases would do."""

SAMPLED: Final = 20_000
"""Cases of a sample; fewer where so many have more than ``WHOLE`` rows."""

KEY: Final = secrets.randbits(63)
"""Who is in a sample, nobody can say beforehand who wrote the log. One key for the process, so that
a log that is read twice gives the same cases.
"""

_HASHES: Final = 1 << 64

Columns = dict[str, pl.Series]


Keeps = Callable[[str], bool]
"""Whether an attribute of this name is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Which attributes of a log are read, and how.

    - ``options``: how it is written, as ``spec.input`` of a policy.
    - ``columns``: goes before ``options.columns``: it maps standard names (``case:concept:name``,
      ``concept:name``, ``time:timestamp``, in short ``case``, ``activity``, ``timestamp``) and
      ``case:NAME`` to what a table calls them.
    - ``keep``: says, by full name (case attributes with ``case:`` in front), which other attributes
      are read; the three standard ones always are.
    - ``text``: attributes that are read as text whatever their values look like.
    - ``varying``: attributes of cases, taken from a column by the options, that may differ within a
      case.
    - ``case_id``: the column of a table that holds it, where ``columns`` do not say.
    - ``activity``, ``timestamp``: the attributes that hold them, where these keep names of their
      own; a table then needs no standard ones, and the second is read as times.
    - ``timeless``: a table without a column ``time:timestamp`` has no times, and its events are in
      file order; otherwise such a table is refused, since its order would be a guess.
    - ``limits``: what the file may hold; by default ``log.limits.current_limits()``.
    - ``on_excess``: a value larger than ``limits.value_size`` refuses the file or, with ``drop``,
      is missing; every other limit refuses it.
    - ``sampled``: of more than ``WHOLE`` rows, a random sample of whole cases will do.
    """

    options: InputOptions | None = None
    columns: Mapping[str, str] | None = None
    keep: Keeps | None = None
    text: Collection[str] = frozenset()
    varying: Collection[str] = frozenset()
    case_id: str = CASE_ID
    activity: str = ACTIVITY
    timestamp: str = TIMESTAMP
    timeless: bool = False
    limits: Limits | None = None
    on_excess: OnExcess = "refuse"
    sampled: bool = False

    @property
    def written(self) -> InputOptions:
        """How the log is written."""
        # In Python a mapping may say it.
        return InputOptions.model_validate(self.options or {})

    @property
    def bounds(self) -> Limits:
        """What the file may hold."""
        return self.limits or current_limits()

    @property
    def times(self) -> WrittenTimes:
        """How times are written."""
        return WrittenTimes(self.written.time_format, self.written.time_zone)

    @property
    def spelt(self) -> frozenset[str]:
        """Attributes whose values are read as the characters that they are."""
        return frozenset({*self.text, CASE_ID, ACTIVITY, TIMESTAMP, self.activity, self.timestamp})

    def keeps(self, name: str) -> bool:
        """Whether an attribute is read, by its full name."""
        written = self.written
        own = (CASE_ID, self.activity, self.timestamp, written.starts, written.activity_with)
        return name in own or self.keep is None or self.keep(name)


@frozen
class RawChunk:
    """Some rows of a file, one an event, and their cases.

    - ``rows``: one row an event; ``ROW``, and columns as ``StoredColumn`` says.
    - ``case_id``: the column of ``cases`` or, without these, of ``rows`` that holds case ids; not
      null in ``rows``. None: no case has one, and each is its own.
    - ``cases``: one row a case with ``PLACE``, which ``rows`` have too. None: rows say all of it.
    """

    rows: pl.DataFrame
    case_id: str | None
    cases: pl.DataFrame | None = None


@frozen
class StoredColumn:
    """A column of chunks: its ``number``, by which they call it, its full name, and what it is.

    A chunk holds the values as what they are in the chunk alone and, where these do not give back
    what the source says, its texts beside them (``number`` and ``TEXT``).

    - ``kind``: what all chunks together say, None where each says the same type, ``dtype``.
    - ``is_exact``, ``has_texts``: as in ``SourceSpelling``.
    """

    number: str
    name: str
    kind: Kind | None
    dtype: pl.DataType
    is_exact: bool = False
    has_texts: bool = False

    def read(self, stored: Columns, height: int) -> tuple[pl.Series, pl.Series | None]:
        """The values of so many rows, as what they are in all chunks, and their texts where the
        column has any.
        """
        values = stored.get(self.number)
        if values is None:
            values = nulls(height, self.dtype)
        is_settled = self.kind is None or values.dtype == self.dtype
        if is_settled and not self.has_texts:
            return values, None
        texts = _spelt(values, stored.get(self.number + TEXT))
        if self.kind is not None and not is_settled:
            values = texts if TYPES[self.kind] == pl.String else read_kind(texts, self.kind)[0]
        return values, texts if self.has_texts else None


@frozen
class Findings:
    """What shows only where a case is whole. All of it can be put together for several parts.

    - ``differing``: case attributes that differ between the rows of one case.
    - ``conflicts``: case attributes of which one case names two values: the row (from 0) where one
      first does.
    - ``repeated_ids``: how many cases have the id of an earlier one.
    - ``repeated_number``: where rows have numbers: the least that two rows of one case have.
    - ``first_numbers``: those of the cases' first rows.
    """

    differing: frozenset[str] = frozenset()
    conflicts: dict[str, int] = field(default_factory=dict)
    repeated_ids: int = 0
    repeated_number: int | None = None
    first_numbers: tuple[Ints, ...] = ()


class Assembler(Protocol):
    """What makes a log of any whole cases of a file, as ``read_log`` would have them. Frozen, and
    fit to be pickled.
    """

    @property
    def surveyed(self) -> tuple[str, ...] | None:
        """The columns of rows that ``findings`` needs; None where nothing can be found."""
        ...

    def findings(self, rows: Columns, cases: pl.DataFrame | None) -> Findings:
        """What shows in these whole cases."""
        ...

    def settled(self, found: Findings) -> "Assembler":
        """The same, knowing what was found in all cases. Raises ``LogError`` where ``read_log``
        would.
        """
        ...

    def log_of(self, rows: Columns, cases: pl.DataFrame | None = None) -> EventLog:
        """The log of whole cases, rows in any order; without ``settled``, of all cases. Columns may
        be taken out of ``rows``, so that memory is given back.

        ``case_index`` says where each case's first row stands in all files (where files have cases:
        the case); what is said of the file as a whole (notes, types, conflicts) is said in each.
        """
        ...


@runtime_checkable
class RowSource(Protocol):
    """A log that is read chunk by chunk, once."""

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        """The rows in the order of the files. ``at_once``: all will lie in memory, so that a chunk
        may be as large as the reader likes. Raises ``LogError`` as ``read_log`` does, and
        ``ReadAgain``.
        """
        ...

    def expected_rows(self) -> int:
        """About how many rows there are, from the sizes of the files and what was read so far."""
        ...

    def assembler(self) -> Assembler:
        """What makes logs of the rows; to be asked after the last chunk."""
        ...


class ReadAgain(Exception):
    """What was read so far is to be thrown away, and the chunks to be asked for once more."""


@frozen
class Reader:
    """How a format is read. ``rows``: the rows of files in this order; ``options``: those of
    ``InputOptions`` that say something of it; ``of_several``: whether a log may be several files.
    """

    rows: Callable[[Sequence[Path], ReadRequest], RowSource]
    options: tuple[str, ...] = ()
    of_several: bool = True


def collected(source: RowSource, *, sampled: bool = False) -> EventLog:
    """The whole log, in memory; ``sampled``: as in ``ReadRequest``. Errors as of ``read_log``."""
    chunks: list[RawChunk] | None = None
    sample = ""
    # A reader may find only late that it has to begin anew.
    while chunks is None:
        with suppress(ReadAgain):
            if sampled:
                chunks, sample = sampled_chunks(source)
            else:
                chunks = list(source.chunks(at_once=True))
    tables = [chunk.rows for chunk in chunks]
    of_cases = [chunk.cases for chunk in chunks if chunk.cases is not None]
    # Let go of, so that each column's memory is given back once it is joined.
    chunks.clear()
    cases = joined_rows(of_cases) if of_cases else None
    log = source.assembler().log_of(columns_of(joined_rows(tables)), cases)
    return replace(log, case_index=None, sample=sample)


def sampled_chunks(source: RowSource) -> tuple[list[RawChunk], str]:
    """All rows or, of more than ``WHOLE``, those of ``SAMPLED`` cases at random, and how many of
    how many cases these are, in words. Never many more rows than ``WHOLE`` are held.

    The cases are those with the least keyed hashes of their ids: each is as likely as any other,
    and one that is there in the end was never left out, so that it is whole (bottom-k: Cohen and
    Kaplan 2007). How large the least hashes are tells how many there are, to one in the root of k.
    """
    held: list[RawChunk] = []
    most = SAMPLED
    rows = 0
    events = 0
    # Nobody is left out at first.
    last = np.uint64(_HASHES - 1)
    is_whole = True
    for chunk in source.chunks():
        events += chunk.rows.height
        held.append(_up_to(last, chunk))
        rows += held[-1].rows.height
        while rows > WHOLE:
            if not most:
                raise LogError("log", f"a case has more than {WHOLE:,} rows: no sample holds it")
            is_whole = False
            last, held = _cut(held, most)
            rows = sum(each.rows.height for each in held)
            if rows > WHOLE:
                most //= 2  # so few cases have so many rows
    if is_whole:
        return held, ""
    last, held = _cut(held, most)
    count = len(_hashes_of_cases(held))
    cases = float(f"{count * _HASHES / int(last):.3g}")
    return held, f"{count:,} of about {cases:,.0f} cases ({events:,} events)"


def _cut(held: list[RawChunk], most: int) -> tuple[np.uint64, list[RawChunk]]:
    """The rows of the ``most`` cases with the least hashes, and the last of these."""
    last = _hashes_of_cases(held)[:most][-1]
    return last, [_up_to(last, chunk) for chunk in held]


def _up_to(last: np.uint64, chunk: RawChunk) -> RawChunk:
    """The cases of a chunk whose hashes are at most ``last``."""
    kept = pl.Series(hashes_of_rows(chunk, KEY) <= last)
    cases = None
    if chunk.cases is not None:
        cases = chunk.cases.filter(pl.Series(case_hashes(chunk.cases, chunk.case_id, KEY) <= last))
    return RawChunk(chunk.rows.filter(kept), chunk.case_id, cases)


def _hashes_of_cases(chunks: Sequence[RawChunk]) -> Words:
    """Each hash once, ascending."""
    tables = [(each.rows if each.cases is None else each.cases, each.case_id) for each in chunks]
    return np.unique(np.concatenate([case_hashes(*table, KEY) for table in tables]))


def hashes_of_rows(chunk: RawChunk, key: int) -> Words:
    """A keyed hash of the id of each row's case: uint64, shape (rows,)."""
    if chunk.cases is None:
        return case_hashes(chunk.rows, chunk.case_id, key)
    # A row goes where its case goes.
    places = chunk.cases[PLACE].to_numpy()
    of_row = np.searchsorted(places, chunk.rows[PLACE].to_numpy())
    return case_hashes(chunk.cases, chunk.case_id, key)[of_row]


def case_hashes(table: pl.DataFrame, case_id: str | None, key: int) -> Words:
    """A keyed hash of each row's case id; where one has none, of its place, as it is a case of its
    own: uint64, shape (rows,).
    """
    return _case_keys(table, case_id).hash(key).to_numpy()


def _case_keys(table: pl.DataFrame, case_id: str | None) -> pl.Series:
    if case_id is None or case_id not in table.columns:
        return table[PLACE].cast(pl.String)
    keys = values_of(table, case_id)
    if not keys.null_count():
        return keys
    return keys.fill_null(table[PLACE].cast(pl.String))


def joined_rows(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """The tables of several chunks end to end. What one lacks is missing in it; a column that is of
    several types becomes the texts of its source. The list is emptied, so that memory is given back
    column by column.
    """
    if len(tables) < 2:
        return tables.pop() if tables else pl.DataFrame(schema={ROW: pl.Int64, PLACE: pl.Int64})
    heights = [table.height for table in tables]
    pieces = [columns_of(table) for table in tables]
    tables.clear()
    names = list(dict.fromkeys(name for table in pieces for name in table))
    is_large = sum(heights) * len(names) >= _LARGE
    joined: list[pl.Series] = []
    for name in names:
        column = _joined_column(pieces, name, heights)
        values = len(column) - column.null_count()
        # In one piece, a sparse column would take the memory of all its nulls.
        is_sparse = is_large and values * SPARSE < len(column)
        joined.append((column if is_sparse else column.rechunk()).alias(name))
    return pl.DataFrame(joined)


def columns_of(table: pl.DataFrame) -> Columns:
    """The columns by their names, so that each can be let go of by itself."""
    return {each.name: each.alias("") for each in table}


def in_row_order(rows: Columns) -> Columns:
    """The same rows in the order of the files."""
    if rows[ROW].is_sorted():
        return rows
    order = rows[ROW].arg_sort()
    return {name: values.gather(order) for name, values in rows.items()}


def _joined_column(
    tables: Sequence[Columns],
    name: str,
    heights: Sequence[int],
) -> pl.Series:
    """The values of one column, which are taken from the tables."""
    given = [table.pop(name, None) for table in tables]
    held = [values for values in given if values is not None]
    types = {values.dtype for values in held if values.null_count() < len(values)}
    # Where chunks do not agree on a type, what the source says counts.
    if len(types) > 1:
        given = [
            None if values is None else _spelt(values, table.get(name + TEXT))
            for table, values in zip(tables, given, strict=True)
        ]
        types = {pl.String()}
    dtype = types.pop() if types else held[0].dtype
    # One column of nulls serves all tables without values: a slice takes no memory of its own.
    no_values = nulls(max(heights), dtype)
    pieces = [
        no_values.slice(0, height) if values is None or values.dtype != dtype else values
        for values, height in zip(given, heights, strict=True)
    ]
    return pl.concat(pieces, rechunk=False)


def _spelt(values: pl.Series, texts: pl.Series | None) -> pl.Series:
    """What the source says of a column: its texts, or what the values give back."""
    if texts is not None and texts.null_count() == values.null_count():
        return texts
    given_back = values.cast(pl.String)
    return given_back if texts is None else texts.fill_null(given_back)


def joined_findings(found: Sequence[Findings]) -> Findings:
    """What is found in all parts together."""
    conflicts: dict[str, int] = {}
    for each in found:
        for name, row in each.conflicts.items():
            # The first row that shows it, in whatever order the parts come.
            conflicts[name] = min(row, conflicts.get(name, row))
    numbers = [each.repeated_number for each in found if each.repeated_number is not None]
    return Findings(
        frozenset[str]().union(*(each.differing for each in found)),
        conflicts,
        sum(each.repeated_ids for each in found),
        min(numbers, default=None),
        tuple(some for each in found for some in each.first_numbers),
    )


def text_columns(table: pl.DataFrame) -> list[str]:
    """The columns that hold texts, whatever polars keeps them as."""
    kinds = (pl.String, pl.Categorical, pl.Enum)
    return [name for name, kind in table.schema.items() if kind in kinds]


def text_bytes(table: pl.DataFrame) -> Ints:
    """How many bytes of text each row holds: int64."""
    texts = text_columns(table)
    if not texts:
        return np.zeros(table.height, np.int64)
    sizes = named(*texts).as_expr().cast(pl.String).str.len_bytes().cast(pl.Int64)
    # In one query for all columns: one for each takes most of the time that a small file takes.
    return table.select(pl.sum_horizontal(sizes)).to_series().to_numpy()
