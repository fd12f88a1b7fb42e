"""The measurement behind the DP profile: what it counts and what it costs."""

from typing import Any

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.mechanisms.profile import measure_profile, profile_params
from cloakwork.noise import reproducible, secret
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
    figures = measure_profile(profile_params(buying()), LOG, reproducible(1))
    assert figures.cases == pytest.approx(12001, abs=600)
    assert figures.lengths["0.5"] == 2
    assert figures.lengths["0.9"] == 4
    assert figures.top["1"] == pytest.approx(9000, abs=2000)
    assert figures.alphabet == ("a", "b", "c")


def test_a_case_counts_for_few_activities() -> None:
    """One case of a hundred activities adds at most ``activities_per_case`` to all counts together.

    That three draws of forty pairs out of a hundred name the same activities is less likely than
    1e-30.
    """
    params = profile_params(buying(profile=SHARE | {"activities_per_case": 2}))
    log = log_of([[str(i) for i in range(100)]] * 40)
    loud = params.model_copy(update={"selection_scale": 1e-3, "tau": 1})
    found = [measure_profile(loud, log, secret()).alphabet for _ in range(3)]
    assert all(names is not None and len(names) <= 80 for names in found)
    assert len(set(found)) > 1, "which activities count is drawn"


def test_counts_are_unbiased() -> None:
    params = profile_params(buying())
    log = log_of([["a"]] * 500)
    noise = reproducible(1)
    counts = np.array([measure_profile(params, log, noise).cases for _ in range(300)])
    spread = np.sqrt(2) * params.count_scale / np.sqrt(300)
    assert abs(counts.mean() - 500) < 5 * spread
