"""Problems that searches for a k-anonymous answer are tried on, and what every answer must be."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts
from cloakwork.engines.memory import MemoryEngine
from cloakwork.log.formats import read_log
from cloakwork.log.variants import EditDistances, Metric
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.kanon.family import Anonymiser
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
    Solution,
    edit_cost,
    smallest_class,
)
from cloakwork.mechanisms.steps import Decision
from cloakwork.noise import secret
from conftest import SHARED
from contracts.sample_logs import courses_of, log_of


def problem_of(
    texts: Sequence[str],
    cases: Sequence[int],
    k: int,
    scope: Scope,
    metric: Metric = "levenshtein",
) -> KAnonymityProblem:
    """The problem of ``texts`` (distinct, in any order); each case counts one toward k."""
    of_text = dict(sorted(zip(texts, cases, strict=True)))
    counts, ascending = np.array(list(of_text.values()), np.int64), tuple(of_text)
    return KAnonymityProblem(ascending, counts, counts, k, scope, EditDistances(ascending, metric))


def solved(mechanism: Anonymiser[Any], params: Any, problem: KAnonymityProblem) -> Solution:
    """What it finds in the time that ``params`` allow, from now on."""
    return mechanism.solve(params, problem, params.start_clock())


def random_problem(variants: int, k: int, scope: Scope = "variants") -> KAnonymityProblem:
    """Far too many variants to try everything: sequences that share a little."""
    dice = random.Random(7)
    texts = {"".join(dice.choices("abcdefgh", k=dice.randint(4, 14))) for _ in range(variants)}
    return problem_of(sorted(texts), [dice.choice([1, 1, 1, 2, 5]) for _ in texts], k, scope)


def real_summary(name: str) -> pl.DataFrame:
    """The variant histogram of a real log."""
    path = SHARED / "logs" / f"{name}.xes.gz"
    if not path.is_file():
        pytest.skip(f"shared/logs with the real log {name} is missing beside the repository")
    return VariantCounts().of(read_log(path, keep=lambda attribute: False))


def check_solution(problem: KAnonymityProblem, solution: Solution) -> int:
    """k-anonymous, complete, no cheaper than its bound says; its cost."""
    assignment = solution.assignment
    assert (smallest_class(problem, assignment) or problem.k) >= problem.k
    placed = np.bincount(assignment.source, assignment.cases, len(problem.texts))
    assert np.array_equal(placed, problem.cases)
    cost = edit_cost(problem, assignment)
    assert solution.bound is None or solution.bound <= cost
    return cost


def decided(mechanism: Anonymiser[Any], courses: list[str], **params: Any) -> Decision:
    """What a mechanism decides for a log whose activities are letters."""
    chosen = mechanism.Params.model_validate(params)
    summary = mechanism.step(chosen, Facts()).summary
    assert summary is not None
    return mechanism.decide(chosen, summary.of(log_of(courses)), secret())


def released(mechanism: Anonymiser[Any], courses: list[str], **params: Any) -> Counter[str]:
    """The released variants of a log whose activities are letters, with their cases."""
    decision = decided(mechanism, courses, **params)
    chosen = mechanism.Params.model_validate(params)
    action = mechanism.rewrite(chosen, decision, secret().stream())
    after = MemoryEngine().rewrite(log_of(courses), action)
    return Counter("".join(course) for course in courses_of(after))


class StepClock:
    """A clock that goes on by ``step`` seconds whenever it is looked at."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        """The time, and a step."""
        self.now += self.step
        return self.now
