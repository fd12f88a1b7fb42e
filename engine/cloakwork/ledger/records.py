"""What the journal's entries say about releases, and how charges and totals are written into an
entry.
"""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.errors import LedgerError
from cloakwork.base.facts import CASE
from cloakwork.base.frozen import frozen
from cloakwork.ledger.advisories import AdvisoryMatch, advisories_for
from cloakwork.ledger.books import Book, DeclaredTotal
from cloakwork.ledger.journal import EVENT_KINDS, Entry

State = Literal["reserved", "publishing", "committed", "failed"]
"""``reserved``: paid for. ``publishing``: written, and about to be renamed to its folder.
``committed``: it stands there. ``failed``: it came to nothing; its cost stays spent. A folder that
is found after all commits it.
"""

CLOSED: Final = "no folder was found, and the process that made it had ended"


@frozen
class FolderLocation:
    """A folder, by its absolute path on one host."""

    folder: str
    host: str

    @classmethod
    def here(cls, folder: object) -> "FolderLocation":
        """The folder with this path on this host."""
        return cls(str(folder), socket.gethostname())


@frozen
class Record:
    """One release as the ledger knows it; times are aware UTC, digests hex, ``note`` a few words
    about its guarantees.

    ``engine``: the version of Cloakwork that made the entry. ``unit``: the protected unit of its
    policy by name. ``cases_per_unit``: what its policy declares about it. ``place``: where the
    release was to stand. ``makes``: a release, or a DP profile, which is no folder. ``window``: of
    a growing log, which was released, of windows that are ``every`` so long. ``details``: what else
    is known as data (mechanisms, guarantees).
    """

    id: str
    dataset: str
    policy: str
    version: str
    policy_digest: str
    charges: tuple[Charge, ...]
    totals: tuple[DeclaredTotal, ...]
    note: str
    state: State
    created_at: datetime
    digest: str
    engine: str
    unit: str
    cases_per_unit: Mapping[str, int] = field(default_factory=dict)
    makes: Literal["release", "profile"] = "release"
    window: str | None = None
    every: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    place: FolderLocation | None = None
    committed_at: datetime | None = None
    statement_digest: str | None = None
    failure: str | None = None

    @property
    def without_dp(self) -> bool:
        """Whether something was released that no DP budget bounds."""
        return not self.failed_before_release and any(
            charge.currency == "none" for charge in self.charges
        )

    @property
    def failed_before_release(self) -> bool:
        """Whether the run failed before a release was written whole; its cost stays spent all the
        same.
        """
        return self.state == "failed" and self.statement_digest is None

    @property
    def keeps_cases(self) -> bool:
        """Whether its cases were recorded with its window before it was committed."""
        return self.state == "committed" and self.window is not None and self.unit == CASE

    def concerns_same(self, window: str | None, unit: str | None) -> bool:
        """Whether it may hold cases, or persons, of a release of ``window`` that protects ``unit``;
        None: of the whole log.
        """
        per_case = unit == self.unit == CASE
        return not per_case or None in (self.window, window) or self.window == window


def records_of(url: str, entries: Iterable[Entry], dataset: str | None) -> tuple[Record, ...]:
    """What the entries, oldest first, say about each release."""
    # A release is what its entries say of it, one after another.
    records: dict[str, Record] = {}
    for entry in entries:
        if entry.kind in EVENT_KINDS or not (dataset is None or entry.is_of(dataset)):
            continue
        try:
            records[entry.release] = record = _updated_by(records.get(entry.release), entry)
            advisories_of(record)  # what they go by can be read
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    return tuple(_with_voided_charges(record) for record in records.values())


_CURRENCY_OF: Final[Mapping[str, Currency]] = {
    "differential-privacy": "unit",
    "metric-privacy": "metric",
    "local-dp": "local",
}
"""In which currency a guarantee is paid for, by its kind; the others cost nothing."""


def advisories_of(record: Record) -> tuple[AdvisoryMatch, ...]:
    """What was found since of a release, by what its entry notes: version, guarantees, steps."""
    return advisories_for(
        record.engine, record.details.get("guarantees", ()), record.details.get("mechanisms")
    )


def _with_voided_charges(record: Record) -> Record:
    """The record with a charge without bound added where a claim that it pays for is void.

    What was charged stays spent: budget is never handed back.
    """
    void = [match for match in advisories_of(record) if match.status == "void"]
    # A claim as a whole that is void voids what was paid in any currency.
    void_currencies = {_CURRENCY_OF.get(match.kind) for match in void}
    if any(match.guarantee is None for match in void):
        void_currencies.update(_CURRENCY_OF.values())
    is_charged = any(charge.currency in void_currencies for charge in record.charges)
    if record.without_dp or not is_charged:
        return record
    return replace(record, charges=(*record.charges, Charge(currency="none")))


