"""The rows of a log parted by case into files: each part holds whole cases, and fits in memory.

An external hash partition: rows go to the part that a keyed hash of their case's id names, in the
order in which they come (Knuth, The Art of Computer Programming 3, 6.5). A part is one file, a row
of Arrow IPC streams; where they begin is kept in memory: some 16 bytes for each file and million
rows.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Words, offsets_of
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import Pace, say
from cloakwork.engines.workspace import writing_to
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.row_source import (
    ROW,
    Assembler,
    RawChunk,
    ReadAgain,
    RowSource,
    case_hashes,
    columns_of,
    hashes_of_rows,
    joined_findings,
    joined_rows,
    text_bytes,
)

EVENTS_A_PART: Final = 250_000
MOST_PARTS: Final = 512
_BUFFERED_CELLS: Final = 4_000_000
_CELL_BYTES: Final = 16
_SORTED_ROWS: Final = 1 << 16
_TOO_LARGE: Final = 2
"""Times the events of a part."""


@frozen
class CaseFile:
    """A file of whole cases: in turn rows and, where the source says more of cases than rows do,
    these, as they were written at once.

    ``bounds``: int64, shape (2 * times + 1,); where each of these begins, and last where the last
    one ends, in bytes: Arrow IPC streams, or nothing.
    """

    path: Path
    events: int = 0
    bounds: Ints = field(
        default_factory=lambda: np.zeros(1, np.int64),
        compare=False,
        repr=False,
    )

    def read_rows(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Its rows; of them ``columns`` and ``ROW``, or all."""
        requested = None if columns is None else [*columns, ROW]
        return joined_rows([rows for rows in self._tables(0, requested) if rows is not None])

    def read_cases(self) -> pl.DataFrame | None:
        """Its cases, where the source says more of them than rows do."""
        found = [cases for cases in self._tables(1, None) if cases is not None]
        return joined_rows(found) if found else None

    def written_at_once(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame | None]]:
        """Rows and their cases, one time of writing after the other."""
        for rows, cases in zip(
            self._tables(0, None),
            self._tables(1, None),
            strict=True,
        ):
            yield joined_rows([] if rows is None else [rows]), cases

    def _tables(self, first: int, columns: list[str] | None) -> Iterator[pl.DataFrame | None]:
        """Every other one, the ``first`` of them at first; None where there is nothing."""
        with self.path.open("rb") as file:
            begins = self.bounds[first:-1:2]
            ends = self.bounds[first + 1 :: 2]
            for begin, end in zip(begins, ends, strict=True):
                file.seek(begin)
                packed = file.read(end - begin)
                yield pl.read_ipc_stream(packed, columns=columns) if packed else None


@frozen
class Partitioned:
    """A log in parts, each of whole cases; no case is in two, nor two of one id. Fit to be pickled:
    parts may be loaded in other processes.
    """

    files: tuple[CaseFile, ...]
    assembler: Assembler

    def __len__(self) -> int:
        return len(self.files)

    @property
    def events(self) -> int:
        """How many events there are."""
        return sum(part.events for part in self.files)

    def load(self, place: int) -> EventLog:
        """The log of one part; ``case_index`` as from ``Assembler.log_of``."""
        part = self.files[place]
        return self.assembler.log_of(columns_of(part.read_rows()), part.read_cases())


def partition(
    source: RowSource,
    folder: Path,
    key: bytes,
    *,
    part_count: int | None = None,
) -> Partitioned:
    """Read ``source`` once, and part it into files in ``folder``, which is empty and private.

    ``key``: at least 16 secret bytes, for the hash of case ids: who wrote the log cannot say what
    meets in a part. ``part_count``: how many; by default so many that each has some
    ``EVENTS_A_PART`` events, ``MOST_PARTS`` at most. Raises ``LogError`` as ``read_log`` does.
    """
    while True:
        try:
            found = _written(source, folder, key, part_count)
            break
        except ReadAgain:
            # The source is read from its beginning again: what was written so far is void.
            for each in folder.iterdir():
                each.unlink()
    # What the source says of all rows is known once they were read.
    assembler = source.assembler()
    columns = assembler.surveyed
    findings = [
        assembler.findings(
            columns_of(part.read_rows(columns)) if columns else {}, part.read_cases()
        )
        for part in found
        if columns is not None
    ]
    return Partitioned(found, assembler.settled(joined_findings(findings)))


