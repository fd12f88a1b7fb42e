"""What commands share: options and what they mean, how results are printed, and progress on
standard error (one live line on a terminal, plain lines elsewhere).
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import OutputError
from cloakwork.base.progress import Reporter, silent
from cloakwork.base.text import printable
from cloakwork.log.formats.options import ROLES, ROW_NUMBER, standard_name
from cloakwork.log.formats.source import SUFFIXES
from cloakwork.mechanisms.devices import DEVICES
from cloakwork.report.screen import block, columns, console

if TYPE_CHECKING:
    from cloakwork.authoring.registry import PolicySource
    from cloakwork.ledger.ledger import Ledger
    from cloakwork.plan.model import Plan

PATH: Final = click.Path(path_type=Path)


class _LogPath(click.Path):
    """The path of a log; ``spark:TABLE`` is written to files first, which go with the command."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is None or not str(value).startswith("spark:"):
            return super().convert(value, param, ctx)
        from cloakwork.run.reading import registered_engine

        held = registered_engine("spark").in_files(value)
        ctx.call_on_close(held.close)
        ctx.meta[str(held.path)] = value
        return held.path


LOG: Final = _LogPath(path_type=Path)


def as_typed(log: Path) -> str:
    """What was typed for ``log``: the name of a table, not of the files that it was written to."""
    return str(click.get_current_context().meta.get(str(log), log))


ledger_option = click.option(
    "--ledger",
    metavar="URL",
    help="Budget ledger: a database address or a file; default: $CLOAKWORK_LEDGER, "
    "else ledger.db in your data folder.",
)
key_option = click.option(
    "--key",
    "key_file",
    metavar="FILE",
    help="Ed25519 private key (PEM) to sign with; default: $CLOAKWORK_SIGNING_KEY, else your own.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."
)
quiet_option = click.option("--quiet", is_flag=True, help="No progress on standard error.")
column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=COLUMN",
    help="Which column of a table holds what: case=PatientNo, activity=Step, timestamp=At, or "
    "case:NAME=COLUMN for an attribute of cases; row=COLUMN: what numbers the rows.",
)
input_option = click.option(
    "--input",
    "input_",
    multiple=True,
    metavar="NAME=VALUE",
    help="How the log is read, as under spec.input, e.g. object_type=order or sheet=2024.",
)
window_option = click.option(
    "--window",
    metavar="WINDOW",
    help="Of a policy with budget.windows: which window's cases, e.g. 2026-10.",
)
device_option = click.option(
    "--device",
    type=click.Choice(DEVICES),
    default="auto",
    show_default=True,
    help="Where networks are trained, if a step does that: auto takes a graphics card where there "
    "is one.",
)


mining_option = partial(
    click.option,
    "--mine",
    "mining_seconds",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
)
"""For how many seconds a process model may be mined; called with its ``help``."""


def warn_of_revocation(source: "PolicySource") -> None:
    """One line on standard error where a version of the registry was revoked."""
    if source.revoked:
        click.echo(printable(f"warning: {source.label}: {source.revoked}"), err=True)


