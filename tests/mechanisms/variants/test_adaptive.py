"""What variants/adaptive looks at, what it spends on that, and which of the two mechanisms it hands
on to.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Books, Kernel
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.variants.adaptive import (
    AdaptiveParams,
    VariantAdaptive,
    default_measurement_share,
    estimated_tail_cases,
    rank_layers,
    spread_over,
)
from cloakwork.mechanisms.variants.threshold import threshold_event
from cloakwork.noise import reproducible
from conftest import in_long_form
from contracts.sample_logs import log_of
from measuring import Release, release
from scenarios import scenario

COUNTS = st.lists(st.integers(1, 60), min_size=1, max_size=12)
ADAPTIVE = VariantAdaptive()


def goal(epsilon: float = 1.0, delta: float = 1e-4) -> DifferentialPrivacy:
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


def params(epsilon: float = 1.0, facts: Facts | None = None) -> AdaptiveParams:
    offer = ADAPTIVE.offer(goal(epsilon), facts or Facts(), {})
    assert isinstance(offer, Offer)
    return offer.params


def decided(log: EventLog, epsilon: float) -> Release:
    return release(ADAPTIVE, params(epsilon), VariantCounts().of(log), reproducible(1))


@given(COUNTS, st.integers(2, 40), st.data())
def test_one_case_more_grows_one_layer_by_one(
    counts: list[int], tau: int, data: st.DataObject
) -> None:
    """Whatever its variant, also a new one: the theorem's L1 sensitivity."""
    grown = [*counts, 0]
    grown[data.draw(st.integers(0, len(counts)))] += 1
    moved = rank_layers(np.array(grown), tau) - rank_layers(np.array(counts), tau)
    assert sorted(moved.tolist()) == [0, 0, 1]
    assert rank_layers(np.array(counts), tau).sum() == sum(counts)


def test_the_tail_is_what_frequent_variants_leave() -> None:
    """Exactly, where variants are far from tau on either side."""
    assert estimated_tail_cases(rank_layers(np.array([100, 50, 3, 2, 1, 1]), 10)) == 7
    assert estimated_tail_cases(rank_layers(np.array([100, 50]), 10)) == 0


def test_a_mechanism_without_a_bound_leaves_the_whole_without_one() -> None:
    """Not an error, but an infinite cost."""
    honest = params()
    bare = honest.model_copy(
        update={"markov": honest.markov.model_copy(update={"selection": None})}
    )
    assert cost(ADAPTIVE.step(bare, Facts()).event, 1e-4).epsilon == np.inf


def test_the_event_charges_the_more_expensive_mechanism() -> None:
    """A cheaper one beside it lowers nothing; a more expensive one raises the cost."""
    honest = params()
    weak = honest.model_copy(update={"threshold": params(3.0).threshold})
    assert cost(ADAPTIVE.step(weak, Facts()).event, 1e-4).epsilon > 2.5
    strong = honest.model_copy(update={"threshold": params(0.2).threshold})
    assert cost(ADAPTIVE.step(strong, Facts()).event, 1e-4).epsilon > 0.95


ALPHABET = Facts(alphabet=("a", "b", "c", "d"), units_at_most=1000)


def test_the_event_charges_a_model_of_all_cases_as_well() -> None:
    """A twin with less noise on it than the others costs more."""
    honest = params(1.0, ALPHABET)
    assert cost(ADAPTIVE.step(honest, ALPHABET).event, 1e-4).epsilon <= 1.0
    weak = honest.model_copy(update={"of_all": params(3.0, ALPHABET).of_all})
    assert cost(ADAPTIVE.step(weak, ALPHABET).event, 1e-4).epsilon > 2.5


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize(
    ("epsilon", "cases"),
    in_long_form(*product([0.001, 0.01, 0.1], [0, 1, 300])) or [(0.001, 0), (0.01, 1), (0.1, 300)],
)
def test_with_declared_activities_no_release_is_empty(epsilon: float, cases: int) -> None:
    """However little there is to spend; and nothing is made of anything but declared labels."""
    counts, given = VariantCounts().of(log_of([list("abc")] * cases)), params(epsilon, ALPHABET)
    for seed in range(12):
        found = release(ADAPTIVE, given, counts, reproducible(seed))
        assert found.table["cases"].sum() > 0
        assert {label for variant in found.table["variant"] for label in variant} <= set("abcd")


