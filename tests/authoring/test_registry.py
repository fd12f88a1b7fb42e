"""Versions that do not change, and approvals that count only where four eyes gave them. A release
under a policy that must be approved, and is not, does not begin.
"""

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import cloakwork
from authoring.people import NAME, People, policy_text
from cloakwork.authoring.registry import (
    Registry,
    is_approval_required,
    is_reference,
    required_approval,
)
from cloakwork.authoring.versions import KINDS, RegistryStatement, signed
from cloakwork.errors import CloakworkError, LedgerError, NotApproved, PolicyError
from cloakwork.ledger.journal import EventKind
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.load import digest
from cloakwork.publishing.keys import read_envelope, untrust
from contracts.sample_logs import log_of

DIGEST = digest(parse_policy(policy_text()))


def test_a_version_says_who_wrote_it_and_does_not_change(people):
    people.add()
    version = people.registry.get(NAME)
    assert (version.text, version.author.person, version.state) == (
        policy_text(),
        "Ann",
        "not approved",
    )
    assert people.registry.policy(NAME) == parse_policy(policy_text())
    other = policy_text().replace("epsilon: 1", "epsilon: 2")
    theirs = digest(parse_policy(other))
    with pytest.raises(PolicyError, match=f"{DIGEST} there, {theirs} here"):
        people.registry.add(other, author="Ann", reason="More", key=people.key("ann"))
    again = people.registry.add(policy_text() + "# a comment\n", author="Eve", reason="Again")
    assert again.author.person == "Ann"
    assert len(people.ledger.events("policy-added")) == 1


def test_only_a_second_trusted_person_approves(trusted):
    trusted.add()
    assert trusted.registry.approval_of(DIGEST) is None
    before = datetime.now(UTC)
    trusted.approve()
    approval = trusted.registry.approval_of(DIGEST)
    assert approval is not None
    assert (approval.policy, approval.author.person, approval.approver.person) == (
        NAME,
        "Ann",
        "Bob",
    )
    assert trusted.registry.get(NAME).state == "approved"
    assert trusted.registry.approval_of("0" * 64) is None
    assert trusted.registry.approval_of(DIGEST, at=before - timedelta(hours=1)) is None


@pytest.mark.parametrize(
    ("person", "name", "said"),
    [("ann", "Bob", "is its author's, and"), ("bob", " aNN", "is its author's name")],
)
def test_an_author_cannot_approve(trusted, person, name, said):
    trusted.add()
    with pytest.raises(NotApproved, match=said):
        trusted.registry.approve(NAME, approver=name, reason="Mine", key=trusted.key(person))
    assert not trusted.ledger.events("policy-approved")


@pytest.mark.parametrize(
    ("person", "name", "said"),
    [("ann", "Bob", "the author's key signed it"), ("bob", "ANN", "is the author's name")],
)
def test_an_author_s_approval_does_not_count_either(trusted, person, name, said):
    """One that was written into the ledger past ``approve``."""
    trusted.let_count(person, approves=True)
    trusted.add()
    added = trusted.registry.get(NAME).added
    fields = added.statement.model_dump() | {"act": "approve", "person": name}
    approval = signed(
        RegistryStatement.model_validate(fields), trusted.key(person), engine=added.engine
    )
    trusted.ledger.record_event("policy-approved", "permits", approval.body())
    (found,) = trusted.registry.get(NAME).approvals
    assert len(found.faults) == 1 and said in found.faults[0]
    assert trusted.registry.approval_of(DIGEST) is None


@pytest.mark.parametrize("person", ["ann", "bob"])
def test_both_keys_have_to_be_trusted(trusted, person):
    """Else one person could write under a key made for the purpose, and approve with another."""
    trusted.add()
    trusted.approve()
    untrust(person)
    assert trusted.registry.approval_of(DIGEST) is None
    (approval,) = trusted.registry.get(NAME).approvals
    (fault,) = approval.faults
    assert "is not trusted here" in fault
    assert fault.startswith({"ann": "author", "bob": "approver"}[person])


def test_a_key_that_is_trusted_for_releases_approves_nothing(trusted):
    """A partner whose releases are verified here has no say in policies."""
    trusted.add()
    trusted.approve()
    untrust("bob")
    trusted.let_count("bob")
    (approval,) = trusted.registry.get(NAME).approvals
    assert "is not trusted here to approve policies" in approval.faults[0]
    trusted.let_count("bob", approves=True)
    assert trusted.registry.approval_of(DIGEST) is not None


