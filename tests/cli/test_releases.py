"""``verify`` as a user types it, and what ``verify`` and ``report`` take for a folder.

``report`` as a user types it.

Who may only read a ledger: every command that reads works, every one that writes is refused in
one line, and nothing changes.
"""

import json
import shutil
import stat

import pytest
from sqlalchemy import create_engine, text

from cli.typed import typed
from cloakwork.cli import main
from cloakwork.errors import LedgerError
from cloakwork.ledger.ledger import Ledger
from cloakwork.report.model import INTERNAL_BANNER
from conftest import ROOT
from counterexamples.small import small_log, small_policy
from ledger.test_backup import filled
from ledger.test_ledger import reserve, unit
from publishing.conftest import _taken_as_proved  # noqa: F401 - a fixture


def test_verify_says_what_was_verified(published, key, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, err = typed(capsys, "verify", published)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 25
    assert out.startswith(f"{published}: verified")
    for said in (
        "hospital-process-discovery 1.0.0; dataset hospital-2014; protected: each case",
        f"key {key.keyid[:16]}, your own",
        "metric privacy of a value, per 1 h: epsilon 1",
        "metadata: how many cases",
        "the smallest group holds 3 released cases",
        "derived again",
        "that this plan ran on that dataset, with fresh noise",
        "5f0c2a, made ",
        "internal folder: never pass it on",
    ):
        assert said in " ".join(out.split()), said


def test_verify_all_lists_every_check(published, capsys):
    assert (
        "ok  signature: made over this statement by key"
        in typed(capsys, "verify", published, "--all")[1]
    )


def test_verify_as_json_prints_one_document(published, capsys):
    code, out, _ = typed(capsys, "verify", published, "--json")
    assert code == 0
    assert json.loads(out)["verified"] is True


def test_a_failed_verification_is_told_on_standard_error(published, capsys):
    (published / "plan.json").write_text("{}")
    code, out, err = typed(capsys, "verify", published)
    assert (code, out) == (5, "")
    assert err.strip() == "verification failed: plan.json: is not the file that was signed"


def test_a_failed_verification_as_json(published, capsys):
    (published / "plan.json").unlink()
    code, out, _ = typed(capsys, "verify", published, "--json")
    assert code == 5
    said = json.loads(out)
    assert (said["verified"], said["mismatches"]) == (False, ["plan.json: is missing"])
    assert said["error"]["kind"] == "VerificationFailed"


def test_verify_with_the_signers_key(published, key, capsys):
    assert typed(capsys, "verify", published, "--public-key", key.public_file)[0] == 0


@pytest.mark.parametrize("command", ["verify", "report"])
def test_what_is_no_folder_is_a_usage_error(published, capsys, command):
    assert typed(capsys, command, published / "nothing")[0] == 2
    assert typed(capsys, command, published / "plan.json")[0] == 2


def test_report_prints_the_public_page_unless_told_otherwise(published, capsys):
    code, out, err = typed(capsys, "report", published)
    assert (code, err) == (0, "")
    assert out.startswith("<!doctype html>") and INTERNAL_BANNER not in out


def test_report_for_insiders(published, capsys):
    code, out, _ = typed(capsys, "report", published, "--audience", "internal", "--format", "json")
    assert code == 0
    assert json.loads(out)["warning"] == INTERNAL_BANNER


def test_report_without_its_file_is_an_error(published, capsys):
    shutil.rmtree(published / "internal")
    code, out, err = typed(capsys, "report", published, "--audience", "internal")
    assert (code, out) == (1, "")
    assert "it stays with whoever made the release" in err and len(err.splitlines()) == 1


def test_a_report_is_written_whole_to_a_new_file(published, tmp_path, capsys):
    """A PDF, too; for insiders it is readable by its owner only."""
    out = tmp_path / "report.pdf"
    asked = ("--audience", "internal", "--format", "pdf", "--out", out)
    code, said, err = typed(capsys, "report", published, *asked)
    assert (code, said, err) == (0, "", f"wrote {out}\n")
    assert out.read_bytes().startswith(b"%PDF") and stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    code, _, err = typed(capsys, "report", published, *asked)
    assert code == 1 and "nothing is overwritten" in err and len(err.splitlines()) == 1


def test_a_report_is_not_written_among_the_signed_files(published, tmp_path, capsys):
    before = {path.name for path in published.iterdir()}
    code, _, err = typed(capsys, "report", published, "--out", published / "report.html")
    assert code == 1 and "lies in a release" in err
    assert {path.name for path in published.iterdir()} == before
    code, _, err = typed(capsys, "report", published, "--out", tmp_path / "none" / "report.html")
    assert code == 1 and "cannot be written" in err and len(err.splitlines()) == 1
    inside = published / "internal" / "assessment.md"
    code, _, _ = typed(
        capsys, "report", published, "--audience", "internal", "--format", "dpia", "--out", inside
    )
    assert code == 0 and "Article 35" in inside.read_text("utf-8")


def test_a_pdf_goes_to_standard_output_unless_that_is_a_terminal(
    published, capsysbinary, monkeypatch
):
    assert main(["report", str(published), "--format", "pdf"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"%PDF")
    monkeypatch.setattr("cloakwork.cli.releases.is_terminal", lambda: True)
    assert main(["report", str(published), "--format", "pdf"]) == 2
    assert b"--out FILE" in capsysbinary.readouterr().err


READING = [
    ("ledger", "show"),
    ("ledger", "history"),
    ("ledger", "verify"),
    ("dataset", "list"),
    ("dataset", "show", "claims"),
]


def grants() -> list[str]:
    """The statements that the page of the ledger names for an auditor."""
    page = (ROOT / "docs" / "budgets-and-approvals.md").read_text("utf-8")
    block = page.partition("```text\n-- auditor\n")[2].partition("```")[0]
    return [statement for statement in block.split(";") if statement.strip()]


def run_as_owner(database: str, *statements: str) -> None:
    """Run SQL on a server."""
    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def auditor(database):
    """The address of a ledger on a server, for the role that the page makes."""
    filled(Ledger(database, notice=lambda _: None))
    run_as_owner(database, "DROP ROLE IF EXISTS auditor")
    run_as_owner(database, *grants())
    return database.replace("user=tester", "user=auditor")


@pytest.fixture
def read_only(tmp_path):
    """The address of a file that is opened for reading only."""
    filled(Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None))
    return f"sqlite:///{tmp_path / 'ledger.db'}?mode=ro"


@pytest.mark.parametrize("kind", ["auditor", "read_only"])
def test_reading_and_no_writing(kind, request, tmp_path, cloakwork):
    """On a server the fingerprints and windows stay hidden, and that is said."""
    ledger = request.getfixturevalue(kind)
    before = Ledger(ledger).journal.read()
    for words in READING:
        said = cloakwork(*words, "--ledger", ledger)
        assert (said.code, said.err) == (0, ""), words
    hidden = "not readable with these rights" in said.out
    assert hidden == (kind == "auditor")
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    assert cloakwork("plan", policy, log, "--ledger", ledger, "--quiet").code == 0
    for words in (
        ("dataset", "declare", "claims", "--owner", "o"),
        ("apply", policy, log, "--out", tmp_path / "out", "--quiet"),
    ):
        said = cloakwork(*words, "--ledger", ledger)
        assert (said.code, said.err.count("\n")) == (1, 1), said.err
        assert said.err.startswith("ledger ")
    assert not (tmp_path / "out").exists()
    assert Ledger(ledger).journal.read() == before


def test_a_connection_that_is_lost(database):
    """In the middle of a transaction: one line, nothing of it stands, and the next one works."""
    ledger = Ledger(database, notice=lambda _: None)
    reserve(ledger, unit(0.1))
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "

    def cut(_: object) -> None:
        run_as_owner(database, end + "AND datname = current_database()")

    with pytest.raises(LedgerError) as lost:
        ledger.record_event("compared", "claims", {}, require=cut)
    assert "\n" not in str(lost.value)
    assert "the connection was lost" in str(lost.value)
    assert len(ledger.journal.read()) == 1
    reserve(ledger, unit(0.1))
    assert ledger.verify() is None
