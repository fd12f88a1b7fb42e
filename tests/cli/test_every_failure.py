"""Every n-th open, read, write, fsync, rename, unlink and commit fails, and memory runs out at
every n-th place: no release is half there, no budget is handed back, one line tells, and the next
run cleans up what was left.

By default one n of each command, by chance; with ``CLOAKWORK_RUNS`` all of them, until a run goes
untouched, and of ``apply`` on Spark so many. The checks see what is wrong: each is shown on an
engine with that fault.
"""

import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

import failing
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.examine import verify
from cloakwork.publishing.keys import signing_key
from conftest import Said, in_long_form, runs
from counterexamples.small import small_log, small_policy

IN_LONG_FORM = "CLOAKWORK_RUNS" in os.environ
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
            "convert {0}/log.csv {0}/log.parquet --quiet",
            "plan {0}/policy.yaml {0}/log.csv --out {0}/plan.json --quiet",
            "apply {0}/plan.json {0}/log.csv --out {0}/done --ledger {0}/ledger.db --quiet",
            "pack {0}/done --out {0}/done.zip",
            "registry add {0}/policy.yaml --ledger {0}/ledger.db",
        ):
            assert main(words.format(folder).split()) == 0
        second = (folder / "policy.yaml").read_text("utf-8").replace("1.0.0", "1.1.0")
        (folder / "second.yaml").write_text(second, "utf-8")
        patch.setenv("CLOAKWORK_HOME", str(folder / "ann"))
        signing_key(None)
        (folder / "ann" / "signing-key.pem").rename(folder / "a.pem")
        shutil.rmtree(folder / "ann")
    return folder


@dataclass(frozen=True)
class Attempt:
    """A command of which one place failed: ``place``, or none. ``stepped``: whether a step took a
    look at the log.
    """

    folder: Path
    said: Said
    place: str
    stepped: bool
    name: str

    def __str__(self) -> str:
        return f"{self.name} at '{self.place}': {self.said.code} {self.said.err!r}"


STEPPED = """
from cloakwork.run.run import Run
take = Run.take_step
def marked(self, *given, **named):
    open({0!r}, "w").close()
    return take(self, *given, **named)
Run.take_step = marked
"""
"""Leaves a mark where a step begins."""


@pytest.fixture
def attempted(made, tmp_path, forks, monkeypatch):
    """Run a command in a new copy of the folder while its ``n``-th place fails; ``twin``: Python
    that puts a fault into the engine first.
    """
    numbers = count()

    def run(words: str, kind: str, n: int, twin: str = "") -> Attempt:
        folder = tmp_path / f"run{next(numbers)}"
        shutil.copytree(made, folder)
        monkeypatch.setenv("CLOAKWORK_HOME", str(folder / "home"))
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
        report, mark = (tmp_path / f"{folder.name}.{name}" for name in ("report", "mark"))
        prepared = STEPPED.format(str(mark)) + twin
        prepared += f"\nimport tempfile; tempfile.tempdir = {str(folder / 'tmp')!r}\n"
        prepared += failing.first_words(folder, n, kind, report)
        said = forks.run(words.format(folder).split(), first=prepared)
        place = report.read_text("utf-8").strip()
        return Attempt(folder, said, place, mark.exists(), f"'{words}', {kind} {n}")

    return run


Check = Callable[[Attempt], None]


