"""The examples in docs/python.md and docs/utility.md run as they stand."""

import re
from pathlib import Path

import pytest

from conftest import ROOT


def blocks(page: str) -> list[str]:
    """The Python of one page, block by block."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.S)


def test_python_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All blocks in order, in one namespace, from a folder that looks like the checkout."""
    pytest.importorskip("pm4py", reason="pm4py is not installed (extra: mining)")
    for folder in ("policies", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    assert len(blocks("python.md")) == 3
    for block in blocks("python.md"):
        exec(block, namespace)  # what the page tells people to type
    assert namespace["dfg"]
    assert (tmp_path / "my-release" / "statement.json").exists()


def test_utility_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are those that the page prints, noise aside."""
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {}
    for block in blocks("utility.md"):
        exec(block, namespace)  # what the page tells people to type
    assert 0.8 < float(str(namespace["similarity"])) < 1
    assert namespace["found"].source_variants == 117  # type: ignore[attr-defined]
    assert namespace["found"].fake_variants == 0  # type: ignore[attr-defined]
