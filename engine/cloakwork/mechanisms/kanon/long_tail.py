"""Logs of more variants than can all be compared in the time: an answer block by block, and a bound
from near pairs alone.

**Near pairs.** Two sequences that are d edits apart, d = 1 or 2, become the same by leaving out at
most d events of each: a substitution is undone by leaving out one event of both (Mor and Fraenkel,
A hash code method for detecting and correcting spelling errors, 1982). So each sequence is written
down with every choice of d events or fewer left out, as a hash; sequences that share a hash are
compared.

**The bound** is that of module ``lower_bound`` (Lagrangian duality), with every distance that is
not known replaced by the least that it can be: d'_ij = d_ij for near pairs, b_i for all others. An
answer costs no less than it would by d', so what bounds the one bounds the other. Mass duals are at
most T, and the assignment dual of variant i, which has n_i cases and mass w_i, at most
n_i b_i - w_i T. So for pairs that are not near n_i b_i - p_i - w_i t_j is never below 0: they add
nothing to the bound, whose sums are over near pairs alone.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Ints, Words
from cloakwork.log.sequences import MOST_EVENTS
from cloakwork.mechanisms.kanon.blocks import search_in_blocks
from cloakwork.mechanisms.kanon.deadline import Deadline, OutOfTime
from cloakwork.mechanisms.kanon.lower_bound import CoverConstraints, choose_open_variants
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
)
from cloakwork.mechanisms.kanon.whole_variants import MOST_VARIANTS

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

_GRID: Final = 1 << 10
"""Duals are whole numbers, in 1/1024 edits: sums of them are exact."""
_MULTIPLES: Final = (1.0, 0.5, 2.0, 4.0)
"""What T is tried at, in multiples of the largest b over k: at 1, a class without near variants
neither gains nor costs anything.
"""
_STEPS: Final = 40
_FIRST_STEP: Final = 0.25

_ALWAYS_COMPARED: Final = 500
_ALL_PAIRS_PER_SECOND: Final = 1_000_000
"""Pairs of all variants that a second suffices for: distances, bounds, programs over them."""
_SHARE_FOR_SEARCH: Final = 0.75
"""Of the time; the bound has what is left."""


def compares_all_pairs(problem: KAnonymityProblem, seconds: float) -> bool:
    """Whether all pairs of variants are compared with each other: up to 500 variants, and up to
    6,000 where the time suffices, unless a case is so long that distances do not fit 16 bits.
    """
    variants = len(problem.texts)
    fits_time = variants <= _ALWAYS_COMPARED or variants**2 <= _ALL_PAIRS_PER_SECOND * seconds
    longest = max(map(len, problem.texts), default=0)
    return variants <= MOST_VARIANTS and fits_time and longest <= MOST_EVENTS


def solve_long_tail(
    problem: KAnonymityProblem,
    seconds: float,
    deadline: Deadline,
    *,
    split_cases: bool,
) -> Solution:
    """An answer that moves whole variants, found block by block, and a bound from near pairs."""
    begun = deadline.clock()
    share = deadline.share(_SHARE_FOR_SEARCH)
    found = search_in_blocks(problem, _SHARE_FOR_SEARCH * seconds, share)
    bound = certify_near_bound(
        problem,
        (1 - _SHARE_FOR_SEARCH) * seconds,
        deadline,
        split_cases=split_cases,
    )
    above = relative_gap(edit_cost(problem, found.assignment), bound.value) or 0.0
    reason = f"{found.stop_reason} ({seconds:.3g} s), within {above:.0%} of the least possible"
    figures: dict[str, JsonValue] = {
        "seconds": round(deadline.clock() - begun, 2),
        "bound_proved": f"in whole numbers, from pairs less than {bound.beyond} edits apart",
        "bound_in_whole_numbers": bound.value,
        "near_pairs": bound.pairs,
    }
    return Solution(found.assignment, bound.value, reason, figures)


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


def no_near_pairs(problem: KAnonymityProblem) -> NearPairs:
    """What is known without looking: different variants are an edit apart at least."""
    none = np.zeros(0, np.int64)
    return NearPairs(
        none,
        none,
        none,
        np.ones(len(problem.texts), np.int64),
    )


def find_near_pairs(problem: KAnonymityProblem, seconds: float, deadline: Deadline) -> NearPairs:
    """The pairs at most 2 edits apart of variants that are short enough for it, and at most 1 edit
    of others, as far as ``seconds`` worth of work suffice.
    """
    found = no_near_pairs(problem)
    variants, beyond = len(problem.texts), found.beyond
    lengths = np.array([len(text) for text in problem.texts], np.int64)
    shortest_first = np.argsort(lengths, kind="stable")
    most_hashes = int(min(_MOST_HASHES, seconds * _HASHES_PER_SECOND))
    most_pairs = int(min(_MOST_PAIRS, seconds * _PAIRS_PER_SECOND))
    for edits in (1, 2):
        # The greatest length up to which all texts have no more hashes than that: all texts of one
        # length, or none. Behind the longest text nothing is missing: its neighbours are all there.
        hashes_of_text = lengths + 1
        if edits == 2:
            hashes_of_text = hashes_of_text + lengths * (lengths - 1) // 2
        hashes_up_to = np.cumsum(hashes_of_text[shortest_first])
        fitting = int(np.searchsorted(hashes_up_to, most_hashes, side="right"))
        longest = int(lengths.max(initial=0)) + edits
        if fitting < variants:
            longest = int(lengths[shortest_first[fitting]]) - 1
        rows = np.flatnonzero(lengths <= longest)
        if not len(rows):
            break
        try:
            hashes, owners = _hashes_of(
                problem,
                rows,
                edits,
                deadline,
            )
            candidates = _sharing_a_hash(
                hashes,
                owners,
                variants,
                most_pairs,
            )
            if candidates is None:
                break
            # What shares a hash may be farther apart; what is near enough shares one.
            measured = [np.zeros(0, np.int64)]
            for start in range(0, len(candidates), _PAIRS_AT_ONCE):
                deadline.require_time()
                some = np.divmod(candidates[start : start + _PAIRS_AT_ONCE], variants)
                measured.append(problem.distances.pairs(*some))
            distance = np.concatenate(measured)
        except OutOfTime:
            break
        is_near = (distance <= edits) & (distance > 0)
        # Those that were known before, of longer variants, are still near.
        is_first = found.source < found.target
        known = found.source[is_first] * variants + found.target[is_first]
        pairs = np.concatenate([candidates[is_near], known])
        distances = np.concatenate([distance[is_near], found.distance[is_first]])
        pairs, place = np.unique(pairs, return_index=True)
        first, second = np.divmod(pairs, variants)
        # Whatever is so near to these is no longer than the longest that was hashed.
        beyond = np.where(lengths <= longest - edits, edits + 1, beyond)
        found = NearPairs(
            np.concatenate([first, second]),
            np.concatenate([second, first]),
            np.tile(distances[place], 2),
            beyond,
        )
    return found


def _hashes_of(
    problem: KAnonymityProblem,
    rows: Ints,
    edits: int,
    deadline: Deadline,
) -> tuple[Words, Ints]:
    """The hash of each text of ``rows`` with up to ``edits`` events left out, and whose it is."""
    hashes, owners = [], []
    # Texts of one length are one array: a row each.
    lengths = np.array([len(problem.texts[row]) for row in rows], np.int64)
    by_length = np.argsort(lengths, kind="stable")
    borders = np.flatnonzero(np.diff(lengths[by_length])) + 1
    for group in np.split(by_length, borders):
        for start in range(0, len(group), _SEQUENCES_AT_ONCE):
            deadline.require_time()
            some = rows[group[start : start + _SEQUENCES_AT_ONCE]]
            for part in _with_events_left_out([problem.texts[row] for row in some], edits):
                hashes.append(part.ravel())
                owners.append(np.repeat(some, part.shape[1]))
    return np.concatenate(hashes), np.concatenate(owners)


def _with_events_left_out(texts: list[str], edits: int) -> list[Words]:
    """Hashes of texts of one length, shape (texts, choices), without up to ``edits`` events."""
    length = len(texts[0])
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    codes = codes.reshape(len(texts), length).astype(np.uint64) + np.uint64(1)
    # What each event adds to the hash of its text depends on its place by a power.
    mixed = (codes * np.uint64(_MIX)) ^ (codes << np.uint64(29))
    powers = np.array([pow(_BASE, place, 1 << 64) for place in range(length)], np.uint64)
    before = np.zeros((len(texts), length + 1), np.uint64)
    np.cumsum(
        mixed * powers,
        axis=1,
        dtype=np.uint64,
        out=before[:, 1:],
    )
    total = before[:, -1:]
    # What stands behind an event that is left out moves up by one place: one power less.
    inverse = np.uint64(_INVERSE)
    without_one = before[:, :-1] + (total - before[:, 1:]) * inverse
    choices = [total, without_one]
    if edits == 2 and length >= 2:
        first, second = np.triu_indices(length, 1)
        between = before[:, second] - before[:, first + 1]
        behind = total - before[:, second + 1]
        choices.append(before[:, first] + between * inverse + behind * inverse * inverse)
    return choices


def _sharing_a_hash(hashes: Words, owner: Ints, texts: int, most: int) -> Ints | None:
    """Each pair of texts that share a hash, once, as one number: the smaller times ``texts``, and
    the other. None where these are more than ``most``.
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
    return np.unique(np.concatenate([np.zeros(0, np.int64), *pairs]))


