"""Verification: whatever is changed is found, and garbage never ends in a traceback."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.files import home
from cloakwork.base.text import version_of
from cloakwork.errors import OutputError, PlanMoved, PlanUnsound, VerificationFailed
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import Attribute, write_log
from cloakwork.plan.model import TreatedAttribute
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.examine import verify
from cloakwork.publishing.from_plan import (
    attributes_of,
    column_mismatches,
    plan_bytes,
    released_columns,
)
from cloakwork.publishing.keys import SigningKey, canonical
from cloakwork.publishing.publish import Published
from cloakwork.publishing.stamp import EXTENSIONS, stamp
from cloakwork.publishing.statement import ReleasedColumn
from conftest import runs
from publishing.conftest import VARIANTS, a_log, a_plan, a_policy, envelope_of, public_file, resign


def mismatches(folder: Path, **how: Any) -> tuple[str, ...]:
    """What verification finds; at least one thing."""
    with pytest.raises(VerificationFailed) as failed:
        verify(folder, **how)
    return failed.value.mismatches


@pytest.mark.parametrize("format_", ["xes", "xes.gz", "csv", "csv.gz", "parquet"])
def test_a_release_as_it_was_published_holds(
    publish_as: Callable[..., Published], key: SigningKey, format_: str
) -> None:
    verified = verify(publish_as(format_=format_).folder)
    assert verified.keyid == key.keyid
    assert any("smallest group holds 3 released cases" in check for check in verified.checks)
    assert any("derived again" in check for check in verified.checks)
    assert any("stamp" in check for check in verified.checks)


def test_it_holds_without_the_internal_folder(published: Path) -> None:
    shutil.rmtree(published / "internal")
    assert verify(published).checks


def test_it_holds_elsewhere_with_the_signers_public_key(
    published: Path, key: SigningKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "signer.pem").write_text(key.public_pem)
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "elsewhere"))
    assert verify(published, public_key=tmp_path / "signer.pem").keyid == key.keyid
    assert (
        "not trusted here" in mismatches(published)[0]
        and "--public-key" in mismatches(published)[0]
    )


def test_another_key_does_not_vouch(
    published: Path, another_key: SigningKey, tmp_path: Path
) -> None:
    assert (
        "not by the given key"
        in mismatches(published, public_key=public_file(another_key, tmp_path))[0]
    )


def test_a_statement_signed_by_a_stranger_fails(published: Path, stranger: SigningKey) -> None:
    resign(published, stranger)
    assert "not trusted here" in mismatches(published)[0]


def test_a_strangers_signature_under_a_trusted_name_fails(
    published: Path, key: SigningKey, stranger: SigningKey
) -> None:
    resign(published, stranger)
    envelope = envelope_of(published)
    envelope["signatures"][0]["keyid"] = key.keyid
    (published / "statement.json").write_bytes(canonical(envelope) + b"\n")
    assert "does not fit" in mismatches(published)[0]


def test_what_is_no_public_key_is_an_error(published: Path) -> None:
    with pytest.raises(OutputError, match="not a public key"):
        verify(published, public_key=published / "plan.json")


def test_a_trusted_file_that_is_another_key_fails(
    published: Path, key: SigningKey, another_key: SigningKey
) -> None:
    resign(published, another_key)
    filed = home() / "trusted" / f"{another_key.keyid}.json"
    filed.write_text(json.dumps(json.loads(filed.read_text()) | {"public_key": key.public_pem}))
    with pytest.raises(OutputError, match="not the key that its name says"):
        verify(published)


@pytest.mark.parametrize("name", ["log.xes", "plan.json"])
def test_a_changed_or_missing_file_fails(published: Path, name: str) -> None:
    (published / name).write_bytes((published / name).read_bytes() + b"\n")
    assert mismatches(published) == (f"{name}: is not the file that was signed",)
    (published / name).unlink()
    assert mismatches(published) == (f"{name}: is missing",)


def test_every_mismatch_is_told(published: Path) -> None:
    (published / "log.xes").write_text("")
    (published / "plan.json").unlink()
    (published / "notes.txt").write_text("")
    assert len(mismatches(published)) == 3


def test_a_missing_statement_fails(published: Path) -> None:
    (published / "statement.json").unlink()
    assert mismatches(published) == ("statement.json: is missing, this is not a release folder",)


@pytest.mark.parametrize("name", ["raw-log.xes", ".hidden", "plan.json.bak", "\x1b[31mred"])
def test_files_that_nobody_signed_fail(published: Path, name: str) -> None:
    (published / name).write_text("")
    assert mismatches(published) == (f"{name!a}: does not belong to the release; remove it",)


def test_links_are_no_part_of_a_release(published: Path, tmp_path: Path) -> None:
    (published / "log.xes").rename(tmp_path / "log.xes")
    (published / "log.xes").symlink_to(tmp_path / "log.xes")
    assert mismatches(published) == ("log.xes: is not a plain file",)


def test_a_reproducible_release_fails(publish_as: Callable[..., Published]) -> None:
    assert mismatches(publish_as(private=False).folder) == (
        "the release is marked 'reproducible: NOT PRIVATE': it protects nobody",
    )


def test_a_statement_without_its_log_fails(published: Path, key: SigningKey) -> None:
    resign(published, key, lambda statement: statement["subject"].pop(0))
    assert "must sign one log and plan.json" in mismatches(published)[0]


@pytest.mark.parametrize("name", ["../log.xes", "/etc/passwd", "log.exe", "LOG.XES", "log.xes\n"])
def test_a_statement_about_other_files_fails(published: Path, key: SigningKey, name: str) -> None:
    def rename(statement: dict[str, Any]) -> None:
        statement["subject"][0]["name"] = name

    resign(published, key, rename)

    assert "must sign one log and plan.json" in mismatches(published)[0]


@pytest.mark.parametrize(
    "change",
    [
        {"predicateType": "https://slsa.dev/provenance/v1"},
        {"predicateType": "urn:cloakwork:privacy-statement:v1"},
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"predicate": {}},
        {"subject": []},
        {"more": 1},
    ],
)
def test_another_kind_of_statement_fails(
    published: Path, key: SigningKey, change: dict[str, Any]
) -> None:
    resign(published, key, lambda statement: statement.update(change))
    told = "does not fit its schema" if "predicate" in change else "as this version knows it"
    assert told in mismatches(published)[0]


def test_a_payload_that_is_not_canonical_fails(published: Path, key: SigningKey) -> None:
    from cloakwork.publishing.keys import read_envelope, seal

    content = read_envelope((published / "statement.json").read_bytes()).content()
    (published / "statement.json").write_bytes(
        seal(json.dumps(json.loads(content), indent=1).encode(), key)
    )
    assert mismatches(published) == ("statement.json: its payload is not in canonical form",)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("exposed", []),
        ("release", "another"),
        ("issued", "2020-01-01T00:00:00Z"),
        ("unproven", ["variants/amun"]),
        ("stamp", "none"),
    ],
)
def test_a_statement_that_says_something_else_fails(
    published: Path, key: SigningKey, part: str, value: Any
) -> None:
    resign(published, key, lambda statement: statement["predicate"].update({part: value}))
    assert mismatches(published)


def test_a_stronger_claim_in_the_statement_fails(published: Path, key: SigningKey) -> None:
    def claim_more(statement: dict[str, Any]) -> None:
        statement["predicate"]["guarantees"][0]["guarantee"]["k"] = 50

    resign(published, key, claim_more)
    found = mismatches(published)

    assert "statement.json: 'guarantees' is not what plan.json says" in found
    assert any("cloakwork:k says '3', the statement '50'" in line for line in found)


def test_another_policy_digest_in_the_plan_fails(published: Path, key: SigningKey) -> None:
    (published / "plan.json").write_bytes(plan_bytes(a_plan(policy_digest="c" * 64)))
    resign(published, key)
    assert "statement.json: 'policy' is not what plan.json says" in mismatches(published)


def test_a_log_without_a_stamp_fails(published: Path, key: SigningKey) -> None:
    write_log(a_log(), published / "log.xes", "xes")
    resign(published, key)
    assert "log.xes: stamp: cloakwork:statement is missing" in mismatches(published)


@pytest.mark.parametrize("format_", ["xes", "parquet"])
def test_a_log_that_says_more_than_its_stamp_fails(
    publish_as: Callable[..., Published], key: SigningKey, format_: str
) -> None:
    done = publish_as(format_=format_)
    more = (*stamp(a_plan(format_), done.statement), Attribute("meta:source", "ward 7"))
    write_log(a_log(), done.log, format_, annotations=more, extensions=EXTENSIONS)
    resign(done.folder, key)
    assert mismatches(done.folder) == (
        f"{done.log.name}: stamp: 'meta:source' does not belong there",
    )


def test_a_log_that_is_less_anonymous_than_claimed_fails(
    publish_as: Callable[..., Published], key: SigningKey
) -> None:
    folder = swap_log(publish_as(), a_log([*VARIANTS, ["register", "escape"]]), key)
    assert mismatches(folder) == (
        "measured again: k-anonymity over control-flow (k 3, scope variants, count cases): "
        "the smallest group holds 1 released cases",
    )


def test_an_empty_release_holds(publish_as: Callable[..., Published]) -> None:
    empty = a_log().keep_cases(a_log().offsets[:0])
    assert any("holds no case" in check for check in verify(publish_as(log=empty).folder).checks)


def test_a_log_of_another_format_than_planned_fails(published: Path, key: SigningKey) -> None:
    write_log(a_log(), published / "log.csv", "csv")
    (published / "log.xes").unlink()

    def rename(statement: dict[str, Any]) -> None:
        statement["subject"][0]["name"] = "log.csv"

    resign(published, key, rename)
    resign(published, key)

    assert "log.csv: is not in the format of the plan" in mismatches(published)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 10_000])
def test_a_signed_plan_that_is_none_fails(published: Path, key: SigningKey, content: bytes) -> None:
    (published / "plan.json").write_bytes(content)
    resign(published, key)
    told = "does not fit its schema" if content == b"{}" else "is not a plan as this version knows"
    assert told in mismatches(published)[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan + b"\n",
        lambda plan: json.dumps(json.loads(plan)).encode(),
        lambda plan: plan.replace(b"{", b'{"engine": "hidden",', 1),
        lambda plan: plan.replace(b"1.0,", b"1.00,", 1),
        lambda plan: plan.replace(b"cloakwork/v1", b"\\u0063loakwork/v1", 1),
    ],
)
def test_a_signed_plan_in_other_bytes_fails(
    published: Path, key: SigningKey, change: Callable[[bytes], bytes]
) -> None:
    """What Cloakwork would not write says something to other readers, or hides it from them."""
    written = (published / "plan.json").read_bytes()
    changed = change(written)
    assert changed != written
    (published / "plan.json").write_bytes(changed)
    resign(published, key)
    (told,) = mismatches(published)
    assert "not in the form in which plans are written" in told or "is not a plan" in told


@pytest.mark.parametrize("format_", ["xes", "xes.gz", "csv", "csv.gz", "parquet"])
@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\x1f\x8b", b"<log", b"\x1f\x8bnonsense", b"<html></html>"]
)
def test_a_signed_log_that_is_none_fails(
    publish_as: Callable[..., Published], key: SigningKey, format_: str, content: bytes
) -> None:
    done = publish_as(format_=format_)
    done.log.write_bytes(content)
    resign(done.folder, key)
    assert all(done.log.name in line for line in mismatches(done.folder))


@pytest.mark.parametrize(
    "fault",
    [PlanUnsound("no"), PlanMoved("unknown step"), ValueError("params"), IndexError("goal")],
)
def test_a_plan_that_cannot_be_proved_again_fails(
    published: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(_: object) -> None:
        raise fault

    monkeypatch.setattr(verifying, "prove", fail)

    word = " and are the signer's word" if isinstance(fault, PlanMoved) else ""
    said = f"plan.json: its claims cannot be derived again{word}: {fault}"
    assert mismatches(published) == (said,)


def swap_log(done: Published, log: EventLog, key: SigningKey) -> Path:
    """The release with another log in it, stamped and signed as if it were the right one."""
    write_log(
        log, done.log, "xes", annotations=stamp(a_plan(), done.statement), extensions=EXTENSIONS
    )
    resign(done.folder, key)
    return done.folder


def test_units_are_measured_by_cases(
    publish_as: Callable[..., Published], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit owns at least one case; the released log has no units to count."""
    policy = a_policy(
        guarantees=[{"kind": "k-anonymity", "k": 4, "over": ["control-flow"], "count": "units"}]
    )
    claim = a_plan().claims[0].model_copy(update={"guarantee": policy.spec.guarantees[0]})
    with monkeypatch.context() as unchecked:
        unchecked.setattr("cloakwork.publishing.publish.verify_written", lambda *_: None)
        folder = publish_as(plan=a_plan(claims=(claim,))).folder
    assert "the smallest group holds 3 released cases" in mismatches(folder)[0]