@pytest.fixture
def check_all(attempted):
    """Check a command at all places, or at one of about so many; every fault is told, not only the
    first.
    """

    def checked(words: str, kind: str, places: int, check: Check) -> None:
        faults, tried = [], 0
        # The same place in every run of CI, whichever tests came before.
        chance = random.Random(f"{words} {kind}" if "CI" in os.environ else None)
        # On Spark one takes half a minute: so many as ``CLOAKWORK_RUNS`` says.
        on_spark = "--engine spark" in words
        some = [chance.randint(1, places) for _ in range(runs(1))]
        for n in range(1, MOST) if IN_LONG_FORM and not on_spark else some:
            attempt = attempted(words, kind, n)
            tried += 1
            try:
                check(attempt)
            except AssertionError as fault:
                faults.append(f"{attempt}: {str(fault).partition(chr(10))[0]}")
                print("FAULT", faults[-1])
            shutil.rmtree(attempt.folder)
            if IN_LONG_FORM and not attempt.place and not on_spark:
                break
        print(f"{tried} places of '{words}', {kind}")
        assert not faults, f"{len(faults)} of {tried}:\n" + "\n".join(faults)

    return checked


def check_one_line(attempt: Attempt) -> None:
    """An exit code of the contract; a failure in one line, never a traceback."""
    code, err = attempt.said.code, attempt.said.err
    # A policy that cannot be read, and a plan's file that has gone, are refused as such.
    refused = code == 3 and re.search("or cannot be read; plan again|: cannot be read: ", err)
    assert code in (0, 1, 5) or refused, "no exit code of the contract"
    for word in ("Traceback", "internal error", "Exception ignored", "panicked"):
        assert word not in err, word
    # A JVM of Spark writes beside it.
    is_alone = "--engine spark" not in attempt.name
    assert code in {0, 5} or len(err.splitlines()) == 1 or not is_alone, "not one line"
    assert code == 0 or attempt.place, "it failed by itself"


APPLY = "apply {0}/plan.json {0}/log.csv --out {0}/out --ledger {0}/ledger.db --quiet"


def check_applied(attempt: Attempt) -> None:
    """The release stands whole or not at all, and the ledger holds at least what was paid for; the
    next run succeeds, and with ``reconcile`` nothing else is left.
    """
    check_one_line(attempt)
    folder, ledger = attempt.folder, Ledger(str(attempt.folder / "ledger.db"))
    out = folder / "out"
    assert ledger.verify() is None
    first, *records = ledger.history()
    assert first.state == "committed" and len(records) <= 1
    assert records or not attempt.stepped, "budget was handed back after a look at the log"
    if out.exists():
        assert {path.name for path in out.iterdir()} == COMPLETE, "half a release"
        assert verify(out).checks
        assert records[0].statement_digest is not None, "it stands, and nothing says so"
    assert attempt.said.code != 0 or (out.exists() and records[0].state == "committed")
    assert main(APPLY.replace("/out", "/again").format(folder).split()) == 0
    agrees = main(f"ledger reconcile {folder} --ledger {folder}/ledger.db".split()) == 0
    assert agrees, "something was left, or is not in the ledger"
    states = [record.state for record in ledger.history()]
    assert len(states) == len(records) + 2 and {*states} <= {"committed", "failed"}
    assert names_below(folder) - {"out", "again"} == GIVEN, "something was left"


GIVEN = {"home", "tmp", "done", "done.zip", "log.csv", "plan.json", "policy.yaml"} | {
    "second.yaml", "a.pem", "ledger.db", "ledger.db.key", "log.parquet"
}  # fmt: skip


def names_below(folder: Path) -> set[str]:
    """All files and folders, but what complete releases and the user's own folders hold; hidden
    ones of these, too.
    """
    own = {"home", "done", "out", "again"}
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.name.startswith(".") or not own & {*path.relative_to(folder).parts[:-1]}
    }


@pytest.mark.parametrize("kind", failing.KINDS)
@pytest.mark.parametrize(
    ("engine", "places"), [("memory", 290), ("local", 370), *in_long_form(("spark", 400))]
)
def test_apply(check_all, engine, places, kind):
    """See ``check_applied``."""
    # Spark reads no CSV.
    words = APPLY.replace("log.csv", "log.parquet") if engine == "spark" else APPLY
    check_all(f"{words} --engine {engine}", kind, places, check_applied)


