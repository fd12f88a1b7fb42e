"""What the journal's entries say about releases, and how charges and totals are written into an entry."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from cloakwork.accounting._journal import Entry
from cloakwork.accounting.affected import recharged
from cloakwork.accounting.charge import Charge
from cloakwork.budget import Cost, Currency
from cloakwork.errors import LedgerError

FIRST_VERSION: Final = "0.1.0"
"""The version whose entries do not say which one made them."""

State = Literal["reserved", "committed", "failed"]


@dataclass(frozen=True, slots=True)
class Total:
    """A declared total; for ``metric``, the shift over which it is meant."""

    cost: Cost
    shift: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One release as the ledger knows it; times are aware UTC, digests hex, ``note`` a sentence about its guarantees.

    ``engine``: the version of Cloakwork that made the entry.
    """

    id: str
    dataset: str
    policy: str
    version: str
    policy_digest: str
    charges: tuple[Charge, ...]
    totals: Mapping[Currency, Total]
    note: str
    state: State
    created_at: datetime
    committed_at: datetime | None = None
    statement_digest: str | None = None
    failure: str | None = None
    engine: str = FIRST_VERSION

    @property
    def without_dp(self) -> bool:
        """Whether something was released that no DP budget bounds."""
        return any(charge.currency == "none" for charge in self.charges)


def records_of(url: str, entries: Iterable[Entry], dataset: str | None) -> tuple[Record, ...]:
    """What the entries, oldest first, say about each release."""
    records: dict[str, Record] = {}
    for entry in entries:
        if dataset is not None and entry.dataset != dataset:
            continue
        try:
            records[entry.release] = _told(records.get(entry.release), entry)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    return tuple(recharged(record) for record in records.values())


def _told(record: Record | None, entry: Entry) -> Record:
    fields = entry.fields()
    if record is None:
        return _opened(entry, fields)
    match entry.kind:
        case "commit":
            digest = fields.get("statement_digest")
            return replace(record, state="committed", committed_at=_time(entry), statement_digest=digest)
        case "fail":
            return replace(record, state="failed", failure=fields["reason"])
        case "statement":
            return replace(record, statement_digest=fields["statement_digest"])
    raise ValueError(entry.kind)


def _opened(entry: Entry, fields: Mapping[str, Any]) -> Record:
    if entry.kind != "reserve":
        raise ValueError(entry.kind)
    return Record(
        id=entry.release,
        dataset=entry.dataset,
        policy=fields["policy"],
        version=fields["version"],
        policy_digest=fields["policy_digest"],
        charges=tuple(_charge(item) for item in fields["charges"]),
        totals={currency: _total(item) for currency, item in fields["totals"].items()},
        note=fields["note"],
        state="reserved",
        created_at=_time(entry),
        engine=fields.get("engine", FIRST_VERSION),
    )


def _time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.at)


def _cost_fields(cost: Cost) -> dict[str, str]:
    # As text: JSON has no infinity, and every digit counts.
    return {"epsilon": repr(cost.epsilon), "delta": repr(cost.delta)}


def charge_fields(charge: Charge) -> dict[str, Any]:
    """A charge as an entry's body holds it."""
    return {"currency": charge.currency, **_cost_fields(charge.cost), **_shift_fields(charge.shift)}


def total_fields(total: Total) -> dict[str, Any]:
    """A declared total as an entry's body holds it."""
    return {**_cost_fields(total.cost), **_shift_fields(total.shift)}


def _shift_fields(shift: timedelta | None) -> dict[str, int]:
    return {} if shift is None else {"shift_microseconds": shift // timedelta(microseconds=1)}


def _cost(fields: Mapping[str, Any]) -> Cost:
    return Cost(epsilon=float(fields["epsilon"]), delta=float(fields["delta"]))


def _shift(fields: Mapping[str, Any]) -> timedelta | None:
    return timedelta(microseconds=fields["shift_microseconds"]) if "shift_microseconds" in fields else None


def _charge(fields: Mapping[str, Any]) -> Charge:
    return Charge(currency=fields["currency"], cost=_cost(fields), shift=_shift(fields))


def _total(fields: Mapping[str, Any]) -> Total:
    return Total(_cost(fields), _shift(fields))
