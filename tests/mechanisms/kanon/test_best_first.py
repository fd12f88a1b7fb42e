"""BF-PRETSA: its decisions, its improvement, its bars on real logs and the edges of its domain."""

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cloakwork.base import progress
from cloakwork.base.facts import Facts
from cloakwork.errors import MechanismError
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.aggregates import CASES, VariantCounts
from cloakwork.mechanisms.kanon import deadline, whole_variants
from cloakwork.mechanisms.kanon.best_first import BestFirst, BestFirstParams, search_best_first
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Scope,
    edit_cost,
    problem_from_histogram,
    smallest_class,
)
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts
from cloakwork.mechanisms.steps import MapCases
from cloakwork.noise import secret
from contracts.sample_logs import courses_of, log_of

BEST_FIRST = BestFirst()

REAL = Path(__file__).parents[3].parent / "shared" / "logs"

# Distances of the authors' code (prefixes, variants that occur once removed), k = 4, 8, 16, 32, 64;
# None: it did not end.
REFERENCE = {
    "receipt": (30, 94, 208, 224, 447),
    "sepsis": (115, 219, 351, 444, 684),
    "road_traffic_fines": (102, 254, 409, None, None),
}


def released(courses: list[str], k: int, scope: Scope = "variants") -> Counter[str]:
    """The released variants of a log whose activities are letters, with their cases."""
    log, params = log_of(courses), BestFirstParams(k=k, scope=scope)
    decision = BEST_FIRST.decide(params, BEST_FIRST.step(params, Facts()).summary.of(log), secret())
    action = BEST_FIRST.rewrite(params, decision, secret().stream())
    assert isinstance(action, MapCases)
    return Counter("".join(course) for course in courses_of(action.apply(log)))


def greedy_end(texts: dict[str, int], k: int, scope: Scope = "variants") -> dict[str, str]:
    """On which variant the greedy search alone leaves each variant."""
    problem = KAnonymityProblem.of(list(texts), list(texts.values()), k, scope)
    target = search_best_first(MoveCosts.of(problem, "kanon/best-first"))
    return {text: problem.texts[place] for text, place in zip(problem.texts, target, strict=True)}


def real_summary(name: str) -> pl.DataFrame:
    if not (REAL / f"{name}.xes.gz").is_file():
        pytest.skip(f"shared/logs with the real log {name} is missing beside the repository")
    return VariantCounts().of(read_log(REAL / f"{name}.xes.gz", keep=lambda attribute: False))


def test_two_rare_variants_join_before_either_joins_a_frequent_one() -> None:
    """aab and aac are one edit apart and three cases together; the frequent variant is two edits
    away.
    """
    assert greedy_end({"aab": 1, "aac": 2, "bb": 5}, k=3) == {
        "aab": "aac",
        "aac": "aac",
        "bb": "bb",
    }


def test_the_cheaper_of_two_joins_moves() -> None:
    """One case of aab moves, not the two of aac: released, too."""
    assert released(["aab"] + ["aac"] * 2 + ["bb"] * 5, k=3) == Counter(aac=3, bb=5)


def test_cases_that_moved_move_on_together() -> None:
    """a joins ab, and both join abc: the cost counts from where each began."""
    end = greedy_end({"a": 1, "ab": 1, "abcd": 4}, k=3)
    assert set(end.values()) == {"abcd"}


def test_prefixes_need_no_mass_where_an_extension_has_it() -> None:
    """Two cases of ab hide behind abc over prefixes only."""
    assert released(["ab"] * 2 + ["abc"] * 5, k=3, scope="prefixes") == Counter(ab=2, abc=5)
    assert released(["ab"] * 2 + ["abc"] * 5, k=3) == Counter(abc=7)


def test_a_move_can_make_another_prefix_violate() -> None:
    """When ab leaves, a alone is one case short; the search goes on until nothing violates."""
    problem = KAnonymityProblem.of(["a", "ab", "bbb"], [2, 1, 9], 3, "prefixes")
    costs = MoveCosts.of(problem, "kanon/best-first")
    assert costs.is_k_anonymous(search_best_first(costs))


def test_internal_figures_tell_both_distances() -> None:
    """What the greedy search reached, and what the answer costs; nothing is proved."""
    decision = BEST_FIRST.decide(
        BestFirstParams(k=3), VariantCounts().of(log_of(["ab"] * 3 + ["ac"])), secret()
    )
    assert decision.internal["distance"] == decision.internal["greedy_distance"] == 1
    assert "bound" not in decision.internal


def test_too_many_variants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names what takes them."""
    monkeypatch.setattr(whole_variants, "MOST_VARIANTS", 2)
    with pytest.raises(MechanismError, match="of which the log has 3; it takes 2 at most"):
        released(["a", "b", "c"], k=2)


def test_an_interrupt_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes through the greedy search and through the improvement as it came."""
    problem = KAnonymityProblem.of(
        [f"{number:06b}" for number in range(40)], [1] * 40, 5, "variants"
    )
    monkeypatch.setattr(deadline, "SECONDS_BETWEEN_MESSAGES", -1.0)
    for words in ("still below k", "improving an answer"):

        def stop(message: str, words: str = words) -> None:
            if words in message:
                raise KeyboardInterrupt

        with progress.heard_by(stop), pytest.raises(KeyboardInterrupt):
            BEST_FIRST.solve(BestFirstParams(k=5), problem)


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_distances_of_the_reference_are_reached(name: str) -> None:
    """At most those of the authors' code, in every cell that it finished, over prefixes, as it
    counts.
    """
    summary = real_summary(name).filter(pl.col(CASES) > 1)
    for k, reference in zip((4, 8, 16, 32, 64), REFERENCE[name], strict=True):
        problem, _ = problem_from_histogram(summary, k, "prefixes", "levenshtein")
        solution, _ = BEST_FIRST.solve(BestFirstParams(k=k, scope="prefixes"), problem)
        smallest = smallest_class(problem, solution.assignment)
        assert smallest is not None
        assert smallest >= k
        assert edit_cost(problem, solution.assignment) <= (reference or 10**9)


def test_its_own_cost_is_the_judges() -> None:
    """Of any answer."""
    problem = KAnonymityProblem.of(["ab", "abc", "cc", "b"], [1, 2, 3, 4], 2, "variants")
    costs = MoveCosts.of(problem, "kanon/best-first")
    for target in (np.array([0, 0, 0, 0]), np.array([3, 2, 1, 0])):
        assert costs.total_cost(target) == edit_cost(
            problem, Assignment.of_targets(problem, target)
        )
