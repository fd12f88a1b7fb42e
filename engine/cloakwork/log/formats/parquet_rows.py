"""The rows of Parquet files, some at a time, read by a process apart: damage may end that one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import polars as pl

from cloakwork.log.formats.subprocess_reader import ANY_ZONE, ENDED, any_zone

_READER: Final = """
import io, json, sys
import polars

def answer(**said):
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\\n")
    sys.stdout.buffer.flush()

for line in sys.stdin:
    path, places, height, most = json.loads(line)
    try:
        table = polars.scan_parquet(path)
        wanted = table.select(polars.nth(places))
        for first in range(0, height, most):
            stretch = wanted.slice(first, most).collect()
            for frame in stretch.iter_slices(65_536):
                found = io.BytesIO()
                frame.write_ipc_stream(found)
                packed = found.getbuffer()
                answer(size=len(packed))
                sys.stdout.buffer.write(packed)
                sys.stdout.buffer.flush()
        answer(said="")
    except BaseException as error:
        answer(said=(str(error).strip().splitlines() or [type(error).__name__])[0] or "damaged")
"""


class ParquetRows:
    """Reads Parquet files, one after the other; to be closed."""

    def __init__(self) -> None:
        self._reader: subprocess.Popen[bytes] | None = None

    def read(
        self, path: Path, places: Sequence[int], height: int, most: int
    ) -> Iterator[pl.DataFrame]:
        """The columns at ``places`` of a file of ``height`` rows, ``most`` rows at a time.
        ``ValueError`` with what is wrong with it.
        """
        if not places or not height:
            return
        reader = self._running()
        assert reader.stdin is not None  # noqa: S101 - both are pipes, see below
        assert reader.stdout is not None  # noqa: S101
        question = json.dumps([str(path.resolve()), list(places), height, most])
        try:
            reader.stdin.write(question.encode() + b"\n")
            reader.stdin.flush()
        except BrokenPipeError:
            raise ValueError(ENDED) from None
        while True:
            answer = _answer(reader.stdout)
            if "said" in answer:
                if answer["said"]:
                    raise ValueError(answer["said"])
                return
            packed = reader.stdout.read(int(answer["size"]))
            if len(packed) < int(answer["size"]):
                raise ValueError(ENDED)
            with any_zone():
                frame = pl.read_ipc_stream(packed)
            yield frame

    def close(self) -> None:
        """End the process, if one was started."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        reader.kill()
        reader.wait()
        for pipe in (reader.stdin, reader.stdout):
            if pipe is not None:
                pipe.close()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._reader is None or self._reader.poll() is not None:
            self.close()
            self._reader = subprocess.Popen(  # noqa: S603 - our own interpreter, our own text
                [sys.executable, "-P", "-c", _READER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # polars prints its panics
                env={**os.environ, ANY_ZONE: "1"},
            )
        return self._reader


def _answer(pipe: IO[bytes]) -> dict[str, str | int]:
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise ValueError(ENDED)
    answer: dict[str, str | int] = json.loads(line)
    return answer
