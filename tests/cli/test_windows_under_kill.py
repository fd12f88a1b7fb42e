"""Windows of a log that grows, and a process that is killed: no half release, no window that is
looked at more often than it is paid for, and no case in two windows.

A moment of each; with ``CLOAKWORK_RUNS`` so many. A moment is a place where the process opens,
renames, removes or locks a file, writes to the ledger, or reads and writes tables.
"""

import random
import re
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

import failing
from cli.test_every_failure import HANDED_BACK, STEPPED
from cli.test_interrupts import AS_TYPED
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.examine import verify
from conftest import runs
from plan.conftest import policy_of

MOMENTS = runs(1)
PLACES = 150
"""About so many there are."""

GOALS = {
    "k": [{"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}],
    "noise": [
        {"kind": "differential-privacy", "epsilon": 1, "delta": 1e-6, "over": ["control-flow"]}
    ],
}
TOTAL = {"epsilon": 2, "delta": 1e-5}
"""Of a window: two releases."""

APPLY = "apply {0}/policy.yaml {0}/{1}.csv --window {2} --out {0}/{3} --ledger {0}/l.db --quiet"


def write_log(path: Path, october: str) -> None:
    """Twenty cases of a month, ``october``, and twenty of November."""
    rows = [
        f"c{number},a,2026-{october if number < 20 else '11'}-{1 + number % 20:02}T00:00:00Z"
        for number in range(40)
    ]
    path.write_text("\n".join(["case:concept:name,concept:name,time:timestamp", *rows]) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each goal a folder with a policy and a log, and the log with October's cases moved; its
    ledger knows another dataset.
    """
    found = {}
    for goal, guarantees in GOALS.items():
        folder = found[goal] = tmp_path_factory.mktemp(goal)
        budget: dict[str, Any] = {"windows": {"by": "case-start", "every": "1 month"}}
        allowed = ["kanon/pretsa"] if goal == "k" else ["variants/threshold"]
        policy = policy_of(
            guarantees=guarantees,
            budget=budget | ({} if goal == "k" else {"total": TOTAL}),
            mechanisms={"allow": [*allowed, "attributes/*", "bound"]},
            output={"format": "csv", "report": []},
        )
        document = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
        (folder / "policy.yaml").write_text(yaml.safe_dump(document), "utf-8")
        write_log(folder / "log.csv", "10")
        write_log(folder / "moved.csv", "11")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOAKWORK_HOME", str(folder / "home"))
            (folder / "home").mkdir()
            words = f"dataset declare another --owner o --ledger {folder}/l.db".split()
            assert main(words) == 0
    return found


def check_agreement(folder: Path, goal: str, *, stepped: bool) -> None:
    """After a kill, and after the next run; ``stepped``: whether a step took a look at the log."""
    ledger, out = Ledger(str(folder / "l.db")), folder / "out"
    assert ledger.verify() is None
    records = ledger.history()
    assert records or not stepped, "budget was handed back after a look at the log"
    assert len(records) <= 1 and {record.window for record in records} <= {"2026-10"}
    if out.exists():
        assert {"log.csv", "plan.json", "statement.json"} <= {each.name for each in out.iterdir()}
        assert verify(out).checks and records[0].statement_digest is not None
        if goal == "k":
            check_cases_stay(folder, "early")
    assert main(APPLY.format(folder, "log", "2026-10", "again").split()) == 0
    assert main(f"ledger reconcile {folder} --ledger {folder}/l.db".split()) == 0
    assert {record.state for record in ledger.history()} <= {"committed", "failed"}
    assert not [*folder.rglob(".cloakwork-*"), *folder.rglob("*.lock")], "something was left"
    if goal == "k":
        check_cases_stay(folder, "later")
        return
    # What was reserved is spent, whatever became of it; another window has its own.
    third = main(APPLY.format(folder, "log", "2026-10", "third").split())
    assert third == (4 if records else 0)
    assert main(APPLY.format(folder, "log", "2026-11", "other").split()) == 0


def check_cases_stay(folder: Path, out: str) -> None:
    """Released cases are in no other window, though their times say so."""
    assert main(APPLY.format(folder, "moved", "2026-11", out).split()) == 0
    rows = (folder / out / "log.csv").read_text("utf-8").splitlines()[1:]
    assert len(rows) == 20, "a case is in two windows"


@pytest.fixture
def killed(made, forks, tmp_path, monkeypatch):
    """Apply in a new copy of the folder, which a signal ends at the ``n``-th place, and check;
    ``twin``: Python that puts a fault into the engine first. What happened, in words.
    """
    numbers = count()

    def run(goal: str, sent: str, n: int, engine: str = "memory", twin: str = "") -> str:
        number = next(numbers)
        folder = tmp_path / f"run{number}"
        shutil.copytree(made[goal], folder)
        monkeypatch.setenv("CLOAKWORK_HOME", str(folder / "home"))
        report, mark = tmp_path / f"report{number}", tmp_path / f"mark{number}"
        words = [*APPLY.format(folder, "log", "2026-10", "out").split(), "--engine", engine]
        moment = STEPPED.format(str(mark)) + twin + failing.first_words(folder, n, sent, report)
        said = forks.run(words, first=AS_TYPED.format(words=words, moment=moment))
        assert said.code in (0, 130, -9), said.err
        assert "Traceback" not in said.err and "internal error" not in said.err
        check_agreement(folder, goal, stepped=mark.exists())
        shutil.rmtree(folder)
        return f"{n}: {report.read_text('utf-8').strip()[:40]} {said.code}"

    return run


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("sent", ["SIGKILL", "SIGTERM"])
def test_killed_anywhere(killed, goal, sent):
    """See ``check_agreement``."""
    chance = random.Random(f"{goal} {sent}")
    for _ in range(MOMENTS):
        n, engine = chance.randint(1, PLACES), chance.choice(["memory", "local"])
        print(goal, sent, killed(goal, sent, n, engine))


FORGOTTEN = """
from cloakwork.ledger.ledger import Reservation
Reservation.record_hashes = lambda self, hashes: set()
"""


@pytest.mark.parametrize(
    ("twin", "goal", "fault"),
    [
        # The ledger misses the record itself.
        (FORGOTTEN, "k", "in two windows|assert . == 0"),
        (HANDED_BACK, "noise", "handed back|assert 0 == 4"),
    ],
)
def test_a_fault_is_found(killed, twin, goal, fault):
    """Cases that no window remembers; budget that comes back when a signal does."""
    for n in (60, 90, 120, 100_000):
        try:
            killed(goal, "SIGTERM", n, twin=twin)
        except AssertionError as found:
            assert re.search(fault, str(found)), n
            return
    raise AssertionError("nothing was found")
