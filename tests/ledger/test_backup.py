"""Backups of a ledger: of one moment, sound, and never a way to get spent budget back."""

import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.errors import BudgetExceeded, LedgerError, OutputError
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.backup import back_up, restore
from cloakwork.ledger.case_hashes import fingerprint
from cloakwork.ledger.ledger import Ledger
from conftest import Said
from ledger.recording import record_window
from ledger.test_ledger import request, reserve, total, unit


@pytest.fixture(params=["file", "server"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """A ledger with releases, a fingerprint and a window."""
    address = str(tmp_path / "ledger.db")
    if request.param == "server":
        address = request.getfixturevalue("database")
    return filled(Ledger(address, notice=lambda _: None))


def filled(ledger: Ledger) -> Ledger:
    """Two releases of ten, and one of a window."""
    reserve(ledger, unit(0.1), total(1.0)).commit()
    reserve(ledger, unit(0.1), total(1.0))
    terms = BudgetTerms(window="2026-10", every="1 month")
    sample = fingerprint(["a", "b"], ledger.case_id_key())
    made = ledger.reserve(request(dataset="grown", terms=terms, sample=sample))
    record_window(made, ["a", "b"])
    made.commit("ab")
    return ledger


def test_there_and_back(book: Ledger, tmp_path: Path) -> None:
    """A backup is a ledger; restored, it says what the first one says, and refuses what it
    refuses.
    """
    made = back_up(book, tmp_path / "copy.db")
    assert (made.entries, made.latest) == (5, book.journal.read()[-1].at)
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    copy = Ledger(str(tmp_path / "copy.db"))
    assert copy.verify() is None
    back = Ledger(str(tmp_path / "back.db"), notice=lambda _: None)
    assert restore(tmp_path / "copy.db", back).added == 5
    for other in (copy, back):
        assert other.history() == book.history()
        assert other.fingerprints() == book.fingerprints()
    with pytest.raises(BudgetExceeded):
        reserve(back, unit(0.9), total(1.0))
    back.key_file.write_bytes(book.key_file.read_bytes())
    back.key_file.chmod(0o600)
    assert (back.check_windows().checked, back.check_windows().faults) == (1, ())
    assert restore(tmp_path / "copy.db", back).added == 0


def test_what_the_ledger_lacks_is_added(book: Ledger, tmp_path: Path) -> None:
    """Where it has nothing that the backup lacks."""
    back_up(book, tmp_path / "early.db")
    other = Ledger(str(tmp_path / "other.db"), notice=lambda _: None)
    restore(tmp_path / "early.db", other)
    reserve(book, unit(0.1), total(1.0))
    back_up(book, tmp_path / "late.db")
    assert restore(tmp_path / "late.db", other).added == 1
    assert other.history() == book.history()


def test_spent_budget_is_not_handed_back(book: Ledger, tmp_path: Path) -> None:
    """An entry that the backup lacks stops it, and nothing changes."""
    back_up(book, tmp_path / "copy.db")
    reserve(book, unit(0.1), total(1.0))
    before = book.journal.read()
    with pytest.raises(LedgerError, match="the backup lacks, from entry 6 of 6 on"):
        restore(tmp_path / "copy.db", book)
    another = filled(Ledger(str(tmp_path / "another.db"), notice=lambda _: None))
    back_up(another, tmp_path / "another-copy.db")
    with pytest.raises(LedgerError, match="from entry 1 of 6 on"):
        restore(tmp_path / "another-copy.db", book)
    assert book.journal.read() == before


def test_what_is_no_backup(tmp_path: Path) -> None:
    """One line, and no ledger is begun."""
    altered = filled(Ledger(str(tmp_path / "altered.db"), notice=lambda _: None))
    back_up(altered, tmp_path / "copy.db")
    for file in ("altered.db", "copy.db"):
        with sqlite3.connect(tmp_path / file) as connection:
            connection.execute("UPDATE cloakwork_ledger SET at = 'x' WHERE seq = 2")
    with pytest.raises(LedgerError, match="entry 2: was altered"):
        back_up(altered, tmp_path / "again.db")
    (tmp_path / "junk.db").write_text("no database\n" * 500)
    for file in ("copy.db", "junk.db", "none.db"):
        with pytest.raises(LedgerError):
            restore(tmp_path / file, str(tmp_path / "new.db"))
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(OutputError, match="exists already"):
        back_up(altered, tmp_path / "copy.db")
    with pytest.raises(LedgerError, match="does not exist"):
        back_up(str(tmp_path / "none.db"), tmp_path / "again.db")
    assert not (tmp_path / "again.db").exists()


def test_while_others_write(book: Ledger, tmp_path: Path) -> None:
    """Each backup is sound, and begins with all that was there before it."""
    stop = threading.Event()

    def write() -> None:
        other = Ledger(book.journal.address)
        while not stop.is_set():
            reserve(other, unit(0.001), dataset="busy").commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            before = book.journal.read()
            back_up(book, tmp_path / f"copy{number}.db")
            copy = Ledger(str(tmp_path / f"copy{number}.db"))
            assert copy.verify() is None
            assert copy.journal.read()[: len(before)] == before
    finally:
        stop.set()
        writer.join()


def test_as_a_user_types_it(cloakwork: Callable[..., Said], ledger: str, tmp_path: Path) -> None:
    """What is in it, what is not, and what to look for after a restore."""
    filled(Ledger(ledger, notice=lambda _: None))
    said = cloakwork("ledger", "backup", "--out", tmp_path / "copy.db", "--ledger", ledger)
    assert said.code == 0, said.err
    assert "5 entries written" in said.out
    assert "Not in it: the key of case ids" in said.out
    back = tmp_path / "back.db"
    said = cloakwork("ledger", "restore", tmp_path / "copy.db", "--ledger", back)
    assert said.code == 0, said.err
    assert "'cloakwork ledger reconcile DIR' tells" in said.out
    assert f"copy it to {back}.key" in said.out
    verified = cloakwork("ledger", "verify", "--ledger", back)
    assert verified.code == 0
    assert "Not checked: 1 record of which cases windows held; their key" in verified.out
    cloakwork("dataset", "declare", "claims", "--owner", "o", "--ledger", ledger)
    refused = cloakwork("ledger", "restore", tmp_path / "copy.db", "--ledger", ledger, "--json")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
