"""The integer program around a known answer."""

import numpy as np
import pytest

from cloakwork.mechanisms.kanon.integer_program import KAnonymityProgram, class_matrix
from cloakwork.mechanisms.kanon.local_search import merge_classes
from cloakwork.mechanisms.kanon.problem import (
    Scope,
    edit_cost,
    smallest_class,
)
from mechanisms.kanon.problems import random_problem


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("split_cases", [False, True])
def test_an_answer_around_another_opens_and_closes_few_others(
    scope: Scope, split_cases: bool
) -> None:
    """The wider the search, the cheaper the answer; nothing opens or closes beyond it, and 0 leaves
    the same open.
    """
    problem = random_problem(20, 5, scope)
    begin, rows = merge_classes(problem), np.arange(len(problem.texts))
    everywhere = KAnonymityProgram(
        problem,
        class_matrix(problem),
        *np.divmod(np.arange(len(rows) ** 2), len(rows)),
        split_cases=split_cases,
    )
    costs = []
    for radius in (0, 2, 6, 60):
        result = everywhere.solve(60, begin, radius=radius)
        assert result.has_ended
        assert result.assignment is not None
        assert len(np.setxor1d(result.assignment.target, begin.target)) <= radius
        smallest = smallest_class(problem, result.assignment)
        assert smallest is not None
        assert smallest >= 5
        costs.append(edit_cost(problem, result.assignment))
    anywhere = everywhere.solve(60, begin).assignment
    assert anywhere is not None
    assert costs == sorted(costs, reverse=True)
    assert edit_cost(problem, begin) >= costs[0] > costs[-1] == edit_cost(problem, anywhere)