AT_LEDGER = " --ledger {0}/ledger.db"
OTHERS = {
    "verify {0}/done": 12,
    "verify {0}/done.zip": 50,
    "pack {0}/done --out {0}/new.zip": 80,
    "report {0}/done --out {0}/new.html --ledger {0}/ledger.db": 40,
    "report {0}/done --audience internal --format json --out {0}/new.json": 40,
    "ledger show --ledger {0}/ledger.db": 12,
    "ledger verify --ledger {0}/ledger.db": 12,
    "ledger history --ledger {0}/ledger.db": 12,
    "registry add {0}/second.yaml --ledger {0}/ledger.db": 60,
    "registry approve small@1.0.0 --key {0}/a.pem --approver a --reason r" + AT_LEDGER: 60,
}
"""Commands that make no release, and about how many places they have."""


def check_other(attempt: Attempt, words: str) -> None:
    """What the command makes is whole or not there; the ledger stays whole; the next run succeeds,
    and nothing else is left.
    """
    check_one_line(attempt)
    folder, ledger = attempt.folder, Ledger(str(attempt.folder / "ledger.db"))
    assert ledger.verify() is None and len(ledger.history()) == 1
    said = main(words.replace("/new.", "/again.").format(folder).split())
    assert said == 0, "the next run does not succeed"
    new = next(folder.glob("new.*"), None)
    if new is not None and new.suffix == ".zip":
        assert new.read_bytes() == (folder / "done.zip").read_bytes()
    if new is not None and new.suffix == ".html":
        assert new.read_text("utf-8").endswith("</html>\n")
    events = len(ledger.events("policy-added")), len(ledger.events("policy-approved"))
    # Who approves again, having not heard that it was done, has approved twice.
    added, approved = 1 + ("registry add" in words), int("approve" in words)
    assert events in ((added, approved), (added, 2 * approved))
    made = ("new.*", "again.*")
    left = names_below(folder) - {path.name for each in made for path in folder.glob(each)}
    assert left == GIVEN, f"something was left: {left ^ GIVEN}"


@pytest.mark.parametrize("kind", failing.KINDS)
@pytest.mark.parametrize("words", OTHERS)
def test_other_commands(check_all, words, kind):
    """See ``check_other``."""
    check_all(words, kind, OTHERS[words], lambda attempt: check_other(attempt, words))


HALF = """
import cloakwork.publishing.publish as publishing
from contextlib import contextmanager

@contextmanager
def in_its_place(parent, prefix):
    (parent / "out").mkdir(exist_ok=True)
    yield parent / "out"

publishing.draft_folder = in_its_place
"""
HANDED_BACK = """
from sqlalchemy import text
from cloakwork.ledger.ledger import Reservation

def handed_back(self, reason):
    with self.ledger.journal.transaction() as connection:
        gone = text("DELETE FROM cloakwork_ledger WHERE release = :release")
        connection.execute(gone, {"release": self.id})
    self.ledger.unlock(self.id)

Reservation.fail = handed_back
"""
LEFT = """
import cloakwork.publishing.publish as publishing
publishing.DRAFT = ".elsewhere"
"""
TRACED = """
import cloakwork.cli as cli
cli._error_kind = None
"""


@pytest.mark.parametrize(
    ("twin", "kind", "first", "fault"),
    [
        (HALF, "from then on", 200, "half a release|something was left"),
        (HANDED_BACK, "once", 200, "handed back"),
        (LEFT, "from then on", 230, "something was left"),
        (TRACED, "once", 1, "Traceback|no exit code"),
    ],
    ids=["half", "handed back", "left", "traced"],
)
def test_a_fault_is_found(attempted, twin, kind, first, fault):
    """A release that is written in its place; budget that is handed back after a failure; a draft
    that nobody looks for; an error that nobody words.
    """
    for n in range(first, first + 100, 10):
        try:
            check_applied(attempted(f"{APPLY} --engine memory", kind, n, twin))
        except AssertionError as found:
            assert re.search(fault, str(found)), n
            return
    raise AssertionError("nothing was found")
