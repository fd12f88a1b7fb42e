"""The parameters of variants/markov: how budget and delta are shared, and the least noise for a
goal.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, Field

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.costs import Composed, Cost, DiscreteGaussian, EpsilonDelta, PrivacyEvent
from cloakwork.base.quantities import Frozen, Number
from cloakwork.kernel import vector_event
from cloakwork.mechanisms.variants.transitions import MOST_CELLS, UNIT_NORM

SHARES: Final = (0.34, 0.03, 0.07, 0.26, 0.18, 0.12)
"""Parts of the budget (of 1/sigma**2): frequent variants, number of other cases, their lengths, and
their transitions of order 1, 2 and 3.

These, ``LABELS_BUDGET``, ``SHARPNESS``, ``PENALTIES`` and ``KNOWN`` were chosen on synthetic logs
alone (``benchmarks/variants/synthetic.py``).
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

    ``shares``: how the budget is split, as ``SHARES`` lists it; scaled to add up to 1.
    """

    model_config = {"extra": "forbid", "frozen": True}
    sharpness: Annotated[float, Field(ge=1, le=4, allow_inf_nan=False)] = SHARPNESS
    shares: tuple[Share, Share, Share, Share, Share, Share] = SHARES


class MarkovParams(Frozen):
    """``sigmas``: of the discrete Gaussian noise on the six tables that ``SHARES`` names, in that
    order.

    ``tau``: least noisy count of a frequent variant. Both in grid steps, ``UNIT_NORM`` to a case.
    ``alphabet``: the public labels; or else ``selection``: how they are found. ``longest``: events
    of a generated case; ``max_cases``: cases of a unit. ``epsilon`` and ``delta``: what sigmas and
    tau were found for.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    alphabet: tuple[str, ...] | None = None
    selection: Selection | None = None
    longest: Annotated[int, Field(ge=1)] = LONGEST
    sharpness: Annotated[Number, Field(ge=1, le=4)] = SHARPNESS
    sigmas: tuple[float, float, float, float, float, float]
    tau: Annotated[int, Field(ge=1)]


MarkovNoise = tuple[tuple[float, float, float, float, float, float], int, Selection | None]
"""Sigmas and tau of ``MarkovParams``, and how activities are selected."""


def calibrate_markov(
    target: Cost, max_cases: int, shares: Sequence[float], declared: bool
) -> MarkovNoise:
    """Sigmas, tau and, unless activities are ``declared``, how to select them, at a cost of at most
    ``target``.
    """
    from cloakwork.accounting.calibrate import smallest_scale

    deltas = selection_deltas(target.delta, 1 if declared else 2)

    def event_at(scale: float) -> PrivacyEvent:
        return noise_event(sigmas_at(scale, shares, declared), deltas, max_cases)

    scale = smallest_scale(event_at, target)
    return _with_thresholds(sigmas_at(scale, shares, declared), deltas, max_cases)


def markov_part(
    mu: float, delta: float, max_cases: int, shares: Sequence[float], declared: bool
) -> MarkovNoise:
    """The same for noise on all tables that a unit moves by ``mu`` deviations at most, with
    thresholds that it passes with a probability of at most ``delta``.
    """
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


def sigmas_at(scale: float, shares: Sequence[float], declared: bool) -> tuple[float, ...]:
    """Of all tables, and of the activities' counts unless they are ``declared``, for noise of
    ``scale`` altogether: a table's part of the budget is of 1/sigma**2.
    """
    all_shares = list(shares)
    if not declared:
        all_shares.append(sum(shares) * LABELS_BUDGET / (1 - LABELS_BUDGET))
    total = sum(all_shares)
    return tuple(max(scale / math.sqrt(share / total), _LEAST_SIGMA) for share in all_shares)


def _with_thresholds(
    sigmas: Sequence[float], deltas: Sequence[float], max_cases: int
) -> MarkovNoise:
    frequent, count, lengths, first, second, third, *labels = sigmas
    tau = least_tau(frequent, deltas[0], max_cases)
    selection = None
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


def least_tau(sigma: float, delta: float, max_cases: int, labels: int = 1) -> int:
    """The least tau (grid steps) whose ``selection_delta`` is at most ``delta``."""
    low = max_cases * UNIT_NORM
    high = low + math.ceil(40 * sigma)
    while high - low > 1:
        middle = (low + high) // 2
        if selection_delta(sigma, middle, max_cases, labels) <= delta:
            high = middle
        else:
            low = middle
    return high


def selection_delta(sigma: float, tau: int, max_cases: int, labels: int = 1) -> float:
    """At least m l Pr[m + N >= tau] for N of ``sigma`` (grid steps), m = ``max_cases``: the
    delta that the threshold spends.

    ``labels``: l, how many counts one case may have a share in. Discrete Gaussian noise reaches x
    at most as often as a normal variable reaches x - 1 (Canonne, Kamath and Steinke 2020,
    proposition 25). Rounded up by more than it can err.
    """
    reached = tau - max_cases * UNIT_NORM - 1
    tail = math.erfc(reached / (sigma * math.sqrt(2))) / 2
    delta = max_cases * labels * tail
    return min(delta * (1 + 1e-9), 1 - 2.0**-30)


def noise_event(sigmas: Sequence[float], deltas: Sequence[float], max_cases: int) -> PrivacyEvent:
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
