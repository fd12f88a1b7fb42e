"""Which releases of a growing log concern the same cases: what its windows mean for the books.

A book per case (and so those of single values) has one account for each window: what was charged
in the window, and what was charged for whatever window (a release of the whole log, or one that
protects persons). No case is released in two windows, so none risks more than the fullest of these
accounts says (parallel composition: McSherry 2009, theorem 4). A person may have cases in every
window: a book per person counts all charges.

That no case is released in two windows, whatever becomes of its data, is seen to by a record: a
keyed hash of its id, written before its first release. Windows go by a case's own data, and the
record by its own former releases, so neither depends on anybody else. The records lie outside of
the chain of entries (``accounting._tables``).
"""

from collections.abc import Iterable, Sequence

from cloakwork.base.costs import Charge
from cloakwork.base.errors import Cause, PlanImpossible
from cloakwork.base.facts import CASE
from cloakwork.ledger.books import Book
from cloakwork.ledger.records import Record


def is_by_window(book: Book) -> bool:
    """Whether each window has an account of its own in ``book``."""
    return book.currency != "unit" or book.unit in (CASE, None)


def counted_in(charges: Iterable[Charge], book: Book, window: str | None) -> tuple[Charge, ...]:
    """The charges that count in the account of ``window``; None: of a window without releases."""
    if not is_by_window(book):
        return tuple(charges)
    return tuple(charge for charge in charges if charge.window in (None, window))


def accounts_of(charges: Iterable[Charge], book: Book) -> tuple[str | None, ...]:
    """The accounts of ``book``: None, for windows without releases, then the others by name."""
    if not is_by_window(book):
        return (None,)
    return (None, *sorted({charge.window for charge in charges if charge.window is not None}))


def concerns_same(record: Record, window: str | None, unit: str | None) -> bool:
    """Whether a release may hold cases, or persons, of one of ``window`` that protects ``unit``;
    None: of the whole log.
    """
    per_case = unit == record.unit == CASE
    return not per_case or None in (record.window, window) or record.window == window


def was_recorded(record: Record) -> bool:
    """Whether the cases of a release were recorded with its window before it was committed."""
    return record.state == "committed" and record.window is not None and record.unit == CASE


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
            raise PlanImpossible(
                [Cause(f"budget.windows of dataset '{dataset}'", reason)], policy=policy
            )
