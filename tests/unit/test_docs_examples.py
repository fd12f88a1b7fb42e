"""The examples in docs/python.md run as they stand."""

import re
from pathlib import Path

import pytest

from conftest import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text("utf-8"), re.S)


def test_python_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All blocks in order, in one namespace, from a folder that looks like the checkout."""
    pytest.importorskip("pm4py", reason="pm4py is not installed (extra: mining)")
    for folder in ("policies", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    assert len(BLOCKS) == 3
    for block in BLOCKS:
        exec(block, namespace)  # what the page tells people to type
    assert namespace["dfg"]
    assert (tmp_path / "my-release" / "statement.json").exists()
