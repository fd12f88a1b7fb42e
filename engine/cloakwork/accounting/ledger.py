"""What every release of a dataset has spent, and the one transaction that decides whether another may be made.

A release is *reserved* before its first differentially private step reads the raw log, and *committed* when it is
complete. A crash leaves the reservation standing: spent budget is never handed back once noise may have been seen
(``privacy.md`` section 4). Costs add up by basic composition (Dwork and Roth 2014, theorem 3.16), which holds for budgets
chosen after seeing earlier releases too (Rogers et al. 2016, "Privacy Odometers and Filters", for pure and approximate DP).

Numbers are compared exactly, as the decimals that people write: ten releases of 0.1 fit a total of 1.0, an eleventh of
1e-300 does not.
"""

import math
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from importlib.metadata import version as version_of
from string import ascii_lowercase
from typing import Final, Literal

from cloakwork.accounting._journal import Break, Journal, Writing
from cloakwork.accounting.charge import Charge
from cloakwork.accounting.exact import exactly, rounded_down, rounded_up
from cloakwork.accounting.records import Record, Total, charge_fields, records_of, total_fields
from cloakwork.budget import Cost, Currency
from cloakwork.errors import BudgetExceeded, LedgerError

DEFAULT_URL: Final = "sqlite:///cloakwork.db"

URL_VARIABLE: Final = "CLOAKWORK_LEDGER"
"""The environment variable that names the ledger where no URL is given."""

CURRENCIES: Final[tuple[Currency, ...]] = ("unit", "metric", "local")


@dataclass(frozen=True, slots=True)
class Balance:
    """One currency of a dataset: ``spent`` rounded up, ``left`` rounded down; both per ``shift`` for ``metric``.

    ``total`` is the smallest that a policy ever declared, None where none did; ``left`` is then None too.
    """

    currency: Currency
    spent: Cost
    total: Cost | None
    left: Cost | None
    shift: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is spent and left of one dataset, by currency, and its releases, oldest first."""

    dataset: str
    balances: tuple[Balance, ...]
    records: tuple[Record, ...]

    @property
    def without_dp(self) -> tuple[Record, ...]:
        """Releases that no DP budget bounds."""
        return tuple(record for record in self.records if record.without_dp)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Budget set aside for one release; ``digest`` names the ledger's entry, for a statement to carry as a witness."""

    id: str
    dataset: str
    charges: tuple[Charge, ...]
    digest: str
    ledger: "Ledger" = field(repr=False, compare=False)

    def commit(self, statement_digest: str | None = None) -> None:
        """See ``Ledger.commit``."""
        self.ledger.commit(self, statement_digest)

    def fail(self, reason: str) -> None:
        """See ``Ledger.fail``."""
        self.ledger.fail(self, reason)


