"""``verify`` and ``report`` as a user types them, and who may only read a ledger: every command
that reads works, every one that writes is refused in one line, and nothing changes.
"""

import json
import shutil
import stat
from dataclasses import replace

import pytest

from cli.test_faults import postgres_in_long_form, run_as_owner
from cloakwork import api
from cloakwork.cli import main
from cloakwork.guarantees.claims import ChosenByFigures, NoTotal, ReadOffLog
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.report.model import INTERNAL_BANNER
from cloakwork.report.verification import verification_json, verification_sections
from conftest import ROOT
from counterexamples.small import small_log, small_policy
from ledger.test_backup import filled
from publishing.conftest import _taken_as_proved  # noqa: F401 - a fixture


def test_verify_says_what_was_verified(cloakwork, published, key, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    said = cloakwork("verify", published)
    assert (said.code, said.err) == (0, "")
    assert len(said.out.splitlines()) <= 25
    assert said.out.startswith(f"{published}: verified")
    for words in (
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
        assert words in " ".join(said.out.split()), words
    every = cloakwork("verify", published, "--all").out
    assert "ok  signature: made over this statement by key" in every
    document = cloakwork("verify", published, "--json")
    assert (document.code, json.loads(document.out)["verified"]) == (0, True)
    assert cloakwork("verify", published, "--public-key", key.public_file).code == 0


def test_what_no_claim_accounts_for_stands_on_the_first_screen(published, key):
    """Whoever is sent a release has to read it; other caveats are one flag away."""
    verified = api.verify(published, public_key=key.public_file)
    read = ReadOffLog(what=("the types of attributes",))
    chosen = ChosenByFigures(chosen="whole-log-dp", instead_of="k-anonymity")
    caveats = (NoTotal(), read, chosen)
    statement = verified.statement.model_copy(update={"caveats": caveats})
    verified = replace(verified, statement=statement)
    sections = {
        each.label: each.entries for each in verification_sections(verified, show_all=False)
    }
    assert sections["Left open"] == (caveat_in_words(read), caveat_in_words(chosen))
    every = {each.label: each.entries for each in verification_sections(verified, show_all=True)}
    assert every["Left open"] == tuple(map(caveat_in_words, caveats))
    assert verification_json(verified)["caveats"] == [*map(caveat_in_words, caveats)]


def test_a_failed_verification_is_told_on_standard_error(cloakwork, published):
    (published / "plan.json").write_text("{}")
    said = cloakwork("verify", published)
    assert (said.code, said.out) == (5, "")
    assert said.err.strip() == "verification failed: plan.json: is not the file that was signed"
    (published / "plan.json").unlink()
    said = cloakwork("verify", published, "--json")
    document = json.loads(said.out)
    assert (said.code, document["verified"]) == (5, False)
    assert document["mismatches"] == ["plan.json: is missing"]
    assert document["error"]["kind"] == "VerificationFailed"


@pytest.mark.parametrize("command", ["verify", "report"])
def test_what_is_no_folder_is_a_usage_error(cloakwork, published, command):
    assert cloakwork(command, published / "nothing").code == 2
    assert cloakwork(command, published / "plan.json").code == 2


def test_report_prints_the_public_page_unless_told_otherwise(cloakwork, published):
    said = cloakwork("report", published)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("<!doctype html>") and INTERNAL_BANNER not in said.out
    inside = cloakwork("report", published, "--audience", "internal", "--format", "json")
    assert (inside.code, json.loads(inside.out)["warning"]) == (0, INTERNAL_BANNER)
    shutil.rmtree(published / "internal")
    said = cloakwork("report", published, "--audience", "internal")
    assert (said.code, said.out, len(said.err.splitlines())) == (1, "", 1)
    assert "it stays with whoever made the release" in said.err


def test_a_report_is_written_whole_to_a_new_file(cloakwork, published, tmp_path):
    """A PDF, too; for insiders it is readable by its owner only."""
    out = tmp_path / "report.pdf"
    asked = ("report", published, "--audience", "internal", "--format", "pdf", "--out", out)
    said = cloakwork(*asked)
    assert (said.code, said.out, said.err) == (0, "", f"wrote {out}\n")
    assert out.read_bytes().startswith(b"%PDF") and stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    again = cloakwork(*asked)
    assert (again.code, len(again.err.splitlines())) == (1, 1)
    assert "nothing is overwritten" in again.err


def test_a_report_is_not_written_among_the_signed_files(cloakwork, published, tmp_path):
    before = {path.name for path in published.iterdir()}
    said = cloakwork("report", published, "--out", published / "report.html")
    assert said.code == 1 and "lies in a release" in said.err
    assert {path.name for path in published.iterdir()} == before
    said = cloakwork("report", published, "--out", tmp_path / "none" / "report.html")
    assert said.code == 1 and "cannot be written" in said.err and len(said.err.splitlines()) == 1
    inside = published / "internal" / "assessment.md"
    options = ("--audience", "internal", "--format", "dpia", "--out", inside)
    assert cloakwork("report", published, *options).code == 0
    assert "Article 35" in inside.read_text("utf-8")


def test_pages_go_to_standard_output_unless_that_is_a_terminal(
    published, capsysbinary, monkeypatch
):
    assert main(["report", str(published), "--format", "pdf"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"%PDF")
    monkeypatch.setattr("cloakwork.cli.releases.is_terminal", lambda: True)
    for form in ("pdf", "html"):
        assert main(["report", str(published), "--format", form]) == 2
        refused = capsysbinary.readouterr()
        assert refused.out == b"" and b"--out FILE" in refused.err
    assert main(["report", str(published), "--format", "json"]) == 0


def grants() -> list[str]:
    """The statements that the page of the ledger names for an auditor."""
    page = (ROOT / "docs" / "budgets-and-approvals.md").read_text("utf-8")
    block = page.partition("```text\n-- auditor\n")[2].partition("```")[0]
    return [statement for statement in block.split(";") if statement.strip()]


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


READING = ("ledger show", "ledger history", "ledger verify", "dataset list", "dataset show claims")


@pytest.mark.parametrize(
    "kind", ["read_only", pytest.param("auditor", marks=postgres_in_long_form)]
)
def test_reading_and_no_writing(kind, request, tmp_path, cloakwork):
    """On a server the fingerprints and windows stay hidden, and that is said."""
    ledger = request.getfixturevalue(kind)
    before = Ledger(ledger).journal.read()
    for words in READING:
        said = cloakwork(*words.split(), "--ledger", ledger)
        assert (said.code, said.err) == (0, ""), words
    assert ("not readable with these rights" in said.out) == (kind == "auditor")
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
