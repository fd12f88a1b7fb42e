"""Shared by all tests: a home of their own, logs to run on, the command line in this process."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
EXAMPLES = ROOT / "examples" / "logs"


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's keys or ledger."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("CLOAKWORK_HOME", str(home))
    monkeypatch.delenv("CLOAKWORK_SIGNING_KEY", raising=False)
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)
    return home


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def cloakwork(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run the command line in this process, as a user types it."""
    from cloakwork.cli import main

    def run(*arguments: str | os.PathLike[str]) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """The URL of a fresh ledger."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"
