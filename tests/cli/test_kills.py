"""Faults from outside: ``kill -9`` at any moment, a full disk. Ledger and folders come to
agreement, nothing is half done.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest

from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.publishing.reconcile import reconcile
from cloakwork.publishing.verify import verify
from conftest import Said, runs
from counterexamples.small import small_log, small_policy
from forked import Fork, Forks

KILLS = runs(12)
COMPLETE = {"internal", "plan.json", "statement.json", "log.csv"}


@pytest.fixture
def plan(tmp_path):
    """A plan with budget for all that the tests try: planning once leaves the part that is
    killed.
    """
    made = tmp_path / "plan.json"
    policy = small_policy(tmp_path, total=10_000.0)
    assert main(["plan", str(policy), str(small_log(tmp_path)), "--out", str(made), "--quiet"]) == 0
    return made


def command(plan: Path, out: Path, ledger: str) -> list[object]:
    """One ``apply``."""
    return ["apply", plan, plan.parent / "c-log.csv", "--out", out, "--ledger", ledger]


@pytest.fixture
def pipe(tmp_path):
    """Where progress can be followed."""
    made = tmp_path / "progress"
    os.mkfifo(made)
    return made


def kill_at_random(
    fork: Fork, said: IO[str], chance: random.Random, whole: float, lines: int
) -> str:
    """Kill a run at a moment drawn over the whole of it, or soon after a line of progress; which it
    was.
    """
    if chance.random() < 0.4:
        time.sleep(chance.uniform(0.0, 1.05) * whole)
        moment = "by the clock"
    else:
        awaited, last = chance.randrange(lines + 1), "begun"
        for _ in range(awaited):
            last = said.readline().strip() or last
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.02), chance.uniform(0.0, 0.1)]))
        moment = f"after '{last.partition(':')[0].partition(' /')[0]}'"
    os.kill(fork.process, signal.SIGKILL)
    said.close()
    return moment if fork.end() == -signal.SIGKILL else "finished before"


def test_killed_at_any_moment(tmp_path, ledger, plan, forks, pipe):
    """After each kill one ``reconcile`` brings ledger and folders to agreement, and nothing of a
    draft is left.
    """
    out, moments = tmp_path / "out", dict[str, int]()
    # Other moments in each run of people, the same ones under continuous integration.
    chance = random.Random(1) if "CI" in os.environ else random.SystemRandom()
    out.mkdir()
    for _ in range(2):  # the first one loads what was left to load
        begun = time.monotonic()
        fork = forks.start(command(plan, out / f"whole{_}", ledger), err=pipe)
        lines = len(pipe.read_text().splitlines())
        assert fork.end() == 0
        whole = time.monotonic() - begun
    outcomes = dict[str, int]()
    for run in range(KILLS):
        fork = forks.start(command(plan, out / f"out{run}", ledger), err=pipe)
        moment = kill_at_random(fork, pipe.open(), chance, whole, lines)
        before = {record.id: record.state for record in Ledger(ledger).history()}
        done = reconcile(Ledger(ledger), [out])
        assert done.agrees, done.findings
        assert not [
            finding for finding in done.findings if finding.outcome in ("elsewhere", "in progress")
        ]
        check_agreement(out, ledger)
        moments[moment] = moments.get(moment, 0) + 1
        for finding in done.findings:
            if finding.outcome != "agrees":
                step = f"{before[finding.release]} -> {finding.outcome}"
                outcomes[step] = outcomes.get(step, 0) + 1
    for folder in out.iterdir():
        assert verify(folder).checks
    assert Ledger(ledger).verify() is None
    releases = len(list(out.iterdir()))
    print(f"{KILLS} kills in runs of {whole:.1f} s: {moments}")
    print(f"reconciled: {outcomes}; releases: {releases}")


def check_agreement(out: Path, ledger: str) -> None:
    """Every folder is whole and committed, every entry without one is closed, and nothing else lies
    about.
    """
    records = {record.id: record for record in Ledger(ledger).history()}
    assert {record.state for record in records.values()} <= {"committed", "failed"}
    committed = {
        record.place.folder
        for record in records.values()
        if record.place and record.state == "committed"
    }
    assert {str(folder) for folder in out.iterdir()} == committed
    assert all({path.name for path in folder.iterdir()} == COMPLETE for folder in out.iterdir())
    assert not list(Path(ledger.removeprefix("sqlite:///")).parent.glob("*.lock"))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of so many KiB; needs root."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(kib: int) -> Path:
        options = ["-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(place)]
        if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.parametrize("kib", [4, 12, 24])
def test_the_disk_of_the_release_fills(tmp_path, ledger, plan, forks, small_disk, kib):
    """One line, exit 1, no folder, no draft; the entry says failed, or nothing was charged."""
    disk = small_disk(kib)
    said = run_quiet(forks, plan, disk / "out", ledger)
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert list(disk.iterdir()) == []
    assert {record.state for record in Ledger(ledger).history()} <= {"failed"}


LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, resource.RLIM_INFINITY))
"""
"""No file may be larger."""


def run_quiet(forks: Forks, plan: Path, out: Path, ledger: str, limit: int | None = None) -> Said:
    """``apply --quiet`` in a process of its own, on a ledger that exists, with a largest size of
    files.
    """
    if not Ledger(ledger).exists():
        Ledger(ledger, notice=lambda _: None).reserve(
            ReservationRequest(dataset="another", policy="p", charges=())
        ).fail("begins the ledger")
    first = LIMITED.format(limit) if limit is not None else ""
    return forks.run([*command(plan, out, ledger), "--quiet"], first=first)


@pytest.mark.parametrize("limit", [1024, 14_000, 24_576])
def test_files_may_not_grow(tmp_path, ledger, plan, forks, limit):
    """A limit on the size of files stops the release's files, or the ledger: one line, exit 1,
    nothing half-written.
    """
    (tmp_path / "out").mkdir()
    said = run_quiet(forks, plan, tmp_path / "out" / "release", ledger, limit)
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert list((tmp_path / "out").iterdir()) == []
    assert Ledger(ledger).verify() is None
    assert reconcile(Ledger(ledger), [tmp_path / "out"]).agrees
    assert {record.state for record in Ledger(ledger).history()} <= {"failed"}


@pytest.mark.parametrize("kib", [36, 44, 52, 60] if "CLOAKWORK_RUNS" in os.environ else [36, 44])
def test_the_disk_of_the_ledger_fills(tmp_path, plan, forks, small_disk, kib):
    """Wherever it fills: one line, exit 1; the chain is whole, and what stands is known or can be
    completed.
    """
    disk = small_disk(kib)
    ledger = f"sqlite:///{disk / 'ledger.db'}"
    (tmp_path / "out").mkdir()
    said = run_quiet(forks, plan, tmp_path / "out" / "first", ledger)
    for number in range(20):
        if said.code:
            break
        said = run_quiet(forks, plan, tmp_path / "out" / f"out{number}", ledger)
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert Ledger(ledger).verify() is None
    shutil.copytree(disk, tmp_path / "roomy")
    roomy = Ledger(f"sqlite:///{tmp_path / 'roomy' / 'ledger.db'}")
    assert reconcile(roomy, [tmp_path / "out"]).agrees
    check_agreement(tmp_path / "out", f"sqlite:///{tmp_path / 'roomy' / 'ledger.db'}")