def _updated_by(record: Record | None, entry: Entry) -> Record:
    fields = entry.fields()
    if record is None:
        return _record_from_entry(entry, fields)
    match entry.kind:
        case "intent":
            return replace(
                record,
                state="publishing",
                place=FolderLocation(**fields["place"]),
                statement_digest=fields["statement_digest"],
            )
        case "commit":
            return replace(
                record,
                state="committed",
                committed_at=datetime.fromisoformat(entry.at),
                statement_digest=fields.get("statement_digest", record.statement_digest),
            )
        case "fail":
            return replace(record, state="failed", failure=fields["reason"])
    raise ValueError(entry.kind)


def _record_from_entry(entry: Entry, fields: Mapping[str, Any]) -> Record:
    if entry.kind != "reserve":
        raise ValueError(entry.kind)
    as_written = (
        "policy",
        "version",
        "policy_digest",
        "note",
        "engine",
        "unit",
        "cases_per_unit",
        "makes",
        "details",
    )
    return Record(
        id=entry.release,
        dataset=entry.dataset,
        charges=tuple(_charge_from_fields(item) for item in fields["charges"]),
        totals=_totals_from_fields(fields["totals"]),
        state="reserved",
        created_at=datetime.fromisoformat(entry.at),
        digest=entry.digest,
        window=fields.get("window"),
        every=fields.get("every"),
        place=FolderLocation(**fields["place"]) if "place" in fields else None,
        **{name: fields[name] for name in as_written},
    )


# --- charges and totals as an entry's body holds them


def charge_fields(charge: Charge) -> dict[str, Any]:
    """A charge as an entry's body holds it."""
    # Only what is said is written, so that entries of earlier versions read the same.
    fields = {"currency": charge.currency, **_amount_fields(charge.cost, charge.shift)}
    if charge.currency in ("unit", "local"):
        fields["unit"] = charge.unit
        if charge.max_cases is not None:
            fields["max_cases"] = charge.max_cases
        if charge.times is not None:
            fields["times"] = charge.times
    if charge.window is not None:
        fields["window"] = charge.window
    return fields


def total_fields(total: DeclaredTotal) -> dict[str, Any]:
    """A declared total as an entry's body holds it."""
    return {
        "currency": total.book.currency,
        "unit": total.book.unit,
        "apart": bool(total.apart_from),
        **_amount_fields(total.cost, total.shift),
    }


def cost_fields(cost: Cost) -> dict[str, str]:
    """A cost as text: JSON has no infinity, and every digit counts."""
    return {"epsilon": repr(cost.epsilon), "delta": repr(cost.delta)}


def cost_from_fields(fields: Mapping[str, Any]) -> Cost:
    """The cost that ``cost_fields`` wrote."""
    return Cost(epsilon=float(fields["epsilon"]), delta=float(fields["delta"]))


def _amount_fields(cost: Cost, shift: timedelta | None) -> dict[str, Any]:
    over = {} if shift is None else {"shift_microseconds": shift // timedelta(microseconds=1)}
    return {**cost_fields(cost), **over}


def _shift_from_fields(fields: Mapping[str, Any]) -> timedelta | None:
    if "shift_microseconds" not in fields:
        return None
    return timedelta(microseconds=fields["shift_microseconds"])


def _charge_from_fields(fields: Mapping[str, Any]) -> Charge:
    currency = fields["currency"]
    whom = {name: fields[name] for name in ("max_cases", "times", "window") if name in fields}
    if currency in ("unit", "local"):
        # Whoever an entry does not name is not taken for a case, the cheapest of units.
        whom["unit"] = fields["unit"]
    return Charge(
        currency=currency,
        cost=cost_from_fields(fields),
        shift=_shift_from_fields(fields),
        **whom,
    )


def _totals_from_fields(fields: Any) -> tuple[DeclaredTotal, ...]:
    # One entry holds all books of its policy, so that each is apart from the others.
    apart = {item["unit"] for item in fields if item["apart"]}
    return tuple(
        DeclaredTotal(
            book=Book(item["currency"], item["unit"]),
            cost=cost_from_fields(item),
            shift=_shift_from_fields(item),
            apart_from=tuple(sorted(apart - {item["unit"]})) if item["apart"] else (),
        )
        for item in fields
    )
