"""Bounds by dual prices alone, without an integer program."""

import pytest

from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.local_search import improve_by_neighbourhoods, merge_classes
from cloakwork.mechanisms.kanon.lower_bound import CoverConstraints, subgradient_ascent
from cloakwork.mechanisms.kanon.problem import (
    Scope,
    Solution,
    edit_cost,
)
from mechanisms.kanon.problems import random_problem


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_dual_prices_alone_prove_most_of_the_cost(scope: Scope) -> None:
    """Without the program."""
    problem = random_problem(100, 4, scope)
    found = improve_by_neighbourhoods(
        problem, Solution(merge_classes(problem), None, "merged"), Deadline.after(60)
    ).assignment
    bound = subgradient_ascent(
        problem,
        CoverConstraints.of(problem, split_cases=False),
        problem.cases * 1.0,
        edit_cost(problem, found),
        Deadline.after(60),
    ).value
    assert 0.85 * edit_cost(problem, found) < bound <= edit_cost(problem, found)
