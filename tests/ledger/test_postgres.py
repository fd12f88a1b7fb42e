"""A ledger on a Postgres server: made once, one writer at a time, held for as long as a process
lives.
"""

import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from cloakwork.base.costs import Cost
from cloakwork.cli import main
from cloakwork.errors import BudgetExceeded, LedgerError
from cloakwork.ledger import journal
from cloakwork.ledger.ledger import Ledger
from conftest import runs
from counterexamples.small import small_log, small_policy
from ledger.test_ledger import ENDLESS, RACERS, killed, reserve, started, total, unit


def test_a_ledger_is_made_once_and_said(database: str) -> None:
    """Reading makes none; the first entry does, and says so."""
    said = list[str]()
    assert Ledger(database).history() == ()
    ledger = Ledger(database, notice=said.append)
    reserve(ledger, unit(0.5), total(1.0)).commit()
    reserve(ledger, unit(0.5), total(1.0))
    assert [line.partition(":")[0] for line in said] == ["a new ledger was made"]
    assert [record.state for record in Ledger(database).history()] == ["committed", "reserved"]
    assert Ledger(database).verify() is None
    with pytest.raises(BudgetExceeded):
        reserve(ledger, unit(0.1), total(1.0))


def test_apply_charges_a_ledger_on_a_server(database: str, tmp_path: Path) -> None:
    """Two releases fit into the budget, and a third is refused before anything is written."""
    policy, log = small_policy(tmp_path, total=2.0), small_log(tmp_path)
    codes = [
        main(
            ["apply", *map(str, (policy, log)), "--out", str(out), "--ledger", database, "--quiet"]
        )
        for out in (tmp_path / "first", tmp_path / "second", tmp_path / "third")
    ]
    assert codes == [0, 0, 4]
    assert not (tmp_path / "third").exists()
    assert [record.state for record in Ledger(database).history()] == ["committed"] * 2


def test_a_database_of_something_else_is_refused(database: str) -> None:
    """A mistyped name never begins a fresh budget."""
    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (id int)"))
    engine.dispose()
    with pytest.raises(LedgerError, match="is a database, but not a ledger of Cloakwork"):
        reserve(Ledger(database), unit(0.5), total(1.0))
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger(database.replace("/test_", "/tost_")).history()


def test_many_processes_race_for_a_budget_of_ten(database: str) -> None:
    """On an empty database: exactly ten succeed, the others are refused, none fails. Without the
    lock of the journal twelve of fourteen fail.
    """
    racers = min(30, runs(14))
    out, err = started(RACERS, database, racers).communicate(timeout=200)
    assert out.split() == ["10"] * 10 + ["20"] * (racers - 10), out + err
    assert Ledger(database).verify() is None
    assert Ledger(database).remaining("claims")["case"].left == Cost(epsilon=0.0)


def test_a_killed_process_leaves_what_it_reserved(database: str) -> None:
    """SIGKILL while it writes: what was reported stands, and the chain is whole."""
    process = started(ENDLESS, database)
    reported = killed(process, 5, 0.0)
    process.communicate(timeout=60)
    ledger = Ledger(database)
    assert ledger.verify() is None
    assert len(ledger.history()) >= reported.count("reserved") >= 3


HOLDER = """
import sys
from pathlib import Path
from cloakwork.base.costs import Charge
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.base.costs import Cost
from cloakwork.cli import main
charge = Charge(currency="unit", cost=Cost(epsilon=1.0))
request = ReservationRequest(
    dataset="claims", policy="p", charges=(charge,), folder=Path("out")
)
made = Ledger(sys.argv[1]).reserve(request)
print(made.id, flush=True)
sys.stdin.read()
"""


def test_a_release_is_held_until_its_process_ends(database: str) -> None:
    """By whatever signal: then, and only then, may its entry be closed."""
    process = started(HOLDER, database)
    assert process.stdout is not None
    release = process.stdout.readline().strip()
    journal = Ledger(database).journal
    assert journal.try_lock_release(release) is None
    process.kill()
    process.communicate(timeout=60)
    hold, patience = None, time.monotonic() + 60
    while hold is None and time.monotonic() < patience:  # the server notices the end in its time
        hold = journal.try_lock_release(release)
    assert hold is not None
    hold.release()


def test_waiting_for_other_writers_ends(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; nothing is written."""
    ledger = Ledger(database, notice=lambda _: None)
    reserve(ledger, unit(0.1))
    monkeypatch.setattr(journal, "PATIENCE", 1)
    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        key = {"key": journal._POSTGRES_LOCK}
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), key)
        with pytest.raises(LedgerError, match="try again") as refused:
            reserve(Ledger(database), unit(0.1))
    engine.dispose()
    assert "\n" not in str(refused.value)
    assert len(ledger.history()) == 1


def test_a_writer_that_falls_silent(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is ended by the server, nothing of it stands, and others get their turn."""
    ledger = Ledger(database, notice=lambda _: None)
    reserve(ledger, unit(0.1))

    def be_silent(_: object) -> None:
        monkeypatch.setattr(journal, "PATIENCE", 60)
        reserve(Ledger(database), unit(0.2))

    monkeypatch.setattr(journal, "PATIENCE", 1)
    with pytest.raises(LedgerError, match="idle-in-transaction") as ended:
        ledger.record_event("compared", "claims", {}, require=be_silent)
    assert "\n" not in str(ended.value)
    assert [entry.kind for entry in ledger.journal.read()] == ["reserve", "reserve"]
    assert ledger.verify() is None
