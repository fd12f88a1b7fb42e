"""What every release of a dataset has spent, and the one transaction that decides whether another
may be made.

A release is *reserved* before its first differentially private step reads the raw log. When it is
written, its *intent* is recorded (the digest of its statement, and the folder where it is to
stand); then the folder is renamed, then the entry is *committed*: committed means that the folder
stood. A crash leaves the reservation standing: spent budget is never handed back once noise may
have been seen (``privacy.md`` section 4); ``reconcile`` completes or closes what a crash left.
Costs add up by basic composition (Dwork and Roth 2014, theorem 3.16), which holds for budgets
chosen after seeing earlier releases too (Rogers et al. 2016, "Privacy Odometers and Filters", for
pure and approximate DP), in one book for each protected unit (``ledger.books``).

Numbers are compared exactly, as the decimals that people write: ten releases of 0.1 fit a total of
1.0, an eleventh of 1e-300 does not.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Final, Literal

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.errors import LedgerError, SameCases
from cloakwork.base.files import data_home, home, private_secret, secret_made_once
from cloakwork.base.frozen import frozen
from cloakwork.base.notebook_html import listing, paragraph, shown
from cloakwork.base.text import folded, version_of
from cloakwork.ledger.account import (
    Account,
    Balance,
    BudgetTerms,
    binding,
    budgets_html,
    largest_shift,
    require_fit,
    require_same_period,
    sum_against,
)
from cloakwork.ledger.books import METRIC, DeclaredTotal
from cloakwork.ledger.case_hashes import (
    WindowCheck,
    check_windows,
    fingerprints_in,
    keep_fingerprint,
    keep_window,
    read_fingerprints,
    resemblances,
)
from cloakwork.ledger.declarations import (
    NOTHING_DECLARED,
    DatasetDeclaration,
    declaration_of,
    declarations,
)
from cloakwork.ledger.journal import (
    Break,
    Entry,
    EventKind,
    Journal,
    ReleaseLock,
    WriteTransaction,
    first_break,
    lost_past,
    print_notice,
    require_past,
)
from cloakwork.ledger.records import (
    CLOSED,
    FolderLocation,
    Record,
    charge_fields,
    records_of,
    total_fields,
)

URL_VARIABLE: Final = "CLOAKWORK_LEDGER"
"""The environment variable that names the ledger where no URL is given."""

Require = Callable[[tuple[Entry, ...]], object]
"""Raises where the entries so far forbid another one, in the transaction that would write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRequest:
    """One release of ``dataset`` as it asks for its budget.

    ``policy``, ``version``: by which policy, as people cite it; ``policy_digest``: its SHA-256 in
    hex. ``charges``: what the release costs. ``terms``: what the policy declares about the budget.
    ``note``: a few words about its guarantees; ``details``: what else is known of it, as JSON.
    ``makes``: a release, or a DP profile. ``folder``: where the release is to stand. ``require``:
    what else must hold of the entries so far. ``sample``: the ``fingerprint`` of its case ids, made
    with ``case_id_key``. ``private``: False for a run with a fixed seed, which no ledger records.
    """

    dataset: str
    policy: str
    charges: tuple[Charge, ...]
    terms: BudgetTerms = field(default_factory=BudgetTerms)
    version: str = ""
    policy_digest: str = ""
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    makes: Literal["release", "profile"] = "release"
    folder: Path | None = None
    require: Require | None = None
    sample: str | None = field(default=None, repr=False)
    private: bool = True

    def body(self, totals: Iterable[DeclaredTotal]) -> dict[str, Any]:
        """What its entry says, with the ``totals`` that the terms put in force."""
        body: dict[str, Any] = {
            "policy": self.policy,
            "version": self.version,
            "policy_digest": self.policy_digest,
            "note": self.note,
            "makes": self.makes,
            "unit": self.terms.unit,
            "cases_per_unit": dict(self.terms.cases_per_unit),
            "engine": version_of("cloakwork"),
            "charges": [charge_fields(charge) for charge in self.charges],
            "totals": [total_fields(total) for total in totals],
            "details": dict(self.details),
        }
        if self.terms.window is not None:
            body |= {"window": self.terms.window, "every": self.terms.every}
        if self.folder is not None:
            body["place"] = asdict(FolderLocation.here(self.folder))
        return body


