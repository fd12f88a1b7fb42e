"""The rows of a log parted by case into files: each part holds whole cases, and fits in memory.

An external hash partition: rows go to the part that a keyed hash of their case's id names, in the
order in which they come (Knuth, The Art of Computer Programming 3, 6.5). A part is one file, a row
of Arrow IPC streams; where they begin is kept in memory.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.row_source import (
    PLACE,
    ROW,
    Assembler,
    RawChunk,
    ReadAgain,
    RowSource,
    joined_findings,
)

EVENTS_A_PART: Final = 250_000
MOST_PARTS: Final = 256
_BUFFERED_CELLS: Final = 4_000_000
_SORTED_ROWS: Final = 1 << 16
_KEY: Final = "key"

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """An Arrow IPC stream inside a part's file: the bytes from ``start`` on, ``size`` of them."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """A file of whole cases: the pieces of its ``rows`` and of its ``cases``, in order."""

    path: Path
    events: int = 0
    rows: tuple[Piece, ...] = ()
    cases: tuple[Piece, ...] = ()

    def read_rows(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Its rows; of them ``columns`` and ``ROW``, or all."""
        wanted = None if columns is None else [*columns, ROW]
        return self._read(self.rows, wanted)

    def read_cases(self) -> pl.DataFrame | None:
        """Its cases, where the file says more of them than rows do."""
        return self._read(self.cases, None) if self.cases else None

    def _read(self, pieces: Sequence[Piece], columns: list[str] | None) -> pl.DataFrame:
        if not pieces:
            return pl.DataFrame(schema={ROW: pl.Int64, PLACE: pl.Int64})
        with self.path.open("rb") as file:
            found = [_read_piece(file, piece, columns) for piece in pieces]
        return pl.concat(found, how="diagonal") if len(found) > 1 else found[0]


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A log in parts, each of whole cases; no case is in two, nor two of one id. Fit to be pickled:
    parts may be loaded in other processes.
    """

    parts: tuple[Part, ...]
    assembler: Assembler

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def events(self) -> int:
        """How many events there are."""
        return sum(part.events for part in self.parts)

    def load(self, place: int) -> EventLog:
        """The log of one part; ``case_index`` as from ``Assembler.log_of``."""
        part = self.parts[place]
        return self.assembler.log_of(part.read_rows(), part.read_cases())


def partition(
    source: RowSource, folder: Path, key: bytes, *, parts: int | None = None
) -> Partitioned:
    """Read ``source`` once, and part it into files in ``folder``, which is empty and private.

    ``key``: at least 16 secret bytes, for the hash of case ids: who wrote the log cannot say what
    meets in a part. ``parts``: how many; by default so many that each has some
    ``EVENTS_A_PART`` events, ``MOST_PARTS`` at most. Raises ``LogError`` as ``read_log`` does.
    """
    try:
        writer = _written(source, folder, key, parts)
    except ReadAgain:
        for each in folder.iterdir():
            each.unlink()
        writer = _written(source, folder, key, parts)
    found = writer.finished()
    assembler = source.assembler()
    columns = assembler.surveyed
    if columns is not None:
        findings = [
            assembler.findings(part.read_rows(columns) if columns else None, part.read_cases())
            for part in found
        ]
        assembler = assembler.settled(joined_findings(findings))
    return Partitioned(found, assembler)


def _written(source: RowSource, folder: Path, key: bytes, parts: int | None) -> "_Writer":
    writer: _Writer | None = None
    for chunk in source.chunks():
        if writer is None:
            wanted = -(-source.expected_rows() // EVENTS_A_PART) if parts is None else parts
            writer = _Writer(folder, key, max(1, min(wanted, MOST_PARTS)))
        writer.take(chunk)
    return writer or _Writer(folder, key, 1)


class _Writer:
    """Parts chunks, and appends what it has of each part to its file once there is enough."""

    def __init__(self, folder: Path, key: bytes, parts: int) -> None:
        self._seed = int.from_bytes(key[:8], "little")
        self._parts = [Part(folder / f"part-{place:05}.arrows") for place in range(parts)]
        self._rows: list[_Grouped] = []
        self._cases: list[_Grouped] = []
        self._cells = 0

    def take(self, chunk: RawChunk) -> None:
        """The next rows of the log."""
        if chunk.cases is None:
            of_row = self._part_of(chunk.key)
        else:
            of_case = self._part_of(_key_of_each(chunk.key, chunk.cases))
            self._cases += _grouped(chunk.cases, of_case, len(self._parts))
            places = chunk.cases[PLACE].to_numpy()
            of_row = of_case[np.searchsorted(places, chunk.rows[PLACE].to_numpy())]
        self._rows += _grouped(chunk.rows, of_row, len(self._parts))
        self._cells += chunk.rows.height * chunk.rows.width
        if self._cells >= _BUFFERED_CELLS:
            self._flush()

    def finished(self) -> tuple[Part, ...]:
        """The parts, all written."""
        self._flush()
        return tuple(self._parts)

    def _part_of(self, keys: pl.Series) -> Ints:
        hashes = keys.hash(self._seed).to_numpy()
        return (hashes % np.uint64(len(self._parts))).astype(np.int64)

    def _flush(self) -> None:
        for place, part in enumerate(self._parts):
            rows, cases = _of_part(self._rows, place), _of_part(self._cases, place)
            with part.path.open("ab") as file:
                self._parts[place] = replace(
                    part,
                    rows=(*part.rows, *_append(file, rows)),
                    cases=(*part.cases, *_append(file, cases)),
                    events=part.events + rows.height,
                )
        self._rows, self._cases, self._cells = [], [], 0


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Rows by part: those of part ``i`` are ``table[starts[i]:starts[i + 1]]``, in their order."""

    table: pl.DataFrame
    starts: Ints


def _grouped(table: pl.DataFrame, part_of: Ints, parts: int) -> Iterator[_Grouped]:
    """The rows by part, stretch by stretch: so many rows stay in the processor's cache."""
    for first in range(0, table.height, _SORTED_ROWS):
        owner = part_of[first : first + _SORTED_ROWS]
        # 16 bits are sorted by radix, in linear time.
        order = np.argsort(owner.astype(np.uint16), kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=parts))])
        yield _Grouped(table.slice(first, _SORTED_ROWS)[order], starts)


