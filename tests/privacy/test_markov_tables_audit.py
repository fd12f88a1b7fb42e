"""Statistical audits of each table that variants/markov measures, and of all at once, with broken
counterparts that must fail.

What one case adds to a table is seen best where all of it falls on one cell: a case that takes one
step over and over. Each table has a claim of its own, the share of the budget that its noise is
charged for; a Gaussian's noise of half shows best at a large delta, where epsilon is close to 0 (a
few thousand runs a side; at the delta of a release it needs millions). Draws are seeded: what is
found is found in every run.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from cloakwork.accounting.events import cost
from cloakwork.audit.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.budget import Cost
from cloakwork.facts import Facts
from cloakwork.mechanisms.variants import markov, markov_params, transitions
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.markov_params import MarkovParams, calibrate_markov
from cloakwork.mechanisms.variants.transitions import (
    MOST_CELLS,
    UNIT_NORM,
    PaddedVariants,
    TransitionMasses,
    vector_noise,
)
from cloakwork.noise import Noise, reproducible

RUNS = 10_000
EPSILON, DELTA = 4.0, 1e-2
LONG = (1,) * 4_000
"""START, 4,000 times the same activity, END: within one part in ten million its whole weight is on
one cell of each table.
"""

TABLES = ("frequent variants", "number of other cases", "order 1", "order 2", "order 3")
CELLS = (1, 1, MOST_CELLS, MOST_CELLS, MOST_CELLS)
Sigmas = tuple[float, ...]


@cache
def params(max_cases: int = 1) -> MarkovParams:
    """At the audited budget."""
    sigmas, tau, _ = calibrate_markov(
        Cost(epsilon=EPSILON, delta=DELTA), max_cases, markov_params.SHARES, True
    )
    return MarkovParams(
        epsilon=EPSILON,
        delta=DELTA,
        max_cases=max_cases,
        alphabet=("a", "b"),
        sigmas=sigmas,
        tau=tau,
        longest=5,
    )


def raw(table: int, cases: int) -> float:
    """What ``cases`` cases of the long variant put on the cell of this table, in grid steps, as the
    mechanism counts it.
    """
    if table < 2:
        return float(cases * UNIT_NORM)
    variants = PaddedVariants.from_codes([LONG], np.array([cases]), 2)
    if table == 2:
        return float(markov._first_order_table(variants)[1, 0])
    return float(markov._transition_counts(variants, table - 1, [(1,) * (table - 1)])[0, 0])


def noised(table: int, value: float, sigma: float, runs: int, noise: Noise) -> NDArray[np.float64]:
    """The cell as the mechanism noises it, in ``runs`` runs."""
    if table < 2:
        return noise.gaussian_counts(np.full(runs, int(value)), sigma).astype(np.float64)
    return markov._with_noise(np.full((runs, 1), value), sigma, noise)[:, 0]


def outcomes(
    tables: tuple[int, ...], cases: int, sigmas: Sigmas, noise: Noise
) -> Callable[[int], NDArray[np.float64]]:
    """All that these tables say for one case more, in cases: Neyman and Pearson's ratio for the
    noise that is drawn.
    """
    weights = np.array([sigmas[table] ** -2 for table in tables])

    def run(runs: int) -> NDArray[np.float64]:
        cells = np.array(
            [noised(table, raw(table, cases), sigmas[table], runs, noise) for table in tables]
        )
        return np.asarray(weights @ cells / weights.sum() / UNIT_NORM)

    return run


def audit(
    tables: tuple[int, ...], sigmas: Sigmas, claim: float, delta: float, more: int = 1
) -> AuditResult:
    """Sixty cases of the long variant, and ``more`` cases of one unit beside them."""
    bounds = [60 + more * share for share in (0.15, 0.5, 0.85)]
    events = [HalfLine(bound, upper) for bound in bounds for upper in (True, False)]
    noise = reproducible(1)
    here, there = (outcomes(tables, cases, sigmas, noise) for cases in (60 + more, 60))
    return empirical_epsilon(here, there, runs=RUNS, claim=claim, delta=delta, events=events)


def audit_table(table: int, sigmas: Sigmas, max_cases: int = 1, more: int = 1) -> AuditResult:
    """One table alone, against what its noise is charged for."""
    honest = params(max_cases).sigmas[table]
    delta = 0.3 * max_cases * UNIT_NORM / honest
    event = vector_noise(
        honest, max_cases * UNIT_NORM, max_cases * CELLS[table] if table != 1 else 1
    )
    return audit((table,), sigmas, cost(event, delta).epsilon, delta, more)


@pytest.mark.parametrize("table", range(len(TABLES)), ids=TABLES)
def test_each_table_keeps_its_share_and_half_its_noise_is_found(table: int) -> None:
    """The counterpart halves the noise of this one table; the rest of the mechanism would hide
    it.
    """
    sigmas = params().sigmas
    honest = audit_table(table, sigmas)
    assert honest.passed, honest
    half = tuple(sigma / 2 if place == table else sigma for place, sigma in enumerate(sigmas))
    assert not audit_table(table, half).passed


@pytest.mark.parametrize("table", range(len(TABLES)), ids=TABLES)
def test_three_cases_of_a_unit_are_covered_where_they_are_assumed(table: int) -> None:
    """And found where one case a unit is assumed."""
    assert audit_table(table, params(3).sigmas, max_cases=3, more=3).passed
    assert not audit_table(table, params().sigmas, more=3).passed


AT_ONCE = (1, 2, 3, 4)
"""What a case of no frequent variant shows in."""


def audit_all(sigmas: Sigmas) -> AuditResult:
    """The number of cases and the three tables of transitions together, against the claim of the
    whole.
    """
    delta = 0.3
    return audit(
        AT_ONCE, sigmas, cost(VariantMarkov().event(params(), Facts()), delta).epsilon, delta
    )


def test_all_tables_together_keep_the_claim() -> None:
    """And something is seen: the case is likelier to show than not."""
    result = audit_all(params().sigmas)
    assert result.passed, result
    assert result.hits[0] > 1.5 * result.hits[1]


def test_half_the_noise_on_all_tables_is_found() -> None:
    """By the claim of the whole."""
    assert not audit_all(tuple(sigma / 2 for sigma in params().sigmas)).passed


def test_a_budget_that_is_spent_on_each_table_is_found() -> None:
    """The counterpart that never adds the tables up: each at the noise that one alone would
    need.
    """
    one = params().sigmas[0] * math.sqrt(markov_params.SHARES[0])
    assert not audit_all((one,) * 5).passed


def test_steps_that_count_in_full_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counterpart that does not scale a case to norm 1: the long case counts for twice what
    it may.
    """
    scaled = transitions.transition_masses

    def twice(variants: PaddedVariants, order: int) -> TransitionMasses:
        found = scaled(variants, order)
        return TransitionMasses(found.code, 2 * found.mass)

    honest = params().sigmas
    monkeypatch.setattr(markov, "transition_masses", twice)
    delta = 0.3 * UNIT_NORM / honest[2]
    claim = cost(vector_noise(honest[2], UNIT_NORM, MOST_CELLS), delta).epsilon
    events = [HalfLine(121, upper=True), HalfLine(121, upper=False)]
    noise = reproducible(1)
    here, there = (outcomes((2,), cases, honest, noise) for cases in (61, 60))
    assert not empirical_epsilon(
        here, there, runs=RUNS, claim=claim, delta=delta, events=events
    ).passed


