"""Faults from outside: ``kill -9`` at any moment, a full disk, many at once, a killed server.
Ledger and folders come to agreement, nothing is half done, and the ledger never shows less spent
than what was released. ``CLOAKWORK_AT_ONCE`` sets how many start together. With ``CLOAKWORK_RUNS``
a hundred do, and a database server is killed among them.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.publishing.examine import verify
from cloakwork.publishing.reconcile import reconcile
from conftest import Said, in_long_form, runs
from counterexamples.small import small_log, small_policy
from forked import Fork, Forks

IN_LONG_FORM = "CLOAKWORK_RUNS" in os.environ
KILLS = runs(12)
AT_ONCE = int(os.environ.get("CLOAKWORK_AT_ONCE", "99" if IN_LONG_FORM else "6"))
COMPLETE = {"internal", "plan.json", "statement.json", "log.csv", "measurements.parquet"}
postgres_in_long_form = pytest.mark.skipif(
    not IN_LONG_FORM, reason="a database server and its faults: CLOAKWORK_RUNS=1"
)


@pytest.fixture
def planned(tmp_path):
    """A plan with budget for so many releases: planning once leaves the part that is killed, or
    raced for.
    """

    def plan(releases: int = 10_000) -> Path:
        policy, log = small_policy(tmp_path, total=float(releases)), small_log(tmp_path)
        made = tmp_path / "plan.json"
        assert main(["plan", str(policy), str(log), "--out", str(made), "--quiet"]) == 0
        return made

    return plan


def command(plan: Path, out: Path, ledger: str) -> list[object]:
    """One ``apply``."""
    return ["apply", plan, plan.parent / "c-log.csv", "--out", out, "--ledger", ledger]


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


def test_killed_at_any_moment(tmp_path, ledger, planned, forks):
    """After each kill one ``reconcile`` brings ledger and folders to agreement, and nothing of a
    draft is left.
    """
    plan, out, pipe = planned(), tmp_path / "out", tmp_path / "progress"
    os.mkfifo(pipe)
    out.mkdir()
    # Other moments in each run of people, the same ones under continuous integration.
    chance = random.Random(1) if "CI" in os.environ else random.SystemRandom()
    for name in ("whole0", "whole1"):  # the first one loads what was left to load
        begun = time.monotonic()
        fork = forks.start(command(plan, out / name, ledger), err=pipe)
        lines = len(pipe.read_text().splitlines())
        assert fork.end() == 0
        whole = time.monotonic() - begun
    moments, outcomes = [], []
    for run in range(KILLS):
        fork = forks.start(command(plan, out / f"out{run}", ledger), err=pipe)
        moments.append(kill_at_random(fork, pipe.open(), chance, whole, lines))
        before = {record.id: record.state for record in Ledger(ledger).history()}
        done = reconcile(Ledger(ledger), [out])
        assert done.agrees, done.findings
        assert not {"elsewhere", "in progress"} & {finding.outcome for finding in done.findings}
        check_agreement(out, ledger)
        outcomes += [
            f"{before[finding.release]} -> {finding.outcome}"
            for finding in done.findings
            if finding.outcome != "agrees"
        ]
    for folder in out.iterdir():
        assert verify(folder).checks
    assert Ledger(ledger).verify() is None
    print(f"{KILLS} kills in runs of {whole:.1f} s: {moments}; reconciled: {outcomes}")


def check_agreement(out: Path, ledger: str) -> None:
    """Every folder is whole and committed, every entry without one is closed, and nothing else lies
    about.
    """
    records = Ledger(ledger).history()
    assert {record.state for record in records} <= {"committed", "failed"}
    assert {str(folder) for folder in out.iterdir()} == committed_folders(ledger)
    assert all({path.name for path in folder.iterdir()} == COMPLETE for folder in out.iterdir())
    assert not list(Path(ledger.removeprefix("sqlite:///")).parent.glob("*.lock"))


def committed_folders(ledger: str) -> set[str]:
    """Where the releases lie that the ledger holds as committed."""
    committed = [record for record in Ledger(ledger).history() if record.state == "committed"]
    return {record.place.folder for record in committed if record.place}


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
        request = ReservationRequest(dataset="another", policy="p", charges=())
        Ledger(ledger, notice=lambda _: None).reserve(request).fail("begins the ledger")
    first = LIMITED.format(limit) if limit is not None else ""
    return forks.run([*command(plan, out, ledger), "--quiet"], first=first)


def check_nothing_came_of(said: Said, folder: Path, ledger: str) -> None:
    """One line, exit 1, no folder, no draft; the entry says failed, or nothing was charged."""
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert list(folder.iterdir()) == []
    assert {record.state for record in Ledger(ledger).history()} <= {"failed"}


@pytest.mark.parametrize("kib", [4, 12, 24])
def test_the_disk_of_the_release_fills(ledger, planned, forks, small_disk, kib):
    disk = small_disk(kib)
    check_nothing_came_of(run_quiet(forks, planned(), disk / "out", ledger), disk, ledger)


@pytest.mark.parametrize("limit", [1024, 14_000, 24_576])
def test_files_may_not_grow(tmp_path, ledger, planned, forks, limit):
    """A limit on their size stops the release's files, or the ledger: nothing half-written."""
    out = tmp_path / "out"
    out.mkdir()
    said = run_quiet(forks, planned(), out / "release", ledger, limit)
    check_nothing_came_of(said, out, ledger)
    assert Ledger(ledger).verify() is None
    assert reconcile(Ledger(ledger), [out]).agrees


