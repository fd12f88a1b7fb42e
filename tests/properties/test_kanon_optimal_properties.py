"""kanon/optimal against every answer there is, on small problems."""

import random

import numpy as np
import pytest

from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import Problem, Scope, cost, smallest_class
from cloakwork.mechanisms.kanon.sequences import EditDistances
from properties.oracle import least_cost

INSTANCES = 150


def small_problem(seed: int, scope: Scope, most_cases: int, *, units: bool = False) -> Problem:
    """A few short variants over two or three activities, many of which begin with one another."""
    dice = random.Random(seed)
    alphabet = "abc"[: dice.randint(2, 3)]
    wanted = {"".join(dice.choices(alphabet, k=dice.randint(0, 4))) for _ in range(dice.randint(1, 5))}
    texts = tuple(sorted(wanted))
    cases = np.array([dice.randint(1, most_cases) for _ in texts], np.int64)
    mass = np.array([dice.randint(0, count) for count in cases], np.int64) if units else cases
    return Problem(texts, cases, mass, dice.randint(2, 5), scope, EditDistances(texts))


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("kind", ["whole", "parts", "units"])
def test_optimal_is_what_trying_everything_finds(scope: Scope, kind: str) -> None:
    """Exactly the least cost, proved, and never below what the prices alone prove."""
    compared = 0
    for seed in range(INSTANCES):
        parts, units = kind == "parts", kind == "units"
        problem = small_problem(seed, scope, 3 if parts else 5, units=units)
        least = least_cost(problem.texts, problem.cases, problem.mass, problem.k, scope, parts=parts)  # type: ignore[arg-type]
        assert (least is not None) == problem.feasible or scope == "prefixes"
        if not problem.feasible:
            continue
        solution, _ = Optimal().solve(OptimalParams(k=problem.k, scope=scope, parts=parts), problem)
        assert least == cost(problem, solution.assignment)
        assert least == solution.bound
        assert solution.stopped == "proved optimal"
        smallest = smallest_class(problem, solution.assignment)
        assert smallest is None or smallest >= problem.k
        assert np.array_equal(np.bincount(solution.assignment.source, solution.assignment.cases), problem.cases)
        compared += 1
    assert compared > INSTANCES / 2
