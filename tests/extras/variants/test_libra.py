"""``variants/libra``: its estimates, its samples of units, its test, its price."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import mu_of_cost
from cloakwork.base.costs import DiscreteLaplace, NonPrivate, PoissonSampled, Repeated
from cloakwork.base.facts import Facts, Unit
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Books, Entries, Kernel, Laplace
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.variants.threshold import threshold_event
from cloakwork.noise import reproducible, secret
from cloakwork.plan import choose
from cloakwork.plan.planner import make_plan
from cloakwork.run.run import Run
from cloakwork.testing import run_mechanism
from cloakwork_extras import libra
from cloakwork_extras.libra import (
    VariantLibra,
    VariantLibraPublished,
    _divergence,
    published_epsilon,
    samples_needed,
    standard_deviation,
)
from contracts.sample_logs import log_of
from contracts.value_logs import with_values
from measuring import release
from plan.conftest import ATTRIBUTES, policy_of

LIBRA, PUBLISHED = VariantLibra(), VariantLibraPublished()


def goal(epsilon=1.0, delta=1e-4):
    """Differential privacy over the control flow."""
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


def params_of(facts=None, epsilon=1.0, delta=1e-4, **options):
    """What is offered."""
    answer = LIBRA.offer(goal(epsilon, delta), facts or Facts(), options)
    assert isinstance(answer, Offer), answer
    return answer.params


@pytest.mark.parametrize(
    ("cases", "options"),
    [
        (1, {}),
        (3, {"rate": 0.5}),
        (1, {"samples": 3, "rate": 1}),
        (3, {"selection_share": 0.9}),
    ],
)
def test_selection_and_samples_keep_to_the_budget_closely(cases, options):
    """The whole of it is used, and no more."""
    facts = Facts(unit=Unit(attribute="case:person", max_cases=cases))
    found = cost(LIBRA.step(params_of(facts, **options), facts).event, 1e-4)
    assert 0.999 < found.epsilon <= 1
    assert found.delta <= 1e-4


def test_estimates_are_unbiased():
    """Frequent variants, 120 runs of the noisy samples: the mean is the count, and the spread is
    the one predicted.
    """
    params = params_of(samples=4, rate=0.25)
    counts = [400, 1500]
    summary = pl.DataFrame({"variant": [["a"], ["b", "c"]], "cases": counts})
    noise = reproducible(1)
    released = [release(LIBRA, params, summary, noise).table for _ in range(120)]
    found = np.array(
        [table.sort(pl.col("variant").list.len())["cases"].to_list() for table in released]
    )
    for column, count in enumerate(counts):
        expected = math.hypot(standard_deviation(params, count), math.sqrt(1 / 12))
        assert abs(found[:, column].mean() - count) < 5 * expected / math.sqrt(120)
        assert 0.7 * expected < found[:, column].std() < 1.35 * expected


def sampled(samples):
    """So many samples of half of the persons, with little noise: whatever that costs."""
    params = params_of(Facts(unit=Unit(attribute="case:person", max_cases=1)))
    return params.model_copy(update={"samples": samples, "rate": 0.5, "scale": 3.0})


def noisy_samples(params, summary):
    """Noisy counts of the variants a and b in each sample."""
    noise = secret()
    event = Repeated(
        times=params.samples,
        event=PoissonSampled(
            rate=params.rate, event=DiscreteLaplace(scale=params.scale, sensitivity=1)
        ),
    )
    kernel = Kernel(measured_of(summary, noise), Books.of(event), noise, 1)

    def variant_of_case(cases):
        return Entries.one_each(cases, cases.among([("a",), ("b",)]))

    return kernel.sample_sums(
        variant_of_case, Laplace(params.scale), params.rate, params.samples, 2
    )


def test_a_unit_is_in_a_sample_with_all_its_cases():
    """One person with every case of two variants: both counts of a sample are near full, or near
    nothing.

    Of 40 samples some have the person and some not, but for 2**-39; noise of 50 scales has a
    probability of e**-50.
    """
    params = sampled(40)
    summary = pl.DataFrame(
        {
            "variant": [["a"], ["b"]],
            "cases": [500, 700],
            "unit": [["x"], ["x"]],
            "cases_of_unit": [[500], [700]],
        }
    )
    noisy = noisy_samples(params, summary)
    present = noisy > np.array([250, 350])
    assert (present[:, 0] == present[:, 1]).all()
    assert 0 < present[:, 0].sum() < 40
    expected = np.where(present, [500, 700], 0)
    assert np.abs(noisy - expected).max() < 50 * params.scale


def test_cases_without_a_unit_are_sampled_one_by_one():
    """Beside one person's: their number in a sample varies like a binomial, not all or nothing.

    With the noise it has a deviation of 16.4, which fails by chance with 1e-12 (chi-squared); noise
    alone has 4.2.
    """
    params = sampled(60)
    summary = pl.DataFrame(
        {
            "variant": [["a"], ["b"]],
            "cases": [1002, 3],
            "unit": [[None, "y"], ["x"]],
            "cases_of_unit": [[1000, 2], [3]],
        }
    )
    owners = measured_of(summary, secret()).owners
    assert owners.units == 1002
    assert owners.cases.sum() == 1005
    noisy = noisy_samples(params, summary)[:, 0]
    assert abs(noisy.mean() - 501) < 20
    assert 7 < noisy.std() < 35


def test_the_binomial_test_is_the_least_that_keeps_rho():
    """Noise alone passes it with probability at most rho, one sighting fewer would not do."""
    for omega, rho in ((1, 0.05), (4, 0.01), (1, 1.0)):
        params = params_of(omega=omega, rho=rho)
        r = math.exp(-1 / params.scale)
        chance, needed = r**omega / (1 + r), samples_needed(params)
        assert binom.sf(needed - 1, params.samples, chance) <= rho
        assert needed == 0 or binom.sf(needed - 2, params.samples, chance) > rho


def test_a_test_that_nothing_passes_releases_nothing():
    """One sample and a tiny rho: even certain sightings are no evidence."""
    params = params_of(samples=1, rate=1, rho=1e-9)
    summary = pl.DataFrame({"variant": [["a"]], "cases": [10_000]})
    assert release(LIBRA, params, summary, secret()).table.height == 0


def test_the_plan_says_that_plain_noise_is_better():
    """At the default rate, with both figures."""
    for epsilon in (0.1, 1.0):
        answer = LIBRA.offer(goal(epsilon), Facts(), {})
        assert isinstance(answer, Offer)
        assert "plain noise is better" in answer.why


def test_a_budget_at_the_edge_is_met_and_senseless_options_are_refused():
    """Where epsilon barely exceeds what delta allows, the selection's share does too."""
    assert isinstance(LIBRA.offer(goal(0.01, 0.00995), Facts(), {}), Offer)
    for options in ({"rate": 0}, {"rho": 2}, {"samples": 0}, {"selection_share": 1}):
        answer = LIBRA.offer(goal(), Facts(), options)
        assert isinstance(answer, Refusal)
        assert answer.kind == "misconfigured"


