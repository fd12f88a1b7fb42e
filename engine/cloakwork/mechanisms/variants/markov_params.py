"""The parameters of variants/markov: what a case contributes to its counts, how budget and delta
are shared, and the least noise for a goal.

A transition of order o is the o steps before an event (START counts as one) together with the
event, or END. The counts of one case, of at most ``MOST_CELLS`` different transitions, are scaled
to Euclidean norm 1 and rounded down to a grid of 1/``UNIT_NORM``. So long cases count for no more
than short ones, and one case more or less moves a table of transitions by at most ``UNIT_NORM``
grid steps (L2), in at most ``MOST_CELLS`` cells.

Cases are coded over a public alphabet of A labels; in a transition they are 1 to A, 0 is START and
A + 1 is END.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, Field

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.arrays import Ints
from cloakwork.base.costs import Composed, Cost, DiscreteGaussian, EpsilonDelta, PrivacyEvent
from cloakwork.base.naming import STEPS_TABLE
from cloakwork.base.quantities import Frozen, Number
from cloakwork.base.rules import ProcessRules
from cloakwork.kernel import Cases, Clip, Entries, Query, Table, vector_event

UNIT_NORM: Final = 2**13
"""Grid steps in one case. With sigma above 1,000 steps the accountant charges a whole vector by its
Euclidean norm.
"""

MOST_CELLS: Final = 64
"""Different transitions, or activities, that one case may count for; those that come first in it.
"""

WHOLE: Final = Clip("l1", UNIT_NORM, 1)
"""A case counts for one, on one cell."""

SPREAD: Final = Clip("l2", UNIT_NORM, MOST_CELLS)
"""A case counts for a vector of norm 1."""


def transitions_of(order: int) -> Query:
    """The transitions of ``order`` of cases that are coded over the alphabet: time linear in
    events.

    The code of the transition s1, ..., so, next is their number to the base A + 2, most significant
    first. Each counts for ``UNIT_NORM``, so that every vector is at least as long as ``SPREAD``
    allows, and is scaled down to it.
    """

    def transitions(cases: Cases) -> Entries:
        # All cases one after the other, each as START, its labels, END; none without events.
        lengths = np.where(cases.lengths > 0, cases.lengths + 2, 0)
        ends = np.cumsum(lengths)
        symbol = np.zeros(lengths.sum(), np.int64)
        # Labels stand behind the START of their case; codes are shifted, as 0 is START.
        symbol[(ends - lengths)[cases.case_of] + 1 + cases.place] = cases.codes + 1
        symbol[ends[lengths > 0] - 1] = len(cases.alphabet) + 1
        case = np.repeat(np.arange(len(cases)), lengths)
        # A transition is a window of symbols that ends at ``end``; it counts where all of it lies
        # in one case, which it does where both its ends do.
        end = np.arange(order, len(symbol))
        end = end[case[end] == case[end - order]]
        # Horner's scheme over the window, the oldest symbol first.
        code = np.zeros(len(end), np.int64)
        for back in range(order, -1, -1):
            code *= len(cases.alphabet) + 2
            code += symbol[end - back]
        return Entries(case[end], np.full(len(end), UNIT_NORM), code)

    return transitions


def codes_after(contexts: Sequence[Sequence[int]], labels: int) -> Ints:
    """The codes of all transitions from each of ``contexts``, of one order, to each label and END:
    int64, shape (contexts, ``labels`` + 1).
    """
    base = labels + 2
    begin = np.zeros(len(contexts), np.int64)
    for steps in zip(*contexts, strict=True):
        begin = begin * base + np.array(steps, np.int64)
    return begin[:, None] * base + np.arange(1, base)


def steps_table(order: int, alphabet: Sequence[str]) -> Table:
    """What the transitions of ``order`` are called, and how their codes are spelled: START and END
    as None.
    """

    def spell(codes: Ints) -> list[tuple[str | None, ...]]:
        names = (None, *alphabet, None)
        base = len(names)
        digits = [codes // base**place % base for place in range(order, -1, -1)]
        return [tuple(names[each] for each in key) for key in zip(*digits, strict=True)]

    name = STEPS_TABLE if order == 1 else f"{STEPS_TABLE}, behind {order}"
    return Table(name, spell)


def nonempty(cases: Cases) -> Entries:
    """One entry for each case with events."""
    rows = np.flatnonzero(cases.lengths)
    return Entries(rows, np.full(len(rows), UNIT_NORM))


def lengths_by(edges: Ints) -> Query:
    """One entry for each case with events: the place of its length, in events, between ``edges``
    (int64, ascending): 0 below the first.
    """

    def lengths(cases: Cases) -> Entries:
        rows = np.flatnonzero(cases.lengths)
        place = np.searchsorted(edges, cases.lengths[rows], side="right")
        return Entries(rows, np.full(len(rows), UNIT_NORM), place.astype(np.int64))

    return lengths


def variant(cases: Cases) -> Entries:
    """One entry for each case with events: its activity sequence."""
    rows = np.flatnonzero(cases.lengths)
    start = cases.offsets[:-1][rows]
    stop = cases.offsets[1:][rows]
    return Entries(
        rows,
        np.full(len(rows), UNIT_NORM),
        None,
        start,
        stop,
    )


def activities(cases: Cases) -> Entries:
    """Each activity of a case, once: that of its first event."""
    _, first = np.unique(cases.case_of * len(cases.alphabet) + cases.codes, return_index=True)
    # Back in the order of events: the clip keeps the activities that come first in a case.
    events = np.sort(first)
    size = np.full(len(events), UNIT_NORM)
    return Entries(
        cases.case_of[events],
        size,
        None,
        events,
        events + 1,
    )


SHARES: Final = (0.34, 0.03, 0.07, 0.26, 0.18, 0.12)
"""Parts of the budget (of 1/sigma**2): frequent variants, number of other cases, their lengths, and
their transitions of order 1, 2 and 3.