@dataclass(frozen=True, slots=True)
class NearBound:
    """``value``: no answer costs less, in edits. ``pairs``: near pairs that it was proved from, all
    those less than ``beyond`` edits apart (of some variants perhaps fewer).
    """

    value: int
    pairs: int
    beyond: int


def certify_near_bound(
    problem: KAnonymityProblem,
    seconds: float,
    deadline: Deadline,
    *,
    split_cases: bool,
) -> NearBound:
    """The best bound that some choices of T and some subgradient steps find, computed in whole
    numbers, from ``seconds`` worth of work, or less where ``deadline`` is over.

    Whatever the time, it is at least what follows from this alone: different variants are an edit
    apart or more, and no more than one case in k stays on a variant of fewer than k.
    """
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    nothing_near = no_near_pairs(problem)
    value = _NearRelaxation(problem, constraints, nothing_near).best_bound(1.0, 1, deadline)
    near = find_near_pairs(problem, seconds, deadline)
    relaxation = _NearRelaxation(problem, constraints, near)
    for multiple in _MULTIPLES:
        if deadline.is_over:
            break
        value = max(value, relaxation.best_bound(multiple, _STEPS, deadline))
    return NearBound(
        value,
        len(near.source) // 2,
        int(near.beyond.max(initial=1)),
    )


