"""A statistical audit of a differential privacy claim: how large must epsilon be, given what two
inputs put out?

Run a mechanism many times on two neighbouring inputs, choose events (sets of outcomes) on one part
of the runs, and count them on the other: whatever epsilon the mechanism has,
``epsilon >= ln((p - delta) / q)`` for the probabilities p and q of any event (``privacy.md``
section 7; Ding et al. 2018, "Detecting Violations of Differential Privacy"; Jagielski et al. 2020).
With Clopper-Pearson bounds on p and q, and the error shared out over all events and both
directions, a sound claim fails with probability at most ``1 - confidence``. An audit that passes
proves nothing by itself: it must fail on a broken twin (``privacy.md`` section 7 says how many runs
tell them apart).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

Run = Callable[[int], NDArray[Any] | Sequence[Hashable]]
"""n runs of a mechanism on one input: n outcomes, as numbers or as anything hashable."""

CONFIDENCE: Final = 1 - 1e-6

MOST_EVENTS: Final = 8
"""Events kept per direction: more of them share the error and weaken each."""


class Event(Protocol):
    """A set of outcomes, with a name that a person can read."""

    @property
    def name(self) -> str:
        """What the event says of an outcome, such as ``outcome >= 10``."""
        ...

    def holds(self, outcomes: NDArray[Any]) -> NDArray[np.bool_]:
        """For each outcome whether it lies in the set."""
        ...


@dataclass(frozen=True, slots=True)
class HalfLine:
    """Outcomes (numbers) at least, or at most, ``bound``."""

    bound: float
    upper: bool

    @property
    def name(self) -> str:
        """The event in words."""
        return f"outcome {'>=' if self.upper else '<='} {self.bound:g}"

    def holds(self, outcomes: NDArray[Any]) -> NDArray[np.bool_]:
        """See ``Event``."""
        return np.asarray(outcomes >= self.bound if self.upper else outcomes <= self.bound)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Outcomes among ``members``: points, or those that a likelihood ratio picked."""

    members: frozenset[Any]

    @property
    def name(self) -> str:
        """The event in words, the first few members named."""
        shown = sorted(map(str, self.members))[:3]
        return f"outcome in {{{', '.join(shown)}{', ...' if len(self.members) > 3 else ''}}} ({len(self.members)} values)"

    def holds(self, outcomes: NDArray[Any]) -> NDArray[np.bool_]:
        """See ``Event``."""
        if outcomes.dtype != object:
            return np.isin(outcomes, np.array(sorted(self.members)))
        return np.fromiter(
            (outcome in self.members for outcome in outcomes), dtype=bool, count=len(outcomes)
        )


