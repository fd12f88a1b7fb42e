"""Which cases were released with which window: what was changed or removed by hand is noticed."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.errors import LedgerError
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.ledger import Ledger
from conftest import Said
from ledger.recording import record_window
from ledger.test_ledger import request


def release_window(file: Path, window: str, ids: list[str]) -> frozenset[str]:
    """Release the cases with a window; those that another one has."""
    terms = BudgetTerms(window=window, every="1 month")
    made = Ledger(str(file), notice=lambda _: None).reserve(request(dataset="grown", terms=terms))
    elsewhere = record_window(made, ids)
    made.commit("ab")
    return elsewhere


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A ledger with two windows."""
    file = tmp_path / "ledger.db"
    release_window(file, "2026-10", ["a", "b"])
    release_window(file, "2026-11", ["b", "c"])
    return file


def by_hand(file: Path, statement: str) -> None:
    """Run SQL on the file, as a person with an editor might."""
    with sqlite3.connect(file) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE cloakwork_windows SET hashes = zeroblob(16) WHERE rowid = 1", "changed by hand"),
        ("UPDATE cloakwork_windows SET hashes = x'' WHERE rowid = 1", "changed by hand"),
        ("UPDATE cloakwork_windows SET \"window\" = '2026-12' WHERE rowid = 1", "changed by hand"),
        ("UPDATE cloakwork_windows SET digest = 'x' WHERE rowid = 1", "changed by hand"),
        ("DELETE FROM cloakwork_windows WHERE rowid = 1", "no longer recorded"),
    ],
)
def test_what_was_changed(
    grown: Path, cloakwork: Callable[..., Said], statement: str, fault: str
) -> None:
    """``ledger verify`` names the release, exit 5; no further window is released."""
    whole = cloakwork("ledger", "verify", "--ledger", grown)
    assert (whole.code, "is whole: 2 records." in whole.out) == (0, True)
    by_hand(grown, statement)
    said = cloakwork("ledger", "verify", "--ledger", grown, "--json")
    assert (said.code, said.err.count("\n")) == (5, 1)
    assert fault in said.err
    document = json.loads(said.out)
    assert (document["whole"], document["windows"]["faults"] != []) == (False, True)
    with pytest.raises(LedgerError, match="from a backup"):
        release_window(grown, "2026-12", ["d"])


def test_a_record_without_its_digest_was_changed(grown: Path) -> None:
    """Else whoever changes a row by hand would take its digest away, too."""
    by_hand(grown, "UPDATE cloakwork_windows SET digest = NULL")
    found = Ledger(str(grown)).check_windows()
    assert (found.checked, len(found.faults)) == (2, 2)
    with pytest.raises(LedgerError, match="changed by hand"):
        release_window(grown, "2026-12", ["a", "d"])


def test_without_the_key_nothing_is_claimed(grown: Path) -> None:
    """Nor made."""
    key = Ledger(str(grown)).key_file
    key.rename(key.with_name("elsewhere"))
    found = Ledger(str(grown)).check_windows()
    assert (found.checked, found.unchecked, found.reason) == (0, 2, "their key is not here")
    assert not key.exists()
