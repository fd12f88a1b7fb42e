"""A page of a report as a tree: what its PDF and its Markdown are made of.

The pages are our own templates, filled with escaped texts. So a text of the tree is a text of the
page, whatever it looks like, and markup is ours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from typing import Final

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
        if self.path[-1].tag != tag:
            raise ValueError(f"the page closes {tag} where {self.path[-1].tag} is open")
        self.path.pop()

    def handle_data(self, data: str) -> None:
        self.path[-1].children.append(data)


def drawing(node: Node) -> str:
    """An ``svg`` element as a document of its own, in light colours."""
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
