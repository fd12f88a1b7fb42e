"""PRIPEL as published, by ``variants/pripel-published``, and with an epsilon that adds up."""

import math

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
    raw_values,
    stamps_of,
    window_of,
    with_times,
    with_values,
)
from numpy.random import Generator
from numpy.typing import NDArray

from cloakwork.base.facts import Facts
from cloakwork.engines.measured import released_cases
from cloakwork.kernel import Randomness
from cloakwork.log.eventlog import CASE_PREFIX, EventLog
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Mechanisms, Policy
from cloakwork.run.run import Run
from cloakwork_extras.pripel import bounded_laplace, matched_cases, matched_events

PUBLISHED = "variants/pripel-published"


def published(log: EventLog, policy: Policy, seed: int) -> tuple[EventLog, EventLog]:
    """Every value costs the full epsilon, over what the log has; a prefix stays in the tree from so
    many cases on that of the declared activities about half a false one does.
    """
    epsilon, _ = budget_of(policy)
    activities = len(policy.facts().alphabet or ())
    threshold = max(1, math.ceil(math.log(activities + 1) / epsilon))
    mechanisms = Mechanisms(
        prefer=(PUBLISHED,), accept_unproven=True, parameters={PUBLISHED: {"threshold": threshold}}
    )
    accepting = policy.model_copy(
        update={"spec": policy.spec.model_copy(update={"mechanisms": mechanisms})}
    )
    return log, Run(plan=make_plan(accepting), noise=reproducible(seed)).release(log, None).log


def split(log: EventLog, policy: Policy, seed: int) -> tuple[EventLog, EventLog]:
    """All values of a case cost half of epsilon together, in declared ranges and domains; the
    control flow costs the other half.
    """
    (epsilon, delta), facts = budget_of(policy), policy.facts()
    names = columns_of(policy)
    of_cases = sum(name.startswith(CASE_PREFIX) for name in names)
    values = (facts.longest_case or 100) * (1 + len(names) - of_cases) + of_cases
    per_value = epsilon / 2 / values
    release = control_flow(log, facts, epsilon / 2, delta, seed)
    rng, random = np.random.default_rng(seed), Randomness(reproducible(seed))
    case, event = matched(log, release, random)
    times = noisy_times(log, release, (case, event), facts, per_value, random)
    release = with_times(release, times)
    for name in names:
        taken = case if name.startswith(CASE_PREFIX) else event
        values_of_name = noisy_values(log, facts, name, taken, per_value, (rng, random))
        release = with_values(release, name, values_of_name)
    return log, release


def matched(
    log: EventLog, release: EventLog, random: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each released case a real one of the nearest variant, or any where none is left, and for
    each released event one of its activity.
    """
    source, made = released_cases(log, ()), released_cases(release, ())
    labels = tuple(sorted({*source.alphabet, *made.alphabet}))
    source, made = source.within(labels), made.within(labels)
    case = matched_cases(made, source, random)
    event = matched_events(made, source, case, random)
    anyone = random.uniform(np.full(len(case), len(source), np.int64))
    return np.where(case >= 0, case, anyone), event


def noisy_times(
    log: EventLog,
    release: EventLog,
    taken: tuple[NDArray[np.int64], NDArray[np.int64]],
    facts: Facts,
    epsilon: float,
    random: Randomness,
) -> NDArray[np.int64]:
    """Starts in the declared window, gaps up to the declared longest."""
    case, event = taken
    stamps, rows = stamps_of(log), following(log)
    gaps = np.zeros(log.events.height)
    gaps[rows] = np.diff(stamps)[rows - 1]
    low, high = window_of(facts)
    starts = np.clip(stamps[log.offsets[case]], low, high)
    most = facts.longest_gap.total_seconds() * SECOND
    chosen = np.clip(gaps[event[following(release)]], 0, most)
    return chained(
        release,
        bounded_laplace(starts.astype(np.float64), low, high, epsilon, random),
        bounded_laplace(chosen, 0.0, most, epsilon, random),
    )


def noisy_values(
    log: EventLog,
    facts: Facts,
    name: str,
    taken: NDArray[np.int64],
    epsilon: float,
    sources: tuple[Generator, Randomness],
) -> pl.Series:
    """The values that were taken over: numbers with bounded Laplace noise, others by k-ary
    randomised response; whether a value is missing is randomised too.
    """
    (rng, random), values = sources, raw_values(log, name)
    coded = Coded.of(log, facts, name)
    if coded.domain is not None:
        shown = randomised(coded.codes[taken] + 1, coded.size + 1, epsilon, rng) - 1
        return coded.values(shown, rng)
    numbers = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()[taken]
    known = ~np.isnan(numbers)
    low, high = facts.ranges[name]
    shown = randomised(known.astype(np.int64), 2, epsilon / 2, rng) == 1
    middle = np.where(known, np.clip(numbers, low, high), (low + high) / 2)
    noisy = bounded_laplace(middle, float(low), float(high), epsilon / 2, random)
    return pl.Series(noisy).set(pl.Series(~shown), None)


def randomised(
    codes: NDArray[np.int64], size: int, epsilon: float, rng: Generator
) -> NDArray[np.int64]:
    """k-ary randomised response: the true code with e**epsilon / (e**epsilon + size - 1)."""
    stays = rng.random(len(codes)) < 1 / (1 + (size - 1) * math.exp(-epsilon))
    others = (codes + rng.integers(1, max(size, 2), len(codes))) % max(size, 1)
    return np.where(stays | (size < 2), codes, others)