class Ledger:
    """The ledger at ``url``: an SQLAlchemy URL (SQLite or Postgres) or the path of an SQLite file.

    Without a URL: the environment's ``CLOAKWORK_LEDGER``, else ``sqlite:///cloakwork.db``. Nothing is opened before it is
    used, and only ``reserve`` makes the file. Every method raises LedgerError for a ledger that cannot be read or written.
    """

    def __init__(self, url: str | None = None) -> None:
        self._journal = Journal(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)

    @property
    def url(self) -> str:
        """Where the ledger lives, without a password."""
        return self._journal.name

    def reserve(
        self,
        dataset: str,
        *,
        policy: str,
        charges: Sequence[Charge],
        totals: Mapping[Currency, Cost | None] | None = None,
        version: str = "",
        policy_digest: str = "",
        note: str = "",
        private: bool = True,
    ) -> Reservation:
        """Set the release's cost aside, or refuse; one transaction reads what is spent, decides and writes.

        ``totals`` is what the policy declares per currency (for ``metric``: per the shift of this release's charge). The
        smallest total ever declared for the dataset binds, as earlier signed statements printed it. ``private=False``
        (a run with a fixed seed) is refused.

        Raises BudgetExceeded, and writes nothing, when spent (reserved, committed or failed) plus requested is more
        than a binding total; LedgerError when the ledger cannot be used or was altered.
        """
        if not private:
            raise LedgerError(self.url, "a reproducible run is not private and is not recorded as a release")
        declared = _declared(charges, totals or {})
        body = {
            "policy": policy,
            "version": version,
            "policy_digest": policy_digest,
            "note": note,
            "engine": version_of("cloakwork"),
            "charges": [charge_fields(charge) for charge in charges],
            "totals": {currency: total_fields(total) for currency, total in declared.items()},
        }
        with self._journal.writing() as writing:
            _decide(dataset, charges, declared, records_of(self.url, writing.entries, dataset))
            entry = writing.append("reserve", _fresh_id(), dataset, body)
        return Reservation(entry.release, dataset, tuple(charges), entry.digest, self)

    def check(
        self, dataset: str, *, charges: Sequence[Charge], totals: Mapping[Currency, Cost | None] | None = None
    ) -> None:
        """Raise BudgetExceeded where ``reserve`` would now, LedgerError where an entry was altered; writes nothing."""
        if found := self.verify():
            raise LedgerError(self.url, f"{found}: it cannot be trusted; restore it from a copy")
        _decide(dataset, charges, _declared(charges, totals or {}), self.history(dataset))

    def commit(self, reservation: Reservation, statement_digest: str | None = None) -> None:
        """The release is complete; its cost stands for good. Raises LedgerError unless it is reserved."""
        body = {} if statement_digest is None else {"statement_digest": statement_digest}
        self._close(reservation, "commit", body)

    def fail(self, reservation: Reservation, reason: str) -> None:
        """The release did not come about after noise was drawn; its cost stands. ``reason`` must not quote the log."""
        self._close(reservation, "fail", {"reason": reason})

    def record_statement(self, release: str, digest: str) -> None:
        """Record the digest of the signed statement of the release with this id (``Reservation.id``)."""
        with self._journal.writing() as writing:
            record = _known(self.url, writing, release)
            if record.state != "committed" or record.statement_digest is not None:
                raise LedgerError(self.url, f"release {release} is {record.state} and takes no statement")
            writing.append("statement", release, record.dataset, {"statement_digest": digest})

    def remaining(
        self, dataset: str, totals: Mapping[Currency, Cost | None] | None = None, *, shift: timedelta | None = None
    ) -> Mapping[Currency, Balance]:
        """What is spent and left per currency, were a policy to declare ``totals``; ``metric`` figures are per ``shift``.

        Without ``shift``, the largest that was charged or declared. Currencies neither charged nor declared are absent.
        """
        return _balances(self.history(dataset), totals or {}, shift)

    def summary(self, dataset: str | None = None) -> tuple[Summary, ...]:
        """Spent and left per dataset, in order of first release; only ``dataset`` when it is given."""
        records = self.history(dataset)
        names = dict.fromkeys(record.dataset for record in records)
        grouped = {name: tuple(record for record in records if record.dataset == name) for name in names}
        return tuple(Summary(name, tuple(_balances(own, {}, None).values()), own) for name, own in grouped.items())

    def history(self, dataset: str | None = None) -> tuple[Record, ...]:
        """Every release, oldest first; only of ``dataset`` when it is given. A ledger that does not exist holds none."""
        return records_of(self.url, self._journal.read(), dataset)

    def verify(self, witnesses: Iterable[str] = ()) -> Break | None:
        """The first entry that is not what was once written; None when the ledger is whole.

        ``witnesses`` are entry digests that signed statements carry (``Reservation.digest``): one that the ledger lacks
        shows that entries were cut off or the whole chain was forged.
        """
        from cloakwork.accounting._journal import first_break

        entries = self._journal.read()
        held = {entry.digest for entry in entries}
        lost = sum(1 for witness in witnesses if witness not in held)
        return first_break(entries) or (
            Break(len(entries) + 1, f"is missing: {lost} signed statements name entries that are gone")
            if lost
            else None
        )

    def _close(self, reservation: Reservation, kind: Literal["commit", "fail"], body: dict[str, str]) -> None:
        with self._journal.writing() as writing:
            record = _known(self.url, writing, reservation.id)
            if record.state != "reserved":
                raise LedgerError(self.url, f"release {reservation.id} is {record.state} already")
            writing.append(kind, reservation.id, record.dataset, body)


@dataclass(frozen=True, slots=True)
class _Sum:
    """An exact cost; ``epsilon`` None stands for no bound."""

    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)

    def plus(self, cost: Cost, times: int) -> "_Sum":
        if self.epsilon is None or math.isinf(cost.epsilon):
            return _Sum(None, self.delta + times * exactly(cost.delta))
        return _Sum(self.epsilon + times * exactly(cost.epsilon), self.delta + times * exactly(cost.delta))

    def within(self, total: Cost) -> bool:
        if self.delta > exactly(total.delta):
            return False
        return math.isinf(total.epsilon) or (self.epsilon is not None and self.epsilon <= exactly(total.epsilon))

    def left_of(self, total: Cost, divisor: int) -> Cost:
        """``total`` less this sum, a ``divisor``-th of it, rounded down and never below zero."""
        if math.isinf(total.epsilon):
            epsilon = math.inf
        elif self.epsilon is None:
            epsilon = 0.0
        else:
            epsilon = rounded_down(max(Fraction(0), exactly(total.epsilon) - self.epsilon) / divisor)
        return Cost(epsilon=epsilon, delta=rounded_down(max(Fraction(0), exactly(total.delta) - self.delta)))

    def as_cost(self) -> Cost:
        epsilon = math.inf if self.epsilon is None else rounded_up(self.epsilon)
        return Cost(epsilon=epsilon, delta=min(1.0, rounded_up(self.delta)))


