"""What one dataset's releases have spent, book by book, and whether another release fits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from cloakwork.accounting.books import (
    METRIC,
    NOTHING,
    Amount,
    Book,
    Total,
    counted,
    counted_in,
    steps_over,
)
from cloakwork.accounting.charge import Charge
from cloakwork.accounting.records import Record, told_by_policy
from cloakwork.budget import Cost, Currency
from cloakwork.errors import BudgetExceeded, Cause, PlanImpossible
from cloakwork.facts import CASE

CURRENCIES: Final[tuple[Currency, ...]] = ("unit", "metric", "local")


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """What a policy declares about its dataset's budget.

    ``unit``: its protected unit by name. ``totals``: by currency; that of ``unit`` is its own
    unit's. ``books``: totals by unit that are kept apart from each other. ``cases_per_unit``: by
    attribute, the most cases of the dataset that one unit owns.
    """

    unit: str = CASE
    totals: Mapping[Currency, Cost | None] = field(default_factory=dict)
    books: Mapping[str, Cost] = field(default_factory=dict)
    cases_per_unit: Mapping[str, int] = field(default_factory=dict)

    def apart_from(self, unit: str | None) -> tuple[str, ...]:
        """The units whose books are kept apart from that of ``unit``; none unless ``books`` lists
        it and others.
        """
        return tuple(sorted(self.books.keys() - {unit})) if unit in self.books else ()

    def declared(
        self, charges: Sequence[Charge], records: Sequence[Record] = ()
    ) -> tuple[Total, ...]:
        """The totals, each with its book; that of ``metric`` is meant per the largest shift which
        this release charges, or else that any release of the dataset charged.
        """
        found = [
            Total(Book("unit", unit), cost, apart_from=self.apart_from(unit))
            for unit, cost in self.books.items()
        ]
        shift = _largest(charges) or _largest(
            charge for record in records for charge in record.charges
        )
        for currency, cost in self.totals.items():
            if cost is None or (currency == "unit" and self.unit in self.books):
                continue
            if currency == "unit":
                found.append(Total(Book("unit", self.unit), cost))
            elif currency == "local":
                kept = {charge.unit for charge in charges if charge.currency == "local"} or {
                    "value"
                }
                found += [Total(Book("local", unit), cost) for unit in sorted(kept, key=str)]
            elif shift is not None or any(charge.times for charge in charges):
                found.append(Total(METRIC, cost, shift))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Balance:
    """One book of a dataset: ``spent`` rounded up, ``left`` rounded down; both per ``shift`` for
    metric privacy.

    ``total`` is the smallest that a policy ever declared, None where none did; ``left`` is then
    None too. ``unconverted``: units whose charges cannot be converted, and are not in ``spent``.
    ``apart_from``: units whose charges the book does not count, as every total of it declares.
    """

    book: Book
    spent: Cost
    total: Cost | None
    left: Cost | None
    shift: timedelta | None = None
    unconverted: tuple[str, ...] = ()
    apart_from: tuple[str, ...] = ()

    @property
    def currency(self) -> Currency:
        """The currency of the book."""
        return self.book.currency


@dataclass(frozen=True, slots=True)
class BudgetForecast:
    """What a release would mean for the budget: per book before it, itself, and after it; and what
    no budget bounds.

    ``without_dp``: how many earlier releases of the dataset carry no DP guarantee (k-anonymity and
    its kin).
    """

    before: tuple[Balance, ...]
    cost: tuple[Cost, ...]
    after: tuple[Balance, ...]
    earlier: int
    without_dp: int


@dataclass(frozen=True, slots=True)
class Account:
    """The charges, declared totals and declared bounds of one dataset, in order."""

    charges: tuple[Charge, ...] = ()
    totals: tuple[Total, ...] = ()
    cases: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Account":
        """What the records say. The largest bound ever declared on a person's cases is the one that
        holds.
        """
        account = cls()
        for record in records:
            account = account.plus(record.charges, record.totals, record.cases_per_unit)
        return account

    def plus(
        self, charges: Iterable[Charge], totals: Iterable[Total], cases: Mapping[str, int]
    ) -> "Account":
        """The account after one more release."""
        most = {
            unit: max(self.cases.get(unit, 1), cases.get(unit, 1))
            for unit in {**self.cases, **cases}
        }
        return Account((*self.charges, *charges), (*self.totals, *totals), most)

    def books(self) -> tuple[Book, ...]:
        """Every book that was charged or given a total, by currency, in order of first use."""
        used = [total.book for total in self.totals]
        used += [
            Book(charge.currency, charge.unit)
            for charge in self.charges
            if charge.currency != "none"
        ]
        used += [METRIC for charge in self.charges if charge.times is not None]
        # Where an older entry does not say whom it protected, its figures are kept per case.
        found = dict.fromkeys(Book("unit", CASE) if book == Book("unit") else book for book in used)
        return tuple(sorted(found, key=lambda book: CURRENCIES.index(book.currency)))

    def bounds(self, book: Book) -> tuple[Total, ...]:
        """The totals that bind ``book``: its own, and those of older entries that do not say for
        whom.
        """
        shift = _largest(self.charges) if book == METRIC else None
        own = [
            total
            for total in self.totals
            if total.book in (book, Book("unit") if book.currency == "unit" else book)
        ]
        return tuple(replace(total, book=book, shift=total.shift or shift) for total in own)

    def balance(self, book: Book, shift: timedelta | None = None) -> Balance:
        """What is spent and left in ``book``, per ``shift`` for metric privacy."""
        over = None
        bounds = self.bounds(book)
        if book == METRIC:
            known = [bound.shift for bound in bounds if bound.shift is not None]
            over = shift or max(
                [*known, *([found] if (found := _largest(self.charges)) else [])], default=None
            )
        apart = (
            tuple(sorted(set.intersection(*(set(bound.apart_from) for bound in bounds))))
            if bounds
            else ()
        )
        measure = Total(book, Cost(epsilon=0.0), over, apart)
        used, missing = _sum(self.charges, measure, self.cases)
        total = left = None
        if bounds:
            divisors = [steps_over(bound.shift, over) for bound in bounds]
            total = _least(
                NOTHING.left_of(b.cost, d) for b, d in zip(bounds, divisors, strict=True)
            )
            left = _least(
                _sum(self.charges, bound, self.cases)[0].left_of(bound.cost, divisor)
                for bound, divisor in zip(bounds, divisors, strict=True)
            )
        return Balance(book, used.as_cost(), total, left, over, missing, apart)


def require_fit(
    dataset: str,
    account: Account,
    charges: Sequence[Charge],
    totals: Sequence[Total],
    terms: BudgetTerms,
    policy: str,
) -> None:
    """Raise unless what is spent and what is asked can be added up, and fits every total ever
    declared for the dataset.

    Raises PlanImpossible where a charge cannot be converted into another unit's book and the policy
    does not keep the two apart, BudgetExceeded where a total is exceeded.
    """
    after = account.plus(charges, totals, terms.cases_per_unit)
    causes = tuple(_unconvertible(dataset, account, charges, terms, after))
    if causes:
        raise PlanImpossible(causes, policy=policy)
    for book in after.books():
        for bound in after.bounds(book):
            asked, _ = _sum(charges, bound, after.cases)
            if asked == NOTHING:
                continue
            spent, _ = _sum(after.charges, bound, after.cases)
            if not spent.within(bound.cost):
                raise _exceeded(dataset, account, charges, totals, bound, after)


def _exceeded(
    dataset: str,
    account: Account,
    charges: Sequence[Charge],
    totals: Sequence[Total],
    bound: Total,
    after: Account,
) -> BudgetExceeded:
    book = bound.book
    shift = _largest(charges) or bound.shift
    requested = _sum(charges, replace(bound, shift=shift), after.cases)[0].as_cost()
    bounds = after.bounds(book)
    left = _least(
        _sum(account.charges, each, after.cases)[0].left_of(
            each.cost, steps_over(each.shift, shift)
        )
        for each in bounds
    )
    own = [total for total in totals if total.book == book]
    fits_own = all(_sum(after.charges, total, after.cases)[0].within(total.cost) for total in own)
    return BudgetExceeded(
        dataset,
        book.currency,
        (requested.epsilon, requested.delta),
        (left.epsilon, left.delta),
        reason=_RAISED if fits_own else None,
        unit=book.unit if book.currency == "unit" else None,
    )


_RAISED: Final = (
    "an earlier release was made under a tighter total, which its statement printed: "
    "a later policy may lower a dataset's total, never raise it"
)


def _unconvertible(
    dataset: str, account: Account, charges: Sequence[Charge], terms: BudgetTerms, after: Account
) -> Iterator[Cause]:
    """Why what was charged and what is asked cannot be added up."""
    asked = [charge for charge in charges if charge.currency in ("unit", "local")]
    pairs = [
        (charge, Book(charge.currency, own.unit))
        for own in asked
        for charge in account.charges
        if charge.currency != "none" and charge.currency == own.currency
    ]
    kept = [book for book in account.books() if book != METRIC]
    pairs += [(own, book) for own in asked for book in kept if book.currency == own.currency]
    for charge, book in dict.fromkeys(pairs):
        if counted_in(charge, book, after.cases) is not None:
            continue
        apart = book.currency == "unit" and charge.unit in terms.apart_from(book.unit)
        if apart and all(charge.unit in bound.apart_from for bound in after.bounds(book)):
            continue
        yield Cause(f"budget of dataset '{dataset}'", _why_not(charge, book, apart))


def _why_not(charge: Charge, book: Book, apart: bool) -> str:
    """Say what is missing, and what to declare. ``apart``: kept apart by this policy, and not by an
    earlier one.
    """
    charged = (
        "for a unit that its entry does not name" if charge.unit is None else f"per '{charge.unit}'"
    )
    opening = f"what was charged {charged} cannot be added up per '{book.unit}'"
    if book.currency == "local":
        return f"{opening}: how many values a case has is not declared"
    if apart:
        opening += f", and an earlier release declared a total per '{book.unit}' that counts it"
    ways = []
    if charge.unit in (CASE, None):
        ways.append(
            f'declare assume.cases_per_unit: {{"{book.unit}": M}}, M the most cases of the dataset that one of them owns'
        )
    if charge.unit is not None and not apart:
        ways.append(
            f'keep the two apart under budget.books, "{charge.unit}" and "{book.unit}" each with its own total'
        )
    if charge.unit is None:
        ways.append("let 'cloakwork ledger reconcile DIR' read it from the release in DIR")
    return f"{opening}; {', or '.join(ways) or 'no later policy may loosen that total'}"


def outlook(
    records: Sequence[Record],
    charges: Sequence[Charge],
    totals: Sequence[Total],
    terms: BudgetTerms,
) -> BudgetForecast:
    """What a release with these charges would mean; ``records``: the dataset's earlier ones."""
    before = Account.of(records).plus((), totals, terms.cases_per_unit)
    after = before.plus(charges, (), {})
    shift = _largest(charges)
    books = [book for book in after.books() if book.currency != "local" or _touched(book, charges)]
    balances = tuple(after.balance(book, shift) for book in books)
    return BudgetForecast(
        before=tuple(before.balance(book, shift) for book in books),
        cost=tuple(
            _sum(
                charges, _measure(balance, shift or before.balance(balance.book).shift), after.cases
            )[0].as_cost()
            for balance in balances
        ),
        after=balances,
        earlier=sum(not record.came_to_nothing for record in records),
        without_dp=sum(record.without_dp for record in records),
    )


