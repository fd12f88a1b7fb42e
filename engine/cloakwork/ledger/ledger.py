"""What every release of a dataset has spent, and the one transaction that decides whether another
may be made.

A release is *reserved* before its first differentially private step reads the raw log. When it is
written, its *intent* is recorded (the digest of its statement, and the folder where it is to
stand); then the folder is renamed, then the entry is *committed*: committed means that the folder
stood. A crash leaves the reservation standing: spent budget is never handed back once noise may
have been seen (``privacy.md`` section 4); ``reconcile`` completes or closes what a crash left.
Costs add up by basic composition (Dwork and Roth 2014, theorem 3.16), which holds for budgets
chosen after seeing earlier releases too (Rogers et al. 2016, "Privacy Odometers and Filters", for
pure and approximate DP), in one book for each protected unit (``accounting.books``).

Numbers are compared exactly, as the decimals that people write: ten releases of 0.1 fit a total of
1.0, an eleventh of 1e-300 does not.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as version_of
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.errors import LedgerError
from cloakwork.base.facts import CASE
from cloakwork.base.files import secret_made_once
from cloakwork.ledger._case_hashes import keep_fingerprint, keep_window, read_fingerprints
from cloakwork.ledger._journal import ReleaseLock, WriteTransaction, print_notice
from cloakwork.ledger.account import (
    CURRENCIES,
    Account,
    Balance,
    BudgetTerms,
    require_fit,
)
from cloakwork.ledger.declarations import declaration_of
from cloakwork.ledger.entries import Entry, EventKind
from cloakwork.ledger.fingerprint import Resemblance, resemblances
from cloakwork.ledger.forecast import BudgetForecast
from cloakwork.ledger.ledger_reading import ReadableLedger, Summary
from cloakwork.ledger.records import (
    CLOSED,
    FolderLocation,
    Record,
    charge_fields,
    records_of,
    total_fields,
)
from cloakwork.ledger.window_hashes import hashed_ids
from cloakwork.ledger.windows import require_same_period, was_recorded


@dataclass(frozen=True, slots=True)
class Reservation:
    """Budget set aside for one release; ``digest`` names the ledger's entry, for a statement to
    carry as a witness. ``window``: of a growing log, the one that is released.
    """

    id: str
    dataset: str
    charges: tuple[Charge, ...]
    digest: str
    ledger: "Ledger" = field(repr=False, compare=False)
    window: str | None = None

    def intend(self, folder: Path, statement_digest: str) -> None:
        """See ``Ledger.intend``."""
        self.ledger.intend(self, folder, statement_digest)

    def commit(self, statement_digest: str | None = None) -> None:
        """See ``Ledger.commit``."""
        self.ledger.commit(self, statement_digest)

    def record_window(self, ids: Iterable[str]) -> frozenset[str]:
        """See ``Ledger.record_window``."""
        return self.ledger.record_window(self, ids)

    def fail(self, reason: str) -> None:
        """See ``Ledger.fail``."""
        self.ledger.fail(self, reason)


class Ledger(ReadableLedger):
    """The ledger at ``url``: an SQLAlchemy URL (SQLite or Postgres) or the path of an SQLite file.

    Without a URL: the environment's ``CLOAKWORK_LEDGER``, else ``ledger.db`` in the user's data
    folder. Nothing is opened before it is used, and only ``reserve`` makes a ledger: a file that is
    not there yet, in a folder that is (the user's data folder is made), or a table in an empty
    database. ``notice`` hears of that; standard error by default. Every method raises LedgerError
    for a ledger that cannot be read or written, or an address that is none.
    """

    def __init__(
        self, url: str | None = None, *, notice: Callable[[str], None] = print_notice
    ) -> None:
        super().__init__(url, notice=notice)
        self._locks: dict[str, ReleaseLock] = {}
        self._reserved: list[Reservation] = []

    @property
    def reserved_here(self) -> tuple["Reservation", ...]:
        """What was reserved through this object, whatever became of it."""
        return tuple(self._reserved)

    def reserve(
        self,
        dataset: str,
        *,
        policy: str,
        charges: Sequence[Charge],
        totals: Mapping[Currency, Cost | None] | None = None,
        terms: BudgetTerms | None = None,
        version: str = "",
        policy_digest: str = "",
        note: str = "",
        details: Mapping[str, Any] | None = None,
        makes: Literal["release", "profile"] = "release",
        folder: Path | None = None,
        private: bool = True,
        require: Callable[[tuple[Entry, ...]], None] | None = None,
    ) -> Reservation:
        """Set the release's cost aside, or refuse; one transaction reads what is spent, decides and
        writes.

        ``terms`` is what the policy declares about the budget; ``totals`` is short for terms of
        totals by currency alone, the unit being the case. The smallest total ever declared for a
        book binds, as earlier signed statements printed it, and so does what the dataset is
        declared with (``accounting.declarations``). ``folder``: where the release is to stand; this
        process then shows that it lives until the entry is committed or failed.
        ``private=False`` (a run with a fixed seed) is refused. ``require``: as for
        ``record_event``.

        Raises BudgetExceeded, and writes nothing, when spent (reserved, committed or failed) plus
        requested is more than a binding total; PlanImpossible when the two protect different units
        and cannot be added up, or the dataset is declared with another unit or other windows;
        LedgerError when the ledger cannot be used or was altered.
        """
        if not private:
            raise LedgerError(
                self.url, "a reproducible run is not private and is not recorded as a release"
            )
        terms = terms or BudgetTerms(totals=totals or {})
        body: dict[str, Any] = {
            "policy": policy,
            "version": version,
            "policy_digest": policy_digest,
            "note": note,
            "makes": makes,
            "unit": terms.unit,
            "cases_per_unit": dict(terms.cases_per_unit),
            "engine": version_of("cloakwork"),
            "charges": [charge_fields(charge) for charge in charges],
            "details": dict(details or {}),
        }
        if terms.window is not None:
            body |= {"window": terms.window, "every": terms.every}
        if folder is not None:
            body["place"] = asdict(FolderLocation.here(folder))
        release = _new_release_id()
        try:
            with self._journal.writing() as writing:
                if require is not None:
                    require(writing.entries)
                records = records_of(self.url, writing.entries, dataset)
                declared = terms.declared(charges, records)
                named = f"{policy} {version}".strip()
                of_dataset = declaration_of(writing.entries, dataset, self.url)
                of_dataset.require_allowed(dataset, terms, named)
                require_same_period(dataset, records, terms.every, named)
                account = of_dataset.bind(Account.of(records), charges)
                require_fit(dataset, account, charges, declared, terms, named)
                if folder is not None:
                    self._lock_release(release)
                body["totals"] = [total_fields(total) for total in declared]
                entry = writing.append("reserve", release, dataset, body)
        except BaseException:
            self._unlock_release(release)
            raise
        reservation = Reservation(
            release, dataset, tuple(charges), entry.digest, self, terms.window
        )
        self._reserved.append(reservation)
        return reservation

    def intend(self, reservation: Reservation, folder: Path, statement_digest: str) -> None:
        """The release is written whole, and is about to be renamed to ``folder``; its statement has
        this digest.

        Raises LedgerError where it stands in a folder already: one release has one statement.
        """
        self._lock_release(reservation.id)
        body = {"place": asdict(FolderLocation.here(folder)), "statement_digest": statement_digest}
        with self._journal.writing() as writing:
            record = self._require_record(writing, reservation.id)
            if record.state == "committed":
                raise LedgerError(
                    self.url,
                    f"release {record.id} was published already{_location_text(record)}; "
                    "copy that folder",
                )
            writing.append("intent", record.id, record.dataset, body)

    def commit(self, reservation: Reservation, statement_digest: str | None = None) -> None:
        """The release stands in its folder; its cost stands for good.

        Does nothing where ``reconcile`` found the folder first. Raises LedgerError where it was
        committed otherwise, or failed before it was written.
        """
        body = {} if statement_digest is None else {"statement_digest": statement_digest}
        with self._journal.writing() as writing:
            record = self._require_record(writing, reservation.id)
            is_intended = statement_digest == record.statement_digest
            committed_otherwise = (
                record.state == "committed" and statement_digest is not None and not is_intended
            )
            failed_unwritten = record.state == "failed" and (
                statement_digest is None or not is_intended
            )
            if committed_otherwise or failed_unwritten:
                raise LedgerError(self.url, f"release {reservation.id} is {record.state} already")
            if record.state != "committed":
                writing.append("commit", record.id, record.dataset, body)
        self._unlock_release(reservation.id)

    def fail(self, reservation: Reservation, reason: str) -> None:
        """The release did not come about after noise was drawn; its cost stands. ``reason`` must
        not quote the log.
        """
        with self._journal.writing() as writing:
            record = self._require_record(writing, reservation.id)
            if record.state not in ("reserved", "publishing"):
                raise LedgerError(self.url, f"release {reservation.id} is {record.state} already")
            writing.append("fail", record.id, record.dataset, {"reason": reason})
        self._unlock_release(reservation.id)

    def complete(self, release: str, statement_digest: str) -> None:
        """A folder with this statement stands: commit its entry, whatever became of the process
        that made it.

        Does nothing where it is committed. Raises LedgerError unless this digest was recorded as
        its intent.
        """
        with self._journal.writing() as writing:
            record = self._require_record(writing, release)
            if record.statement_digest != statement_digest:
                raise LedgerError(self.url, f"release {release} has another statement")
            if record.state != "committed":
                writing.append(
                    "commit", release, record.dataset, {"statement_digest": statement_digest}
                )

    def close(self, release: str) -> bool:
        """Close an entry whose process is gone, as spent; whether it was open, and no live process
        holds it.

        A folder that is found later still completes it.
        """
        lock = self._journal.try_lock_release(release)
        if lock is None:
            return False
        try:
            with self._journal.writing() as writing:
                record = self._require_record(writing, release)
                if record.state not in ("reserved", "publishing"):
                    return False
                if record.place and Path(record.place.folder, "statement.json").exists():
                    return False  # it was renamed in the meantime
                writing.append("fail", release, record.dataset, {"reason": CLOSED})
            return True
        finally:
            lock.release()

    def remove_stale_locks(self) -> None:
        """Remove what processes that were killed left beside the ledger."""
        self._journal.remove_stale_locks()

    def record_statement(self, release: str, digest: str) -> None:
        """Record the digest of the signed statement of the release with this id
        (``Reservation.id``).
        """
        with self._journal.writing() as writing:
            record = self._require_record(writing, release)
            if record.state != "committed" or record.statement_digest is not None:
                raise LedgerError(
                    self.url, f"release {release} is {record.state} and takes no statement"
                )
            writing.append("statement", release, record.dataset, {"statement_digest": digest})

    def recognise(self, reservation: Reservation, sample: str) -> tuple[Resemblance, ...]:
        """Keep the ``fingerprint`` of the case ids of a release, made with ``case_id_key``; which
        other datasets seem to hold the same cases. Internal: never publish the answer. Raises
        LedgerError where the ledger cannot be used.
        """
        known = read_fingerprints(self._journal) or []
        found = resemblances(sample, reservation.dataset, known)
        keep_fingerprint(self._journal, reservation.id, reservation.dataset, sample)
        return found

    def record_window(self, reservation: Reservation, ids: Iterable[str]) -> frozenset[str]:
        """Record that the cases with these ids were released with the window of the reservation,
        unless another window has them; returns the ids of those, which are to be left out.

        One transaction decides, so that no case is released with two windows. Internal: never
        publish the answer. Raises LedgerError or OutputError where ledger or key cannot be used, or
        the record of an earlier release is gone.
        """
        hashes = hashed_ids(ids, self.case_id_key())
        elsewhere = self.record_hashes(reservation, frozenset(hashes.values()))
        return frozenset(text for text, known in hashes.items() if known in elsewhere)

    def record_hashes(self, reservation: Reservation, hashes: frozenset[bytes]) -> frozenset[bytes]:
        """As ``record_window``, of the ``hashed_ids``, made with ``case_id_key``."""
        key = self.case_id_key()
        window = reservation.window
        if window is None:
            raise LedgerError(self.url, f"release {reservation.id} is of no window")
        earlier = self.history(reservation.dataset)
        return keep_window(
            self._journal,
            reservation.id,
            reservation.dataset,
            window,
            hashes,
            key,
            frozenset(record.id for record in earlier if was_recorded(record)),
        )

    def record_event(
        self,
        kind: EventKind,
        dataset: str,
        body: Mapping[str, Any],
        *,
        require: Callable[[tuple[Entry, ...]], None] | None = None,
    ) -> Entry:
        """Add an entry about something beside releases; makes the ledger where there is none.

        ``require``: raises, in the same transaction, where the entries so far forbid it. Raises
        LedgerError where the ledger cannot be used or was altered.
        """
        with self._journal.writing() as writing:
            if require is not None:
                require(writing.entries)
            return writing.append(kind, "", dataset, body)

    def _require_record(self, writing: WriteTransaction, release: str) -> Record:
        for record in records_of(self.url, writing.entries, None):
            if record.id == release:
                return record
        raise LedgerError(self.url, f"knows no release {release}")

    def _lock_release(self, release: str) -> None:
        if release not in self._locks:
            self._locks[release] = self._journal.lock_release(release)

    def _unlock_release(self, release: str) -> None:
        lock = self._locks.pop(release, None)
        if lock is not None:
            lock.release()

    def case_id_key(self) -> bytes:
        """The key of the fingerprints: beside an SQLite ledger, else in the user's data folder."""
        return secret_made_once(self.key_file, lambda: secrets.token_bytes(32), length=32)


def _location_text(record: Record) -> str:
    return f" to {record.place.folder}" if record.place is not None else ""


def _new_release_id() -> str:
    return "".join(secrets.choice(ascii_lowercase) for _ in range(20))


__all__ = [
    "CASE",
    "CURRENCIES",
    "Balance",
    "BudgetForecast",
    "BudgetTerms",
    "Charge",
    "Ledger",
    "Record",
    "Reservation",
    "Summary",
]