def test_a_forged_signature_shows(trusted):
    """Also where a trusted key is named: of an author, and of whoever revoked."""
    trusted.add()
    trusted.registry.revoke(NAME, person="Bob", reason="Over", key=trusted.key("bob"))
    copied(trusted, "policy-added", version="1.0.1")
    copied(trusted, "policy-revoked", version="1.0.1")
    real, forged = trusted.registry.versions()
    for version, said in ((real, "trusted on"), (forged, "whose signature does not fit")):
        assert version.revocation is not None
        assert version.author.known_as.startswith(said)
        assert version.revocation.by.known_as.startswith(said)


def test_a_revocation_ends_approval_from_then_on(trusted):
    trusted.add()
    trusted.approve()
    stood = datetime.now(UTC)
    ended = trusted.registry.revoke(NAME, person="Eve", reason="The contract ended").revocation
    assert ended is not None and ended.reason == "The contract ended"
    assert trusted.registry.approval_of(DIGEST) is None
    assert trusted.registry.approval_of(DIGEST, at=stood) is not None
    assert trusted.registry.approval_of(DIGEST, at=datetime.now(UTC)) is None
    for again in (
        trusted.approve,
        lambda: trusted.registry.revoke(NAME, person="Eve", reason="Again"),
    ):
        with pytest.raises(NotApproved, match="for good"):
            again()


def copied(people: People, kind: EventKind, **changes: Any) -> None:
    """Write the newest entry of a kind once more, as somebody who may write to the ledger could:
    with other fields of its statement, or of its own (``sig``, ``keyid``, ``text``).
    """
    body = people.ledger.events(kind)[-1].fields()
    for name, value in changes.items():
        (body if name in body else body["statement"])[name] = value
    people.ledger.record_event(kind, "permits", body)


def test_a_signature_is_of_one_version_alone(trusted):
    """An approval that is carried over to another version, digest or person does not fit."""
    trusted.add()
    trusted.approve()
    trusted.add("1.0.1")
    other = digest(parse_policy(policy_text("1.0.1")))
    text = trusted.registry.get("permits@1.0.1").added.statement.text_digest
    for changes in (
        {"version": "1.0.1"},
        {"version": "1.0.1", "digest": other, "text_digest": text},
        {"version": "1.0.1", "keyid": trusted.key("eve").keyid},
    ):
        copied(trusted, "policy-approved", **changes)
    approvals = trusted.registry.get("permits@1.0.1").approvals
    assert len(approvals) == 3 and not any(each.counts for each in approvals)
    assert trusted.registry.approval_of(other) is None


def test_an_approval_of_another_ledger_is_of_another_text(trusted):
    """The same name and version may stand for another policy there."""
    trusted.add()
    trusted.approve()
    approval = trusted.ledger.events("policy-approved")[0].fields()
    other = Registry(Ledger(str(trusted.folder / "other.db"), notice=lambda _: None))
    text = policy_text().replace("epsilon: 1", "epsilon: 2")
    other.add(text, author="Ann", reason="Weaker", key=trusted.key("ann"))
    other.ledger.record_event("policy-approved", "permits", approval)
    assert other.get(NAME).approvals[0].faults == ("it was given for another text",)
    assert other.get(NAME).state == "not approved"


def test_an_author_who_signs_another_digest_gets_no_approval(trusted):
    """What the approver reads is the text, so its digest is computed where it is read."""
    trusted.add()
    body = trusted.ledger.events("policy-added")[0].fields()
    body["statement"]["version"], body["statement"]["digest"] = "1.0.1", "0" * 64
    trusted.ledger.record_event("policy-added", "permits", body)
    with pytest.raises(NotApproved, match="another digest than that of its text"):
        trusted.registry.approve(
            "permits@1.0.1", approver="Bob", reason="ok", key=trusted.key("bob")
        )
    assert trusted.registry.approval_of("0" * 64) is None


def test_another_text_under_an_old_signature_is_refused(trusted):
    trusted.add()
    copied(trusted, "policy-added", version="1.0.1", text=policy_text("1.0.1"))
    with pytest.raises(LedgerError, match="holds another policy than was signed"):
        trusted.registry.versions()


def test_an_entry_that_cannot_be_read_is_named(people):
    people.ledger.record_event("policy-approved", "permits", {"statement": []})
    with pytest.raises(LedgerError, match="entry 1 cannot be read"):
        people.registry.versions()


