"""Statistical audits of all that variants/markov measures: its tables at once, how it selects
activities, and frequent variants; with broken counterparts that must fail.

Each table by itself is audited in ``test_answers_audit``, whole runs in
``test_every_mechanism_audit``; that each scale of noise which is charged is drawn stands in
``test_noise_drawn``. Draws are seeded: what is found is found in every run.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import Composed, Cost, EpsilonDelta
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, OneOf, empirical_epsilon
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
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA
from cloakwork.mechanisms.variants import chain, markov
from cloakwork.mechanisms.variants.markov import (
    MOST_CELLS,
    SPREAD,
    UNIT_NORM,
    MarkovParams,
    VariantMarkov,
    calibrate_markov,
    transitions_of,
)
from cloakwork.noise import Noise, reproducible
from measuring import kernel_on, release
from privacy.sources import Changed, offered, seeded_audit
from privacy.test_answers_audit import STEPS, markov_moved

MARKOV = VariantMarkov()
RUNS = 10_000
EPSILON, DELTA = 4.0, 1e-2
Sigmas = tuple[float, ...]


@cache
def params(max_cases: int = 1) -> MarkovParams:
    """At the audited budget."""
    sigmas, tau, _ = calibrate_markov(
        Cost(epsilon=EPSILON, delta=DELTA), max_cases, markov.SHARES, True
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


def outcomes(
    tables: tuple[int, ...], cases: int, sigmas: Sigmas, noise: Noise
) -> Callable[[int], Floats]:
    """All that these tables say for one case more, in cases: Neyman and Pearson's ratio for the
    noise that is drawn.
    """
    weights = np.array([sigmas[table] ** -2 for table in tables])

    def run(runs: int) -> Floats:
        cells = np.array(
            [
                markov_moved(table, cases) + Gaussian(sigmas[table]).draw(noise, runs)
                for table in tables
            ]
        )
        return np.asarray(weights @ cells / weights.sum() / UNIT_NORM)

    return run


AT_ONCE = (1, 2, 3, 4, 5)
"""What a case of no frequent variant shows in: the number of cases, their lengths and three tables
of transitions.
"""


def audit(sigmas: Sigmas, claimed: MarkovParams, more: int = 1) -> AuditResult:
    """Sixty cases of one long variant, and ``more`` cases of one unit beside them, against the
    claim of the whole.
    """
    delta = 0.3
    bounds = [60 + more * share for share in (0.15, 0.5, 0.85)]
    events = [HalfLine(bound, upper) for bound in bounds for upper in (True, False)]
    noise = reproducible(1)
    here, there = (outcomes(AT_ONCE, cases, sigmas, noise) for cases in (60 + more, 60))
    claim = cost(MARKOV.step(claimed, Facts()).event, delta).epsilon
    return empirical_epsilon(here, there, runs=RUNS, claim=claim, delta=delta, events=events)


def test_all_tables_together_keep_the_claim() -> None:
    """And something is seen: the case is likelier to show than not."""
    result = audit(params().sigmas, params())
    assert result.passed, result
    assert result.hits[0] > 1.5 * result.hits[1]


def test_half_the_noise_on_all_tables_is_found() -> None:
    """By the claim of the whole."""
    assert not audit(tuple(sigma / 2 for sigma in params().sigmas), params()).passed


def test_a_budget_that_is_spent_on_each_table_is_found() -> None:
    """The counterpart that never adds the tables up: each at the noise that one alone would
    need.
    """
    one = params().sigmas[0] * math.sqrt(markov.SHARES[0])
    assert not audit((one,) * 6, params()).passed


def test_a_person_of_twelve_cases_needs_the_declared_bound() -> None:
    """Twelve cases of one person are covered where they are declared, and show where one case is
    assumed.
    """
    assert audit(params(12).sigmas, params(12), more=12).passed
    assert not audit(params().sigmas, params(), more=12).passed


def test_steps_cannot_count_in_full() -> None:
    """The counterpart whose query does not scale a case to norm 1, or counts it twice: the kernel
    does, and the long case weighs no more.
    """

    def twice(cases: Cases) -> Entries:
        honest = transitions_of(1)(cases)
        return replace(honest, value=2 * honest.value)

    sums = vectors_of(Cases.of([STEPS], ("a", "b")), twice, SPREAD).sums(np.ones(1, np.int64))
    assert sums.sums.max() <= UNIT_NORM
    assert sums.sums.max() == pytest.approx(markov_moved(3, 1), abs=1)


@cache
def selecting() -> markov.Selection:
    """How activities are found where none are declared."""
    budget = Cost(epsilon=EPSILON, delta=DELTA)
    found = calibrate_markov(budget, 1, markov.SHARES, False)[2]
    assert found is not None
    return found


def found(cases: int, selection: markov.Selection, noise: Changed) -> Callable[[int], Floats]:
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
        asked = kernel.select(markov.activities, Gaussian(selection.sigma), selection.tau, SPREAD)
        chosen = set().union(*asked.labels)
        return np.array([str(number) in chosen for number in range(runs)], np.float64)

    return run


def audit_selection(
    before: int,
    after: int,
    drawn: markov.Selection,
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


ALPHABET = ("a", "b", "c", "d")


def offer(**changes: Any) -> MarkovParams:
    """What the mechanism offers at an epsilon of 1, or a counterpart of it."""
    facts = Facts(alphabet=ALPHABET, longest_case=5)
    found: MarkovParams = offered("variants/markov", 1.0, DELTA, facts)
    return found.model_copy(update=changes)


def less_noise() -> MarkovParams:
    """A twelfth of the noise on everything but the variants."""
    first, *others = offer().sigmas
    return offer(sigmas=(first, *(max(1024.0, sigma / 12) for sigma in others)))


def low_threshold() -> MarkovParams:
    """A variant of one case is frequent whenever its noise is above 0."""
    return offer(tau=UNIT_NORM + 3)


def one_variant(cases: int) -> pl.DataFrame:
    """The variant histogram of a log of equal cases, or of an empty one."""
    rows = {"variant": [["d", "a"]] * bool(cases), "cases": [cases] * bool(cases)}
    return pl.DataFrame(rows, schema=VARIANT_COUNTS_SCHEMA)


def test_less_noise_than_the_plan_lists_is_refused() -> None:
    """The books of the plan hold the parameters to it."""
    kernel = kernel_on(one_variant(120), MARKOV.step(offer(), Facts()).event, reproducible(1))
    with pytest.raises(PlanUnsound, match="does not list"):
        MARKOV.measure(less_noise(), kernel)


@pytest.mark.parametrize(("given", "passes"), [(offer, True), (low_threshold, False)])
def test_a_variant_of_one_case_is_covered_by_delta(
    given: Callable[[], MarkovParams], passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one log alone: it passes the threshold with probability at most delta, and without a
    threshold in every second run; 120 prove 1.4.
    """
    monkeypatch.setattr(chain, "_ROUNDS", 3)
    monkeypatch.setattr(markov, "ROUNDS", 0)
    params, noise = given(), reproducible(1)

    def frequent(cases: int) -> Callable[[int], list[Any]]:
        summary = measured_of(one_variant(cases), noise)
        return lambda runs: [
            release(MARKOV, params, summary, noise).internal["frequent variants"]
            for _ in range(runs)
        ]

    result = seeded_audit(
        frequent(1),
        frequent(0),
        runs=120,
        delta=DELTA,
        claim=1.0,
        events=[OneOf(frozenset({1}))],
    )
    assert result.passed is passes, result


