"""A signed head of the journal: what was cut off, changed or taken out of the ledger's past shows
against it, and nothing is granted from a ledger that lost its past.
"""

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from authoring.people import NAME, People
from cloakwork.authoring.registry import required_approval
from cloakwork.base.files import data_home
from cloakwork.errors import LedgerError, NotApproved, OutputError, VerificationFailed
from cloakwork.ledger import journal as checkpoints
from cloakwork.ledger.datasets import declare_dataset
from cloakwork.ledger.journal import Entry, first_break, tables
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.load import digest
from cloakwork.publishing import reconcile as signing
from cloakwork.publishing.keys import canonical, seal, signing_key
from cloakwork.publishing.reconcile import compare, make_checkpoint, read_checkpoint
from conftest import EXAMPLES, Said
from ledger.test_ledger import reserve, total, unit

Typed = Callable[..., Said]


@pytest.fixture(params=["sqlite", "postgres"])
def people(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> People:
    """An author and an approver who are trusted here; a version that was approved and revoked, a
    declaration, and a release.
    """
    found = People(tmp_path, monkeypatch)
    if request.param == "postgres":
        found.ledger = Ledger(request.getfixturevalue("database"), notice=lambda _: None)
        found.registry.ledger = found.ledger
    return _with_history(found)


@pytest.fixture
def of_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> People:
    """The same in a file."""
    return _with_history(People(tmp_path, monkeypatch))


def _with_history(people: People) -> People:
    people.let_count("ann")
    people.let_count("bob", approves=True)
    people.add()
    people.approve()
    declare_dataset(people.ledger, "permits", owner="Office", require_approval=True)
    reserve(people.ledger, unit(0.2), total(10.0)).commit()
    people.registry.revoke(NAME, person="Bob", reason="Over", key=people.key("bob"))
    reserve(people.ledger, unit(0.2), total(10.0)).commit()
    return people


def rewrite(ledger: Ledger, entries: Iterable[Entry]) -> None:
    """What somebody does who may write to the database: these entries and no others, each with the
    number and the digests that follow.
    """
    chained = list[Entry]()
    for seq, entry in enumerate(entries, start=1):
        before = chained[-1].digest if chained else "0" * 64
        bare = replace(entry, seq=seq, previous=before)
        chained.append(replace(bare, digest=bare.expected_digest))
    assert first_break(tuple(chained)) is None
    with ledger.journal.transaction() as connection:
        connection.execute(tables().entries.delete())
        for entry in chained:
            connection.execute(tables().entries.insert().values(asdict(entry)))


def elsewhere(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was kept here is known; the keys are."""
    monkeypatch.setattr(checkpoints, "data_home", lambda: people.folder / "elsewhere")


def signed(people: People, name: str = "head.json") -> Path:
    out = people.folder / name
    make_checkpoint(people.ledger, out, signing_key())
    return out


def verified(cloakwork: Typed, people: People, *files: Path, ledger: str | None = None) -> Said:
    named = [word for file in files for word in ("--checkpoint", str(file))]
    return cloakwork("ledger", "verify", "--ledger", ledger or _address(people.ledger), *named)


def _address(ledger: Ledger) -> str:
    return ledger.journal.address


def test_a_ledger_leads_to_its_checkpoint_and_grows(people: People, cloakwork: Typed) -> None:
    head = people.folder / "head.json"
    address = _address(people.ledger)
    made = cloakwork("ledger", "checkpoint", "--out", head, "--ledger", address, "--json")
    assert made.code == 0
    document = json.loads(made.out)["checkpoint"]
    entries = people.ledger.journal.read()
    assert (document["entries"], document["head"]) == (len(entries), entries[-1].digest)
    kinds = [each["kind"] for each in document["noted"]]
    assert kinds == ["policy-approved", "dataset-declared", "policy-revoked"]
    reserve(people.ledger, unit(0.2), total(10.0)).commit()
    said = verified(cloakwork, people, head)
    # Where a line ends depends on how long the name of the folder is.
    assert said.code == 0 and "It leads to" in said.out and "your own" in " ".join(said.out.split())
    as_json = cloakwork(
        "ledger",
        "verify",
        "--ledger",
        address,
        "--checkpoint",
        head,
        "--checkpoint",
        head,
        "--json",
    )
    assert json.loads(as_json.out)["whole"] is True
    assert len(json.loads(as_json.out)["checkpoints"]) == 2


def test_every_prefix_of_the_journal_shows(
    people: People, cloakwork: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut anywhere, the journal is a whole chain, and shorter than what was signed."""
    head, entries = signed(people), people.ledger.journal.read()
    elsewhere(people, monkeypatch)
    for length in range(len(entries)):
        rewrite(people.ledger, entries[:length])
        # Without the checkpoint nothing is found: this is what it is for.
        assert verified(cloakwork, people).code == 0
        said = verified(cloakwork, people, head)
        assert said.code == 5
        assert f"entry {length + 1}: is missing: there were {len(entries)}" in said.err
        assert ("a revocation for dataset 'permits' is missing" in said.err) == (length < 6)
    rewrite(people.ledger, entries)
    assert verified(cloakwork, people, head).code == 0


def test_one_entry_changed_shows_though_the_chain_is_written_anew(
    people: People, cloakwork: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, entries = signed(people), people.ledger.journal.read()
    elsewhere(people, monkeypatch)
    for changed in range(len(entries)):
        body = json.dumps(entries[changed].fields() | {"": 0}, sort_keys=True)
        forged = [*entries[:changed], replace(entries[changed], body=body), *entries[changed + 1 :]]
        rewrite(people.ledger, forged)
        assert verified(cloakwork, people).code == 0
        said = verified(cloakwork, people, head)
        assert said.code == 5
        place = f"entry {len(entries)}: is another one" if changed else "this is another ledger"
        assert place in said.err


def test_entries_that_follow_hide_no_missing_revocation(
    people: People, cloakwork: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many entries as were signed, and more: the revocation alone is gone, and told."""
    head, entries = signed(people), people.ledger.journal.read()
    without = [entry for entry in entries if entry.kind != "policy-revoked"]
    rewrite(people.ledger, without)
    with monkeypatch.context() as patch:
        elsewhere(people, patch)
        reserve(people.ledger, unit(0.2), total(10.0)).commit()
        said = verified(cloakwork, people, head)
    assert said.code == 5
    assert "a revocation for dataset 'permits' is missing" in said.err
    assert all(line.startswith("verification failed: ") for line in said.err.splitlines())
    found = cloakwork(
        "ledger", "verify", "--ledger", _address(people.ledger), "--checkpoint", head, "--json"
    )
    document = json.loads(found.out)
    assert (found.code, document["whole"], document["broken"]["entry"]) == (5, False, len(entries))


def test_nothing_is_granted_from_a_ledger_that_lost_a_revocation(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an approval nor budget; and without what is kept here both would be."""
    policy = parse_policy(people.registry.get(NAME).text)
    assert people.registry.approval_of(digest(policy)) is None
    signed(people)
    with pytest.raises(NotApproved, match="revoked"):
        required_approval(people.ledger, policy, digest(policy))
    entries = people.ledger.journal.read()
    rewrite(people.ledger, [entry for entry in entries if entry.kind != "policy-revoked"])
    refusals: list[Callable[[], object]] = [
        lambda: required_approval(people.ledger, policy, digest(policy)),
        lambda: reserve(people.ledger, unit(0.2), total(10.0)),
        people.approve,
        lambda: people.registry.approval_of(digest(policy)),
    ]
    for refused in refusals:
        with pytest.raises(LedgerError, match="neither its budgets nor its approvals count"):
            refused()
    # A revocation takes nothing on trust.
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "lost_past", lambda journal, entries: None)
        assert required_approval(people.ledger, policy, digest(policy)) is not None
        reserve(people.ledger, unit(0.2), total(10.0))
    people.registry.revoke(NAME, person="Bob", reason="Again", key=people.key("bob"))
    assert people.registry.get(NAME).state == "revoked"


def test_apply_refuses_and_the_registry_warns(of_file: People, cloakwork: Typed) -> None:
    """Before the log is read; in one line that says what to do."""
    signed(of_file)
    entries = of_file.ledger.journal.read()
    kept = [entry for entry in entries if entry.kind not in ("policy-revoked", "dataset-declared")]
    rewrite(of_file.ledger, kept)
    out, address = of_file.folder / "release", _address(of_file.ledger)
    words = [
        "apply",
        NAME,
        str(EXAMPLES / "hospital.xes.gz"),
        "--out",
        str(out),
        "--ledger",
        address,
    ]
    for asked in (words, [*words, "--require-approval"]):
        said = cloakwork(*asked)
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert "restore it from a copy" in said.err and not out.exists()
    for looked in (["registry", "list"], ["registry", "show", NAME], ["ledger", "show"]):
        assert "cannot be trusted" in cloakwork(*looked, "--ledger", address).err
    refused = cloakwork("ledger", "checkpoint", "--out", of_file.folder / "2", "--ledger", address)
    assert refused.code == 5 and not (of_file.folder / "2").exists()


def test_another_ledger_in_the_same_place_is_refused(
    of_file: People, cloakwork: Typed, tmp_path: Path
) -> None:
    """Made anew, it has another first entry; whoever means it removes the file that is named."""
    head = signed(of_file)
    file = of_file.ledger.journal.file
    assert file is not None
    moved = file.rename(tmp_path / "moved.db")
    said = verified(cloakwork, of_file, head)
    assert said.code == 5 and "entry 1: is missing" in said.err
    with pytest.raises(LedgerError, match="is missing"):
        reserve(of_file.ledger, unit(0.2), total(10.0))
    people = People(tmp_path, of_file._patch)
    people.add()
    said = verified(cloakwork, people, head)
    assert said.code == 5 and said.err.count("this is another ledger") == 2
    with pytest.raises(LedgerError, match="this is another ledger") as refused:
        reserve(people.ledger, unit(0.2), total(10.0))
    Path(str(refused.value).partition("remove ")[2].partition(")")[0]).unlink()
    reserve(people.ledger, unit(0.2), total(10.0))
    # The one that was moved is known by its first entry, and was cut.
    assert verified(cloakwork, people, head, ledger=str(moved)).code == 0
    of_moved = Ledger(str(moved))
    rewrite(of_moved, of_moved.journal.read()[:-1])
    with pytest.raises(LedgerError, match="is missing"):
        reserve(of_moved, unit(0.2), total(10.0))


def test_only_what_a_trusted_key_signed_as_a_checkpoint_is_one(
    of_file: People, cloakwork: Typed, tmp_path: Path
) -> None:
    """Forged, by a stranger, changed, signed as something else, or written in another way."""
    head = signed(of_file)
    assert verified(cloakwork, of_file, head).code == 0
    envelope = json.loads(head.read_bytes())
    payload = base64.b64decode(envelope["payload"])
    own, stranger = signing_key(), of_file.key("eve")
    by_stranger = json.loads(seal(payload, stranger, signing.CHECKPOINT_TYPE))
    shorter = json.loads(payload) | {"entries": 1, "noted": []}
    shorter["head"] = shorter["ledger"]
    forged: dict[str, Any] = {
        "by a stranger": by_stranger,
        "a stranger under your name": _renamed(by_stranger, own.keyid),
        "changed": envelope | {"payload": base64.b64encode(canonical(shorter)).decode()},
        "a statement": json.loads(seal(payload, own)),
        "a statement under another type": json.loads(seal(payload, own))
        | {"payloadType": signing.CHECKPOINT_TYPE},
        "more than a checkpoint": json.loads(
            seal(canonical(json.loads(payload) | {"x": 1}), own, signing.CHECKPOINT_TYPE)
        ),
        "no entries": json.loads(
            seal(canonical(json.loads(payload) | {"entries": 0}), own, signing.CHECKPOINT_TYPE)
        ),
        "unsigned": envelope | {"signatures": []},
    }
    contents = {name: canonical(value) + b"\n" for name, value in forged.items()}
    contents |= {
        "with blanks": json.dumps(envelope).encode(),
        "with an end": head.read_bytes() + b" ",
        "nothing": b"",
        "a key twice": head.read_bytes().replace(b'{"payload"', b'{"payload":"","payload"', 1),
    }
    for name, content in contents.items():
        file = tmp_path / f"{name}.json"
        file.write_bytes(content)
        said = verified(cloakwork, of_file, head, file)
        assert (said.code, said.err.count("\n")) == (5, 1), name
        with pytest.raises(VerificationFailed):
            read_checkpoint(file)
    assert verified(cloakwork, of_file, tmp_path / "absent.json").code == 2


def _renamed(envelope: dict[str, Any], keyid: str) -> dict[str, Any]:
    return envelope | {"signatures": [envelope["signatures"][0] | {"keyid": keyid}]}


def test_the_newest_is_kept(of_file: People) -> None:
    """Whether it was made or verified here; an older one takes its place never."""
    old = signed(of_file, "old.json")
    reserve(of_file.ledger, unit(0.2), total(10.0))
    new, entries = signed(of_file, "new.json"), of_file.ledger.journal.read()
    compare(of_file.ledger, [read_checkpoint(old)])
    places = sorted((data_home() / "checkpoints").iterdir())
    assert len(places) == 2 and all(place.stat().st_mode & 0o77 == 0 for place in places)
    for place in places:
        assert json.loads(place.read_text())["entries"] == len(entries)
        place.unlink()
    assert not (compare(of_file.ledger, [read_checkpoint(new), read_checkpoint(old)]))
    for place in places:
        assert json.loads(place.read_text())["entries"] == len(entries)
    rewrite(of_file.ledger, entries[:-1])
    # What fails beside it leaves nothing behind.
    for place in places:
        place.unlink()
    found = compare(of_file.ledger, [read_checkpoint(old), read_checkpoint(new)])
    assert {path for path, _ in found} == {new}
    assert not list((data_home() / "checkpoints").iterdir())


def test_what_is_kept_and_cannot_be_read_is_not_passed_over(of_file: People) -> None:
    signed(of_file)
    for place in (data_home() / "checkpoints").iterdir():
        place.write_text("{}")
    with pytest.raises(OutputError, match="no checkpoint that was kept here; remove it"):
        reserve(of_file.ledger, unit(0.2), total(10.0))


def test_there_is_nothing_to_sign_in_a_ledger_that_is_empty_or_altered(
    of_file: People, cloakwork: Typed, tmp_path: Path
) -> None:
    out = tmp_path / "head.json"
    empty = cloakwork("ledger", "checkpoint", "--out", out, "--ledger", tmp_path / "none.db")
    assert empty.code == 1 and "nothing to sign" in empty.err
    with of_file.ledger.journal.transaction() as connection:
        connection.execute(tables().entries.update().values(dataset="other"))
    address = _address(of_file.ledger)
    altered = cloakwork("ledger", "checkpoint", "--out", out, "--ledger", address)
    assert altered.code == 5 and "was altered" in altered.err and not out.exists()
    out.write_text("mine")
    there = cloakwork("ledger", "checkpoint", "--out", out, "--ledger", address)
    assert there.code == 1 and out.read_text() == "mine"
