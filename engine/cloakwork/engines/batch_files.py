"""Batches of a log on disk: immutable Arrow files, and segments of batches for other batches."""

import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.engines.workspace import writing_to
from cloakwork.log.eventlog import EventLog, joined_batches

# No column of a log begins so: readers take no name with a zero byte.
_INDEX: Final = "\0index"
_LENGTH: Final = "\0length"
_INSERTED: Final = "\0inserted"


@dataclass(frozen=True, slots=True)
class BatchFile:
    """One batch in a file. ``bounds``: where each of its segments begins, and last where the last
    one ends, in bytes: int64, shape (segments + 1,).
    """

    path: Path
    cases: int
    events: int
    bounds: Ints = field(compare=False, repr=False)


def write_segments(segments: Iterable[EventLog | None], path: Path) -> BatchFile:
    """Write logs end to end, each to be read by itself; None: nothing for that place."""
    cases = events = 0
    bounds = [0]
    with writing_to(path), private_file(path) as file:
        for log in segments:
            if log is not None and log.cases.height:
                _write_log(log, file)
                cases += log.cases.height
                events += log.events.height
            bounds.append(file.tell())
    return BatchFile(path, cases, events, np.array(bounds))


def write_batch(log: EventLog, path: Path) -> BatchFile:
    """Write a batch; one without cases keeps its columns."""
    with writing_to(path), private_file(path) as file:
        _write_log(log, file)
        return BatchFile(path, log.cases.height, log.events.height, np.array([0, file.tell()]))


def read_batch(file: BatchFile) -> EventLog:
    """What ``write_batch`` wrote."""
    return _read_log(file.path.read_bytes())


def read_segments(files: Sequence[BatchFile], places: range) -> EventLog | None:
    """The segments of these places, which follow one another, in all files, end to end; None where
    all are empty.
    """
    found = []
    for batch in files:
        bounds = batch.bounds[places.start : places.stop + 1].tolist()
        if bounds[0] == bounds[-1]:
            continue
        with batch.path.open("rb") as file:
            for begin, end in pairwise(bounds):
                if begin < end:
                    file.seek(begin)
                    found.append(_read_log(file.read(end - begin)))
    return joined_batches(found) if found else None


def private_file(path: Path) -> io.BufferedRandom:
    """A new file that its owner alone may read, to be written and read."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")


def _write_log(log: EventLog, file: IO[bytes]) -> None:
    # hstack and drop_in_place plan no query: most of what a small batch would cost.
    cases = log.cases.hstack(
        [
            pl.Series(_INDEX, log.index_of_case, pl.Int64),
            pl.Series(_LENGTH, np.diff(log.offsets), pl.Int64),
        ]
    )
    events = log.events
    if log.inserted is not None:
        events = events.hstack([pl.Series(_INSERTED, log.inserted)])
    tables = [_as_stream(cases), _as_stream(events)]
    header = json.dumps([len(table) for table in tables]).encode()
    file.write(len(header).to_bytes(8, "little") + header)
    for table in tables:
        file.write(table)


def _as_stream(table: pl.DataFrame) -> bytes:
    target = io.BytesIO()
    table.write_ipc_stream(target, compression="lz4")
    return target.getvalue()


def _read_log(content: bytes) -> EventLog:
    begin = 8 + int.from_bytes(content[:8], "little")
    of_cases, of_events = json.loads(content[8:begin])
    view = memoryview(content)
    cases = pl.read_ipc_stream(io.BytesIO(view[begin : begin + of_cases]))
    events = pl.read_ipc_stream(io.BytesIO(view[begin + of_cases : begin + of_cases + of_events]))
    lengths = cases.drop_in_place(_LENGTH).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    inserted = None
    if _INSERTED in events.columns:
        inserted = events.drop_in_place(_INSERTED).to_numpy().astype(np.bool_)
    index: Ints = cases.drop_in_place(_INDEX).to_numpy().astype(np.int64)
    return EventLog(events, cases, offsets, inserted=inserted, case_index=index)
