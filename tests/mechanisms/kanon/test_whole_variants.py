"""Moves of whole variants on any problem: what is released, what is optimal, what is a bound, and
what improves an answer.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.errors import MechanismError
from cloakwork.log.variants import EditDistances, Metric
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Scope,
    Solution,
    edit_cost,
    smallest_class,
)
from cloakwork.mechanisms.kanon.whole_variants import (
    MoveCosts,
    improve_by_hill_climbing,
    nearest_classes,
    repair_to_k_anonymous,
)
from cloakwork_extras import a_star
from cloakwork_extras.a_star import SCALE, AStar, AStarParams, Relaxation, is_k_anonymous
from cloakwork_extras.best_first import search_best_first
from conftest import runs
from mechanisms.kanon.problems import check_solution, problem_of, solved
from properties.oracle import least_cost

SCOPES = pytest.mark.parametrize("scope", ["variants", "prefixes"])


def test_distances_that_do_not_fit_are_refused() -> None:
    """Rather than counted too low."""
    with pytest.raises(MechanismError, match="the log holds a longer one"):
        MoveCosts.of(
            problem_of(["a" * 40_000, "b" * 40_000], [2, 2], 2, "variants"),
            "kanon/best-first",
        )


@SCOPES
def test_the_improvement_finds_what_the_greedy_search_missed(scope: Scope) -> None:
    """From everything on one variant back to three classes."""
    problem = problem_of(["aaa", "aab", "bbb", "bbc", "ccc"], [3, 1, 3, 1, 3], 3, scope)
    costs = MoveCosts.of(problem, "kanon/best-first")
    start = np.zeros(5, np.int64)
    better = improve_by_hill_climbing(costs, start)
    assert costs.total_cost(start) > costs.total_cost(better) == 2
    assert start.tolist() == [0] * 5


@st.composite
def problems(draw: st.DrawFn, scope: Scope, most: int = 5) -> KAnonymityProblem:
    """Feasible, of at most ``most`` variants; mass counts cases, or fewer units, down to none on a
    variant.
    """
    texts = tuple(sorted(draw(st.sets(st.text("abc", max_size=5), min_size=1, max_size=most))))
    cases = np.array([draw(st.integers(1, 6)) for _ in texts], np.int64)
    mass = (
        cases
        if draw(st.booleans())
        else np.array([draw(st.integers(0, int(count))) for count in cases], np.int64)
    )
    if mass.sum() < 2:
        mass = cases + 1
    k = draw(st.integers(2, min(12, int(mass.sum()))))
    metric: Metric = draw(st.sampled_from(["levenshtein", "indel"]))
    return KAnonymityProblem(texts, cases, mass, k, scope, EditDistances(texts, metric))


def optimum(problem: KAnonymityProblem) -> int | None:
    cases, mass, metric = problem.cases.tolist(), problem.mass.tolist(), problem.distances.metric
    return least_cost(problem.texts, cases, mass, problem.k, problem.scope, metric=metric)


@SCOPES
@settings(max_examples=runs(30))
@given(data=st.data())
def test_a_star_finds_and_proves_the_optimum(data: st.DataObject, scope: Scope) -> None:
    """Its distance and its bound are the least of all ways to move whole variants."""
    problem = data.draw(problems(scope))
    solution = solved(AStar(), AStarParams(k=problem.k, scope=scope), problem)
    assert optimum(problem) == solution.bound == edit_cost(problem, solution.assignment)
    check_solution(problem, solution)


@SCOPES
@settings(max_examples=runs(20))
@given(data=st.data())
def test_best_first_is_allowed_and_no_better_than_the_optimum(
    data: st.DataObject, scope: Scope
) -> None:
    """And its improvement never costs more than the greedy end."""
    problem = data.draw(problems(scope))
    costs = MoveCosts.of(problem, "kanon/best-first")
    greedy = search_best_first(costs)
    better = improve_by_hill_climbing(costs, greedy)
    for target in (greedy, better):
        check_solution(problem, Solution(Assignment.of_targets(problem, target), None, ""))
    assert optimum(problem) <= costs.total_cost(better) <= costs.total_cost(greedy)


@SCOPES
@settings(max_examples=runs(30))
@given(data=st.data())
def test_no_multipliers_and_no_decisions_make_a_bound_too_high(
    data: st.DataObject, scope: Scope
) -> None:
    """A* stands on this: whatever the multipliers, no allowed answer that keeps the decisions costs
    less than L.
    """
    problem = data.draw(problems(scope))
    variants = len(problem.texts)
    costs = MoveCosts.of(problem, "kanon/a-star")
    target = np.array(
        data.draw(st.lists(st.integers(0, variants - 1), min_size=variants, max_size=variants))
    )
    if not is_k_anonymous(costs, target):
        target = repair_to_k_anonymous(
            costs,
            costs.open_classes(target),
            target,
            nearest_classes(costs, costs.open_classes(target)),
        )
    multipliers = np.array([data.draw(st.integers(-SCALE, 40 * SCALE)) for _ in range(variants)])
    may_move = np.array(
        [[data.draw(st.booleans()) for _ in range(variants)] for _ in range(variants)]
    )
    may_move[np.arange(variants), target] = True
    must_open = costs.open_classes(target) & np.array(
        [data.draw(st.booleans()) for _ in range(variants)]
    )
    units = data.draw(st.sampled_from([1, 2, 3, 256]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a_star, "MOST_MASS_UNITS", units)
        relaxed = Relaxation(costs)(multipliers, may_move, must_open)
    assert relaxed.bound <= costs.total_cost(target)
    assert (relaxed.picked <= may_move).all()


@SCOPES
@settings(max_examples=runs(30))
@given(data=st.data())
def test_its_rule_is_the_judges(data: st.DataObject, scope: Scope) -> None:
    """``MoveCosts.allows`` says what ``smallest_class`` says, of any answer."""
    problem = data.draw(problems(scope, most=7))
    variants = len(problem.texts)
    target = np.array(
        data.draw(st.lists(st.integers(0, variants - 1), min_size=variants, max_size=variants))
    )
    smallest = smallest_class(problem, Assignment.of_targets(problem, target))
    allowed = smallest is None or smallest >= problem.k
    costs = MoveCosts.of(problem, "kanon/best-first")
    assert allowed == is_k_anonymous(costs, target)
    classes = costs.open_classes(target)
    assert allowed == bool(
        (costs.held_mass(target) >= costs.required_mass_beside(classes))[classes].all()
    )


@SCOPES
def test_bounds_hold_where_mass_is_counted_in_larger_units(scope: Scope) -> None:
    """A k far above the units of the dynamic programme: the optimum is still found and proved."""
    texts, cases = ("a", "ab", "abc", "b", "cb"), (700, 310, 655, 401, 299)
    problem = problem_of(texts, cases, 1000, scope)
    solution = solved(AStar(), AStarParams(k=1000, scope=scope), problem)
    assert optimum(problem) == solution.bound == edit_cost(problem, solution.assignment)
