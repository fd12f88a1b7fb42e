"""A statistical audit of a differential privacy claim: how large must epsilon be, given the outputs
on two inputs?

Run a mechanism many times on two neighbouring inputs, choose events (sets of outcomes) on one part
of the runs, and count them on the other: whatever epsilon the mechanism has,
``epsilon >= ln((p - delta) / q)`` for the probabilities p and q of any event (``privacy.md``
section 7; Ding et al. 2018, "Detecting Violations of Differential Privacy"; Jagielski et al. 2020).
With Clopper-Pearson bounds on p and q, and the error shared out over all events and both
directions, a sound claim fails with probability at most ``1 - confidence``. An audit that passes
proves nothing by itself: it must fail on a broken counterpart of the mechanism (``privacy.md``
section 7 says how many runs distinguish them).
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import epsilon_of_normal, leaves_of, mu_of_cost
from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import DiscreteGaussian, EpsilonDelta
from cloakwork.base.frozen import frozen
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import Noise, secret
from cloakwork.plan.model import Plan
from cloakwork.run.replay import CanaryScores, ReplayedStep, canary_scores, replayed_steps

Outcomes = NDArray[Any]

Run = Callable[[int], Outcomes | Sequence[Hashable]]
"""n runs of a mechanism on one input: n outcomes, as numbers or as anything hashable."""

CONFIDENCE: Final = 1 - 1e-6

MOST_EVENTS: Final = 8
"""Events kept per direction: more of them share the error and weaken each."""

_MOST_POINTS: Final = 500


@frozen
class HalfLine:
    """Outcomes (numbers) at least, or at most, ``bound``."""

    bound: float
    upper: bool

    @property
    def name(self) -> str:
        """The event in words."""
        relation = ">=" if self.upper else "<="
        return f"outcome {relation} {self.bound:g}"

    def holds(self, outcomes: Outcomes) -> Bools:
        """For each outcome whether it lies in the set."""
        if self.upper:
            return np.asarray(outcomes >= self.bound)
        return np.asarray(outcomes <= self.bound)


@frozen
class OneOf:
    """Outcomes among ``members``: points, or those that a likelihood ratio picked."""

    members: frozenset[Any]

    @property
    def name(self) -> str:
        """The event in words, the first few members named."""
        shown = sorted(map(str, self.members))[:3]
        if len(self.members) > 3:
            shown.append("...")
        return f"outcome in {{{', '.join(shown)}}} ({len(self.members)} values)"

    def holds(self, outcomes: Outcomes) -> Bools:
        """For each outcome whether it lies in the set."""
        # ``isin`` compares no objects such as tuples, so these are looked up one by one.
        if outcomes.dtype != object:
            return np.isin(outcomes, np.array(sorted(self.members)))
        return np.array([outcome in self.members for outcome in outcomes], np.bool_)


OutcomeSet = HalfLine | OneOf
"""A set of outcomes, with a name that a person can read."""

OutcomeSetChoice = Callable[[Outcomes, Outcomes], Sequence[OutcomeSet]]
"""Proposes events from the first part of both runs: those likely under the first, unlikely under
the second.
"""


@frozen
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


def empirical_epsilon(
    run_a: Run,
    run_b: Run,
    *,
    runs: int,
    delta: float = 0.0,
    claim: float | None = None,
    events: OutcomeSetChoice | Sequence[OutcomeSet] | None = None,
    confidence: float = CONFIDENCE,
) -> AuditResult:
    """A lower bound on epsilon from ``runs`` runs a side on two neighbouring inputs, and whether
    ``claim`` survives it.

    ``events``: a fixed sequence, judged on all runs; or a function that proposes some on the first
    fifth of the runs, which are then not counted; by default ``likely_sets``. Of those proposed,
    the ``MOST_EVENTS`` that promise most are judged. Both directions (a over b, b over a) are.

    Raises ValueError for fewer than 10 runs.
    """
    if runs < 10:
        raise ValueError("an audit needs at least 10 runs a side")
    choose = likely_sets if events is None else events
    # Events that were chosen on the runs that they are counted on would look too good.
    spent = runs // 5 if callable(choose) else 0
    counted = runs - spent
    a, b = _as_outcomes(run_a(runs)), _as_outcomes(run_b(runs))
    trials: list[tuple[str, str, tuple[int, int]]] = []
    for direction, likelier, other in (("a over b", a, b), ("b over a", b, a)):
        first = likelier[:spent], other[:spent]
        chosen = _most_promising(choose(*first), *first) if callable(choose) else choose
        for event in chosen:
            hits = [int(event.holds(side[spent:]).sum()) for side in (likelier, other)]
            trials.append((direction, event.name, (hits[0], hits[1])))
    # Bonferroni: every event in every direction gets the same part of the error.
    error = (1 - confidence) / max(1, len(trials))
    bounds = [
        epsilon_of_shares(*_both_shares(hits, counted, error), delta) for _, _, hits in trials
    ]
    bound = max(bounds, default=-math.inf)
    direction, event_name, hits_of_it = "neither way", "no event", (0, 0)
    if trials:
        direction, event_name, hits_of_it = trials[bounds.index(bound)]
    return AuditResult(
        epsilon_lower_bound=bound,
        claim=claim,
        delta=delta,
        passed=claim is None or bound <= claim,
        event=event_name,
        direction=direction,
        hits=hits_of_it,
        counted=counted,
        confidence=confidence,
    )


def _both_shares(hits: Sequence[int], counted: int, error: float) -> tuple[float, float]:
    """At least the first share, and at most the second: Clopper-Pearson bounds, each wrong with
    probability at most ``error / 2``.
    """
    from scipy.stats import beta

    likelier, other = hits
    # Clopper-Pearson bounds are quantiles of beta distributions (Clopper and Pearson 1934).
    p_low, q_high = 0.0, 1.0
    if likelier > 0:
        p_low = float(beta.ppf(error / 2, likelier, counted - likelier + 1))
    if other < counted:
        q_high = float(beta.ppf(1 - error / 2, other + 1, counted - other))
    return p_low, q_high


def epsilon_of_shares(p_low: float, q_high: float, delta: float) -> float:
    """ln((p - delta) / q): how large epsilon must be, where an event is at least, and at most, so
    likely on two neighbouring inputs; -inf where nothing shows.
    """
    # An event no likelier than delta allows shows nothing.
    if p_low <= delta:
        return -math.inf
    return math.log((p_low - delta) / q_high)


def likely_sets(a: Outcomes, b: Outcomes) -> list[OutcomeSet]:
    """The default choice: half-lines where outcomes are numbers, and likelihood-ratio sets."""
    is_number = np.issubdtype(a.dtype, np.number)
    return [*(half_lines(a, b) if is_number else []), *ratio_sets(a, b)]


def half_lines(a: Outcomes, b: Outcomes) -> list[HalfLine]:
    """Half-lines at quantiles of both samples, for numbers."""
    both = np.concatenate([a, b])
    bounds = np.unique(both)
    # Quantiles of both sides put the bounds where outcomes lie.
    if len(bounds) > 200:
        bounds = np.unique(np.quantile(both, np.linspace(0, 1, 200), method="nearest"))
    return [HalfLine(bound, upper) for bound in map(float, bounds) for upper in (True, False)]


def ratio_sets(a: Outcomes, b: Outcomes) -> list[OneOf]:
    """Sets of the outcomes whose (smoothed) likelihood ratio of ``a`` to ``b`` is highest: the most
    telling by Neyman-Pearson.
    """
    counts_b = Counter(b.tolist())

    def likelihood_ratio(counted: tuple[Any, int]) -> float:
        value, count_a = counted
        # Half a hit more on each side keeps the ratio finite.
        return (count_a + 0.5) / (counts_b[value] + 0.5)

    frequent = Counter(a.tolist()).most_common(_MOST_POINTS)
    values = [value for value, _ in sorted(frequent, key=likelihood_ratio, reverse=True)]
    # Sets of growing size: each holds all values above some ratio.
    sizes: Ints = np.unique(np.geomspace(1, max(1, len(values)), 24).astype(np.int64))
    return [OneOf(frozenset(values[:size])) for size in sizes]


def _most_promising(
    candidates: Sequence[OutcomeSet],
    a: Outcomes,
    b: Outcomes,
) -> list[OutcomeSet]:
    """The candidates whose bound promises most on these runs, each counted four times."""

    def expected_bound(event: OutcomeSet) -> float:
        p = 4 * int(event.holds(a).sum())
        q = 4 * int(event.holds(b).sum())
        # Three standard deviations each way stand in for the exact bounds.
        return (p - 3 * math.sqrt(p)) / (q + 3 * math.sqrt(q) + 10)

    return sorted(candidates, key=expected_bound, reverse=True)[:MOST_EVENTS]


def _as_outcomes(values: Outcomes | Sequence[Hashable]) -> Outcomes:
    """Numbers as they are; anything else as an array of objects, one an outcome."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    # Filled one by one, as numpy makes a table of tuples of one length.
    boxed = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        boxed[i] = tuple(value) if isinstance(value, np.ndarray | list) else value
    return boxed