@frozen
class Summary:
    """What is spent and left of one dataset, by book; its releases, oldest first; and
    what it is declared with.
    """

    dataset: str
    balances: tuple[Balance, ...]
    records: tuple[Record, ...]
    declaration: DatasetDeclaration = NOTHING_DECLARED

    def _repr_html_(self) -> str:
        return shown("Budget of a dataset", self.html_block())

    def html_block(self) -> str:
        """The dataset and its budgets, as notebooks show them among others."""
        failed = sum(record.failed_before_release for record in self.records)
        made = len(self.records) - failed
        heading = f"Dataset {self.dataset}: {made:,} release{'' if made == 1 else 's'}"
        if failed:
            heading += f"; {failed:,} failed; what was charged stays spent"
        count = len(self.without_dp)
        unbounded = [f"no budget bounds what {count:,} of them disclose"] if count else []
        return paragraph(heading) + budgets_html(self.balances) + listing("", unbounded)

    @property
    def without_dp(self) -> tuple[Record, ...]:
        """Releases that no DP budget bounds."""
        return tuple(record for record in self.records if record.without_dp)


@frozen
class BudgetForecast:
    """What a release would mean for the budget: per book before it, itself, and after it; and what
    no budget bounds.

    Of a book with an account for each window: that of the window that is released, or all of them.
    ``without_dp``: how many earlier releases, of cases or persons that may be in this one too,
    hold what no DP guarantee covers (k-anonymity and the like). ``declaration``: what the dataset
    is declared with. ``standing``: the same books without the policy's totals, which bind
    from its release on.
    """

    before: tuple[Balance, ...]
    cost: tuple[Cost, ...]
    after: tuple[Balance, ...]
    earlier: int
    without_dp: int
    declaration: DatasetDeclaration = NOTHING_DECLARED
    standing: tuple[Balance, ...] = ()