def _of_part(grouped: Sequence[_Grouped], place: int) -> pl.DataFrame:
    """All rows of one part."""
    pieces = [
        each.table.slice(each.starts[place], each.starts[place + 1] - each.starts[place])
        for each in grouped
    ]
    held = [piece for piece in pieces if piece.height]
    if not held:
        return pl.DataFrame()
    return pl.concat(held, how="diagonal", rechunk=True) if len(held) > 1 else held[0]


def _key_of_each(keys: pl.Series, cases: pl.DataFrame) -> pl.Series:
    """The keys of cases; where one has none, its place: it is a case of its own."""
    if not keys.null_count():
        return keys
    return (
        pl.DataFrame({_KEY: keys, PLACE: cases[PLACE]})
        .select(pl.coalesce(pl.col(_KEY), pl.col(PLACE).cast(pl.String)))
        .to_series()
    )


def _append(file: io.BufferedWriter, table: pl.DataFrame) -> tuple[Piece, ...]:
    """Write a table at the end of a file; nothing for an empty one."""
    if not table.height:
        return ()
    start = file.tell()
    table.write_ipc_stream(file, compression="lz4", compat_level=pl.CompatLevel.oldest())
    return (Piece(start, file.tell() - start),)


def _read_piece(file: io.BufferedReader, piece: Piece, columns: list[str] | None) -> pl.DataFrame:
    file.seek(piece.start)
    packed = file.read(piece.size)
    return pl.read_ipc_stream(packed, columns=columns)
