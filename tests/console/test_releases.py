"""Releases: what they say, their reports, verification, and the file to send. Attacks: what is
found, and where it goes.
"""

import io
import re
import zipfile
from html import unescape

from cloakwork.console.guard import REPORT_POLICY
from console.conftest import LOG, POLICY
from console.test_server import Links


def test_a_release_from_its_report_to_the_file(visitor, folder):
    """The report may do nothing, the file holds the public parts, and both verify."""
    assert visitor.release("out").state == "done"
    assert "hospital-emergency" in visitor.get("/releases").text
    page = visitor.get("/release?folder=out").text
    assert "committed in this ledger" in page
    for audience in ("public", "internal"):
        report = visitor.get(f"/release/report?folder=out&audience={audience}")
        assert report.headers["content-security-policy"] == REPORT_POLICY
        assert "<script" not in report.text
        assert ('class="banner"' in report.text) is (audience == "internal")
    assert "PDF for insiders" in page
    saved = visitor.get("/release/report?folder=out&format=pdf")
    assert saved.content.startswith(b"%PDF")
    assert saved.headers["content-disposition"] == "attachment; filename*=utf-8''out-public.pdf"
    asked = {"log": LOG, "release": "out", "targets": "100"}
    attacked = visitor.result(visitor.send("/risk", **asked))
    link = re.search('href="(/release/report[^"]*risk=[^"]*)" target', attacked)
    assert link is not None
    to_report = unescape(link[1])
    assert "100 of 1,040 cases were looked for" in visitor.get(to_report).text
    assert visitor.get(to_report.replace("internal", "public")).status_code == 400
    verified = visitor.result(visitor.send("/release/verify", folder="out"))
    assert "verified, 1" in verified
    packed = visitor.result(visitor.send("/release/pack", folder="out", out="send"))
    assert "The internal folder was left out" in packed
    content = visitor.get("/packed?file=send.zip").content
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert not [name for name in names if "internal" in name]
    assert "verified, 1" in visitor.result(visitor.send("/release/verify", folder="send.zip"))


def test_a_release_that_was_changed_is_not_verified(visitor, folder):
    """The page says what is wrong; packing refuses; the report refuses."""
    assert visitor.release("out").state == "done"
    (log,) = (folder / "out").glob("log.*")
    log.write_bytes(log.read_bytes() + b"\n")
    page = visitor.result(visitor.send("/release/verify", folder="out"))
    assert "NOT VERIFIED" in page
    assert log.name in page
    job = visitor.job(visitor.send("/release/pack", folder="out", out="send"))
    assert (job.state, job.exit_code) == ("failed", 5)
    assert not (folder / "send.zip").exists()
    assert visitor.get("/release/report?folder=out").status_code == 400


def test_a_folder_that_is_no_release(visitor, folder):
    (folder / "plain").mkdir()
    for path in ("/release?folder=plain", "/release/report?folder=plain"):
        assert "is no release" in visitor.get(path).text
    (folder / "forged").mkdir()
    (folder / "forged" / "statement.json").write_text("{}")
    assert visitor.get("/release?folder=forged").status_code == 200
    assert "is none of this version" in visitor.get("/releases").text


def test_only_packed_files_are_handed_out(visitor, folder):
    assert visitor.get("/packed?file=hospital.csv.gz").status_code == 400


SMALL = "case,activity,timestamp,ward<b>\n" + "".join(
    f"{case},{label},2024-01-{1 + case % 9:02}T0{hour}:00:00Z,w{case % 2}\n"
    for case in range(20)
    for hour, label in enumerate(("arrive", "treat" if case % 3 else "wait", "leave"))
)


def test_a_log_is_attacked(visitor, folder):
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


def test_what_cannot_be_attacked_is_said(visitor, folder):
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