@pytest.mark.parametrize("kib", [36, 44, *in_long_form(52, 60)])
def test_the_disk_of_the_ledger_fills(tmp_path, planned, forks, small_disk, kib):
    """Wherever it fills: one line, exit 1; the chain is whole, and what stands is known or can be
    completed.
    """
    disk, out, plan = small_disk(kib), tmp_path / "out", planned()
    ledger = f"sqlite:///{disk / 'ledger.db'}"
    out.mkdir()
    for number in range(20):
        said = run_quiet(forks, plan, out / f"out{number}", ledger)
        if said.code:
            break
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert Ledger(ledger).verify() is None
    shutil.copytree(disk, tmp_path / "roomy")
    roomy = f"sqlite:///{tmp_path / 'roomy' / 'ledger.db'}"
    assert reconcile(Ledger(roomy), [out]).agrees
    check_agreement(out, roomy)


def started(forks: Forks, plan: Path, ledger: str, names: range) -> dict[Path, Fork]:
    """So many runs, each to a folder of its own."""
    out = plan.parent / "out"
    out.mkdir(exist_ok=True)
    folders = [out / f"out{name}" for name in names]
    return {folder: forks.start(command(plan, folder, ledger)) for folder in folders}


@pytest.mark.parametrize("where", ["ledger", pytest.param("database", marks=postgres_in_long_form)])
def test_many_at_once_spend_what_a_third_may(where, request, planned, forks):
    """On one fresh ledger with budget for a third of them: these succeed, each other one is refused
    with exit 4, none fails.
    """
    ledger, enough = request.getfixturevalue(where), AT_ONCE // 3
    running = started(forks, planned(enough), ledger, range(AT_ONCE))
    codes = {folder: fork.end() for folder, fork in running.items()}
    assert sorted(codes.values()) == [0] * enough + [4] * (AT_ONCE - enough)
    assert all(folder.is_dir() == (code == 0) for folder, code in codes.items())
    book = Ledger(ledger)
    assert [record.state for record in book.history()] == ["committed"] * enough
    assert book.verify() is None
    assert book.remaining("clinic")["case"].left.epsilon == 0.0


@pytest.fixture(scope="module")
def own_server():
    """A server that a test may kill."""
    from postgres import running_server

    with running_server() as found:
        yield found


def wait_for(reached: Callable[[], bool]) -> None:
    """Until it is so, a minute at most."""
    from postgres import PATIENCE

    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def reserved(err: Path) -> bool:
    """Whether a run says that it takes its first step: its budget was reserved before."""
    return err.exists() and "\nbound: " in err.read_text("utf-8")


@postgres_in_long_form
def test_the_server_is_killed(own_server, planned, forks, cloakwork):
    """In the middle of many runs: each ends by itself, with a code of the contract and one line.
    What was reserved stays spent, later runs get the rest and no more, and ``reconcile`` brings
    folders and ledger to agreement.
    """
    ledger, enough = own_server.database(), AT_ONCE // 2
    plan = planned(enough)
    running = started(forks, plan, ledger, range(AT_ONCE))
    wait_for(lambda: Ledger(ledger).history() != ())
    own_server.kill()
    own_server.start()
    codes = {folder: fork.end() for folder, fork in running.items()}
    assert set(codes.values()) <= {0, 1, 4}
    for folder, fork in running.items():
        said = fork.err.read_text("utf-8")
        assert "Traceback" not in said
        if codes[folder] == 1:
            assert said.splitlines()[-1].startswith("ledger postgresql://"), said
    book = Ledger(ledger)
    assert book.verify() is None
    spent = len(book.history())
    assert sum(reserved(fork.err) for fork in running.values()) <= spent <= enough
    assert {str(folder) for folder in codes if codes[folder] == 0} <= committed_folders(ledger)
    later = started(forks, plan, ledger, range(AT_ONCE, 2 * AT_ONCE - spent))
    ended = sorted(fork.end() for fork in later.values())
    assert ended == [0] * (enough - spent) + [4] * (AT_ONCE - enough)
    assert len(book.history()) == enough
    said = cloakwork("ledger", "reconcile", plan.parent / "out", "--ledger", ledger)
    assert said.code == 0, said.out + said.err
    standing = {str(folder) for folder in (plan.parent / "out").iterdir()}
    assert standing == committed_folders(ledger)
    assert {record.state for record in book.history()} <= {"committed", "failed"}
    print(f"{spent} were reserved when the server was back; codes {sorted(codes.values())}")


@postgres_in_long_form
def test_a_server_that_is_away(own_server, planned, cloakwork):
    """One line, exit 1, before the log is read; nothing is written."""
    ledger, plan = own_server.database(), planned()
    own_server.kill()
    out = plan.parent / "out"
    said = cloakwork(*command(plan, out, ledger), "--quiet")
    assert (said.code, said.err.count("\n")) == (1, 1), said.err
    assert said.err.startswith("ledger postgresql://")
    assert not out.exists()
    own_server.start()


@postgres_in_long_form
def test_a_connection_that_is_lost(database):
    """In the middle of a transaction: one line, nothing of it stands, and the next one works."""
    from cloakwork.errors import LedgerError
    from ledger.test_ledger import reserve, unit

    ledger = Ledger(database, notice=lambda _: None)
    reserve(ledger, unit(0.1))
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "

    def cut(_: object) -> None:
        run_as_owner(database, end + "AND datname = current_database()")

    with pytest.raises(LedgerError) as lost:
        ledger.record_event("compared", "claims", {}, require=cut)
    assert "\n" not in str(lost.value)
    assert "the connection was lost" in str(lost.value)
    assert len(ledger.journal.read()) == 1
    reserve(ledger, unit(0.1))
    assert ledger.verify() is None


def run_as_owner(database: str, *statements: str) -> None:
    """Run SQL on a server."""
    from sqlalchemy import create_engine, text

    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()
