"""Every n-th open, read, write, fsync, rename, unlink and commit fails, and memory runs out at
every n-th place: no release is half there, no budget is handed back, one line tells, and the next
run cleans up what was left.

By default a few n of each command; with ``CLOAKWORK_RUNS`` all of them, until a run goes untouched.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import failing
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.verify import verify
from conftest import Said
from counterexamples.small import small_log, small_policy
from forked import Forks

IN_LONG_FORM = "CLOAKWORK_RUNS" in os.environ
CHANCE = random.Random(1) if "CI" in os.environ else random.SystemRandom()
COMPLETE = {"internal", "plan.json", "statement.json", "log.csv", "measurements.parquet"}
MOST = 20_000
"""Places that no command has."""

pytestmark = pytest.mark.skipif(failing.COMPILER is None, reason="needs a C compiler, cc")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the commands are given: a log, a plan, a release that stands and the
    ledger that knows it, a file to send, and a policy in the registry.
    """
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(folder / "home"))
        (folder / "home").mkdir()
        (folder / "tmp").mkdir()
        policy, log = small_policy(folder), small_log(folder)
        policy.rename(folder / "policy.yaml")
        log.rename(folder / "log.csv")
        for words in (
            "plan {0}/policy.yaml {0}/log.csv --out {0}/plan.json --quiet",
            "apply {0}/plan.json {0}/log.csv --out {0}/done --ledger {0}/ledger.db --quiet",
            "pack {0}/done --out {0}/done.zip",
            "registry add {0}/policy.yaml --ledger {0}/ledger.db",
        ):
            assert main(words.format(folder).split()) == 0
    return folder


@dataclass(frozen=True)
class Attempt:
    """A command of which one place failed: ``place``, or none."""

    folder: Path
    said: Said
    place: str
    name: str


@pytest.fixture
def attempts(made, tmp_path, forks, monkeypatch):
    """Run a command again and again, each time in a new copy of the folder, while another place of
    it fails.
    """

    def tried(words: str, kind: str, places: int) -> Iterator[Attempt]:
        first = 1 if IN_LONG_FORM else CHANCE.randint(1, places)
        for n in [*range(first, MOST, 1 if IN_LONG_FORM else places)]:
            attempt = attempted(made, tmp_path, forks, monkeypatch, words, kind, n)
            yield attempt
            shutil.rmtree(attempt.folder)
            if not attempt.place:
                return
        raise AssertionError("no run went untouched")

    return tried


def attempted(made, tmp_path, forks: Forks, monkeypatch, words, kind, n) -> Attempt:
    """One command whose ``n``-th place fails."""
    folder, report = tmp_path / f"{kind} {n}", tmp_path / f"report of {kind} {n}"
    folder = Path(str(folder).replace(" ", "-"))
    shutil.copytree(made, folder)
    monkeypatch.setenv("CLOAKWORK_HOME", str(folder / "home"))
    armed = failing.first_words(folder, n, kind, report)
    aside = f"import tempfile; tempfile.tempdir = {str(folder / 'tmp')!r}; {armed}"
    said = forks.run(words.format(folder).split(), first=aside)
    return Attempt(folder, said, report.read_text("utf-8").strip(), f"{kind} {n} of '{words}'")


def check_one_line(attempt: Attempt) -> None:
    """An exit code of the contract; a failure in one line, never a traceback."""
    said, told = attempt.said, (attempt.name, attempt.place, attempt.said)
    assert said.code in (0, 1, 5), told
    for word in ("Traceback", "internal error", "Exception ignored", "panicked"):
        assert word not in said.err, told
    if said.code == 1:
        assert len(said.err.splitlines()) == 1, told
    if not attempt.place:
        assert said.code == 0, told


def names_below(folder: Path) -> set[str]:
    """All files and folders, but those of complete releases and of what the user's folder keeps."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not {"home", "done", "out", "again"} & {*path.relative_to(folder).parts[:-1]}
    }


APPLY = "apply {0}/plan.json {0}/log.csv --out {0}/out --ledger {0}/ledger.db --quiet"


def check_applied(attempt: Attempt) -> None:
    """The release stands whole or not at all, and the ledger holds at least what was paid for; the
    next run succeeds, and with ``reconcile`` nothing else is left.
    """
    told = (attempt.name, attempt.place, attempt.said)
    check_one_line(attempt)
    out, ledger = attempt.folder / "out", Ledger(str(attempt.folder / "ledger.db"))
    assert ledger.verify() is None, told
    records = ledger.history()
    stands = out.exists()
    if stands:
        assert {path.name for path in out.iterdir()} == COMPLETE, told
        assert verify(out).checks, told
        assert len(records) == 2 and records[-1].state in ("publishing", "committed"), told
    if attempt.said.code == 0:
        assert stands and records[-1].state == "committed", told
    assert len(records) <= 2 and records[0].state == "committed", told
    words = APPLY.replace("/out", "/again").format(attempt.folder).split()
    assert main(words) == 0, told
    reconciled = f"ledger reconcile {attempt.folder} --ledger {attempt.folder}/ledger.db"
    assert main(reconciled.split()) == 0, told
    assert len(ledger.history()) == len(records) + 1, told
    assert {record.state for record in ledger.history()} <= {"committed", "failed"}, told
    left = names_below(attempt.folder) - {"out"}
    assert left == LEFT, (left ^ LEFT, told)


LEFT = {"home", "tmp", "done", "done.zip", "again", "log.csv", "plan.json", "policy.yaml"} | {
    "ledger.db", "ledger.db.key"
}  # fmt: skip


@pytest.mark.parametrize("kind", failing.KINDS)
@pytest.mark.parametrize("engine", ["memory", "local"])
def test_apply(attempts, engine, kind):
    """See ``check_applied``."""
    check_all(attempts(f"{APPLY} --engine {engine}", kind, 60), check_applied)


def check_all(tried: Iterator[Attempt], check: Callable[[Attempt], None]) -> None:
    """``check`` each; every fault is told, not only the first."""
    faults, places = [], []
    for attempt in tried:
        places.append(attempt.place)
        try:
            check(attempt)
        except AssertionError as fault:
            faults.append(str(fault).partition("\nassert")[0])
            print("FAULT", faults[-1])
    print(f"{len(places)} tried: {' | '.join(places[-4:])}")
    assert not faults, f"{len(faults)} of {len(places)}: " + "\n".join(faults)