def _measure(balance: Balance, shift: timedelta | None) -> Total:
    """A total of nothing that counts what the book counts."""
    return Total(balance.book, Cost(epsilon=0.0), shift, balance.apart_from)


def _touched(book: Book, charges: Iterable[Charge]) -> bool:
    return any(charge.currency == book.currency for charge in charges)


def informed(
    records: tuple[Record, ...], policy_digest: str, unit: str, charges: Sequence[Charge]
) -> tuple[Record, ...]:
    """The records; older ones under the policy of the release at hand learn from it whom they
    protected.
    """
    return told_by_policy(records, [(policy_digest, unit, tuple(charges))])


def _sum(
    charges: Iterable[Charge], total: Total, cases: Mapping[str, int]
) -> tuple[Amount, tuple[str, ...]]:
    """All that counts against ``total``, and the units whose charges cannot be converted into its
    book.
    """
    amount, missing = NOTHING, dict[str, None]()
    for charge in charges:
        part = counted(charge, total, cases)
        if part is None:
            missing[charge.unit or "a unit that is not named"] = None
        elif part is not NOTHING:
            amount += part
    return amount, tuple(missing)


def _least(costs: Iterable[Cost]) -> Cost:
    found = list(costs)
    return Cost(
        epsilon=min(cost.epsilon for cost in found), delta=min(cost.delta for cost in found)
    )


def _largest(charges: Iterable[Charge]) -> timedelta | None:
    return max((charge.shift for charge in charges if charge.shift is not None), default=None)
