"""Sequences drawn from a Markov chain, as many of each group of lengths as are required.

Everything here is post-processing of released counts, like the chain itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import Randomness
from cloakwork.mechanisms.variants.chain import MarkovChain

MOST_CASES: Final = 10_000_000
"""Cases that one chain draws at most."""

StepFactors = Callable[[Ints], Floats]
"""From sequences of labels (codes from 1; int64, shape (sequences, events)) to the factors, above
0, by which each label, or the end, follows them more often than the chain says: shape (sequences,
A + 1).
"""

_FINENESS: Final = 2**30
"""A random start of systematic sampling is one of so many evenly spaced ones."""

_CHUNK: Final = 2**22
"""Shares that are held at a time, and compared: cases by columns."""


@dataclass(frozen=True, slots=True)
class LengthGroups:
    """How many ``cases`` (int64, shape (groups,)) are required of each group of lengths, in events;
    ``edges``, int64, above 1 and ascending: where the second group and each later one begins.
    """

    cases: Ints
    edges: Ints

    @classmethod
    def of_any(cls, cases: int) -> "LengthGroups":
        """So many cases, however long."""
        return cls(np.array([cases], np.int64), np.zeros(0, np.int64))

    def reduced(self, most: int) -> "LengthGroups":
        """About ``most`` cases, if there are more, in the same proportions."""
        total = int(self.cases.sum())
        if total <= most:
            return self
        cases = self.cases.astype(np.float64) * (most / total)
        return LengthGroups(in_whole(cases, most), self.edges)


def length_edges(chain: MarkovChain, groups: int, longest: int) -> Ints:
    """Lengths that part the cases of ``chain`` into at most ``groups`` about equally frequent
    ones; none above ``longest``.
    """
    ended = np.cumsum(chain.lengths(longest))
    last_places = np.searchsorted(ended, np.arange(1, groups) / groups)
    # Place 0 is length 1; a group begins one above the last length of the group before.
    edges = np.unique(last_places + 2)
    return edges[edges <= longest].astype(np.int64)


def draw_sequences(
    chain: MarkovChain,
    groups: LengthGroups,
    longest: int,
    noise: Randomness,
    factors: StepFactors | None = None,
) -> list[tuple[int, ...]]:
    """Sequences (label codes) of at most ``longest`` events, as many as ``groups`` say, by
    systematic sampling at every step.

    Each is drawn as the chain draws those whose length lies in the group. Of the cases of one group
    that share a prefix, each next step gets its share, rounded up or down at random, so that
    frequent variants come out as often as expected instead of scattering about it. A sequence still
    open at ``longest`` is cut. ``factors``: of what follows a whole prefix; none: the chain's own.
    """
    columns = chain.shares.shape[1]
    steps_of = _StepsByLength.of(chain, groups.edges)
    prefixes = np.zeros((len(groups.cases), 0), np.int64)
    required = np.repeat(np.arange(len(groups.cases)), groups.cases)
    state = np.zeros(len(required), np.int64)
    # Cases of one length that share all that they did so far stand together: within a group the
    # draws ascend, so that prefixes, by which the next groups are numbered, ascend too.
    group = required.copy()
    open_cases = np.arange(len(required))
    steps = []
    for length in range(longest):
        if not open_cases.size:
            break
        position = _positions(group[open_cases], noise)
        by_prefix = None
        if factors is not None:
            by_prefix = _FactorsByPrefix.of(factors, prefixes, group[open_cases])
        taken = np.empty(len(open_cases), np.int64)
        # In chunks, since each case is compared with every column.
        size = max(1, _CHUNK // columns)
        for begin in range(0, len(open_cases), size):
            rows = slice(begin, begin + size)
            chunk = open_cases[rows]
            of_chunk = None if by_prefix is None else by_prefix.at(group[chunk])
            taken[rows] = steps_of.at(
                position[rows], state[chunk], required[chunk], length, of_chunk
            )
        prefix = group[open_cases] * columns + taken
        longer, group[open_cases] = np.unique(prefix, return_inverse=True)
        if factors is not None:
            shorter, label = np.divmod(longer, columns)
            prefixes = np.column_stack([prefixes[shorter], label + 1])
        goes_on = taken != columns - 1
        open_cases, taken = open_cases[goes_on], taken[goes_on]
        state[open_cases] = chain.next_context[state[open_cases], taken]
        steps.append((open_cases, taken + 1))
    return _sequences_from_steps(steps, len(required))


def _positions(group: Ints, noise: Randomness) -> Floats:
    """Systematic sampling: evenly spaced positions from a random start, within each group. The case
    at place i of a group of n gets position (start + i) / n.
    """
    first = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.diff(first, append=group.size)
    start = noise.uniform(np.full(first.size, _FINENESS, np.int64)) / _FINENESS
    shifted_rank = np.repeat(start - first, size) + np.arange(group.size)
    found: Floats = shifted_rank / np.repeat(size, size)
    return found


@dataclass(frozen=True, slots=True)
class _FactorsByPrefix:
    """``factors`` of each distinct prefix of some cases, shape (prefixes, A + 1); ``first``: the
    place of a case that has it; ``of_case``: which one each case has; both int64.
    """

    numbers: Ints
    factors: Floats
    first: Ints
    of_case: Ints

    @classmethod
    def of(cls, factors: StepFactors, prefixes: Ints, group: Ints) -> "_FactorsByPrefix":
        """Those of cases in these groups, of which ``prefixes`` are the rows."""
        numbers, first, of_case = np.unique(group, return_index=True, return_inverse=True)
        return cls(numbers, factors(prefixes[numbers]), first, of_case)

    def at(self, group: Ints) -> "_FactorsByPrefix":
        """The same for some of the cases, in these groups."""
        kept, first, of_case = np.unique(group, return_index=True, return_inverse=True)
        places = np.searchsorted(self.numbers, kept)
        return _FactorsByPrefix(kept, self.factors[places], first, of_case)


@dataclass(frozen=True, slots=True)
class _StepsByLength:
    """What a chain does next, given how long the case will be: each step's share times that of the
    cases which, once there, end within the group.

    ``ended``: of the chain, up to the last edge; ``least`` and ``most``: of each group, int64, the
    last one without an end.
    """

    chain: MarkovChain
    ended: Floats
    least: Ints
    most: Ints

    @classmethod
    def of(cls, chain: MarkovChain, edges: Ints) -> "_StepsByLength":
        least = np.concatenate([[1], edges])
        most = np.concatenate([edges - 1, [np.iinfo(np.int64).max]])
        return cls(chain, chain.ended(int(least[-1])), least, most)

    def at(
        self,
        position: Floats,
        state: Ints,
        required: Ints,
        length: int,
        by_prefix: "_FactorsByPrefix | None" = None,
    ) -> Ints:
        """The column that each case goes to after ``length`` events; ``required``: its group of
        lengths.
        """
        if by_prefix is None:
            contexts = len(self.chain.shares)
            kinds, kind = np.unique(required * contexts + state, return_inverse=True)
            group_once, state_once = np.divmod(kinds, contexts)
            weights = self._weights(state_once, group_once, length)
        else:
            # Cases that share a prefix are in one context, and of one group.
            first, kind = by_prefix.first, by_prefix.of_case
            weights = self._weights(state[first], required[first], length) * by_prefix.factors
        cumulative = np.cumsum(weights, axis=1)
        cumulative /= cumulative[:, -1:]
        # Inversion: a case goes to the first column whose cumulative share is above its position.
        passed = cumulative[kind, :-1] <= position[:, None]
        return np.asarray(passed.sum(axis=1), np.int64)

    def _weights(self, state: Ints, required: Ints, length: int) -> Floats:
        least, most = self.least[required], self.most[required]
        shares = self.chain.shares[state]
        after = self.chain.next_context[state]
        found = shares.copy()
        found[:, :-1] *= self._ending(after, (least - length - 1)[:, None], most - length - 1)
        found[:, -1] *= (least <= length) & (length <= most)
        # Where the chain has no case of this length, it goes on as if none had been required.
        lost = found.sum(axis=1) <= 0
        found[lost] = shares[lost]
        return found

    def _ending(self, context: Ints, fewest: Ints, most: Ints) -> Floats:
        """The share of cases in each ``context`` that end after ``fewest`` to ``most`` more
        events.
        """
        before = self.ended[np.maximum(fewest, 0), context]
        last_row = len(self.ended) - 1
        until = self.ended[np.clip(most + 1, 0, last_row)[:, None], context]
        until[most >= last_row] = 1.0
        found: Floats = np.maximum(until - before, 0)
        return found


def nearest_counts(noisy: Floats, total: float) -> Floats:
    """The numbers nearest to ``noisy`` (least squares) that are at least 0 and add up to ``total``
    (Duchi, Shalev-Shwartz, Singer and Chandra 2008, figure 1).
    """
    descending = np.sort(noisy)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(noisy) + 1)
    # A number stays above 0 as long as it is above what all larger ones together have too much.
    kept = max(1, int((descending > excess).sum()))
    found: Floats = np.maximum(noisy - excess[kept - 1], 0)
    return found


def in_whole(numbers: Floats, total: int) -> Ints:
    """Whole numbers that add up to ``total``, as ``numbers`` (at least 0) do but for rounding."""
    ends = np.minimum(np.rint(np.cumsum(numbers)).astype(np.int64), total)
    ends[-1] = total
    return np.diff(ends, prepend=0)


def _sequences_from_steps(steps: list[tuple[Ints, Ints]], cases: int) -> list[tuple[int, ...]]:
    """Activity sequences from the steps taken at each position: which cases, and to which label."""
    found: list[list[int]] = [[] for _ in range(cases)]
    for rows, labels in steps:
        for case, label in zip(rows.tolist(), labels.tolist(), strict=True):
            found[case].append(label)
    return [tuple(sequence) for sequence in found if sequence]