def test_persons_are_bounded_and_sampled_as_a_whole():
    """600 cases of 200 persons, two kept of each: the release has about 400, with the spread of
    whole persons.

    Ten samples of half of 200 persons with two cases each: a deviation of 2 * sqrt(200 / 10) = 9,
    and the noise of 4: 80 are exceeded with a probability below 1e-13 (Chernoff).
    """
    log = with_values(
        log_of([["a", "b"]] * 600), "case:person", [str(row // 3) for row in range(600)]
    )
    released = run_mechanism(
        "variants/libra",
        log,
        epsilon=4.0,
        delta=1e-3,
        unit_attribute="case:person",
        max_cases=2,
        samples=10,
        rate=0.5,
    )
    assert abs(released.cases.height - 400) < 80
    assert "case:person" not in released.cases.columns


WHOLE = {"epsilon": 2.0, "delta": 1e-6, "over": ["control-flow", "timestamps"]}
DECLARED = {"variants": [["x"], ["x", "y"], ["y"]]}
PARTS = [
    ("variants/libra", {"rate": 0.5, "samples": 3, "rho": 1}),
    ("variants/amun", {}),
    ("variants/amun", DECLARED),
]
WITH_TIMES = {**ATTRIBUTES, "time:timestamp": {"role": "timestamp"}}


def plan_over_times(name, options):
    """A plan for control flow and times together, of which ``name`` serves the former."""
    mechanisms = {"prefer": [name], "parameters": {name: options}}
    goal_of_all = {"kind": "differential-privacy", **WHOLE}
    spec = {"attributes": WITH_TIMES, "guarantees": [goal_of_all], "mechanisms": mechanisms}
    return make_plan(policy_of(**spec))


@pytest.mark.parametrize(("name", "options"), PARTS)
def test_control_flow_and_times_are_released_together(name, options, monkeypatch):
    """What is allowed is spent, but for what a short search leaves; no time is missing."""
    monkeypatch.setattr(choose, "_TOLERANCE", 0.05)
    plan = plan_over_times(name, options)
    assert [step.mechanism for step in plan.steps][1:3] == [name, "timestamps/regression"]
    (claim,) = plan.claims
    assert 1.85 < claim.cost.epsilon <= 2.0
    assert claim.cost.delta <= 1e-6
    for cases in ([], [["x", "y"]] * 300):
        found = Run(plan=plan, noise=reproducible(1)).release(log_of(cases), None).log
        assert found.events["time:timestamp"].null_count() == 0
        assert bool(found.events.height) >= bool(cases)


def test_samples_that_are_not_charged_are_refused(monkeypatch):
    """The counterpart whose cost is that of the selection alone."""
    monkeypatch.setattr(
        VariantLibra, "event", lambda self, params, facts: threshold_event(params.selection)
    )
    monkeypatch.setattr(choose, "_TOLERANCE", 0.05)
    plan = plan_over_times(*PARTS[0])
    with pytest.raises(PlanUnsound):
        Run(plan=plan, noise=reproducible(1)).release(log_of([["x", "y"]] * 300), None)


@pytest.mark.parametrize(("rate", "samples"), [(0.05, 20), (0.2, 40)])
def test_samples_err_more_than_one_table_of_all(rate, samples):
    """Gaussian noise at the same mu on the counts of all cases errs less, even without the error of
    sampling: what decision 18 derives. The accountant charges about that mu.
    """
    options = {"rate": rate, "samples": samples}
    params = LIBRA.offer_part(PartOfGoal(("control-flow",), 0.5, 1e-7), Facts(), options).params
    mu = 0.5 * math.sqrt(0.5)
    assert standard_deviation(params, 0) > 1 / mu
    _, counted = LIBRA.step(params, Facts()).event.events
    charged = mu_of_cost(cost(counted, 1e-5).epsilon, 1e-5)
    assert 0.9 < charged / mu < 1.3


def test_options_of_a_part_are_judged():
    for options in ({"noise": "laplace"}, {"rate": 0}):
        found = LIBRA.offer_part(PartOfGoal(("control-flow",), 0.5, 1e-7), Facts(), options)
        assert isinstance(found, Refusal)
        assert found.kind == "misconfigured"
    assert LIBRA.offer_part(PartOfGoal(("timestamps",), 0.5, 1e-7), Facts(), {}).kind == "never"
    assert LIBRA.offer_part(PartOfGoal(("control-flow",), 0.5, 0.0), Facts(), {}).kind == "needs"


@pytest.mark.parametrize(("scale", "moved"), [(2.0, 1), (5.0, 3), (1.0, 4)])
def test_the_divergence_of_moved_noise(scale, moved):
    """By its sum."""
    r = math.exp(-1 / scale)
    mass = lambda x: (1 - r) / (1 + r) * r ** abs(x)  # noqa: E731
    by_sum = sum(mass(x - moved) ** 2 / mass(x) for x in range(-150, 150)) - 1
    assert _divergence(scale, moved) == pytest.approx(by_sum, rel=1e-9)


@pytest.mark.parametrize(
    ("alpha", "by_hand"),
    [
        (2, 20 * math.log(0.95 * 1.05 + 0.05**2 * (2 / 3 * math.exp(0.5) + 1 / 3 * math.exp(-1)))),
        (10, None),
    ],
)
def test_the_published_figure(alpha, by_hand):
    """Its formula at order 2 by hand (b = 2, gamma = .05), and that it lies below what one count
    alone really costs.
    """
    figure = published_epsilon(2.0, 0.05, alpha, 20)
    if by_hand is not None:
        assert figure == pytest.approx(by_hand, rel=1e-9)
    real = cost(
        libra._libra_event(params_of(epsilon=0.01, delta=1e-6).selection, 0.05, 20, 2.0), 1e-4
    ).epsilon
    assert figure < real


def test_the_published_form_meets_its_own_figure_and_proves_nothing():
    """Noise for the published epsilon, an event without bound, a reason that a person can read."""
    answer = PUBLISHED.offer(goal(0.5), Facts(), {"alpha": 10})
    assert isinstance(answer, Offer)
    assert 0.49 < answer.params.published <= 0.5
    event = PUBLISHED.step(answer.params, Facts()).event
    assert isinstance(event, NonPrivate)
    assert cost(event, 1e-4).epsilon == math.inf
    assert "does not hold" in answer.why
    assert not PUBLISHED.step(answer.params, Facts()).lineage.measures


def test_the_published_form_clips_by_raw_counts():
    """The flaw itself: one case more of a variant brings it into every release, one case less keeps
    it out.

    With 200 cases more it would be lost only if noise of scale 0.7 undid each of 20 samples of some
    ten cases: e**-200.
    """
    params = PUBLISHED.offer(goal(), Facts(), {}).params
    least = round(params.scale * math.log(2 / params.delta))
    for cases, present in ((least - 1, False), (least + 200, True)):
        summary = pl.DataFrame({"variant": [["a", "b"]], "cases": [cases]})
        assert (release(PUBLISHED, params, summary, secret()).table.height == 1) is present