# Canaries: how well answers tell a log with a case from the log without it.


@frozen
class CanaryAudit:
    """Epsilon is at least ``epsilon`` at ``delta`` (0: nothing seen) at 95 %, and at least
    ``surely``, but for one audit in a million; the step is charged for ``claim``, of the ``whole``
    that the plan claims of all its steps. ``canary``: what there is in the one log so many times
    (``copies``), and not in the other. ``caught`` and, without it, ``mistaken``: shares of the
    ``runs`` that score high.
    """

    epsilon: float
    surely: float
    claim: float
    delta: float
    canary: str
    copies: int
    runs: int
    caught: float
    mistaken: float
    whole: float = math.inf

    @property
    def passed(self) -> bool:
        """Whether nothing shows beyond doubt that the claim is exceeded."""
        return self.surely <= self.claim


def audit_steps(plan: Plan, log: EventLog, mechanism: str, runs: int) -> list[CanaryAudit]:
    """Each step by ``mechanism`` of ``plan``, on a log, each of its questions asked so many times.

    Raises CloakworkError where no canary can be told by what it asks.
    """
    costs = [each.cost for each in plan.claims if each.cost is not None]
    delta = max((each.delta for each in costs), default=0.0)
    whole = max((each.epsilon for each in costs), default=math.inf)
    steps = replayed_steps(plan, log, mechanism)
    return [replace(audit_step(step, delta, runs, secret()), whole=whole) for step in steps]


