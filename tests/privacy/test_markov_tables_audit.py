"""Statistical audits of all tables that variants/markov measures, at once, and of how it selects
activities, with broken counterparts that must fail. Each table by itself is audited in
``test_answers_audit``. Draws are seeded: what is found is found in every run.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import Composed, Cost, EpsilonDelta
from cloakwork.base.facts import Facts
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import (
    Books,
    Cases,
    Entries,
    Gaussian,
    Kernel,
    Measured,
    vector_event,
    vectors_of,
)
from cloakwork.mechanisms.variants import markov_params
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.markov_params import (
    MOST_CELLS,
    SPREAD,
    UNIT_NORM,
    WHOLE,
    MarkovParams,
    calibrate_markov,
    codes_after,
    lengths_by,
    nonempty,
    transitions_of,
)
from cloakwork.noise import Noise, reproducible
from privacy.sources import Changed

RUNS = 10_000
EPSILON, DELTA = 4.0, 1e-2
LONG = ("a",) * 2_000
"""START, 2,000 times the same activity, END: within one part in a million its whole weight is on
one cell of each table.
"""

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
    kernel counts it.
    """
    order = table - 2
    query, clip, cell = nonempty, WHOLE, 0
    if order == 0:
        query, cell = lengths_by(np.array([len(LONG)])), 1
    if order > 0:
        query, clip = transitions_of(order), SPREAD
        cell = int(codes_after([(1,) * order], 2)[0, 0])
    sums = vectors_of(Cases.of([LONG], ("a", "b")), query, clip).sums(np.array([cases]))
    return float(sums.at(np.array([cell]))[0])


def outcomes(
    tables: tuple[int, ...], cases: int, sigmas: Sigmas, noise: Noise
) -> Callable[[int], Floats]:
    """All that these tables say for one case more, in cases: Neyman and Pearson's ratio for the
    noise that is drawn.
    """
    weights = np.array([sigmas[table] ** -2 for table in tables])

    def run(runs: int) -> Floats:
        cells = np.array(
            [raw(table, cases) + Gaussian(sigmas[table]).draw(noise, runs) for table in tables]
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


AT_ONCE = (1, 2, 3, 4, 5)
"""What a case of no frequent variant shows in."""


def audit_all(sigmas: Sigmas) -> AuditResult:
    """The number of cases, their lengths and the three tables of transitions together, against the
    claim of the whole.
    """
    delta = 0.3
    return audit(
        AT_ONCE, sigmas, cost(VariantMarkov().step(params(), Facts()).event, delta).epsilon, delta
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
    assert not audit_all((one,) * 6).passed


def test_steps_cannot_count_in_full() -> None:
    """The counterpart whose query does not scale a case to norm 1, or counts it twice: the kernel
    does, and the long case weighs no more.
    """

    def twice(cases: Cases) -> Entries:
        honest = transitions_of(1)(cases)
        return replace(honest, value=2 * honest.value)

    sums = vectors_of(Cases.of([LONG], ("a", "b")), twice, SPREAD).sums(np.ones(1, np.int64))
    assert sums.sums.max() <= UNIT_NORM
    assert sums.sums.max() == pytest.approx(raw(3, 1), abs=1)


@cache
def selecting() -> markov_params.Selection:
    """How activities are found where none are declared."""
    budget = Cost(epsilon=EPSILON, delta=DELTA)
    found = calibrate_markov(budget, 1, markov_params.SHARES, False)[2]
    assert found is not None
    return found


def found(
    cases: int, selection: markov_params.Selection, noise: Changed
) -> Callable[[int], Floats]:
    """Whether an activity that ``cases`` cases hold, each alone, is selected: 1 or 0; each activity
    is a run of its own.
    """
    share = EpsilonDelta(epsilon=0.0, delta=0.999)
    noised = vector_event(selection.sigma, UNIT_NORM, MOST_CELLS)

    def run(runs: int) -> Floats:
        names = [str(number) for number in range(runs)] if cases else []
        courses = Cases.of([(name,) for name in names], names)
        books = Books.of(Composed(events=(noised, share)))
        measured = Measured(courses, np.full(len(names), cases))
        kernel = Kernel(measured, books, noise, max_cases=1)  # type: ignore[arg-type]
        # As ``measure_with`` asks; a scale that the plan does not list would be refused there.
        asked = kernel.select(
            markov_params.activities, Gaussian(selection.sigma), selection.tau, SPREAD
        )
        chosen = set().union(*asked.labels)
        return np.array([str(number) in chosen for number in range(runs)], np.float64)

    return run


def audit_selection(
    before: int,
    after: int,
    drawn: markov_params.Selection,
    delta: float,
    claim: float,
    times: float = 1.0,
) -> AuditResult:
    """One case more that holds the activity, with so many times the noise."""
    events = [HalfLine(1, upper=True), HalfLine(0, upper=False)]
    noise = Changed(times)
    here, there = (found(cases, drawn, noise) for cases in (after, before))
    return empirical_epsilon(here, there, runs=RUNS, claim=claim, delta=delta, events=events)


def test_a_common_activity_keeps_its_share_and_half_the_noise_is_found() -> None:
    """With a threshold between the two neighbours' counts, where one case shows most."""
    between = selecting().model_copy(update={"tau": 60 * UNIT_NORM + UNIT_NORM // 2})
    delta = 0.3 * UNIT_NORM / selecting().sigma
    claim = cost(vector_event(selecting().sigma, UNIT_NORM, MOST_CELLS), delta).epsilon
    assert audit_selection(60, 61, between, delta, claim).passed
    assert not audit_selection(60, 61, between, delta, claim, times=0.5).passed


def test_an_activity_of_one_case_is_covered_by_delta_and_found_in_more_noise() -> None:
    """Five times the noise passes the threshold that was meant for it far too often; a threshold
    that noise has not to pass at all is refused.
    """
    assert audit_selection(0, 1, selecting(), DELTA, EPSILON).passed
    assert not audit_selection(0, 1, selecting(), DELTA, EPSILON, times=5.0).passed
    with pytest.raises(PlanUnsound, match="hides no key"):
        found(1, selecting().model_copy(update={"tau": 1}), Changed(1.0))(9)
