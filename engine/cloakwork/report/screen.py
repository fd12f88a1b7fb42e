"""How commands lay out what people read: a label on the left, its lines on the right, wrapped.

A screen is a sequence of sections. ``fitted`` shortens the longest ones until the screen has at
most so many lines, and says under which option the rest is shown. ``NO_COLOR``, ``--no-color`` and
what is no terminal get no colours.
"""

import os
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from cloakwork.base.frozen import frozen
from cloakwork.base.text import printable

if TYPE_CHECKING:
    from rich.console import Console


LABEL: Final = 16
"""Columns of the labels."""

NARROWEST = 60
WIDEST = 100
USUAL = 80
"""Columns of a screen: at least, at most, and where there is no terminal."""


@frozen
class ScreenSection:
    """A label with its entries, one or more lines each.

    ``rest_under``: the option that shows all entries; empty where none may be left out. ``hidden``:
    how many are left out. ``most_lines``: lines that one entry may take; None for any number.
    ``legible_lines``: lines that an entry needs to be of use; it gets fewer only where nothing else
    can give way.
    """

    label: str
    entries: tuple[str, ...]
    rest_under: str = ""
    hidden: int = 0
    most_lines: int | None = None
    legible_lines: int = 1

    def lines(self, columns: int) -> list[str]:
        """The section as printed; nothing where it has no entries."""
        shown = list(self.entries)
        if self.hidden:
            shown.append(f"and {self.hidden} more ({self.rest_under})")
        return list(block(self.label, shown, columns, most_lines=self.most_lines))

    def shorter(self) -> "ScreenSection":
        """The section without its last entry."""
        return replace(self, entries=self.entries[:-1], hidden=self.hidden + 1)

    @property
    def may_shrink(self) -> bool:
        """Whether an entry may be left out: the first always stays."""
        # The line that says how many are hidden takes the place of the first one that is.
        return bool(self.rest_under) and len(self.entries) > (1 if self.hidden else 2)

    def cut(self) -> "ScreenSection":
        """The section with one line less for each entry."""
        return replace(self, most_lines=(self.most_lines or 1) - 1)

    @property
    def may_be_cut(self) -> bool:
        """Whether its entries may end in dots sooner."""
        return self.most_lines is not None and self.most_lines > 1

    @property
    def stays_legible(self) -> bool:
        """Whether its entries are of use with one line less."""
        return self.most_lines is not None and self.most_lines > self.legible_lines


def columns() -> int:
    """How wide a screen is: as the terminal, or ``COLUMNS``, within what is easy to read."""
    found = shutil.get_terminal_size((USUAL, 24)).columns
    return min(max(found, NARROWEST), WIDEST)


def block(
    label: str,
    entries: Iterable[str],
    width: int,
    *,
    indent: int = LABEL,
    most_lines: int | None = None,
) -> Iterator[str]:
    """A label and its entries, wrapped; nothing where there is no entry.

    ``most_lines``: lines an entry may take; what is longer ends in dots.
    """
    for number, entry in enumerate(entries):
        first = "" if number else label
        yield from textwrap.wrap(
            printable(entry),
            width,
            initial_indent=f"{first:<{indent}}",
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
            max_lines=most_lines,
            placeholder=" ...",
        )


def paragraphs(text: str, width: int) -> Iterator[str]:
    """Prose of several paragraphs and lists, wrapped anew; blank lines stay.

    A line that begins with a hyphen, or stands deeper than the one before, begins an item.
    """
    item: list[str] = []
    # An empty line at the end closes the last item.
    for line in [*text.splitlines(), ""]:
        begins = not line.strip() or line.lstrip().startswith("- ")
        if item and begins:
            yield from _filled(item, width)
            item = []
        if line.strip():
            item.append(line)
        elif begins:
            yield ""


def _filled(item: list[str], width: int) -> Iterator[str]:
    """One paragraph or item of a list, wrapped; the lines below an item's mark are indented."""
    first = item[0]
    indent = len(first) - len(first.lstrip())
    hanging = indent + (2 if first.lstrip().startswith("- ") else 0)
    yield from textwrap.wrap(
        " ".join(line.strip() for line in item),
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_on_hyphens=False,
    )


def fitted(sections: Sequence[ScreenSection], most: int, width: int) -> tuple[ScreenSection, ...]:
    """The sections, shortened until they take at most ``most`` lines of ``width`` columns.

    The section with the most lines gives way first: its last entry is hidden, and where no section
    may hide one, its entries end in dots sooner. Where none may do that, the screen is longer.
    Sections whose entries would lose their use that way come last.
    """
    kept = list(sections)
    while sum(len(section.lines(width)) for section in kept) > most:
        shrinkable = [place for place, section in enumerate(kept) if section.may_shrink]
        cuttable = [place for place, section in enumerate(kept) if section.may_be_cut]
        if not shrinkable and not cuttable:
            break
        # Entries are hidden first; then those are cut that stay of use; then any.
        first = shrinkable or [place for place in cuttable if kept[place].stays_legible]
        longest = max(first or cuttable, key=lambda place: len(kept[place].lines(width)))
        found = kept[longest]
        kept[longest] = found.shorter() if shrinkable else found.cut()
    return tuple(kept)


def print_sections(sections: Iterable[ScreenSection], width: int) -> None:
    """Print sections, the labels in bold where colours are wanted."""
    for section in sections:
        for number, line in enumerate(section.lines(width)):
            label = line[:LABEL]
            text = line[LABEL:]
            is_first = number == 0 and bool(section.label)
            click.echo((click.style(label, bold=True) if is_first else label) + text)


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
    # Without a wish click decides, by whether the output is a terminal.
    if requested or os.environ.get("NO_COLOR"):
        context.color = False
