"""``cloakwork registry``, as an author and an approver type it."""

import json
from pathlib import Path

import pytest

from cloakwork.policy.load import shipped
from conftest import Said

NAME = "dp-control-flow@1.0.0"


@pytest.fixture
def typed(tmp_path, cloakwork, monkeypatch):
    """Run a command as a person with a home of their own; all share one ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLOAKWORK_LEDGER", str(tmp_path / "ledger.db"))
    text = (shipped("policies") / "dp-control-flow.yaml").read_text("utf-8")
    Path("policy.yaml").write_text(text, "utf-8")

    def as_person(person: str, *arguments: str) -> Said:
        with monkeypatch.context() as patch:
            patch.setenv("CLOAKWORK_HOME", str(tmp_path / person))
            return cloakwork(*arguments)

    return as_person


def test_from_the_first_version_to_its_end(typed):
    added = typed("ann", "registry", "add", "policy.yaml", "--author", "Ann")
    assert added.out.startswith(f"{NAME}: added by Ann, not approved\n")
    assert "cloakwork keys trust" in added.out
    own = typed("ann", "registry", "approve", NAME, "--reason", "ok", "--approver", "Bob")
    assert (own.code, own.out) == (3, "") and "an author cannot approve" in own.err
    approved = typed("bob", "registry", "approve", NAME, "--reason", "k fits", "--approver", "Bob")
    assert approved.code == 0 and "does not count here yet: author: key" in approved.out
    shown = typed("ann", "registry", "show", NAME)
    assert "does not count: approver: key" in " ".join(shown.out.split())
    typed("ann", "keys", "trust", "bob/signing-key.pub.pem", "--name", "Bob", "--approves")
    assert "approved 2" in typed("ann", "registry", "list").out
    text = typed("ann", "registry", "show", NAME, "--text")
    assert text.out == Path("policy.yaml").read_text("utf-8")
    revoked = typed("ann", "registry", "revoke", NAME, "--reason", "Over", "--by", "Ann", "--json")
    document = json.loads(revoked.out)
    assert (document["state"], document["revocation"]["reason"]) == ("revoked", "Over")
    for asked in (["list"], ["show", NAME]):
        told = " ".join(typed("ann", "registry", *asked).out.split())
        assert "by 'Ann', key " in told and ": your own" in told
    again = typed("ann", "registry", "add", "policy.yaml", "--author", "Ann")
    assert again.code == 3
    assert "which is for good; raise metadata.version" in again.err
    assert document["approvals"][0]["counts"] is True
    log = "examples/logs/never-read.xes.gz"
    Path(log).parent.mkdir(parents=True)
    Path(log).write_text("no log")
    refused = typed("ann", "apply", NAME, log, "--out", "release", "--require-approval")
    assert refused.code == 3 and refused.err.count("\n") == 1
    assert "was revoked on" in refused.err and not Path("release").exists()
    warned = typed("ann", "apply", NAME, log, "--out", "release")
    assert f"warning: {NAME}: it was revoked on" in warned.err.splitlines()[0]
    assert "by Ann: Over" in warned.err


def test_a_policy_of_the_registry_is_used_like_any_other(typed):
    typed("ann", "registry", "add", "policy.yaml", "--author", "Ann")
    for command in ("validate", "explain", "lint"):
        assert typed("ann", "policy", command, NAME).code == 0
    assert typed("ann", "policy", "diff", NAME, "policy.yaml", "--fail-on", "any").code == 0
    missing = typed("ann", "policy", "explain", "dp-control-flow@2.0.0")
    assert missing.code == 3 and missing.err.count("\n") == 1
    listed = json.loads(typed("ann", "registry", "list", "--json").out)["versions"]
    assert [(each["policy"], each["state"]) for each in listed] == [(NAME, "not approved")]


def test_an_approver_sees_what_is_parsed(typed, monkeypatch):
    """On a terminal characters that nobody sees stand there by their code."""
    text = Path("policy.yaml").read_text("utf-8")
    Path("policy.yaml").write_text(text + "# \u200bafter\n", "utf-8")
    added = typed("ann", "registry", "add", "policy.yaml", "--author", "An\u202en")
    assert added.code == 0
    assert "\u202e" not in added.out
    assert "An\\u202en" in added.out
    approved = typed("bob", "registry", "approve", NAME, "--approver", "B\u200bo", "--reason", "ok")
    assert "\u200b" not in approved.out
    assert "B\\u200bo" in approved.out
    monkeypatch.setattr("cloakwork.cli.registry.is_terminal", lambda: True)
    shown = typed("bob", "registry", "show", NAME, "--text").out
    assert "# \\u200bafter" in shown
    assert "\u200b" not in shown


def test_an_empty_registry_says_what_to_do(typed, tmp_path):
    said = typed("ann", "registry", "list")
    assert said.out == "no policies; add one: cloakwork registry add policy.yaml\n"
    assert not (tmp_path / "ledger.db").exists()
    usage = typed("ann", "registry", "approve", NAME)
    assert usage.code == 2 and "--reason" in usage.err
