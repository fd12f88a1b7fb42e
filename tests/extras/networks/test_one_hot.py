"""Networks over a finite set of variants: where the set comes from, what is charged, edge cases."""

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts, Unit
from cloakwork.kernel.books import composed
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork_extras.networks.one_hot import (
    LEAST_WIDTH,
    MOST_SELECTED,
    cases_of,
    domain_event,
    domain_of,
    training_event,
)
from conftest import in_long_form
from extras.networks.small_networks import (
    DOMAIN,
    GOAL,
    NAMES,
    SMALL,
    few_chains,
    kernel_for,
    needs_torch,
    params_of,
    sums_of,
)
from kernel.small import Silent, measured
from plan.conftest import ATTRIBUTES, policy_of

pytestmark = [needs_torch, pytest.mark.usefixtures(few_chains.__name__)]
PERSONS = Facts(unit=Unit(attribute="case:person", max_cases=3))


@pytest.mark.parametrize(
    ("name", "facts", "options"),
    [
        ("variants/travag", Facts(), {}),
        ("variants/travag", PERSONS, {"domain": DOMAIN}),
        ("variants/ddpm", PERSONS, {"domain": DOMAIN}),
        *in_long_form(("variants/ddpm", PERSONS, {"domain": DOMAIN, "rate": 0.5})),
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
    assert cases_of(np.full(7, 1 / 7), 1000).sum() == 1000


def released(name, seen, seed=1, **options):
    """Cases by variant, at a generous budget."""
    goal = GOAL.model_copy(update={"epsilon": 8.0})
    params = params_of(name, goal=goal, **({"steps": 40, "hidden": 8} | options))
    kernel = kernel_for(name, params, seen, reproducible(seed))
    found = catalogue()[name].measure(params, kernel)
    return dict(zip(found.variants, found.cases.tolist(), strict=True))


@pytest.fixture
def many_chains(few_chains, diffusion, monkeypatch):
    """So many variants made of noise that their mean shares are those that were learned."""
    monkeypatch.setattr(diffusion, "CHAINS", 1 << 14)


@pytest.mark.usefixtures("many_chains")
@pytest.mark.parametrize(("name", "factor"), [("variants/travag", 1.2), ("variants/ddpm", 2)])
def test_shares_of_a_declared_domain_are_learned(name, factor):
    """Of many cases, at a generous budget; the number of cases is a noisy count of those inside."""
    seen = measured([("a", "b"), ("a",), ("x", "y")], [6000, 2000, 9000])
    found = released(name, seen, domain=DOMAIN)
    assert sum(found.values()) == pytest.approx(8000, abs=100)
    assert found[("a", "b")] > factor * found[("a",)] > 4 * found[("rare",)]


@pytest.mark.usefixtures("many_chains")
@pytest.mark.parametrize("name", NAMES)
def test_selected_variants_keep_about_their_noisy_counts(name):
    """Training begins there, and goes short ways."""
    found = released(name, measured([("a", "b"), ("a",)], [600, 200]), steps=5)
    assert found[("a", "b")] == pytest.approx(600, rel=0.05)
    assert found[("a",)] == pytest.approx(200, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_a_seed_is_reproducible(name):
    """On a processor; another seed draws otherwise."""
    seen = measured([("a", "b"), ("a",)], [60, 20])
    first, again, other = (released(name, seen, seed, domain=DOMAIN, steps=5) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("name", NAMES)
def test_cases_outside_of_the_domain_count_for_nothing(name):
    """Without noise, the sums of all steps of all phases are those without such cases."""
    params = params_of(name, domain=DOMAIN)
    inside, both = (
        sums_of(name, params, measured([("a",), ("b",)], counts), Silent())
        for counts in ([5, 0], [5, 70])
    )
    assert len(inside) == len(catalogue()[name].sizes(params)) * params.steps
    for one, other in zip(inside, both, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(("name", "phases"), [("variants/travag", 2), ("variants/ddpm", 1)])
def test_all_phases_are_charged(name, phases):
    """Answer by answer, as the event lists them."""
    mechanism, params = catalogue()[name], params_of(name, domain=DOMAIN)
    sizes = mechanism.sizes(params)
    assert len(sizes) == phases
    training = training_event(params, sizes)
    listed = mechanism.step(params, Facts()).event.events
    assert listed == (domain_event(params), training)
    kernel = kernel_for(name, params)
    mechanism.measure(params, kernel)
    assert kernel.recorded == composed([domain_event(params), *training.events])


@pytest.fixture
def diffusion(torch):
    from cloakwork_extras.networks import ddpm_network

    return ddpm_network


def denoiser_of(torch, diffusion, shares):
    """A denoiser that is right where variants have these shares."""
    first, second = torch.zeros((len(shares) + 2, 1)), torch.zeros((2, len(shares)))
    second[-1] = shares.log()
    return diffusion.VariantDenoiser(diffusion.Levels.geometric(), first, second, len(shares))


def test_the_right_denoiser_draws_the_right_shares(torch, diffusion, monkeypatch):
    """However few levels there are: within five deviations of so many chains, and what the last
    level leaves of the variant (a hundredth of its square).
    """
    monkeypatch.setattr(diffusion, "CHAINS", 1 << 13)
    shares = torch.tensor([0.6, 0.3, 0.08, 0.02])
    found = denoiser_of(torch, diffusion, shares).mean_shares(torch.Generator().manual_seed(1))
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - shares.numpy()).max() < 5 * np.sqrt(0.25 / 2**13) + 0.005


def test_evidence_is_that_of_normal_noise(torch, diffusion):
    """The chances at a level are Bayes's: prior times likelihood."""
    denoiser = denoiser_of(torch, diffusion, torch.tensor([0.5, 0.5]))
    noisy, level = torch.tensor([[0.3, -0.2]]), 8
    kept = denoiser.levels.kept[level].item()
    means = kept**0.5 * np.eye(2)
    likelihood = np.exp(-((noisy.numpy() - means) ** 2).sum(axis=1) / (2 * (1 - kept)))
    found = denoiser.chances(noisy, level)[0].numpy()
    assert found == pytest.approx(likelihood / likelihood.sum(), abs=1e-6)
