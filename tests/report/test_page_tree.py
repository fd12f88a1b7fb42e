"""Pages as trees: what stands on a page, and drawings that stand alone. Pages as Markdown:
complete, editable, and no markup from outside. The PDF: tagged, complete, alone, and never a
program that somebody else wrote.
"""

import re
import sys
import zlib
from datetime import UTC, datetime
from html import escape
from xml.etree import ElementTree

import pytest

from cloakwork.errors import OutputError
from cloakwork.report.model import Audience
from cloakwork.report.page_tree import drawing, markdown_of, page_tree, pdf_of
from cloakwork.report.render import render, render_pdf


def test_a_page_that_does_not_close_what_it_opens_is_refused():
    with pytest.raises(ElementTree.ParseError):
        page_tree("<main><p></main>")


def test_a_drawing_is_a_document_of_its_own():
    page = '<svg viewBox="0 0 9 9"><marker refX="1"/><text x="1">a &amp; "b" &lt;</text></svg>'
    root = ElementTree.fromstring(drawing(page_tree(page)))
    assert root.get("viewBox") == "0 0 9 9"
    assert root[0].tag.endswith("style") and root[1].get("refX") == "1"
    assert root[2].text == 'a & "b" <'


def test_the_assessment_has_the_four_parts_of_the_article(published):
    """Filled where the release tells, visibly blank where a person must answer."""
    text = render(published, "internal", "dpia")
    parts = [text.index(f"### ({letter}) ") for letter in "abcd"]
    assert parts == sorted(parts)
    assert text.startswith("**INTERNAL: holds figures from the raw log. Never publish.**")
    assert "Process discovery by an \\<external\\> research partner" in text
    assert "GDPR Art. 9(2)(j)" in text
    first, *rest = text.split("### (")
    assert "To be answered" not in first
    assert all("> To be answered by a person:" in part for part in rest)
    assert "|  |  |\n" in rest[2], "severity and likelihood are left to a person"


@pytest.mark.parametrize(
    "hostile",
    [
        "[a](javascript:alert(1))",
        "![a](https://evil.example/x.png)",
        "<img src=x onerror=alert(1)>",
        "| a | b |",
        "`code` **bold** _it_ ~~no~~",
        "https://evil.example www.evil.example",
        "&lt;script&gt;",
        "# heading",
        "1. one",
    ],
)
def test_what_a_text_holds_is_no_markup(hostile):
    page = f"<main><h1>{escape(hostile)}</h1><p>{escape(hostile)}</p></main>"
    _, words = markdown_of(page).strip().split("\n\n")
    bare = words.replace("\\\\", "")
    for sign in "[]<>|`*_~&#":
        assert bare.count(sign) == bare.count(f"\\{sign}")
    assert (
        words.count("://") == words.count("\\://")
        and "www." not in words
        and not words.startswith("1.")
    )
    assert words.replace("\\", "") == hostile.replace("\\", "")


BOTH: tuple[Audience, ...] = ("public", "internal")
ISSUED = datetime(2026, 1, 2, tzinfo=UTC)

HOSTILE = (
    '#panic("evaluated")',
    '#read("/etc/passwd")',
    '#import "@preview/cetz:0.3.4"',
    "$unclosed *and _more `of",
    "@nowhere <label> = heading",
    "</td></table><script>alert(1)</script>",
    "a\u202eb\u2066c\u200b",
    "\x00\x1b[31m\ud800",
    "病院 😀 \ufdfa",
)
"""Names that are markup of typst or of pages, that run the wrong way or that no font has."""


def a_page(text: str) -> str:
    """A page with ``text`` at every kind of place."""
    shown = escape(text)
    return (
        f"<html><head><title>{shown}</title></head><body><main><h1>{shown}</h1><p>{shown}</p>"
        f"<ul><li>{shown}</li></ul><table><tr><th>{shown}</th><td><code>{shown}</code></td></tr>"
        f"</table><svg width='90' height='20' viewBox='0 0 90 20' aria-label='{shown}'>"
        f"<text x='1' y='9'>{shown}</text></svg></main></body></html>"
    )


def unpacked(pdf: bytes) -> bytes:
    """The bytes of a PDF, and what its packed parts hold."""
    found = [pdf]
    for packed in re.findall(rb"stream\r?\n(.*?)endstream", pdf, flags=re.DOTALL):
        try:
            found.append(zlib.decompressobj().decompress(packed))
        except zlib.error:
            continue
    return b"\n".join(found)


@pytest.mark.parametrize("audience", BOTH)
def test_the_pdf_is_tagged_and_says_what_it_is(published, audience):
    """PDF/UA-1: a title, a language, a structure, words for pictures; fonts are embedded."""
    pdf = render_pdf(published, audience)
    content = unpacked(pdf).replace(b" ", b"")
    assert pdf.startswith(b"%PDF-1.7")
    assert re.search(rb"pdfuaid:part>1<", content)
    for said in (b"/Lang(en", b"/StructTreeRoot", b"/Markedtrue", b"/DisplayDocTitletrue"):
        assert said in content, said
    # In UTF-16, as epsilon stands behind it.
    words = "this release spends".encode("utf-16-be").hex().upper()
    assert b"/Alt<FEFF" + words.encode() in content
    assert {b"/H1", b"/H2", b"/Table", b"/TH", b"/L", b"/Figure"} <= set(
        re.findall(rb"/S(/\w+)", content)
    )
    fonts = re.findall(rb"/Type/FontDescriptor.*?>>", content, flags=re.DOTALL)
    assert fonts and all(b"/FontFile" in font for font in fonts)


def test_the_same_release_gives_the_same_pdf(published):
    assert render_pdf(published) == render_pdf(published)


def test_the_appendix_is_not_printed():
    page = a_page("x")
    beside = page.replace("</main>", "<section class='appendix'><h2>Y</h2></section></main>")
    pdfs = [pdf_of(each, title="x", running="x", issued=ISSUED) for each in (page, beside)]
    assert pdfs[0] == pdfs[1]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_texts_are_never_source(text):
    """Evaluated, they would fail or read files; none stands in the way of a PDF."""
    pdf = pdf_of(a_page(text), title=text, running=text, issued=ISSUED)
    assert pdf.startswith(b"%PDF") and b"/StructTreeRoot" in unpacked(pdf)
    assert b"/JavaScript" not in unpacked(pdf) and b"/Launch" not in unpacked(pdf)


def test_without_typst_one_line_says_what_to_do(published, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(OutputError, match=r"pip install 'cloakwork\[pdf\]'"):
        render_pdf(published)
