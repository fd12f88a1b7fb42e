"""A report warns of intersecting two releases where there are two, or nobody knows."""

from pathlib import Path

import cloakwork
from cloakwork.ledger.ledger import Ledger
from cloakwork.report.render import render
from conftest import EXAMPLES, ROOT, hurried

TOLD = "1 other release of this dataset carries no DP guarantee: whoever has it and this one"
WARNING = "two k-anonymous releases of one dataset can be intersected"


def test_the_second_release_brings_the_warning(cloakwork, ledger, tmp_path):
    """To both, in both reports and under ``plan --why``; who has no ledger is warned anyway."""
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path)
    log = EXAMPLES / "hospital.xes.gz"
    book = Ledger(ledger)

    def reports() -> list[str]:
        return [render(first, audience, ledger=book) for audience in ("public", "internal")]

    def why() -> str:
        said = cloakwork("plan", policy, log, "--why", "--no-preview", "--ledger", ledger)
        return " ".join(said.out.split())

    assert "intersect" not in why()
    first = release(policy, log, tmp_path / "first", ledger)
    assert not any(WARNING in page for page in reports())
    assert WARNING not in (first / "internal" / "report.html").read_text("utf-8")
    assert WARNING in render(first)
    assert WARNING in render(first, ledger=Ledger(f"sqlite:///{tmp_path / 'another.db'}"))
    assert "whoever has it and this one can intersect them" in why()
    second = release(policy, log, tmp_path / "second", ledger)
    assert all(TOLD in page for page in reports())
    assert TOLD in (second / "internal" / "report.html").read_text("utf-8")
    said = cloakwork("report", first, "--ledger", ledger)
    assert TOLD in said.out


def release(policy: Path, log: Path, out: Path, ledger: str) -> Path:
    """A release folder."""
    return cloakwork.release(policy, log, out, ledger=ledger).folder
