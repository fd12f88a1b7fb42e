"""A ledger of an earlier version is brought up to date when it is written to; one of a later
version is refused.
"""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

import cloakwork.accounting
from cloakwork.errors import LedgerError
from cloakwork.ledger import _layout
from cloakwork.ledger._tables import VERSIONS
from cloakwork.ledger.ledger import Ledger
from conftest import ROOT, Said
from ledger.test_ledger import reserve, unit

FIRST = ROOT / "tests" / "releases" / "0.1.0" / "ledger.db"
"""Made by version 0.1.0."""


def shape(url: str) -> dict[str, object]:
    """Tables, columns and indices of a database."""
    engine = create_engine(url)
    looked = inspect(engine)
    found: dict[str, object] = {
        table: (
            [
                (column["name"], str(column["type"]), column["nullable"])
                for column in looked.get_columns(table)
            ],
            [index["name"] for index in looked.get_indexes(table)],
            looked.get_pk_constraint(table)["constrained_columns"],
        )
        for table in sorted(looked.get_table_names())
    }
    engine.dispose()
    return found


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A copy of a ledger of version 0.1.0."""
    return Path(shutil.copy(FIRST, tmp_path / "first.db"))


def test_the_scripts_are_the_layouts() -> None:
    """In order, without a branch."""
    config = Config()
    folder = Path(cloakwork.accounting.__file__).with_name("migrations")
    config.set_main_option("script_location", str(folder))
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(reversed([script.revision for script in scripts])) == _layout.LAYOUTS


def test_a_ledger_of_the_first_version(first: Path, tmp_path: Path) -> None:
    """Reading leaves it as it is; writing brings it to the layout of a new one, and says so; every
    entry stays.
    """
    said = list[str]()
    before, content = Ledger(str(first)).history(), first.read_bytes()
    assert Ledger(str(first)).check_windows().faults == ()
    assert first.read_bytes() == content
    ledger = Ledger(str(first), notice=said.append)
    reserve(ledger, unit(0.1), dataset="another")
    assert [line.partition(":")[0] for line in said] == ["the ledger was brought up to date"]
    assert ledger.history()[:-1] == before
    assert ledger.verify() is None
    reserve(Ledger(str(tmp_path / "new.db"), notice=said.append), unit(0.1))
    assert shape(f"sqlite:///{first}") == shape(f"sqlite:///{tmp_path / 'new.db'}")
    reserve(ledger, unit(0.1), dataset="another")
    assert len(said) == 2


def test_what_fails_on_the_way_leaves_all_as_it_was(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables and the entry are one transaction."""
    before = shape(f"sqlite:///{first}")

    def refuse(_: object) -> None:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        Ledger(str(first), notice=refuse).record_event("compared", "claims", {})
    assert shape(f"sqlite:///{first}") == before
    assert Ledger(str(first)).verify() is None


@pytest.mark.parametrize("words", [("show",), ("verify",), ("history",)])
def test_a_later_version(
    ledger: str, cloakwork: Callable[..., Said], words: tuple[str, ...]
) -> None:
    """Is neither read nor written: one line."""
    reserve(Ledger(ledger), unit(0.1))
    with sqlite3.connect(ledger.removeprefix("sqlite:///")) as connection:
        connection.execute(f"UPDATE {VERSIONS} SET version_num = '0917'")
    said = cloakwork("ledger", *words, "--ledger", ledger)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "later version of Cloakwork (layout 0917" in said.err
    with pytest.raises(LedgerError, match="later version"):
        reserve(Ledger(ledger), unit(0.1))


def test_on_a_server(database: str, tmp_path: Path) -> None:
    """The tables that versions up to now made there, without a number: the same."""
    url = database.replace("postgresql:", "postgresql+psycopg:")
    reserve(Ledger(database, notice=lambda _: None), unit(0.1))
    new = shape(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in (
            f"DROP TABLE {VERSIONS}",
            "ALTER TABLE cloakwork_windows DROP COLUMN digest",
            "DROP TABLE cloakwork_fingerprints",
        ):
            connection.execute(text(statement))
    engine.dispose()
    said = list[str]()
    reserve(Ledger(database, notice=said.append), unit(0.1))
    assert len(said) == 1
    assert shape(url) == new
    assert len(Ledger(database).history()) == 2