class Ledger:
    """The ledger at ``url``: an SQLAlchemy URL (SQLite or Postgres) or the path of an SQLite file.

    Without a URL: the environment's ``CLOAKWORK_LEDGER``, else ``ledger.db`` in the user's data
    folder. Nothing is opened before it is used, and only what writes makes a ledger: a file that is
    not there yet, in a folder that is (the user's data folder is made), or a table in an empty
    database. ``notice`` hears of that; standard error by default. Every method raises LedgerError
    for a ledger that cannot be read or written, or an address that is none.
    """

    def __init__(
        self, url: str | Path | None = None, *, notice: Callable[[str], None] = print_notice
    ) -> None:
        named = url or os.environ.get(URL_VARIABLE)
        address = os.fspath(named or data_home() / "ledger.db")
        self.journal: Final = Journal(address, notice, make_folder=not named)
        self._locks: dict[str, ReleaseLock] = {}
        self._reserved: list[Reservation] = []

    @classmethod
    def of(cls, ledger: "Ledger | str | Path | None") -> "Ledger":
        """A ledger as it is, or the one at this address; None: the user's."""
        return ledger if isinstance(ledger, Ledger) else cls(ledger)

    @property
    def url(self) -> str:
        """Where the ledger lives, without a password."""
        return self.journal.name

    def exists(self) -> bool:
        """Whether the ledger was made already."""
        return self.journal.exists()

    # What releases ask for

    @property
    def reserved_here(self) -> tuple["Reservation", ...]:
        """What was reserved through this object, whatever became of it."""
        return tuple(self._reserved)

    def check(self, request: ReservationRequest) -> BudgetForecast:
        """What the release would mean for the budget. Raises where ``reserve`` would now, and
        LedgerError where an entry was altered; writes nothing.
        """
        entries = self.trusted_entries()
        records, account, declared = self._granted(request, entries)
        forecast = forecast_budget(records, account, request.charges, declared, request.terms)
        return replace(forecast, declaration=declaration_of(entries, request.dataset, self.url))

    def reserve(self, request: ReservationRequest) -> "Reservation":
        """Set the release's cost aside, or refuse; one transaction reads what is spent, decides and
        writes.

        The smallest total ever declared for a book binds, as earlier signed statements printed it,
        and so does what the dataset is declared with (``ledger.declarations``). Where the request
        names a folder, this process shows that it lives until the entry is committed or failed.

        Raises BudgetExceeded, and writes nothing, when spent (reserved, committed or failed) plus
        requested is more than a binding total; PlanImpossible when the two protect different units
        and cannot be added up, or the dataset is declared with another unit or other windows;
        SameCases where the case ids were released as another dataset;
        LedgerError when the ledger cannot be used or was altered, or the run is not private.
        """
        if not request.private:
            raise LedgerError(
                self.url, "a reproducible run is not private and is not recorded as a release"
            )
        release = "".join(secrets.choice(ascii_lowercase) for _ in range(20))
        try:
            with self.journal.writing() as writing:
                require_past(self.journal, writing.entries)
                _, _, declared = self._granted(request, writing.entries)
                was_compared = self._require_own_cases(request, writing)
                # Locked before the entry stands: nobody finds it unlocked while we live.
                if request.folder is not None:
                    self.lock(release)
                entry = writing.append("reserve", release, request.dataset, request.body(declared))
                if request.sample is not None:
                    keep_fingerprint(writing, release, request.dataset, request.sample)
        except BaseException:
            self.unlock(release)
            raise
        reservation = Reservation(
            id=release,
            dataset=request.dataset,
            charges=request.charges,
            digest=entry.digest,
            ledger=self,
            window=request.terms.window,
            was_compared=was_compared,
        )
        self._reserved.append(reservation)
        return reservation

    def _granted(
        self, request: ReservationRequest, entries: tuple[Entry, ...]
    ) -> tuple[tuple[Record, ...], Account, tuple[DeclaredTotal, ...]]:
        """The dataset's records, its account before the release and the totals that its policy
        declares; raises where the entries forbid the release.
        """
        dataset = request.dataset
        terms = request.terms
        charges = request.charges
        named = f"{request.policy} {request.version}".strip()
        if request.require is not None:
            request.require(entries)
        records = records_of(self.url, entries, dataset)
        declared = terms.declared(charges, records)
        of_dataset = declaration_of(entries, dataset, self.url)
        of_dataset.require_allowed(dataset, terms, named)
        require_same_period(dataset, records, terms.every, named)
        account = of_dataset.bind(Account.of(records), charges)
        binding_totals = binding(declared, charges, terms.cases_per_unit)
        require_fit(dataset, account, charges, binding_totals, terms, named)
        return records, account, declared

    def _require_own_cases(self, request: ReservationRequest, writing: WriteTransaction) -> bool:
        """Raise SameCases where the case ids were released as another dataset, unless either is
        declared to be distinct from the other; whether they could be compared with all releases.
        """
        known = fingerprints_in(writing.connection)
        if request.sample is None or known is None:
            return False
        own = request.dataset
        entries = writing.entries
        # Fingerprints lie outside the chain: it says which there must be, and of what dataset.
        dataset_of = {entry.release: entry.dataset for entry in entries if entry.kind == "reserve"}
        known = [
            (release, dataset_of.get(release, name), sample) for release, name, sample in known
        ]
        apart = {folded(each) for each in declaration_of(entries, own, self.url).distinct_from}
        for found in resemblances(request.sample, own, known):
            others = declaration_of(entries, found.dataset, self.url).distinct_from
            if folded(found.dataset) in apart or folded(own) in map(folded, others):
                continue
            is_declared = any(
                entry.kind == "dataset-declared" and entry.is_of(own) for entry in entries
            )
            raise SameCases(own, found.dataset, str(found), is_declared=is_declared)
        return dataset_of.keys() <= {release for release, _, _ in known}

    def lock(self, release: str) -> None:
        """Show that this process works on ``release``."""
        if release not in self._locks:
            self._locks[release] = self.journal.lock_release(release)

    def unlock(self, release: str) -> None:
        """This process works on ``release`` no more."""
        if (lock := self._locks.pop(release, None)) is not None:
            lock.release()

    # What brings ledger and folders to agreement after a crash

    def complete(self, release: str, statement_digest: str) -> None:
        """A folder with this statement stands: commit its entry, whatever became of the process
        that made it.

        Does nothing where it is committed. Raises LedgerError unless this digest was recorded as
        its intent.
        """
        with self.journal.writing() as writing:
            record = self.record_in(writing, release)
            if record.statement_digest != statement_digest:
                raise LedgerError(self.url, f"release {release} has another statement")
            if record.state != "committed":
                body = {"statement_digest": statement_digest}
                writing.append("commit", release, record.dataset, body)

    def close(self, release: str) -> bool:
        """Close an entry whose process is gone, as spent; whether it was open, and no live process
        holds it.

        A folder that is found later still completes it.
        """
        lock = self.journal.try_lock_release(release)
        if lock is None:
            return False
        try:
            with self.journal.writing() as writing:
                record = self.record_in(writing, release)
                if record.state not in ("reserved", "publishing"):
                    return False
                if record.place and Path(record.place.folder, "statement.json").exists():
                    return False  # it was renamed in the meantime
                writing.append("fail", release, record.dataset, {"reason": CLOSED})
            return True
        finally:
            lock.release()

    def record_in(self, writing: WriteTransaction, release: str) -> Record:
        """The release as the transaction has it."""
        for record in records_of(self.url, writing.entries, None):
            if record.id == release:
                return record
        raise LedgerError(self.url, f"knows no release {release}")

    # What happens beside releases

    def record_event(
        self,
        kind: EventKind,
        dataset: str,
        body: Mapping[str, Any],
        *,
        require: Require | None = None,
    ) -> Entry:
        """Add an entry about something beside releases; makes the ledger where there is none.

        Raises what ``require`` raises, and LedgerError where the ledger cannot be used or was
        altered.
        """
        with self.journal.writing() as writing:
            if require is not None:
                require(writing.entries)
            return writing.append(kind, "", dataset, body)

    # What was spent, and what is left

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
        entries = self.journal.read()
        spent = Account.of(records_of(self.url, entries, dataset))
        bound = declaration_of(entries, dataset, self.url).bind(spent, costless)
        account = bound.with_release((), declared, {})
        return {
            book.name: account.balance(book, shift if book == METRIC else None, window)
            for book in account.books()
        }

    def summary(self, dataset: str | None = None) -> tuple[Summary, ...]:
        """Spent and left per dataset, in order of first entry; only of ``dataset`` if given."""
        entries = self.journal.read()
        declared = declarations(entries, self.url)
        records = records_of(self.url, entries, dataset)
        names = {folded(record.dataset) for record in records}
        names |= {name for name in declared if dataset is None or name == folded(dataset)}
        # As it was spelt first.
        firsts = {folded(entry.dataset): entry for entry in reversed(entries)}
        found = []
        for name in sorted(names, key=lambda each: firsts[each].seq):
            own = tuple(record for record in records if folded(record.dataset) == name)
            declaration = declared.get(name, NOTHING_DECLARED)
            balances = _balances_of(declaration.bind(Account.of(own)))
            found.append(Summary(firsts[name].dataset, balances, own, declaration))
        return tuple(found)

    def history(self, dataset: str | None = None) -> tuple[Record, ...]:
        """Every release, oldest first; only of ``dataset`` when it is given. A ledger that does not
        exist holds none.
        """
        return records_of(self.url, self.journal.read(), dataset)

    def events(self, *kinds: EventKind, dataset: str | None = None) -> tuple[Entry, ...]:
        """Entries of these kinds, oldest first; only of ``dataset`` if given. A ledger that does
        not exist holds none.
        """
        return tuple(
            entry
            for entry in self.journal.read()
            if entry.kind in kinds and (dataset is None or entry.is_of(dataset))
        )

    def declaration(self, dataset: str) -> DatasetDeclaration:
        """What ``dataset`` is declared with, and so what binds its releases."""
        return declaration_of(self.journal.read(), dataset, self.url)

    def _repr_html_(self) -> str:
        blocks = [summary.html_block() for summary in self.summary()]
        return shown(f"Ledger {self.url}", *(blocks or [paragraph("It holds no release.")]))

    # Whether it is what was once written

    def trusted_entries(self) -> tuple[Entry, ...]:
        """Every entry, oldest first. Raises LedgerError where one was altered, or where they no
        longer lead to a checkpoint that is kept here: then they say nothing about what is spent.
        """
        entries = self.journal.read()
        if found := first_break(entries):
            raise LedgerError(self.url, f"{found}: it cannot be trusted; restore it from a copy")
        require_past(self.journal, entries)
        return entries

    def verify(self, witnesses: Iterable[str] = ()) -> Break | None:
        """The first entry that is not what was once written, nor what a checkpoint says that is
        kept here; None when the ledger is whole.

        ``witnesses`` are entry digests that signed statements carry (``Reservation.digest``): one
        that the ledger lacks shows that entries were cut off or the whole chain was forged.
        """
        entries = self.journal.read()
        if altered := first_break(entries) or lost_past(self.journal, entries):
            return altered
        # A chain that is whole may still lack its end.
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
        recorded = {record.id for record in self.history() if record.keeps_cases}
        return check_windows(self.journal, key, recorded)

    # Case ids, keyed: never to be published

    @property
    def key_file(self) -> Path:
        """Where the key of case ids lies: beside an SQLite ledger, else in the user's folder."""
        file = self.journal.file
        if file is None:
            return home() / "ledger-fingerprints.key"
        return file.with_name(f"{file.name}.key")

    def case_id_key(self) -> bytes:
        """The key of fingerprints and of the records of windows; made on first use."""
        return secret_made_once(self.key_file, lambda: secrets.token_bytes(32), length=32)

    def fingerprints(self) -> list[tuple[str, str, str]] | None:
        """Keyed samples of case ids, as (release, dataset, sample); None where the right to read
        them is missing. Internal.
        """
        return read_fingerprints(self.journal)


