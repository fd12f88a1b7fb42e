"""PRETSA*: what it proves, what it hands back when it is stopped, and the edges of its domain."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from rapidfuzz.distance import Levenshtein

from cloakwork.base import progress
from cloakwork.mechanisms.aggregates import CASES
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
    edit_cost,
    problem_from_histogram,
)
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts
from cloakwork_extras.a_star import AStar, AStarParams, Relaxation
from mechanisms.kanon.problems import check_solution, problem_of, real_summary, released, solved
from properties.oracle import least_cost

A_STAR = AStar()
MODULE = "cloakwork_extras.a_star"


def hard() -> KAnonymityProblem:
    """A problem that takes more states than one: 40 words over two letters, whose cases do not add
    up to k evenly.
    """
    texts = [f"{number * 37 % 1024:010b}" for number in range(1, 41)]
    return problem_of(texts, [2 + number * number % 3 for number in range(40)], 7, "variants")


@pytest.mark.parametrize(("scope", "least"), [("prefixes", 26), ("variants", 30)])
def test_the_papers_optimum_is_found_and_proved(scope: Scope, least: int) -> None:
    """The receipt log at k = 4, variants that occur once removed: 26 in the paper's table 5, over
    prefixes.
    """
    summary = real_summary("receipt").filter(pl.col(CASES) > 1)
    problem, _ = problem_from_histogram(summary, 4, scope, "levenshtein")
    solution = solved(A_STAR, AStarParams(k=4, scope=scope), problem)
    assert least == edit_cost(problem, solution.assignment) == solution.bound
    assert solution.stop_reason == "no whole variants can be moved at less cost"


def test_the_papers_heuristic_is_not_admissible() -> None:
    """The example of the docstring: equations 2 to 4 charge more than an optimal answer costs."""
    texts, cases, k = ("a", "abc", "xbc"), (1, 7, 3), 10
    nearest = [
        min(Levenshtein.distance(one, other) for other in texts if other != one) for one in texts
    ]
    heuristic = sum(edits * min(n, abs(n - k)) / 2 for edits, n in zip(nearest, cases, strict=True))
    assert 4 == heuristic > 3 == least_cost(texts, cases, cases, k, "prefixes")
    courses = ["a"] + ["abc"] * 7 + ["xbc"] * 3
    assert released(A_STAR, courses, k=10, scope="prefixes") == Counter(a=1, abc=10)


def test_stopped_by_the_clock_it_hands_back_a_log_and_a_bound() -> None:
    """Both are true: a bound below, an answer above the least distance, which a longer search
    finds.
    """
    problem = hard()
    stopped = solved(A_STAR, AStarParams(k=7, seconds=1e-9), problem)
    assert stopped.stop_reason == "the time was used up"
    ended = solved(A_STAR, AStarParams(k=7), problem)
    least = edit_cost(problem, ended.assignment)
    assert ended.bound == least
    assert isinstance(ended.figures["states"], int)
    assert stopped.bound is not None
    assert stopped.bound <= least <= check_solution(problem, stopped)


def test_stopped_by_memory_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that may hold one state stops when it holds one that is not yet done."""
    problem = hard()
    monkeypatch.setattr(f"{MODULE}.FIRST_STEPS", 1)
    monkeypatch.setattr(f"{MODULE}.MIB", 1)
    solution = solved(A_STAR, AStarParams(k=7, memory=1), problem)
    assert solution.stop_reason == "the memory was used up"
    assert solution.bound is not None
    assert solution.bound < edit_cost(problem, solution.assignment)


def test_an_interrupt_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes through the search as it came, from where figures of the raw log are told to
    whoever listens.
    """

    def hear(message: str) -> None:
        if "proved" in message:
            raise KeyboardInterrupt

    monkeypatch.setattr(f"{MODULE}.FIRST_STEPS", 1)
    monkeypatch.setattr("cloakwork.base.progress.SILENT_FOR", -1.0)
    with progress.heard_by(hear), pytest.raises(KeyboardInterrupt):
        solved(A_STAR, AStarParams(k=7), hard())


def test_a_case_may_leave_the_class_that_its_variant_is() -> None:
    """A class may need the cases of a variant that others then join: nothing is assumed about who
    stays.
    """
    texts, cases = ("aa", "ab", "bb", "bc"), (3, 1, 2, 1)
    problem = problem_of(texts, cases, 3, "variants")
    solution = solved(A_STAR, AStarParams(k=3), problem)
    assert edit_cost(problem, solution.assignment) == least_cost(texts, cases, cases, 3, "variants")


def test_eight_forbidden_children_are_no_gain() -> None:
    """Eight children of one prefix must open, none may take what it lacks: there is no answer.

    Eight times the cost that stands for what is forbidden exceeds int64.
    """
    texts = ("a", *(f"a{letter}" for letter in "bcdefghi"))
    problem = problem_of(texts, [2] + [1] * 8, 2, "prefixes")
    relaxation = Relaxation(MoveCosts.of(problem, "kanon/a-star"))
    everything_stays = np.eye(len(texts), dtype=bool), np.ones(len(texts), bool)
    nothing_forbidden = np.ones((len(texts), len(texts)), bool), np.zeros(len(texts), bool)
    no_duals = np.zeros(len(texts), np.int64)
    least = relaxation(no_duals, *nothing_forbidden)
    assert relaxation(no_duals, *everything_stays).value >= 1 << 59 > least.value
