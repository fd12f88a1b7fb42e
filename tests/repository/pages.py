"""Code blocks of the documents, and what their authors say of how they are to be run.

A block is fenced and names its language. Comments on the lines before its fence, which readers do
not see, may say:

- ``<!-- not run: REASON -->``: it is not run.
- ``<!-- long: REASON -->``: it is run only where ``CLOAKWORK_RUNS`` is set.
- ``<!-- before: COMMAND -->``: what the reader is taken to have done before (repeatable).
- ``<!-- within: POLICY -->``: the YAML stands in place of that part of a shipped policy.
- ``<!-- anew: REASON -->``: a story begins here, in a folder and a Python process of its own.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?P<remarks>(?:^<!-- [^\n]* -->\n)*)^```(?P<language>\S*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
REMARK = re.compile(r"^<!-- (not run|long|before|within|anew): (.+) -->$", re.MULTILINE)
INDENTED = re.compile(r"(?:\A|\n\n)(?: {4}|\t)\S|^ +```", re.MULTILINE)
SHOWN = ("text", "json")
"""Languages of what a program prints: there is nothing to run."""
RUN = ("bash", "python", "yaml")


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is that of its fence, from 1."""

    line: int
    language: str
    code: str
    remarks: tuple[tuple[str, str], ...]

    def said(self, kind: str) -> list[str]:
        """What the remarks of one kind say."""
        return [text for found, text in self.remarks if found == kind]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in its order."""
    text = page.read_text("utf-8")
    return [
        Block(
            line=text.count("\n", 0, match.start("language")) + 1,
            language=match["language"],
            code=match["code"],
            remarks=tuple(REMARK.findall(match["remarks"])),
        )
        for match in FENCE.finditer(text)
    ]


def stories_of(page: Path) -> list[list[Block]]:
    """The blocks of a page, parted where a story begins anew."""
    stories: list[list[Block]] = [[]]
    for block in blocks_of(page):
        if block.said("anew"):
            stories.append([])
        stories[-1].append(block)
    return stories


def indented(page: Path) -> bool:
    """Whether the page holds code or fences that are indented, so that no test would see them."""
    return INDENTED.search(FENCE.sub("", page.read_text("utf-8"))) is not None
