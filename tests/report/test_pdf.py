"""The PDF: tagged, complete, alone, and never a program that somebody else wrote."""

import re
import sys
import zlib
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import pytest

from cloakwork.errors import OutputError
from cloakwork.report.model import Audience
from cloakwork.report.page_tree import pdf_of
from cloakwork.report.render import render_pdf

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
def test_the_pdf_is_tagged_and_says_what_it_is(published: Path, audience: Audience) -> None:
    """PDF/UA-1: a title, a language, a structure, words for pictures; fonts are embedded."""
    pdf = render_pdf(published, audience)
    content = unpacked(pdf).replace(b" ", b"")

    assert pdf.startswith(b"%PDF-1.7")
    assert re.search(rb"pdfuaid:part>1<", content)
    for said in (b"/Lang(en", b"/StructTreeRoot", b"/Markedtrue", b"/DisplayDocTitletrue"):
        assert said in content, said
    assert re.search(rb"/Alt\(Thestepsfromtheeventlogtotherelease\)", content)
    assert {b"/H1", b"/H2", b"/Table", b"/TH", b"/L", b"/Figure"} <= set(
        re.findall(rb"/S(/\w+)", content)
    )
    fonts = re.findall(rb"/Type/FontDescriptor.*?>>", content, flags=re.DOTALL)
    assert fonts and all(b"/FontFile" in font for font in fonts)


def test_the_same_release_gives_the_same_pdf(published: Path) -> None:
    assert render_pdf(published) == render_pdf(published)


def test_the_appendix_is_not_printed() -> None:
    page = a_page("x")
    beside = page.replace("</main>", "<section class='appendix'><h2>Y</h2></section></main>")
    pdfs = [pdf_of(each, title="x", running="x", issued=ISSUED) for each in (page, beside)]
    assert pdfs[0] == pdfs[1]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_texts_are_never_source(text: str) -> None:
    """Evaluated, they would fail or read files; none stands in the way of a PDF."""
    pdf = pdf_of(a_page(text), title=text, running=text, issued=ISSUED)

    assert pdf.startswith(b"%PDF") and b"/StructTreeRoot" in unpacked(pdf)
    assert b"/JavaScript" not in unpacked(pdf) and b"/Launch" not in unpacked(pdf)


def test_without_typst_one_line_says_what_to_do(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)

    with pytest.raises(OutputError, match=r"pip install 'cloakwork\[pdf\]'"):
        render_pdf(published)