def test_where_the_threshold_would_release_nothing_all_is_spent_on_a_model_of_all_cases() -> None:
    """By noisy answers: unique variants leave the last layer empty."""
    found = release(
        ADAPTIVE,
        params(1.0, Facts(alphabet=tuple("abcdefgh"))),
        VariantCounts().of(log_of([list(case) for case in product("abcdefgh", repeat=3)])),
        reproducible(1),
    )
    assert found.internal["released by"] == "variants/markov, of all cases"


def test_the_plan_says_how_little_that_is() -> None:
    """From declared facts alone, and only where it is little."""
    little = ADAPTIVE.offer(goal(0.01), ALPHABET, {})
    enough = ADAPTIVE.offer(goal(2.0), ALPHABET, {})
    undeclared = ADAPTIVE.offer(goal(0.01), Facts(), {})
    assert isinstance(little, Offer)
    assert isinstance(enough, Offer)
    assert isinstance(undeclared, Offer)
    assert "LITTLE more than which activities are declared" in little.why
    assert "LITTLE" not in enough.why
    assert "the release be empty: declare assume.alphabet" in undeclared.why
    assert undeclared.params.of_all is None


def test_takes_what_suits() -> None:
    """On logs that leave no doubt."""
    few = log_of(
        [list("abc")] * 1200 + [list("ab")] * 700 + [list("abbc")] * 60 + [list("cab")] * 3
    )
    assert decided(few, 0.5).internal["released by"] == "variants/threshold"
    assert decided(scenario("varied", 2000), 0.5).internal["released by"] == "variants/markov"


def test_a_threshold_release_has_about_as_many_cases_as_the_log() -> None:
    """The rare variants' cases are released as cases of frequent ones."""
    few = log_of(
        [list("abc")] * 1200 + [list("ab")] * 700 + [[f"own {case}"] for case in range(250)]
    )
    found = decided(few, 1.0)
    assert found.internal["released by"] == "variants/threshold"
    assert found.table["cases"].sum() == pytest.approx(2150, abs=150)


def test_the_others_are_spread_by_less_than_their_counts() -> None:
    """A variant of a hundred times the cases gets about 32 times as many of the others."""
    released = np.array([10_000, 100])
    added = spread_over(released, 20_000) - released
    assert added.sum() == 9_900
    assert added[0] / added[1] == pytest.approx(100**0.75, rel=0.01)
    assert spread_over(released, 50).tolist() == [10_000, 100]
    assert len(spread_over(released[:0], 50)) == 0


def test_a_way_to_go_on_is_held_to_the_slot() -> None:
    """Parameters with less noise than the plan lists are refused, and so is a second way."""
    honest, dear = params(), params(3.0)
    books = Books.of(ADAPTIVE.step(honest, Facts()).event)
    noise = reproducible(1)
    log = VariantCounts().of(log_of([["a"]]))
    kernel = Kernel(measured_of(log, noise), books, noise, max_cases=1)
    budget = cost(threshold_event(honest.threshold), honest.delta)
    with pytest.raises(PlanUnsound, match="costs"):
        kernel.branch(threshold_event(dear.threshold), budget)
    with pytest.raises(PlanUnsound, match="does not list"):
        ADAPTIVE.measure(dear, kernel)
    kernel.branch(threshold_event(honest.threshold), budget)
    with pytest.raises(PlanUnsound, match="does not list"):
        kernel.branch(threshold_event(honest.threshold), budget)


def test_small_logs_and_small_budgets_look_for_longer() -> None:
    """Within its bounds."""
    assert default_measurement_share(1.0, Facts()) == 0.05
    assert default_measurement_share(0.1, Facts()) == 0.15
    assert default_measurement_share(0.1, Facts(units_at_most=2_000)) == pytest.approx(0.1)
    assert default_measurement_share(0.1, Facts(units_at_most=100_000)) == 0.05
