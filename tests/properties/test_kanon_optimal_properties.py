"""kanon/optimal against every answer there is, on small problems."""

import random

import numpy as np
import pytest

from cloakwork.log.sequences import EditDistances
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.integer_program import KAnonymityProgram, class_matrix
from cloakwork.mechanisms.kanon.local_search import merge_classes
from cloakwork.mechanisms.kanon.long_tail import certify_near_bound
from cloakwork.mechanisms.kanon.lower_bound import CoverConstraints, certify_bound
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem, Scope, edit_cost, smallest_class
from conftest import runs
from properties.oracle import least_cost

INSTANCES = runs(60)


def small_problem(
    seed: int, scope: Scope, most_cases: int, *, units: bool = False
) -> KAnonymityProblem:
    """A few short variants over two or three activities, many of which begin with one another."""
    dice = random.Random(seed)
    alphabet = "abc"[: dice.randint(2, 3)]
    drawn = {
        "".join(dice.choices(alphabet, k=dice.randint(0, 4))) for _ in range(dice.randint(1, 5))
    }
    texts = tuple(sorted(drawn))
    cases = np.array([dice.randint(1, most_cases) for _ in texts], np.int64)
    mass = np.array([dice.randint(0, count) for count in cases], np.int64) if units else cases
    return KAnonymityProblem(texts, cases, mass, dice.randint(2, 5), scope, EditDistances(texts))


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("kind", ["together", "split", "units"])
def test_optimal_is_what_trying_everything_finds(scope: Scope, kind: str) -> None:
    """Exactly the least cost, proved, and never below what dual prices alone prove."""
    compared = 0
    for seed in range(INSTANCES):
        split_cases, units = kind == "split", kind == "units"
        problem = small_problem(seed, scope, 3 if split_cases else 5, units=units)
        least = least_cost(
            problem.texts, problem.cases, problem.mass, problem.k, scope, split_cases=split_cases
        )  # type: ignore[arg-type]
        assert (least is not None) == problem.is_feasible or scope == "prefixes"
        if not problem.is_feasible:
            continue
        solution, _ = Optimal().solve(
            OptimalParams(k=problem.k, scope=scope, split_cases=split_cases), problem
        )
        assert least == edit_cost(problem, solution.assignment)
        assert least == solution.bound
        assert solution.stop_reason == "proved optimal"
        smallest = smallest_class(problem, solution.assignment)
        assert smallest is None or smallest >= problem.k
        assert np.array_equal(
            np.bincount(solution.assignment.source, solution.assignment.cases), problem.cases
        )
        compared += 1
    assert compared > INSTANCES / 2


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("kind", ["together", "split", "units"])
def test_a_bound_from_near_pairs_is_never_above_the_least_cost(scope: Scope, kind: str) -> None:
    """And says something: it is above 0 wherever much is to be moved."""
    above_zero = 0
    for seed in range(INSTANCES):
        split_cases = kind == "split"
        problem = small_problem(seed, scope, 3 if split_cases else 5, units=kind == "units")
        if not problem.is_feasible:
            continue
        least = least_cost(
            problem.texts, problem.cases, problem.mass, problem.k, scope, split_cases=split_cases
        )  # type: ignore[arg-type]
        assert least is not None
        bound = certify_near_bound(problem, seed % 2, Deadline(), split_cases=split_cases)
        assert bound.value <= least
        above_zero += bound.value > 0
    assert above_zero > INSTANCES / 5


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("kind", ["together", "split", "units"])
def test_any_dual_prices_prove_a_true_bound(scope: Scope, kind: str) -> None:
    """However bad they are: the bound is none too high, and no pair is left out that a least
    answer needs.
    """
    for seed in range(INSTANCES):
        split_cases = kind == "split"
        problem = small_problem(seed, scope, 3 if split_cases else 5, units=kind == "units")
        if not problem.is_feasible:
            continue
        solution, _ = Optimal().solve(
            OptimalParams(k=problem.k, scope=scope, split_cases=split_cases), problem
        )
        least = edit_cost(problem, solution.assignment)
        luck = np.random.default_rng(seed)
        assignment_duals, mass_duals = luck.uniform(0, 9, (2, len(problem.texts)))
        proof = certify_bound(
            problem,
            CoverConstraints.of(problem, split_cases=split_cases),
            assignment_duals * problem.cases,
            mass_duals,
        )
        assert proof.value <= least
        kept = KAnonymityProgram(
            problem,
            class_matrix(problem),
            *proof.columns_below(least + 1),
            split_cases=split_cases,
        ).solve(10)
        assert kept.assignment is not None
        assert least == edit_cost(problem, kept.assignment)


def test_merging_gives_an_answer() -> None:
    """From any start."""
    for seed in range(INSTANCES):
        problem = small_problem(seed, "variants", 5, units=bool(seed % 2))
        if not problem.is_feasible:
            continue
        start = np.random.default_rng(seed).integers(0, len(problem.texts), len(problem.texts))
        for found in (merge_classes(problem), merge_classes(problem, start)):
            assert (smallest_class(problem, found) or 0) >= problem.k
