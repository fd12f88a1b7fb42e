"""The pages of a report can be read by everybody: structure, contrast, small screens, paper.
Structure and colours are checked on the page itself; no browser is needed.
"""

import re
from html.parser import HTMLParser

import pytest

from cloakwork.report.model import Audience

BOTH: tuple[Audience, ...] = ("public", "internal")

READABLE = 4.5
"""Least contrast of text and ground (WCAG 2.2, 1.4.3)."""

PAIRS = (
    ("ink", "paper"),
    ("ink", "ground"),
    ("ink", "wash"),
    ("ink", "warn-wash"),
    ("ink", "good-wash"),
    ("soft", "paper"),
    ("soft", "ground"),
    ("soft", "wash"),
    ("soft", "warn-wash"),
    ("deep", "paper"),
    ("deep", "ground"),
    ("deep", "wash"),
    ("deep", "warn-wash"),
    ("warn", "warn-wash"),
    ("good", "good-wash"),
    ("on-alarm", "alarm"),
)
"""Text colours and what they are printed on, by the names of the style sheet."""


class Outline(HTMLParser):
    """What a screen reader hears first: language, landmarks, headings, tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.language: str | None = None
        self.landmarks: list[str] = []
        self.headings: list[int] = []
        self.header_cells: list[dict[str, str | None]] = []
        self.drawings: list[dict[str, str | None]] = []
        self.after_details: list[str] = []
        self.last = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "html":
            self.language = found.get("lang")
        if tag in ("main", "header", "footer", "nav"):
            self.landmarks.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th":
            self.header_cells.append(found)
        if tag == "svg":
            self.drawings.append(found)
        if self.last == "details":
            self.after_details.append(tag)
        self.last = tag


def channel(value: int) -> float:
    """A colour channel, 0 to 255, as linear light (WCAG 2.2, relative luminance)."""
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0 to 1."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def colours(page: str) -> list[dict[str, str]]:
    """The colours by name: of the light page, then of the dark one."""
    blocks = re.findall(r":root \{(.*?)\}", page, flags=re.DOTALL)
    return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]


@pytest.mark.parametrize("audience", BOTH)
def test_the_structure_tells_where_one_is(pages, audience):
    """A language, one main part, one first heading, no level left out, scoped table headers."""
    outline = Outline(pages[audience])
    assert outline.language == "en"
    assert outline.landmarks.count("main") == 1
    assert outline.headings[0] == 1 and outline.headings.count(1) == 1
    steps = zip(outline.headings, outline.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    assert outline.header_cells
    assert all(cell.get("scope") in ("row", "col") for cell in outline.header_cells)
    assert all(drawing.get("role") == "img" for drawing in outline.drawings)
    assert all(drawing.get("aria-label") for drawing in outline.drawings)
    assert set(outline.after_details) == {"summary"}


@pytest.mark.parametrize("audience", BOTH)
def test_text_stands_out_in_light_and_dark(pages, audience):
    """Each pair of colours that text is printed in, in both schemes, and none besides."""
    page = pages[audience]
    schemes = colours(page)
    assert len(schemes) == 2 and schemes[0].keys() == schemes[1].keys()
    low = [
        (text, ground, round(contrast(scheme[text], scheme[ground]), 2))
        for scheme in schemes
        for text, ground in PAIRS
        if contrast(scheme[text], scheme[ground]) < READABLE
    ]
    assert not low
    body = page.split("</style>")[1]
    assert not re.findall(r"#[0-9a-f]{6}\b|#[0-9a-f]{3}\b", body), "colours have names"


def test_contrast_is_that_of_the_standard():
    """Black on white is 21, a colour on itself 1, and the known grey stays just below 4.5."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#17507a", "#17507a") == pytest.approx(1)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("audience", BOTH)
def test_a_narrow_screen_needs_no_scrolling(pages, audience):
    """Words and drawings give way; what cannot, a table of many figures, scrolls by itself."""
    page = pages[audience]
    style, body = page.split("</style>")
    assert re.search(r"th, td \{[^}]*overflow-wrap: anywhere", style)
    assert re.search(r"svg \{[^}]*max-width: 100%", style)
    tables = re.findall(r"<table>.*?</table>", body, flags=re.DOTALL)
    wide = [table for table in tables if table.count('<th scope="col"') > 4]
    regions = re.findall(
        r'<div class="scroll" role="region" aria-label="[^"]+" tabindex="0">', body
    )
    assert len(regions) == len(wide)
    assert not re.findall(r'style="', body)


@pytest.mark.parametrize("audience", BOTH)
def test_paper_is_a4_light_and_shows_what_is_folded(pages, audience):
    """The dark scheme is for screens alone, and details are open on paper."""
    page = pages[audience]
    assert "@page { size: A4;" in page
    assert "@media screen and (prefers-color-scheme: dark)" in page
    assert "details::details-content { content-visibility: visible" in page


@pytest.mark.parametrize("audience", BOTH)
def test_the_verdict_comes_first(pages, audience):
    """What holds, for whom, what does not, who answers for it; reasons and the rest are below."""
    page = pages[audience]
    order = [
        "What holds",
        "For whom",
        "What does not",
        "Who answers for it",
        "What is guaranteed",
        "The mathematics",
    ]
    assert sorted(order, key=page.index) == order
    if audience == "internal":
        appendix = page.index("Appendix: what was considered")
        assert page.index("<h2>Release</h2>") < appendix
        assert page[appendix - 60 : appendix].count("<summary>") == 1
