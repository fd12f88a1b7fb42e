"""What is ended from outside: a signal is heard wherever it comes, what was reserved is recorded as
failed, and what a killed process left goes with the next run.
"""

import signal
import tempfile
from pathlib import Path

import pytest

from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from counterexamples.small import small_log, small_policy

AS_TYPED = """
import os, signal, sys
import cloakwork.cli as cli
# Whoever runs the tests may ignore it (nohup).
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.argv[1:] = {words!r}
{moment}
code = cli.main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""
"""A command as its own process runs it: signals are noted there."""

IMPORT = """
def interrupted(name):
    try:
        os.kill(os.getpid(), signal.{signal})
    except KeyboardInterrupt:
        raise ImportError("a module in C makes another error of it") from None
cli.import_module = interrupted
"""
SWALLOWED = """
from cloakwork.run.run import Run
take = Run.take_step
def lost(self, *given, **named):
    try:
        os.kill(os.getpid(), signal.{signal})
    except KeyboardInterrupt:
        pass
    return take(self, *given, **named)
Run.take_step = lost
"""
UTILITY = """
from cloakwork.evaluation import utility
class Slow:
    def __iter__(self):
        os.kill(os.getpid(), signal.{signal})
        return iter(())
utility.MEASURES = Slow()
"""
LATE = """
import cloakwork.publishing.publish as publishing
real = publishing.file_digest
def lost(path):
    if path.name == "statement.json":
        try:
            os.kill(os.getpid(), signal.{signal})
        except KeyboardInterrupt:
            pass
    return real(path)
publishing.file_digest = lost
"""


@pytest.fixture
def words(tmp_path: Path, ledger: str) -> list[str]:
    """One ``apply``, to the folder ``out``."""
    out = str(tmp_path / "releases" / "out")
    given = ["apply", str(small_policy(tmp_path)), str(small_log(tmp_path)), "--out", out]
    return [*given, "--ledger", ledger, "--quiet"]


@pytest.mark.parametrize(
    ("moment", "number"),
    [(IMPORT, "SIGTERM"), (SWALLOWED, "SIGINT"), (UTILITY, "SIGTERM"), (LATE, "SIGHUP")],
)
def test_a_signal_is_heard_wherever_it_comes(forks, words, ledger, tmp_path, moment, number):
    """In an import, where a library makes another error of it; where its exception is lost; while
    figures for the report are computed; right before the release would stand.
    """
    first = AS_TYPED.format(words=words, moment=moment.format(signal=number))
    said = forks.run(words, first=first)
    assert (said.code, said.err.count("cloakwork: interrupted")) == (130, 1), said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "releases" / "out").exists()
    assert not list(tmp_path.glob("*.lock"))
    states = {record.state for record in Ledger(ledger).history()}
    assert states == (set() if moment == IMPORT else {"failed"})


def test_a_signal_that_is_ignored_stays_ignored(forks, words, tmp_path):
    """As under ``nohup``."""
    moment = "signal.signal(signal.SIGHUP, signal.SIG_IGN)" + SWALLOWED.format(signal="SIGHUP")
    said = forks.run(words, first=AS_TYPED.format(words=words, moment=moment))
    assert said.code == 0, said.err
    assert (tmp_path / "releases" / "out" / "statement.json").exists()


def test_memory_that_runs_out_is_told_in_a_line_of_its_own(forks, words, ledger):
    """With what stays spent, and what needs less."""
    moment = (
        "from cloakwork.run.run import Run\n"
        "def full(*given, **named): raise MemoryError\n"
        "Run.take_step = full\n"
    )
    said = forks.run(words, first=AS_TYPED.format(words=words, moment=moment))
    assert said.code == 1
    assert said.err.splitlines()[-1].startswith("cloakwork: memory ran out; ")
    assert "--engine local" in said.err and "its cost stays spent" in said.err
    assert [record.failure for record in Ledger(ledger).history()] == ["MemoryError"]


KILLED = (
    "import os, signal\n{module}.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)"
)


@pytest.mark.parametrize(
    ("command", "module", "name", "draft"),
    [
        (["pack", "{out}", "--out", "{folder}/new.zip"], "os", "link", ".cloakwork-file-*"),
        (["verify", "{folder}/sent.zip"], "filecmp", "cmp", "cloakwork-verify-*"),
    ],
)
def test_what_a_killed_command_left_goes_with_the_next_run(
    forks, words, tmp_path, monkeypatch, cloakwork, command, module, name, draft
):
    """Once for ever."""
    assert main(words) == 0
    out, aside = tmp_path / "releases" / "out", tmp_path / "aside"
    aside.mkdir()
    assert main(["pack", str(out), "--out", str(tmp_path / "sent.zip")]) == 0
    given = [word.format(out=out, folder=tmp_path) for word in command]
    place = f"import tempfile, filecmp, os; tempfile.tempdir = {str(aside)!r}\n"
    said = forks.run(given, first=place + KILLED.format(module=module, name=name))
    assert said.code == -signal.SIGKILL
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    assert [*aside.glob(draft), *tmp_path.glob(draft)]
    assert cloakwork(*given).code == 0
    assert not [*aside.glob(draft), *tmp_path.glob(draft)]
    assert [*aside.iterdir()] == []


SECRET = """
import os, signal
real, made = os.link, []
def linked(*given, **named):
    real(*given, **named)
    made.append(given)
    if len(made) == {0}:
        os.kill(os.getpid(), signal.SIGKILL)
os.link = linked
"""


@pytest.mark.parametrize("number", [1, 2, 3])
def test_no_draft_of_a_secret_stays(forks, words, tmp_path, own_home, number):
    """The keys of searches, of the ledger and of signatures are made once, and never again."""
    drafts = lambda: [*own_home.rglob(".cloakwork-*"), *tmp_path.rglob(".cloakwork-*")]  # noqa: E731
    assert forks.run(words, first=SECRET.format(number)).code == -signal.SIGKILL
    assert drafts()
    assert main(words) == 0
    assert not drafts()
