"""kanon/optimal: published optima, what it says about itself, and that it can be stopped."""

import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.progress import heard_by
from cloakwork.engines.memory import MemoryEngine
from cloakwork.guarantees import KAnonymity
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.aggregates import CASES, VARIANT, VariantCounts
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
    edit_cost,
    problem_from_histogram,
    smallest_class,
)
from cloakwork.noise import secret
from contracts.sample_logs import courses_of, log_of
from guarantees.measuring import require
from mechanisms.kanon.problems import random_problem

OPTIMAL = Optimal()

ROOT = Path(__file__).parents[3]

REAL = next(
    (
        folder
        for folder in (ROOT.parent / "shared" / "logs", ROOT / "shared" / "logs")
        if folder.is_dir()
    ),
    None,
)


@pytest.mark.parametrize(
    ("scope", "split_cases", "optima"),
    [
        ("prefixes", False, (26, 58, 118, 204, 346)),
        ("variants", False, (30, 70, 135, 225, 358)),
        ("variants", True, (30, 63, 134, 224, 356)),
    ],
)
def test_receipt_without_its_unique_variants(
    scope: Scope, split_cases: bool, optima: tuple[int, ...]
) -> None:
    """The least costs for k = 4, 8, 16, 32, 64."""
    if REAL is None or not (REAL / "receipt.xes.gz").is_file():
        pytest.skip("the folder shared/logs with the real logs is missing beside the repository")
    log = read_log(REAL / "receipt.xes.gz", keep=lambda attribute: False)
    summary = VariantCounts().of(log).filter(pl.col(CASES) > 1, pl.col(VARIANT).list.len() > 0)
    found = []
    for k in (4, 8, 16, 32, 64):
        problem, _ = problem_from_histogram(summary, k, scope, "levenshtein")
        solution, _ = OPTIMAL.solve(
            OptimalParams(k=k, scope=scope, split_cases=split_cases), problem
        )
        assert solution.stop_reason == "proved optimal"
        assert (smallest_class(problem, solution.assignment) or k) >= k
        found.append(edit_cost(problem, solution.assignment))
    assert optima == tuple(found)


def test_an_open_variant_may_send_its_own_cases_elsewhere() -> None:
    """The six around mm gather there, which costs 6; mm's own case is the sixth that mdm needs: 1
    more, and no less will do.
    """
    problem = KAnonymityProblem.of(["mm", "am", "mb", "mmc", "mdm"], [1, 2, 2, 2, 5], 6, "variants")
    solution, _ = OPTIMAL.solve(OptimalParams(k=6), problem)
    target = {
        problem.texts[row]: problem.texts[solution.assignment.target[row]] for row in range(5)
    }
    assert target == {"mm": "mdm", "am": "mm", "mb": "mm", "mmc": "mm", "mdm": "mdm"}
    assert solution.bound == edit_cost(problem, solution.assignment) == 7


@pytest.mark.parametrize("split_cases", [False, True])
def test_split_cases_are_released(split_cases: bool) -> None:
    """One of five ab helps the three ac, where cases may part; else all three move."""
    log = log_of(["ab"] * 5 + ["ac"] * 3)
    params = OptimalParams(k=4, split_cases=split_cases)
    decision = OPTIMAL.decide(params, OPTIMAL.step(params, Facts()).summary.of(log), secret())
    action = OPTIMAL.rewrite(params, decision, secret().stream())
    released = MemoryEngine().rewrite(log, action)
    require(released, KAnonymity(kind="k-anonymity", k=4))
    expected = Counter(ab=4, ac=4) if split_cases else Counter(ab=8)
    assert expected == Counter("".join(course) for course in courses_of(released))
    assert decision.internal["distance"] == (1 if split_cases else 3)
    assert decision.internal["gap"] == 0


def test_cases_of_units_do_not_part() -> None:
    """Which unit would be where is not decided."""
    goal = KAnonymity(kind="k-anonymity", k=4, count="units")
    facts = Facts(unit=Unit(attribute="case:P"))
    answer = OPTIMAL.offer(goal, facts, {"split_cases": True})
    assert isinstance(answer, Refusal)
    assert answer.kind == "misconfigured"
    assert "only where k counts cases" in answer.reason
    assert isinstance(OPTIMAL.offer(goal, facts, {}), Offer)


@pytest.mark.parametrize(
    "options", [{"seconds": 0}, {"gap": -0.1}, {"split_cases": "perhaps"}, {"second": 3}]
)
def test_faulty_options_are_refused(options: dict[str, int | float | str]) -> None:
    """In one line."""
    goal = KAnonymity(kind="k-anonymity", k=4)
    answer = OPTIMAL.offer(goal, Facts(), options)  # type: ignore[arg-type]
    assert isinstance(answer, Refusal)
    assert answer.kind == "misconfigured"
    assert "\n" not in answer.reason


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("split_cases", [False, True])
def test_short_of_time_it_says_how_far_it_came(scope: Scope, split_cases: bool) -> None:
    """The answer is k-anonymous, the bound no more than its cost."""
    problem = random_problem(200, 8, scope)
    begun = time.monotonic()
    solution, figures = OPTIMAL.solve(
        OptimalParams(k=8, scope=scope, split_cases=split_cases, seconds=0.3), problem
    )
    assert time.monotonic() - begun < 60
    assert solution.bound is not None
    assert 0 <= solution.bound < edit_cost(problem, solution.assignment)
    assert solution.stop_reason.startswith("stopped at 0.3 s, within ")
    assert (smallest_class(problem, solution.assignment) or 0) >= 8
    assert figures["bound_in_whole_numbers"] <= solution.bound  # type: ignore[operator]


def test_near_enough_is_enough() -> None:
    """With a generous gap it stops early and says so."""
    problem = random_problem(120, 4)
    solution, _ = OPTIMAL.solve(OptimalParams(k=4, gap=0.5), problem)
    assert solution.stop_reason.startswith("near enough: within ")


def test_the_same_log_gives_the_same_answer() -> None:
    """Where the search ends by itself."""
    problem = random_problem(40, 4)
    one, other = (OPTIMAL.solve(OptimalParams(k=4), problem)[0] for _ in range(2))
    assert one.stop_reason == other.stop_reason == "proved optimal"
    assert np.array_equal(one.assignment.target, other.assignment.target)


@pytest.mark.parametrize("after", [0.3, 4.0])
def test_ctrl_c_goes_through(after: float) -> None:
    """While it seeks a bound, and while HiGHS works."""
    problem = random_problem(400, 16)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after)
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            OPTIMAL.solve(OptimalParams(k=16, seconds=120), problem)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begun < 60


def test_it_tells_how_far_it_is() -> None:
    """Cost and gap, in plain words."""
    heard: list[str] = []
    with heard_by(heard.append):
        OPTIMAL.solve(OptimalParams(k=8, seconds=3), random_problem(200, 8))
    assert heard[-1].startswith("optimal: ")
    assert heard[-1].endswith("% above the least possible")
