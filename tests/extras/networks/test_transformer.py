"""``variants/transformer``: what it costs, and what it releases on odd logs."""

from collections import Counter

import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.facts import Facts, Unit
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.noise import reproducible
from cloakwork.testing import run_mechanism
from cloakwork_extras.networks.transformer import LEARNING, Schedule, VariantTransformer
from cloakwork_extras.networks.transformer import (
    TransformerOptions as Options,
)
from contracts.sample_logs import courses_of, log_of
from extras.networks.small_networks import needs_torch
from measuring import release

pytestmark = needs_torch


NAME = "variants/transformer"
LITTLE = {"steps": 2, "width": 2}


def goal(epsilon=1.0, delta=1e-4, over=("control-flow",)):
    """Differential privacy over these columns."""
    return DifferentialPrivacy(kind="differential-privacy", epsilon=epsilon, delta=delta, over=over)


def offered(facts=None, options=None, **said):
    """The parameters for a goal."""
    facts = Facts(alphabet=("a", "b")) if facts is None else facts
    answer = VariantTransformer().offer(goal(**said), facts, {**LITTLE, **(options or {})})
    assert isinstance(answer, Offer), answer
    return answer.params


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
@pytest.mark.parametrize(
    "facts",
    [
        Facts(alphabet=("a", "b"), units_at_most=1000),
        Facts(unit=Unit(attribute="case:owner", max_cases=3)),
    ],
)
def test_the_budget_is_spent_and_no_more(facts, epsilon):
    """By tables and gradient steps together."""
    params = offered(facts, epsilon=epsilon)
    spent = cost(VariantTransformer().step(params, facts).event, 1e-4)
    assert 0.98 * epsilon < spent.epsilon <= epsilon
    tables = offered(facts, {"share": 0.6}, epsilon=epsilon).markov
    assert tables.sigmas[0] > params.markov.sigmas[0]


def test_the_event_covers_what_is_drawn():
    """To the last answer: the same number of each kind."""
    facts = Facts(alphabet=("a", "b"))
    params = offered(facts, epsilon=8.0, delta=1e-2)
    variants = [[*(row % 20 * "a"), "b", *(row // 20 * "ba"), "b"] for row in range(400)]
    rows = pl.DataFrame({"variant": variants, "cases": 1})
    recorded = release(VariantTransformer(), params, rows, reproducible(1)).recorded
    spent, charged = (
        Counter(type(leaf) for leaf, times in leaves_of(event) for _ in range(times))
        for event in (recorded, VariantTransformer().step(params, facts).event)
    )
    assert spent == charged


@pytest.mark.parametrize(
    "cases",
    [[], [("a", "b")], [("a",)] * 300, [("a",) * 100 + ("b",)] * 40 + [("b",) * 90]],
    ids=["no case", "one case", "one activity", "longer than what is learned from"],
)
def test_odd_logs(cases):
    """A log comes out, of the declared activities, no longer than declared."""
    released = run_mechanism(
        NAME,
        log_of(cases),
        noise=reproducible(3),
        epsilon=2.0,
        delta=1e-4,
        alphabet=("a", "b"),
        longest_case=12,
        options={**LITTLE, "places": 4},
    )
    assert {label for case in courses_of(released) for label in case} <= {"a", "b"}
    assert all(len(case) <= 12 for case in courses_of(released))
    assert abs(released.cases.height - len(cases)) < 60


def test_steps_are_half_as_long_where_the_signal_is_weak():
    """By what is declared and what one unit moves the noise by; options go first."""
    assert Schedule.of(Options(), 1000, 0.2) == Schedule(8, LEARNING, 1.0)
    assert Schedule.of(Options(), 1000, 0.02) == Schedule(8, LEARNING / 2, 1.0)
    assert Schedule.of(Options(learning=1, width=4), 200_000, 1) == Schedule(4, 1, 0.5)


def test_time_is_predicted_from_what_is_declared():
    """More units take longer, up to the size of a sample; so does a wider network."""
    params = offered(options={"width": 2})
    wider, sampled = (params.model_copy(update=one) for one in ({"width": 32}, {"rate": 0.1}))
    predict = VariantTransformer().training_seconds
    few, many = (Facts(alphabet=("a", "b"), units_at_most=units) for units in (1000, 1_000_000))
    assert predict(params, few, "cpu") < predict(wider, few, "cpu")
    assert predict(params, few, "cpu") < predict(sampled, many, "cpu")
    assert predict(sampled, many, "cpu") < 0.2 * predict(params, many, "cpu")


def test_another_kind_of_goal_is_refused():
    """It releases the control flow alone."""
    never = VariantTransformer().offer(goal(over=("timestamps",)), Facts(), {})
    assert isinstance(never, Refusal)
    assert never.kind == "never"


def test_options_that_make_no_sense_are_refused():
    """An odd width, no steps, all of the budget."""
    for options in ({"width": 3}, {"steps": 0}, {"share": 1}):
        answer = VariantTransformer().offer(goal(), Facts(), options)
        assert isinstance(answer, Refusal)
        assert answer.kind == "misconfigured"


def test_noise_that_cannot_be_drawn_is_refused():
    """Planning goes on: a person with very many cases, at next to no budget."""
    facts = Facts(alphabet=("a",), unit=Unit(attribute="case:who", max_cases=10_000))
    mechanism = VariantTransformer()
    for refused in (
        mechanism.offer(goal(0.01, 1e-9), facts, LITTLE),
        mechanism.offer_part(PartOfGoal(("control-flow",), 1e-4, 1e-9), facts, LITTLE),
    ):
        assert isinstance(refused, Refusal)
        assert "cannot be drawn" in refused.reason
