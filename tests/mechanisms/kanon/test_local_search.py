"""Local search of k-anonymous answers: it improves, and never breaks one; and how near dual prices
alone come to what it finds.
"""

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
    """From the merged answer to a cheaper one; dual prices prove most of its cost, without the
    program.
    """
    problem = random_problem(60, 4, scope)
    start = merge_classes(problem)
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    prices = problem.cases * 1.0
    certificate = subgradient_ascent(
        problem, constraints, prices, edit_cost(problem, start), Deadline.after(60)
    )
    told: list[int] = []
    found = improve_by_neighbourhoods(start, certificate, Deadline.after(60), told.append)
    assert edit_cost(problem, found) < edit_cost(problem, start)
    assert told == sorted(told, reverse=True)
    assert told[-1] == edit_cost(problem, found)
    assert (smallest_class(problem, found) or 0) >= 4
    assert np.array_equal(np.bincount(found.source, found.cases, len(problem.texts)), problem.cases)
    assert 0.8 * edit_cost(problem, found) < certificate.value <= edit_cost(problem, found)
