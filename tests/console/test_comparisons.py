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


def test_what_is_known_of_a_stand_in(visitor: Visitor) -> None:
    """The number of cases, and a profile of the folder; no page names an option of a command."""
    asked = {"policy": POLICY, "log": LOG, "sweep": "epsilon=.5"}
    shown = visitor.result(visitor.send("/compare", **asked, cases="40"))
    assert "number of cases" not in shown and "--" not in shown
    refusals: tuple[tuple[dict[str, str], str], ...] = (
        ({"cases": "many"}, "must be a whole number above 0, not"),
        ({"cases": "0"}, "must be a whole number above 0"),
        ({"profile": "none.json"}, "there is no such file"),
        ({"profile": POLICY}, "is not a profile of this version"),
    )
    for fields, words in refusals:
        answer = visitor.send("/compare", **asked, **fields)
        assert answer.status_code == 400 and words in answer.text


def test_other_work_has_no_page_of_its_own(visitor: Visitor) -> None:
    job = visitor.job(visitor.send("/plan", policy=POLICY, log=LOG))
    assert "no page came of this work" in visitor.get(f"/work/{job.id}/document").text
