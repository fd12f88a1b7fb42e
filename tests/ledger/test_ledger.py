"""The ledger never hands out more than the total: not to thirty processes at once, not to a killed
one, not by rounding.
"""

import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

import cloakwork
from cloakwork.base.costs import Charge, Cost
from cloakwork.errors import BudgetExceeded, CloakworkError, LedgerError
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.ledger import Ledger, ReservationRequest

ENGINE = Path(cloakwork.__file__).parents[1]


def unit(epsilon, delta=0.0):
    """One charge to the unit budget."""
    return [Charge(currency="unit", cost=Cost(epsilon=epsilon, delta=delta))]


def metric(epsilon, hours):
    """One charge to the metric budget."""
    return [Charge(currency="metric", cost=Cost(epsilon=epsilon), shift=timedelta(hours=hours))]


def total(epsilon, delta=0.0):
    """A declared total for the unit."""
    return {"unit": Cost(epsilon=epsilon, delta=delta)}


@pytest.fixture
def ledger(tmp_path):
    """A ledger that does not exist yet."""
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


def request(charges=(), dataset="claims", **more):
    """What a policy named ``p`` asks for."""
    return ReservationRequest(dataset=dataset, policy="p", charges=tuple(charges), **more)


def reserve(ledger, charges, totals=None, dataset="claims", **more):
    """Reserve as a policy named ``p`` would."""
    terms = BudgetTerms(totals=totals or {})
    said = {"terms": terms, "version": "1", "policy_digest": "ab", "note": "x", **more}
    asked = request(charges, dataset, **said)
    return ledger.reserve(asked)


def test_reading_makes_no_file(ledger, tmp_path):
    """A ledger that does not exist holds nothing, and looking does not make it."""
    assert ledger.history() == ()
    assert ledger.summary("claims") == ()
    assert ledger.verify() is None
    assert ledger.remaining("claims", total(1.0))["case"].left == Cost(epsilon=1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_release_from_reservation_to_statement(ledger):
    """Reserved, committed, its statement recorded: every step shows in the history."""
    reservation = reserve(ledger, unit(0.5, 1e-6), total(1.0, 1e-5))
    assert [record.state for record in ledger.history()] == ["reserved"]
    reservation.commit("cd")
    (record,) = ledger.history("claims")
    assert (record.id, record.state, record.statement_digest) == (reservation.id, "committed", "cd")
    assert (record.policy, record.version, record.policy_digest, record.note) == (
        "p",
        "1",
        "ab",
        "x",
    )
    assert record.charges == tuple(unit(0.5, 1e-6))
    assert record.committed_at >= record.created_at
    assert ledger.history("another") == ()


def test_tenths_fit_exactly(ledger):
    """Ten releases of .1 fit a total of 1; nothing fits after them."""
    for _ in range(10):
        reserve(ledger, unit(0.1), total(1.0)).commit()
    for tiny in (1e-300, 0.1):
        with pytest.raises(BudgetExceeded) as refused:
            reserve(ledger, unit(tiny), total(1.0))
        assert refused.value.remaining == (0.0, 0.0)
    assert ledger.remaining("claims")["case"].spent == Cost(epsilon=1.0)
    assert len(ledger.history()) == 10


def test_deltas_fit_exactly(ledger):
    """Ten releases of (1, 1e-6) fit a total of (10, 1e-5)."""
    for _ in range(10):
        reserve(ledger, unit(1.0, 1e-6), total(10.0, 1e-5))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, unit(0.0, 1e-12), total(10.0, 1e-5))


def test_a_refusal_writes_nothing(ledger):
    """And carries what was asked and what is left."""
    reserve(ledger, unit(0.7), total(1.0))
    with pytest.raises(BudgetExceeded) as refused:
        reserve(ledger, unit(0.4), total(1.0))
    assert refused.value.exit_code == 4
    assert refused.value.requested == (0.4, 0.0)
    assert refused.value.remaining == (0.3, 0.0)
    assert refused.value.reason is None
    assert len(ledger.history()) == 1