def test_units_that_the_files_show_are_measured_themselves() -> None:
    """Four cases of one variant are of two patients, and 4 are claimed: patients count, not cases.
    Where the attribute is not in the files, or is dropped, nobody can count them.
    """
    goal = {"kind": "k-anonymity", "k": 4, "over": ["control-flow"], "count": "units"}
    guarantee = a_policy(guarantees=[goal]).spec.guarantees[0]
    log = a_log([["a", "b"]] * 4)
    log = replace(
        log, cases=log.cases.with_columns(pl.Series("case:patient", ["p", "p", "q", "q"]))
    )
    held = {("case", "case:patient"): True}
    for treatment, shown, counted in (
        ("pseudonymise", held, False),
        ("pseudonymise", {}, True),
        ("drop", held, True),
    ):
        patient = TreatedAttribute(
            attribute="case:patient", column="unit", treatment=treatment, why="covered"
        )
        facts = Facts(unit=Unit(attribute="case:patient", max_cases=2))
        plan = a_plan(facts=facts, attributes=(patient,))
        (check,) = verifying.check_guarantee(log, guarantee, plan, shown)
        assert check.holds is counted, check.says


@pytest.mark.parametrize("name", ["statement.json", "plan.json", "log.xes"])
def test_a_flipped_byte_is_found(published: Path, name: str) -> None:
    """A hundred places, one bit each; only blanks around the envelope's JSON are not signed."""
    original = (published / name).read_bytes()
    rng = random.Random(name)
    for place in rng.sample(range(len(original)), min(runs(100), len(original))):
        flipped = bytearray(original)
        flipped[place] ^= 1 << rng.randrange(8)
        (published / name).write_bytes(flipped)
        try:
            verify(published)
        except VerificationFailed:
            continue
        assert name == "statement.json" and json.loads(flipped) == json.loads(original)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b"\x00" * 10, b"[" * 200_000, b'{"payload": 1e999}']
)
def test_a_statement_of_garbage_fails(published: Path, content: bytes) -> None:
    (published / "statement.json").write_bytes(content)
    assert len(mismatches(published)) == 1


