"""Two and three clients of one ledger, statement by statement, in every order: the total holds at
every prefix of the journal, and no entry is lost or doubled.

Each client is a thread that stops before every statement of SQL, and one of them goes on at a time:
which one, is tried in all ways. Who waits for the lock of writers cannot go on, so the orders are
those of whole transactions. A ledger that decides in one and appends in the next is shown to fail.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine

from cloakwork.errors import CloakworkError
from cloakwork.ledger.datasets import declare_dataset
from cloakwork.ledger.journal import Entry, Journal, WriteTransaction, read_entries
from cloakwork.ledger.ledger import Ledger, Reservation
from conftest import in_long_form
from ledger.test_ledger import reserve, total, unit

TOTAL = 1.0
LOCKS = ("BEGIN IMMEDIATE", "pg_advisory_xact_lock")
PATIENCE = 60

Client = Callable[["Visit"], None]
"""What one client does with a ledger, one after the other."""


@dataclass
class Visit:
    """A client's ledger, and what was granted to it."""

    ledger: Ledger
    granted: list[Reservation] = field(default_factory=list)

    def reserve(self, epsilon: float) -> None:
        """Ask for so much of the total; a refusal is an answer."""
        with suppress(CloakworkError):
            self.granted.append(reserve(self.ledger, unit(epsilon), total(TOTAL)))

    def declare(self, epsilon: float) -> None:
        """Declare a smaller total, unless more is spent already."""
        with suppress(CloakworkError):
            declare_dataset(self.ledger, "claims", owner="o", totals=total(epsilon))

    def commit(self) -> None:
        """What was granted last is released."""
        if self.granted:
            self.granted[-1].commit()

    def fail(self) -> None:
        """What was granted last comes to nothing; its cost stays."""
        if self.granted:
            self.granted[-1].fail("a fault")


@dataclass
class Turns:
    """Lets one of several threads go on at a time; ``choices`` says who, then who went last.

    ``taken``: who could go on at each step, and who did.
    """

    choices: list[int]
    taken: list[tuple[list[int], int]] = field(default_factory=list)
    _waiting: dict[int, str] = field(default_factory=dict)
    _running: set[int] = field(default_factory=set)
    _holder: int | None = None
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _chosen: int | None = None

    def run(self, works: list[Callable[[], None]]) -> None:
        """Run them all to their ends."""
        numbers = range(len(works))
        threads = [threading.Thread(target=self._run, args=(n, works[n])) for n in numbers]
        self._running = {*numbers}
        for thread in threads:
            thread.start()
        with self._turn:
            while self._running:
                everybody = lambda: len(self._waiting) == len(self._running)  # noqa: E731
                assert self._turn.wait_for(everybody, PATIENCE), self._waiting
                if self._waiting:
                    self._go_on()
        for thread in threads:
            thread.join()

    def _go_on(self) -> None:
        able = [n for n in sorted(self._waiting) if self._is_free(n)]
        assert able, f"nobody can go on: {self._waiting}"
        step = len(self.taken)
        last = self.taken[-1][1] if self.taken else -1
        going_on = last if last in able else able[0]
        chosen = self.choices[step] if step < len(self.choices) else going_on
        self.taken.append((able, chosen))
        statement = self._waiting.pop(chosen)
        if any(lock in statement for lock in LOCKS):
            self._holder = chosen
        elif statement == "end" and self._holder == chosen:
            self._holder = None
        self._chosen = chosen
        self._turn.notify_all()

    def _is_free(self, number: int) -> bool:
        waits = any(lock in self._waiting[number] for lock in LOCKS)
        return not waits or self._holder in (None, number)

    def stop(self, statement: str) -> None:
        """Wait for this thread's turn; ``end``: its transaction ends with it."""
        number = _number.get(threading.get_ident())
        # What a client sets for its own session moves nothing that another one sees.
        if number is None or statement.startswith("SET LOCAL"):
            return
        with self._turn:
            self._waiting[number] = statement
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: self._chosen == number, PATIENCE)
            self._chosen = None

    def _run(self, number: int, work: Callable[[], None]) -> None:
        _number[threading.get_ident()] = number
        try:
            work()
        finally:
            del _number[threading.get_ident()]
            with self._turn:
                self._running.discard(number)
                self._holder = None if self._holder == number else self._holder
                self._turn.notify_all()


_number: dict[int, int] = {}
"""Which client a thread is."""


@contextmanager
def stopping_at(turns: Turns) -> Iterator[None]:
    """Each statement, commit and rollback of a client is a stop."""

    def executes(_: object, __: object, statement: str, *___: object) -> None:
        turns.stop(statement)

    def ends(_: object) -> None:
        turns.stop("end")

    heard = [("before_cursor_execute", executes), ("commit", ends), ("rollback", ends)]
    for name, listener in heard:
        event.listen(Engine, name, listener)
    try:
        yield
    finally:
        for name, listener in heard:
            event.remove(Engine, name, listener)


