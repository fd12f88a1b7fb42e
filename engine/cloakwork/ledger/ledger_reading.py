"""What a ledger answers: what a dataset's releases have spent, what is left, whether an entry was
altered. Nothing here writes.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.errors import LedgerError
from cloakwork.base.files import data_home, home, private_secret
from cloakwork.ledger._case_hashes import WindowCheck, check_windows, read_fingerprints
from cloakwork.ledger._journal import Journal, print_notice
from cloakwork.ledger.account import (
    Account,
    Balance,
    BudgetTerms,
    require_fit,
)
from cloakwork.ledger.books import METRIC
from cloakwork.ledger.declarations import (
    NOTHING_DECLARED,
    DatasetDeclaration,
    declaration_of,
    declarations,
)
from cloakwork.ledger.entries import Break, Entry, EventKind, first_break
from cloakwork.ledger.forecast import BudgetForecast, forecast_budget
from cloakwork.ledger.records import Record, records_of
from cloakwork.ledger.windows import require_same_period, was_recorded

URL_VARIABLE: Final = "CLOAKWORK_LEDGER"
"""The environment variable that names the ledger where no URL is given."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is spent and left of one dataset, by book; its releases, oldest first; and
    what it is declared with.
    """

    dataset: str
    balances: tuple[Balance, ...]
    records: tuple[Record, ...]
    declaration: DatasetDeclaration = NOTHING_DECLARED

    def _repr_html_(self) -> str:
        from cloakwork.ledger.notebook import summary_html

        return summary_html(self)

    @property
    def without_dp(self) -> tuple[Record, ...]:
        """Releases that no DP budget bounds."""
        return tuple(record for record in self.records if record.without_dp)


class ReadableLedger:
    """The questions that a ledger answers; ``Ledger`` says what its address may be."""

    def __init__(
        self, url: str | None = None, *, notice: Callable[[str], None] = print_notice
    ) -> None:
        named = url or os.environ.get(URL_VARIABLE)
        address = named or str(data_home() / "ledger.db")
        self._journal = Journal(address, notice, make_folder=not named)

    @property
    def url(self) -> str:
        """Where the ledger lives, without a password."""
        return self._journal.name

    def exists(self) -> bool:
        """Whether the ledger was made already."""
        return self._journal.exists()

    def check(
        self,
        dataset: str,
        *,
        charges: Sequence[Charge],
        totals: Mapping[Currency, Cost | None] | None = None,
        terms: BudgetTerms | None = None,
        policy: str = "policy",
        policy_digest: str = "",
    ) -> BudgetForecast:
        """What the release would mean for the budget. Raises where ``reserve`` would now, and
        LedgerError where an entry was altered; writes nothing.
        """
        if found := self.verify():
            raise LedgerError(self.url, f"{found}: it cannot be trusted; restore it from a copy")
        terms = terms or BudgetTerms(totals=totals or {})
        entries = self._journal.read()
        records = records_of(self.url, entries, dataset)
        declared = terms.declared(charges, records)
        of_dataset = declaration_of(entries, dataset, self.url)
        of_dataset.require_allowed(dataset, terms, policy)
        require_same_period(dataset, records, terms.every, policy)
        account = of_dataset.bind(Account.of(records), charges)
        require_fit(dataset, account, charges, declared, terms, policy)
        forecast = forecast_budget(records, account, charges, declared, terms)
        return replace(forecast, declaration=of_dataset)

    def remaining(
        self,
        dataset: str,
        totals: Mapping[Currency, Cost | None] | None = None,
        *,
        shift: timedelta | None = None,
        window: str | None = None,
    ) -> Mapping[str, Balance]:
        """What is spent and left by name of book (``case``, an attribute, ``metric``, ``local``),
        were a policy to declare ``totals`` per case; metric figures are per ``shift``, by default
        the largest charged or declared. ``window``: of a growing log, whose accounts are meant;
        None: those of a window without releases.

        Books neither charged nor declared are absent.
        """
        # A charge of nothing tells the terms over which shift a metric total is meant.
        costless = [Charge(currency="metric", cost=Cost(epsilon=0.0), shift=shift)] if shift else []
        declared = BudgetTerms(totals=totals or {}).declared(costless)
        entries = self._journal.read()
        spent = Account.of(records_of(self.url, entries, dataset))
        bound = declaration_of(entries, dataset, self.url).bind(spent, costless)
        account = bound.with_release((), declared, {})
        return {
            book.name: account.balance(book, shift if book == METRIC else None, window)
            for book in account.books()
        }

    def _repr_html_(self) -> str:
        from cloakwork.ledger.notebook import ledger_html

        return ledger_html(self.url, self.summary())

    def summary(self, dataset: str | None = None) -> tuple[Summary, ...]:
        """Spent and left per dataset, in order of first entry; only of ``dataset`` if given."""
        entries = self._journal.read()
        declared = declarations(entries, self.url)
        records = records_of(self.url, entries, dataset)
        concerned = [record.dataset for record in records]
        names = [name for name in declared if dataset in (None, name)]
        firsts = {entry.dataset: entry.seq for entry in reversed(entries)}
        found = []
        for name in sorted({*concerned, *names}, key=firsts.__getitem__):
            own = tuple(record for record in records if record.dataset == name)
            declaration = declared.get(name, NOTHING_DECLARED)
            balances = _balances_of(declaration.bind(Account.of(own)))
            found.append(Summary(name, balances, own, declaration))
        return tuple(found)

    def history(self, dataset: str | None = None) -> tuple[Record, ...]:
        """Every release, oldest first; only of ``dataset`` when it is given. A ledger that does not
        exist holds none.
        """
        return records_of(self.url, self._journal.read(), dataset)

    def events(self, *kinds: EventKind, dataset: str | None = None) -> tuple[Entry, ...]:
        """Entries of these kinds, oldest first; only of ``dataset`` if given. A ledger that does
        not exist holds none.
        """
        return tuple(
            entry
            for entry in self._journal.read()
            if entry.kind in kinds and dataset in (None, entry.dataset)
        )

    def declaration(self, dataset: str) -> DatasetDeclaration:
        """What ``dataset`` is declared with, and so what binds its releases."""
        return declaration_of(self._journal.read(), dataset, self.url)

    def fingerprints(self) -> list[tuple[str, str, str]] | None:
        """Keyed samples of case ids, as (release, dataset, sample); None where the right to read
        them is missing. Internal.
        """
        return read_fingerprints(self._journal)

    def verify(self, witnesses: Iterable[str] = ()) -> Break | None:
        """The first entry that is not what was once written; None when the ledger is whole.

        ``witnesses`` are entry digests that signed statements carry (``Reservation.digest``): one
        that the ledger lacks shows that entries were cut off or the whole chain was forged.
        """
        entries = self._journal.read()
        altered = first_break(entries)
        if altered:
            return altered
        held = {entry.digest for entry in entries}
        lost = sum(1 for witness in witnesses if witness not in held)
        if not lost:
            return None
        reason = f"is missing: {lost} signed statements name entries that are gone"
        return Break(len(entries) + 1, reason)

    def check_windows(self) -> WindowCheck:
        """Whether the records of which cases were released with which window are what was once
        written; their key must be here. Makes nothing.
        """
        path = self.key_file
        key = private_secret(path) if path.exists() else None
        recorded = {record.id: record.dataset for record in self.history() if was_recorded(record)}
        return check_windows(self._journal, key, recorded)

    @property
    def journal(self) -> Journal:
        """What the ledger is kept in."""
        return self._journal

    @property
    def key_file(self) -> Path:
        """Where the key of case ids lies: beside an SQLite ledger, else in the user's folder."""
        file = self._journal.file
        if file is None:
            return home() / "ledger-fingerprints.key"
        return file.with_name(f"{file.name}.key")


def _balances_of(account: Account) -> tuple[Balance, ...]:
    found = [
        account.balance(book, window=window)
        for book in account.books()
        for window in account.accounts(book)
    ]
    # Windows without releases are worth a line where something was charged in every window.
    has_windows = {balance.book for balance in found if balance.window is not None}
    return tuple(
        balance
        for balance in found
        if balance.window is not None
        or balance.book not in has_windows
        or balance.spent != Cost(epsilon=0.0)
    )
