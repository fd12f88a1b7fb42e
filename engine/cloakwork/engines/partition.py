"""The rows of a log parted by case into files: each part holds whole cases, and fits in memory.

An external hash partition: rows go to the part that a keyed hash of their case's id names, in the
order in which they come (Knuth, The Art of Computer Programming 3, 6.5). A part is one file, a row
of Arrow IPC streams; where they begin is kept in memory.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
_BUFFERED_CELLS: Final = 6_000_000
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
    if assembler.surveyed:
        surveyed = assembler.surveyed
        findings = [
            assembler.findings(part.read_rows(surveyed), part.read_cases()) for part in found
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


@dataclass
class _Buffered:
    rows: list[pl.DataFrame] = field(default_factory=list)
    cases: list[pl.DataFrame] = field(default_factory=list)
    part_of_row: list[Ints] = field(default_factory=list)
    part_of_case: list[Ints] = field(default_factory=list)
    cells: int = 0


class _Writer:
    """Gathers chunks, and appends them to the files of their parts once there are enough."""

    def __init__(self, folder: Path, key: bytes, parts: int) -> None:
        self._seed = int.from_bytes(key[:8], "little")
        self._parts = [Part(folder / f"part-{place:05}.arrows") for place in range(parts)]
        self._buffered = _Buffered()

    def take(self, chunk: RawChunk) -> None:
        """The next rows of the log."""
        buffered = self._buffered
        if chunk.cases is None:
            of_row = self._part_of(chunk.key)
        else:
            of_case = self._part_of(_key_of_each(chunk.key, chunk.cases))
            buffered.cases.append(chunk.cases)
            buffered.part_of_case.append(of_case)
            places = chunk.cases[PLACE].to_numpy()
            of_row = of_case[np.searchsorted(places, chunk.rows[PLACE].to_numpy())]
        buffered.rows.append(chunk.rows)
        buffered.part_of_row.append(of_row)
        buffered.cells += chunk.rows.height * chunk.rows.width
        if buffered.cells >= _BUFFERED_CELLS:
            self._flush()

    def finished(self) -> tuple[Part, ...]:
        """The parts, all written."""
        self._flush()
        return tuple(self._parts)

    def _part_of(self, keys: pl.Series) -> Ints:
        hashes = keys.hash(self._seed).to_numpy()
        return (hashes % np.uint64(len(self._parts))).astype(np.int64)

    def _flush(self) -> None:
        buffered, self._buffered = self._buffered, _Buffered()
        if not buffered.rows:
            return
        rows = self._by_part(buffered.rows, buffered.part_of_row)
        cases = self._by_part(buffered.cases, buffered.part_of_case)
        for place, part in enumerate(self._parts):
            with part.path.open("ab") as file:
                added = replace(
                    part,
                    rows=(*part.rows, *_append(file, rows(place))),
                    cases=(*part.cases, *_append(file, cases(place))),
                    events=part.events + rows(place).height,
                )
            self._parts[place] = added

    def _by_part(
        self, tables: list[pl.DataFrame], part_of: list[Ints]
    ) -> Callable[[int], pl.DataFrame]:
        """The rows of each part, in their order."""
        if not tables:
            return lambda _: pl.DataFrame()
        together = pl.concat(tables, how="diagonal") if len(tables) > 1 else tables[0]
        owner = np.concatenate(part_of)
        # 16 bits are sorted by radix, in linear time.
        order = np.argsort(owner.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(owner, minlength=len(self._parts)))
        starts = np.concatenate([[0], ends[:-1]])
        grouped = together[order]
        return lambda place: grouped.slice(int(starts[place]), int(ends[place] - starts[place]))


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
