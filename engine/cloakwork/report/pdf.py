"""A page of a report as a PDF: tagged, with page numbers, embedded fonts and its pictures' words.

typst (extra ``pdf``) sets it. Texts reach typst as data, never as source: the page is handed over
as JSON, and the template shows strings as they are. typst sees no file but its template: its root
is an empty folder, fonts and packages of the system stay out.
"""

import json
from datetime import UTC, datetime
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Any, Final

from cloakwork.base.errors import OutputError
from cloakwork.report.letters import with_common_letters, without_controls
from cloakwork.report.page_tree import Node, drawing, page_tree

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
    for shown in (without_controls, with_common_letters):
        given = {
            "title": shown(title),
            "running": shown(running),
            "body": _content(page_tree(shown(page))),
        }
        with TemporaryDirectory(prefix="cloakwork-pdf-") as root:
            compiler = typst.Compiler(
                _template(),
                root=root,
                ignore_system_fonts=True,
                sys_inputs={"page": json.dumps(given)},
                package_path=root,
                package_cache_path=root,
            )
            try:
                return _compiled(compiler, issued)
            except typst.TypstError as error:
                fault = str(error)
    raise OutputError(f"the PDF could not be made ({fault.splitlines()[0]}); use --format html")


def _compiled(compiler: Any, issued: datetime) -> bytes:
    stamp = issued.astimezone(UTC).replace(microsecond=0)
    made: bytes = compiler.compile(format="pdf", pdf_standards=["ua-1"], timestamp=stamp)
    return made


def _template() -> bytes:
    return files("cloakwork.report").joinpath("templates", "report.typ").read_bytes()


def _content(node: Node) -> list[Any]:
    """What a node holds, as the template knows it: texts, and mappings with a ``tag``."""
    found: list[Any] = []
    for child in node.children:
        if isinstance(child, str):
            if text := _single_spaced(child):
                found.append(text)
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


def _single_spaced(text: str) -> str:
    """The text with single spaces; empty where nothing but line breaks of a template is left."""
    if not text.strip() and "\n" in text:
        return ""
    words = " ".join(text.split())
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() else ""
    return f"{before}{words}{after}" if words else " "


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
        is_head = all(cell["head"] for cell in cells)
        (head if is_head and not body else body).append(cells)
    widths = [sum(cell["span"] for cell in row) for row in (*head, *body)]
    return {"tag": "table", "columns": max(widths, default=1), "head": head, "rows": body}
