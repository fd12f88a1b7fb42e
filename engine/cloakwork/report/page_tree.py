"""A page of a report as a PDF: tagged, with page numbers, embedded fonts and its pictures' words.

typst (extra ``pdf``) sets it. Texts reach typst as data, never as source: the page is handed over
as JSON, and the template shows strings as they are. typst sees no file but its template: its root
is an empty folder, fonts and packages of the system stay out.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from cloakwork.base.errors import OutputError
from cloakwork.report.html import with_common_letters, without_controls

_WITHOUT_END: Final = frozenset({"meta", "br", "link", "img", "hr", "input"})
_DRAWING_STYLE: Final = (
    "text{fill:#1d2733;font-family:'DejaVu Sans Mono'}text.below{fill:#4f5b68}"
    ".track{fill:#e8edf2}.share{fill:#17507a}"
    ".released{fill:none;stroke:#17507a;stroke-width:2}.arrow{fill:none;stroke:#4f5b68}"
    ".absent{fill:#f5f7f9;stroke:#b9c3cd;stroke-dasharray:3 3}.tip{fill:#4f5b68}"
    ".end{fill:#f5f7f9;stroke:#b9c3cd}.proved{fill:#e8f1f8;stroke:#17507a}"
    ".published{fill:#fff4ec;stroke:#9a3412;stroke-dasharray:5 3}"
)
"""The light colours of the style sheet, for a drawing that stands alone."""


@dataclass(slots=True)
class Node:
    """An element of a page, with its attributes and what it holds, texts among them."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    @property
    def kinds(self) -> frozenset[str]:
        """The classes that the style sheet goes by."""
        return frozenset(self.attributes.get("class", "").split())

    def nodes(self, *tags: str) -> Iterator["Node"]:
        """The elements with one of these tags, itself included, in the order of the page."""
        if self.tag in tags:
            yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.nodes(*tags)

    @property
    def text(self) -> str:
        """All of its text, with single spaces."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()


def page_tree(page: str) -> Node:
    """The elements of ``page``, below one without a tag; the page must close what it opens."""
    reader = _PageReader()
    reader.feed(page)
    reader.close()
    return reader.path[0]


class _PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.path = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.path[-1].children.append(node)
        if tag not in _WITHOUT_END:
            self.path.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.path[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        # A page that is not well formed comes of a fault in a template: it is told at once.
        if self.path[-1].tag != tag:
            raise ValueError(f"the page closes {tag} where {self.path[-1].tag} is open")
        self.path.pop()

    def handle_data(self, data: str) -> None:
        self.path[-1].children.append(data)


def drawing(node: Node) -> str:
    """An ``svg`` element as a document of its own, in light colours."""
    # A style sheet of the page does not reach a drawing that stands alone.
    alone = Node("svg", {**node.attributes, "xmlns": "http://www.w3.org/2000/svg"})
    alone.children = [Node("style", {}, [_DRAWING_STYLE]), *node.children]
    return _as_xml(alone)


_CASED: Final = {
    "viewbox": "viewBox",
    "refx": "refX",
    "refy": "refY",
    "markerwidth": "markerWidth",
    "markerheight": "markerHeight",
    "markerunits": "markerUnits",
}
"""What the parser of pages writes small and XML does not."""


def _as_xml(node: Node) -> str:
    attributes = "".join(
        f' {_CASED.get(name, name)}="{escape(value)}"' for name, value in node.attributes.items()
    )
    held = "".join(
        escape(child, quote=False) if isinstance(child, str) else _as_xml(child)
        for child in node.children
    )
    return f"<{node.tag}{attributes}>{held}</{node.tag}>"


# What CommonMark or its extensions obey: emphasis, links, tables, lists, bare addresses.
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
        # A question to whoever completes the document, with room for the answer.
        elif "todo" in child.kinds:
            yield f"> {_escaped(child.text)}\n>\n> ..."
        else:
            yield from _blocks(child)


def _rows(table: Node) -> Iterator[str]:
    # CommonMark knows no table without a head.
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


MISSING: Final = (
    "a PDF needs typst: pip install 'cloakwork[pdf]'; "
    "or write the report as html and print it from a browser"
)
_UNSEEN: Final = frozenset({"style", "title", "head", "colgroup"})

_LEFT_OUT: Final = frozenset({"appendix"})
"""Parts of a page for looking things up: pages of tables that nobody reads on paper."""


def pdf_of(page: str, *, title: str, running: str, issued: datetime) -> bytes:
    """``page``, one of our own, as a PDF after PDF/UA-1.

    ``running``: what stands above every page. ``issued``: the date of the document. Characters
    that the embedded fonts lack are written by their number, ``[U+4E2D]``. Raises OutputError
    without typst.
    """
    try:
        import typst
    except ImportError as error:
        raise OutputError(MISSING) from error
    stamp = issued.astimezone(UTC).replace(microsecond=0)
    template = files("cloakwork.report").joinpath("templates", "report.typ").read_bytes()
    # Letters that no embedded font has end the first try; the second shows them by number.
    for shown in (without_controls, with_common_letters):
        given = {
            "title": shown(title),
            "running": shown(running),
            "body": _content(page_tree(shown(page))),
        }
        with TemporaryDirectory(prefix="cloakwork-pdf-") as root:
            compiler = typst.Compiler(
                template,
                root=root,
                ignore_system_fonts=True,
                sys_inputs={"page": json.dumps(given)},
                package_path=root,
                package_cache_path=root,
            )
            try:
                made = compiler.compile(format="pdf", pdf_standards=["ua-1"], timestamp=stamp)
                return cast("bytes", made)
            except typst.TypstError as error:
                fault = str(error)
    raise OutputError(f"the PDF could not be made ({fault.splitlines()[0]}); use --format html")


def _content(node: Node) -> list[Any]:
    """What a node holds, as the template knows it: texts, and mappings with a ``tag``."""
    found: list[Any] = []
    for child in node.children:
        if isinstance(child, str):
            # Single spaces; line breaks of a template between elements are no text.
            if child.strip() or "\n" not in child:
                found.append(re.sub(r"\s+", " ", child))
        elif child.tag == "svg":
            found.append(
                {
                    "tag": "svg",
                    "source": drawing(child),
                    "alt": child.attributes.get("aria-label", "drawing"),
                    "width": float(child.attributes.get("width", "480")),
                }
            )
        elif child.tag == "table":
            found.append(_table(child))
        elif child.tag not in _UNSEEN and not _LEFT_OUT & set(child.kinds):
            found.append({"tag": child.tag, "kinds": sorted(child.kinds), "body": _content(child)})
    return found


def _table(node: Node) -> dict[str, Any]:
    head: list[list[dict[str, Any]]] = []
    body: list[list[dict[str, Any]]] = []
    for row in node.nodes("tr"):
        cells = [
            {
                "head": cell.tag == "th",
                "number": "number" in cell.kinds,
                "span": int(cell.attributes.get("colspan", "1")),
                "body": _content(cell),
            }
            for cell in row.children
            if isinstance(cell, Node)
        ]
        # Rows of headings alone are the head, as long as no other row came before.
        is_head = all(cell["head"] for cell in cells)
        (head if is_head and not body else body).append(cells)
    widths = [sum(cell["span"] for cell in row) for row in (*head, *body)]
    return {"tag": "table", "columns": max(widths, default=1), "head": head, "rows": body}