def test_a_missing_threshold_is_refused() -> None:
    """One that a variant of one unit alone reaches without any noise."""
    with pytest.raises(PlanUnsound, match="hides no key"):
        release(MARKOV, offer(tau=1), one_variant(120), reproducible(1))


def test_the_threshold_keeps_to_its_share_of_delta() -> None:
    """No audit of feasible size sees a threshold one too low; the tail does."""
    for max_cases in (1, 5):
        sigmas, tau, _ = calibrate_markov(
            Cost(epsilon=1.0, delta=1e-4), max_cases, markov.SHARES, True
        )
        spent, of_less = (
            markov.selection_delta(sigmas[0], least, max_cases) for least in (tau, tau - 1)
        )
        assert spent <= markov.SELECTION_SHARE * 1e-4 < of_less


@pytest.mark.parametrize("counterpart", [less_noise, low_threshold])
def test_a_broken_counterpart_costs_more_than_it_claims(
    counterpart: Callable[[], MarkovParams],
) -> None:
    """The event names the noise drawn, so the accountant finds the counterparts too."""
    honest, broken = (
        cost(MARKOV.step(given, Facts()).event, DELTA) for given in (offer(), counterpart())
    )
    assert honest.epsilon <= 1.0 < broken.epsilon
    assert honest.delta <= DELTA