def test_an_approval_lasts_when_the_digest_is_computed_otherwise(trusted):
    """A later version of Cloakwork may know more fields, and so another digest of the same text."""
    trusted.add()
    trusted.approve()
    signed = trusted.ledger.events("policy-approved")[0].fields()
    file = trusted.folder / "later.db"
    later = Ledger(str(file), notice=lambda _: None)
    for kind in KINDS.values():
        for entry in trusted.ledger.events(kind):
            later.record_event(kind, "permits", entry.fields() | {"engine": "0.1.9"})
    assert signed["statement"]["digest"] == DIGEST
    found = Registry(later).get(NAME).approval(of_digest=DIGEST)
    assert found is not None
    assert Registry(later).get(NAME).approval(of_digest="1" * 64) is None


def test_an_altered_ledger_is_told(trusted):
    trusted.add()
    trusted.approve()
    with sqlite3.connect(trusted.folder / "ledger.db") as connection:
        rows = connection.execute("SELECT seq, body FROM cloakwork_ledger").fetchall()
        body = json.loads(rows[1][1])
        body["statement"]["reason"] = "Something else"
        connection.execute(
            "UPDATE cloakwork_ledger SET body = ? WHERE seq = 2", (json.dumps(body),)
        )
    assert trusted.ledger.verify() is not None
    with pytest.raises(LedgerError, match="was altered"):
        trusted.registry.approval_of(DIGEST)
    (approval,) = trusted.registry.get(NAME).approvals
    assert not approval.counts


@pytest.mark.parametrize("reason", ["", "two\nlines", "\x1b[31mred", "\u2028", "x" * 1001])
def test_what_people_type_is_one_line(people, reason):
    with pytest.raises(CloakworkError, match="write one line"):
        people.registry.add(policy_text(), author="Ann", reason=reason)
    assert not people.ledger.exists()


def test_what_is_not_there_is_guessed_at(people):
    people.add()
    with pytest.raises(PolicyError, match=r"did you mean 'permits@1.0.0'"):
        people.registry.get("permit@1.0.0")
    with pytest.raises(PolicyError, match="is not NAME@VERSION"):
        people.registry.get("permits")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (NAME, True),
        ("p@1.0.0-rc.1", True),
        ("./p@1.0.0", False),
        ("p@1.0", False),
        ("p@1.0.0\n", False),
        (Path(NAME), False),
    ],
)
def test_what_names_a_version(source, expected):
    assert is_reference(source) is expected


LOG = log_of([("a", "b"), ("a", "c")] * 60)


def refusal(people: People, text: str, *, require: bool = True) -> str:
    """What is said where approval is required and missing."""
    policy = parse_policy(text)
    with pytest.raises(NotApproved) as caught:
        required_approval(people.ledger, policy, digest(policy), require=require)
    assert caught.value.exit_code == 3 and "\n" not in str(caught.value)
    return str(caught.value)


def test_each_refusal_says_what_is_missing(trusted):
    text = policy_text()
    assert "it is not in the registry" in refusal(trusted, text)
    trusted.add()
    assert "nobody approved it; cloakwork registry approve permits@1.0.0" in refusal(trusted, text)
    other = text.replace("epsilon: 1", "epsilon: 2")
    assert "has other content" in refusal(trusted, other)
    trusted.registry.approve(NAME, approver="Eve", reason="ok", key=trusted.key("eve"))
    assert "Eve: approver: key" in refusal(trusted, text)
    trusted.approve()
    policy = parse_policy(text)
    approval = required_approval(trusted.ledger, policy, digest(policy), require=True)
    assert approval is not None and approval.approver.person == "Bob"
    trusted.registry.revoke(NAME, person="Bob", reason="Too weak")
    assert "by Bob: Too weak" in refusal(trusted, text)


def test_a_declaration_of_the_dataset_requires_approval_for_good(trusted):
    trusted.add()
    policy = parse_policy(policy_text())
    trusted.ledger.record_event("dataset-declared", "another", {"require_approval": True})
    for declaration in ({}, {"require_approval": "yes"}, {"require_approval": False}):
        trusted.ledger.record_event("dataset-declared", "permits", declaration)
        assert not is_approval_required(trusted.ledger.journal.read(), "permits")
        assert required_approval(trusted.ledger, policy, digest(policy)) is None
    for declaration in ({"require_approval": True}, {"owner": "dpo@permits.example"}):
        trusted.ledger.record_event("dataset-declared", "permits", declaration)
        assert is_approval_required(trusted.ledger.journal.read(), "permits")
    assert "dataset permits requires approval" in refusal(trusted, policy_text(), require=False)


