"""A page of a report as Markdown, to be edited by whoever completes it.

What a text holds is escaped: it is shown, and is neither markup nor HTML.
"""

import re
from collections.abc import Iterator
from typing import Final

from cloakwork.report.page_tree import Node, page_tree

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~&$]|:(?=//)|(?<=www)\.|^[+=-]|(?<=^\d)[.)])")
_ASIDE: Final = frozenset({"head", "style", "title", "svg"})


def markdown_of(page: str) -> str:
    """``page``, one of our own, as CommonMark with tables."""
    blocks = [block for block in _blocks(page_tree(page)) if block.strip()]
    return "\n\n".join(blocks) + "\n"


def _blocks(node: Node) -> Iterator[str]:
    for child in node.children:
        if isinstance(child, str) or child.tag in _ASIDE:
            continue
        if re.fullmatch("h[1-6]", child.tag):
            yield f"{'#' * int(child.tag[1])} {_escaped(child.text)}"
        elif child.tag == "p":
            yield _escaped(child.text)
        elif child.tag == "header" and "banner" in child.kinds:
            yield f"**{_escaped(child.text)}**"
        elif child.tag == "ul":
            yield "\n".join(f"- {_escaped(item.text)}" for item in child.nodes("li"))
        elif child.tag == "table":
            yield "\n".join(_rows(child))
        elif "todo" in child.kinds:
            yield f"> {_escaped(child.text)}\n>\n> ..."
        else:
            yield from _blocks(child)


def _rows(table: Node) -> Iterator[str]:
    rows = [[cell.text for cell in row.nodes("th", "td")] for row in table.nodes("tr")]
    width = max((len(row) for row in rows), default=0)
    if not any(table.nodes("thead")):
        rows = [[""] * width, *rows]
    for number, row in enumerate(rows):
        yield f"| {' | '.join(_escaped(cell) for cell in row)} |"
        if number == 0:
            yield "|" + " --- |" * width


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)
