"""What the documents point to exists: files, headings, commands, make targets."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from cloakwork.cli import COMMANDS
from repository.checkout import ROOT, tracked

LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """The headings of a document as GitHub makes anchors of them."""
    headings = re.findall(r"^#+\s+(.+?)\s*$", FENCE.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_resolve() -> None:
    """Every relative link leads to a file of the repository, and every anchor to a heading."""
    broken = []
    for document in tracked("*.md"):
        for target in LINK.findall(FENCE.sub("", document.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (document.parent / name).resolve() if name else document
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{document}: {target}")
    assert broken == []


@pytest.mark.parametrize(
    "document",
    ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
    + [f"docs/{name}.md" for name in ("index", "officer", "tutorial", "engineer")],
)
def test_commands_and_targets_exist(document: str) -> None:
    """No document promises a command or a make target that there is not."""
    text = (ROOT / document).read_text()
    code = "\n".join(
        [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}(.*)$", text, re.MULTILINE)]
    )
    code += "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    commands = set(re.findall(r"(?:^|\s)cloakwork ([a-z]+)\b", code))
    targets = set(re.findall(r"(?:^|\s)make ([a-z]+)\b", code))
    assert commands <= COMMANDS.keys()
    assert targets <= set(
        re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "SECURITY.md"])
def test_modules_and_files_exist(document: str) -> None:
    """What maintainers are told to run, read or write is there, by its present name."""
    text = (ROOT / document).read_text()
    modules = re.findall(r"python -m (cloakwork[\w.]*)", text)
    names = re.findall(r"(?<![\w/.])((?:tests|engine|schemas|docs|policies|\.ci)/[\w/.-]*\w)", text)
    assert names
    assert [module for module in modules if find_spec(module) is None] == []
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_changelog_names_each_section_once() -> None:
    """Keep a Changelog: at most one section of a kind in each version, and no line twice."""
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert versions[0].startswith("[Unreleased]")
    for version in versions:
        sections = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert sorted(set(sections)) == sorted(sections)
        assert set(sections) <= {"Security", "Added", "Changed", "Deprecated", "Fixed", "Removed"}
        entries = [
            " ".join(entry.split()) for entry in re.split(r"^- ", version, flags=re.MULTILINE)
        ]
        assert sorted(set(entries)) == sorted(entries)