@frozen
class Reservation:
    """Budget set aside for one release; ``digest`` names the ledger's entry, for a statement to
    carry as a witness. ``window``: of a growing log, the one that is released. ``was_compared``:
    whether its case ids were compared with those of other datasets.
    """

    id: str
    dataset: str
    charges: tuple[Charge, ...]
    digest: str
    ledger: Ledger = field(repr=False, compare=False)
    window: str | None = None
    was_compared: bool = False

    def intend(self, folder: Path, statement_digest: str) -> None:
        """The release is written whole, and is about to be renamed to ``folder``; its statement has
        this digest.

        Raises LedgerError where it stands in a folder already: one release has one statement.
        """
        self.ledger.lock(self.id)
        body = {"place": asdict(FolderLocation.here(folder)), "statement_digest": statement_digest}
        with self.ledger.journal.writing() as writing:
            record = self.ledger.record_in(writing, self.id)
            if record.state == "committed":
                where = "" if record.place is None else f" to {record.place.folder}"
                reason = f"release {self.id} was published already{where}; copy that folder"
                raise LedgerError(self.ledger.url, reason)
            writing.append("intent", self.id, self.dataset, body)

    def commit(self, statement_digest: str | None = None) -> None:
        """The release stands in its folder; its cost stands for good.

        Does nothing where ``reconcile`` found the folder first. Raises LedgerError where it was
        committed otherwise, or failed before it was written.
        """
        body = {} if statement_digest is None else {"statement_digest": statement_digest}
        with self.ledger.journal.writing() as writing:
            record = self.ledger.record_in(writing, self.id)
            # Twice the same is no fault: ``reconcile`` may have been first.
            is_intended = statement_digest == record.statement_digest
            if record.state == "committed":
                may_commit = statement_digest is None or is_intended
            elif record.state == "failed":
                may_commit = statement_digest is not None and is_intended
            else:
                may_commit = True
            if not may_commit:
                reason = f"release {self.id} is {record.state} already"
                raise LedgerError(self.ledger.url, reason)
            if record.state != "committed":
                writing.append("commit", self.id, self.dataset, body)
        self.ledger.unlock(self.id)

    def fail(self, reason: str) -> None:
        """The release did not come about after noise was drawn; its cost stands. ``reason`` must
        not quote the log.
        """
        with self.ledger.journal.writing() as writing:
            record = self.ledger.record_in(writing, self.id)
            if record.state not in ("reserved", "publishing"):
                refusal = f"release {self.id} is {record.state} already"
                raise LedgerError(self.ledger.url, refusal)
            writing.append("fail", self.id, self.dataset, {"reason": reason})
        self.ledger.unlock(self.id)

    def record_hashes(self, hashes: frozenset[bytes]) -> frozenset[bytes]:
        """Record that cases were released with the window of the reservation, unless another window
        has them; returns those, which are to be left out. ``hashes``: ``hashed_ids`` of the cases,
        made with ``case_id_key``.

        One transaction decides, so that no case is released with two windows. Internal: never
        publish the answer. Raises LedgerError or OutputError where ledger or key cannot be used, or
        the record of an earlier release is gone.
        """
        key = self.ledger.case_id_key()
        if self.window is None:
            raise LedgerError(self.ledger.url, f"release {self.id} is of no window")
        earlier = self.ledger.history(self.dataset)
        return keep_window(
            self.ledger.journal,
            self.id,
            self.dataset,
            self.window,
            hashes,
            key=key,
            earlier=frozenset(record.id for record in earlier if record.keeps_cases),
        )


