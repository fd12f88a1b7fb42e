"""Many ``apply`` at once on one ledger, ``kill -9`` of its database server included: never more is
spent than the total, and nothing is handed back.

With ``CLOAKWORK_RUNS`` a hundred start together, on a file as well; else a few (``test_races.py``
has the file).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from counterexamples.small import small_log, small_policy
from forked import Fork, Forks
from postgres import PATIENCE, running_server

AT_ONCE = 100 if "CLOAKWORK_RUNS" in os.environ else 4
KINDS = ["server", "file"] if "CLOAKWORK_RUNS" in os.environ else ["server"]
ENOUGH = AT_ONCE // 2
"""How many releases the budget covers."""


@pytest.fixture
def plan(tmp_path):
    """A plan with budget for ``ENOUGH`` releases."""
    made = tmp_path / "plan.json"
    policy = small_policy(tmp_path, total=float(ENOUGH))
    assert main(["plan", str(policy), str(small_log(tmp_path)), "--out", str(made), "--quiet"]) == 0
    return made


def started(forks: Forks, plan: Path, ledger: str, names: range) -> dict[Path, Fork]:
    """So many runs, each to a folder of its own."""
    out = plan.parent / "out"
    out.mkdir(exist_ok=True)
    log = plan.parent / "c-log.csv"
    return {
        out / f"out{name}": forks.start(
            ["apply", plan, log, "--out", out / f"out{name}", "--ledger", ledger]
        )
        for name in names
    }


@pytest.mark.parametrize("kind", KINDS)
def test_at_once(kind, plan, ledger, forks, request):
    """As many succeed as the budget covers, each other is refused with exit 4, none fails."""
    where = ledger if kind == "file" else request.getfixturevalue("database")
    runs = started(forks, plan, where, range(AT_ONCE))
    codes = {folder: fork.end() for folder, fork in runs.items()}
    assert sorted(codes.values()) == [0] * ENOUGH + [4] * (AT_ONCE - ENOUGH)
    assert all(folder.is_dir() == (code == 0) for folder, code in codes.items())
    book = Ledger(where)
    assert [record.state for record in book.history()] == ["committed"] * ENOUGH
    assert book.verify() is None
    assert book.remaining("clinic")["case"].left.epsilon == 0.0


@pytest.fixture(scope="module")
def own_server():
    """A server that a test may kill."""
    with running_server() as found:
        yield found


def wait_for(reached: Callable[[], bool]) -> None:
    """Until it is so, a minute at most."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def reserved(err: Path) -> bool:
    """Whether a run says that it takes its first step: its budget was reserved before."""
    return err.exists() and "\nbound: " in err.read_text("utf-8")


def test_the_server_is_killed(own_server, plan, forks, cloakwork):
    """In the middle of many runs: each ends by itself, with a code of the contract and one line.
    What was reserved stays spent, later runs get the rest and no more, and ``reconcile`` brings
    folders and ledger to agreement.
    """
    ledger = own_server.database()
    runs = started(forks, plan, ledger, range(AT_ONCE))
    wait_for(lambda: Ledger(ledger).history() != ())
    own_server.kill()
    own_server.start()
    codes = {folder: fork.end() for folder, fork in runs.items()}
    assert set(codes.values()) <= {0, 1, 4}
    for folder, fork in runs.items():
        said = fork.err.read_text("utf-8")
        assert "Traceback" not in said
        if codes[folder] == 1:
            assert said.splitlines()[-1].startswith("ledger postgresql://"), said
    book = Ledger(ledger)
    assert book.verify() is None
    spent = book.history()
    assert sum(reserved(fork.err) for fork in runs.values()) <= len(spent) <= ENOUGH
    assert {str(folder) for folder, code in codes.items() if code == 0} <= {
        record.place.folder for record in spent if record.state == "committed" and record.place
    }
    later = started(forks, plan, ledger, range(AT_ONCE, 2 * AT_ONCE - len(spent)))
    assert sorted(fork.end() for fork in later.values()) == sorted(
        [0] * (ENOUGH - len(spent)) + [4] * (AT_ONCE - ENOUGH)
    )
    assert len(book.history()) == ENOUGH
    said = cloakwork("ledger", "reconcile", plan.parent / "out", "--ledger", ledger)
    assert said.code == 0, said.out + said.err
    standing = {str(folder) for folder in (plan.parent / "out").iterdir()}
    assert standing == {
        record.place.folder
        for record in book.history()
        if record.state == "committed" and record.place
    }
    assert {record.state for record in book.history()} <= {"committed", "failed"}
    print(f"{len(spent)} were reserved when the server was back; codes {sorted(codes.values())}")


def test_a_server_that_is_away(own_server, plan, cloakwork):
    """One line, exit 1, before the log is read; nothing is written."""
    ledger = own_server.database()
    own_server.kill()
    out = plan.parent / "out"
    log = plan.parent / "c-log.csv"
    said = cloakwork("apply", plan, log, "--out", out, "--ledger", ledger, "--quiet")
    assert (said.code, said.err.count("\n")) == (1, 1), said.err
    assert said.err.startswith("ledger postgresql://")
    assert not out.exists()
    own_server.start()
