"""Pages as trees: what stands on a page, and drawings that stand alone."""

from xml.etree import ElementTree

import pytest

from cloakwork.report.page_tree import drawing, page_tree


def test_texts_are_unescaped_and_elements_nested() -> None:
    tree = page_tree("<main><p class='a b'>1 &lt; 2<br>and <code>x</code></p></main>")

    (paragraph,) = tree.nodes("p")
    assert paragraph.kinds == {"a", "b"}
    assert paragraph.text == "1 < 2and x"


def test_a_page_that_does_not_close_what_it_opens_is_refused() -> None:
    with pytest.raises(ValueError, match="closes main where p is open"):
        page_tree("<main><p></main>")


def test_a_drawing_is_a_document_of_its_own() -> None:
    page = '<svg viewBox="0 0 9 9"><marker refX="1"/><text x="1">a &amp; "b" &lt;</text></svg>'
    (node,) = page_tree(page).nodes("svg")

    root = ElementTree.fromstring(drawing(node))

    assert root.get("viewBox") == "0 0 9 9"
    assert root[0].tag.endswith("style") and root[1].get("refX") == "1"
    assert root[2].text == 'a & "b" <'
