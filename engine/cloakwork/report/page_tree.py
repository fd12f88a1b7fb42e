"""A page of a report as a PDF: tagged, with page numbers, embedded fonts and its pictures' words.

typst (extra ``pdf``) sets it. Texts reach typst as data, never as source: the page is handed over
as JSON, and the template shows strings as they are. typst sees no file but its template: its root
is an empty folder, fonts and packages of the system stay out.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Any, Final, cast
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from cloakwork.base.errors import OutputError
from cloakwork.report.html import with_common_letters, without_controls

_DRAWING_STYLE: Final = (
    "text{fill:#1d2733;font-family:'DejaVu Sans Mono'}text.below{fill:#4f5b68}"
    ".track{fill:#e8edf2}.share{fill:#17507a}"
    ".released{fill:none;stroke:#17507a;stroke-width:2}.arrow{fill:none;stroke:#4f5b68}"
    ".absent{fill:#f5f7f9;stroke:#b9c3cd;stroke-dasharray:3 3}.tip{fill:#4f5b68}"
    ".end{fill:#f5f7f9;stroke:#b9c3cd}.proved{fill:#e8f1f8;stroke:#17507a}"
    ".published{fill:#fff4ec;stroke:#9a3412;stroke-dasharray:5 3}"
)
"""The light colours of the style sheet, for a drawing that stands alone."""


def page_tree(page: str) -> Element:
    """The root of ``page``, one of our own, which must be XML as well; raises ParseError where it
    is not: that comes of a fault in a template.
    """
    return fromstring(page.removeprefix("<!doctype html>"))  # noqa: S314 - a page of our own


def _kinds(node: Element) -> frozenset[str]:
    """The classes that the style sheet goes by."""
    return frozenset(node.get("class", "").split())


def _text(node: Element) -> str:
    """All of its text, with single spaces."""
    return " ".join("".join(node.itertext()).split())


def drawing(node: Element) -> str:
    """An ``svg`` element as a document of its own, in light colours."""
    # A style sheet of the page does not reach a drawing that stands alone.
    alone = Element("svg", {**node.attrib, "xmlns": "http://www.w3.org/2000/svg"})
    SubElement(alone, "style").text = _DRAWING_STYLE
    alone.extend(node)
    return tostring(alone, encoding="unicode")


# What CommonMark or its extensions obey: emphasis, links, tables, lists, bare addresses.
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~&$]|:(?=//)|(?<=www)\.|^[+=-]|(?<=^\d)[.)])")
_ASIDE: Final = frozenset({"head", "style", "title", "svg"})


def markdown_of(page: str) -> str:
    """``page``, one of our own, as CommonMark with tables."""
    blocks = [block for block in _blocks(page_tree(page)) if block.strip()]
    return "\n\n".join(blocks) + "\n"


def _blocks(node: Element) -> Iterator[str]:
    for child in node:
        kinds = _kinds(child)
        if child.tag in _ASIDE:
            continue
        if re.fullmatch("h[1-6]", child.tag):
            yield f"{'#' * int(child.tag[1])} {_escaped(_text(child))}"
        elif child.tag == "p":
            yield _escaped(_text(child))
        elif child.tag == "header" and "banner" in kinds:
            yield f"**{_escaped(_text(child))}**"
        elif child.tag == "ul":
            yield "\n".join(f"- {_escaped(_text(item))}" for item in child.iter("li"))
        elif child.tag == "table":
            yield "\n".join(_rows(child))
        # A question to whoever completes the document, with room for the answer.
        elif "todo" in kinds:
            yield f"> {_escaped(_text(child))}\n>\n> ..."
        else:
            yield from _blocks(child)


def _rows(table: Element) -> Iterator[str]:
    # CommonMark knows no table without a head.
    rows = [[_text(cell) for cell in row] for row in table.iter("tr")]
    width = max((len(row) for row in rows), default=0)
    if table.find("thead") is None:
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


def pdf_of(
    page: str,
    *,
    title: str,
    running: str,
    issued: datetime,
) -> bytes:
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


def _content(node: Element) -> list[Any]:
    """What a node holds, as the template knows it: texts, and mappings with a ``tag``."""
    found = _shown_text(node.text)
    for child in node:
        if child.tag == "svg":
            found.append(
                {
                    "tag": "svg",
                    "source": drawing(child),
                    "alt": child.get("aria-label", "drawing"),
                    "width": float(child.get("width", "480")),
                }
            )
        elif child.tag == "table":
            found.append(_table(child))
        elif child.tag not in _UNSEEN and not _LEFT_OUT & _kinds(child):
            kinds = sorted(_kinds(child))
            found.append({"tag": child.tag, "kinds": kinds, "body": _content(child)})
        found += _shown_text(child.tail)
    return found


def _shown_text(text: str | None) -> list[Any]:
    """A text with single spaces; line breaks of a template between elements are none."""
    if not text or not (text.strip() or "\n" not in text):
        return []
    return [re.sub(r"\s+", " ", text)]


def _table(node: Element) -> dict[str, Any]:
    head: list[list[dict[str, Any]]] = []
    body: list[list[dict[str, Any]]] = []
    for row in node.iter("tr"):
        cells = [
            {
                "head": cell.tag == "th",
                "number": "number" in _kinds(cell),
                "span": int(cell.get("colspan", "1")),
                "body": _content(cell),
            }
            for cell in row
        ]
        # Rows of headings alone are the head, as long as no other row came before.
        is_head = all(cell["head"] for cell in cells)
        (head if is_head and not body else body).append(cells)
    widths = [sum(cell["span"] for cell in row) for row in (*head, *body)]
    return {"tag": "table", "columns": max(widths, default=1), "head": head, "rows": body}
