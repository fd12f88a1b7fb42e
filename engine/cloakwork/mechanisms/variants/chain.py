"""A Markov model of activity sequences from noisy counts of transitions, and sequences drawn from
it, as many of each group of lengths as are required.

Everything here is post-processing: it sees released counts and random draws only, and costs
nothing.

Public rules of a process are structural zeros: which steps a prefix may be followed by. They are
declared, so a rule costs nothing, whatever the log does (Dwork and Roth 2014, proposition 2.1).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, begins_of, owners_of, shares_in_rows
from cloakwork.base.facts import ProcessRules
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Randomness

Context = tuple[int, ...]
"""The steps before an event, oldest first: label codes from 1, 0 for START."""

Table = Floats
"""Transitions of order 1, shape (A + 1, A + 1): row 0 is START and row a label a; column a - 1 is
label a, column A END.
"""

_ROUNDS: Final = 300
"""Rounds of the alternating direction method."""


def fit_flow(
    noisy: Table,
    prior: Table,
    penalty: float,
    allowed: Bools | None = None,
) -> Table:
    """The flow nearest to ``noisy`` (least squares) that departs from ``prior`` only where that is
    worth ``penalty``.

    Minimises |F - noisy|**2 / 2 + penalty * |F - prior|_1 over F >= 0 without a step from START to
    END, in which what comes to a label also leaves it, as it does in every case. By the alternating
    direction method of multipliers (Boyd, Parikh, Chu, Peleato, Eckstein 2011, section 3), with
    closed forms for both steps. ``allowed``: where F may be above 0 (everywhere); where it is
    given, small flows stay, else those under a thousandth of the largest go.
    """

    possible = np.ones(noisy.shape, np.bool_) if allowed is None else allowed.copy()
    # No case goes from START to END at once.
    possible[0, -1] = False

    def nearest_to_prior(point: Table) -> Table:
        """The proximal step of penalty * |F - prior|_1 with F >= 0: soft thresholding."""
        departure = _soft_threshold(point - prior, penalty)
        return np.where(possible, np.maximum(prior + departure, 0), 0)

    # The method's z, and u, its scaled dual variable (step size 1); ``balanced`` is its x.
    flow = nearest_to_prior(noisy)
    dual = np.zeros_like(noisy)
    for _ in range(_ROUNDS):
        balanced = _balance_flow((noisy + flow - dual) / 2)
        flow = nearest_to_prior(balanced + dual)
        dual = dual + balanced - flow
    least = 1e-3
    if allowed is None:
        least *= max(1.0, float(flow.max()))
    return np.where(flow > least, flow, 0)


def _soft_threshold(values: Table, by: float) -> Table:
    """Each value brought nearer to zero by ``by``, at most to zero."""
    size = np.maximum(np.abs(values) - by, 0)
    return np.sign(values) * size


def _balance_flow(table: Table) -> Table:
    """The nearest table (of either sign) in which as much comes to each label as leaves it.

    With the excess r, the multipliers are (r + sum r) / (2 A + 2): the normal equations are (2 A +
    2) I - 2 (all ones).
    """
    leaves = table[1:].sum(axis=1)
    comes = table[:, :-1].sum(axis=0)
    excess = leaves - comes
    change = (excess + excess.sum()) / (2 * len(excess) + 2)
    found = table.copy()
    found[1:] -= change[:, None]
    found[:, :-1] += change
    return found


def refine_contexts(
    noisy: Table,
    parent: Table,
    mass: Floats,
    penalty: float,
) -> Table:
    """Rows of a longer context: the parent's shares of ``mass``, departed from by what exceeds
    ``penalty``.

    ``noisy`` and ``parent``: shape (contexts, A + 1); ``mass``: shape (contexts,). No step that the
    parent rules out.
    """
    parent_mass = parent.sum(axis=1, keepdims=True)
    # A parent without mass has shares of 0, not of 0/0.
    parent_shares = parent / np.maximum(parent_mass, 1e-300)
    expected = parent_shares * mass[:, None]
    # What is expected stands in for steps that the parent rules out, so they do not depart.
    measured = np.where(parent > 0, noisy, expected)
    departure = _soft_threshold(measured - expected, penalty)
    refined: Table = np.maximum(expected + departure, 0)
    # A context that lost all of its mass falls back to its parent's shares.
    lost = refined.sum(axis=1) <= 0
    refined[lost] = expected[lost]
    return refined


@frozen
class MarkovChain:
    """A Markov chain of variable order: what follows the longest known context.

    ``shares``: of what follows each context, shape (contexts, A + 1), the last column END;
    ``next_context``: int64, shape (contexts, A), the context after each label; ``latest``: int64,
    shape (contexts,), the last step of each context. Context 0 is START.
    """

    shares: Floats
    next_context: Ints
    latest: Ints

    @classmethod
    def from_masses(
        cls,
        rows: Mapping[Context, Floats],
        sharpness: float,
    ) -> "MarkovChain":
        """From masses by context; shares are raised to ``sharpness`` (1 leaves them) and made to
        add up to 1 again.

        ``rows`` must hold START and each label as contexts of length 1. A context without mass ends
        the case.
        """
        # Shorter ones first, so that START, (0,), is context 0.
        contexts = sorted(rows, key=lambda context: (len(context), context))
        mass = np.array([rows[context] for context in contexts], np.float64)
        has_none = mass.sum(axis=1) <= 0
        mass[has_none, -1] = 1.0
        sharpened = shares_in_rows(mass) ** sharpness
        latest = np.array([context[-1] for context in contexts], np.int64)
        labels = mass.shape[1] - 1
        return cls(shares_in_rows(sharpened), _contexts_after_labels(contexts, labels), latest)

    def weighted(self, factors: Table) -> "MarkovChain":
        """The same chain with every step taken more or less often, by the ``factors`` (above 0) of
        its last two labels: the layout of ``Table``.
        """
        shares = shares_in_rows(self.shares * factors[self.latest])
        return MarkovChain(shares, self.next_context, self.latest)

    def _steps(self) -> tuple[Ints, Floats, Ints]:
        """Every step but to the END: from which context, how often, and the context behind it."""
        context, label = np.nonzero(self.shares[:, :-1])
        return context, self.shares[context, label], self.next_context[context, label]

    def lengths(self, longest: int) -> Floats:
        """The shares of the chain's cases that end after 1, 2, ... ``longest`` events."""
        context, share, after = self._steps()
        mass: Floats = np.zeros(len(self.shares))
        mass[0] = 1.0
        ends = np.empty(longest)
        for length in range(longest):
            # One step more for the mass in every context; what reaches the END leaves it.
            mass = np.bincount(after, mass[context] * share, len(mass)).astype(np.float64)
            ends[length] = mass @ self.shares[:, -1]
        return ends

    def ended(self, longest: int) -> Floats:
        """In row n the share of cases in each context that end after fewer than n more events:
        shape (``longest`` + 1, contexts).
        """
        context, share, after = self._steps()
        found = np.zeros((longest + 1, len(self.shares)))
        for more in range(1, longest + 1):
            # By recursion: who ends within n events ends now, or within n - 1 after a step.
            later = np.bincount(context, share * found[more - 1][after], len(self.shares))
            found[more] = self.shares[:, -1] + later
        return found


