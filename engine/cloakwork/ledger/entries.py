"""The entries of a ledger's journal, each bound to the one before it by a digest."""

import hashlib
import json
from dataclasses import astuple, dataclass
from typing import Any, Final, Literal, get_args

ReleaseKind = Literal["reserve", "intent", "commit", "fail", "statement"]
"""What happens to a release."""

EventKind = Literal[
    "dataset-declared", "policy-added", "policy-approved", "policy-revoked", "compared"
]
"""What happens beside releases; such an entry names no release."""

EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)

BEFORE_FIRST: Final = "0" * 64
"""What the first entry names as the digest of its predecessor."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal; ``at`` is UTC in ISO 8601, ``body`` a JSON object, ``digest``
    SHA-256 in hex.
    """

    seq: int
    release: str
    dataset: str
    kind: str
    at: str
    body: str
    previous: str
    digest: str

    @property
    def expected_digest(self) -> str:
        """The digest that follows from all other fields."""
        return hashlib.sha256(json.dumps(astuple(self)[:-1], default=repr).encode()).hexdigest()

    def fields(self) -> dict[str, Any]:
        """The body, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


@dataclass(frozen=True, slots=True)
class Break:
    """The first entry (``seq`` counts from 1) at which the journal is not what was once written,
    and how it shows.
    """

    seq: int
    reason: str

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.reason}"


def first_break(entries: tuple[Entry, ...]) -> Break | None:
    """Follow the digests from the first entry; None when every entry is unchanged and in its place.

    The chain is not keyed: it shows slips and edits by hand, not a forger who recomputes every
    later digest, nor the removal of the newest entries. Both show against a digest that a signed
    statement contains.
    """
    previous = BEFORE_FIRST
    for seq, entry in enumerate(entries, start=1):
        if entry.seq != seq:
            return Break(seq, "is missing")
        if entry.previous != previous:
            return Break(seq, "does not follow the entry before it")
        if entry.digest != entry.expected_digest:
            return Break(seq, "was altered")
        previous = entry.digest
    return None
