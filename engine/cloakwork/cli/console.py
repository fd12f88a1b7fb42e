"""Colours and consoles: ``NO_COLOR``, ``--no-color``, and what is no terminal get none."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console


def colours_are_off() -> bool:
    """Whether the user asked for no colours (https://no-color.org, or ``--no-color``)."""
    context = click.get_current_context(silent=True)
    refused = context is not None and context.color is False
    return refused or bool(os.environ.get("NO_COLOR"))


def console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """A console of rich that keeps to the user's wish for colours."""
    from rich.console import Console

    return Console(
        stderr=stderr, width=width, highlight=False, soft_wrap=False, no_color=colours_are_off()
    )


def switch_colours_off(context: click.Context, _: click.Parameter, requested: bool) -> None:
    """The callback of ``--no-color``: for this command, and what it calls."""
    if requested or os.environ.get("NO_COLOR"):
        context.color = False
