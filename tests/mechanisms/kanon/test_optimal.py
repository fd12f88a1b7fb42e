"""kanon/optimal: published optima, what it says about itself, that it can be stopped; its program,
its local search and its bounds, against every answer there is on small problems.
"""

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache

import highspy
import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.progress import heard_by
from cloakwork.engines.memory import MemoryEngine
from cloakwork.guarantees import KAnonymity
from cloakwork.log.variants import EditDistances
from cloakwork.mechanisms.aggregates import CASES, VARIANT
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon.blocks import merge_in_blocks, nearest_distances
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.integer_program import (
    KAnonymityProgram,
    class_matrix,
    improve_by_neighbourhoods,
)
from cloakwork.mechanisms.kanon.lower_bound import (
    CoverConstraints,
    bound_from_nearest,
    certify_bound,
    subgradient_ascent,
)
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Scope,
    edit_cost,
    problem_from_histogram,
    smallest_class,
)
from cloakwork.noise import secret
from conftest import in_long_form, runs
from contracts.sample_logs import courses_of, log_of
from guarantees.measuring import require
from mechanisms.kanon.problems import (
    check_solution,
    problem_of,
    random_problem,
    real_summary,
    solved,
)
from properties.oracle import least_cost

OPTIMAL = Optimal()
SCOPES = pytest.mark.parametrize("scope", ["variants", "prefixes"])


@pytest.mark.parametrize(
    ("scope", "split_cases", "optima"),
    [
        (
            "prefixes",
            False,
            {8: 58, **dict(in_long_form((4, 26), (16, 118), (32, 204), (64, 346)))},
        ),
        (
            "variants",
            False,
            {8: 70, **dict(in_long_form((4, 30), (16, 135), (32, 225), (64, 358)))},
        ),
        ("variants", True, {8: 63, **dict(in_long_form((4, 30), (16, 134), (32, 224), (64, 356)))}),
    ],
)
def test_receipt_without_its_unique_variants(
    scope: Scope, split_cases: bool, optima: dict[int, int]
) -> None:
    """The least cost for each k."""
    summary = real_summary("receipt").filter(pl.col(CASES) > 1, pl.col(VARIANT).list.len() > 0)
    for k, least in optima.items():
        problem, _ = problem_from_histogram(summary, k, scope, "levenshtein")
        params = OptimalParams(k=k, scope=scope, split_cases=split_cases, gap=0)
        solution = solved(OPTIMAL, params, problem)
        assert solution.stop_reason == "proved optimal"
        assert check_solution(problem, solution) == least


def test_an_open_variant_may_send_its_own_cases_elsewhere() -> None:
    """The six around mm gather there, which costs 6; mm's own case is the sixth that mdm needs: 1
    more, and no less will do.
    """
    problem = problem_of(["mm", "am", "mb", "mmc", "mdm"], [1, 2, 2, 2, 5], 6, "variants")
    solution = solved(OPTIMAL, OptimalParams(k=6), problem)
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


