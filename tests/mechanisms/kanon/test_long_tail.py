"""Logs of more variants than can all be compared, and searches whose time is over."""

import math
import random

import numpy as np
import pytest

from cloakwork.log.variants import MOST_EVENTS, Metric
from cloakwork.mechanisms.kanon import blocks
from cloakwork.mechanisms.kanon.blocks import nearest_distances
from cloakwork.mechanisms.kanon.deadline import Deadline, OutOfTime
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
)
from cloakwork_extras.a_star import AStar, AStarParams
from cloakwork_extras.auto import Auto, AutoParams
from cloakwork_extras.best_first import BestFirst, BestFirstParams
from cloakwork_extras.pretsa import Pretsa, PretsaParams
from mechanisms.kanon.problems import StepClock, check_solution, problem_of, random_problem


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred variants are more than can be compared."""
    monkeypatch.setattr(blocks, "_ALWAYS_COMPARED", 50)
    monkeypatch.setattr(blocks, "_ALL_PAIRS_PER_SECOND", 1)


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_many_variants_have_an_answer_and_a_bound_the_same_each_time(scope: Scope) -> None:
    """Block by block; the report says how it was proved."""
    problem = random_problem(120, 4, scope)
    params = OptimalParams(k=4, scope=scope, seconds=0.2)
    one, other = (Optimal().solve(params, problem, Deadline()) for _ in range(2))
    cost = check_solution(problem, one)
    assert 0 < (one.bound or 0) < cost
    assert np.array_equal(one.assignment.target, other.assignment.target)
    assert "the time was used up" not in one.stop_reason
    assert "nearest other one" in str(one.figures["bound_proved"])


def test_what_is_compared_follows_from_size_and_seconds() -> None:
    """Up to 500 variants always, up to 6,000 where the time suffices."""
    short = random_problem(40, 4)
    assert blocks.compares_all_pairs(short, 0.001)
    texts = [f"{number:x}" for number in range(1001)]
    many = problem_of(texts, [1] * 1001, 2, "variants")
    assert not blocks.compares_all_pairs(many, 1.0)
    assert blocks.compares_all_pairs(many, 1.1)
    too_many = problem_of([f"{number:x}" for number in range(6001)], [1] * 6001, 2, "variants")
    assert not blocks.compares_all_pairs(too_many, 86_400)


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("looks", [0, 1, 3, 10, 40])
def test_whenever_the_time_is_over_there_is_an_answer(scope: Scope, looks: int) -> None:
    """The clock is over at the n-th look at it, wherever that is."""
    problem = random_problem(40, 4, scope)
    for mechanism, params in (
        (Optimal(), OptimalParams(k=4, scope=scope)),
        (Auto(), AutoParams(k=4, scope=scope)),
        (Optimal(), OptimalParams(k=4, scope=scope, gap=0.0, split_cases=False)),
        (AStar(), AStarParams(k=4, scope=scope)),
    ):
        deadline = Deadline(looks / 1000, StepClock(0.001))
        solution = mechanism.solve(params, problem, deadline)
        check_solution(problem, solution)


def test_what_has_no_answer_yet_says_so() -> None:
    """Two that search greedily have one at the end only."""
    problem = random_problem(60, 4)
    over = Deadline.after(0)
    with pytest.raises(OutOfTime):
        BestFirst().solve(BestFirstParams(k=4), problem, over)
    with pytest.raises(OutOfTime):
        Pretsa().solve(PretsaParams(k=4), problem, over)


def test_where_one_algorithm_is_allowed_it_runs_to_its_end() -> None:
    """A policy that allows PRETSA alone gets its answer, later than it asked for."""
    problem = random_problem(60, 4)
    params = AutoParams(k=4, among=("kanon/pretsa",))
    solution = Auto().solve(params, problem, Deadline.after(0))
    check_solution(problem, solution)
    assert solution.figures["algorithm"] == "kanon/pretsa"


def some_problem(seed: int, metric: Metric) -> KAnonymityProblem:
    """Sequences of very different lengths, the empty one among them, and many near ones."""
    dice = random.Random(seed)
    texts = {"", chr(0), chr(0x10FFFF)}
    texts |= {"".join(dice.choices("abc", k=dice.randint(0, 9))) for _ in range(60)}
    return problem_of(sorted(texts), [1] * len(texts), 2, "variants", metric)


@pytest.mark.parametrize("metric", ["levenshtein", "indel"])
@pytest.mark.parametrize("seconds", [60, 0.0004, 0])
def test_how_far_the_nearest_variant_is(metric: Metric, seconds: float) -> None:
    """Of as many variants as the work suffices for; of the others an edit, as of all without
    time.
    """
    problem = some_problem(1, metric)
    nearest, compared = nearest_distances(problem, seconds, Deadline())
    distance = problem.distances.matrix.astype(np.int64)
    np.fill_diagonal(distance, 1 << 20)
    assert np.array_equal(nearest[:compared], distance.min(axis=1)[:compared])
    assert (nearest[compared:] == 1).all()
    assert compared == {60: len(distance), 0.0004: 2400 // len(distance), 0: 0}[seconds]
    nothing, none = nearest_distances(problem, seconds, Deadline.after(0))
    assert (nothing == 1).all()
    assert none == 0


def test_a_single_variant_of_a_long_case_costs_nothing() -> None:
    """Where there is no other variant, none is nearest."""
    problem = problem_of(["a" * (MOST_EVENTS + 1)], [5], 5, "variants")
    solution = Optimal().solve(OptimalParams(k=5, seconds=1), problem, Deadline())
    assert solution.bound == check_solution(problem, solution) == 0


def test_shares_end_no_later_than_the_whole() -> None:
    """Whatever share is asked for, and however late."""
    clock = StepClock(0)
    whole = Deadline.after(10, clock)
    half = whole.share(0.5)
    assert half.seconds_left == 5
    assert whole.within(20).seconds_left == 10
    clock.now = 6
    assert half.is_over
    assert not whole.is_over
    assert half.share(0.5).seconds_left == 0
    clock.now = 10
    assert whole.is_over
    with pytest.raises(OutOfTime):
        whole.require_time()


def test_without_a_limit_it_is_never_over() -> None:
    """Neither the whole nor a share of it."""
    deadline = Deadline()
    deadline.share(0.1).require_time()
    assert math.isinf(deadline.share(0.1).seconds_left)
    assert not deadline.is_over
