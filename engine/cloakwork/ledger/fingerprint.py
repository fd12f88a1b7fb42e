"""Keyed fingerprints of case ids: a hint, for inside only, that the same cases come under another
dataset's name.

A fingerprint is the least of the keyed hashes of the case ids (bottom-k sketch, Beyer et al. 2007).
Without the key, which lies beside the ledger, readable by its owner only, it tells nothing; with
it, a guessed id can be confirmed. It is internal data of the raw log: no public file holds it or
depends on it, and no release comes out otherwise because of it.
"""

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SIZE: Final = 128
"""How many hashes are kept; a share of common cases is then known to about 9 percentage points."""

_HEX: Final = 16
_CLEAR: Final = 0.05
"""The least share of common cases that is reported."""
_ENOUGH: Final = 3
"""The least number of common hashes that is no coincidence."""


@dataclass(frozen=True, slots=True)
class Resemblance:
    """About which ``share`` of the smaller of two logs' case ids the log at hand has in common with
    ``dataset``.
    """

    dataset: str
    share: float

    def __str__(self) -> str:
        seen = f"about {self.share:.0%} of the case ids were seen under dataset '{self.dataset}'"
        return (
            f"{seen}: if these are the same cases, give both policies the same dataset, "
            "or they get a budget each"
        )


def fingerprint(ids: Iterable[str], key: bytes) -> str:
    """The ``SIZE`` least keyed hashes of the distinct ids, in hex, ascending; time linear in the
    ids.
    """
    hashes = {
        hashlib.blake2b(text.encode(), key=key, digest_size=_HEX // 2).hexdigest() for text in ids
    }
    return "".join(heapq.nsmallest(SIZE, hashes))


def merged_fingerprint(samples: Iterable[str]) -> str:
    """The fingerprint of all ids of which there are these fingerprints, made with one key."""
    hashes = {each for sample in samples for each in _split_hashes(sample)}
    return "".join(heapq.nsmallest(SIZE, hashes))


def shared_share(one: str, other: str) -> float:
    """The estimated share of the smaller set that both hold, from the range of hashes that both
    samples cover.
    """
    first, second = _split_hashes(one), _split_hashes(other)
    covered = min(_covered_range(first), _covered_range(second))
    # Below the lesser end both samples hold every hash of their sets.
    left = {each for each in first if each <= covered}
    right = {each for each in second if each <= covered}
    common = len(left & right)
    least = min(len(left), len(right))
    if not least or common < min(_ENOUGH, least):
        return 0.0
    return common / least


def resemblances(
    sample: str, dataset: str, known: Iterable[tuple[str, str, str]]
) -> tuple[Resemblance, ...]:
    """Other datasets whose fingerprints (release, dataset, sample) share clearly many cases with
    ``sample``.
    """
    best: dict[str, float] = {}
    for _, name, other in known:
        if name != dataset:
            best[name] = max(best.get(name, 0.0), shared_share(sample, other))
    return tuple(Resemblance(name, share) for name, share in best.items() if share >= _CLEAR)


def _split_hashes(sample: str) -> list[str]:
    return [sample[start : start + _HEX] for start in range(0, len(sample), _HEX)]


def _covered_range(hashes: list[str]) -> str:
    """Up to where a sample holds every hash there is."""
    return hashes[-1] if len(hashes) == SIZE else "g"  # after every hexadecimal digit
