"""Who may only read a ledger: every command that reads works, every one that writes is refused in
one line, and nothing changes.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from cloakwork.errors import LedgerError
from cloakwork.ledger.ledger import Ledger
from conftest import ROOT, Said
from counterexamples.small import small_log, small_policy
from ledger.test_backup import filled
from ledger.test_ledger import reserve, unit

READING = [
    ("ledger", "show"),
    ("ledger", "history"),
    ("ledger", "verify"),
    ("dataset", "list"),
    ("dataset", "show", "claims"),
]


def grants() -> list[str]:
    """The statements that the page of the ledger names for an auditor."""
    page = (ROOT / "docs" / "ledger.md").read_text("utf-8")
    block = page.partition("```text\n-- auditor\n")[2].partition("```")[0]
    return [statement for statement in block.split(";") if statement.strip()]


def run_as_owner(database: str, *statements: str) -> None:
    """Run SQL on a server."""
    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def auditor(database: str) -> str:
    """The address of a ledger on a server, for the role that the page makes."""
    filled(Ledger(database, notice=lambda _: None))
    run_as_owner(database, "DROP ROLE IF EXISTS auditor")
    run_as_owner(database, *grants())
    return database.replace("user=tester", "user=auditor")


@pytest.fixture
def read_only(tmp_path: Path) -> str:
    """The address of a file that is opened for reading only."""
    filled(Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None))
    return f"sqlite:///{tmp_path / 'ledger.db'}?mode=ro"


@pytest.mark.parametrize("kind", ["auditor", "read_only"])
def test_reading_and_no_writing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, cloakwork: Callable[..., Said]
) -> None:
    """On a server the fingerprints and windows stay hidden, and that is said."""
    ledger = request.getfixturevalue(kind)
    before = Ledger(ledger).journal.read()
    for words in READING:
        said = cloakwork(*words, "--ledger", ledger)
        assert (said.code, said.err) == (0, ""), words
    hidden = "not readable with these rights" in said.out
    assert hidden == (kind == "auditor")
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    assert cloakwork("plan", policy, log, "--ledger", ledger, "--quiet").code == 0
    for words in (
        ("dataset", "declare", "claims", "--owner", "o"),
        ("apply", policy, log, "--out", tmp_path / "out", "--quiet"),
    ):
        said = cloakwork(*words, "--ledger", ledger)
        assert (said.code, said.err.count("\n")) == (1, 1), said.err
        assert said.err.startswith("ledger ")
    assert not (tmp_path / "out").exists()
    assert Ledger(ledger).journal.read() == before


def test_a_connection_that_is_lost(database: str) -> None:
    """In the middle of a transaction: one line, nothing of it stands, and the next one works."""
    ledger = Ledger(database, notice=lambda _: None)
    reserve(ledger, unit(0.1))
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "

    def cut(_: object) -> None:
        run_as_owner(database, end + "AND datname = current_database()")

    with pytest.raises(LedgerError) as lost:
        ledger.record_event("compared", "claims", {}, require=cut)
    assert "\n" not in str(lost.value)
    assert "the connection was lost" in str(lost.value)
    assert len(ledger.journal.read()) == 1
    reserve(ledger, unit(0.1))
    assert ledger.verify() is None
