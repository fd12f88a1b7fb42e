"""The measurement behind the DP profile: what it counts and what it costs."""

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.mechanisms.profile import LARGEST_VARIANTS
from cloakwork.noise import reproducible
from cloakwork.plan.budget import profile_params
from cloakwork.run.run import figures_of
from contracts.sample_logs import log_of
from run.profiles import LOG, SHARE, buying


@pytest.mark.parametrize("unit", ["case", {"attribute": "case:row", "max_cases": 3}])
@pytest.mark.parametrize("assume", [{}, {"alphabet": ["a", "b"]}])
def test_it_costs_at_most_its_share(unit: Any, assume: dict[str, Any]) -> None:
    """As the accountant sees the noise drawn, without what plain addition allows being lost."""
    params = profile_params(buying(unit=unit, assume=assume))
    spent = cost(params.event(), params.delta)
    assert 0.19 < spent.epsilon <= params.epsilon == 0.2
    assert spent.delta <= params.delta == (0.0 if assume else 1e-7)


def test_it_is_near_the_truth_on_a_large_log() -> None:
    figures = figures_of(profile_params(buying()), LOG, reproducible(1))
    assert figures.cases == pytest.approx(12001, abs=600)
    assert figures.lengths["0.5"] == 2
    assert figures.lengths["0.9"] == 4
    assert figures.top["1"] == pytest.approx(9000, abs=2000)
    assert figures.alphabet == ("a", "b", "c")


def test_a_case_counts_for_few_activities() -> None:
    """One case of a hundred activities adds at most ``activities_per_case`` to all counts together.

    An activity is told from three of eighty draws on; the noise is nearly none, for a plan that
    pays for it.
    """
    params = profile_params(buying(profile=SHARE | {"activities_per_case": 2}))
    log = log_of([[str(i) for i in range(100)]] * 40)
    loud = params.model_copy(update={"selection_scale": 0.125, "tau": 3})
    noise = reproducible(1)
    found = [figures_of(loud, log, noise).alphabet for _ in range(20)]
    assert all(names is not None and len(names) <= 80 / 3 for names in found)
    assert len(set(found)) == 20, "which activities count is drawn"


def test_an_activity_counts_once_a_case() -> None:
    """However often it occurs there."""
    params = profile_params(buying(profile=SHARE | {"activities_per_case": 2}))
    loud = params.model_copy(update={"selection_scale": 0.125, "tau": 30})
    log = log_of([["a"] * 9] * 20 + [["b", "c"]] * 40)
    assert figures_of(loud, log, reproducible(1)).alphabet == ("b", "c")


def test_exhaust_cases_of_the_most_frequent_variants() -> None:
    """All logs of up to seven cases: one case more, of a variant that is there or a new one, moves
    the figures by as much as the question says at most.
    """
    for most in range(1, 9):
        kinds = combinations_with_replacement(range(3), most)
        for counts in [tuple(each for each in kind if each) for kind in kinds]:
            found = LARGEST_VARIANTS.compute(np.array(sorted(counts), np.int64))
            for place in range(len(counts) + 1):
                more = [*counts, 0]
                more[place] += 1
                other = sorted(count for count in more if count)
                moved = LARGEST_VARIANTS.compute(np.array(other, np.int64)) - found
                assert np.abs(moved).sum() <= LARGEST_VARIANTS.sensitivity


def test_the_most_frequent_variants_are_counted() -> None:
    """Counts come in ascending order."""
    counts = np.arange(1, 201)
    assert LARGEST_VARIANTS.compute(counts).tolist() == [200, 1955, 15050]


def test_counts_are_unbiased() -> None:
    params = profile_params(buying())
    log = log_of([["a"]] * 500)
    noise = reproducible(1)
    counts = np.array([figures_of(params, log, noise).cases for _ in range(60)])
    spread = np.sqrt(2) * params.count_scale / np.sqrt(60)
    assert abs(counts.mean() - 500) < 5 * spread
