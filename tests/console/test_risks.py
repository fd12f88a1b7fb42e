"""Attacks: what is found, and where it goes."""

from pathlib import Path

from cloakwork.console.guard import REPORT_POLICY
from console.conftest import POLICY, Visitor
from console.test_application import Links

SMALL = "case,activity,timestamp,ward<b>\n" + "".join(
    f"{case},{label},2024-01-{1 + case % 9:02}T0{hour}:00:00Z,w{case % 2}\n"
    for case in range(20)
    for hour, label in enumerate(("arrive", "treat" if case % 3 else "wait", "leave"))
)


def test_a_log_is_attacked(visitor: Visitor, folder: Path) -> None:
    """Internal; all attacks are a page that may do nothing but be read; names are escaped."""
    (folder / "small.csv").write_text(SMALL)
    form = visitor.get("/risk?log=small.csv").text
    assert '<option value="small.csv" selected>' in form
    asked = {"log": "small.csv", "release": "", "targets": "100"}
    job = visitor.job(visitor.send("/risk", **asked))
    assert job.state == "done", job.problem
    page = visitor.get(f"/work/{job.id}").text
    assert not Links(page).inline
    assert "Internal." in page and "all 20 cases" in page
    assert "its whole sequence of activities" in page and "In the release" not in page
    assert "<b>" not in page and "ward&lt;b&gt;" in page
    drawn = visitor.get(f"/work/{job.id}/document")
    assert drawn.headers["content-security-policy"] == REPORT_POLICY
    assert "<svg" in drawn.text and "<b>" not in drawn.text


def test_what_cannot_be_attacked_is_said(visitor: Visitor, folder: Path) -> None:
    asked = {"log": POLICY, "release": "", "targets": "100"}
    failed = visitor.job(visitor.send("/risk", **asked))
    assert failed.state == "failed"
    for changed in ({"log": "../x.csv"}, {"release": "../out"}, {"targets": "100000"}):
        assert visitor.send("/risk", **(asked | changed)).status_code == 400
    (folder / "forged").mkdir()
    (folder / "forged" / "statement.json").write_text("{}")
    for number in (failed.id, "77"):
        answer = visitor.get(f"/release/report?folder=forged&audience=internal&risk={number}")
        assert "no figures of an attack" in answer.text
