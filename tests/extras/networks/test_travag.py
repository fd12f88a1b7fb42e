"""``variants/travag``: what the networks learn, and what of it follows from cases."""

import numpy as np
import pytest

from cloakwork.base.facts import Facts
from cloakwork.noise import reproducible
from cloakwork_extras.networks.travag import VariantTravag
from extras.networks.lazily import needs_torch
from extras.networks.small_networks import DOMAIN, GOAL, kernel_for, params_of, sums_of
from kernel.small import Silent, measured

pytestmark = needs_torch


NAME = "variants/travag"
GENEROUS = GOAL.model_copy(update={"epsilon": 8.0})


def released(seen, noise=None, goal=GENEROUS, **options):
    """Cases by variant."""
    params = params_of(NAME, goal=goal, **({"steps": 40, "hidden": 8} | options))
    kernel = kernel_for(NAME, params, seen, noise or reproducible(1))
    found = VariantTravag().measure(params, kernel)
    return dict(zip(found.variants, found.cases.tolist(), strict=True))


def test_shares_of_a_declared_domain_are_learned():
    """Roughly, of many cases and at a generous budget; their number is a noisy count."""
    seen = measured([("a", "b"), ("a",), ("x", "y")], [6000, 2000, 9000])
    found = released(seen, domain=DOMAIN)
    assert sum(found.values()) == pytest.approx(8000, abs=100)
    assert found[("a", "b")] > 1.2 * found[("a",)] > 4 * found[("rare",)]


def test_selected_variants_keep_about_their_noisy_counts():
    """Training begins there, and goes short ways."""
    found = released(measured([("a", "b"), ("a",)], [600, 200]), steps=5)
    assert found[("a", "b")] == pytest.approx(600, rel=0.05)
    assert found[("a",)] == pytest.approx(200, rel=0.1)


def test_a_run_with_a_seed_is_reproducible():
    """On a processor; another seed draws otherwise."""
    seen = measured([("a", "b"), ("a",)], [60, 20])
    first, again, other = (
        released(seen, reproducible(seed), domain=DOMAIN, steps=5) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_cases_outside_of_the_domain_count_for_nothing():
    """Without noise, the sums of both phases are those without such cases."""
    params = params_of(NAME, domain=DOMAIN)
    inside = sums_of(NAME, params, measured([("a",), ("b",)], [5, 0]), Silent())
    both = sums_of(NAME, params, measured([("a",), ("b",)], [5, 70]), Silent())
    assert len(inside) == 2 * params.steps
    for one, other in zip(inside, both, strict=True):
        assert np.array_equal(one, other)


def test_both_phases_are_charged():
    """One phase less costs less; its noise is that of the other."""
    params = params_of(NAME, domain=DOMAIN)
    sizes = VariantTravag().sizes(params)
    assert len(sizes) == 2
    recorded = kernel_for(NAME, params)
    VariantTravag().measure(params, recorded)
    assert recorded.recorded == kernel_all(params)


def kernel_all(params):
    """The event as the books write it, answer by answer."""
    from cloakwork.kernel.books import composed
    from cloakwork_extras.networks.one_hot import domain_event, training_event

    event = VariantTravag().step(params, Facts()).event
    training = training_event(params, VariantTravag().sizes(params))
    assert event.events == (domain_event(params), training)
    return composed([domain_event(params), *training.events])
