"""Releases: what they say, their reports, verification, and the file to send."""

import io
import re
import zipfile
from html import unescape
from pathlib import Path

from cloakwork.console.guard import REPORT_POLICY
from console.conftest import LOG, Visitor


def test_a_release_from_its_report_to_the_file(visitor: Visitor, folder: Path) -> None:
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


def test_a_release_that_was_changed_is_not_verified(visitor: Visitor, folder: Path) -> None:
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


def test_a_folder_that_is_no_release(visitor: Visitor, folder: Path) -> None:
    (folder / "plain").mkdir()
    for path in ("/release?folder=plain", "/release/report?folder=plain"):
        assert "is no release" in visitor.get(path).text
    (folder / "forged").mkdir()
    (folder / "forged" / "statement.json").write_text("{}")
    assert visitor.get("/release?folder=forged").status_code == 200
    assert "is none of this version" in visitor.get("/releases").text


def test_only_packed_files_are_handed_out(visitor: Visitor, folder: Path) -> None:
    assert visitor.get("/packed?file=hospital.csv.gz").status_code == 400
