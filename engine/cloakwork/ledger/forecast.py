"""What a release would mean for a dataset's budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from cloakwork.base.costs import Charge, Cost
from cloakwork.ledger.account import Account, Balance, BudgetTerms, largest_shift, sum_against
from cloakwork.ledger.books import DeclaredTotal
from cloakwork.ledger.declarations import NOTHING_DECLARED, DatasetDeclaration
from cloakwork.ledger.records import Record


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
    balances = tuple(after.balance(book, shift, window) for book, window in accounts)
    costs = []
    for balance in balances:
        # A total of nothing counts what the book counts.
        over = shift or before.balance(balance.book).shift
        nothing = DeclaredTotal(balance.book, Cost(epsilon=0.0), over, balance.apart_from)
        cost, _ = sum_against(charges, nothing, after.cases)
        costs.append(cost.as_cost())
    return BudgetForecast(
        before=tuple(before.balance(book, shift, window) for book, window in accounts),
        cost=tuple(costs),
        after=balances,
        earlier=sum(not record.failed_before_release for record in records),
        without_dp=sum(
            record.without_dp and record.concerns_same(terms.window, terms.unit)
            for record in records
        ),
    )