def test_a_later_policy_cannot_raise_the_total(ledger):
    """Earlier statements printed the smaller one; the refusal says so. Lowering it binds at
    once.
    """
    reserve(ledger, unit(0.7), total(1.0))
    for raised in (total(5.0), {}, None):
        with pytest.raises(BudgetExceeded, match="never raise it"):
            reserve(ledger, unit(0.4), raised)
    with pytest.raises(BudgetExceeded) as refused:
        reserve(ledger, unit(0.1), total(0.75))
    assert refused.value.reason is None
    reserve(ledger, unit(0.05), total(0.75))
    assert ledger.remaining("claims", total(9.0))["case"].total == Cost(epsilon=0.75)


def test_datasets_and_currencies_are_apart(ledger):
    """What one spends, another does not feel."""
    reserve(ledger, unit(1.0), total(1.0))
    reserve(ledger, unit(1.0), total(1.0), dataset="other")
    reserve(
        ledger, [Charge(currency="local", cost=Cost(epsilon=1.0))], {"local": Cost(epsilon=1.0)}
    )
    assert set(ledger.remaining("claims")) == {"case", "local"}
    assert [summary.dataset for summary in ledger.summary()] == ["claims", "other"]


def test_several_charges_are_one_decision(ledger):
    """A release that fits one budget and not the other is refused as a whole."""
    both = [*unit(0.1), *metric(2.0, 1)]
    with pytest.raises(BudgetExceeded) as refused:
        reserve(ledger, both, {"unit": Cost(epsilon=1.0), "metric": Cost(epsilon=1.0)})
    assert refused.value.currency == "metric"
    assert ledger.history() == ()
    with pytest.raises(BudgetExceeded):
        reserve(ledger, [*unit(0.6), *unit(0.6)], total(1.0))


def test_metric_costs_are_taken_over_the_requested_shift(ledger):
    """An hour's epsilon counts twice over ninety minutes, and once over half an hour."""
    budget = {"metric": Cost(epsilon=3.0)}
    reserve(ledger, metric(1.0, 1), budget)
    assert ledger.remaining("claims", shift=timedelta(hours=1))["metric"].spent == Cost(epsilon=1.0)
    assert ledger.remaining("claims", shift=timedelta(hours=1.5))["metric"].spent == Cost(
        epsilon=2.0
    )
    assert ledger.remaining("claims", shift=timedelta(minutes=30))["metric"].spent == Cost(
        epsilon=1.0
    )
    with pytest.raises(BudgetExceeded):
        reserve(ledger, metric(1.5, 1.5), budget)
    reserve(ledger, metric(1.0, 1.5), budget)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, metric(0.5, 0.5), budget)


@pytest.mark.parametrize(
    "charge",
    [
        {"currency": "metric", "cost": Cost(epsilon=1.0)},
        {"currency": "unit", "cost": Cost(epsilon=1.0), "shift": "1h"},
        {"currency": "metric", "cost": Cost(epsilon=1.0), "shift": "0s"},
        {"currency": "metric", "cost": Cost(epsilon=1.0, delta=0.1), "shift": "1h"},
    ],
)
def test_senseless_charges_are_refused(charge):
    """A shift belongs to metric privacy, and metric privacy is pure."""
    with pytest.raises(ValidationError):
        Charge.model_validate(charge)


def test_releases_without_dp_are_listed(ledger):
    """They are charged to no budget; the summary names them."""
    reserve(ledger, [Charge(currency="none")], total(1.0)).commit()
    reserve(ledger, unit(1.0), total(1.0)).commit()
    (summary,) = ledger.summary()
    assert [record.charges[0].cost.epsilon for record in summary.without_dp] == [math.inf]
    assert summary.balances[0].left == Cost(epsilon=0.0)


def test_an_unbounded_cost_fits_no_total(ledger):
    """Infinity is recorded where no total is declared, refused where one is, and blocks the budget
    afterwards.
    """
    with pytest.raises(BudgetExceeded):
        reserve(ledger, unit(math.inf), total(1.0))
    reserve(ledger, unit(math.inf))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, unit(0.1), total(1.0))
    assert ledger.remaining("claims")["case"].spent.epsilon == math.inf