def _steps(over: timedelta | None, charged: timedelta | None) -> int:
    """How many charged shifts cover ``over``: metric privacy over k shifts costs k times (triangle inequality)."""
    return 1 if over is None or charged is None else -(-over // charged)


def _sum(charges: Iterable[Charge], currency: str, shift: timedelta | None) -> _Sum:
    """All charges in ``currency``, those of ``metric`` taken over ``shift``."""
    total = _Sum()
    for charge in charges:
        if charge.currency == currency:
            total = total.plus(charge.cost, _steps(shift, charge.shift))
    return total


def _decide(
    dataset: str, charges: Sequence[Charge], declared: Mapping[Currency, Total], records: Sequence[Record]
) -> None:
    """Raise BudgetExceeded unless what is spent and what is asked fit every total ever declared for the dataset."""
    before = [charge for record in records for charge in record.charges]
    for currency in CURRENCIES:
        if not any(charge.currency == currency for charge in charges):
            continue
        bounds = _bounds(currency, declared, records)
        if all(_sum([*before, *charges], currency, bound.shift).within(bound.cost) for bound in bounds):
            continue
        shift = _largest_shift(charge.shift for charge in charges if charge.currency == currency)
        requested, left = _sum(charges, currency, shift).as_cost(), _left(before, currency, bounds, shift)
        own = declared.get(currency)
        fits_own = own is None or _sum([*before, *charges], currency, own.shift).within(own.cost)
        raise BudgetExceeded(
            dataset,
            currency,
            (requested.epsilon, requested.delta),
            (left.epsilon, left.delta),
            reason=_RAISED if fits_own else None,
        )


_RAISED: Final = (
    "an earlier release was made under a tighter total, which its statement printed: "
    "a later policy may lower a dataset's total, never raise it"
)


def _bounds(currency: Currency, declared: Mapping[Currency, Total], records: Sequence[Record]) -> list[Total]:
    found = [record.totals[currency] for record in records if currency in record.totals]
    return found + ([declared[currency]] if currency in declared else [])


def _left(spent: Iterable[Charge], currency: Currency, bounds: Sequence[Total], shift: timedelta | None) -> Cost:
    """What may still be charged per ``shift``: the least that any bound leaves."""
    charges = list(spent)
    left = [_sum(charges, currency, bound.shift).left_of(bound.cost, _steps(bound.shift, shift)) for bound in bounds]
    return Cost(epsilon=min(cost.epsilon for cost in left), delta=min(cost.delta for cost in left))


def _balances(
    records: Sequence[Record], totals: Mapping[Currency, Cost | None], shift: timedelta | None
) -> dict[Currency, Balance]:
    spent = [charge for record in records for charge in record.charges]
    found: dict[Currency, Balance] = {}
    for currency in CURRENCIES:
        earlier = _bounds(currency, {}, records)
        own = totals.get(currency)
        if own is None and not earlier and not any(charge.currency == currency for charge in spent):
            continue
        over = None
        if currency == "metric":
            known = [bound.shift for bound in earlier] + [charge.shift for charge in spent]
            over = shift or _largest_shift(known)
        bounds = earlier + ([Total(own, over)] if own is not None else [])
        found[currency] = _balance(currency, spent, bounds, over)
    return found


def _balance(currency: Currency, spent: Sequence[Charge], bounds: Sequence[Total], shift: timedelta | None) -> Balance:
    used = _sum(spent, currency, shift).as_cost()
    if not bounds:
        return Balance(currency, used, None, None, shift)
    total, left = _left((), currency, bounds, shift), _left(spent, currency, bounds, shift)
    return Balance(currency, used, total, left, shift)


def _largest_shift(shifts: Iterable[timedelta | None]) -> timedelta | None:
    return max((shift for shift in shifts if shift is not None), default=None)


def _declared(charges: Sequence[Charge], totals: Mapping[Currency, Cost | None]) -> dict[Currency, Total]:
    """The policy's totals; that of ``metric`` is meant per the largest shift which this release charges."""
    shift = _largest_shift(charge.shift for charge in charges)
    found = {}
    for currency, total in totals.items():
        if total is not None and (currency != "metric" or shift is not None):
            found[currency] = Total(total, shift if currency == "metric" else None)
    return found


def _fresh_id() -> str:
    return "".join(secrets.choice(ascii_lowercase) for _ in range(20))


def _known(url: str, writing: Writing, release: str) -> Record:
    for record in records_of(url, writing.entries, None):
        if record.id == release:
            return record
    raise LedgerError(url, f"knows no release {release}")