def test_random_bytes_are_never_a_release(published: Path) -> None:
    rng = random.Random(7)
    for _ in range(200):
        (published / "statement.json").write_bytes(rng.randbytes(rng.randrange(200)))
        mismatches(published)


def test_the_internal_folder_is_not_looked_at(published: Path) -> None:
    (published / "internal" / "report.json").write_bytes(b"\x00")
    (published / "internal" / "more").write_text("whatever")
    assert verify(published).checks


def test_a_statement_that_is_a_folder_fails(published: Path) -> None:
    (published / "statement.json").unlink()
    (published / "statement.json").mkdir()
    assert "cannot be read" in mismatches(published)[0]


@pytest.mark.parametrize("engine", ["9.9.9", "0.1.0.dev3+cpu", "1\n ok: all holds", "1" * 99, ""])
def test_a_plan_of_another_version_says_which_version_to_verify_with(
    publish_as: Callable[..., Published], monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Both versions by name; what the release says and is no version is not shown."""
    folder = publish_as(plan=a_plan(engine=engine)).folder

    def fail(_: object) -> None:
        raise PlanUnsound("claims differ")

    monkeypatch.setattr(verifying, "prove", fail)

    said = "plan.json: its claims cannot be derived again: claims differ"
    both = (
        f"made by Cloakwork {engine}, this is {version_of('cloakwork')}: verify with that version"
    )
    more = f" ({both})" if "." in engine else ""
    assert mismatches(folder) == (said + more,)


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    """Names of attributes come from a file that somebody sent."""
    hostile = "no\nte: \x1b[31mall is well\u202e"
    log = a_log()
    found = EventLog(log.events.with_columns(pl.lit(1).alias(hostile)), log.cases, log.offsets)
    listed = ReleasedColumn(name=hostile + "2", scope="event", treatment="keep", rule="*")

    said = list(
        column_mismatches(
            attributes_of(found), a_plan(), (*released_columns(log, a_plan()), listed)
        )
    )

    assert len(said) == 2 and all(line.isprintable() and "no\\nte" in line for line in said)
    (line,) = VerificationFailed([f"it holds '{hostile}'"]).mismatches
    assert line == "it holds 'no\\nte: \\x1b[31mall is well\\u202e'"
