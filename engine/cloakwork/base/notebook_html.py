"""What notebooks show of an object: plain HTML that stands on a light page and on a dark one.

All text is escaped, whoever wrote it. No script, no colours of its own but a grey line, nothing
fetched.
"""

from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape
from typing import Final

MOST_ROWS: Final = 60
"""Rows of a table or of a list that are shown; of the others, the number."""

_BOX: Final = "max-width: 60em; overflow-wrap: break-word; color: inherit; background: transparent"
_CELL: Final = (
    "text-align: left; vertical-align: top; padding: .2em 1em .2em 0; color: inherit; "
    "background: transparent; border: 0; border-bottom: 1px solid rgba(128, 128, 128, .4)"
)


@singledispatch
def html_of(thing: object) -> str | None:
    """What notebooks show of ``thing``, by whoever has its words and registered them for its type;
    None, for which they show plain text, where nobody of them is loaded.
    """
    return None


SHORT: Final = 160
"""Characters of what stands for an object in text."""


class InNotebooks:
    """Beside its HTML an object is told by its beginning, for it may hold a whole log's figures."""

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if len(text) <= SHORT else f"{text[: SHORT - 5]} ...)"

    def _repr_html_(self) -> str | None:
        return html_of(self)


def shown(title: str, *blocks: str) -> str:
    """A titled block of ``blocks``, which are HTML already."""
    return f'<div style="{_BOX}"><p><strong>{safe(title)}</strong></p>{"".join(blocks)}</div>'


def paragraph(text: str) -> str:
    """One paragraph."""
    return f"<p>{safe(text)}</p>"


def listing(title: str, lines: Iterable[str]) -> str:
    """A list with a title; nothing where there is no line."""
    lines = list(lines)
    if not lines:
        return ""
    items = "".join(f"<li>{safe(line)}</li>" for line in lines[:MOST_ROWS])
    return f"<p>{safe(title)}</p><ul>{items}</ul>{_rest(lines)}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a row of headings; nothing where there is no row."""
    rows = list(rows)
    if not rows:
        return ""
    heads = "".join(f'<th scope="col" style="{_CELL}">{safe(name)}</th>' for name in header)
    lines = ""
    for row in rows[:MOST_ROWS]:
        cells = "".join(f'<td style="{_CELL}">{safe(value)}</td>' for value in row)
        lines += f"<tr>{cells}</tr>"
    body = f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody>"
    return f'<table style="border-collapse: collapse">{body}</table>{_rest(rows)}'


def safe(text: object) -> str:
    """Text without markup, and without signs that cannot be seen or turn the direction."""
    # Signs that turn the direction of writing are not printable.
    signs = str(text)
    return escape("".join(sign if sign.isprintable() else "\ufffd" for sign in signs))


def _rest(rows: Sequence[object]) -> str:
    more = len(rows) - MOST_ROWS
    return f"<p>and {more:,} more</p>" if more > 0 else ""
