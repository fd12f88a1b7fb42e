"""All pairs of sequences that are a few edits apart, without comparing all pairs.

Two sequences that are d edits apart, d = 1 or 2, become the same by leaving out at most d events of
each: a substitution is undone by leaving out one event of both (Mor and Fraenkel, A hash code
method for detecting and correcting spelling errors, 1982). So each sequence is written down with
every choice of d events or fewer left out, as a hash; sequences that share a hash are compared.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints, Words
from cloakwork.mechanisms.kanon.deadline import Deadline, OutOfTime
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

_BASE: Final = 0x9E37_79B9_7F4A_7C15
"""An odd number: a power of it has an inverse modulo 2^64."""
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_MIX: Final = 0xFF51_AFD7_ED55_8CCD
_MOST_HASHES: Final = 8_000_000
_HASHES_PER_SECOND: Final = 400_000
_PAIRS_PER_SECOND: Final = 400_000
_MOST_PAIRS: Final = 8_000_000
_SEQUENCES_AT_ONCE: Final = 4_096
_PAIRS_AT_ONCE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class NearPairs:
    """Ordered pairs of different variants that are a few edits apart: int64, shape (pairs,).

    ``beyond``: int64, shape (variants,); a variant that is no target of i here is at least
    ``beyond[i]`` edits from i.
    """

    source: Ints
    target: Ints
    distance: Ints
    beyond: Ints


def find_near_pairs(problem: KAnonymityProblem, seconds: float, deadline: Deadline) -> NearPairs:
    """The pairs at most 2 edits apart of variants that are short enough for it, and at most 1 edit
    of others, as far as ``seconds`` worth of work suffice.
    """
    found = no_near_pairs(problem)
    variants, beyond = len(problem.texts), found.beyond
    lengths = np.array([len(text) for text in problem.texts], np.int64)
    most_hashes = int(min(_MOST_HASHES, seconds * _HASHES_PER_SECOND))
    most_pairs = int(min(_MOST_PAIRS, seconds * _PAIRS_PER_SECOND))
    for edits in (1, 2):
        longest = _longest_within(lengths, edits, most_hashes)
        rows = np.flatnonzero(lengths <= longest)
        if not len(rows):
            break
        try:
            hashes, owner = _hashes_of(problem, rows, edits, deadline)
            candidates = _sharing_a_hash(hashes, owner, variants, most_pairs)
            if candidates is None:
                break
            first, second = candidates
            # What shares a hash may be farther apart; what is near enough shares one.
            distance = _distances_of(problem, first, second, deadline)
        except OutOfTime:
            break
        is_near = (distance <= edits) & (distance > 0)
        first, second, distance = first[is_near], second[is_near], distance[is_near]
        # Whatever is so near to these is no longer than the longest that was hashed.
        beyond = np.where(lengths <= longest - edits, edits + 1, beyond)
        if edits == 2:
            first, second, distance = _joined(found, first, second, distance)
        found = NearPairs(
            np.concatenate([first, second]),
            np.concatenate([second, first]),
            np.concatenate([distance, distance]),
            beyond,
        )
    return found


def no_near_pairs(problem: KAnonymityProblem) -> NearPairs:
    """What is known without looking: different variants are an edit apart at least."""
    none = np.zeros(0, np.int64)
    return NearPairs(none, none, none, np.ones(len(problem.texts), np.int64))


def _distances_of(
    problem: KAnonymityProblem, first: Ints, second: Ints, deadline: Deadline
) -> Ints:
    distances = [np.zeros(0, np.int64)]
    for start in range(0, len(first), _PAIRS_AT_ONCE):
        deadline.require_time()
        some = slice(start, start + _PAIRS_AT_ONCE)
        distances.append(problem.distances.pairs(first[some], second[some]))
    return np.concatenate(distances)


def _joined(known: NearPairs, first: Ints, second: Ints, distance: Ints) -> tuple[Ints, ...]:
    """These pairs (first < second), and the known ones that are not among them."""
    variants = len(known.beyond)
    is_first = known.source < known.target
    key = known.source[is_first] * variants + known.target[is_first]
    is_new = ~np.isin(key, first * variants + second)
    return (
        np.concatenate([first, known.source[is_first][is_new]]),
        np.concatenate([second, known.target[is_first][is_new]]),
        np.concatenate([distance, known.distance[is_first][is_new]]),
    )


def _longest_within(lengths: Ints, edits: int, most_hashes: int) -> int:
    """The greatest length up to which all texts have no more than ``most_hashes``, with one more
    than the longest of all where that is no limit at all.
    """
    of_one = lengths + 1
    hashes = of_one if edits == 1 else of_one + lengths * (lengths - 1) // 2
    in_order = np.argsort(lengths, kind="stable")
    fitting = int(np.searchsorted(np.cumsum(hashes[in_order]), most_hashes, side="right"))
    if fitting == len(lengths):
        # Nothing is longer than the longest: its neighbours are all there.
        return int(lengths.max(initial=0)) + edits
    # All texts of one length, or none.
    return int(lengths[in_order[fitting]]) - 1


def _hashes_of(
    problem: KAnonymityProblem, rows: Ints, edits: int, deadline: Deadline
) -> tuple[Words, Ints]:
    """The hash of each text of ``rows`` with at most ``edits`` (1 or 2) events left out, and whose
    it is.
    """
    hashes, owners = [], []
    # Texts of one length are one array: a row each.
    lengths = np.array([len(problem.texts[row]) for row in rows], np.int64)
    by_length = np.argsort(lengths, kind="stable")
    borders = np.flatnonzero(np.diff(lengths[by_length])) + 1
    for group in np.split(by_length, borders):
        for start in range(0, len(group), _SEQUENCES_AT_ONCE):
            deadline.require_time()
            some = rows[group[start : start + _SEQUENCES_AT_ONCE]]
            length = len(problem.texts[some[0]])
            terms = _terms([problem.texts[row] for row in some], length)
            for part in _with_events_left_out(terms, length, edits):
                hashes.append(part.ravel())
                owners.append(np.repeat(some, part.shape[1]))
    return np.concatenate(hashes), np.concatenate(owners)


def _terms(texts: list[str], length: int) -> Words:
    """What each event adds to the hash of its text: uint64, shape (texts, length)."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    codes = codes.reshape(len(texts), length).astype(np.uint64) + np.uint64(1)
    mixed = (codes * np.uint64(_MIX)) ^ (codes << np.uint64(29))
    powers = [pow(_BASE, place, 1 << 64) for place in range(length)]
    return np.asarray(mixed * np.array(powers, np.uint64), np.uint64)


