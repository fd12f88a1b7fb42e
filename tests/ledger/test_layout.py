"""A ledger of another layout than this version's is neither read nor written."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cloakwork.errors import LedgerError
from cloakwork.ledger.backup import restore
from cloakwork.ledger.ledger import Ledger
from conftest import Said
from ledger.test_ledger import reserve, unit

VERSIONS = "cloakwork_ledger_version"

OTHERS = [
    pytest.param(f"UPDATE {VERSIONS} SET version_num = '0917'", "layout 0917", id="later"),
    pytest.param(f"UPDATE {VERSIONS} SET version_num = '0001'", "layout 0001", id="earlier"),
    pytest.param(f"DELETE FROM {VERSIONS}", "layout none", id="no number"),
    pytest.param(f"DROP TABLE {VERSIONS}", "layout none", id="no table of numbers"),
]


def changed(url: str, statement: str) -> Path:
    """A ledger with one release, changed by ``statement``."""
    reserve(Ledger(url), unit(0.1))
    file = Path(url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    return file


@pytest.mark.parametrize(("statement", "says"), OTHERS)
@pytest.mark.parametrize("words", [("show",), ("verify",), ("history",)])
def test_it_is_refused_in_one_line(
    ledger: str, cloakwork: Callable[..., Said], statement: str, says: str, words: tuple[str, ...]
) -> None:
    changed(ledger, statement)
    said = cloakwork("ledger", *words, "--ledger", ledger)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert says in said.err and "use the version that made it" in said.err


@pytest.mark.parametrize(("statement", "says"), OTHERS)
def test_it_stays_as_it_is(ledger: str, tmp_path: Path, statement: str, says: str) -> None:
    """Nothing is spent in it, nothing restored from it or into it."""
    file = changed(ledger, statement)
    content = file.read_bytes()
    sound = f"sqlite:///{tmp_path / 'sound.db'}"
    reserve(Ledger(sound), unit(0.1))
    with pytest.raises(LedgerError, match=says):
        reserve(Ledger(ledger), unit(0.1))
    with pytest.raises(LedgerError, match=says):
        restore(file, sound)
    with pytest.raises(LedgerError, match=says):
        restore(tmp_path / "sound.db", ledger)
    assert file.read_bytes() == content
