"""A Markov model of activity sequences from noisy counts of transitions.

Everything here is post-processing: it sees released counts and random draws only, and costs
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints

Context = tuple[int, ...]
"""The steps before an event, oldest first: label codes from 1, 0 for START."""

Table = Floats
"""Transitions of order 1, shape (A + 1, A + 1): row 0 is START and row a label a; column a - 1 is
label a, column A END.
"""

_ROUNDS: Final = 300
"""Rounds of the alternating direction method."""


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

    ``shares``: of what follows each context, shape (contexts, A + 1), the last column END;
    ``next_context``: int64, shape (contexts, A), the context after each label; ``latest``: int64,
    shape (contexts,), the last step of each context. Context 0 is START.
    """

    shares: Floats
    next_context: Ints
    latest: Ints

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
        sharpened = _shares_of(mass) ** sharpness
        latest = np.array([context[-1] for context in contexts], np.int64)
        labels = mass.shape[1] - 1
        return cls(_shares_of(sharpened), _contexts_after_labels(contexts, labels), latest)

    def weighted(self, factors: Table) -> "MarkovChain":
        """The same chain with every step taken more or less often, by the ``factors`` (above 0) of
        its last two labels: the layout of ``Table``.
        """
        shares = _shares_of(self.shares * factors[self.latest])
        return MarkovChain(shares, self.next_context, self.latest)

    def lengths(self, longest: int) -> Floats:
        """The shares of the chain's cases that end after 1, 2, ... ``longest`` events."""
        context, label = np.nonzero(self.shares[:, :-1])
        share, after = self.shares[context, label], self.next_context[context, label]
        mass: Floats = np.zeros(len(self.shares))
        mass[0] = 1.0
        ends = np.empty(longest)
        for length in range(longest):
            mass = np.bincount(after, mass[context] * share, len(mass)).astype(np.float64)
            ends[length] = mass @ self.shares[:, -1]
        return ends

    def ended(self, longest: int) -> Floats:
        """In row n the share of cases in each context that end after fewer than n more events:
        shape (``longest`` + 1, contexts).
        """
        context, label = np.nonzero(self.shares[:, :-1])
        share, after = self.shares[context, label], self.next_context[context, label]
        found = np.zeros((longest + 1, len(self.shares)))
        for more in range(1, longest + 1):
            later = np.bincount(context, share * found[more - 1][after], len(self.shares))
            found[more] = self.shares[:, -1] + later
        return found


def _shares_of(mass: Floats) -> Floats:
    """Rows of masses, none of them empty, made to add up to 1."""
    found: Floats = mass / mass.sum(axis=1, keepdims=True)
    return found


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