def _with_events_left_out(terms: Words, length: int, edits: int) -> list[Words]:
    """Words, shape (texts, choices), with no event left out, with each one, and with each two."""
    inverse = np.uint64(_INVERSE)
    before = np.zeros((len(terms), length + 1), np.uint64)
    np.cumsum(terms, axis=1, dtype=np.uint64, out=before[:, 1:])
    total = before[:, -1:]
    # What stands behind an event that is left out moves up by one place: one power less.
    without_one = before[:, :-1] + (total - before[:, 1:]) * inverse
    choices = [total, without_one]
    if edits == 2 and length >= 2:
        first, second = np.triu_indices(length, 1)
        between = before[:, second] - before[:, first + 1]
        behind = total - before[:, second + 1]
        choices.append(before[:, first] + between * inverse + behind * inverse * inverse)
    return choices


def _sharing_a_hash(hashes: Words, owner: Ints, texts: int, most: int) -> tuple[Ints, Ints] | None:
    """Each pair of texts that share a hash, the smaller first, once; None where these are more than
    ``most``.
    """
    order = np.argsort(hashes)
    hashes, owner = hashes[order], owner[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    sizes = np.diff(np.append(starts, len(hashes)))
    if int((sizes * (sizes - 1) // 2).sum()) > most:
        return None
    pairs = []
    # The hash that stands ``offset`` places behind, as long as it is the same.
    run_end = np.repeat(starts + sizes, sizes)
    left = np.arange(len(hashes))
    for offset in range(1, int(sizes.max(initial=1))):
        left = left[left + offset < run_end[left]]
        one, other = owner[left], owner[left + offset]
        least, greatest = np.minimum(one, other), np.maximum(one, other)
        pairs.append((least * texts + greatest)[least != greatest])
    distinct = np.unique(np.concatenate([np.zeros(0, np.int64), *pairs]))
    first, second = np.divmod(distinct, texts)
    return first, second