def _written(
    source: RowSource,
    folder: Path,
    key: bytes,
    part_count: int | None,
) -> tuple[CaseFile, ...]:
    writer: _Writer | None = None
    rows = 0
    pace = Pace()
    for chunk in source.chunks():
        if writer is None:
            requested = (
                -(-source.expected_rows() // EVENTS_A_PART) if part_count is None else part_count
            )
            writer = _Writer(
                folder,
                "part",
                key[:8],
                max(1, min(requested, MOST_PARTS)),
            )
        writer.take(chunk)
        rows += chunk.rows.height
        if pace.is_due():
            say(f"read {rows:,} of about {source.expected_rows():,} rows")
    writer = writer or _Writer(
        folder,
        "part",
        key[:8],
        1,
    )
    # A part that came out too large is parted once more, by the other half of the key.
    return tuple(
        smaller
        for part in writer.finished()
        for smaller in (_split(part, key[8:16], writer.case_id) if part_count is None else [part])
    )


def _split(
    part: CaseFile,
    key: bytes,
    case_id: str | None,
) -> Sequence[CaseFile]:
    """A part that is too large in several, by another hash: there were more rows than expected."""
    if part.events <= _TOO_LARGE * EVENTS_A_PART:
        return [part]
    requested = min(-(-part.events // EVENTS_A_PART), MOST_PARTS)
    writer = _Writer(
        part.path.parent,
        part.path.stem,
        key,
        requested,
    )
    for rows, cases in part.written_at_once():
        writer.take(RawChunk(rows, case_id, cases))
    part.path.unlink()
    return writer.finished()


class _Writer:
    """Parts chunks, and appends what it has of each part to its file once there is enough."""

    def __init__(
        self,
        folder: Path,
        name: str,
        key: bytes,
        part_count: int,
    ) -> None:
        self.case_id: str | None = None
        self._seed = int.from_bytes(key, "little")
        self._files = [
            CaseFile(folder / f"{name}-{place:05}.arrows") for place in range(part_count)
        ]
        self._rows: list[_Grouped] = []
        self._cases: list[_Grouped] = []
        self._cells = 0

    def take(self, chunk: RawChunk) -> None:
        """The next rows of the log."""
        self.case_id = chunk.case_id or self.case_id
        if chunk.cases is not None:
            of_case = self._part_of(case_hashes(chunk.cases, chunk.case_id, self._seed))
            self._cases += _grouped(chunk.cases, of_case, len(self._files))
        of_row = self._part_of(hashes_of_rows(chunk, self._seed))
        self._rows += _grouped(chunk.rows, of_row, len(self._files))
        for table in (chunk.rows, chunk.cases):
            if table is not None:
                # Long texts count for more than one value.
                texts = int(text_bytes(table).sum()) // _CELL_BYTES
                self._cells += max(texts, table.height * table.width)
        if self._cells >= _BUFFERED_CELLS:
            self._flush()

    def finished(self) -> tuple[CaseFile, ...]:
        """The parts, all written."""
        self._flush()
        return tuple(self._files)

    def _part_of(self, hashes: Words) -> Ints:
        return (hashes % np.uint64(len(self._files))).astype(np.int64)

    def _flush(self) -> None:
        for place, part in enumerate(self._files):
            rows = _of_part(self._rows, place)
            cases = _of_part(self._cases, place)
            # Both are noted, empty or not: rows and cases take turns in ``bounds``.
            with writing_to(part.path), part.path.open("ab") as file:
                ends = _append(file, rows), _append(file, cases)
            bounds = np.append(part.bounds, ends)
            self._files[place] = CaseFile(part.path, part.events + rows.height, bounds)
        self._rows = []
        self._cases = []
        self._cells = 0


@frozen
class _Grouped:
    """Rows by part: those of part ``i`` are ``table[starts[i]:starts[i + 1]]``, in their order."""

    table: pl.DataFrame
    starts: Ints


def _grouped(
    table: pl.DataFrame,
    part_of: Ints,
    part_count: int,
) -> Iterator[_Grouped]:
    """The rows by part, stretch by stretch: so many rows stay in the processor's cache."""
    for first in range(0, table.height, _SORTED_ROWS):
        owner = part_of[first : first + _SORTED_ROWS]
        # 16 bits are sorted by radix, in linear time.
        order = np.argsort(owner.astype(np.uint16), kind="stable")
        starts = offsets_of(np.bincount(owner, minlength=part_count))
        yield _Grouped(table.slice(first, _SORTED_ROWS)[order], starts)


def _of_part(grouped: Sequence[_Grouped], place: int) -> pl.DataFrame:
    pieces = [
        each.table.slice(each.starts[place], each.starts[place + 1] - each.starts[place])
        for each in grouped
    ]
    held = [piece for piece in pieces if piece.height]
    return joined_rows(held) if held else pl.DataFrame()


def _append(file: io.BufferedWriter, table: pl.DataFrame) -> int:
    """Write a table at the end of a file, nothing for an empty one; where the file ends then."""
    if table.height:
        table.write_ipc_stream(file, compat_level=pl.CompatLevel.oldest())
    return file.tell()
