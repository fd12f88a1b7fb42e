"""Answers block by block: k-anonymous whatever the clock says, and the same each time."""

import random

import numpy as np
import pytest

from cloakwork.log.variants import EditDistances
from cloakwork.mechanisms.kanon import blocks as block_search
from cloakwork.mechanisms.kanon.blocks import (
    NO_VARIANT,
    consecutive_groups,
    merge_in_blocks,
    partition_into_blocks,
    search_in_blocks,
)
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Scope,
    Solution,
)
from mechanisms.kanon.problems import StepClock, check_solution, random_problem

UNLIMITED = Deadline()


def with_units(problem: KAnonymityProblem) -> KAnonymityProblem:
    """As if half of the variants held nobody who is counted there."""
    dice = random.Random(3)
    mass = np.array([dice.choice([0, 1]) for _ in problem.texts], np.int64)
    return KAnonymityProblem(
        problem.texts, problem.cases, mass, problem.k, problem.scope, EditDistances(problem.texts)
    )


def check_answer(problem: KAnonymityProblem, target: np.ndarray) -> int:
    """k-anonymous, every variant placed; its cost."""
    return check_solution(problem, Solution(Assignment.of_targets(problem, target), None, ""))


@pytest.mark.parametrize("counted", ["cases", "units"])
@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("step", [0.0, 0.05, 1.0, 100.0])
def test_it_is_an_answer_whenever_the_time_ends(step: float, scope: Scope, counted: str) -> None:
    """At the first look at the clock, in the middle, and never."""
    problem = random_problem(150, 6, scope)
    if counted == "units":
        problem = with_units(problem)
    deadline = Deadline.after(1, StepClock(step))
    found = search_in_blocks(problem, 0.001, deadline)
    cost = check_solution(problem, found)
    assert step < 1 or found.stop_reason == "the time was used up"
    assert step > 0 or found.stop_reason != "the time was used up"
    # The simplest answer there is.
    assert cost <= check_answer(problem, np.zeros(len(problem.texts), np.int64))


def test_more_work_gives_a_better_answer_and_the_same_work_the_same() -> None:
    """The work is counted, not timed."""
    problem = random_problem(150, 5)
    little, again, much = (
        search_in_blocks(problem, seconds, UNLIMITED) for seconds in (0.001, 0.001, 0.05)
    )
    assert np.array_equal(little.assignment.target, again.assignment.target)
    assert check_answer(problem, much.assignment.target) < 0.9 * check_answer(
        problem, little.assignment.target
    )


@pytest.mark.parametrize("k", [2, 40, 300])
def test_mass_that_no_block_holds_gathers(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where k is far more than a block holds, and where it is all there is."""
    monkeypatch.setattr(block_search, "_LARGEST_BLOCK", 16)
    problem = random_problem(130, min(k, 130))
    check_solution(problem, search_in_blocks(problem, 0.01, UNLIMITED))


def test_merging_many_blocks_at_once_is_merging_each() -> None:
    """Side by side, padded, they do not disturb each other."""
    problems = [random_problem(size, 4) for size in (30, 17, 9)]
    places = max(len(problem.texts) for problem in problems)
    batches = []
    for width in (places, None):
        found = []
        groups = [problems] if width else [[problem] for problem in problems]
        for group in groups:
            size = width or len(group[0].texts)
            distance = np.zeros((len(group), size, size), np.int64)
            cases = np.zeros((len(group), size), np.int64)
            mass = np.full((len(group), size), NO_VARIANT)
            for number, problem in enumerate(group):
                count = len(problem.texts)
                distance[number, :count, :count] = problem.distances.matrix
                cases[number, :count] = mass[number, :count] = problem.cases
            targets = merge_in_blocks(distance, cases, mass, 4)
            found += [targets[number, : len(problem.texts)] for number, problem in enumerate(group)]
        batches.append(found)
    for problem, together, alone in zip(problems, *batches, strict=True):
        check_answer(problem, together)
        assert np.array_equal(together, alone)


def test_blocks_hold_everything_once_and_mass_enough() -> None:
    """For several rounds, with masses of 0 among them."""
    problem = with_units(random_problem(300, 5))
    rows = np.arange(len(problem.texts))
    seen = set()
    for round_ in range(4):
        blocks = partition_into_blocks(
            problem, rows, np.ones_like(rows), problem.mass, 40, round_, UNLIMITED
        )
        assert np.array_equal(np.sort(np.concatenate(blocks)), rows)
        assert all(problem.mass[block].sum() >= 5 for block in blocks)
        assert max(map(len, blocks)) <= 60
        seen.add(tuple(sorted(int(block.min()) * 1000 + len(block) for block in blocks)))
    assert len(seen) == 4


def test_groups_in_a_row_hold_k() -> None:
    """The last one takes what is left over."""
    mass = np.array([1, 2, 0, 5, 1, 1, 1, 1])
    group = consecutive_groups(mass, 3)
    assert group.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert consecutive_groups(np.array([3, 1, 1]), 3).tolist() == [0, 0, 0]