def audit_step(step: ReplayedStep, delta: float, runs: int, noise: Noise) -> CanaryAudit:
    """A step that was recorded.

    Of Gaussian noise a group of n units is told by n times the mu of one: so few runs of some units
    show what thousands of one would. Else each question is asked ten times as often.
    """
    event = step.step.kind.event
    claim = cost(event, delta).epsilon
    is_gaussian = delta > 0 and all(
        isinstance(leaf, DiscreteGaussian | EpsilonDelta) for leaf, _ in leaves_of(event)
    )
    copies = round(min(40, max(1, 2 / mu_of_cost(claim, delta)))) if is_gaussian else 1
    scores = canary_scores(step, runs if is_gaussian else 10 * runs, noise, copies)
    return audit_canaries(scores, claim, delta, is_gaussian)


def audit_canaries(
    found: CanaryScores, claim: float, delta: float, is_gaussian: bool
) -> CanaryAudit:
    """Bounds on epsilon by Clopper-Pearson bounds on both shares, at the threshold that shows most
    in the first fifth of the runs, which are not counted.

    Where all noise is Gaussian, the two shares are at most as far apart as two normal numbers, n mu
    deviations from each other for n units, are at any threshold (Dong, Roth and Su 2022, theorems
    2.7 and 2.14; Nasr et al. 2023, section 4): so n mu is at least the distance of their quantiles.
    Else epsilon is at least ln((caught - delta) / mistaken).
    """
    from scipy.stats import norm

    sides = np.array([found.with_it, found.without])
    spent = sides.shape[1] // 5

    def bound(scores: Floats, threshold: float, error: float) -> tuple[float, list[float]]:
        hits = (scores >= threshold).sum(axis=1)
        counted = scores.shape[1]
        low, high = _both_shares(hits.tolist(), counted, error)
        least = epsilon_of_shares(low, high, delta)
        if is_gaussian:
            mu = float(norm.ppf(max(0.0, low - delta)) - norm.ppf(high)) / found.copies
            least = epsilon_of_normal(mu, delta) if mu > 0 and math.isfinite(mu) else 0.0
        return max(0.0, least), (hits / counted).tolist()

    tried = np.unique(np.quantile(sides[:, :spent], np.linspace(0.01, 0.99, 99)))
    threshold = max(tried.tolist(), key=lambda each: bound(sides[:, :spent], each, 0.05)[0])
    epsilon, (caught, mistaken) = bound(sides[:, spent:], threshold, 0.05)
    return CanaryAudit(
        epsilon=epsilon,
        surely=bound(sides[:, spent:], threshold, 1 - CONFIDENCE)[0],
        claim=claim,
        delta=delta,
        canary=found.canary,
        copies=found.copies,
        runs=sides.shape[1],
        caught=caught,
        mistaken=mistaken,
    )
