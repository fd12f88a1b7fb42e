"""A release under a policy that must be approved, and is not, does not begin."""

from collections.abc import Callable
from pathlib import Path

import pytest

import cloakwork
from authoring.people import NAME, People, policy_text
from cloakwork.authoring.registry import is_approval_required, required_approval
from cloakwork.errors import NotApproved
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.load import digest
from cloakwork.publishing.dsse import read_envelope
from contracts.sample_logs import log_of

LOG = log_of([("a", "b"), ("a", "c")] * 60)


def refusal(people: People, text: str, *, require: bool = True) -> str:
    """What is said where approval is required and missing."""
    policy = parse_policy(text)
    with pytest.raises(NotApproved) as caught:
        required_approval(people.ledger, policy, digest(policy), require=require)
    assert caught.value.exit_code == 3 and "\n" not in str(caught.value)
    return str(caught.value)


def test_each_refusal_says_what_is_missing(trusted: People) -> None:
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


def test_a_declaration_of_the_dataset_requires_approval_for_good(trusted: People) -> None:
    trusted.add()
    policy = parse_policy(policy_text())
    trusted.ledger.record_event("dataset-declared", "another", {"require_approval": True})
    for declaration in ({}, {"require_approval": "yes"}, {"require_approval": False}):
        trusted.ledger.record_event("dataset-declared", "permits", declaration)
        assert not is_approval_required(trusted.ledger, "permits")
        assert required_approval(trusted.ledger, policy, digest(policy)) is None
    for declaration in ({"require_approval": True}, {"owner": "dpo@permits.example"}):
        trusted.ledger.record_event("dataset-declared", "permits", declaration)
        assert is_approval_required(trusted.ledger, "permits")
    assert "dataset permits requires approval" in refusal(trusted, policy_text(), require=False)


def test_a_release_rests_on_its_approval(trusted: People) -> None:
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


def test_what_changes_while_the_log_is_read_counts(trusted: People) -> None:
    """A version that is revoked, or a dataset that comes to require approval, between the first
    look and the transaction that reserves: nothing is charged.
    """
    trusted.add()
    plan = cloakwork.make_plan(cloakwork.load_policy(NAME, ledger=trusted.ledger))

    def released(change: Callable[[], object]) -> None:
        def hears(message: str) -> None:
            if message == "plan proved again":
                change()

        with pytest.raises(NotApproved, match=f"{NAME}: is not approved, and must be") as refused:
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


def test_a_file_of_the_name_is_not_taken_for_the_version(
    trusted: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trusted.folder)
    trusted.add()
    Path(NAME).write_text(policy_text(dataset="another"), "utf-8")
    assert cloakwork.load_policy(NAME, ledger=trusted.ledger).metadata.dataset == "permits"
    assert cloakwork.load_policy(f"./{NAME}").metadata.dataset == "another"


def test_columns_that_nobody_approved_are_refused_or_recorded(
    trusted: People, tmp_path: Path
) -> None:
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
