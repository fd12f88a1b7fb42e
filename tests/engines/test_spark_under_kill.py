"""``apply`` on Spark, of which a process is killed: the one that was started, its JVM, or a Python
that the JVM runs tasks in. No release is half there, no budget is handed back, one line tells, and
the next run and ``reconcile`` clean up; of what Spark keeps, nothing is claimed.

With ``CLOAKWORK_RUNS`` only: so many kills of each, by chance. One takes half a minute.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.test_every_failure import COMPLETE
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.examine import verify
from conftest import ROOT, runs
from counterexamples.small import small_log, small_policy
from spark_session import missing

KILLS = runs(1)
PATIENCE = 300
"""Seconds."""

pytestmark = pytest.mark.skipif(
    "CLOAKWORK_RUNS" not in os.environ or missing() is not None, reason="minutes: CLOAKWORK_RUNS=1"
)

OWN = (
    "--master local[1] --driver-memory 512m --conf spark.ui.enabled=false "
    "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 "
    "--conf spark.sql.shuffle.partitions=2 "
    "--driver-java-options=-XX:TieredStopAtLevel=1 pyspark-shell"
)


def below(process: int) -> dict[int, str]:
    """All processes that one has started, and these in turn, each with its name."""
    found, parents = {process: ""}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
            parents[int(stat.parent.name)] = (int(rest.split()[1]), name)
    while new := {each: name for each, (parent, name) in parents.items()
                  if parent in found and each not in found}:  # fmt: skip
        found |= new
    del found[process]
    return found


def victim(process: int, which: str) -> int | None:
    """The process to be killed; None where it is not there (yet)."""
    if which == "driver":
        return process
    for jvm in (each for each, name in below(process).items() if name == "java"):
        if which == "jvm":
            return jvm
        return next(iter(below(jvm)), None)
    return None


def own_lines(file: Path) -> list[str]:
    """Lines of progress, and none of Spark's."""
    told = file.read_text("utf-8").splitlines()
    return told[told.index("plan proved again") :] if "plan proved again" in told else []


def kill_at_random(
    running: subprocess.Popen[bytes], which: str, err: Path, chance: random.Random
) -> str:
    """Some time after a line of progress; where it was, or nothing where the run ended before."""
    awaited, delay = chance.randint(0, 12), chance.choice([0.0, chance.uniform(0, 2)])
    while running.poll() is None:
        process = victim(running.pid, which)
        if process is not None and len(own_lines(err)) >= awaited:
            time.sleep(delay)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                return f"{which} after '{err.read_text('utf-8').splitlines()[-1][:60]}'"
        time.sleep(0.01)
    return ""


def wait_for_end(jvms: list[int]) -> None:
    """A JVM ends with who started it; a process that is dead and unheard counts as ended."""
    deadline = time.monotonic() + PATIENCE

    def is_alive(process: int) -> bool:
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    while any(map(is_alive, jvms)):
        assert time.monotonic() < deadline, "a JVM goes on without its driver"
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a plan, a log, and folders for what is temporary."""
    policy, log, made = small_policy(tmp_path), tmp_path / "log.parquet", tmp_path / "plan.json"
    # Spark reads no CSV.
    assert main(["convert", str(small_log(tmp_path)), str(log), "--quiet"]) == 0
    assert main(["plan", str(policy), str(log), "--out", str(made), "--quiet"]) == 0
    for name in ("work", "tmp", "made"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CLOAKWORK_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", OWN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "engine"), *sys.path]))
    yield tmp_path


@pytest.mark.parametrize("which", ["driver", "jvm", "python"])
def test_killed_anywhere(folder: Path, which: str) -> None:
    """Which process."""
    chance = random.SystemRandom()
    for number in range(KILLS):
        made, err = folder / "made" / str(number), folder / f"err{number}"
        made.mkdir()
        ledger, out = f"sqlite:///{made / 'ledger.db'}", made / "out"
        words = [
            "apply",
            str(folder / "plan.json"),
            str(folder / "log.parquet"),
            "--ledger",
            ledger,
        ]
        with err.open("w") as said:
            running = subprocess.Popen(
                [sys.executable, "-m", "cloakwork", *words, "--out", out, "--engine", "spark"],
                env=os.environ | {"TMPDIR": str(folder / "tmp")},
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
            place = kill_at_random(running, which, err, chance)
            jvms = [each for each, name in below(running.pid).items() if name == "java"]
            code = running.wait(PATIENCE)
        wait_for_end(jvms)
        told = err.read_text("utf-8")
        print(number, place or "untouched", code, told.splitlines()[-1:])
        assert code in ((0, -9) if which == "driver" else (0, 1, 5)), told
        assert place or code == 0, told
        assert "Traceback" not in told and "internal error" not in told, told
        book = Ledger(ledger)
        records = book.history() if book.exists() else ()
        assert len(records) <= 1 and (not records or book.verify() is None)
        stepped = "\nbound" in told
        assert records or not stepped, "budget was handed back after a look at the log"
        assert code != 0 or (out.exists() and records[0].state == "committed")
        if out.exists():
            assert {path.name for path in out.iterdir()} == COMPLETE and verify(out).checks
            assert records[0].statement_digest is not None, "it stands, and nothing says so"
        again = [*words, "--out", str(made / "again"), "--engine", "local", "--quiet"]
        assert main(again) == 0
        assert main(["ledger", "reconcile", str(made), "--ledger", ledger]) == 0
        states = [record.state for record in book.history()]
        assert len(states) == len(records) + 1 and {*states} <= {"committed", "failed"}
        assert not [*folder.rglob(".cloakwork-*"), *folder.rglob("*.lock")], "something was left"
        assert not [*(folder / "work").iterdir()], "batches of the raw log were left"
        print("left by Spark:", [path.name for path in (folder / "tmp").iterdir()])
