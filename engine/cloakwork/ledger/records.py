"""What the journal's entries say about releases, and how charges and totals are written into an
entry.
"""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from cloakwork.accounting.charge import Charge
from cloakwork.base.budget import Cost
from cloakwork.base.errors import LedgerError
from cloakwork.ledger.affected import with_voided_charges
from cloakwork.ledger.books import Book, DeclaredTotal
from cloakwork.ledger.entries import EVENT_KINDS, Entry

FIRST_VERSION: Final = "0.1.0"
"""The version whose entries do not say which one made them."""

State = Literal["reserved", "publishing", "committed", "failed"]
"""``reserved``: paid for. ``publishing``: written, and about to be renamed to its folder.
``committed``: it stands there. ``failed``: it came to nothing; its cost stays spent. A folder that
is found after all commits it.
"""

CLOSED: Final = "no folder was found, and the process that made it had ended"


@dataclass(frozen=True, slots=True)
class FolderLocation:
    """A folder, by its absolute path on one host."""

    folder: str
    host: str

    @classmethod
    def here(cls, folder: object) -> "FolderLocation":
        """The folder with this path on this host."""
        return cls(str(folder), socket.gethostname())


@dataclass(frozen=True, slots=True)
class Record:
    """One release as the ledger knows it; times are aware UTC, digests hex, ``note`` a few words
    about its guarantees.

    ``engine``: the version of Cloakwork that made the entry. ``unit``: the protected unit of its
    policy by name, None where an entry of version 0.1.0 does not say. ``cases_per_unit``: what its
    policy declares about it. ``place``: where the release was to stand. ``makes``: a release, or a
    DP profile, which is no folder. ``window``: of a growing log, which was released, of windows
    that are ``every`` so long. ``details``: what else is known as data (mechanisms,
    guarantees).
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
    unit: str | None = None
    cases_per_unit: Mapping[str, int] = field(default_factory=dict)
    makes: Literal["release", "profile"] = "release"
    window: str | None = None
    every: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    place: FolderLocation | None = None
    committed_at: datetime | None = None
    statement_digest: str | None = None
    failure: str | None = None
    engine: str = FIRST_VERSION

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

    def with_unit(self, unit: str, charges: tuple[Charge, ...]) -> "Record":
        """The record of an older entry, told whom it protected."""
        totals = tuple(
            replace(total, book=Book("unit", unit)) if total.book == Book("unit") else total
            for total in self.totals
        )
        return replace(self, unit=unit, charges=charges, totals=totals)


def records_of(url: str, entries: Iterable[Entry], dataset: str | None) -> tuple[Record, ...]:
    """What the entries, oldest first, say about each release."""
    records: dict[str, Record] = {}
    for entry in entries:
        if entry.kind in EVENT_KINDS or dataset not in (None, entry.dataset):
            continue
        try:
            records[entry.release] = _updated_by(records.get(entry.release), entry)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    named = with_units_from_policies(tuple(records.values()))
    return tuple(with_voided_charges(record) for record in named)


def with_units_from_policies(
    records: tuple[Record, ...], known: Iterable[tuple[str, str, tuple[Charge, ...]]] = ()
) -> tuple[Record, ...]:
    """The records; older ones that do not say whom they protected learn it from a later release
    under the same policy.

    ``known``: digest, unit and charges of policies beside those of the records.
    """
    policies = {digest: (unit, charges) for digest, unit, charges in known if digest}
    for record in records:
        if record.unit is not None and record.policy_digest:
            policies.setdefault(record.policy_digest, (record.unit, record.charges))
    return tuple(_with_unit_from(record, policies) for record in records)


def _with_unit_from(
    record: Record, policies: Mapping[str, tuple[str, tuple[Charge, ...]]]
) -> Record:
    if record.unit is not None or record.policy_digest not in policies:
        return record
    unit, charges = policies[record.policy_digest]
    known = {(charge.currency, charge.cost, charge.shift): charge for charge in charges}
    named = [
        known.get((charge.currency, charge.cost, charge.shift), charge) for charge in record.charges
    ]
    return record.with_unit(unit, tuple(named))


def _updated_by(record: Record | None, entry: Entry) -> Record:
    fields = entry.fields()
    if record is None:
        return _record_from_entry(entry, fields)
    match entry.kind:
        case "intent":
            place = FolderLocation(**fields["place"])
            return replace(
                record, state="publishing", place=place, statement_digest=fields["statement_digest"]
            )
        case "commit":
            digest = fields.get("statement_digest", record.statement_digest)
            return replace(
                record, state="committed", committed_at=_entry_time(entry), statement_digest=digest
            )
        case "fail":
            return replace(record, state="failed", failure=fields["reason"])
        case "statement":
            return replace(record, statement_digest=fields["statement_digest"])
        case "identify":
            return record.with_unit(
                fields["unit"], tuple(_charge_from_fields(item) for item in fields["charges"])
            )
    raise ValueError(entry.kind)


def _record_from_entry(entry: Entry, fields: Mapping[str, Any]) -> Record:
    if entry.kind != "reserve":
        raise ValueError(entry.kind)
    note = fields["note"]
    profile = note.startswith("DP profile:")  # all that version 0.1.0 says
    return Record(
        id=entry.release,
        dataset=entry.dataset,
        policy=fields["policy"],
        version=fields["version"],
        policy_digest=fields["policy_digest"],
        charges=tuple(_charge_from_fields(item) for item in fields["charges"]),
        totals=_totals_from_fields(fields["totals"]),
        note=note,
        state="reserved",
        created_at=_entry_time(entry),
        digest=entry.digest,
        engine=fields.get("engine", FIRST_VERSION),
        unit=fields.get("unit"),
        cases_per_unit=fields.get("cases_per_unit", {}),
        makes=fields.get("makes", "profile" if profile else "release"),
        window=fields.get("window"),
        every=fields.get("every"),
        details=fields.get("details", {}),
        place=FolderLocation(**fields["place"]) if "place" in fields else None,
    )


def _entry_time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.at)


def _cost_fields(cost: Cost) -> dict[str, str]:
    # As text: JSON has no infinity, and every digit counts.
    return {"epsilon": repr(cost.epsilon), "delta": repr(cost.delta)}


def charge_fields(charge: Charge) -> dict[str, Any]:
    """A charge as an entry's body holds it."""
    fields: dict[str, Any] = {
        "currency": charge.currency,
        **_cost_fields(charge.cost),
        **_shift_fields(charge.shift),
    }
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
        **_cost_fields(total.cost),
        **_shift_fields(total.shift),
    }