SELECTING = calibrate_markov(Cost(epsilon=EPSILON, delta=DELTA), 1, markov_params.SHARES, False)[2]
"""How activities are found where none are declared."""


def found(
    cases: int, selection: markov_params.Selection, noise: Noise
) -> Callable[[int], NDArray[np.float64]]:
    """Whether an activity that ``cases`` cases hold, each alone, is selected: 1 or 0; each activity
    is a run of its own.
    """

    def run(runs: int) -> NDArray[np.float64]:
        names = [(str(number),) for number in range(runs)] if cases else []
        chosen = set(markov._select_activities(names, np.full(len(names), cases), selection, noise))
        return np.array([str(number) in chosen for number in range(runs)], np.float64)

    return run


def audit_selection(
    before: int, after: int, drawn: markov_params.Selection, delta: float, claim: float
) -> AuditResult:
    """One case more that holds the activity."""
    events = [HalfLine(1, upper=True), HalfLine(0, upper=False)]
    noise = reproducible(1)
    here, there = (found(cases, drawn, noise) for cases in (after, before))
    return empirical_epsilon(here, there, runs=RUNS, claim=claim, delta=delta, events=events)


def test_a_common_activity_keeps_its_share_and_half_the_noise_is_found() -> None:
    """With a threshold between the two neighbours' counts, where one case shows most."""
    assert SELECTING is not None
    between = SELECTING.model_copy(update={"tau": 60 * UNIT_NORM + UNIT_NORM // 2})
    delta = 0.3 * UNIT_NORM / SELECTING.sigma
    claim = cost(vector_noise(SELECTING.sigma, UNIT_NORM, MOST_CELLS), delta).epsilon
    assert audit_selection(60, 61, between, delta, claim).passed
    half = between.model_copy(update={"sigma": SELECTING.sigma / 2})
    assert not audit_selection(60, 61, half, delta, claim).passed


def test_an_activity_of_one_case_is_covered_by_delta_and_found_without_a_threshold() -> None:
    """The counterpart selects whatever has a positive count."""
    assert SELECTING is not None
    assert audit_selection(0, 1, SELECTING, DELTA, EPSILON).passed
    assert not audit_selection(0, 1, SELECTING.model_copy(update={"tau": 1}), DELTA, EPSILON).passed
