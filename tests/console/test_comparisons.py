"""Comparisons: what is shown, and what the ledger notes."""

import html
import re

from cloakwork.console.guard import REPORT_POLICY
from console.conftest import LOG, POLICY, Visitor
from console.test_application import Links


def test_settings_beside_each_other(visitor: Visitor) -> None:
    """Under differential privacy on a stand-in; charged nothing, and noted."""
    asked = {"policy": POLICY, "log": LOG, "sweep": "epsilon=.5"}
    job = visitor.job(visitor.send("/compare", **asked))
    assert job.state == "done", job.problem
    page = visitor.get(f"/work/{job.id}").text
    assert not Links(page).inline
    assert "epsilon 0.5" in page
    cells = [html.unescape(each) for each in re.findall(r"<td[^>]*>(.*?)</td>", page)]
    assert any(re.fullmatch(r"[01]\.\d\d.*", cell) for cell in cells), cells
    assert not any("('" in cell for cell in cells), cells
    assert '<a href="/compare"' in visitor.get("/").text
    assert "stand-in" in page
    assert "Internal." not in page
    picture = visitor.get(f"/work/{job.id}/document")
    assert picture.headers["content-security-policy"] == REPORT_POLICY
    ledger = visitor.state.ledger()
    assert len(ledger.events("compared")) == 1
    assert ledger.history() == ()


def test_a_comparison_needs_a_policy(visitor: Visitor) -> None:
    assert "no policy was chosen" in visitor.send("/compare", log=LOG).text


def test_other_work_has_no_page_of_its_own(visitor: Visitor) -> None:
    job = visitor.job(visitor.send("/plan", policy=POLICY, log=LOG))
    assert "no page came of this work" in visitor.get(f"/work/{job.id}/document").text