def _shift_fields(shift: timedelta | None) -> dict[str, int]:
    if shift is None:
        return {}
    return {"shift_microseconds": shift // timedelta(microseconds=1)}


def _cost_from_fields(fields: Mapping[str, Any]) -> Cost:
    return Cost(epsilon=float(fields["epsilon"]), delta=float(fields["delta"]))


def _shift_from_fields(fields: Mapping[str, Any]) -> timedelta | None:
    if "shift_microseconds" not in fields:
        return None
    return timedelta(microseconds=fields["shift_microseconds"])


def _charge_from_fields(fields: Mapping[str, Any]) -> Charge:
    currency = fields["currency"]
    cost = _cost_from_fields(fields)
    shift = _shift_from_fields(fields)
    if currency == "unit" and "unit" not in fields:  # of version 0.1.0
        return Charge(currency="unit", cost=cost, unit=None, times="unknown")
    said = ("unit", "max_cases", "times", "window")
    whom = {name: fields[name] for name in said if name in fields}
    return Charge(currency=currency, cost=cost, shift=shift, **whom)


def _totals_from_fields(fields: Any) -> tuple[DeclaredTotal, ...]:
    if isinstance(fields, dict):  # of version 0.1.0: one total a currency
        return tuple(_early_total(currency, item) for currency, item in fields.items())
    # One entry holds all books of its policy, so that each is apart from the others.
    apart = {item["unit"] for item in fields if item["apart"]}
    totals = []
    for item in fields:
        book = Book(item["currency"], item["unit"])
        others = tuple(sorted(apart - {item["unit"]})) if item["apart"] else ()
        total = DeclaredTotal(book, _cost_from_fields(item), _shift_from_fields(item), others)
        totals.append(total)
    return tuple(totals)


def _early_total(currency: Any, fields: Mapping[str, Any]) -> DeclaredTotal:
    """A total as version 0.1.0 wrote it: local ones per value, the others for a unit not named."""
    book = Book(currency, "value" if currency == "local" else None)
    return DeclaredTotal(book, _cost_from_fields(fields), _shift_from_fields(fields))
