"""Progress on standard error: one live line on a terminal, plain lines elsewhere."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.progress import Reporter, silent

if TYPE_CHECKING:
    from cloakwork.plan.model import Plan

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

    from cloakwork.report.screen import console

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