class _NearRelaxation:
    """The relaxed problem over near pairs, each variant being near to itself."""

    def __init__(
        self, problem: KAnonymityProblem, constraints: CoverConstraints, near: NearPairs
    ) -> None:
        self.problem, self.constraints, self.near = problem, constraints, near
        every = np.arange(len(problem.texts))
        source = np.concatenate([near.source, every])
        target = np.concatenate([near.target, every])
        distance = np.concatenate([near.distance, np.zeros_like(every)])
        # What stays where it is anyway has no price.
        placed = constraints.must_be_placed[source]
        self.source, self.target = source[placed], target[placed]
        self.move_cost = distance[placed] * problem.cases[self.source] * _GRID
        self.mass = problem.mass[self.source]

    def best_bound(
        self,
        multiple: float,
        steps: int,
        deadline: Deadline,
    ) -> int:
        """The best bound of so many steps with T at that multiple, in edits."""
        problem = self.problem
        beyond = problem.cases * self.near.beyond * _GRID
        requested = int(multiple * int(self.near.beyond.max(initial=1)) * _GRID / problem.k)
        # No more than that for which n_i b_i - w_i T is nowhere below 0.
        counts = self.constraints.must_be_placed & (problem.mass > 0)
        least = beyond[counts] // problem.mass[counts]
        most_mass_dual = min(requested, int(least.min(initial=requested)))
        most = beyond - problem.mass * most_mass_dual
        most = np.where(self.constraints.must_be_placed, most, 0)
        duals, best = most, 0
        for step in range(steps):
            reduced = self.move_cost - duals[self.source]
            without_mass = self._sums(np.minimum(reduced, 0))
            # For each target the best of five mass duals.
            mass_dual, with_mass = np.zeros_like(without_mass), without_mass.copy()
            for quarter in (1, 2, 3, 4):
                price = quarter * most_mass_dual // 4
                cost = problem.k * price + self._sums(np.minimum(reduced - price * self.mass, 0))
                mass_dual = np.where(cost > with_mass, price, mass_dual)
                with_mass = np.maximum(with_mass, cost)
            chosen = choose_open_variants(self.constraints, with_mass, without_mass)
            # Rounded up, since answers cost whole edits.
            best = max(best, -(-(int(duals.sum()) + int(chosen.total)) // _GRID))
            # How often each variant is placed.
            prices = np.where(chosen.open_with_mass, mass_dual, 0)[self.target]
            is_open = (chosen.open_with_mass | chosen.open_without_mass)[self.target]
            is_placed = is_open & (reduced - prices * self.mass < 0)
            slope = 1 - np.bincount(self.source[is_placed], minlength=len(duals))
            if deadline.is_over or not slope.any():
                break
            stride = _FIRST_STEP * _GRID / (1 + step)
            change = stride * np.clip(slope, -4, 1) * problem.cases
            duals = np.clip(duals + change.astype(np.int64), 0, most)
        return best

    def _sums(self, amount: Ints) -> Ints:
        """Sums over the sources of each target: int64, exact."""
        sums = np.zeros(len(self.problem.texts), np.int64)
        np.add.at(sums, self.target, amount)
        return sums
