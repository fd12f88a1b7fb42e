"""The datasets of a ledger: what each is declared with, what its releases spent and what is left,
which other datasets seem to hold the same cases, which comparisons were made.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cloakwork.base.costs import Cost, Currency
from cloakwork.base.errors import CloakworkError
from cloakwork.base.quantities import DATASET_PATTERN
from cloakwork.ledger.account import require_same_period
from cloakwork.ledger.case_hashes import Resemblance, resemblances
from cloakwork.ledger.declarations import (
    LONGEST_NAME,
    DatasetDeclaration,
    DatasetWindows,
    declaration_of,
    declared_cost,
    is_one_line,
)
from cloakwork.ledger.journal import Entry, EventKind
from cloakwork.ledger.ledger import Ledger, Summary
from cloakwork.ledger.records import records_of


@dataclass(frozen=True, slots=True)
class DatasetOverview:
    """All that a ledger knows of one dataset.

    ``overlaps``: other datasets that seem to hold the same cases, read off the raw logs: internal,
    never publish them; None where the ledger may be read but its fingerprints may not.
    ``declared``: the entries that declared it, ``comparisons``: those of comparisons made, both
    oldest first.
    """

    summary: Summary
    overlaps: tuple[Resemblance, ...] | None
    declared: tuple[Entry, ...]
    comparisons: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.summary.dataset

    @property
    def declaration(self) -> DatasetDeclaration:
        """What is in force."""
        return self.summary.declaration


def datasets(ledger: Ledger | str | None = None) -> tuple[DatasetOverview, ...]:
    """Every dataset that was declared or released from, in order of its first entry; raises
    LedgerError where the ledger cannot be read.
    """
    book = Ledger.of(ledger)
    samples = book.fingerprints()
    events = book.events("dataset-declared", "compared")

    def own(kind: EventKind, dataset: str) -> tuple[Entry, ...]:
        return tuple(each for each in events if (each.kind, each.dataset) == (kind, dataset))

    return tuple(
        DatasetOverview(
            summary=summary,
            overlaps=None if samples is None else _overlaps(summary.dataset, samples),
            declared=own("dataset-declared", summary.dataset),
            comparisons=own("compared", summary.dataset),
        )
        for summary in book.summary()
    )


def _overlaps(dataset: str, samples: list[tuple[str, str, str]]) -> tuple[Resemblance, ...]:
    """The largest share of common cases, by other dataset."""
    best: dict[str, Resemblance] = {}
    for _, name, sample in samples:
        if name != dataset:
            continue
        for found in resemblances(sample, dataset, samples):
            known = best.get(found.dataset)
            if known is None or known.share < found.share:
                best[found.dataset] = found
    return tuple(best.values())


def declare_dataset(
    ledger: Ledger | str | None,
    dataset: str,
    *,
    owner: str | None = None,
    unit: str | None = None,
    totals: Mapping[Currency, Cost] | None = None,
    windows: DatasetWindows | None = None,
    require_approval: bool = False,
    reason: str = "",
) -> tuple[DatasetDeclaration, bool]:
    """Declare what holds of ``dataset`` from now on: what is in force then, and whether that is
    new.

    What is not given stays as it was; what is declared already is not written again. The first
    declaration names the owner. Raises PlanImpossible, and writes nothing, where it would loosen
    what was declared or does not fit the windows of earlier releases; CloakworkError for values
    that are none; LedgerError where the ledger cannot be used.
    """
    book = Ledger.of(ledger)
    later = _checked(dataset, owner, unit, totals or {}, windows, require_approval)
    # Somebody must answer for a dataset.
    if owner is None and not book.events("dataset-declared", dataset=dataset):
        raise CloakworkError(f"dataset '{dataset}': its first declaration names its owner")
    held: list[DatasetDeclaration] = []
    body: dict[str, Any] = {"reason": reason} if reason else {}

    def require_tighter(entries: tuple[Entry, ...]) -> None:
        earlier = declaration_of(entries, dataset, book.url)
        combined = earlier.tightened_by(later, dataset)
        held.append(combined)
        # The entry is written after this: it says all that is in force, so the newest one does.
        body.update(combined.fields())
        if combined.windows not in (None, "none"):
            records = records_of(book.url, entries, dataset)
            require_same_period(dataset, records, combined.windows, "dataset")
        if combined == earlier:
            raise _DeclaredAlready

    # The transaction that writes also decides, so two declarations never loosen each other.
    try:
        book.record_event("dataset-declared", dataset, body, require=require_tighter)
    except _DeclaredAlready:
        return held[-1], False
    return held[-1], True


class _DeclaredAlready(Exception):
    """Ends the transaction without an entry."""


def _checked(
    dataset: str,
    owner: str | None,
    unit: str | None,
    totals: Mapping[Currency, Cost],
    windows: DatasetWindows | None,
    require_approval: bool,
) -> DatasetDeclaration:
    """The declaration, or CloakworkError in one line."""
    if not re.fullmatch(DATASET_PATTERN, dataset) or len(dataset) > LONGEST_NAME:
        raise CloakworkError(
            f"dataset {dataset!a}: a name holds letters (a-z, A-Z), digits, '.', '_' and '-', and "
            f"begins with a letter or digit, as in a policy; at most {LONGEST_NAME} characters"
        )
    for what, said in (("owner", owner), ("unit", unit)):
        if said is not None and not (said.strip() and is_one_line(said)):
            raise CloakworkError(
                f"dataset '{dataset}': {what} {said!a}: must be text of one line, "
                f"1 to {LONGEST_NAME} characters"
            )
    try:
        declared = DatasetDeclaration(
            owner=owner,
            unit=unit,
            totals={
                currency: declared_cost(cost.epsilon, cost.delta)
                for currency, cost in totals.items()
            },
            windows=windows,
            require_approval=require_approval,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "name"
        raise CloakworkError(f"dataset {dataset!r}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise CloakworkError(f"dataset {dataset!r}: {error}") from error
    if declared.says_nothing:
        raise CloakworkError(f"dataset {dataset!r}: nothing is declared; say what, such as owner")
    return declared
