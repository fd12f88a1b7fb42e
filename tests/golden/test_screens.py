"""A screen changes only when somebody has read the change."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT, Said
from golden.screens import FOLDER, POLICIES, WIDTH, arguments


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.stem)
def test_every_screen_is_the_one_that_was_read(
    cloakwork: Callable[..., Said],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: Path,
) -> None:
    """After reading the difference: python tests/golden/screens.py (with engine/ on PYTHONPATH)."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    said = cloakwork(*arguments(policy, tmp_path / "ledger.db"))
    assert said.code == 0, said.err
    assert (FOLDER / f"{policy.stem}.txt").read_text("utf-8") == said.out, (
        "the screen changed; read it, then run: python tests/golden/screens.py"
    )


def test_no_screen_is_left_of_a_policy_that_is_gone() -> None:
    """A file for each policy, and none besides."""
    assert {path.stem for path in FOLDER.iterdir()} == {policy.stem for policy in POLICIES}
