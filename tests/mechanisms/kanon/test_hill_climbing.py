"""The improvement behind a greedy search."""

import numpy as np
import pytest

from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
)
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts, improve_by_hill_climbing


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_the_improvement_finds_what_the_greedy_search_missed(scope: Scope) -> None:
    """From everything on one variant back to three classes."""
    problem = KAnonymityProblem.of(["aaa", "aab", "bbb", "bbc", "ccc"], [3, 1, 3, 1, 3], 3, scope)
    costs = MoveCosts.of(problem, "kanon/best-first")
    start = np.zeros(5, np.int64)
    better = improve_by_hill_climbing(costs, start)
    assert costs.total_cost(start) > costs.total_cost(better) == 2
    assert start.tolist() == [0] * 5