These, ``LABELS_BUDGET``, ``SHARPNESS``, ``PENALTIES`` and ``KNOWN`` were chosen on synthetic logs
alone (``benchmarks/variants/synthetic.py``).
"""

SHARES_OF_ALL: Final = (0.001, 0.05, 0.1, 0.5, 0.25, 0.099)
"""The same where no variant is frequent enough to be released: nothing is spent on these."""

SHARES_OF_FEW: Final = (0.2, 0.04, 0.08, 0.4, 0.2, 0.08)
"""The same beside other columns where noise is so much that few variants are released."""

FEW_BELOW: Final = 0.15
"""Noise is so much where one case moves all tables together by fewer deviations: a variant then
needs about 60 cases to be released (epsilon .5 for a whole log, and less).
"""

LABELS_BUDGET: Final = 0.25
"""The part of the budget for selecting activities, where none are declared; the others get what it
leaves.
"""

SELECTION_SHARE: Final = 0.49
"""The part of delta that the threshold spends; the accountant gives Gaussian noise the other half.
"""

LABELS_SHARE: Final = 0.5
"""Of that, the part for the activities' threshold."""

SHARPNESS: Final = 1.4

LONGEST: Final = 200
"""Events of a generated case at most, where the policy does not declare ``longest_case``."""

# Above it the accountant charges a vector by its Euclidean norm (see ``UNIT_NORM``).
_LEAST_SIGMA: Final = 1024.0

Share = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]


class Selection(Frozen):
    """Activities are selected by noisy counts of the cases that hold them: ``sigma`` and least
    count ``tau``, in grid steps.
    """

    sigma: Annotated[Number, Field(gt=0)]
    tau: Annotated[int, Field(ge=1)]


