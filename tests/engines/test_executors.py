"""Processes that work on batches for this one."""

import os
import pickle
import signal
import sys
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from cloakwork.engines.executors import InThisProcess, Processes, read_message
from cloakwork.errors import LogError, MechanismError
from cloakwork.log.eventlog import CASE_ID
from cloakwork.log.formats.apart import end_idle, parquet_rows
from cloakwork.log.formats.reading import open_rows


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    """They are started once for all of these tests."""
    made = Processes(2)
    yield made
    made.close()


def squared(place: int) -> tuple[int, int]:
    return place * place, os.getpid()


def refused(place: int) -> int:
    if place == 3:
        raise LogError(Path("log.csv"), "a line is damaged", line=7, hint="correct it")
    return place


def killed(place: int) -> int:
    if place == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return place


def test_results_come_in_the_order_of_places(two: Processes) -> None:
    """Whichever process found them; of closures, too."""
    found = list(two.run(lambda place: squared(place + 0), 9))
    assert [result for result, _ in found] == [place * place for place in range(9)]
    assert len({process for _, process in found}) == 2
    assert os.getpid() not in {process for _, process in found}


def test_one_place_needs_no_process(two: Processes) -> None:
    """It is done here."""
    assert list(two.run(squared, 1)) == [(0, os.getpid())]
    assert list(two.run(squared, 0)) == []


def test_an_error_is_what_the_task_raised(two: Processes) -> None:
    """With all that it holds, and those who come next find new processes."""
    with pytest.raises(LogError) as caught:
        list(two.run(refused, 6))
    assert caught.value.problem.line == 7
    assert str(caught.value).startswith("log.csv:7: a line is damaged")
    assert list(two.run(refused, 3)) == [0, 1, 2]


def test_a_process_that_is_killed_is_one_line(two: Processes) -> None:
    """The system kills what takes too much memory: said, with what to do."""
    with pytest.raises(MechanismError, match="CLOAKWORK_PROCESSES") as caught:
        list(two.run(killed, 4))
    assert "\n" not in str(caught.value)
    assert list(two.run(refused, 2)) == [0, 1]


def test_what_a_task_prints_is_no_answer(two: Processes) -> None:
    """It goes to standard error."""
    assert list(two.run(partial(_printing, "noise"), 4)) == [0, 1, 2, 3]


def _printing(text: str, place: int) -> int:
    print(text)
    return place


def test_in_this_process_one_after_the_other() -> None:
    """As far as results are asked for."""
    results = InThisProcess().run(refused, 6)
    assert [next(results) for _ in range(3)] == [0, 1, 2]


def test_helpers_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file beside a log is data, whatever it is called: no helper process runs it."""
    log, ran = tmp_path / "log.parquet", tmp_path / "ran"
    pl.DataFrame({CASE_ID: ["1"], "concept:name": ["a"]}).write_parquet(log)
    for name in ("polars", "pickle", "json"):
        planted = f"open({str(ran)!r}, 'w').close()\nraise SystemExit\n"
        (tmp_path / f"{name}.py").write_text(planted)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [each for each in sys.path if each])
    end_idle()  # one that runs already has its imports
    executor = Processes(2)
    assert sum(table.height for table in parquet_rows(log, [0], 1, 1)) == 1
    assert sum(chunk.rows.height for chunk in open_rows(log, timeless=True).chunks()) == 1
    assert list(executor.run(lambda place: place, 3)) == [0, 1, 2]
    executor.close()
    assert not ran.exists()


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_message_that_is_cut_is_none(size: int) -> None:
    """Wherever a process was killed while it wrote."""
    whole = pickle.dumps(bytes(size))
    assert read_message(BytesIO(whole)) == bytes(size)
    for cut in (0, 1, 9, len(whole) // 2, len(whole) - 1):
        assert read_message(BytesIO(whole[:cut])) is None
