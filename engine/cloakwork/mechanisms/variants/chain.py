"""A Markov model of activity sequences from noisy counts of transitions, and sequences drawn from
it.

Everything here is post-processing: it sees released counts and random draws only, and costs
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.arrays import Bools, Floats, Ints
from cloakwork.kernel import Randomness

Context = tuple[int, ...]
"""The steps before an event, oldest first: label codes from 1, 0 for START."""

Table = Floats
"""Transitions of order 1, shape (A + 1, A + 1): row 0 is START and row a label a; column a - 1 is
label a, column A END.
"""

MOST_CASES: Final = 10_000_000
"""Cases that one chain draws at most."""

_ROUNDS: Final = 300
"""Rounds of the alternating direction method."""

_FINENESS: Final = 2**30
"""A random start of systematic sampling is one of so many evenly spaced ones."""

_CHUNK: Final = 65_536
"""Cases that draw their next label at a time."""


def fit_flow(noisy: Table, prior: Table, penalty: float, allowed: Bools | None = None) -> Table:
    """The flow nearest to ``noisy`` (least squares) that departs from ``prior`` only where that is
    worth ``penalty``.

    Minimises |F - noisy|**2 / 2 + penalty * |F - prior|_1 over F >= 0 without a step from START to
    END, in which what comes to a label also leaves it, as it does in every case. By the alternating
    direction method of multipliers (Boyd, Parikh, Chu, Peleato, Eckstein 2011, section 3), with
    closed forms for both steps. ``allowed``: where F may be above 0 (everywhere); where it is
    given, small flows stay, else those under a thousandth of the largest go.
    """

    def nearest_to_prior(point: Table) -> Table:
        """The proximal step of penalty * |F - prior|_1 with F >= 0: soft thresholding."""
        departure = _soft_threshold(point - prior, penalty)
        found = np.maximum(prior + departure, 0)
        # No case goes from START to END at once.
        found[0, -1] = 0
        if allowed is None:
            return found
        return np.where(allowed, found, 0)

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
    return np.asarray(np.sign(values) * size)


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


def refine_contexts(noisy: Table, parent: Table, mass: Floats, penalty: float) -> Table:
    """Rows of a longer context: the parent's shares of ``mass``, departed from by what exceeds
    ``penalty``.

    ``noisy`` and ``parent``: shape (contexts, A + 1); ``mass``: shape (contexts,). No step that the
    parent rules out.
    """
    parent_mass = parent.sum(axis=1, keepdims=True)
    # A parent without mass has shares of 0, not of 0/0.
    parent_shares = parent / np.maximum(parent_mass, 1e-300)
    expected = parent_shares * mass[:, None]
    measured = np.where(parent > 0, noisy, expected)
    departure = _soft_threshold(measured - expected, penalty)
    refined: Table = np.maximum(expected + departure, 0)
    lost = refined.sum(axis=1) <= 0
    refined[lost] = expected[lost]
    return refined


@dataclass(frozen=True, slots=True)
class MarkovChain:
    """A Markov chain of variable order: what follows the longest known context.

    ``shares``: shape (contexts, A + 1), cumulative, last column 1 (END); ``next_context``: int64,
    shape (contexts, A), the context after each label. Context 0 is START.
    """

    shares: Floats
    next_context: Ints

    @classmethod
    def from_masses(cls, rows: Mapping[Context, Floats], sharpness: float) -> "MarkovChain":
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
        shares = mass / mass.sum(axis=1, keepdims=True)
        sharpened = shares**sharpness
        sharpened /= sharpened.sum(axis=1, keepdims=True)
        cumulative = np.cumsum(sharpened, axis=1)
        # The sum may have come out below 1.
        cumulative[:, -1] = 1.0
        labels = mass.shape[1] - 1
        return cls(cumulative, _contexts_after_labels(contexts, labels))

    def draw_sequences(self, cases: int, longest: int, noise: Randomness) -> list[tuple[int, ...]]:
        """``cases`` sequences (label codes) of at most ``longest`` events, by systematic sampling
        at every step.

        Of the cases that share a prefix, each next step gets its share, rounded up or down at
        random, so that frequent variants come out as often as expected instead of scattering about
        it. A sequence still open at ``longest`` is cut.
        """
        columns = self.shares.shape[1]
        end = columns - 1
        state = np.zeros(cases, np.int64)
        # Cases of one group share all that they did so far, and stand together: within a group the
        # draws ascend, so that prefixes, by which the next groups are numbered, ascend too.
        group = np.zeros(cases, np.int64)
        open_cases = np.arange(cases)
        steps = []
        for _ in range(longest):
            if not open_cases.size:
                break
            taken = self._draw_next_labels(state[open_cases], group[open_cases], noise)
            prefix = group[open_cases] * columns + taken
            _, group[open_cases] = np.unique(prefix, return_inverse=True)
            goes_on = taken != end
            open_cases, taken = open_cases[goes_on], taken[goes_on]
            state[open_cases] = self.next_context[state[open_cases], taken]
            steps.append((open_cases, taken + 1))
        return _sequences_from_steps(steps, cases)

    def _draw_next_labels(self, state: Ints, group: Ints, noise: Randomness) -> Ints:
        """The column that each case goes to; cases of one group stand together and share their
        state.
        """
        first = np.flatnonzero(np.diff(group, prepend=-1))
        size = np.diff(first, append=group.size)
        # Systematic sampling: evenly spaced positions from a random start, within each group. The
        # case at place i of a group of n gets position (start + i) / n.
        start = noise.uniform(np.full(first.size, _FINENESS, np.int64)) / _FINENESS
        shifted_rank = np.repeat(start - first, size) + np.arange(group.size)
        position = shifted_rank / np.repeat(size, size)
        taken = np.empty(group.size, np.int64)
        # In chunks, since each case is compared with every column.
        for begin in range(0, group.size, _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            # Inversion: a case goes to the first column whose cumulative share is above its
            # position.
            passed = self.shares[state[chunk]] <= position[chunk, None]
            taken[chunk] = passed.sum(axis=1)
        return taken


def _contexts_after_labels(contexts: Sequence[Context], labels: int) -> Ints:
    """The place of the longest known context after each context and label: shape (contexts,
    labels).
    """
    place = {context: number for number, context in enumerate(contexts)}
    longest = max(len(context) for context in contexts)

    def longest_known(path: Context) -> int:
        # It ends: every context of one label is known.
        while path not in place:
            path = path[1:]
        return place[path]

    found = np.empty((len(contexts), labels), np.int64)
    for row, context in enumerate(contexts):
        for label in range(1, labels + 1):
            path = (*context, label)[-longest:]
            found[row, label - 1] = longest_known(path)
    return found


def _sequences_from_steps(steps: list[tuple[Ints, Ints]], cases: int) -> list[tuple[int, ...]]:
    """Activity sequences from the steps taken at each position: which cases, and to which label."""
    found: list[list[int]] = [[] for _ in range(cases)]
    for rows, labels in steps:
        for case, label in zip(rows.tolist(), labels.tolist(), strict=True):
            found[case].append(label)
    return [tuple(sequence) for sequence in found if sequence]
