"""The datasets of a ledger: what each is declared with, what its releases spent and what is left,
which other datasets seem to hold the same cases, which comparisons were made.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cloakwork.base.costs import Cost, Currency, cost_text
from cloakwork.base.errors import Cause, CloakworkError, PlanImpossible
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import DATASET_PATTERN
from cloakwork.base.text import first_fault, folded
from cloakwork.ledger.account import Account, require_same_period
from cloakwork.ledger.case_hashes import Resemblance, resemblances
from cloakwork.ledger.declarations import (
    LONGEST_NAME,
    DatasetDeclaration,
    DatasetWindows,
    declaration_of,
    declared_cost,
    is_one_line,
    unspent_currencies,
)
from cloakwork.ledger.journal import Entry, EventKind
from cloakwork.ledger.ledger import Ledger, Summary
from cloakwork.ledger.records import records_of


@frozen
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


def datasets(ledger: Ledger | str | Path | None = None) -> tuple[DatasetOverview, ...]:
    """Every dataset that was declared or released from, in order of its first entry; raises
    LedgerError where the ledger cannot be read.
    """
    book = Ledger.of(ledger)
    samples = book.fingerprints()
    events = book.events("dataset-declared", "compared")

    def own(kind: EventKind, dataset: str) -> tuple[Entry, ...]:
        return tuple(each for each in events if each.kind == kind and each.is_of(dataset))

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
        if folded(name) != folded(dataset):
            continue
        for found in resemblances(sample, dataset, samples):
            known = best.get(found.dataset)
            if known is None or known.share < found.share:
                best[found.dataset] = found
    return tuple(best.values())


Sign = Callable[[bytes], Mapping[str, str]]
"""The signature of a text, with the ``keyid`` of whose it is."""


def declare_dataset(
    ledger: Ledger | str | Path | None,
    dataset: str,
    *,
    owner: str | None = None,
    unit: str | None = None,
    totals: Mapping[Currency, Cost] | None = None,
    windows: DatasetWindows | None = None,
    require_approval: bool = False,
    distinct_from: Sequence[str] = (),
    reason: str = "",
    amend: bool = False,
    sign: Sign | None = None,
) -> tuple[DatasetDeclaration, bool]:
    """Declare what holds of ``dataset`` from now on: what is in force then, and whether that is
    new.

    What is not given stays as it was; what is declared already is not written again. The first
    declaration names the owner. ``distinct_from``: other datasets that have some of the same case
    ids and hold other people. ``amend``: totals of which nothing was spent yet may be raised.
    ``sign``: signs what the owner answers for, which are these two.

    Raises PlanImpossible, and writes nothing, where it would loosen what was declared or does not
    fit the windows of earlier releases; CloakworkError for values that are none; LedgerError where
    the ledger cannot be used.
    """
    book = Ledger.of(ledger)
    later = _checked(dataset, owner, unit, totals or {}, windows, require_approval, distinct_from)
    # Somebody must answer for a dataset.
    if owner is None and not book.events("dataset-declared", dataset=dataset):
        raise CloakworkError(f"dataset '{dataset}': its first declaration names its owner")
    held: list[DatasetDeclaration] = []
    body: dict[str, Any] = {"reason": reason} if reason else {}

    def require_tighter(entries: tuple[Entry, ...]) -> None:
        earlier = declaration_of(entries, dataset, book.url)
        records = records_of(book.url, entries, dataset)
        unspent = unspent_currencies(records) if amend else ()
        combined = earlier.tightened_by(later, dataset, unspent)
        if amend:
            _require_raised(dataset, later, Account.of(records))
        held.append(combined)
        # The entry is written after this: it says all that is in force, so the newest one does.
        body.update(combined.fields())
        if combined.windows not in (None, "none"):
            require_same_period(dataset, records, combined.windows, "dataset")
        if combined == earlier:
            raise _DeclaredAlready
        if earlier.is_raised_by(later) or combined.distinct_from != earlier.distinct_from:
            if sign is None:
                raise CloakworkError(f"dataset '{dataset}': its owner has to sign this")
            body["signature"] = dict(sign(signed_text(dataset, body)))

    # The transaction that writes also decides, so two declarations never loosen each other.
    try:
        book.record_event("dataset-declared", dataset, body, require=require_tighter)
    except _DeclaredAlready:
        return held[-1], False
    return held[-1], True


def _require_raised(dataset: str, later: DatasetDeclaration, account: Account) -> None:
    """Raise PlanImpossible where an amendment would raise nothing: what a policy spent under its
    own smaller total is bound by that one for good.
    """
    for total in account.totals:
        asked = later.totals.get(total.book.currency)
        if asked is not None and not asked.is_within(total.cost):
            known = f"{total.book.currency}: a release was made under a total of "
            reason = (
                f"{known}{cost_text(total.cost)}, which binds from then on; amending raises only "
                "what nothing was spent of"
            )
            raise PlanImpossible([Cause(f"dataset '{dataset}'", reason)], policy="dataset")


def signed_text(dataset: str, body: Mapping[str, Any]) -> bytes:
    """What a signature in the body of a declaration is over: all else that it says."""
    said = {key: value for key, value in body.items() if key != "signature"}
    return json.dumps(["cloakwork dataset declaration", dataset, said], sort_keys=True).encode()


class _DeclaredAlready(Exception):
    """Ends the transaction without an entry."""


def _checked(
    dataset: str,
    owner: str | None,
    unit: str | None,
    totals: Mapping[Currency, Cost],
    windows: DatasetWindows | None,
    require_approval: bool,
    distinct_from: Sequence[str],
) -> DatasetDeclaration:
    """The declaration, or CloakworkError in one line."""
    for name in (dataset, *distinct_from):
        if not re.fullmatch(DATASET_PATTERN, name) or len(name) > LONGEST_NAME:
            raise CloakworkError(
                f"dataset {name!a}: a name holds letters (a-z, A-Z), digits, '.', '_' and '-', and "
                f"begins with a letter or digit, as in a policy; at most {LONGEST_NAME} characters"
            )
    if folded(dataset) in map(folded, distinct_from):
        raise CloakworkError(f"dataset '{dataset}' is not distinct from itself")
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
            distinct_from=tuple(distinct_from),
        )
    except ValidationError as error:
        where, says = first_fault(error)
        raise CloakworkError(f"dataset {dataset!r}: {where or 'name'}: {says}") from error
    except ValueError as error:
        raise CloakworkError(f"dataset {dataset!r}: {error}") from error
    if declared.says_nothing:
        raise CloakworkError(f"dataset {dataset!r}: nothing is declared; say what, such as owner")
    return declared