def test_nothing_is_handed_back(ledger):
    """A failed release stays spent; a closed one cannot be closed again."""
    failed = reserve(ledger, unit(0.5), total(1.0))
    failed.fail("the disk was full")
    reserve(ledger, unit(0.5), total(1.0)).commit("cd")
    with pytest.raises(BudgetExceeded):
        reserve(ledger, unit(0.5), total(1.0))
    assert [record.state for record in ledger.history()] == ["failed", "committed"]
    with pytest.raises(LedgerError, match="already"):
        failed.commit()
    with pytest.raises(LedgerError, match="already"):
        failed.fail("a second time")


def test_a_reproducible_run_is_refused(ledger):
    """A fixed seed makes no private release."""
    with pytest.raises(LedgerError, match="not private"):
        ledger.reserve(request(unit(0.1), private=False))
    assert ledger.history() == ()


def test_unknown_releases_and_second_statements(ledger):
    """One statement a release, and only what was intended is completed."""
    reservation = reserve(ledger, unit(0.1))
    for release in ("unknown", reservation.id):
        with pytest.raises(LedgerError):
            ledger.complete(release, "cd")
    reservation.commit("cd")
    with pytest.raises(LedgerError):
        reservation.commit("ef")


def tampered(ledger, statement):
    """Run SQL on the file, as a person with an editor might."""
    with sqlite3.connect(ledger.url.removeprefix("sqlite:///")) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE cloakwork_ledger SET body = replace(body, '0.2', '0.1') WHERE seq = 2", 2),
        ("DELETE FROM cloakwork_ledger WHERE seq = 3", 3),
        ("UPDATE cloakwork_ledger SET dataset = 'other' WHERE seq = 1", 1),
        ("UPDATE cloakwork_ledger SET digest = previous WHERE seq = 4", 4),
        ("UPDATE cloakwork_ledger SET body = x'ff00' WHERE seq = 2", 2),
    ],
)
def test_tampering_is_found(ledger, statement, seq):
    """The first altered entry is named, and the ledger takes no more releases."""
    for _ in range(5):
        reserve(ledger, unit(0.2), total(10.0))
    assert ledger.verify() is None
    tampered(ledger, statement)
    assert ledger.verify().seq == seq
    with pytest.raises(LedgerError, match="changed by hand"):
        reserve(ledger, unit(0.2), total(10.0))


def test_a_witness_shows_that_the_end_was_cut_off(ledger):
    """The chain alone cannot; a digest that a statement carries can."""
    reservations = [reserve(ledger, unit(0.2)) for _ in range(3)]
    witnesses = [reservation.digest for reservation in reservations]
    assert ledger.verify(witnesses) is None
    tampered(ledger, "DELETE FROM cloakwork_ledger WHERE seq = 3")
    assert ledger.verify() is None
    assert "gone" in ledger.verify(witnesses).reason


@pytest.fixture
def broken(tmp_path):
    """Addresses that are no ledger."""
    (tmp_path / "junk").write_text("no database\n" * 500)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE customers (name)")
    with sqlite3.connect(tmp_path / "shape.db") as connection:
        connection.execute("CREATE TABLE cloakwork_ledger (name)")
    return [
        str(tmp_path),
        str(tmp_path / "junk"),
        str(tmp_path / "other.db"),
        str(tmp_path / "shape.db"),
        str(tmp_path / "no" / "folder" / "ledger.db"),
        "sqlite://",
        "no scheme://user:secret@host/db",
        "unknown://user:secret@host/db",
        "mysql://user:secret@host:port/db",
        "oracle://user:secret@host/db",
    ]


def test_whatever_is_wrong_is_one_line(broken):
    """No traceback, no password."""
    for address in broken:
        with pytest.raises(CloakworkError) as found:
            reserve(Ledger(address), unit(0.1))
        assert found.value.exit_code == 1
        assert "\n" not in str(found.value)
        assert "secret" not in str(found.value)


def test_an_unwritable_folder_is_one_line(tmp_path, ledger):
    """Reading still works where writing does not."""
    reserve(ledger, unit(0.1))
    file = tmp_path / "ledger.db"
    file.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        if os.access(file, os.W_OK):
            pytest.skip("this user may write anywhere")
        assert len(ledger.history()) == 1
        with pytest.raises(LedgerError):
            reserve(ledger, unit(0.1))
    finally:
        tmp_path.chmod(0o700)
        file.chmod(0o600)


