"""Which entries of a ledger concern claims that were found false since, and what that makes of
their charges.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from cloakwork.accounting.charge import Charge
from cloakwork.guarantees import KINDS
from cloakwork.publishing.advisories import (
    Advisory,
    AdvisoryMatch,
    ReleaseProperties,
    advisories_for,
    guarantees_in,
)

if TYPE_CHECKING:
    from cloakwork.ledger.records import Record


def advisories_of(
    record: "Record", advisories: Iterable[Advisory] | None = None
) -> tuple[AdvisoryMatch, ...]:
    """The advisories that concern an entry, by what it notes: kinds of guarantee and version, no
    steps and no columns.

    What only the release shows is left open; ``cloakwork verify`` measures it there.
    ``advisories``: those to go by, else the shipped ones.
    """
    stated = record.details.get("guarantees")  # as data; version 0.1.0 noted sentences only
    guarantees = guarantees_in(record.note) if stated is None else tuple(stated)
    properties = ReleaseProperties(engine=record.engine, guarantees=guarantees, entry=True)
    return advisories_for(properties, advisories=advisories)


def with_voided_charges(record: "Record", advisories: Iterable[Advisory] | None = None) -> "Record":
    """The record with a charge without bound added where a claim that it pays for is void.

    What was charged stays spent: budget is never handed back.
    """
    void_currencies = {
        KINDS[match.kind].currency
        for match in advisories_of(record, advisories)
        if match.status == "void" and match.kind in KINDS
    }
    is_charged = any(charge.currency in void_currencies for charge in record.charges)
    if record.without_dp or not is_charged:
        return record
    return replace(record, charges=(*record.charges, Charge(currency="none")))