def _balances_of(account: Account) -> tuple[Balance, ...]:
    """Every account of every book; those of windows without releases where something was charged
    in every window, or no window was released.
    """
    found = [
        account.balance(book, window=window)
        for book in account.books()
        for window in account.accounts(book)
    ]
    has_windows = {balance.book for balance in found if balance.window is not None}
    return tuple(
        balance
        for balance in found
        if balance.window is not None
        or balance.book not in has_windows
        or balance.spent != Cost(epsilon=0.0)
    )


def forecast_budget(
    records: Sequence[Record],
    account: Account,
    charges: Sequence[Charge],
    totals: Sequence[DeclaredTotal],
    terms: BudgetTerms,
) -> BudgetForecast:
    """What a release with these charges would mean; ``records``: the dataset's earlier
    ones, ``account``: what they spent, and what the dataset is declared with.
    """
    # The policy's totals bind already before its release.
    before = account.with_release((), totals, terms.cases_per_unit)
    after = before.with_release(charges, (), {})
    shift = largest_shift(charges)
    currencies = {charge.currency for charge in charges}
    # Of a window that is released only its own account is shown, else all.
    accounts = [
        (book, window)
        for book in after.books()
        if book.currency != "local" or "local" in currencies
        for window in ([terms.window] if terms.window is not None else after.accounts(book))
    ]

    def balances_in(account: Account) -> tuple[Balance, ...]:
        return tuple(account.balance(book, shift, window) for book, window in accounts)

    balances = balances_in(after)
    costs = []
    for balance in balances:
        # A total of nothing counts what the book counts.
        over = shift or before.balance(balance.book).shift
        nothing = DeclaredTotal(balance.book, Cost(epsilon=0.0), over, balance.apart_from)
        cost, _ = sum_against(charges, nothing, after.cases)
        costs.append(cost.as_cost())
    return BudgetForecast(
        before=balances_in(before),
        cost=tuple(costs),
        after=balances,
        earlier=sum(not record.failed_before_release for record in records),
        without_dp=sum(
            record.without_dp and record.concerns_same(terms.window, terms.unit)
            for record in records
        ),
        standing=balances_in(account),
    )
