"""The compliance officer's day in a terminal: from an unknown log to releases that three people
answer for, and to a budget that is used up.
"""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cloakwork.api import load_policy
from cloakwork.authoring.answers import QUESTIONS
from cloakwork.log.formats import read_log, write_log
from conftest import EXAMPLES, Said, in_long_form
from walk.steps import PURPOSE, REAL, SHIPPED, WalkedLog, require, with_windows

Cloakwork = Callable[..., Said]


@dataclass(frozen=True)
class Desk:
    """One person's commands, with their own keys; ``ledger`` is everybody's."""

    run: Cloakwork
    patch: pytest.MonkeyPatch
    home: Path

    def does(self, *command: object, code: int = 0) -> Said:
        """Run a command, which must end with ``code``."""
        self.patch.setenv("CLOAKWORK_HOME", str(self.home))
        said = self.run(*command)
        assert said.code == code, f"{' '.join(map(str, command))}\n{said.out}{said.err}"
        assert "Traceback" not in said.err
        return said

    @property
    def public_key(self) -> Path:
        """What others need to let the person's signatures count."""
        return self.home / "signing-key.pub.pem"


@pytest.fixture
def desks(cloakwork, tmp_path, monkeypatch):
    """The author, the officer who approves, and who receives the release."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLOAKWORK_LEDGER", "ledger.db")
    homes = [tmp_path / name for name in ("author", "officer", "recipient")]
    author, officer, recipient = (Desk(cloakwork, monkeypatch, home) for home in homes)
    return author, officer, recipient


@pytest.mark.parametrize("log", in_long_form(SHIPPED, *REAL), ids=str)
def test_a_day_in_a_terminal(log, desks):
    """In the default run Python tells the same story, and each command has tests of its own."""
    require(log)
    walk(log, *desks)


def walk(log: WalkedLog, author: Desk, officer: Desk, recipient: Desk) -> None:
    """Every step, in order; each command ends as it should at the first try."""
    version = _written(log, author)
    _approved(log, version, author, officer)
    first, renewed = log.windows
    _chosen(log, version, first, author)
    _released(log, version, first, author)
    _received(version, author, recipient)

    again = author.does("apply", version, log.path, "--window", first, "--out", "again", code=4)
    assert "budget" in again.err.lower()
    assert not Path("again").exists()
    author.does("apply", version, log.path, "--window", renewed, "--out", "renewed")
    shown = json.loads(author.does("ledger", "history", "--json").out)
    assert [each["window"] for each in shown["releases"]] == [first, renewed]
    author.does("ledger", "verify", "--release", "release", "--release", "renewed")
    author.does("dataset", "show", "walked")


def _written(log: WalkedLog, author: Desk) -> str:
    """Suggested, edited, checked, and kept as a version."""
    author.does(
        "policy", "suggest", "--quick", log.path, "--goal", "control-flow-dp",
        "--dataset", "walked", "--owner", "dpo@example.org", "--purpose", PURPOSE,
        "--out", "policy.yaml",
    )  # fmt: skip
    policy = Path("policy.yaml")
    policy.write_text(with_windows(policy.read_text("utf-8"), log.every), "utf-8")
    author.does("policy", "validate", "policy.yaml")
    author.does("policy", "lint", "policy.yaml", log.path)
    author.does("dataset", "declare", "walked", "--owner", "DPO", "--require-approval")
    added = author.does("registry", "add", "policy.yaml", "--author", "A. Author", "--json")
    found = json.loads(added.out)
    return f"{found['name']}@{found['version']}"


def _approved(log: WalkedLog, version: str, author: Desk, officer: Desk) -> None:
    """By somebody else: neither nobody nor the author will do."""
    options = ("--window", log.windows[0], "--out", "early")
    author.does("apply", version, log.path, *options, code=3)
    approve = ("registry", "approve", version, "--reason", "Fits the study")
    author.does(*approve, "--approver", "A. Author", code=3)
    officer.does("keys", "trust", author.public_key, "--name", "author", "--approves")
    officer.does(*approve, "--approver", "B. Officer")
    author.does("apply", version, log.path, *options, code=3)
    author.does("keys", "trust", officer.public_key, "--name", "officer", "--approves")
    assert not Path("early").exists()


def _chosen(log: WalkedLog, version: str, window: str, author: Desk) -> None:
    """Compared without a look at the log, and planned."""
    compared = author.does(
        "compare", version, log.path, "--sweep", "epsilon=0.5,1", "--window", window,
        "--cases", "400", "--json",
    )  # fmt: skip
    assert json.loads(compared.out)["source"] == "stand-in"
    planned = author.does("plan", version, log.path, "--window", window)
    assert len(planned.out.splitlines()) <= 25


def _released(log: WalkedLog, version: str, window: str, author: Desk) -> None:
    options = ("--window", window, "--require-approval", "--out", "release")
    author.does("apply", version, log.path, *options)
    for audience, form in (("internal", "pdf"), ("internal", "dpia"), ("public", "html")):
        out = f"{audience}.{form}"
        options = ("--audience", audience, "--format", form, "--out", out)
        author.does("report", "release", *options)
    found = json.loads(author.does("risk", log.path, "release", "--json").out)
    assert found["attacks"]
    for attack in found["attacks"]:
        assert 0 <= attack["before"]["low"] <= attack["before"]["share"] <= 1
    author.does("pack", "release", "--out", "release.zip")


def _received(version: str, author: Desk, recipient: Desk) -> None:
    """The recipient trusts the key once, and knows what to expect."""
    recipient.does("verify", "release.zip", code=5)
    expected = ("--expect", f"policy={version}", "--expect", "dataset=walked")
    recipient.does("verify", "release.zip", "--public-key", author.public_key, *expected)
    recipient.does(
        "verify", "release.zip", "--public-key", author.public_key,
        "--expect", "policy=another@1.0.0", code=5,
    )  # fmt: skip


def test_questions_at_a_terminal(tmp_path, monkeypatch):
    """Each is asked once; the answers stand in the policy, and so does a form that was taken."""
    monkeypatch.setenv("CLOAKWORK_LEDGER", str(tmp_path / "ledger.db"))
    out, few = tmp_path / "policy.yaml", tmp_path / "few.xes"
    # Each form that may be taken is tried on the log, and those found in it are looked for.
    write_log(read_log(EXAMPLES / "hospital.xes.gz").keep_cases(np.arange(60)), few, "xes")
    command = ["policy", "suggest", few, "--out", out]
    answers = ["share", "y", "records", "grave", 'Waits "in" # wards', "", "whole-log-dp"]
    screen = at_terminal(command, answers)
    for question in QUESTIONS.values():
        assert screen.count(question.split(":")[0]) == 1
    assert "records of the same people" in out.read_text("utf-8")
    read = load_policy(out)
    assert read.metadata.purpose == 'Waits "in" # wards'
    assert read.metadata.suggested is not None
    assert (read.metadata.suggested.chosen, read.metadata.suggested.instead_of) == (
        "whole-log-dp",
        "k-anonymity",
    )
    assert read.spec.assume.risk_threshold == 0.05


def test_yes_asks_nothing_at_a_terminal(tmp_path, monkeypatch):
    """It takes the defaults."""
    monkeypatch.setenv("CLOAKWORK_LEDGER", str(tmp_path / "ledger.db"))
    out = tmp_path / "policy.yaml"
    command = ["policy", "suggest", EXAMPLES / "hospital.xes.gz", "--yes", "--quick", "--out", out]
    screen = at_terminal(command, [])
    assert not any(question in screen for question in QUESTIONS.values())
    assert load_policy(out).spec.assume.risk_threshold == 0.09


def at_terminal(command: list[object], answers: list[str]) -> str:
    """What a pseudo-terminal shows of a command that must succeed."""
    ours, theirs = pty.openpty()
    code = "import sys; from cloakwork.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, *map(str, command)]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, "".join(f"{each}\n" for each in answers).encode())
        shown = b""
        # Linux ends a terminal that nobody holds any more by an error.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    said = shown.decode().replace("\r\n", "\n")
    assert process.returncode == 0, said
    return said
