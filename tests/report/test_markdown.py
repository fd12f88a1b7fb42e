"""Pages as Markdown: complete, editable, and no markup from outside."""

from html import escape
from pathlib import Path

import pytest

from cloakwork.report.page_tree import markdown_of
from cloakwork.report.render import render


def test_the_assessment_has_the_four_parts_of_the_article(published: Path) -> None:
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
def test_what_a_text_holds_is_no_markup(hostile: str) -> None:
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