def _contexts_after_labels(contexts: Sequence[Context], labels: int) -> Ints:
    """The place of the longest known context after each: shape (contexts, labels)."""
    place = {context: number for number, context in enumerate(contexts)}
    longest = max(map(len, contexts))
    found = np.empty((len(contexts), labels), np.int64)
    for row, context in enumerate(contexts):
        for label in range(1, labels + 1):
            path = (*context, label)[-longest:]
            # It ends: every context of one label is known.
            while path not in place:
                path = path[1:]
            found[row, label - 1] = place[path]
    return found


MOST_CASES: Final = 10_000_000
"""Cases that one chain draws at most."""

StepFactors = Callable[[Ints], Floats]
"""From sequences of labels (codes from 1; int64, shape (sequences, events)) to the factors by which
each label, or the end, follows them more often than the chain says: shape (sequences, A + 1). What
has factor 0 never follows; some label may begin a case, and after a label the end may follow.
"""

_FINENESS: Final = 2**30
"""A random start of systematic sampling is one of so many evenly spaced ones."""

_CHUNK: Final = 2**22
"""Shares that are held at a time, and compared: cases by columns."""


@frozen
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


def length_edges(
    chain: MarkovChain,
    groups: int,
    longest: int,
) -> Ints:
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
    # As many cases at a time as may be compared with every column.
    at_once = max(1, _CHUNK // columns)
    required = owners_of(groups.cases)
    # Context 0 is START.
    state = np.zeros(len(required), np.int64)
    # Cases of one length that share all that they did so far stand together: within a group the
    # draws ascend, so that prefixes, by which the next groups are numbered, ascend too.
    group = required.copy()
    prefixes = np.zeros((len(groups.cases), 0), np.int64)
    open_cases = np.arange(len(required))
    sequences: list[list[int]] = [[] for _ in required]
    for length in range(longest):
        if not open_cases.size:
            break
        position = _positions(group[open_cases], noise)
        if factors is not None:
            own = np.unique(group[open_cases])
            by_prefix = np.empty((len(prefixes), columns))
            by_prefix[own] = factors(prefixes[own])
        taken = np.empty(len(open_cases), np.int64)
        for begin in range(0, len(open_cases), at_once):
            rows = slice(begin, begin + at_once)
            chunk = open_cases[rows]
            # Cases that share a prefix are in one context, and of one group.
            kinds = required[chunk] * len(chain.shares) + state[chunk]
            if factors is not None:
                kinds = group[chunk]
            _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
            one = chunk[first]
            weights = steps_of.weights(state[one], required[one], length)
            if factors is not None:
                permitted = by_prefix[group[one]]
                weights = weights * permitted
                # Where all that the chain would do is ruled out, a case ends, or begins as it may.
                lost = weights.sum(axis=1) <= 0
                weights[lost] = permitted[lost]
                weights[lost, :-1] *= length == 0
            cumulative = np.cumsum(weights, axis=1)
            cumulative /= cumulative[:, -1:]
            # The first column whose cumulative share is above the case's position. Without the
            # last one: rounding must not push a case beyond it.
            passed = cumulative[kind, :-1] <= position[rows, None]
            taken[rows] = passed.sum(axis=1)
        # Renumber the prefixes: each grows by the label taken, the END included.
        longer, group[open_cases] = np.unique(
            group[open_cases] * columns + taken, return_inverse=True
        )
        if factors is not None:
            shorter, label = np.divmod(longer, columns)
            prefixes = np.column_stack([prefixes[shorter], label + 1])
        # Cases that took the END are done; the others go on in the context behind their label.
        goes_on = taken != columns - 1
        open_cases = open_cases[goes_on]
        taken = taken[goes_on]
        state[open_cases] = chain.next_context[state[open_cases], taken]
        for case, label_code in zip(open_cases.tolist(), (taken + 1).tolist(), strict=True):
            sequences[case].append(label_code)
    return [tuple(sequence) for sequence in sequences if sequence]


def _positions(group: Ints, noise: Randomness) -> Floats:
    """Systematic sampling: evenly spaced positions from a random start, within each group. The case
    at place i of a group of n gets position (start + i) / n.
    """
    first = begins_of(group)
    size = np.diff(first, append=group.size)
    start = noise.uniform(np.full(first.size, _FINENESS, np.int64)) / _FINENESS
    shifted_rank = np.repeat(start - first, size) + np.arange(group.size)
    found: Floats = shifted_rank / np.repeat(size, size)
    return found


@frozen
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
        # The first group begins at one event; the last one has no end.
        least = np.concatenate([[1], edges])
        most = np.concatenate([edges - 1, [np.iinfo(np.int64).max]])
        return cls(chain, chain.ended(int(least[-1])), least, most)

    def weights(
        self,
        state: Ints,
        required: Ints,
        length: int,
    ) -> Floats:
        """How much each column weighs for a case in context ``state`` after ``length`` events:
        shape (cases, A + 1). ``required``: its group of lengths.
        """
        least = self.least[required]
        most = self.most[required]
        shares = self.chain.shares[state]
        after = self.chain.next_context[state]
        # The share of cases in each next context that end after so many more events as are left.
        fewest = np.maximum(least - length - 1, 0)
        last = most - length - 1
        last_row = len(self.ended) - 1
        until = self.ended[np.clip(last + 1, 0, last_row)[:, None], after]
        until[last >= last_row] = 1.0
        ending = np.maximum(until - self.ended[fewest[:, None], after], 0)
        found = shares.copy()
        found[:, :-1] *= ending
        found[:, -1] *= (least <= length) & (length <= most)
        # Where the chain has no case of this length, it goes on as if none had been required.
        lost = found.sum(axis=1) <= 0
        found[lost] = shares[lost]
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
    # Rounding running totals keeps the sum exact, which rounding each number would not.
    ends = np.minimum(np.rint(np.cumsum(numbers)).astype(np.int64), total)
    ends[-1] = total
    return np.diff(ends, prepend=0)


def permitted_steps(rules: ProcessRules, alphabet: Sequence[str]) -> StepFactors:
    """1 for each label, or the END, that may follow a prefix which keeps the rules, and 0 for those
    that would break one. After an event the END always may; before any, it never does.
    """
    code = {label: place for place, label in enumerate(alphabet)}
    size = len(alphabet)
    is_start = np.array([label in rules.starts_with for label in alphabet], np.bool_)
    once = np.array([label in rules.at_most_once for label in alphabet], np.bool_)
    # Of a pair whose first activity is none of the alphabet, the second never happens.
    before = [(code.get(a), code[b]) for a, b in rules.before if b in code]
    together = [[code[label] for label in group if label in code] for group in rules.never_together]

    def factors(prefixes: Ints) -> Floats:
        cases, events = prefixes.shape
        seen = np.zeros((cases, size), np.bool_)
        seen[np.arange(cases)[:, None], prefixes - 1] = True
        allowed = np.ones((cases, size + 1), np.bool_)
        labels = allowed[:, :size]
        labels &= ~(seen & once)
        for a, b in before:
            labels[:, b] &= False if a is None else seen[:, a]
        for group in together:
            # Whichever of them happened, no other may.
            others = seen[:, group].sum(axis=1, keepdims=True) - seen[:, group]
            labels[:, group] &= others == 0
        if not events:
            allowed[:, size] = False
            if rules.starts_with:
                labels &= is_start
        return allowed.astype(np.float64)

    return factors


def permitted_pairs(rules: ProcessRules, alphabet: Sequence[str]) -> Bools:
    """Which steps of order 1 some case may take: the layout of ``chain.Table``."""
    found = np.ones((len(alphabet) + 1, len(alphabet) + 1), np.bool_)
    factors = permitted_steps(rules, alphabet)
    found[0] = factors(np.zeros((1, 0), np.int64))[0] > 0
    for a, one in enumerate(alphabet):
        found[a + 1, a] &= one not in rules.at_most_once
        for group in rules.never_together:
            if one in group:
                found[a + 1, :-1] &= [other == one or other not in group for other in alphabet]
    return found
