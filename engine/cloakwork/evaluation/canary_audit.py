"""How large epsilon must be, given how well canaries are told from cases that were left out."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.accounting.events import cost
from cloakwork.accounting.gaussians import epsilon_of_normal
from cloakwork.evaluation.bounds import JudgedScores
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import secret
from cloakwork.plan.model import Plan
from cloakwork.run.canaries import CanaryScores, canary_scores
from cloakwork.run.replay import replayed_steps


@dataclass(frozen=True, slots=True)
class CanaryAudit:
    """Epsilon is at least ``epsilon`` at ``delta`` (0: nothing seen), where the step is charged for
    ``claim``. ``canaries`` in each of ``runs`` runs, of which ``caught`` and, of those left out,
    ``mistaken`` score above a threshold, as shares. ``mu``: the same for Gaussian noise.
    """

    epsilon: float
    claim: float
    delta: float
    canaries: int
    runs: int
    caught: float
    mistaken: float
    mu: float | None = None

    @property
    def passed(self) -> bool:
        """Whether it is within the claim."""
        return self.epsilon <= self.claim


def audit_steps(plan: Plan, log: EventLog, mechanism: str, runs: int) -> list[CanaryAudit]:
    """Each step by ``mechanism`` of ``plan``, on a log.

    Raises CloakworkError where no canary can be told by what it asks.
    """
    delta = max((each.cost.delta for each in plan.claims if each.cost is not None), default=0.0)
    steps = replayed_steps(plan, log, mechanism)
    return [
        audit_canaries(canary_scores(step, MOST_CANARIES, runs, secret()), delta) for step in steps
    ]


MOST_CANARIES: Final = 100
"""In each run."""


def audit_canaries(found: CanaryScores, delta: float) -> CanaryAudit:
    """The bound at 95 % on either share, which allows for what canaries of one run have in common.

    Where all noise is Gaussian, the two shares are at most as far apart as two normal numbers, mu
    deviations from each other, are at any threshold (Dong, Roth and Su 2022, theorem 2.7; Nasr et
    al. 2023, section 4): so mu is at least the distance of their quantiles. Else epsilon is at
    least ln((caught - delta) / mistaken), at the threshold that shows most in the first fifth of
    the runs, which are not counted.
    """
    from scipy.stats import norm

    def bound(judged: JudgedScores, threshold: float) -> tuple[float, float, float, float | None]:
        mistaken, caught = judged.rates(threshold)
        if found.is_gaussian and delta > 0:
            mu = float(norm.ppf(caught.low) - norm.ppf(mistaken.high))
            least = epsilon_of_normal(mu, delta) if mu > 0 and math.isfinite(mu) else 0.0
            return least, caught.share, mistaken.share, mu
        above = caught.low - delta
        least = math.log(above / mistaken.high) if above > 0 and mistaken.high > 0 else 0.0
        return max(0.0, least), caught.share, mistaken.share, None

    spent = max(1, len(found.scores) // 5)
    first = JudgedScores(found.scores[:spent], found.member[:spent])
    counted = JudgedScores(found.scores[spent:], found.member[spent:])
    # Normal numbers are best told in their middle; of others the runs that are not counted say.
    threshold = 0.0
    if not found.is_gaussian or delta == 0:
        tried = np.unique(np.quantile(first.scores, np.linspace(0.1, 0.9, 17)))
        # Just below a score, so that equal ones are above it.
        threshold = max(np.nextafter(tried, -np.inf), key=lambda each: bound(first, each)[0])
    epsilon, caught, mistaken, mu = bound(counted, float(threshold))
    runs, canaries = found.scores.shape
    return CanaryAudit(
        epsilon=epsilon,
        claim=cost(found.event, delta).epsilon,
        delta=delta,
        canaries=canaries,
        runs=runs,
        caught=caught,
        mistaken=mistaken,
        mu=mu,
    )
