"""Every column by itself: one noisy table each, whatever the activity."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from columns import (
    SECOND,
    Coded,
    budget_of,
    chained,
    columns_of,
    control_flow,
    following,
    stamps_of,
    window_of,
    with_times,
    with_values,
)
from numpy.random import Generator
from numpy.typing import NDArray

from cloakwork.base.facts import Facts
from cloakwork.log.eventlog import CASE_PREFIX, EventLog
from cloakwork.policy.model import Policy

BINS_OF_GAPS = 60


def flat_marginals(log: EventLog, policy: Policy, seed: int) -> tuple[EventLog, EventLog]:
    """Control flow by a mechanism of ours, every other column from one noisy table."""
    rng, facts = np.random.default_rng(seed), policy.facts()
    epsilon, delta = budget_of(policy)
    release = control_flow(log, facts, 0.6 * epsilon, delta / 2, seed)
    names = columns_of(policy)
    mu = mu_of(0.4 * epsilon, delta / 2) / math.sqrt(2 + len(names))
    times = noisy_times(log, release, facts, 1 / mu, rng)
    release = with_times(release, times)
    for name in names:
        release = with_values(release, name, flat_values(log, release, facts, name, 1 / mu, rng))
    return log, release


def mu_of(epsilon: float, delta: float) -> float:
    """The mu of a Gaussian mechanism that is (epsilon, delta)-private (Balle and Wang 2018)."""
    normal = NormalDist()

    def spent(mu: float) -> float:
        first = normal.cdf(mu / 2 - epsilon / mu)
        return first - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu)

    low, high = 1e-6, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low


def noisy_share(counts: NDArray[Any], sigma: float, rng: Generator) -> NDArray[np.float64]:
    """Shares from counts with Gaussian noise; equal ones where nothing is left."""
    noisy = np.maximum(counts + rng.normal(0, sigma, len(counts)), 0)
    total = noisy.sum()
    return noisy / total if total > 0 else np.full(len(counts), 1 / len(counts))


def noisy_times(
    log: EventLog, release: EventLog, facts: Facts, sigma: float, rng: Generator
) -> NDArray[np.int64]:
    """Starts by weeks of the window, gaps on a log scale: one table each."""
    stamps, (begin, end) = stamps_of(log), window_of(facts)
    week = 7 * 86_400 * SECOND
    weeks = math.ceil((end - begin) / week)
    place = np.clip((stamps[log.offsets[:-1]] - begin) // week, 0, weeks - 1).astype(np.int64)
    shares = noisy_share(np.bincount(place, minlength=weeks), sigma, rng)
    cases = release.cases.height
    starts = begin + (rng.choice(weeks, cases, p=shares) + rng.random(cases)) * week

    rows, most = following(log), math.log10(1 + facts.longest_gap.total_seconds())
    gaps = np.log10(1 + (stamps[rows] - stamps[rows - 1]) / SECOND)
    width = most / BINS_OF_GAPS
    bins = np.clip(np.ceil(gaps / width), 0, BINS_OF_GAPS).astype(np.int64)
    weights = 1 / (np.diff(log.offsets)[log.case_of[rows]] - 1)
    shares = noisy_share(np.bincount(bins, weights, BINS_OF_GAPS + 1), sigma, rng)
    drawn = rng.choice(BINS_OF_GAPS + 1, len(following(release)), p=shares)
    exponents = np.maximum(drawn - rng.random(len(drawn)), 0) * width
    return chained(release, starts, (10**exponents - 1) * SECOND * (drawn > 0))


def flat_values(
    log: EventLog, release: EventLog, facts: Facts, name: str, sigma: float, rng: Generator
) -> pl.Series:
    """Values from one noisy table over the declared domain or range; missing is a value."""
    coded = Coded.of(log, facts, name)
    of_case = name.startswith(CASE_PREFIX)
    weights = None if of_case else 1 / np.diff(log.offsets)[log.case_of]
    counts = np.bincount(coded.codes + 1, weights, minlength=coded.size + 1)
    shares = noisy_share(counts, sigma, rng)
    height = release.cases.height if of_case else release.events.height
    return coded.values(rng.choice(coded.size + 1, height, p=shares) - 1, rng)
