"""Keyed hashes of case ids, by which a case is known again that was released with a window."""

import hashlib
import json
from collections.abc import Iterable
from typing import Final

HASH: Final = 16
"""Bytes of a keyed hash: two of a million million ids share one with a probability below 1e-14."""


def hashed_ids(ids: Iterable[str], key: bytes) -> dict[str, bytes]:
    """A keyed hash of each id, other than those of fingerprints."""
    return {
        text: hashlib.blake2b(
            text.encode(), key=key, digest_size=HASH, person=b"window of a case"
        ).digest()
        for text in ids
    }


def key_check(key: bytes) -> str:
    """What shows that a key is the one that hashes were made with, and tells nothing else of it."""
    return hashlib.blake2b(b"", key=key, digest_size=HASH, person=b"check of the key").hexdigest()


def row_digest(key: bytes, release: str, dataset: str, window: str, hashes: bytes) -> str:
    """What binds the hashes recorded for a release to it; made with the key, so that whoever has
    the ledger alone cannot make another.
    """
    named = json.dumps([release, dataset, window]).encode()
    made = hashlib.blake2b(named, key=key, digest_size=HASH, person=b"row of a window")
    made.update(b"\0" + hashes)
    return made.hexdigest()


def split_hashes(stored: bytes) -> set[bytes]:
    """The hashes of one record."""
    return {stored[start : start + HASH] for start in range(0, len(stored), HASH)}
