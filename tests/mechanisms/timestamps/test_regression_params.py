"""What both regressions cost."""

import math

import pytest

from cloakwork.accounting.events import cost
from cloakwork.accounting.gaussians import epsilon_of_normal
from cloakwork.base.facts import Facts, Unit
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.timestamps.regressions import (
    REGRESSION_SHARES,
    offered_regression,
)
from cloakwork.mechanisms.timestamps.tables import offered_params


@pytest.mark.parametrize("max_cases", [1, 3])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_all_of_it_costs_mu(mu, max_cases):
    """Steps and tables compose to one normal number that a unit moves by mu, and no less."""
    facts = Facts(unit=Unit(attribute="case:who", max_cases=max_cases))
    found = offered_regression(mu, facts, {})
    exact, charged = epsilon_of_normal(mu, 1e-5), cost(found.event(), 1e-5).epsilon
    assert exact <= charged * (1 + 1e-6)
    assert charged <= exact * 1.005


def test_the_steps_have_shares_of_their_own():
    """Of mu squared; the tables have the rest, in proportion."""
    found = offered_regression(0.3, Facts(), {})
    total = sum(REGRESSION_SHARES.values())
    for steps, name in ((found.gaps, "gaps-by-pair"), (found.durations, "totals")):
        assert steps.mu**2 == pytest.approx(REGRESSION_SHARES[name] / total * 0.3**2, rel=1e-3)
        assert steps.multiplier == pytest.approx(math.sqrt(steps.times) / steps.mu)
    tables = offered_params(0.3, Facts(), {})
    ratios = {round(sigma / tables.sigmas[name], 4) for name, sigma in found.tables.sigmas.items()}
    assert len(ratios) == 1


def test_options_are_those_of_the_tables():
    """Misset ones are refused as there."""
    refused = offered_regression(0.3, Facts(), {"shares": {"durations": 1}})
    assert isinstance(refused, Refusal)
    more = offered_regression(0.3, Facts(), {"shares": {"totals": 0.9}})
    assert more.durations.multiplier < offered_regression(0.3, Facts(), {}).durations.multiplier
    none = offered_regression(0.3, Facts(), {"shares": {"gaps-by-activity": 0.1}})
    assert isinstance(none, Refusal)
    assert "gaps-by-activity" in none.reason


def test_noise_that_cannot_be_drawn_is_refused():
    """Planning goes on: a person with very many cases, at next to no budget."""
    facts = Facts(unit=Unit(attribute="case:who", max_cases=10_000))
    refused = offered_regression(0.001, facts, {})
    assert isinstance(refused, Refusal)
    assert "cannot be drawn" in refused.reason