class MarkovOptions(BaseModel):
    """``sharpness``: 1 draws steps with the shares they were measured with; more makes frequent
    steps more frequent.

    ``shares``: how the budget is split, as ``SHARES`` lists it; scaled to add up to 1. None: as
    ``SHARES`` says, or ``SHARES_OF_FEW``.
    """

    model_config = {"extra": "forbid", "frozen": True}
    sharpness: Annotated[float, Field(ge=1, le=4, allow_inf_nan=False)] = SHARPNESS
    shares: tuple[Share, Share, Share, Share, Share, Share] | None = None


class MarkovParams(Frozen):
    """``sigmas``: of the discrete Gaussian noise on the six tables that ``SHARES`` names, in that
    order.

    ``tau``: least noisy count of a frequent variant. Both in grid steps, ``UNIT_NORM`` to a case.
    ``alphabet``: the public labels; or else ``selection``: how they are found. ``rules``: public
    ones, which no drawn case breaks. ``longest``: events
    of a generated case; ``max_cases``: cases of a unit. ``epsilon`` and ``delta``: what sigmas and
    tau were found for.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    alphabet: tuple[str, ...] | None = None
    selection: Selection | None = None
    rules: Annotated[ProcessRules | None, Field(exclude_if=lambda rules: rules is None)] = None
    longest: Annotated[int, Field(ge=1)] = LONGEST
    sharpness: Annotated[Number, Field(ge=1, le=4)] = SHARPNESS
    sigmas: tuple[float, float, float, float, float, float]
    tau: Annotated[int, Field(ge=1)]


MarkovNoise = tuple[tuple[float, float, float, float, float, float], int, Selection | None]
"""Sigmas and tau of ``MarkovParams``, and how activities are selected."""


# Asked for anew by each plan, and by each proof of one, of the same few targets.
@lru_cache(maxsize=256)
def calibrate_markov(
    target: Cost,
    max_cases: int,
    shares: tuple[float, ...],
    declared: bool,
) -> MarkovNoise:
    """Sigmas, tau and, unless activities are ``declared``, how to select them, at a cost of at most
    ``target``.
    """
    from cloakwork.accounting.calibrate import smallest_scale

    # Thresholds get their part of delta first; the noise is then as small as the rest allows.
    deltas = selection_deltas(target.delta, 1 if declared else 2)

    def event_at(scale: float) -> PrivacyEvent:
        return noise_event(sigmas_at(scale, shares, declared), deltas, max_cases)

    scale = smallest_scale(event_at, target)
    return _with_thresholds(sigmas_at(scale, shares, declared), deltas, max_cases)


def markov_part(
    mu: float,
    delta: float,
    max_cases: int,
    shares: Sequence[float],
    declared: bool,
) -> MarkovNoise:
    """The same for noise on all tables that a unit moves by ``mu`` deviations at most, with
    thresholds that it passes with a probability of at most ``delta``.
    """
    # ``delta`` is what thresholds spend, so the whole is that over their share.
    deltas = selection_deltas(delta / SELECTION_SHARE, 1 if declared else 2)
    scale = max_cases * UNIT_NORM / mu
    for _ in range(4):
        # Norms are rounded up, cell by cell: a little more noise makes up for it.
        event = noise_event(sigmas_at(scale, shares, declared), (), max_cases)
        excess = sum(
            times * (leaf.sensitivity / leaf.sigma) ** 2
            for leaf, times in leaves_of(event)
            if isinstance(leaf, DiscreteGaussian)
        )
        if excess <= mu * mu:
            break
        scale *= math.sqrt(excess) / mu * (1 + 1e-12)
    return _with_thresholds(sigmas_at(scale, shares, declared), deltas, max_cases)


def sigmas_at(
    scale: float,
    shares: Sequence[float],
    declared: bool,
) -> tuple[float, ...]:
    """Of all tables, and of the activities' counts unless they are ``declared``, for noise of
    ``scale`` altogether: a table's part of the budget is of 1/sigma**2.
    """
    all_shares = list(shares)
    if not declared:
        # So that activities get LABELS_BUDGET of the whole, and the tables keep their proportions.
        all_shares.append(sum(shares) * LABELS_BUDGET / (1 - LABELS_BUDGET))
    total = sum(all_shares)
    return tuple(max(scale / math.sqrt(share / total), _LEAST_SIGMA) for share in all_shares)


def _with_thresholds(
    sigmas: Sequence[float],
    deltas: Sequence[float],
    max_cases: int,
) -> MarkovNoise:
    frequent, count, lengths, first, second, third, *labels = sigmas
    tau = least_tau(frequent, deltas[0], max_cases)
    selection = None
    # A case has one variant but up to MOST_CELLS activities, so their threshold is higher.
    if labels:
        least = least_tau(labels[0], deltas[1], max_cases, labels=MOST_CELLS)
        selection = Selection(sigma=labels[0], tau=least)
    return (frequent, count, lengths, first, second, third), tau, selection


def selection_deltas(delta: float, selections: int) -> tuple[float, ...]:
    """What the thresholds of frequent variants and, if there are two, of activities may spend of
    ``delta``.
    """
    spent = SELECTION_SHARE * delta
    if selections == 1:
        return (spent,)
    return spent * (1 - LABELS_SHARE), spent * LABELS_SHARE


def all_sigmas(params: MarkovParams) -> tuple[float, ...]:
    """Of the six tables and, where activities are selected, of their counts."""
    if params.selection is None:
        return params.sigmas
    return (*params.sigmas, params.selection.sigma)


def least_tau(
    sigma: float,
    delta: float,
    max_cases: int,
    labels: int = 1,
) -> int:
    """The least tau (grid steps) whose ``selection_delta`` is at most ``delta``."""
    # Bisection: below m cases no threshold hides a unit, and at 40 sigma the tail is nil.
    low = max_cases * UNIT_NORM
    high = low + math.ceil(40 * sigma)
    while high - low > 1:
        middle = (low + high) // 2
        if selection_delta(sigma, middle, max_cases, labels) <= delta:
            high = middle
        else:
            low = middle
    return high


def selection_delta(
    sigma: float,
    tau: int,
    max_cases: int,
    labels: int = 1,
) -> float:
    """At least m l Pr[m + N >= tau] for N of ``sigma`` (grid steps), m = ``max_cases``: the
    delta that the threshold spends.

    ``labels``: l, how many counts one case may have a share in. Discrete Gaussian noise reaches x
    at most as often as a normal variable reaches x - 1 (Canonne, Kamath and Steinke 2020,
    proposition 25). Rounded up by more than it can err.
    """
    # One less than the distance: the bound for discrete noise is a normal tail at x - 1.
    reached = tau - max_cases * UNIT_NORM - 1
    tail = math.erfc(reached / (sigma * math.sqrt(2))) / 2
    delta = max_cases * labels * tail
    return min(delta * (1 + 1e-9), 1 - 2.0**-30)


def noise_event(
    sigmas: Sequence[float],
    deltas: Sequence[float],
    max_cases: int,
) -> PrivacyEvent:
    """The thresholds, at ``deltas``, and the noise on every table, at ``sigmas`` in grid steps."""
    frequent, count, lengths, *tables = sigmas
    norm = max_cases * UNIT_NORM
    events: list[PrivacyEvent] = []
    for delta in deltas:
        # Rounded up by more than the logarithm can err.
        epsilon = -math.log1p(-delta) * (1 + 1e-9)
        events.append(EpsilonDelta(epsilon=epsilon, delta=delta))
    # What a unit of m cases moves: m counts of variants, the one count of cases, m of lengths, and
    # of each table m times a case's cells (labels are such too).
    events.append(vector_event(frequent, norm, cells=max_cases))
    events.append(vector_event(count, norm, cells=1))
    events.append(vector_event(lengths, norm, cells=max_cases))
    for sigma in tables:
        events.append(vector_event(sigma, norm, cells=max_cases * MOST_CELLS))
    return Composed(events=tuple(events))
