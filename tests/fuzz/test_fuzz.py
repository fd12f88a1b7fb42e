"""Damaged and exaggerated logs and policies: a log or one line, in bounded time and memory, and
what a second reader reads.

A few hundred inputs; ``CLOAKWORK_RUNS=20000`` for as many of each log format and a tenth as many
policies. The inputs follow from their seeds: ``python -m fuzz.worker csv 17 1`` (with ``engine``
and ``tests`` on PYTHONPATH) repeats one.
"""

import json
import os
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
PATIENCE = 300
"""Seconds that a worker may take over its inputs before it is stopped, on a machine that does much
else.
"""


def results(kind: str, first: int, count: int, errors: Path) -> Iterator[dict[str, Any]]:
    """What became of each input; a worker that dies is a finding, and the next goes on behind the
    input it died of.
    """
    while count > 0:
        some = min(count, AT_A_TIME)
        lines = _worked(kind, first, some, errors)
        done = [line for line in lines if "said" in line]
        yield from done
        begun = max((line["begins"] for line in lines if "begins" in line), default=first)
        if len(done) < some:
            yield {"seed": begun, "said": "the process died", "seconds": 0.0, "peak": 0.0}
            some = begun - first + 1
        first, count = first + some, count - some


def _worked(kind: str, first: int, count: int, errors: Path) -> list[dict[str, Any]]:
    path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "tests")])
    command = [sys.executable, "-m", "fuzz.worker", kind, str(first), str(count)]
    patience = max(PATIENCE, count * SECONDS / 5)
    with errors.open("wb") as err:  # polars prints the panics that it raises
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=err, env={**os.environ, "PYTHONPATH": path}
        )
        try:
            out, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
    whole = out.decode().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


@pytest.mark.parametrize("kind", sorted(INPUTS))
def test_no_input_breaks_a_reader(kind: str, tmp_path: Path) -> None:
    """Every input is accepted or refused in words; within the bounds; accepted alike by a second
    reader.
    """
    found = list(results(kind, 0, INPUTS[kind], tmp_path / "errors"))
    assert len(found) == INPUTS[kind]
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
