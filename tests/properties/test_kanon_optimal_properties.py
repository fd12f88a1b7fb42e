"""kanon/optimal against every answer there is, on small problems."""

import random

import numpy as np
import pytest

from cloakwork.mechanisms.kanon.local_search import merged
from cloakwork.mechanisms.kanon.lower_bound import Duties, certify
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import Problem, Scope, cost, smallest_class
from cloakwork.mechanisms.kanon.program import Classes, Program
from cloakwork.mechanisms.kanon.sequences import EditDistances
from conftest import runs
from properties.oracle import least_cost

INSTANCES = runs(60)


def small_problem(seed: int, scope: Scope, most_cases: int, *, units: bool = False) -> Problem:
    """A few short variants over two or three activities, many of which begin with one another."""
    dice = random.Random(seed)
    alphabet = "abc"[: dice.randint(2, 3)]
    wanted = {
        "".join(dice.choices(alphabet, k=dice.randint(0, 4))) for _ in range(dice.randint(1, 5))
    }
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
        least = least_cost(
            problem.texts, problem.cases, problem.mass, problem.k, scope, parts=parts
        )  # type: ignore[arg-type]
        assert (least is not None) == problem.feasible or scope == "prefixes"
        if not problem.feasible:
            continue
        solution, _ = Optimal().solve(OptimalParams(k=problem.k, scope=scope, parts=parts), problem)
        assert least == cost(problem, solution.assignment)
        assert least == solution.bound
        assert solution.stopped == "proved optimal"
        smallest = smallest_class(problem, solution.assignment)
        assert smallest is None or smallest >= problem.k
        assert np.array_equal(
            np.bincount(solution.assignment.source, solution.assignment.cases), problem.cases
        )
        compared += 1
    assert compared > INSTANCES / 2


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("kind", ["whole", "parts", "units"])
def test_any_prices_prove_a_true_bound(scope: Scope, kind: str) -> None:
    """However bad the prices: the bound is none too high, and no pair is left out that a least
    answer needs.
    """
    for seed in range(INSTANCES):
        parts = kind == "parts"
        problem = small_problem(seed, scope, 3 if parts else 5, units=kind == "units")
        if not problem.feasible:
            continue
        solution, _ = Optimal().solve(OptimalParams(k=problem.k, scope=scope, parts=parts), problem)
        least = cost(problem, solution.assignment)
        luck = np.random.default_rng(seed)
        prices, tolls = luck.uniform(0, 9, (2, len(problem.texts)))
        proof = certify(problem, Duties.of(problem, parts=parts), prices * problem.cases, tolls)
        assert proof.value <= least
        kept = Program(
            problem, Classes.in_scope(problem), *proof.columns(least + 1), parts=parts
        ).solve(10)
        assert kept.assignment is not None
        assert least == cost(problem, kept.assignment)


def test_merging_gives_an_answer() -> None:
    """From any start."""
    for seed in range(INSTANCES):
        problem = small_problem(seed, "variants", 5, units=bool(seed % 2))
        if not problem.feasible:
            continue
        start = np.random.default_rng(seed).integers(0, len(problem.texts), len(problem.texts))
        for found in (merged(problem), merged(problem, start)):
            assert (smallest_class(problem, found) or 0) >= problem.k
