"""A Parquet file or a workbook is read by a process apart first: some damage ends the process that
meets it, and no error can be caught.

polars takes the lengths that stand inside a page at their word; one of 2**61 ends in an allocation
that fails, which ends the process. A process that was started for it is asked once for each file,
and reads only; it ends with the one that started it.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

_READER: Final = """
import json, sys
import polars
for line in sys.stdin:
    path, places = json.loads(line)
    try:
        if places is None:
            import fastexcel
            book = fastexcel.read_excel(path)
            for name in book.sheet_names:
                book.load_sheet(name, header_row=None, dtypes="string")
        else:
            polars.read_parquet(path, columns=places)
        said = ""
    except BaseException as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    print(json.dumps(said), flush=True)
"""
ANY_ZONE: Final = "POLARS_IGNORE_TIMEZONE_PARSE_ERROR"
ENDED: Final = "it is damaged so badly that reading it ends the reader"
_ASKING = Lock()
_readers: dict[int, "subprocess.Popen[str]"] = {}
"""By the id of the process that asks: a fork starts its own."""


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


def fault_of(path: Path, places: Sequence[int]) -> str | None:
    """What is wrong with the columns at ``places`` of a Parquet file, in a few words; None where
    they can be read.
    """
    return _answer([str(path.resolve()), list(places)])


def fault_of_workbook(path: Path) -> str | None:
    """What is wrong with a workbook, in a few words; None where all its sheets can be read."""
    return _answer([str(path.resolve()), None])


def _answer(question: list[object]) -> str | None:
    """What the reader says of a file, None for nothing."""
    with _ASKING:
        reader = _running_reader()
        assert reader.stdin is not None  # noqa: S101 - both are pipes, see below
        assert reader.stdout is not None  # noqa: S101
        try:
            reader.stdin.write(json.dumps(question) + "\n")
            reader.stdin.flush()
            answer = reader.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _end_reader()
            return ENDED
    return json.loads(answer) or None


def _running_reader() -> "subprocess.Popen[str]":
    found = _readers.get(os.getpid())
    if found is None or found.poll() is not None:
        found = subprocess.Popen(  # noqa: S603 - our own interpreter, our own text
            [sys.executable, "-P", "-c", _READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # polars prints its panics
            text=True,
            encoding="utf-8",
        )
        _readers[os.getpid()] = found
    return found


def _end_reader() -> None:
    """End this process's reader, if there is one."""
    reader = _readers.pop(os.getpid(), None)
    if reader is not None:
        reader.kill()
        reader.wait()


atexit.register(_end_reader)