def test_the_environment_names_the_ledger(tmp_path, monkeypatch, own_home):
    """A path does as well as a URL."""
    monkeypatch.setenv("CLOAKWORK_LEDGER", str(tmp_path / "env.db"))
    reserve(Ledger(), unit(0.1))
    assert (tmp_path / "env.db").exists()
    monkeypatch.delenv("CLOAKWORK_LEDGER")
    assert Ledger().url == f"sqlite:///{own_home / 'ledger.db'}"


RACERS = """
import os, sys, time
from cloakwork.base.costs import Charge
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.base.costs import Cost
from cloakwork.errors import BudgetExceeded
import sqlalchemy.dialects.postgresql.psycopg, sqlalchemy.dialects.sqlite

charge = Charge(currency="unit", cost=Cost(epsilon=0.1, delta=1e-6))
terms = BudgetTerms(totals={"unit": Cost(epsilon=1.0, delta=1e-5)})
request = ReservationRequest(dataset="claims", policy="p", charges=(charge,), terms=terms)
racers = int(sys.argv[2])
start = time.time() + 0.5

def race():
    time.sleep(max(0.0, start - time.time()))
    try:
        Ledger(sys.argv[1]).reserve(request).commit()
        return 10
    except BudgetExceeded:
        return 20
    except BaseException as error:
        print(repr(error), flush=True)
        return 30

children = []
for _ in range(racers):
    child = os.fork()
    if child == 0:
        os._exit(race())
    children.append(child)
print(*sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def started(script, *arguments):
    """A Python process that sees the engine."""
    environment = {**os.environ, "PYTHONPATH": str(ENGINE)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def test_thirty_processes_race_for_a_budget_of_ten(ledger):
    """On a file that none of them has made yet: exactly ten succeed, twenty are refused, none
    fails.
    """
    out, err = started(RACERS, ledger.url, 30).communicate(timeout=200)
    assert out.split() == ["10"] * 10 + ["20"] * 20, out + err
    assert ledger.verify() is None
    assert ledger.remaining("claims")["case"].left == Cost(epsilon=0.0)


ENDLESS = """
import os, sys
from cloakwork.base.costs import Charge
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.base.costs import Cost
import sqlalchemy.dialects.postgresql.psycopg, sqlalchemy.dialects.sqlite

charge = Charge(currency="unit", cost=Cost(epsilon=1.0))
request = ReservationRequest(dataset="claims", policy="p", charges=(charge,))
# A process for each line that is read; it says its number, and ends by force alone.
while sys.stdin.readline():
    if child := os.fork():
        os.waitpid(child, 0)
        print("ended", flush=True)
        continue
    print(os.getpid(), flush=True)
    ledger = Ledger(sys.argv[1])
    while True:
        reservation = ledger.reserve(request)
        print("reserved", flush=True)
        reservation.commit()
        print("committed", flush=True)
"""


def killed(process, reports, seconds):
    """What one more of the endless processes reports until it is killed, so many seconds after the
    first so many reports.
    """
    process.stdin.write("\n")
    process.stdin.flush()
    number = int(process.stdout.readline())
    said = [process.stdout.readline() for _ in range(reports)]
    time.sleep(seconds)
    os.kill(number, signal.SIGKILL)
    said += iter(process.stdout.readline, "ended\n")
    return [line.strip() for line in said]


def test_a_killed_process_never_leaves_less_spent_than_it_said(ledger):
    """SIGKILL at random moments: every reservation that was reported stands, and the chain is
    whole.
    """
    reported = []
    process = started(ENDLESS, ledger.url)
    for moment in range(6):
        reported += killed(process, 1, random.Random(moment).uniform(0.0, 0.08))
        assert ledger.verify() is None
        records = ledger.history()
        assert len(records) >= reported.count("reserved") > moment
        committed = sum(record.state == "committed" for record in records)
        assert committed >= reported.count("committed")
        assert ledger.remaining("claims")["case"].spent.epsilon == len(records)
    process.communicate(timeout=60)