Events = Callable[[NDArray[Any], NDArray[Any]], Sequence[Event]]
"""Chooses events from the first part of both runs: those likely under the first, unlikely under the
second.
"""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What the runs show: epsilon is at least ``epsilon_lower_bound`` (-inf when they show
    nothing), by ``event``.

    ``passed`` unless that is more than ``claim``; ``hits`` counts the event on each side among
    ``counted`` runs a side, the likelier side first, and ``direction`` names the sides in that
    order.
    """

    epsilon_lower_bound: float
    claim: float | None
    delta: float
    passed: bool
    event: str
    direction: str
    hits: tuple[int, int]
    counted: int
    confidence: float

    def __str__(self) -> str:
        verdict = (
            ""
            if self.claim is None
            else f"; claimed {self.claim:g}: {'passed' if self.passed else 'FAILED'}"
        )
        return (
            f"epsilon >= {self.epsilon_lower_bound:.3f} at delta {self.delta:g} ({self.direction}, {self.event}: "
            f"{self.hits[0]} against {self.hits[1]} of {self.counted}){verdict}"
        )


def empirical_epsilon(
    run_a: Run,
    run_b: Run,
    *,
    runs: int,
    delta: float = 0.0,
    claim: float | None = None,
    events: Events | Sequence[Event] | None = None,
    confidence: float = CONFIDENCE,
) -> AuditResult:
    """A lower bound on epsilon from ``runs`` runs a side on two neighbouring inputs, and whether
    ``claim`` survives it.

    ``events``: a fixed sequence, judged on all runs; or a function that chooses them on the first
    fifth of the runs, which are then not counted; by default ``likely_sets``. Both directions (a
    over b, b over a) are judged.

    Raises ValueError for fewer than 10 runs.
    """
    if runs < 10:
        raise ValueError("an audit needs at least 10 runs a side")
    choose = likely_sets if events is None else events
    spent = runs // 5 if callable(choose) else 0
    a, b = _outcomes(run_a(runs)), _outcomes(run_b(runs))
    trials = _trials(choose, (a[:spent], b[:spent]), (a[spent:], b[spent:]))
    error = (1 - confidence) / max(1, len(trials))
    judged = [(_bound(trial.hits, runs - spent, delta, error), trial) for trial in trials]
    bound, trial = max(
        judged,
        key=lambda each: each[0],
        default=(-math.inf, Trial("neither way", "no event", (0, 0))),
    )
    passed = claim is None or bound <= claim
    return AuditResult(
        bound,
        claim,
        delta,
        passed,
        trial.event,
        trial.direction,
        trial.hits,
        runs - spent,
        confidence,
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """One event judged in one direction: how often it holds on the likelier side and on the other."""

    direction: str
    event: str
    hits: tuple[int, int]


def _trials(
    choose: Events | Sequence[Event],
    first: tuple[NDArray[Any], NDArray[Any]],
    second: tuple[NDArray[Any], NDArray[Any]],
) -> list[Trial]:
    """Every event in both directions: direction, name, and how often it holds on the likelier and
    the other side.
    """
    found: list[Trial] = []
    for direction, (x, y), (p, q) in (
        ("a over b", first, second),
        ("b over a", first[::-1], second[::-1]),
    ):
        for event in choose(x, y) if callable(choose) else choose:
            found.append(
                Trial(direction, event.name, (int(event.holds(p).sum()), int(event.holds(q).sum())))
            )
    return found


def _bound(hits: tuple[int, int], counted: int, delta: float, error: float) -> float:
    """ln((p_lo - delta) / q_hi), each Clopper-Pearson bound wrong with probability at most
    ``error / 2``.
    """
    from scipy.stats import beta

    p_low = beta.ppf(error / 2, hits[0], counted - hits[0] + 1) if hits[0] else 0.0
    q_high = beta.ppf(1 - error / 2, hits[1] + 1, counted - hits[1]) if hits[1] < counted else 1.0
    return math.log((p_low - delta) / q_high) if p_low > delta else -math.inf


def half_lines(a: NDArray[Any], b: NDArray[Any]) -> list[Event]:
    """Half-lines at quantiles of both samples whose share in ``a`` most outweighs that in ``b``;
    for numbers.
    """
    bounds = np.unique(np.concatenate([a, b]))
    if len(bounds) > 200:
        bounds = np.unique(
            np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 200), method="nearest")
        )
    return _best(
        [HalfLine(float(bound), upper) for bound in bounds for upper in (True, False)], a, b
    )


def points(a: NDArray[Any], b: NDArray[Any]) -> list[Event]:
    """The single outcomes whose share in ``a`` most outweighs that in ``b``."""
    return _best([OneOf(frozenset([value])) for value, _ in _frequent(a)], a, b)


def ratio_sets(a: NDArray[Any], b: NDArray[Any]) -> list[Event]:
    """Sets of the outcomes whose (smoothed) likelihood ratio of ``a`` to ``b`` is highest: the most
    telling by Neyman-Pearson.
    """
    counts_b = dict(_frequent(b, most=None))
    ranked = sorted(
        _frequent(a),
        key=lambda item: (item[1] + 0.5) / (counts_b.get(item[0], 0) + 0.5),
        reverse=True,
    )
    sizes: NDArray[np.int64] = np.unique(np.geomspace(1, max(1, len(ranked)), 24).astype(np.int64))
    return _best([OneOf(frozenset(value for value, _ in ranked[:size])) for size in sizes], a, b)


def likely_sets(a: NDArray[Any], b: NDArray[Any]) -> list[Event]:
    """The default choice: half-lines where outcomes are numbers, points and likelihood-ratio sets
    where values repeat.
    """
    candidates: list[Event] = half_lines(a, b) if np.issubdtype(a.dtype, np.number) else []
    return _best([*candidates, *points(a, b), *ratio_sets(a, b)], a, b)


def _frequent(outcomes: NDArray[Any], most: int | None = 500) -> list[tuple[Any, int]]:
    from collections import Counter

    return Counter(outcomes.tolist()).most_common(most)


def _best(candidates: Sequence[Event], a: NDArray[Any], b: NDArray[Any]) -> list[Event]:
    """The candidates whose bound promises most on these runs, were each side counted four times as
    often.
    """

    def promise(event: Event) -> float:
        p, q = (4 * int(event.holds(side).sum()) for side in (a, b))
        # Three standard deviations each way stand in for the exact bounds.
        return (p - 3 * math.sqrt(p)) / (q + 3 * math.sqrt(q) + 10)

    return sorted(candidates, key=promise, reverse=True)[:MOST_EVENTS]


def _outcomes(values: NDArray[Any] | Sequence[Hashable]) -> NDArray[Any]:
    """Numbers as they are; anything else as an array of objects, one an outcome."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    boxed = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        boxed[i] = tuple(value) if isinstance(value, np.ndarray | list) else value
    return boxed
