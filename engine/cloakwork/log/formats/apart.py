"""Parquet files and workbooks are read by a process apart: some damage ends the process that meets
it, and no error can be caught.

polars takes the lengths that stand inside a page at their word; one of 2**61 ends in an allocation
that fails, which ends the process. Such a process is asked one question after the other, and ends
with the one that started it.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl

_PROGRAM: Final = """
import io, json, sys
import polars

def answer(**said):
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\\n")
    sys.stdout.buffer.flush()

def rows(path, places, height, most):
    wanted = polars.scan_parquet(path).select(polars.nth(places))
    for first in range(0, height, most):
        stretch = wanted.slice(first, most).collect()
        for frame in stretch.iter_slices(65_536):
            found = io.BytesIO()
            frame.write_ipc_stream(found)
            packed = found.getbuffer()
            answer(size=len(packed))
            sys.stdout.buffer.write(packed)
            sys.stdout.buffer.flush()

def table(path, places):
    polars.read_parquet(path, columns=places)

def workbook(path):
    import fastexcel
    book = fastexcel.read_excel(path)
    for name in book.sheet_names:
        book.load_sheet(name, header_row=None, dtypes="string")

for line in sys.stdin:
    try:
        what, *about = json.loads(line)
        {"rows": rows, "table": table, "workbook": workbook}[what](*about)
        answer(said="")
    except BaseException as error:
        answer(said=(str(error).strip().splitlines() or [type(error).__name__])[0] or "damaged")
"""
ANY_ZONE: Final = "POLARS_IGNORE_TIMEZONE_PARSE_ERROR"
ENDED: Final = "it is damaged so badly that reading it ends the reader"
_idle: dict[int, "list[subprocess.Popen[bytes]]"] = {}
"""Processes that wait for a question, by the id of the one that asks: a fork starts its own."""


@contextmanager
def any_zone() -> Iterator[None]:
    """Let polars read times of zones that it does not know, such as ``+05:30``: the times
    themselves are in UTC.
    """
    before = os.environ.get(ANY_ZONE)
    os.environ[ANY_ZONE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ANY_ZONE]
        else:
            os.environ[ANY_ZONE] = before


def parquet_rows(
    path: Path,
    places: Sequence[int],
    height: int,
    most: int,
) -> Iterator[pl.DataFrame]:
    """The columns at ``places`` of a Parquet file of ``height`` rows, ``most`` rows at a time.
    ``ValueError`` with what is wrong with it.
    """
    if places and height:
        for packed in _answers(["rows", str(path.resolve()), list(places), height, most]):
            with any_zone():
                frame = pl.read_ipc_stream(packed)
            yield frame


def parquet_table(path: Path, places: Sequence[int]) -> pl.DataFrame:
    """The columns at ``places`` of a Parquet file, at once; ``ValueError`` as of
    ``parquet_rows``.
    """
    # Handing all rows over would cost more than reading them again, once no damage is there.
    for _ in _answers(["table", str(path.resolve()), list(places)]):
        pass
    with any_zone():
        return pl.read_parquet(path, columns=[int(place) for place in places])


def require_workbook(path: Path) -> None:
    """``ValueError`` with what is wrong with a workbook, where its sheets cannot all be read."""
    for _ in _answers(["workbook", str(path.resolve())]):
        pass


def _answers(question: list[object]) -> Iterator[bytes]:
    """What a process answers, piece by piece. ``ValueError`` with what it says, or if it ends."""
    process = _process()
    assert process.stdin is not None  # noqa: S101 - both are pipes, see below
    assert process.stdout is not None  # noqa: S101
    is_done = False
    try:
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        while not is_done:
            line = process.stdout.readline()
            # A line that breaks off: the process has ended over this file.
            if not line.endswith(b"\n"):
                raise ValueError(ENDED)
            answer = json.loads(line)
            is_done = "said" in answer
            if is_done and answer["said"]:
                raise ValueError(answer["said"])
            if not is_done:
                packed = process.stdout.read(answer["size"])
                if len(packed) < answer["size"]:
                    raise ValueError(ENDED)
                yield packed
    except BrokenPipeError:
        raise ValueError(ENDED) from None
    finally:
        # One that was not heard out has answers left in its pipe, and serves nobody else.
        if is_done:
            _idle.setdefault(os.getpid(), []).append(process)
        else:
            _end(process)


def _process() -> "subprocess.Popen[bytes]":
    waiting = _idle.setdefault(os.getpid(), [])
    while waiting:
        process = waiting.pop()
        if process.poll() is None:
            return process
        _end(process)
    return subprocess.Popen(  # noqa: S603 - our own interpreter, our own text
        # -P keeps the working folder off its path: no file there can pass for a module.
        [sys.executable, "-P", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # polars prints its panics
        env={**os.environ, ANY_ZONE: "1"},
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@atexit.register
def end_idle() -> None:
    """End the processes that wait for this one."""
    for process in _idle.pop(os.getpid(), []):
        _end(process)
