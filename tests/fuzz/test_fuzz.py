"""Damaged and exaggerated logs and policies: a log or one line, in bounded time and memory, and
what a second reader reads.

A few hundred inputs; ``CLOAKWORK_RUNS=20000`` for as many of each log format and a tenth as many
policies. The inputs follow from their seeds: ``echo csv 17 | python -m fuzz.worker`` (with
``engine`` and ``tests`` on PYTHONPATH) repeats one.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, runs
from fuzz.mutations import mutated

SECONDS, MEBIBYTES = 10.0, 1024.0
INPUTS = {"xes": runs(80), "csv": runs(120), "parquet": runs(100), "policy": runs(240) // 10} | {
    "options": runs(100),
    "other": runs(60),
}
AT_A_TIME = 500
"""Inputs of one process, so that what one of them leaves in memory is not counted for ever."""

PATIENCE = 300
"""Seconds that a process may take over one input, on a machine that does much else."""


class Worker:
    """A process that runs inputs; where one ends it, that is a finding, and a new process goes on
    with the next.
    """

    def __init__(self, errors: Path) -> None:
        self._errors = errors.open("wb")  # polars prints the panics that it raises
        self._process: subprocess.Popen[bytes] | None = None
        self._done = 0

    def result(self, kind: str, seed: int) -> dict[str, Any]:
        """What became of one input."""
        if self._process is None or self._done == AT_A_TIME:
            self.close()
            path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "tests")])
            self._done = 0
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._done += 1
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{kind} {seed}\n".encode())
        self._process.stdin.flush()
        answers, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if answers else b""
        if line.endswith(b"\n"):
            return json.loads(line)
        self.close()
        return {"seed": seed, "said": "the process died", "seconds": 0.0, "peak": 0.0}

    def close(self) -> None:
        """No more inputs for this process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One for all kinds of inputs."""
    made = Worker(tmp_path_factory.mktemp("fuzz") / "errors")
    yield made
    made.close()


@pytest.mark.parametrize("kind", sorted(INPUTS))
def test_no_input_breaks_a_reader(kind: str, worker: Worker) -> None:
    """Every input is accepted or refused in words; within the bounds; accepted alike by a second
    reader.
    """
    found = [worker.result(kind, seed) for seed in range(INPUTS[kind])]
    faults = [
        result
        for result in found
        if result["said"] not in ("accepted", "refused")
        or "unlike" in result
        or result["seconds"] > SECONDS
        or result["peak"] > MEBIBYTES
    ]
    assert not faults, "\n".join(map(str, faults[:10]))
    said = {result["said"] for result in found}
    assert said == {"accepted", "refused"}, "inputs that are all of one kind try nothing"


def test_inputs_follow_from_their_seeds() -> None:
    """So that a finding can be repeated."""
    for kind in INPUTS:
        assert mutated(kind, 3) == mutated(kind, 3)
