"""What a release would mean for a dataset's budget."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from cloakwork.base.costs import Charge, Cost
from cloakwork.ledger.account import (
    Account,
    Balance,
    BudgetTerms,
    largest_shift,
    sum_against,
)
from cloakwork.ledger.books import Book, DeclaredTotal
from cloakwork.ledger.declarations import NOTHING_DECLARED, DatasetDeclaration
from cloakwork.ledger.records import Record
from cloakwork.ledger.windows import concerns_same


@dataclass(frozen=True, slots=True)
class BudgetForecast:
    """What a release would mean for the budget: per book before it, itself, and after it; and what
    no budget bounds.

    Of a book with an account for each window: that of the window that is released, or all of them.
    ``without_dp``: how many earlier releases, of cases or persons that may be in this one too,
    carry no DP guarantee (k-anonymity and the like). ``declaration``: what the dataset is declared
    with.
    """

    before: tuple[Balance, ...]
    cost: tuple[Cost, ...]
    after: tuple[Balance, ...]
    earlier: int
    without_dp: int
    declaration: DatasetDeclaration = NOTHING_DECLARED


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
    before = account.with_release((), totals, terms.cases_per_unit)
    after = before.with_release(charges, (), {})
    shift = largest_shift(charges)
    books = [
        book for book in after.books() if book.currency != "local" or _is_charged(book, charges)
    ]
    accounts = [
        (book, window)
        for book in books
        for window in ([terms.window] if terms.window is not None else after.accounts(book))
    ]
    balances = tuple(after.balance(book, shift, window) for book, window in accounts)
    costs = []
    for balance in balances:
        over = shift or before.balance(balance.book).shift
        cost, _ = sum_against(charges, _zero_total(balance, over), after.cases)
        costs.append(cost.as_cost())
    return BudgetForecast(
        before=tuple(before.balance(book, shift, window) for book, window in accounts),
        cost=tuple(costs),
        after=balances,
        earlier=sum(not record.failed_before_release for record in records),
        without_dp=sum(
            record.without_dp and concerns_same(record, terms.window, terms.unit)
            for record in records
        ),
    )


def _zero_total(balance: Balance, shift: timedelta | None) -> DeclaredTotal:
    """A total of nothing that counts what the book counts."""
    return DeclaredTotal(balance.book, Cost(epsilon=0.0), shift, balance.apart_from)


def _is_charged(book: Book, charges: Iterable[Charge]) -> bool:
    return any(charge.currency == book.currency for charge in charges)