def said_of_input(pairs: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` pairs; columns have an option of their own."""
    from cloakwork.authoring.suggestion import OPTIONS

    said: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or name not in OPTIONS:
            fault = f"'{pair}' is not NAME=VALUE; the names are {', '.join(OPTIONS)}"
            raise click.BadParameter(fault, param_hint="--input")
        said[name] = value
    return said


def column_mapping(pairs: tuple[str, ...], log: Path) -> dict[str, str]:
    """``NAME=COLUMN`` pairs as a mapping from full name to the file's own; only the name of
    ``log`` is looked at.
    """
    if pairs and log.name.lower().endswith((".xes", ".xes.gz")):
        raise click.UsageError("--column is for tables; XES names its attributes itself")
    bad = partial(click.BadParameter, param_hint="--column")
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, column = pair.partition("=")
        if not (name and sign and column):
            raise bad(f"'{pair}' is not NAME=COLUMN")
        full = name if name == ROW_NUMBER else standard_name(name)
        if full is None:
            known = ", ".join((*ROLES, *ROLES.values(), ROW_NUMBER, "case:NAME"))
            raise bad(f"'{name}' is none of {known}")
        if column in found.values():
            raise bad(f"the column '{column}' is named twice")
        found[full] = column
    return found


def open_ledger(url: str | None, *, tell_missing: bool = False) -> "Ledger":
    """The ledger at ``url``, or the usual one; says on standard error what a user may not expect of
    it.

    ``tell_missing``: whether to say that there is none yet, for commands that only look. That one
    is made is always said.
    """
    from cloakwork.ledger.ledger import Ledger

    # A ledger is made by writing to it: commands that only look make none.
    ledger = Ledger(url, notice=progress)
    if tell_missing and not ledger.exists():
        progress(f"note: there is no ledger at {ledger.url} yet: nothing is spent there")
    return ledger


def checked_ledger(url: str | None, *, tell_missing: bool = True) -> "Ledger":
    """As ``open_ledger``; says on standard error where an entry is not what it was."""
    book = open_ledger(url, tell_missing=tell_missing)
    found = book.verify()
    # A warning and no error: whoever looks for the damage still sees what is there.
    if found is not None:
        click.echo(f"warning: ledger {book.url}: {found}; its figures cannot be trusted", err=True)
    return book


def require_order(policies: Sequence[str], log: str | Path) -> None:
    """Raise UsageError where a log stands for a policy, or a policy for the log; neither is opened,
    so that nothing of a log is shown.
    """
    logs = [each for each in policies if names_log(each)]
    if not logs and not names_policy(str(log)):
        return
    command = click.get_current_context().command_path
    fault = f"{logs[0]} is a log" if logs else f"{log} is a policy"
    raise click.UsageError(
        f"{fault}, and the policy comes first, then the log: {command} POLICY LOG"
    )


def policy_first(_: click.Context, __: click.Parameter, policy: str) -> str:
    """A policy as the first argument: a log there is told before a second argument is missed."""
    require_order([policy], "")
    return policy


def names_log(text: str) -> bool:
    """Whether a text is called as the file of a log; plans are JSON, as some logs are."""
    from cloakwork.authoring.registry import is_reference

    name = text.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    return suffix in SUFFIXES and suffix != ".json" and not is_reference(text)


def names_policy(text: str) -> bool:
    """Whether a text is called as policies are: a YAML file, a shipped one, NAME@VERSION."""
    from cloakwork.authoring.registry import is_reference
    from cloakwork.policy.load import list_policies

    if Path(text).suffix.lower() in (".yaml", ".yml"):
        return True
    return not Path(text).exists() and (is_reference(text) or text in list_policies())


def require_source_first(source: Path, release: Path | None) -> None:
    """Raise UsageError where a release's folder stands for the log that it was made from."""
    if release is None or not (source / "statement.json").exists():
        return
    if release.exists() and not (release / "statement.json").exists():
        command = click.get_current_context().command_path
        raise click.UsageError(
            f"{source} is a release, and the log comes first, then the release: {command} LOG DIR"
        )


def write_new(out: Path, text: str, *, force: bool = False) -> None:
    """Write ``text``; a file that exists is overwritten only by ``force``."""
    try:
        # Mode x refuses in one step: no file can come into being between a look and the write.
        with out.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{out} exists; --force overwrites it") from None
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error


def is_terminal() -> bool:
    """Whether a person sees what is printed."""
    return sys.stdout.isatty()


def print_json(document: Mapping[str, Any] | Sequence[Any], *, only_ascii: bool = False) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=only_ascii))


def print_block(label: str, entry: str, *, indent: int) -> None:
    """Print a label and what belongs to it, wrapped to the screen and ``indent`` below."""
    click.echo("\n".join(block(label, [entry], columns(), indent=indent)))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, one after another."""
    for line in lines:
        click.echo(line)


def print_names(rows: Iterable[tuple[str, str]], indent: int = 0) -> None:
    """Print names in a column, and what each is beside it."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, says in rows:
        print_block(f"{'':{indent}}{name}", says, indent=indent + width + 2)


def print_questions(rows: Iterable[tuple[str, str]]) -> None:
    """Print which attributes a suggested policy leaves out until it is answered, a row each."""
    click.secho("Left out until somebody says which values there are", bold=True)
    print_names(((printable(name), asks) for name, asks in rows), indent=2)


STAYS: Final = ("warning:", "note:", "internal", "a new ledger")
"""Beginnings of messages that a live line does not wipe out."""

STAGES_BESIDE_STEPS: Final = 6
"""What a run does beside its steps: read, prove, measure, write, check, report."""


@dataclass(slots=True)
class PlainProgress:
    """Says each message once, a line each."""

    said: set[str] = field(default_factory=set)

    def __call__(self, message: str) -> None:
        """Say ``message``, unless it was said before."""
        if message not in self.said:
            self.said.add(message)
            click.echo(message, err=True)


@dataclass(slots=True)
class LiveProgress:
    """One line that changes: a bar over the stages, the stage, and how far it is.

    ``bar``: the line, of rich. ``task``: its number there. Stages come through the call, what
    happens inside one (the gap of a search, say) through ``detail``.
    """

    bar: Any
    task: Any
    said: set[str] = field(default_factory=set)
    stage: str = ""

    def __call__(self, message: str) -> None:
        """A new stage begins; a warning or a note is printed above the line, once."""
        # Warnings outlive the line; stages replace one another.
        if message.startswith(STAYS):
            if message not in self.said:
                self.said.add(message)
                self.bar.console.print(message, markup=False)
            return
        # A stage is named before the colon of its message.
        self.stage = message.partition(":")[0]
        self.bar.update(self.task, advance=1, stage=self.stage, detail="")

    def detail(self, message: str) -> None:
        """The stage says how far it is."""
        self.bar.update(self.task, stage=self.stage, detail=message)


def progress(message: str) -> None:
    """Say on standard error how far the work is, or what a user may not expect."""
    click.echo(message, err=True)


@contextmanager
def progress_of(plan: "Plan | None" = None, *, quiet: bool = False) -> Iterator[Reporter]:
    """Who hears how far the work is: nobody, a live line, or plain lines.

    ``plan``: whose steps the bar counts; None where they are not known.
    """
    if quiet:
        yield silent
    # A dumb terminal cannot move its cursor back.
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _live_line(None if plan is None else len(plan.steps)) as reporter:
            yield reporter
    else:
        yield PlainProgress()


@contextmanager
def _live_line(steps: int | None) -> Iterator[LiveProgress]:
    """The live line; it is gone when the work is done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    # The detail takes the room that other columns leave, and the line is wiped at the end.
    line = Progress(
        BarColumn(bar_width=16),
        TextColumn("{task.fields[stage]}", markup=False),
        TextColumn(
            "{task.fields[detail]}",
            markup=False,
            style="dim",
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
        expand=True,
    )
    # Where the steps are not known, the bar has no total and only pulses.
    total = None if steps is None else steps + STAGES_BESIDE_STEPS
    task = line.add_task("", total=total, stage="", detail="")
    with line:
        yield LiveProgress(line, task)
