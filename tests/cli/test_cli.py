"""The frame around every command: help, errors, exit codes, interruption."""

import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import click
import pytest

from cloakwork import cli
from cloakwork.errors import (
    BudgetExceeded,
    CloakworkError,
    FileProblem,
    PlanUnsound,
    PolicyError,
    VerificationFailed,
)

Run = Callable[[Callable[[], object]], int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a function as the command ``cloakwork fake``, loaded lazily as real commands are."""

    def run_as_command(body: Callable[[], object]) -> int:
        module = ModuleType("cloakwork.cli.a_fake_command")
        module.fake = click.Command("fake", callback=body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(
            cli.cloakwork_command,
            "locations",
            {"fake": ("a_fake_command", "Pretend.")},
        )
        return cli.main(["fake"])

    return run_as_command


def raising(error: BaseException) -> Callable[[], None]:
    """A command that fails so."""

    def body() -> None:
        raise error

    return body


def test_success_is_zero_whatever_the_command_returns(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """A return value is not an exit code."""

    def body() -> int:
        click.echo("done")
        return 7

    assert run(body) == 0
    assert capsys.readouterr() == ("done\n", "")


def test_exit_code_of_the_context_is_the_exit_code(run: Run) -> None:
    """``ctx.exit(5)`` ends with 5."""
    assert run(lambda: click.get_current_context().exit(5)) == 5


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
            BudgetExceeded("d", "unit", (1, 0), (0.5, 0)),
            4,
            "budget of dataset 'd' (differential privacy) is exhausted: "
            "this release costs epsilon 1, delta 0; left are epsilon 0.5, delta 0; "
            "a smaller epsilon may fit, else ask the dataset's owner\n",
        ),
        (
            VerificationFailed(["log.xes.gz: digest differs"]),
            5,
            "verification failed: log.xes.gz: digest differs\n",
        ),
        (CloakworkError("cannot"), 1, "cannot\n"),
    ],
)
def test_what_a_user_can_mend_is_printed_as_it_stands(
    error: CloakworkError, code: int, lines: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line a problem on standard error, nothing before it, no traceback, and the error's own
    exit code.
    """
    assert run(raising(error)) == code
    assert capsys.readouterr() == ("", lines)


@pytest.mark.parametrize(
    "error", [PlanUnsound("cost cannot be\nderived"), ValueError("cost cannot be\nderived")]
)
def test_a_fault_of_ours_is_one_line(
    error: Exception, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says that it is ours and how to see more; it shows no traceback."""
    assert run(raising(error)) == 1
    assert capsys.readouterr().err == (
        f"cloakwork: internal error: {type(error).__name__}: cost cannot be derived "
        "(please report; set CLOAKWORK_DEBUG=1 for the traceback)\n"
    )


def test_debug_shows_the_traceback(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CLOAKWORK_DEBUG the traceback comes first, the line last."""
    monkeypatch.setenv("CLOAKWORK_DEBUG", "1")
    run(raising(ValueError("odd")))
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.splitlines()[-1].startswith("cloakwork: internal error: ValueError: odd")


def test_a_file_that_cannot_be_opened_is_named(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system's refusal is the user's to mend, so it is no internal error."""
    assert run(raising(PermissionError(13, "Permission denied", "secret.xes"))) == 1
    assert capsys.readouterr().err == "secret.xes: Permission denied\n"


def test_interruption_ends_with_130(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is a line, not a traceback."""
    assert run(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err.strip() == "cloakwork: interrupted"


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"]])
def test_wrong_use_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown commands and unknown options are usage errors."""
    assert cli.main(arguments) == 2
    assert "Try 'cloakwork --help'" in capsys.readouterr().err


def test_no_command_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """And is a usage error."""
    assert cli.main([]) == 2
    assert "Usage: cloakwork" in capsys.readouterr().err


def test_help_lists_every_command_without_loading_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and summaries come from the table alone."""

    def never(*_: object) -> None:
        raise AssertionError("--help loaded a command")

    monkeypatch.setattr(cli, "import_module", never)
    assert cli.main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, (_, summary) in cli.COMMANDS.items():
        assert f"{name} {summary}" in shown


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_of_the_table_loads(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry of the table leads to a command with a help of its own."""
    assert cli.main([name, "--help"]) == 0
    assert f"Usage: cloakwork {name}" in capsys.readouterr().out


def test_python_dash_m_is_the_same_command() -> None:
    """``python -m cloakwork --version`` prints name and version."""
    done = subprocess.run(
        [sys.executable, "-m", "cloakwork", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("cloakwork ")


def test_a_reader_that_leaves_is_no_error_message() -> None:
    """``cloakwork --help | head -0`` stays quiet."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "cloakwork", "--help"], check=False, stdout=pipe, stderr=-1
        )
    assert done.stderr == b""
