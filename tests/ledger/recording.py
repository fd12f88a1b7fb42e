"""Cases recorded with the window of a release, by their ids."""

from collections.abc import Iterable

from cloakwork.ledger.case_hashes import hashed_ids
from cloakwork.ledger.ledger import Reservation


def record_window(made: Reservation, ids: Iterable[str]) -> frozenset[str]:
    """Those of ``ids`` that another window has."""
    hashes = hashed_ids(ids, made.ledger.case_id_key())
    elsewhere = made.record_hashes(frozenset(hashes.values()))
    return frozenset(text for text, known in hashes.items() if known in elsewhere)