@SCOPES
@pytest.mark.parametrize("split_cases", [False, True])
def test_short_of_time_it_says_how_far_it_came(
    scope: Scope, split_cases: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is k-anonymous, the bound no more than its cost; whoever listens hears both."""
    monkeypatch.setattr("cloakwork.base.progress.SILENT_FOR", -1.0)
    problem, heard = random_problem(120, 8, scope), list[str]()
    params = OptimalParams(k=8, scope=scope, split_cases=split_cases, seconds=0.3, gap=0)
    with heard_by(heard.append):
        solution = solved(OPTIMAL, params, problem)
    assert solution.bound is not None
    assert solution.bound < check_solution(problem, solution)
    assert solution.stop_reason.startswith("stopped at 0.3 s, within ")
    assert solution.figures["bound_in_whole_numbers"] <= solution.bound  # type: ignore[operator]
    assert re.fullmatch(r"optimal: [\d,]+ edits, at most .*% above the least possible", heard[-1])


def test_near_enough_is_enough() -> None:
    """With a generous gap it stops early and says so."""
    solution = solved(OPTIMAL, OptimalParams(k=4, gap=0.5), random_problem(60, 4))
    assert solution.stop_reason.startswith("near enough: within ")


@pytest.mark.parametrize("busy", ["seeking a bound", "in HiGHS"])
def test_ctrl_c_goes_through(busy: str) -> None:
    """Within seconds, of the two minutes that it may take."""
    problem = random_problem(400 if busy == "seeking a bound" else 120, 16)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            if busy == "in HiGHS":
                program = program_over_everything(problem, split_cases=False)
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                program.solve(120)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            solved(OPTIMAL, OptimalParams(k=16, seconds=120), problem)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # HiGHS solves one program at a time in a process: it must have stopped, too.
    while highspy.Highs().is_solver_running():
        time.sleep(0.05)
        assert time.monotonic() - begun < 60
    assert time.monotonic() - begun < 60


def test_the_solver_prints_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """HiGHS 1.16 names itself on standard output when its callbacks are enabled, unless output is
    off by then: it stood before the JSON that ``apply --json`` prints. With earlier ones as well.
    """
    enable = highspy.Highs.enableCallbacks

    def enable_as_later_versions_do(solver: highspy.Highs) -> None:
        if solver.getOptionValue("output_flag")[1]:
            print("Running HiGHS")
        enable(solver)

    monkeypatch.setattr(highspy.Highs, "enableCallbacks", enable_as_later_versions_do)
    found = program_over_everything(random_problem(6, 2), split_cases=True).solve(10)
    assert found.has_ended
    assert capfd.readouterr().out == ""


def program_over_everything(problem: KAnonymityProblem, *, split_cases: bool) -> KAnonymityProgram:
    """The program in which any variant may become any other."""
    pairs = np.divmod(np.arange(len(problem.texts) ** 2), len(problem.texts))
    return KAnonymityProgram(problem, class_matrix(problem), *pairs, split_cases=split_cases)


@pytest.mark.parametrize(("scope", "split_cases"), [("variants", True), ("prefixes", False)])
def test_local_search_improves_and_never_breaks(scope: Scope, split_cases: bool) -> None:
    """From a merged answer to a cheaper one; dual prices prove most of its cost, without the
    program.
    """
    problem = random_problem(30, 4, scope)
    distance = problem.distances.matrix[None].astype(np.int64)
    merged = merge_in_blocks(distance, problem.cases[None], problem.mass[None], problem.k)
    start = Assignment.of_targets(problem, merged[0])
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    prices = problem.cases * 1.0
    certificate = subgradient_ascent(
        problem, constraints, prices, edit_cost(problem, start), Deadline.after(60)
    )
    told: list[int] = []
    found = improve_by_neighbourhoods(start, certificate, Deadline.after(60), told.append)
    assert edit_cost(problem, found) < edit_cost(problem, start)
    assert told == sorted(told, reverse=True)
    assert told[-1] == edit_cost(problem, found)
    assert (smallest_class(problem, found) or 0) >= 4
    assert np.array_equal(np.bincount(found.source, found.cases, len(problem.texts)), problem.cases)
    assert 0.8 * edit_cost(problem, found) < certificate.value <= edit_cost(problem, found)


INSTANCES = runs(16)
KINDS = pytest.mark.parametrize("kind", ["together", "split", "units"])


@cache
def small_problem(seed: int, scope: Scope, kind: str) -> tuple[KAnonymityProblem, int | None]:
    """A few short variants over two or three activities, many of which begin with one another; and
    the least cost, found by trying everything.
    """
    dice = random.Random(seed)
    alphabet = "abc"[: dice.randint(2, 3)]
    drawn = {
        "".join(dice.choices(alphabet, k=dice.randint(0, 4))) for _ in range(dice.randint(1, 5))
    }
    texts = tuple(sorted(drawn))
    cases = np.array([dice.randint(1, 3 if kind == "split" else 5) for _ in texts], np.int64)
    mass = cases
    if kind == "units":
        mass = np.array([dice.randint(0, count) for count in cases], np.int64)
    k = dice.randint(2, 5)
    least = least_cost(texts, cases.tolist(), mass.tolist(), k, scope, split_cases=kind == "split")
    return KAnonymityProblem(texts, cases, mass, k, scope, EditDistances(texts)), least


def feasible_problems(scope: Scope, kind: str) -> Iterator[tuple[KAnonymityProblem, int]]:
    """Those that have an answer: more than half of them."""
    found = [small_problem(seed, scope, kind) for seed in range(INSTANCES)]
    feasible = [(problem, least) for problem, least in found if problem.is_feasible]
    assert len(feasible) > INSTANCES / 2
    for problem, least in feasible:
        assert least is not None
        yield problem, least
    if scope == "variants":
        assert all(least is None for problem, least in found if not problem.is_feasible)


@SCOPES
@KINDS
def test_optimal_is_what_trying_everything_finds(scope: Scope, kind: str) -> None:
    """Exactly the least cost, proved, and never below what dual prices alone prove."""
    for problem, least in feasible_problems(scope, kind):
        params = OptimalParams(k=problem.k, scope=scope, split_cases=kind == "split")
        solution = solved(OPTIMAL, params, problem)
        assert least == edit_cost(problem, solution.assignment) == solution.bound
        assert solution.stop_reason == "proved optimal"
        assert (smallest_class(problem, solution.assignment) or problem.k) >= problem.k
        placed = np.bincount(solution.assignment.source, solution.assignment.cases)
        assert np.array_equal(placed, problem.cases)


@SCOPES
@KINDS
def test_bounds_are_never_above_the_least_cost(scope: Scope, kind: str) -> None:
    """One from nearest variants is above 0 wherever much is to be moved. One of any dual prices,
    however bad they are, is none too high, and leaves out no pair that a least answer needs.
    """
    above_zero, split_cases = 0, kind == "split"
    for seed, (problem, least) in enumerate(feasible_problems(scope, kind)):
        constraints = CoverConstraints.of(problem, split_cases=split_cases)
        nearest, _ = nearest_distances(problem, seed % 2, Deadline())
        bound = bound_from_nearest(problem, constraints, nearest, Deadline())
        assert bound <= least
        above_zero += bound > 0
        luck = np.random.default_rng(seed)
        assignment_duals, mass_duals = luck.uniform(0, 9, (2, len(problem.texts)))
        proof = certify_bound(
            problem,
            constraints,
            assignment_duals * problem.cases,
            mass_duals,
        )
        assert proof.value <= least
        columns = proof.columns_below(least + 1)
        kept = KAnonymityProgram(
            problem, class_matrix(problem), *columns, split_cases=split_cases
        ).solve(10)
        assert kept.assignment is not None
        assert least == edit_cost(problem, kept.assignment)
    assert above_zero > INSTANCES / 5
