"""The benchmark of scale: its logs are what it says, and a cell sees what its command uses."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.plan.policies import load_policy
from conftest import ROOT

FOLDER = ROOT / "benchmarks" / "scale"
EVENTS = 2_000


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """``generate.py`` and ``cell.py``."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("generate", "cell"):
        sys.modules.pop(name, None)
    yield importlib.import_module("generate"), importlib.import_module("cell")
    for name in ("generate", "cell"):
        sys.modules.pop(name, None)


def sorted_rows(log: EventLog) -> pl.DataFrame:
    """The rows of a log, case by case."""
    return (
        log.to_polars()
        .select(CASE_ID, ACTIVITY, TIMESTAMP, "case:person")
        .sort(CASE_ID, maintain_order=True)
    )


def test_every_format_holds_the_same_cases(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of about so many events, by time in tables, with persons of several cases."""
    generate, _ = modules
    monkeypatch.setattr(generate, "CASES_AT_ONCE", 50)
    monkeypatch.setattr(generate, "STAGGERED", 20)
    wanted = [str(EVENTS), "--people", "3", "--mutate", "0.01"]
    for name in ("log.parquet", "log.csv.gz", "log.xes.gz", "folder"):
        generate.main([str(tmp_path / name), *wanted])
    rows = pl.read_parquet(tmp_path / "log.parquet")
    assert EVENTS <= rows.height < EVENTS + 100
    assert rows[TIMESTAMP].is_sorted()
    assert 0.2 < rows["case:person"].n_unique() / rows[CASE_ID].n_unique() < 0.4
    assert not rows[CASE_ID].equals(rows[CASE_ID].sort())
    files = sorted((tmp_path / "folder").iterdir())
    assert len(files) == 4
    assert pl.concat(map(pl.read_parquet, files)).equals(rows)
    logs = [
        sorted_rows(read_log(tmp_path / f"log.{form}")) for form in ("parquet", "csv.gz", "xes.gz")
    ]
    assert logs[0].equals(logs[1].select(logs[0].columns).cast(logs[0].schema))
    assert logs[0].equals(logs[2].select(logs[0].columns))


def test_more_variants_as_it_grows(modules: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    """Events that are changed now and then make sequences that the seed log does not have."""
    generate, _ = modules
    for name, share in (("same", "0"), ("changed", "0.05")):
        generate.main([str(tmp_path / f"{name}.parquet"), str(EVENTS), "--mutate", share])
    sequences = [
        pl.read_parquet(tmp_path / f"{name}.parquet")
        .group_by(CASE_ID)
        .agg(pl.col(ACTIVITY).str.join("|"))[ACTIVITY]
        .n_unique()
        for name in ("same", "changed")
    ]
    assert sequences[1] > 1.3 * sequences[0]


def test_a_cell_sees_memory_and_files_of_children(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that writes 5 MB and holds 60 MB until somebody has seen both, or a minute."""
    _, cell = modules
    child = (
        "import pathlib, time\n"
        "held = bytearray(b'x' * 60_000_000)\n"
        "pathlib.Path('big').write_bytes(held[:5_000_000])\n"
        "end = time.monotonic() + 60\n"
        "while not pathlib.Path('seen').exists() and time.monotonic() < end: time.sleep(0.01)\n"
        "pathlib.Path('big').unlink()\n"
    )
    parent = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    look = cell.Watch.look_at_disk

    def noted(watch: object) -> None:
        look(watch)
        if watch.disk >= 5_000_000 and watch.held >= 60_000_000:  # type: ignore[attr-defined]
            (tmp_path / "seen").touch()

    monkeypatch.setattr(cell.Watch, "look_at_disk", noted)
    monkeypatch.setattr(cell, "EVERY", 0.01)
    figures, printed = cell.watched([sys.executable, "-c", parent], tmp_path)
    assert (tmp_path / "seen").exists()
    assert figures["peak_mb"] >= figures["held_mb"] >= 60
    assert figures["disk_mb"] >= 5
    assert figures["processes"] == 2
    assert printed == b""
    failed, _ = cell.watched([sys.executable, "-c", "raise SystemExit('nothing there')"], tmp_path)
    assert failed == {"failed": "nothing there"}


def test_a_child_that_still_has_its_parents_memory_counts_once(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    """Between the fork and its own program; a program of its own counts."""
    _, cell = modules
    forking = "import os; forked = os.fork(); os.write(1, b'%d\\n' % forked); os.read(0, 1)"
    with subprocess.Popen(
        [sys.executable, "-c", forking], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        forked = max(int(started.stdout.readline()) for _ in range(2))  # the child prints 0
        assert cell.is_starting(forked)
        assert not cell.is_starting(started.pid)
        started.communicate("\n\n")


def test_policies_are_valid_and_figures_are_of_them() -> None:
    """Each names the reports from which stages are read, and results name no other."""
    policies = {path.stem: load_policy(path) for path in (FOLDER / "policies").glob("*.yaml")}
    assert all("json" in policy.spec.output.report for policy in policies.values())
    measured = json.loads((FOLDER / "results.json").read_text("utf-8"))
    assert {row["policy"] for row in measured.values()} - {""} <= set(policies)
