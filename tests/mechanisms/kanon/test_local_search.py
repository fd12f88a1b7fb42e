"""Local search of k-anonymous answers: it improves, and never breaks one."""

import pytest

from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.local_search import improve_by_neighbourhoods, merge_classes
from cloakwork.mechanisms.kanon.problem import (
    Scope,
    Solution,
    edit_cost,
    smallest_class,
)
from mechanisms.kanon.problems import random_problem


@pytest.mark.parametrize("split_cases", [False, True])
@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_local_search_improves_and_never_breaks(scope: Scope, split_cases: bool) -> None:
    """From the merged answer to a cheaper one."""
    problem = random_problem(100, 4, scope)
    start = Solution(merge_classes(problem), None, "merged")
    told: list[int] = []
    found = improve_by_neighbourhoods(
        problem, start, Deadline.after(60), split_cases=split_cases, on_improvement=told.append
    )
    assert edit_cost(problem, found.assignment) < edit_cost(problem, start.assignment)
    assert told == sorted(told, reverse=True)
    assert told[-1] == edit_cost(problem, found.assignment)
    assert (smallest_class(problem, found.assignment) or 0) >= 4
