"""dfg/laplace and the table of its counts: what is counted, and audits on worst neighbours with
counterparts that must fail.

Draws of audits are seeded: what is found is found in every run.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Ints
from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import measured_of
from cloakwork.errors import MechanismError, PlanUnsound
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine
from cloakwork.kernel import Books, Kernel, Laplace
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA, VariantCounts
from cloakwork.noise import Noise, reproducible, secret
from cloakwork_extras.dfg import DfgLaplace, DfgParams, DirectlyFollows, measure_steps
from cloakwork_extras.dfg_table import directly_follows_graph
from contracts.sample_logs import log_of
from privacy.sources import Changed, offered, seeded_audit

EPSILON, MOST = 1.0, 4
RUNS = 2_000
LONG = ["a"] * 20_000
"""A case that takes the same step over and over: all that it may count for falls on one pair (but
once in 2,000 times).
"""


def kernel_of(log: EventLog, event: PrivacyEvent, noise: Noise, max_cases: int = 1) -> Kernel:
    """One that answers what ``event`` lists."""
    measured = measured_of(VariantCounts().of(log), noise)
    return Kernel(measured, Books.of(event), noise, max_cases)


def measured_by(graph: DirectlyFollows, log: EventLog, noise: Noise) -> Ints:
    """The noisy counts, by a kernel of a plan that lists them."""
    return graph.measure(kernel_of(log, graph.event, noise, graph.max_cases))


def counted(log: list[list[str]], most_steps: int) -> dict[tuple[str | None, str | None], int]:
    """The counts with next to no noise: a count is off once in e**128 runs."""
    counts = measured_by(DirectlyFollows(("a", "b"), most_steps, 2.0**-7), log_of(log), secret())
    sources, targets = (None, "a", "b"), ("a", "b", None)
    assert counts[0, 2] == 0
    return {
        (source, target): int(counts[row, column])
        for row, source in enumerate(sources)
        for column, target in enumerate(targets)
        if (source, target) != (None, None)
    }


def test_counts_are_those_of_the_log() -> None:
    """Every pair of the alphabet, START and END, in one row each; undeclared labels and empty cases
    are passed over.
    """
    found = counted([["a", "b"], ["a", "x", "a"], ["x"], []], 9)
    assert found == {
        (None, "a"): 2,
        (None, "b"): 0,
        ("a", "a"): 1,
        ("a", "b"): 1,
        ("a", None): 1,
        ("b", "a"): 0,
        ("b", "b"): 0,
        ("b", None): 1,
    }
    assert set(counted([], 9).values()) == {0}


def test_a_case_counts_for_at_most_its_steps() -> None:
    """Whatever it looks like; which ones is drawn at random: 60 draws show two of five at most once
    in 10**22 runs.
    """
    assert sum(counted([LONG], MOST).values()) == MOST
    assert sum(counted([LONG, ["a", "b"]], MOST).values()) == MOST + 3
    assert len({tuple(counted([["a", "b", "b", "a"]], 1).values()) for _ in range(60)}) > 2


def test_costs_what_was_asked() -> None:
    """For units of several cases too."""
    for max_cases in (1, 3):
        graph = DirectlyFollows.for_epsilon(0.3, ("a", "b"), MOST, max_cases)
        assert 0.29 < cost(graph.event, 0.0).epsilon <= 0.3


@pytest.mark.parametrize(
    ("epsilon", "alphabet", "most"), [(0.0, ("a",), 1), (1.0, (), 1), (1.0, ("a",), 0)]
)
def test_arguments_without_sense_are_refused(
    epsilon: float, alphabet: tuple[str, ...], most: int
) -> None:
    """In one line."""
    with pytest.raises(MechanismError, match="dfg/laplace"):
        directly_follows_graph(log_of([LONG]), epsilon, alphabet, most)


def test_a_person_keeps_as_many_cases_as_declared() -> None:
    """Twenty cases of one person count as one; noise of 4/1000 is 0 but once in e**249 runs."""
    log = log_of([["a"]] * 20)
    owned = replace(log, cases=log.cases.with_columns(pl.lit("p").alias("case:p")))
    found = directly_follows_graph(owned, 1000.0, ("a",), 4, unit_attribute="case:p")
    assert found.filter(pl.col("source").is_null())["count"].item() == 1


def audit(graph: DirectlyFollows, noise: Any = None) -> AuditResult:
    """One log with the long case more than the other, told apart by the pair on which all its steps
    fall.
    """
    source = noise or reproducible(1)

    def outcomes(cases: list[list[str]]) -> Callable[[int], Ints]:
        # The kernel counts once, and its noise is drawn for many runs at once.
        raw = measured_by(replace(graph, scale=2.0**-7), log_of(cases), source)[1, 0]
        return lambda runs: raw + Laplace(graph.scale).draw(source, runs)

    here, there = outcomes([LONG]), outcomes([])
    events = [HalfLine(bound, upper) for bound in (0, MOST) for upper in (True, False)]
    return seeded_audit(here, there, runs=RUNS, claim=EPSILON, events=events)


def test_a_long_case_is_covered() -> None:
    """And the audit is sharp: it finds seven tenths of epsilon."""
    result = audit(DirectlyFollows.for_epsilon(EPSILON, ("a",), MOST))
    assert result.passed, result
    assert result.epsilon_lower_bound > 0.7 * EPSILON


@pytest.mark.parametrize("broken", [{"scale": MOST / 2}, {"most_steps": 9}])
def test_broken_counterparts_are_found(broken: dict[str, float]) -> None:
    """Half the noise; a case that counts for more steps than the noise is meant for. The books of
    a plan of the honest one refuse both.
    """
    honest = DirectlyFollows.for_epsilon(EPSILON, ("a",), MOST)
    counterpart = replace(honest, **broken)
    assert not audit(counterpart).passed
    with pytest.raises(PlanUnsound, match="does not list"):
        counterpart.measure(kernel_of(log_of([LONG]), honest.event, secret()))


def test_noise_that_is_half_of_what_is_asked_for_is_found() -> None:
    """No book shows what a source draws; the audit does."""
    honest = DirectlyFollows.for_epsilon(EPSILON, ("a",), MOST)
    assert not audit(honest, Changed(0.5)).passed


LAPLACE = DfgLaplace()


def params(facts: Facts, delta: float) -> DfgParams:
    """What the mechanism offers for four steps a case."""
    found: DfgParams = offered("dfg/laplace", EPSILON, delta, facts, most_steps=MOST)
    return found


def steps_kept(
    given: DfgParams, rows: dict[tuple[str, ...], int], noise: Noise
) -> Callable[[int], list[int]]:
    """Runs of all that is asked of the log; the outcome is how many steps are kept, the only thing
    that single cases can show in.
    """
    summary = pl.DataFrame(
        {"variant": list(map(list, rows)), "cases": list(rows.values())},
        schema=VARIANT_COUNTS_SCHEMA,
    )
    measured, event = measured_of(summary, noise), LAPLACE.step(given, Facts()).event

    def once() -> int:
        return len(measure_steps(given, Kernel(measured, Books.of(event), noise, 1))[1])

    return lambda runs: [once() for _ in range(runs)]


def alone(given: DfgParams, variant: tuple[str, ...]) -> AuditResult:
    """A case whose steps nobody else takes, present or not.

    A threshold that hides nobody shows in three runs of five, and in none without the case: 250
    runs a side prove an epsilon of 2.6.
    """
    usual, noise = {("a", "b"): 200}, reproducible(1)
    here, there = (steps_kept(given, rows, noise) for rows in (usual | {variant: 1}, usual))
    events = [HalfLine(bound, upper) for bound in (3, 4) for upper in (True, False)]
    return seeded_audit(here, there, runs=250, delta=given.delta, claim=EPSILON, events=events)


@pytest.mark.parametrize("variant", [("x",) * 3, ("x", "y", "z"), tuple(LONG[:1]) * 2000])
def test_steps_of_one_case_alone_are_covered_by_delta(variant: tuple[str, ...]) -> None:
    """No activities declared: four different steps, or all on one; they pass the threshold with
    probability at most delta.
    """
    given = params(Facts(), 0.02)
    assert alone(given, variant).passed


def test_a_threshold_that_hides_nobody_is_found() -> None:
    """The one that suffices where every step is counted, declared or not; half of it is refused,
    since all the steps of one unit reach it without any noise.
    """
    every = params(Facts(alphabet=("a", "b")), 0.02)
    honest = params(Facts(), 0.02)
    counterpart = honest.model_copy(update={"tau": max(every.tau, MOST + 1)})
    assert not alone(counterpart, ("x", "y", "z")).passed
    assert cost(LAPLACE.step(counterpart, Facts()).event, 0.02).epsilon > EPSILON
    with pytest.raises(PlanUnsound, match="hides no key"):
        alone(honest.model_copy(update={"tau": every.tau // 2}), ("x", "y", "z"))


def test_the_noise_of_the_mechanism_is_that_of_the_table() -> None:
    """So that the audit of the table holds for it."""
    given, table = (
        params(Facts(alphabet=("a",)), 0.0),
        DirectlyFollows.for_epsilon(EPSILON, ("a",), MOST),
    )
    assert (given.scale, given.sensitivity) == (table.scale, MOST)
    assert LAPLACE.step(given, Facts()).event == table.event