def in_every_order(
    fresh: Callable[[], Ledger], clients: tuple[Client, ...]
) -> Iterator[tuple[list[int], list[Visit], tuple[Entry, ...]]]:
    """Each order: who went when, what the clients were granted, and the journal afterwards. Those
    in which the fewest are interrupted come first.
    """
    pending: list[tuple[int, list[int]]] = [(0, [])]
    while pending:
        interrupted, choices = heappop(pending)
        turns, book = Turns(choices), fresh()
        # Each client opens the ledger for itself, as a process of its own would.
        visits = [Visit(Ledger(book.journal.address)) for _ in clients]
        with stopping_at(turns):
            turns.run([lambda c=c, v=v: c(v) for c, v in zip(clients, visits, strict=True)])  # type: ignore[misc]
        order = [chosen for _, chosen in turns.taken]
        yield order, visits, book.journal.read()
        # All other choices behind those that were given.
        for step in range(len(turns.choices), len(turns.taken)):
            able, chosen = turns.taken[step]
            for other in able:
                if other != chosen:
                    heappush(pending, (interrupted + 1, [*order[:step], other]))


def check(visits: list[Visit], entries: tuple[Entry, ...]) -> None:
    """The total holds at every prefix; each grant is one entry."""
    charged = [
        sum(float(charge["epsilon"]) for charge in entry.fields()["charges"])
        if entry.kind == "reserve"
        else 0.0
        for entry in entries
    ]
    allowed = TOTAL
    for entry, spent in zip(entries, accumulate(charged), strict=True):
        if entry.kind == "dataset-declared":
            allowed = min(allowed, float(entry.fields()["totals"]["unit"]["epsilon"]))
        assert spent <= allowed + 1e-9 or entry.kind != "reserve", "the total does not hold"
    granted = sorted(each.id for visit in visits for each in visit.granted)
    assert granted == sorted(e.release for e in entries if e.kind == "reserve"), "lost or doubled"
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]


def two(visit: Visit) -> None:
    """A release that stands."""
    visit.reserve(0.6)
    visit.commit()


def failing(visit: Visit) -> None:
    """A release that does not."""
    visit.reserve(0.6)
    visit.fail()


def third(visit: Visit) -> None:
    """One of three, of which two fit."""
    visit.reserve(0.4)


def declaring(visit: Visit) -> None:
    """A total under which one fits no more."""
    visit.declare(0.5)


def often(visit: Visit) -> None:
    """Two releases, one after the other."""
    third(visit)
    visit.commit()
    third(visit)
    visit.fail()


CLIENTS = [
    (two, failing),
    (third, third, third),
    (declaring, two),
    *in_long_form((often, often), (two, failing, declaring), (often, third, declaring)),
]


def named(clients: tuple[Client, ...]) -> str:
    """For the names of tests."""
    return " ".join(client.__name__ for client in clients)


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Ledger]:
    """Ledgers that were made already and hold nothing: that they are made once is tested beside."""
    numbers = count()

    def made() -> Ledger:
        ledger = Ledger(f"sqlite:///{tmp_path / f'{next(numbers)}.db'}", notice=lambda _: None)
        with ledger.journal.transaction():
            pass
        return ledger

    return made


@pytest.mark.parametrize("clients", CLIENTS, ids=named)
def test_the_total_holds_in_every_order(fresh, clients):
    """On SQLite."""
    tried = 0
    for order, visits, entries in in_every_order(fresh, clients):
        tried += 1
        try:
            check(visits, entries)
        except AssertionError as fault:
            raise AssertionError(f"{fault}, in the order {order}") from None
    print(f"{tried} orders of {named(clients)}")
    assert tried > len(clients)


@pytest.mark.parametrize("clients", in_long_form(*CLIENTS), ids=named)
def test_the_total_holds_in_every_order_on_a_server(postgres, clients):
    """On Postgres, in one database that is emptied before each order: to make one takes longer
    than the order.
    """
    address = postgres.database()
    server = create_engine(address)

    def made() -> Ledger:
        with server.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        ledger = Ledger(address, notice=lambda _: None)
        with ledger.journal.transaction():
            pass
        return ledger

    tried = 0
    for _, visits, entries in in_every_order(made, clients):
        tried += 1
        check(visits, entries)
    print(f"{tried} orders of {named(clients)}")


@dataclass
class Later(WriteTransaction):
    """Notes what is to be appended."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def append(self, *given: Any) -> Entry:
        self.asked.append(given)
        return Entry(0, given[1], given[2], given[0], "", "", "", "")


@contextmanager
def appended_apart(self: Journal) -> Iterator[WriteTransaction]:
    """A twin of ``Journal.writing``: the decision is taken in a transaction, and written in the
    next one.
    """
    with self.transaction() as connection:
        decided = Later(read_entries(connection), connection)
        yield decided
    with self.transaction() as connection:
        for given in decided.asked:
            WriteTransaction(read_entries(connection), connection).append(*given)


def test_a_ledger_that_decides_outside_of_its_transaction_is_found(fresh, monkeypatch):
    """By an order in which two that do not fit together are both granted."""
    monkeypatch.setattr(Journal, "writing", appended_apart)
    orders = in_every_order(fresh, (third, third, third))
    with pytest.raises(AssertionError, match="the total does not hold"):
        for _, (_, visits, entries) in zip(range(200), orders, strict=False):
            check(visits, entries)
