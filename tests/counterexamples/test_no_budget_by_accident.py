"""B10: nobody gets a fresh budget by accident."""

import json
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.base.costs import Charge, Cost
from cloakwork.errors import BudgetExceeded
from cloakwork.ledger.datasets import declare_dataset
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from conftest import Said
from counterexamples.small import small_log, small_policy

Cloakwork = Callable[..., Said]


def test_cd_gives_no_fresh_budget(
    cloakwork: Cloakwork, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a total of 1, a second release of epsilon 1 is refused from another working folder,
    too.
    """
    policy, log = small_policy(tmp_path, total=1.0), small_log(tmp_path)
    codes = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        codes.append(cloakwork("apply", policy, log, "--out", tmp_path / name / "out").code)
    assert codes == [0, 4]
    assert (own_home / "ledger.db").exists()


def test_making_a_ledger_is_said(cloakwork: Cloakwork, tmp_path: Path, own_home: Path) -> None:
    """On standard error, once."""
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    first = cloakwork("apply", policy, log, "--out", tmp_path / "one", "--quiet")
    again = cloakwork("apply", policy, log, "--out", tmp_path / "two", "--quiet")
    assert f"a new ledger was made: sqlite:///{own_home / 'ledger.db'}" in first.err
    assert (first.code, again.code, again.err) == (0, 0, "")


@pytest.mark.parametrize(
    "address",
    [
        "no/such/folder/ledger.db",
        "sqlite:/ledger.db",
        "sqlite:ledger.db",
        "sqlite://ledger.db",
        "sqlite:///ledger.db?mode=rwc",
        "postgres://somebody:secret@localhost/ledger",
        "mysql://somebody:secret@localhost/ledger",
        "C:\\Users\\me\\ledger.db",
        "C:/Users/me/ledger.db",
        "file:ledger.db",
    ],
)
@pytest.mark.parametrize("command", ["apply", "plan", "show"])
def test_a_mistyped_address_is_refused(
    cloakwork: Cloakwork,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    address: str,
) -> None:
    """One line, exit 1, no password, nothing made."""
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    arguments = {
        "apply": ("apply", policy, log, "--out", tmp_path / "out", "--quiet"),
        "plan": ("plan", policy, log, "--quiet"),
        "show": ("ledger", "show"),
    }
    said = cloakwork(*arguments[command], "--ledger", address)
    assert (said.code, len(said.err.splitlines()), said.out) == (1, 1, ""), said.err
    assert "secret" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_empty_file_is_no_fresh_ledger(cloakwork: Cloakwork, tmp_path: Path) -> None:
    """Nor is a database that lost its table."""
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    empty, without = tmp_path / "empty.db", tmp_path / "without.db"
    empty.touch()
    with sqlite3.connect(without) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("DROP TABLE t")
    for file in (empty, without):
        before = file.read_bytes()
        for command in (
            ("apply", policy, log, "--out", tmp_path / "out", "--quiet"),
            ("ledger", "show"),
        ):
            said = cloakwork(*command, "--ledger", file)
            assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
        assert file.read_bytes() == before


def test_a_killed_creation_leaves_no_empty_ledger(tmp_path: Path) -> None:
    """The file appears whole: what is being made lies in a folder of its own until then."""
    seen = list[list[str]]()
    link = os.link

    def watched(source: str, target: str) -> None:
        seen.append(
            sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
        )
        link(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", watched)
        Ledger(str(tmp_path / "ledger.db")).reserve(
            ReservationRequest(dataset="d", policy="p", charges=())
        )
    assert seen == [[]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db"]


@pytest.mark.parametrize(
    ("change", "code"),
    [("update {} set dataset = 'two'", 4), ("delete from {}", 0)],
    ids=["renamed", "removed"],
)
def test_fingerprints_that_were_changed_by_hand(
    cloakwork: Cloakwork, tmp_path: Path, change: str, code: int
) -> None:
    """Of which dataset they are, the chain says; where one is missing, the release is told so."""
    log, file = small_log(tmp_path, cases=300), tmp_path / "ledger.db"
    policies = [small_policy(tmp_path, name) for name in ("one", "two")]
    ledger = f"sqlite:///{file}"
    first = ("apply", policies[0], log, "--out", tmp_path / "a", "--ledger", ledger, "--quiet")
    assert cloakwork(*first).code == 0
    with sqlite3.connect(file) as database:
        database.execute(change.format("cloakwork_fingerprints"))
    said = cloakwork("apply", policies[1], log, "--out", tmp_path / "b", "--ledger", ledger)
    assert said.code == code
    assert code or "fingerprints of the ledger are missing" in (
        (tmp_path / "b" / "internal" / "report.json").read_text("utf-8") + said.err
    )


def test_the_same_cases_have_no_second_budget(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """Under another name they are refused, and nothing is charged or written, until their owner
    signs that they are other people.
    """
    log = small_log(tmp_path, cases=300)
    assert (
        cloakwork(
            "apply", small_policy(tmp_path, "one"), log, "--out", tmp_path / "a", "--ledger", ledger
        ).code
        == 0
    )
    again = (
        "apply",
        small_policy(tmp_path, "two"),
        log,
        "--out",
        tmp_path / "b",
        "--ledger",
        ledger,
    )
    said = cloakwork(*again)
    assert said.code == 4
    assert "100% of the case ids were seen under dataset 'one'" in said.err
    assert not (tmp_path / "b").exists()
    assert [record.dataset for record in Ledger(ledger).history()] == ["one"]
    line = re.search("cloakwork (dataset declare two --distinct-from one .*)", said.err)
    assert line is not None
    typed = line[1].replace("NAME", "Owner").replace("WHY", "another-site").split()
    declared = cloakwork(*typed, "--ledger", ledger)
    assert declared.code == 0
    assert "signed by key" in declared.out
    assert cloakwork(*again).code == 0
    others = small_log(tmp_path, "x", cases=300)
    said = cloakwork(
        "apply",
        small_policy(tmp_path, "three"),
        others,
        "--out",
        tmp_path / "c",
        "--ledger",
        ledger,
    )
    assert said.code == 0


def test_another_spelling_is_the_same_dataset(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """What was spent and declared under one counts under all."""
    book = Ledger(ledger)
    declare_dataset(book, "Appr", owner="O", totals={"unit": Cost(epsilon=1.0)})
    charges = (Charge(currency="unit", cost=Cost(epsilon=0.75)),)
    book.reserve(ReservationRequest(dataset="APPR", policy="p", charges=charges))
    with pytest.raises(BudgetExceeded, match=r"would fit is epsilon 0\.25;"):
        book.reserve(ReservationRequest(dataset="appr", policy="p", charges=charges))
    (summary,) = book.summary("aPPr")
    assert (summary.dataset, len(summary.records)) == ("Appr", 1)
    declare_dataset(book, "appr", require_approval=True)
    refused = cloakwork(
        "apply",
        small_policy(tmp_path, "aPpr"),
        small_log(tmp_path),
        "--out",
        tmp_path / "a",
        "--ledger",
        ledger,
    )
    assert (refused.code, "requires approval" in refused.err) == (3, True)


def test_a_fingerprint_is_keyed_and_guarded(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """Its key is the owner's alone, as is the ledger; no entry, whose digest statements carry,
    holds it; without a key nothing is released.
    """
    policy, log = small_policy(tmp_path, "one"), small_log(tmp_path)
    assert cloakwork("apply", policy, log, "--out", tmp_path / "a", "--ledger", ledger).code == 0
    key = tmp_path / "ledger.db.key"
    for file in (key, tmp_path / "ledger.db"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        ((sample,),) = connection.execute("SELECT sample FROM cloakwork_fingerprints").fetchall()
        bodies = [body for (body,) in connection.execute("SELECT body FROM cloakwork_ledger")]
    assert len(sample) == 60 * 16
    assert not any(sample[:16] in body for body in bodies)
    key.unlink()
    key.mkdir()
    said = cloakwork("apply", policy, log, "--out", tmp_path / "b", "--ledger", ledger)
    assert said.code == 1
    assert "the secret cannot be read" in said.err
    assert len(Ledger(ledger).history()) == 1


def test_the_plan_shows_before_this_release_and_after(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """For each book; and how many earlier releases no budget bounds."""
    policy, log = small_policy(tmp_path, total=4.0), small_log(tmp_path)
    kanon = tmp_path / "kanon.yaml"
    text = policy.read_text("utf-8").replace("name: small", "name: kanon")
    start = text.index("  guarantees")
    end = text.index("  output")
    kanon.write_text(
        text[:start]
        + "  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]\n"
        + text[end:],
        "utf-8",
    )
    assert cloakwork("apply", policy, log, "--out", tmp_path / "a", "--ledger", ledger).code == 0
    assert cloakwork("apply", kanon, log, "--out", tmp_path / "b", "--ledger", ledger).code == 0
    plain = " ".join(cloakwork("plan", policy, log, "--ledger", ledger).out.split())
    assert "epsilon 3 (delta 0.01) left, this release 1 (delta 1e-06), then 2" in plain
    assert "1 earlier release of this dataset holds what no DP guarantee covers" in plain
    found = json.loads(cloakwork("plan", policy, log, "--ledger", ledger, "--json").out)["ledger"]
    assert found["earlier_without_dp"] == 1
    (book,) = found["books"]
    assert [book[when]["epsilon"] for when in ("before", "this", "after")] == [3.0, 1.0, 2.0]


def test_a_copied_ledger_is_still_a_ledger(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """What is refused is what holds none, not what was restored from a copy."""
    policy, log = small_policy(tmp_path, total=1.0), small_log(tmp_path)
    assert cloakwork("apply", policy, log, "--out", tmp_path / "a", "--ledger", ledger).code == 0
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    assert (
        cloakwork(
            "apply", policy, log, "--out", tmp_path / "b", "--ledger", tmp_path / "copy.db"
        ).code
        == 4
    )
