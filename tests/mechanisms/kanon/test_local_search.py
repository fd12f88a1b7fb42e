"""Local search of k-anonymous answers: it improves, and never breaks one."""

import numpy as np
import pytest

from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.local_search import improve_by_neighbourhoods, merge_classes
from cloakwork.mechanisms.kanon.lower_bound import CoverConstraints, subgradient_ascent
from cloakwork.mechanisms.kanon.problem import Scope, edit_cost, smallest_class
from mechanisms.kanon.problems import random_problem


@pytest.mark.parametrize("split_cases", [False, True])
@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_local_search_improves_and_never_breaks(scope: Scope, split_cases: bool) -> None:
    """From the merged answer to a cheaper one."""
    problem = random_problem(100, 4, scope)
    start = merge_classes(problem)
    cost = edit_cost(problem, start)
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    prices = np.ones(len(problem.texts))
    certificate = subgradient_ascent(problem, constraints, prices, cost, Deadline.after(5))
    told: list[int] = []
    found = improve_by_neighbourhoods(start, certificate, Deadline.after(60), told.append)
    assert edit_cost(problem, found) < cost
    assert told == sorted(told, reverse=True)
    assert told[-1] == edit_cost(problem, found)
    assert (smallest_class(problem, found) or 0) >= 4
