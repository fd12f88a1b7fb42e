"""Faults from outside: ``kill -9`` at any moment, a full disk. Ledger and folders come to
agreement, nothing is half done.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from cloakwork.accounting.ledger import Ledger
from cloakwork.cli import main
from cloakwork.publishing.reconcile import reconcile
from cloakwork.publishing.verify import verify
from conftest import ROOT, Said, runs
from counterexamples.small import small_log, small_policy

KILLS = runs(12)
COMPLETE = {"internal", "plan.json", "statement.json", "log.csv"}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan with budget for all that the tests try: planning once leaves the part that is
    killed.
    """
    made = tmp_path / "plan.json"
    policy = small_policy(tmp_path, total=10_000.0)
    assert main(["plan", str(policy), str(small_log(tmp_path)), "--out", str(made), "--quiet"]) == 0
    return made


def command(plan: Path, out: Path, ledger: str) -> list[str]:
    """One ``apply`` as a command of its own."""
    log = plan.parent / "c-log.csv"
    parts = [
        sys.executable,
        "-m",
        "cloakwork",
        "apply",
        plan,
        log,
        "--out",
        out,
        "--ledger",
        ledger,
    ]
    return [str(part) for part in parts]


def environment() -> dict[str, str]:
    """Where the command finds the engine of this checkout."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), os.environ.get("PYTHONPATH", "")])
    }


SERVER = """
import os, sys
import polars, pydantic, sqlalchemy.dialects.sqlite
import cryptography.hazmat.primitives.asymmetric.ed25519
import cloakwork.api, cloakwork.cli.apply, cloakwork.publishing.publish, cloakwork.report.html
import cloakwork.accounting.ledger
import cloakwork.mechanisms.registry, cloakwork.accounting.events
from cloakwork.cli import main
sys.stdout.flush()
real = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
main(sys.argv[1:])  # a plan: loads what planning loads
os.dup2(real, 1)
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(words[0], os.O_WRONLY), 2)
        code = main(words[1:])
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    sys.stdin.readline()  # until then the process id stays its own
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs one command a line, each in a process that it forks: modules are loaded once, so that kills
meet the work and not the start.
"""


class Server:
    """Processes of ``apply`` that begin at once."""

    def __init__(self, folder: Path, warm: list[str]) -> None:
        self.pipe = folder / "progress"
        os.mkfifo(self.pipe)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, *warm],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: list[str]) -> tuple[int, IO[str]]:
        """The id of a new process, and its standard error to be followed."""
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join([str(self.pipe), *arguments]) + "\n")
        self.process.stdin.flush()
        said = self.pipe.open()
        return int(self._line()), said

    def end(self) -> int:
        """The exit code of the process, negative for a signal; waits for it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def close(self) -> None:
        """No more processes."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The process that forks the runs."""
    policy, log = small_policy(tmp_path, total=10_000.0), small_log(tmp_path)
    found = Server(tmp_path, ["plan", str(policy), str(log), "--quiet", "--no-preview"])
    yield found
    found.close()


def kill_at_random(
    server: Server, arguments: list[str], chance: random.Random, whole: float, lines: int
) -> str:
    """Kill a run at a moment drawn over the whole of it, or soon after a line of progress; which it
    was.
    """
    process, said = server.start(arguments)
    if chance.random() < 0.4:
        time.sleep(chance.uniform(0.0, 1.05) * whole)
        moment = "by the clock"
    else:
        awaited, last = chance.randrange(lines + 1), "begun"
        for _ in range(awaited):
            last = said.readline().strip() or last
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.02), chance.uniform(0.0, 0.1)]))
        moment = f"after '{last.partition(':')[0].partition(' /')[0]}'"
    os.kill(process, signal.SIGKILL)
    said.close()
    return moment if server.end() == -signal.SIGKILL else "finished before"


def test_killed_at_any_moment(tmp_path: Path, ledger: str, plan: Path, server: Server) -> None:
    """After each kill one ``reconcile`` brings ledger and folders to agreement, and nothing of a
    draft is left.
    """
    out, moments = tmp_path / "out", dict[str, int]()
    # Other moments in each run of people, the same ones under continuous integration.
    chance = random.Random(1) if "CI" in os.environ else random.SystemRandom()
    out.mkdir()
    for _ in range(2):  # the first one loads what was left to load
        begun = time.monotonic()
        _, said = server.start(command(plan, out / f"whole{_}", ledger)[3:])
        lines = len(said.readlines())
        assert server.end() == 0
        whole = time.monotonic() - begun
    outcomes = dict[str, int]()
    for run in range(KILLS):
        arguments = command(plan, out / f"out{run}", ledger)[3:]
        moment = kill_at_random(server, arguments, chance, whole, lines)
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
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
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
def test_the_disk_of_the_release_fills(
    tmp_path: Path, ledger: str, plan: Path, small_disk: Callable[[int], Path], kib: int
) -> None:
    """One line, exit 1, no folder, no draft; the entry says failed, or nothing was charged."""
    disk = small_disk(kib)
    said = run_quiet(plan, disk / "out", ledger)
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert list(disk.iterdir()) == []
    assert {record.state for record in Ledger(ledger).history()} <= {"failed"}


def run_quiet(plan: Path, out: Path, ledger: str, limit: int | None = None) -> Said:
    """``apply --quiet`` in a process of its own, on a ledger that exists, with a largest size of
    files.
    """

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit or resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )

    if not Ledger(ledger).exists():
        Ledger(ledger, notice=lambda _: None).reserve("another", policy="p", charges=[]).fail(
            "begins the ledger"
        )
    done = subprocess.run(
        [*command(plan, out, ledger), "--quiet"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("limit", [1024, 8192, 14_000])
def test_files_may_not_grow(tmp_path: Path, ledger: str, plan: Path, limit: int) -> None:
    """A limit on the size of files stops the release's files, or the ledger: one line, exit 1,
    nothing half-written.
    """
    (tmp_path / "out").mkdir()
    said = run_quiet(plan, tmp_path / "out" / "release", ledger, limit)
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert list((tmp_path / "out").iterdir()) == []
    assert Ledger(ledger).verify() is None
    assert reconcile(Ledger(ledger), [tmp_path / "out"]).agrees
    assert {record.state for record in Ledger(ledger).history()} <= {"failed"}


@pytest.mark.parametrize("kib", [20, 28, 36, 44] if "CLOAKWORK_RUNS" in os.environ else [20, 28])
def test_the_disk_of_the_ledger_fills(
    tmp_path: Path, plan: Path, small_disk: Callable[[int], Path], kib: int
) -> None:
    """Wherever it fills: one line, exit 1; the chain is whole, and what stands is known or can be
    completed.
    """
    disk = small_disk(kib)
    ledger = f"sqlite:///{disk / 'ledger.db'}"
    (tmp_path / "out").mkdir()
    said = run_quiet(plan, tmp_path / "out" / "first", ledger)
    for number in range(20):
        if said.code:
            break
        said = run_quiet(plan, tmp_path / "out" / f"out{number}", ledger)
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert Ledger(ledger).verify() is None
    shutil.copytree(disk, tmp_path / "roomy")
    roomy = Ledger(f"sqlite:///{tmp_path / 'roomy' / 'ledger.db'}")
    assert reconcile(roomy, [tmp_path / "out"]).agrees
    check_agreement(tmp_path / "out", f"sqlite:///{tmp_path / 'roomy' / 'ledger.db'}")
