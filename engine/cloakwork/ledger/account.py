"""What one dataset's releases have spent, book by book, and whether another release fits.

A book per case (and so those of single values) has one account for each window of a log that
grows: what was charged in the window, and what was charged for whatever window (a release of the
whole log, or one that protects persons). No case is released in two windows, so none risks more
than the fullest of these accounts says (parallel composition: McSherry 2009, theorem 4). A person
may have cases in every window: a book per person counts all charges.

That no case is released in two windows, whatever becomes of its data, is seen to by a record: a
keyed hash of its id, written before its first release (``case_hashes``). Windows go by a case's own
data, and the record by its own former releases, so neither depends on anybody else.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from typing import Final

from cloakwork.base.costs import Charge, Cost, Currency, cost_text
from cloakwork.base.errors import CURRENCY_WORDS, BudgetExceeded, Cause, PlanImpossible
from cloakwork.base.facts import CASE
from cloakwork.base.frozen import frozen
from cloakwork.base.notebook_html import shown, table
from cloakwork.base.quantities import format_duration
from cloakwork.ledger.books import (
    METRIC,
    NOTHING,
    Amount,
    Book,
    DeclaredTotal,
    cost_against_total,
    cost_in_book,
    shifts_covering,
)
from cloakwork.ledger.records import Record

CURRENCIES: Final[tuple[Currency, ...]] = ("unit", "metric", "local")


@frozen
class BudgetTerms:
    """What a policy declares about its dataset's budget.

    ``unit``: its protected unit by name. ``totals``: by currency; that of ``unit`` is its own
    unit's. ``books``: totals by unit that are kept apart from each other. ``cases_per_unit``: by
    attribute, the most cases of the dataset that one unit owns. ``every``: how long its windows
    are, for a log that grows; ``window``: the one that is released.
    """

    unit: str = CASE
    totals: Mapping[Currency, Cost | None] = field(default_factory=dict)
    books: Mapping[str, Cost] = field(default_factory=dict)
    cases_per_unit: Mapping[str, int] = field(default_factory=dict)
    window: str | None = None
    every: str | None = None

    def apart_from(self, unit: str | None) -> tuple[str, ...]:
        """The units whose books are kept apart from that of ``unit``; none unless ``books`` lists
        it and others.
        """
        if unit not in self.books:
            return ()
        return tuple(sorted(self.books.keys() - {unit}))

    def declared(
        self, charges: Sequence[Charge], records: Sequence[Record] = ()
    ) -> tuple[DeclaredTotal, ...]:
        """The totals, each with its book; that of ``metric`` is meant per the largest shift which
        this release charges, or else that any release of the dataset charged.
        """
        # Books that are listed stand each for itself; the others follow from the totals.
        found = [
            DeclaredTotal(Book("unit", unit), cost, apart_from=self.apart_from(unit))
            for unit, cost in self.books.items()
        ]
        shift = largest_shift(charges) or largest_shift(
            charge for record in records for charge in record.charges
        )
        for currency, cost in self.totals.items():
            if cost is None or (currency == "unit" and self.unit in self.books):
                continue
            if currency == "unit":
                found.append(DeclaredTotal(Book("unit", self.unit), cost))
            elif currency == "local":
                # One book for whatever unit is charged; per value where nothing is.
                units = {charge.unit for charge in charges if charge.currency == "local"}
                for unit_of_local in sorted(units or {"value"}, key=str):
                    found.append(DeclaredTotal(Book("local", unit_of_local), cost))
            elif shift is not None or any(charge.times for charge in charges):
                found.append(DeclaredTotal(METRIC, cost, shift))
        return tuple(found)


@frozen
class Balance:
    """One book of a dataset: ``spent`` rounded up, ``left`` rounded down; both per ``shift`` for
    metric privacy.

    ``total`` is the smallest that a policy ever declared, None where none did; ``left`` is then
    None too. ``unconverted``: units whose charges cannot be converted, and are not in ``spent``.
    ``apart_from``: units whose charges the book does not count, as every total of it declares.
    ``window``: whose account it is, where the book has one for each window of a growing log and
    this one was released; None: any other.
    """

    book: Book
    spent: Cost
    total: Cost | None
    left: Cost | None
    shift: timedelta | None = None
    unconverted: tuple[str, ...] = ()
    apart_from: tuple[str, ...] = ()
    window: str | None = None

    @property
    def currency(self) -> Currency:
        """The currency of the book."""
        return self.book.currency

    def _repr_html_(self) -> str:
        return shown("Budget", budgets_html([self]))


def budgets_html(balances: Iterable[Balance]) -> str:
    """A table of books as notebooks show it."""
    rows = []
    for balance in balances:
        name = f"{CURRENCY_WORDS[balance.currency]} ({balance.book.name}"
        if balance.shift is not None:
            name += f", per {format_duration(balance.shift)}"
        if balance.window is not None:
            name += f", window {balance.window}"
        name += ")"
        if balance.unconverted:
            name += f"; lacks charges per {', '.join(balance.unconverted)}"
        costs = (balance.spent, balance.left, balance.total)
        shown_costs = [cost_text(cost, digits=6) or "no total is declared" for cost in costs]
        rows.append((name, *shown_costs))
    return table(("budget", "spent", "left", "total"), rows)


@frozen
class Account:
    """The charges, binding totals and declared bounds of one dataset, in order."""

    charges: tuple[Charge, ...] = ()
    totals: tuple[DeclaredTotal, ...] = ()
    cases: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Account":
        """What the records say. The largest bound ever declared on a person's cases is the one that
        holds.
        """
        account = cls()
        for record in records:
            totals = binding(record.totals, record.charges, record.cases_per_unit)
            account = account.with_release(record.charges, totals, record.cases_per_unit)
        return account

    def with_release(
        self, charges: Iterable[Charge], totals: Iterable[DeclaredTotal], cases: Mapping[str, int]
    ) -> "Account":
        """The account after one more release."""
        # A bound that was declared once is never taken back by a smaller one.
        most = dict(self.cases)
        for unit, count in cases.items():
            most[unit] = max(most.get(unit, 1), count)
        return Account((*self.charges, *charges), (*self.totals, *totals), most)

    def books(self) -> tuple[Book, ...]:
        """Every book that was charged or given a total, by currency, in order of first use."""
        used = [total.book for total in self.totals]
        for charge in self.charges:
            if charge.currency != "none":
                used.append(Book(charge.currency, charge.unit))
        if any(charge.times is not None for charge in self.charges):
            used.append(METRIC)
        # A total that is declared for whatever unit is shown per case.
        named = [Book("unit", CASE) if book == Book("unit") else book for book in used]
        in_order_of_use = dict.fromkeys(named)
        return tuple(sorted(in_order_of_use, key=lambda book: CURRENCIES.index(book.currency)))

    def bounds(self, book: Book) -> tuple[DeclaredTotal, ...]:
        """The totals that bind ``book``: its own, and what a dataset declares for whatever unit."""
        shift = largest_shift(self.charges) if book == METRIC else None
        # What a dataset declares for whatever unit stands in a book without one.
        own_books = {book}
        if book.currency == "unit":
            own_books.add(Book("unit"))
        own = [total for total in self.totals if total.book in own_books]
        bounds = (replace(total, book=book, shift=total.shift or shift) for total in own)
        # Releases of one policy declare the same total again and again.
        return tuple(dict.fromkeys(bounds))

    def accounts(self, book: Book) -> tuple[str | None, ...]:
        """The accounts of ``book``: None, for windows without releases, then the others by name."""
        if not book.by_window:
            return (None,)
        named = {charge.window for charge in self.charges if charge.window is not None}
        return (None, *sorted(named))

    def within(self, book: Book, window: str | None) -> "Account":
        """What counts in the account of ``window`` in ``book``."""
        return replace(self, charges=_counted_in(self.charges, book, window))

    def balance(
        self, book: Book, shift: timedelta | None = None, window: str | None = None
    ) -> Balance:
        """What is spent and left in ``book``, per ``shift`` for metric privacy; in the account of
        ``window``, where it has one for each.
        """
        own = self.within(book, window)
        bounds = own.bounds(book)
        over = None
        if book == METRIC:
            over = shift or largest_shift([*own.charges, *bounds])
        # The units that every total of the book leaves out.
        apart = [set(bound.apart_from) for bound in bounds]
        apart_from = tuple(sorted(set.intersection(*apart))) if apart else ()
        nothing_declared = DeclaredTotal(book, Cost(epsilon=0.0), over, apart_from)
        used, unconverted = sum_against(own.charges, nothing_declared, self.cases)
        # What is left of each total; the least of them binds.
        totals = []
        remainders = []
        for bound in bounds:
            divisor = shifts_covering(bound.shift, over)
            spent, _ = sum_against(own.charges, bound, self.cases)
            totals.append(NOTHING.left_of(bound.cost, divisor))
            remainders.append(spent.left_of(bound.cost, divisor))
        return Balance(
            book=book,
            spent=used.as_cost(),
            total=_least_cost(totals) if bounds else None,
            left=_least_cost(remainders) if bounds else None,
            shift=over,
            unconverted=unconverted,
            apart_from=apart_from,
            window=window if book.by_window else None,
        )


def binding(
    totals: Iterable[DeclaredTotal], charges: Sequence[Charge], cases: Mapping[str, int]
) -> tuple[DeclaredTotal, ...]:
    """The totals of a release that bind later ones: those of the books in which it spends, which
    are those that its statement prints; and of books that are kept apart.
    """
    return tuple(
        total
        for total in totals
        if total.apart_from
        or any(cost_against_total(charge, total, cases) != NOTHING for charge in charges)
    )


def _counted_in(charges: Iterable[Charge], book: Book, window: str | None) -> tuple[Charge, ...]:
    """The charges that count in the account of ``window``; None: of a window without releases."""
    if not book.by_window:
        return tuple(charges)
    return tuple(charge for charge in charges if charge.window in (None, window))


# --- whether a release fits


def require_same_period(
    dataset: str, records: Sequence[Record], every: str | None, policy: str
) -> None:
    """Raise PlanImpossible where the dataset has windows of another length already: windows that
    overlap would hold the same cases.
    """
    if every is None:
        return
    for record in records:
        if record.every not in (None, every):
            reason = (
                f"its windows are of {record.every}, by release {record.id} "
                f"({record.window}): a case would be in two windows; say every: {record.every}"
            )
            cause = Cause(f"budget.windows of dataset '{dataset}'", reason)
            raise PlanImpossible([cause], policy=policy)


def require_fit(
    dataset: str,
    account: Account,
    charges: Sequence[Charge],
    totals: Sequence[DeclaredTotal],
    terms: BudgetTerms,
    policy: str,
) -> None:
    """Raise unless what is spent and what is asked can be added up, and fits every total ever
    declared for the dataset.

    Raises PlanImpossible where a charge cannot be converted into another unit's book and the policy
    does not keep the two apart, BudgetExceeded where a total is exceeded.
    """
    # First whether it can be added up at all, then whether it fits.
    after = account.with_release(charges, totals, terms.cases_per_unit)
    causes = tuple(_unconvertible_causes(dataset, account, charges, terms, after))
    if causes:
        raise PlanImpossible(causes, policy=policy)
    exceeded = next(_exceeded(charges, after), None)
    if exceeded is None:
        return
    fits = _what_fits(
        charges,
        lambda asked: account.with_release(asked, totals, terms.cases_per_unit),
    )
    book = exceeded.bound.book
    window = exceeded.window
    raise _budget_exceeded(
        dataset,
        account.within(book, window),
        _counted_in(charges, book, window),
        totals,
        exceeded.bound,
        after.within(book, window),
        window,
        fits,
    )


@frozen
class _Exceeded:
    """A total that a release would exceed, in the account of ``window``."""

    bound: DeclaredTotal
    window: str | None


def _exceeded(charges: Sequence[Charge], after: Account) -> Iterator[_Exceeded]:
    """The totals that are exceeded ``after`` a release with these charges."""
    for book in after.books():
        for window in after.accounts(book):
            own = _counted_in(charges, book, window)
            if not own:
                continue
            spending = after.within(book, window)
            for bound in after.bounds(book):
                # What costs nothing in this book is not refused for what others spent in it.
                asked, _ = sum_against(own, bound, after.cases)
                spent, _ = sum_against(spending.charges, bound, after.cases)
                if asked != NOTHING and not spent.within(bound.cost):
                    yield _Exceeded(bound, window)


def _what_fits(
    charges: Sequence[Charge], after: Callable[[Sequence[Charge]], Account]
) -> tuple[float, float] | None:
    """The largest epsilon, with its delta, at which the dearest charge fits and all others scaled
    alike; with less delta only where no epsilon fits otherwise. None where nothing does.
    """
    dearest = max(
        (charge.cost for charge in charges if charge.currency != "none"),
        key=lambda cost: cost.epsilon,
    )

    def scaled(charge: Charge, share: float, of_delta: float) -> Charge:
        if charge.currency == "none":
            return charge
        cost = Cost(epsilon=share * charge.cost.epsilon, delta=of_delta * charge.cost.delta)
        return charge.model_copy(update={"cost": cost})

    def fits(share: float, of_delta: float) -> bool:
        asked = [scaled(charge, share, of_delta) for charge in charges]
        return next(_exceeded(asked, after(asked)), None) is None

    for of_delta in (1.0, 0.1, 0.01, 0.0):
        least = 0.0
        most = 1.0
        for _ in range(20):
            middle = (least + most) / 2
            least, most = (middle, most) if fits(middle, of_delta) else (least, middle)
        largest = least * dearest.epsilon
        if not _LEAST_EPSILON <= largest < math.inf:
            continue
        # Two digits, as people write; rounded down where it does not fit else.
        unit = 10.0 ** (math.floor(math.log10(largest)) - 1)
        for steps in (round(largest / unit), math.floor(largest / unit)):
            epsilon = round(steps * unit, 12)
            if fits(epsilon / dearest.epsilon, of_delta):
                return epsilon, of_delta * dearest.delta
    return None


_LEAST_EPSILON: Final = 1e-4
"""Less than this is not proposed."""


def _budget_exceeded(
    dataset: str,
    account: Account,
    charges: Sequence[Charge],
    totals: Sequence[DeclaredTotal],
    bound: DeclaredTotal,
    after: Account,
    window: str | None,
    fits: tuple[float, float] | None,
) -> BudgetExceeded:
    book = bound.book
    shift = largest_shift(charges) or bound.shift
    requested = sum_against(charges, replace(bound, shift=shift), after.cases)[0].as_cost()
    remainders = [
        sum_against(account.charges, each, after.cases)[0].left_of(
            each.cost, shifts_covering(each.shift, shift)
        )
        for each in after.bounds(book)
    ]
    left = _least_cost(remainders)
    # The policy's own total may fit while an earlier, tighter one does not.
    own = [total for total in totals if total.book == book]
    fits_own = all(
        sum_against(after.charges, total, after.cases)[0].within(total.cost) for total in own
    )
    reason = _TIGHTER_EARLIER if fits_own else None
    if bound.of_dataset:
        reason = _TIGHTER_DECLARED.format(cost=bound.cost)
    return BudgetExceeded(
        dataset,
        book.currency,
        (requested.epsilon, requested.delta),
        (left.epsilon, left.delta),
        reason=reason,
        unit=book.unit if book.currency == "unit" else None,
        window=window,
        fits=fits,
    )


_TIGHTER_DECLARED: Final = (
    "the dataset is declared with a total of epsilon {cost.epsilon:g}, delta {cost.delta:g} "
    "('cloakwork dataset show')"
)

_TIGHTER_EARLIER: Final = (
    "an earlier release was made under a tighter total, which its statement printed: "
    "a later policy may lower a dataset's total, never raise it"
)


def _unconvertible_causes(
    dataset: str, account: Account, charges: Sequence[Charge], terms: BudgetTerms, after: Account
) -> Iterator[Cause]:
    """Why what was charged and what is asked cannot be added up."""
    asked = [charge for charge in charges if charge.currency in ("unit", "local")]
    pairs: list[tuple[Charge, Book]] = []
    # What was charged must count in the books of what is asked, ...
    for own in asked:
        for charge in account.charges:
            if charge.currency == own.currency and charge.currency != "none":
                pairs.append((charge, Book(charge.currency, own.unit)))
    # ... and what is asked in the books that were kept so far.
    for own in asked:
        same_books = [book for book in account.books() if book.currency == own.currency]
        pairs += [(own, book) for book in same_books]
    for charge, book in dict.fromkeys(pairs):
        if cost_in_book(charge, book, after.cases) is not None:
            continue
        # Kept apart only where every total of the book leaves that unit out.
        apart = book.currency == "unit" and charge.unit in terms.apart_from(book.unit)
        if apart and all(charge.unit in bound.apart_from for bound in after.bounds(book)):
            continue
        yield Cause(f"budget of dataset '{dataset}'", _explain_unconvertible(charge, book, apart))


def _explain_unconvertible(charge: Charge, book: Book, apart: bool) -> str:
    """Say what is missing, and what to declare. ``apart``: kept apart by this policy, and not by an
    earlier one.
    """
    opening = f"what is charged per '{charge.unit}' cannot be added up per '{book.unit}'"
    if book.currency == "local":
        return f"{opening}: how many values a case has is not declared"
    if apart:
        opening += f", and an earlier release declared a total per '{book.unit}' that counts it"
    # What the policy may declare for the two to be added up, or kept apart.
    ways = []
    if charge.unit == CASE:
        ways.append(
            f'declare assume.cases_per_unit: {{"{book.unit}": M}}, '
            "M the most cases of the dataset that one of them owns"
        )
    if not apart:
        ways.append(
            f'keep the two apart under budget.books, "{charge.unit}" and "{book.unit}" '
            "each with its own total"
        )
    if not ways:
        return f"{opening}; no later policy may loosen that total"
    return f"{opening}; {', or '.join(ways)}"


def sum_against(
    charges: Iterable[Charge], total: DeclaredTotal, cases: Mapping[str, int]
) -> tuple[Amount, tuple[str, ...]]:
    """All that counts against ``total``, and the units whose charges cannot be converted into its
    book.
    """
    amount = NOTHING
    missing: dict[str, None] = {}
    for charge in charges:
        part = cost_against_total(charge, total, cases)
        if part is None:
            missing[str(charge.unit)] = None
        elif part is not NOTHING:
            amount += part
    return amount, tuple(missing)


def _least_cost(costs: Sequence[Cost]) -> Cost:
    epsilon = min(cost.epsilon for cost in costs)
    delta = min(cost.delta for cost in costs)
    return Cost(epsilon=epsilon, delta=delta)


def largest_shift(charged: Iterable[Charge | DeclaredTotal]) -> timedelta | None:
    """The largest shift that is charged or declared; None without a metric one."""
    shifts = [each.shift for each in charged if each.shift is not None]
    return max(shifts, default=None)
