"""The frame around every command: help, errors, exit codes, interruption. ``spec.input`` on the
command line: plan, apply, lint and ``--column``. Progress: one live line on a terminal, plain lines
elsewhere, nothing twice.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import click
import pytest
from rich.console import Console

from cloakwork import cli
from cloakwork.base.progress import heard_by, say, silent
from cloakwork.cli import options as module
from cloakwork.cli.options import LiveProgress, PlainProgress, progress_of
from cloakwork.errors import (
    BudgetExceeded,
    CloakworkError,
    FileProblem,
    PlanUnsound,
    PolicyError,
    VerificationFailed,
)
from cloakwork.log.formats import read_log
from log.formats.object_logs import write_json

Run = Callable[[Callable[[], object]], int]


@pytest.fixture
def run(monkeypatch):
    """Run a function as the command ``cloakwork fake``, loaded lazily as real commands are."""

    def run_as_command(body: Callable[[], object]) -> int:
        module = ModuleType("cloakwork.cli.a_fake_command")
        module.fake = click.Command("fake", callback=body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(
            cli.cloakwork_command, "locations", {"fake": ("a_fake_command", "Pretend.")}
        )
        return cli.main(["fake"])

    return run_as_command


def raising(error: BaseException) -> Callable[[], None]:
    """A command that fails so."""

    def body() -> None:
        raise error

    return body


def test_success_is_zero_whatever_the_command_returns(run, capsys):
    """A return value is not an exit code."""

    def body() -> int:
        click.echo("done")
        return 7

    assert run(body) == 0
    assert capsys.readouterr() == ("done\n", "")


def test_exit_code_of_the_context_is_the_exit_code(run):
    """``ctx.exit(5)`` ends with 5."""
    assert run(lambda: click.get_current_context().exit(5)) == 5


WHO_RAISES = (
    "nobody raises a total that was spent from, and the dataset's owner alone one that was not: "
    "cloakwork dataset declare d --amend"
)


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (
            PolicyError(
                [
                    FileProblem("p.yaml", "unknown field", 3, 5, "write epsilon"),
                    FileProblem("p.yaml", "no unit"),
                ]
            ),
            3,
            "p.yaml:3:5: unknown field; write epsilon\np.yaml: no unit\n",
        ),
        (
            BudgetExceeded("d", "unit", (1, 0), (0.5, 0), fits=(0.5, 0)),
            4,
            "budget of dataset 'd' (differential privacy) is exhausted: "
            "this release costs epsilon 1, delta 0; left are epsilon 0.5, delta 0; "
            f"what would fit is epsilon 0.5; {WHO_RAISES}\n",
        ),
        (
            BudgetExceeded("d", "unit", (1, 0), (0, 0)),
            4,
            "budget of dataset 'd' (differential privacy) is exhausted: this release costs "
            "epsilon 1, delta 0; no epsilon is left; a smaller one of this kind would "
            f"not fit either; {WHO_RAISES}\n",
        ),
        (
            VerificationFailed(["log.xes.gz: digest differs"]),
            5,
            "verification failed: log.xes.gz: digest differs\n",
        ),
        (CloakworkError("cannot"), 1, "cannot\n"),
    ],
)
def test_what_a_user_can_mend_is_printed_as_it_stands(error, code, lines, run, capsys):
    """One line a problem on standard error, nothing before it, no traceback, and the error's own
    exit code.
    """
    assert run(raising(error)) == code
    assert capsys.readouterr() == ("", lines)


@pytest.mark.parametrize(
    "error", [PlanUnsound("cost cannot be\nderived"), ValueError("cost cannot be\nderived")]
)
def test_a_fault_of_ours_is_one_line(error, run, capsys):
    """It says that it is ours and how to see more; it shows no traceback."""
    assert run(raising(error)) == 1
    assert capsys.readouterr().err == (
        f"cloakwork: internal error: {type(error).__name__}: cost cannot be derived "
        "(please report; set CLOAKWORK_DEBUG=1 for the traceback)\n"
    )


def test_debug_shows_the_traceback(run, capsys, monkeypatch):
    """With CLOAKWORK_DEBUG the traceback comes first, the line last."""
    monkeypatch.setenv("CLOAKWORK_DEBUG", "1")
    run(raising(ValueError("odd")))
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.splitlines()[-1].startswith("cloakwork: internal error: ValueError: odd")


def test_a_file_that_cannot_be_opened_is_named(run, capsys):
    """The system's refusal is the user's to mend, so it is no internal error."""
    assert run(raising(PermissionError(13, "Permission denied", "secret.xes"))) == 1
    assert capsys.readouterr().err == "secret.xes: Permission denied\n"


def test_interruption_ends_with_130(run, capsys):
    """Ctrl-C is a line, not a traceback."""
    assert run(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err.strip() == "cloakwork: interrupted"


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"]])
def test_wrong_use_ends_with_2(arguments, capsys):
    """Unknown commands and unknown options are usage errors."""
    assert cli.main(arguments) == 2
    assert "Try 'cloakwork --help'" in capsys.readouterr().err


def test_no_command_at_all_shows_the_help(capsys):
    """And is a usage error."""
    assert cli.main([]) == 2
    assert "Usage: cloakwork" in capsys.readouterr().err


def test_help_lists_every_command_without_loading_one(capsys, monkeypatch):
    """Names and summaries come from the table alone."""

    def never(*_: object) -> None:
        raise AssertionError("--help loaded a command")

    monkeypatch.setattr(cli, "import_module", never)
    assert cli.main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, (_, summary) in cli.COMMANDS.items():
        assert f"{name} {summary}" in shown


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_of_the_table_loads(name, capsys):
    """Each entry of the table leads to a command with a help of its own."""
    assert cli.main([name, "--help"]) == 0
    assert f"Usage: cloakwork {name}" in capsys.readouterr().out


def test_python_dash_m_is_the_same_command():
    """``python -m cloakwork --version`` prints name and version."""
    done = subprocess.run(
        [sys.executable, "-m", "cloakwork", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("cloakwork ")


def test_a_reader_that_leaves_is_no_error_message():
    """``cloakwork --help | head -0`` stays quiet."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "cloakwork", "--help"], check=False, stdout=pipe, stderr=-1
        )
    assert done.stderr == b""


POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: q, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  input:
    columns: {case: Fall, activity: Schritt, timestamp: Zeit, case:kunde: Kunde}
    delimiter: ";"
    encoding: cp1252
    time_format: "%d.%m.%Y %H:%M"
    time_zone: Europe/Berlin
  unit: {attribute: "case:kunde", max_cases: 2}
  attributes:
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: drop}
    "case:kunde": {role: identifier}
  guarantees: [{kind: k-anonymity, k: 3, over: [control-flow], count: units}]
  mechanisms: {allow: [kanon/pretsa, attributes/*, bound]}
  output: {format: csv, report: [json]}
"""
ROWS = "".join(
    f"{case};Prüfung;0{day}.03.2024 10:00;K{case % 8}\n" for case in range(12) for day in (1, 2)
)
LOG = "Fall;Schritt;Zeit;Kunde\n" + ROWS


@pytest.fixture
def files(tmp_path):
    """A policy and a log that needs it."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.csv"
    policy.write_text(POLICY)
    log.write_bytes(LOG.encode("cp1252"))
    return policy, log


def test_plan_and_apply_read_by_the_policy(cloakwork, files, tmp_path, ledger):
    """And a plan whose policy reads otherwise by now has moved."""
    policy, log = files
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    said = cloakwork("plan", policy, log, "--out", plan, "--ledger", ledger)
    assert said.code == 0 and "Would change" in said.out
    assert json.loads(plan.read_text())["policy"]["spec"]["input"]["encoding"] == "cp1252"
    said = cloakwork("apply", plan, log, "--out", out, "--ledger", ledger)
    assert said.code == 0
    assert set(read_log(out / "log.csv", timeless=True).events["concept:name"]) == {"Prüfung"}
    policy.write_text(POLICY.replace("Europe/Berlin", "UTC"))
    said = cloakwork("apply", plan, log, "--out", tmp_path / "again", "--ledger", ledger)
    assert said.code == 3 and "has changed since this plan was made" in said.err


def test_a_column_of_the_command_line_goes_first(cloakwork, files, tmp_path, ledger):
    """By its short name."""
    policy, log = files
    log.write_bytes(LOG.replace("Schritt", "Tat").encode("cp1252"))
    said = cloakwork("plan", policy, log, "--ledger", ledger)
    assert said.code == 1 and f"{log}:1: there is no column 'Schritt'" in said.err
    said = cloakwork("plan", policy, log, "--ledger", ledger, "--column", "activity=Tat")
    assert said.code == 0
    said = cloakwork("plan", policy, log, "--column", "aktivity=Tat")
    assert said.code == 2 and "'aktivity' is none of case, activity, timestamp" in said.err
    said = cloakwork("plan", policy, log, "--column", "case=Tat", "--column", "activity=Tat")
    assert said.code == 2 and "the column 'Tat' is named twice" in said.err


def test_lint_names_the_line_of_the_policy(cloakwork, files):
    """Where the log seems to be written otherwise, even where it cannot be read so."""
    policy, log = files
    log.write_bytes(LOG.replace("02.03.", "22.03.").encode("cp1252"))
    assert "spec.input" not in cloakwork("policy", "lint", policy, log).out
    policy.write_text(POLICY.replace("%d.%m.%Y", "%Y/%m/%d").replace("    encoding: cp1252\n", ""))
    said = cloakwork("policy", "lint", policy, log)
    assert said.code == 0
    assert f"{policy}:7:5: spec.input.encoding: is not stated, and this log" in said.out
    assert f"{policy}:9:18: spec.input.time_format: is '%Y/%m/%d %H:%M', and this" in said.out


def test_what_flattening_loses_is_told(cloakwork, tmp_path, ledger):
    """On the author's screen with counts, in the statement without."""
    policy, log, out = tmp_path / "policy.yaml", write_json(tmp_path / "log.json"), tmp_path / "out"
    cases = POLICY.replace("k: 3", "k: 2").replace(", count: units", "")
    begin, _, rest = cases.partition("  input:")
    policy.write_text(
        begin
        + "  input: {object_type: order}\n"
        + "  attributes:"
        + rest.partition("  attributes:")[2]
    )
    said = cloakwork("apply", policy, log, "--out", out, "--ledger", ledger)
    assert said.code == 0
    assert "copied into the case of each: 1" in said.err
    statement = (out / "statement.json").read_text()
    assert "flattened-objects" in json.dumps(_payload(statement))
    assert "copied into the case of each: 1" not in json.dumps(_payload(statement))
    said = cloakwork("plan", policy, log, "--ledger", ledger)
    assert "a case is one object of type 'order'" in said.out


def _payload(statement: str) -> object:
    """What a signed statement says."""
    import base64

    document = json.loads(statement)
    return json.loads(base64.b64decode(document["payload"])) if "payload" in document else document


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


def test_without_a_terminal_a_line_is_said_once(capsys):
    """Searches repeat themselves; logs of batch jobs need not."""
    with progress_of() as reporter:
        assert isinstance(reporter, PlainProgress)
        for message in ("reading", "189 edits", "189 edits", "187 edits", "189 edits"):
            reporter(message)
    assert capsys.readouterr() == ("", "reading\n189 edits\n187 edits\n")


def test_quiet_says_nothing(capsys):
    """Not on a terminal either."""
    with progress_of(quiet=True) as reporter:
        assert reporter is silent
        reporter("reading")
    assert capsys.readouterr() == ("", "")


def test_a_live_line_shows_the_stage_and_what_happens_in_it():
    """The bar moves with stages; what a step says of itself stands beside its name."""
    bar = FakeBar()
    live = LiveProgress(bar, 0)
    live("kanon/optimal: moves cases")
    with heard_by(live):
        say("187 edits, at most 0.4 % above the least possible")
    live("writing the log")
    assert bar.shown == [
        {"advance": 1, "stage": "kanon/optimal", "detail": ""},
        {"stage": "kanon/optimal", "detail": "187 edits, at most 0.4 % above the least possible"},
        {"advance": 1, "stage": "writing the log", "detail": ""},
    ]


def test_warnings_outlive_a_live_line():
    """They are printed once, above it, as they are: brackets are no markup."""
    bar = FakeBar()
    live = LiveProgress(bar, 0)
    for _ in range(2):
        live("warning: look at [bold]this[/bold]")
    assert bar.file.getvalue() == "warning: look at [bold]this[/bold]\n"
    assert bar.shown == []


def test_a_terminal_gets_the_live_line(monkeypatch):
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