def test_a_release_rests_on_its_approval(trusted):
    """The refused one leaves no trace; the other says in ledger and internal report who approved
    it, and nothing of it in what is signed.
    """
    trusted.ledger.record_event("dataset-declared", "permits", {"require_approval": True})
    trusted.add()
    plan = cloakwork.make_plan(cloakwork.load_policy(NAME, ledger=trusted.ledger))
    out = trusted.folder / "release"
    for refused in (
        lambda: cloakwork.release(NAME, LOG, out, ledger=trusted.ledger),
        lambda: cloakwork.apply(plan, LOG, ledger=trusted.ledger),
    ):
        with pytest.raises(NotApproved):
            refused()
    assert not out.exists() and not trusted.ledger.history()
    trusted.approve()
    cloakwork.release(plan, LOG, out, ledger=trusted.ledger)
    (record,) = trusted.ledger.history()
    approval = record.details["approval"]
    assert (approval["policy"], approval["approver"]) == (NAME, "Bob")
    entries = trusted.ledger.events("policy-approved")
    assert approval["entry"] == entries[0].digest
    report = (out / "internal" / "report.json").read_text("utf-8")
    assert "this release rests on permits@1.0.0, approved on" in report
    signed = read_envelope((out / "statement.json").read_bytes()).content()
    for public in (signed, (out / "plan.json").read_bytes()):
        assert b"k fits" not in public and entries[0].digest.encode() not in public
    assert cloakwork.verify(out, expect={"policy": NAME})


def test_what_changes_while_the_log_is_read_counts(trusted):
    """A version that is revoked, or a dataset that comes to require approval, between the first
    look and the transaction that reserves: nothing is charged.
    """
    trusted.add()
    plan = cloakwork.make_plan(cloakwork.load_policy(NAME, ledger=trusted.ledger))

    def released(change: Callable[[], object]) -> None:
        def hears(message: str) -> None:
            if message == "plan proved again":
                change()

        with pytest.raises(NotApproved, match=f"{NAME}: is not approved, and ") as refused:
            cloakwork.apply(plan, LOG, ledger=trusted.ledger, reporter=hears)
        assert "\n" not in str(refused.value)
        assert not trusted.ledger.history()

    released(
        lambda: trusted.ledger.record_event(
            "dataset-declared", "permits", {"require_approval": True}
        )
    )
    trusted.approve()
    released(lambda: trusted.registry.revoke(NAME, person="Bob", reason="Too weak"))


def test_a_file_of_the_name_is_not_taken_for_the_version(trusted, monkeypatch):
    monkeypatch.chdir(trusted.folder)
    trusted.add()
    Path(NAME).write_text(policy_text(dataset="another"), "utf-8")
    assert cloakwork.load_policy(NAME, ledger=trusted.ledger).metadata.dataset == "permits"
    assert cloakwork.load_policy(f"./{NAME}").metadata.dataset == "another"


def test_columns_that_nobody_approved_are_refused_or_recorded(trusted, tmp_path):
    """Which column is the person decides what is guaranteed: an approval does not cover another
    than the policy's own.
    """
    spec = "spec:\n  input: {columns: {case: number, activity: step, timestamp: at}}\n"
    text = policy_text().replace("spec:\n", spec)
    trusted.registry.add(text, author="Ann", reason="First", key=trusted.key("ann"))
    trusted.approve()
    policy = parse_policy(text)
    rows = [f"{case},{case},{step},2024-01-01T0{at}:00:00Z" for case in range(60)
            for at, step in enumerate("ab")]  # fmt: skip
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["number,row,step,at", *rows]) + "\n", "utf-8")
    own, other = {"case": "number"}, {"case": "row"}
    rests = required_approval(trusted.ledger, policy, digest(policy), columns=own, require=True)
    assert rests is not None
    with pytest.raises(NotApproved, match="case:concept:name=row is not what the policy says"):
        cloakwork.release(
            policy, log, tmp_path / "r", ledger=trusted.ledger, columns=other,
            require_approval=True,
        )  # fmt: skip
    assert trusted.ledger.history() == ()
    made = cloakwork.apply(cloakwork.make_plan(policy), log, ledger=trusted.ledger, columns=other)
    (record,) = trusted.ledger.history()
    assert record.details["columns"] == ["case:concept:name=row"]
    assert "approval" not in record.details
    assert any("case:concept:name=row" in note for note in made.internal.notes)
