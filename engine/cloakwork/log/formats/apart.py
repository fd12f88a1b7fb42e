"""Parquet files and workbooks are read by a process apart first: some damage ends the process that
meets it, and no error can be caught. What it could read is read again here, which costs less than
handing the rows over.

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
import json, sys
import polars

def parquet(path, places, height, most):
    wanted = polars.scan_parquet(path, glob=False).select(polars.nth(places))
    for first in range(0, height, most):
        wanted.slice(first, most).collect()

def workbook(path):
    import fastexcel
    book = fastexcel.read_excel(path)
    for name in book.sheet_names:
        book.load_sheet(name, header_row=None, dtypes="string")

for line in sys.stdin:
    said = ""
    try:
        what, *about = json.loads(line)
        {"parquet": parquet, "workbook": workbook}[what](*about)
    except BaseException as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0] or "damaged"
    print(json.dumps(said), flush=True)
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
    if not places or not height:
        return
    _require("parquet", str(path.resolve()), [*map(int, places)], height, most)
    for first in range(0, height, most):
        with any_zone():
            scanned = pl.scan_parquet(path, glob=False).select(pl.nth(places))
            frame = scanned.slice(first, most).collect()
        yield frame


def require_workbook(path: Path) -> None:
    """``ValueError`` with what is wrong with a workbook, where its sheets cannot all be read."""
    _require("workbook", str(path.resolve()))


def _require(*question: object) -> None:
    """Ask a process to read something. ``ValueError`` with what it says, or if it ends."""
    process = _process()
    assert process.stdin is not None  # noqa: S101 - both are pipes, see below
    assert process.stdout is not None  # noqa: S101
    answer = b""
    try:
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except BrokenPipeError:
        pass  # it ended before it was asked
    finally:
        # One that was not heard out has an answer left in its pipe, and serves nobody else.
        if answer.endswith(b"\n"):
            _idle.setdefault(os.getpid(), []).append(process)
        else:
            _end(process)
    # A line that breaks off: the process has ended over this file.
    said = json.loads(answer) if answer.endswith(b"\n") else ENDED
    if said:
        raise ValueError(said)


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
