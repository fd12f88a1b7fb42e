"""Networks over a finite set of variants: where the set comes from, what is charged, edge cases."""

import math

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts, Unit
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork_extras.networks.one_hot import (
    LEAST_WIDTH,
    MOST_SELECTED,
    cases_of,
    domain_of,
)
from extras.networks.lazily import needs_torch
from extras.networks.small_networks import (
    DOMAIN,
    GOAL,
    NAMES,
    SMALL,
    few_chains,
    kernel_for,
    params_of,
)
from kernel.small import measured
from plan.conftest import ATTRIBUTES, policy_of

pytestmark = [needs_torch, pytest.mark.usefixtures(few_chains.__name__)]
PERSONS = Facts(unit=Unit(attribute="case:person", max_cases=3))


@pytest.mark.parametrize(
    ("name", "facts", "options"),
    [
        ("variants/travag", Facts(), {}),
        ("variants/travag", PERSONS, {"domain": DOMAIN}),
        ("variants/ddpm", PERSONS, {"domain": DOMAIN, "rate": 0.5}),
    ],
)
def test_all_phases_keep_to_the_budget_closely(name, facts, options):
    """Variants, their number and all steps together: the whole of the budget is used, no more."""
    params = params_of(name, facts, **options)
    found = cost(catalogue()[name].step(params, facts).event, GOAL.delta)
    assert 0.95 < found.epsilon <= 1
    assert found.delta <= GOAL.delta


def test_what_a_policy_declares_sets_the_width():
    """And nothing else: the log does not bear on them."""
    small = params_of("variants/ddpm", Facts(units_at_most=10))
    assert (small.rate, small.width) == (1.0, LEAST_WIDTH)
    assert params_of("variants/ddpm").width == MOST_SELECTED
    large = params_of("variants/ddpm", Facts(units_at_most=10**6), domain=DOMAIN)
    assert (large.rate, large.width) == (1.0, len(DOMAIN))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("seen", "options"),
    [
        (measured([]), {}),
        (measured([]), {"domain": DOMAIN}),
        (measured([("a",)]), {}),
        (measured([("a",)]), {"domain": DOMAIN}),
        (measured([("a",)]), {"domain": DOMAIN[:1]}),
        (measured([("a",)], [99]), {}),
        (measured([()], [99]), {}),
        (measured([("a", str(place)) for place in range(40)]), {}),
        (measured([("a",), ("b",)], [99, 80]), {}),
    ],
)
def test_every_log_gives_a_release(name, seen, options):
    """None, one or 99 cases, a single variant, only unique ones: whole numbers, none negative."""
    params = params_of(name, **options)
    found = catalogue()[name].measure(params, kernel_for(name, params, seen, reproducible(1)))
    assert found.cases.dtype == np.int64
    assert found.cases.shape == (len(found.variants),)
    assert (found.cases >= 0).all()
    if "domain" in options:
        assert found.variants == options["domain"]
    else:
        assert set(found.variants) <= set(seen.cases.variants())


def test_a_selection_of_more_variants_than_there_are_places_keeps_the_most_frequent():
    """By noisy count; the release is made of them alone."""
    params = params_of("variants/ddpm", Facts(units_at_most=10))
    variants = [(str(place),) for place in range(20)]
    seen = measured(variants, [100 * (place + 1) for place in range(20)])
    domain = domain_of(params, kernel_for("variants/ddpm", params, seen, reproducible(1)))
    assert set(domain.variants) == set(variants[-LEAST_WIDTH:])
    assert domain.shares.sum() == pytest.approx(1)
    assert abs(domain.cases - 100 * sum(range(13, 21))) < 100


@pytest.mark.parametrize("name", NAMES)
def test_units_are_granted_where_they_are_sampled(name):
    """One person may have three cases: the step measures who owns which."""
    params = params_of(name, PERSONS, domain=DOMAIN).model_copy(update={"rate": 0.5})
    assert "case:person" in catalogue()[name].step(params, Facts()).lineage.measures
    assert params.max_cases == 3
    owners = ([0, 1, 1], [0, 0, 1], [2, 1, 3])
    seen = measured([("a", "b"), ("a",)], [2, 4], owners=owners)
    found = catalogue()[name].measure(params, kernel_for(name, params, seen, reproducible(1)))
    assert found.variants == DOMAIN


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"domain": [["a"], ["a"]]}, "a variant is listed twice"),
        ({"domain": []}, "domain"),
        ({"domain": [[]]}, "domain"),
        ({"selection_share": 0.05}, None),
        ({"steps": 0}, "steps"),
    ],
)
def test_options_that_cannot_be_met_are_refused(name, options, said):
    """With the option's name."""
    answer = catalogue()[name].offer(GOAL, Facts(), SMALL | options)
    if said is None:
        assert not isinstance(answer, Refusal)
    else:
        assert isinstance(answer, Refusal)
        assert said in answer.reason


def test_the_planner_takes_none_by_itself():
    """But where the policy prefers one by name."""
    guarantees = [GOAL.model_dump(mode="json") | {"delta": 1e-6}]
    chosen = {}
    for prefer in ([], ["variants/travag"]):
        policy = policy_of(
            attributes=ATTRIBUTES,
            guarantees=guarantees,
            mechanisms={"prefer": prefer, "parameters": {"variants/travag": SMALL}},
        )
        steps = make_plan(policy).steps
        chosen[bool(prefer)] = {step.mechanism for step in steps if step.goals}
    assert chosen[True] == {"variants/travag"}
    assert not chosen[False] & set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_seconds_are_predicted_from_what_is_declared(name):
    """More cases and more steps take longer; nothing is told of a graphics card."""
    mechanism = catalogue()[name]
    few, many = Facts(units_at_most=100), Facts(units_at_most=10_000)
    short = mechanism.training_seconds(params_of(name, few), few, "cpu")
    assert 0 < short < mechanism.training_seconds(params_of(name, many), many, "cpu")
    long = params_of(name, few, steps=30)
    assert mechanism.training_seconds(long, few, "cpu") > short
    assert mechanism.training_seconds(long, few, "cuda") is None


def test_cases_follow_shares():
    """Whole numbers that add up; of nothing, nothing."""
    assert cases_of(np.array([0.5, 0.25, 0.25]), 10).tolist() in ([5, 2, 3], [5, 3, 2])
    assert cases_of(np.zeros(0), 0).tolist() == []
    assert cases_of(np.full(3, 1 / 3), 0).tolist() == [0, 0, 0]
    assert math.isclose(cases_of(np.full(7, 1 / 7), 1000).sum(), 1000)
