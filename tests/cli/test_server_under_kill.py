"""A server of the ledger that is killed while ``apply`` writes to it: at each statement and each
commit, before it and while it is carried out, from the first one on, which makes the ledger. It
never shows less spent than what a step has looked at, no release is half there, one line tells, and
the next run and ``reconcile`` clean up.

With ``CLOAKWORK_RUNS`` only: all places, and at each commit so many moments.
"""

import os
import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from cli.test_every_failure import COMPLETE, HANDED_BACK, STEPPED
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.examine import verify
from conftest import Said, runs
from counterexamples.small import small_log, small_policy
from postgres import PATIENCE, PostgresServer, running_server

pytestmark = pytest.mark.skipif(
    "CLOAKWORK_RUNS" not in os.environ, reason="a server that is killed: CLOAKWORK_RUNS=10"
)

MOMENTS = runs(10)
"""While a statement is carried out, at each place."""

MOST = 1000
"""Places that no run has."""

ARMED = """
import os, sys, threading, time
sys.path.append({tests!r})
from pathlib import Path
from postgres import kill_server
from sqlalchemy import event
from sqlalchemy.engine import Engine

places, delay = 0, {delay}

def kill(what):
    Path({mark!r}).write_text(what)
    kill_server(Path({data!r}))
    # Back before the statement goes on, or only after the run.
    while {returns} and not os.path.exists({mark!r} + ".back"):
        time.sleep(0.01)

def place(what):
    global places
    places += 1
    if places != {n}:
        return
    if delay is None:
        kill(what)
    else:
        threading.Timer(delay, kill, [what]).start()

event.listen(Engine, "before_cursor_execute", lambda c, s, said, *rest: place(said[:60]))
event.listen(Engine, "commit", lambda _: place("commit"))
"""
"""Kills the server at the ``n``-th place; ``delay``: so many seconds after the place was reached,
beside it."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that is killed, and comes back."""
    with running_server() as found:
        yield found


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """For ``apply`` on a small log beside it."""
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    made = tmp_path / "plan.json"
    assert main(["plan", str(policy), str(log), "--out", str(made), "--quiet"]) == 0
    return made


def words_for(plan: Path, out: Path, ledger: str) -> list[str]:
    log = plan.parent / "c-log.csv"
    return ["apply", str(plan), str(log), "--out", str(out), "--ledger", ledger, "--quiet"]


@pytest.fixture
def killed(
    server: PostgresServer, plan: Path, forks, tmp_path: Path
) -> Callable[..., tuple[str, Said]]:
    """One ``apply`` on an empty database: where the server was killed, nothing if the run ended
    before, and what was said. All is checked.
    """
    numbers = count()

    def run(n: int, delay: float | None, *, returns: bool, twin: str = "") -> tuple[str, Said]:
        number = next(numbers)
        folder, ledger = tmp_path / f"run{number}", server.database()
        folder.mkdir()
        mark, stepped = tmp_path / f"mark{number}", tmp_path / f"stepped{number}"
        armed = ARMED.format(
            tests=str(Path(__file__).parents[1]),
            mark=str(mark),
            data=str(server.data),
            returns=returns,
            n=n,
            delay=delay,
        )
        first = STEPPED.format(str(stepped)) + twin + armed
        fork = forks.start(words_for(plan, folder / "out", ledger), first=first)
        if returns:
            deadline = time.monotonic() + PATIENCE
            while not mark.exists() and Path(f"/proc/{fork.process}/stat").exists():
                state = Path(f"/proc/{fork.process}/stat").read_text().rpartition(")")[2].split()
                if state[0] == "Z":
                    break
                assert time.monotonic() < deadline
                time.sleep(0.01)
            if mark.exists():
                server.start()
                Path(f"{mark}.back").touch()
        said = Said(fork.end(), fork.out.read_text("utf-8"), fork.err.read_text("utf-8"))
        place = mark.read_text("utf-8") if mark.exists() else ""
        if place and not returns:
            # The run may have ended, and its thread with it, before the server was dead.
            server.kill()
            server.start()
        check(said, place, folder, plan, ledger, stepped=stepped.exists())
        server.drop(ledger)
        return place, said

    return run


def check(said: Said, place: str, folder: Path, plan: Path, ledger: str, *, stepped: bool) -> None:
    """After a kill, and after the next run."""
    assert said.code in (0, 1, 5) and (place or said.code == 0), said.err
    assert "Traceback" not in said.err and "internal error" not in said.err
    told = [line for line in said.err.splitlines() if not line.startswith("a new ledger was made")]
    assert said.code == 0 or len(told) == 1, said.err
    book, out = Ledger(ledger), folder / "out"
    records = book.history() if book.exists() else ()
    assert len(records) <= 1
    assert records or not stepped, "budget was handed back after a look at the log"
    assert not records or book.verify() is None
    assert said.code != 0 or (out.exists() and records[0].state == "committed")
    if out.exists():
        assert {path.name for path in out.iterdir()} == COMPLETE and verify(out).checks
        assert records[0].statement_digest is not None, "it stands, and nothing says so"
    assert main(words_for(plan, folder / "again", ledger)) == 0
    assert main(["ledger", "reconcile", str(folder), "--ledger", ledger]) == 0
    states = [record.state for record in book.history()]
    assert len(states) == len(records) + 1 and {*states} <= {"committed", "failed"}
    left = {path.name for path in folder.iterdir()} - {"out", "again"}
    assert not left and not list(folder.rglob(".cloakwork-*")), left


@pytest.mark.parametrize("returns", [True, False])
def test_killed_before_each_statement(killed, returns):
    for n in range(1, MOST):
        place, said = killed(n, None, returns=returns)
        print(n, place or "untouched", said.code, said.err.strip()[:100])
        if not place:
            break
    assert 5 < n < MOST - 1


def test_killed_while_each_statement_is_carried_out(killed):
    chance = random.Random(1)
    for n in range(1, MOST):
        # A statement takes about a millisecond.
        places = [killed(n, chance.uniform(0, 0.002), returns=False)[0] for _ in range(MOMENTS)]
        print(n, places)
        if not any(places):
            break
    assert 5 < n < MOST - 1


UNSAID = """
from cloakwork.ledger.ledger import Reservation
Reservation.intend = lambda self, *given: None
"""
"""The ledger does not know of a release before it stands."""


@pytest.mark.parametrize(
    ("twin", "fault"), [(HANDED_BACK, "handed back"), (UNSAID, "nothing says so")]
)
def test_a_fault_is_found(killed, twin, fault):
    # Places behind the step.
    for n in range(36, MOST):
        try:
            place, _ = killed(n, None, returns=True, twin=twin)
        except AssertionError as found:
            assert re.search(fault, str(found)), (n, found)
            return
        if not place:
            break
    raise AssertionError("nothing was found")
