"""kanon/optimal: published optima, what it says about itself, that it can be stopped; its program,
its local search and its bounds, against every answer there is on small problems.
"""

import random
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
from cloakwork.log.sequences import EditDistances
from cloakwork.mechanisms.aggregates import CASES, VARIANT, VariantCounts
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.integer_program import KAnonymityProgram, class_matrix
from cloakwork.mechanisms.kanon.local_search import improve_by_neighbourhoods, merge_classes
from cloakwork.mechanisms.kanon.long_tail import certify_near_bound
from cloakwork.mechanisms.kanon.lower_bound import (
    CoverConstraints,
    certify_bound,
    subgradient_ascent,
)
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
    edit_cost,
    problem_from_histogram,
    smallest_class,
)
from cloakwork.noise import secret
from conftest import runs
from contracts.sample_logs import courses_of, log_of
from guarantees.measuring import require
from mechanisms.kanon.problems import random_problem
from properties.oracle import least_cost

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


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@pytest.mark.parametrize("split_cases", [False, True])
def test_an_answer_around_another_opens_and_closes_few_others(
    scope: Scope, split_cases: bool
) -> None:
    """The wider the search, the cheaper the answer; nothing opens or closes beyond it, and 0 leaves
    the same open.
    """
    problem = random_problem(20, 5, scope)
    begin, rows = merge_classes(problem), np.arange(len(problem.texts))
    everywhere = KAnonymityProgram(
        problem,
        class_matrix(problem),
        *np.divmod(np.arange(len(rows) ** 2), len(rows)),
        split_cases=split_cases,
    )
    costs = []
    for radius in (0, 2, 6, 60):
        result = everywhere.solve(60, begin, radius=radius)
        assert result.has_ended
        assert result.assignment is not None
        assert len(np.setxor1d(result.assignment.target, begin.target)) <= radius
        smallest = smallest_class(problem, result.assignment)
        assert smallest is not None
        assert smallest >= 5
        costs.append(edit_cost(problem, result.assignment))
    anywhere = everywhere.solve(60, begin).assignment
    assert anywhere is not None
    assert costs == sorted(costs, reverse=True)
    assert edit_cost(problem, begin) >= costs[0] > costs[-1] == edit_cost(problem, anywhere)


@pytest.mark.parametrize("split_cases", [False, True])
@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_local_search_improves_and_never_breaks(scope: Scope, split_cases: bool) -> None:
    """From the merged answer to a cheaper one; dual prices prove most of its cost, without the
    program.
    """
    problem = random_problem(60, 4, scope)
    start = merge_classes(problem)
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
