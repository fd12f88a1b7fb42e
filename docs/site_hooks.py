"""What ``mkdocs`` runs while it builds the site: files of the repository outside ``docs/`` join it.

Documents link to each other by their places in the repository, as people read them there. The
site gets the documents that lie outside ``docs/`` under ``repository/``, and each link is changed
to the place that its target has on the site.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "examples/ci/README.md",
    "examples/logs/README.md",
    "examples/notebooks/*.ipynb",
    "policies/*.yaml",
    "schemas/*.json",
)
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Each folder named in the navigation becomes the list of its pages."""
    config.nav = [_listed(entry) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The documents outside ``docs/`` join the site under ``repository/``."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            place = f"repository/{path.relative_to(ROOT).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links lead to places on the site; what is no page of it is left as text."""
    here = page.file.src_uri
    source = _source(here)

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            return match[0]
        place = _place((source.parent / target).resolve())
        return os.path.relpath(place, Path(here).parent) + (match["anchor"] or "")

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def _listed(entry: Any) -> Any:
    """An entry of the navigation, with a folder's pages in place of the folder."""
    match entry:
        case dict():
            ((title, content),) = entry.items()
            if isinstance(content, str) and content.endswith("/"):
                folder = ROOT / "docs" / content
                return {title: [f"{content}{path.name}" for path in sorted(folder.glob("*.md"))]}
    return entry


def _source(place: str) -> Path:
    """Where the file of a place on the site lies in the repository."""
    inside, found, rest = place.partition("repository/")
    return ROOT / rest if found and not inside else ROOT / "docs" / place


def _place(path: Path) -> str:
    """The place on the site of a file of the repository."""
    if path.is_relative_to(ROOT / "docs"):
        return path.relative_to(ROOT / "docs").as_posix()
    return f"repository/{path.relative_to(ROOT).as_posix()}"
