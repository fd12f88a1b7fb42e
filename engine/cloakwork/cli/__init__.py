"""The command line, one file a command group."""

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError

from cloakwork.base.errors import CloakworkError
from cloakwork.base.progress import interrupted, note_signals
from cloakwork.cli.examples import epilog
from cloakwork.report.failures import asks_for_json, error_document, notes_of
from cloakwork.report.screen import switch_colours_off

INTERRUPTED: Final = 130
DEBUG: Final = "CLOAKWORK_DEBUG"
ROOM: Final = "'cloakwork apply --engine local' takes a log in batches, and less of it"


COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "policy": ("policy", "Write, check, explain and compare privacy policies."),
    "profile": ("plan", "Measure noisy figures of a log, for 'plan' to go by."),
    "plan": ("plan", "Say what would be done to a log, what it gives and what it costs."),
    "compare": ("evaluation", "Compare settings: privacy against what is left of a log."),
    "apply": ("plan", "Anonymize a log: write a release folder, or nothing."),
    "verify": ("releases", "Check that a release is what its statement says."),
    "pack": ("releases", "Put the public parts of a release into one file to send."),
    "report": ("releases", "Show the audit report of a release."),
    "convert": ("releases", "Write a log as Parquet, XES or CSV, whatever its format."),
    "ledger": ("ledger", "Show, verify, back up and reconcile the budget that was spent."),
    "dataset": ("ledger", "Declare datasets, and show what is left of their budgets."),
    "registry": ("registry", "Keep versions of policies, approve and revoke them."),
    "keys": ("registry", "List whose signatures count here, and change that."),
    "audit": (
        "evaluation",
        "Test a mechanism's claim by running it many times, or compare a release with its log.",
    ),
    "risk": (
        "evaluation",
        "Attack a log, and a release of it: who is found by what somebody knows?",
    ),
    "mechanisms": ("mechanisms", "List what can be applied, and how far each is proved."),
    "demo": ("releases", "Anonymize the example log, and verify the release."),
    "mcp": ("mcp", "Offer tools to an assistant, which sees no log and releases none."),
    "console": ("console", "Do all of this in a browser, on this machine."),
}
"""Of each command the module of this package that holds it, loaded when it is asked for, so that
``--help`` stays fast; and the sentence that ``cloakwork --help`` has for it.
"""


class LazyGroup(click.Group):
    """A group that imports a command only when it is run; its own help comes from the table of
    ``locations``.
    """

    def __init__(
        self, *args: object, locations: Mapping[str, tuple[str, str]], **kwargs: object
    ) -> None:
        # Handed on as click's decorator gave them.
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.locations = locations

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the table's order, which is the order of work."""
        return list(self.locations)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None when the table has no such name."""
        if cmd_name not in self.locations:
            return None
        module, _ = self.locations[cmd_name]
        command = getattr(import_module(f"cloakwork.cli.{module}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - the table is ours
        return complete(command, cmd_name)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; the exit code is what it hands to ``ctx.exit``, whatever it returns."""
        super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table into the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.locations.items()])


def complete(command: click.Command, path: str) -> click.Command:
    """Add what every command has: examples at the end of its help, and ``--no-color``."""
    # click may ask for a command more than once: what it has already is not added again.
    if not any(option.name == "no_color" for option in command.params):
        command.params.append(_no_color_option())
        command.epilog = epilog(path) or command.epilog
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            complete(below, f"{path} {name}")
    return command


def _no_color_option() -> click.Option:
    return click.Option(
        ["--no-color"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=switch_colours_off,
        help="No colours; as NO_COLOR does.",
    )


@click.group(
    cls=LazyGroup,
    locations=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 error, 2 usage, 3 policy invalid or infeasible, "
    f"4 budget exhausted, 5 verification failed.\n\n{epilog('')}",
)
@click.version_option(
    package_name="cloakwork", message="cloakwork %(version)s", help="Show the version."
)
def cloakwork_command() -> None:
    """Anonymize event logs as a privacy policy asks, and prove what the result guarantees."""


cloakwork_command.params.append(_no_color_option())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``arguments`` are the process's own when left
    out.

    What a user can correct reaches standard error as it stands, one line a problem; a fault of ours
    becomes one line too, with the traceback only where ``CLOAKWORK_DEBUG`` is set. Where ``--json``
    is asked for, any of these is one JSON document on standard output besides. Results must be on
    their way before success is claimed, so standard output is flushed here.
    """
    # Threads of numpy wait for one another in loops: CPU that saves no time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = sys.argv[1:] if arguments is None else [*arguments]
    if arguments is None:
        # What is ended from outside cleans up behind it, as after Ctrl-C.
        note_signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        # click is asked to raise, so that all errors are worded in one place.
        code = cloakwork_command.main(args=given, prog_name="cloakwork", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except (Exception, KeyboardInterrupt) as error:
        if interrupted():
            # On the way out a second Ctrl-C has nothing left to stop.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return say_failure(error, as_json=asks_for_json(given))
    return code if isinstance(code, int) else 0


def _reader_left() -> int:
    """Give the interpreter somewhere to flush to once the reader has gone, or it complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def say_failure(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong, and return the exit code."""
    kind, code, words = _error_kind(error)
    # What stays of the work is noted on the error; Ctrl-C reaches us as Abort, noted on its cause.
    noted = error.__cause__ if isinstance(error, click.Abort) and error.__cause__ else error
    words += notes_of(noted)
    if isinstance(error, click.UsageError) and not isinstance(error, NoArgsIsHelpError):
        command = "cloakwork" if error.ctx is None else error.ctx.command_path
        click.echo(f"Error: {words}\nTry '{command} --help' for help.", err=True)
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        # Ctrl-C is no fault to be traced.
        if os.environ.get(DEBUG, "0") not in ("", "0") and not isinstance(error, click.Abort):
            traceback.print_exception(error)
        click.echo(words, err=True)
    # A script reads standard output alone, so the error is told there, too, as one document.
    if as_json:
        try:
            click.echo(error_document(error, kind, code, words))
            sys.stdout.flush()
        except BrokenPipeError:
            _reader_left()
    return code


def _error_kind(error: BaseException) -> tuple[str, int, str]:
    """What kind of error it is, its exit code, and its message."""
    # Ctrl-C becomes another error in the middle of an import; click makes an Abort of it, and of
    # input that ends at a question; its cause tells.
    if interrupted() or KeyboardInterrupt in (type(error), type(error.__cause__)):
        return "Interrupted", INTERRUPTED, "cloakwork: interrupted"
    if isinstance(error, click.Abort):
        return "Interrupted", 1, "cloakwork: aborted"
    if isinstance(error, click.UsageError):
        return "UsageError", error.exit_code, error.format_message()
    if isinstance(error, click.ClickException):
        return type(error).__name__, error.exit_code, error.format_message()
    if isinstance(error, CloakworkError):
        return type(error).__name__, error.exit_code, str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return "MemoryError", 1, f"cloakwork: memory ran out; {ROOM}"
    if isinstance(error, OSError):
        where = "cloakwork: cannot read or write: "
        if error.filename is not None:
            where = f"{os.fsdecode(error.filename)}: "
        return "OSError", 1, f"{where}{error.strerror or error}"
    # On one line, whatever the message of the fault holds.
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        "InternalError",
        1,
        f"cloakwork: internal error: {what} (please report; set {DEBUG}=1 for the traceback)",
    )
