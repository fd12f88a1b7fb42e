"""Progress: one live line on a terminal, plain lines elsewhere, nothing twice."""

import io
from typing import Any

import pytest
from rich.console import Console

from cloakwork.base.progress import heard_by, say, silent
from cloakwork.cli import progress as module
from cloakwork.cli.progress import LiveProgress, PlainProgress, progress_of


class FakeTerminal(io.StringIO):
    """What is written, of something that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class FakeBar:
    """Keeps what a live line was told."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=200)

    def update(self, task: int, **fields: Any) -> None:
        self.shown.append(fields)


def test_without_a_terminal_a_line_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Searches repeat themselves; logs of batch jobs need not."""
    with progress_of() as reporter:
        assert isinstance(reporter, PlainProgress)
        for message in ("reading", "189 edits", "189 edits", "187 edits", "189 edits"):
            reporter(message)
    assert capsys.readouterr() == ("", "reading\n189 edits\n187 edits\n")


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Not on a terminal either."""
    with progress_of(quiet=True) as reporter:
        assert reporter is silent
        reporter("reading")
    assert capsys.readouterr() == ("", "")


def test_a_live_line_shows_the_stage_and_what_happens_in_it() -> None:
    """The bar moves with stages; what a step says of itself stands beside its name."""
    bar = FakeBar()
    live = LiveProgress(bar, 0)
    live("kanon/auto: moves cases")
    with heard_by(live):
        say("187 edits, at most 0.4 % above the least possible")
    live("writing the log")
    assert bar.shown == [
        {"advance": 1, "stage": "kanon/auto", "detail": ""},
        {"stage": "kanon/auto", "detail": "187 edits, at most 0.4 % above the least possible"},
        {"advance": 1, "stage": "writing the log", "detail": ""},
    ]


def test_warnings_outlive_a_live_line() -> None:
    """They are printed once, above it, as they are: brackets are no markup."""
    bar = FakeBar()
    live = LiveProgress(bar, 0)
    for _ in range(2):
        live("warning: look at [bold]this[/bold]")
    assert bar.file.getvalue() == "warning: look at [bold]this[/bold]\n"
    assert bar.shown == []


def test_a_terminal_gets_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, gone at the end; a dumb terminal gets plain lines."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = FakeTerminal()
    monkeypatch.setattr(module.sys, "stderr", terminal)
    with progress_of() as reporter:
        assert isinstance(reporter, LiveProgress)
        reporter("reading log.xes")
        reporter.detail("half of it")
        reporter.bar.refresh()
    written = terminal.getvalue()
    assert "reading log.xes" in written and "half of it" in written
    assert written.endswith(("\x1b[2K", "\x1b[1A\x1b[2K", "\x1b[?25h\r\x1b[1A\x1b[2K"))
    monkeypatch.setenv("TERM", "dumb")
    with progress_of() as reporter:
        assert isinstance(reporter, PlainProgress)
