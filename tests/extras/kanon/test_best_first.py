"""BF-PRETSA: its decisions, its improvement, its bars on real logs and the edges of its domain."""

from collections import Counter

import polars as pl
import pytest

from cloakwork.base import progress
from cloakwork.errors import MechanismError
from cloakwork.mechanisms.aggregates import CASES
from cloakwork.mechanisms.kanon import whole_variants
from cloakwork.mechanisms.kanon.problem import problem_from_histogram
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts
from cloakwork_extras.a_star import is_k_anonymous
from cloakwork_extras.best_first import BestFirst, BestFirstParams, search_best_first
from conftest import in_long_form
from mechanisms.kanon.problems import (
    check_solution,
    decided,
    problem_of,
    real_summary,
    released,
    solved,
)

BEST_FIRST = BestFirst()

# Distances of the authors' code (prefixes, variants that occur once removed), k = 4, 8, 16, 32, 64;
# None: it did not end.
REFERENCE = {
    "receipt": (30, 94, 208, 224, 447),
    **dict(
        in_long_form(
            ("sepsis", (115, 219, 351, 444, 684)),
            ("road_traffic_fines", (102, 254, 409, None, None)),
        )
    ),
}


def greedy_end(texts: dict[str, int], k: int) -> dict[str, str]:
    """On which variant the greedy search alone leaves each variant."""
    problem = problem_of(list(texts), list(texts.values()), k, "variants")
    target = search_best_first(MoveCosts.of(problem, "kanon/best-first"))
    return {text: problem.texts[place] for text, place in zip(problem.texts, target, strict=True)}


def test_two_rare_variants_join_before_either_joins_a_frequent_one() -> None:
    """aab and aac are one edit apart and three cases together; the frequent variant is two edits
    away. The cheaper of the two moves: one case of aab, not two of aac.
    """
    joined = {"aab": "aac", "aac": "aac", "bb": "bb"}
    assert greedy_end({"aab": 1, "aac": 2, "bb": 5}, k=3) == joined
    courses = ["aab"] + ["aac"] * 2 + ["bb"] * 5
    assert released(BEST_FIRST, courses, k=3) == Counter(aac=3, bb=5)


def test_cases_that_moved_move_on_together() -> None:
    """a joins ab, and both join abc: the cost counts from where each began."""
    end = greedy_end({"a": 1, "ab": 1, "abcd": 4}, k=3)
    assert set(end.values()) == {"abcd"}


def test_prefixes_need_no_mass_where_an_extension_has_it() -> None:
    """Two cases of ab hide behind abc over prefixes only."""
    courses = ["ab"] * 2 + ["abc"] * 5
    assert released(BEST_FIRST, courses, k=3, scope="prefixes") == Counter(ab=2, abc=5)
    assert released(BEST_FIRST, courses, k=3) == Counter(abc=7)


def test_a_move_can_make_another_prefix_violate() -> None:
    """When ab leaves, a alone is one case short; the search goes on until nothing violates."""
    problem = problem_of(["a", "ab", "bbb"], [2, 1, 9], 3, "prefixes")
    costs = MoveCosts.of(problem, "kanon/best-first")
    assert is_k_anonymous(costs, search_best_first(costs))


def test_internal_figures_tell_both_distances() -> None:
    """What the greedy search reached, and what the answer costs; nothing is proved."""
    figures = decided(BEST_FIRST, ["ab"] * 3 + ["ac"], k=3).internal
    assert figures["distance"] == figures["greedy_distance"] == 1
    assert "bound" not in figures


def test_too_many_variants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names what takes them."""
    monkeypatch.setattr(whole_variants, "MOST_VARIANTS", 2)
    with pytest.raises(MechanismError, match="of which the log has 3; it takes 2 at most"):
        released(BEST_FIRST, ["a", "b", "c"], k=2)


@pytest.mark.parametrize("words", ["still below k", "improving an answer"])
def test_an_interrupt_is_not_held_up(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """It passes through the greedy search and through the improvement as it came."""
    problem = problem_of([f"{number:06b}" for number in range(40)], [1] * 40, 5, "variants")

    def stop(message: str) -> None:
        if words in message:
            raise KeyboardInterrupt

    monkeypatch.setattr("cloakwork.base.progress.SILENT_FOR", -1.0)
    with progress.heard_by(stop), pytest.raises(KeyboardInterrupt):
        solved(BEST_FIRST, BestFirstParams(k=5), problem)


@pytest.mark.parametrize("name", REFERENCE)
def test_distances_of_the_reference_are_reached(name: str) -> None:
    """At most those of the authors' code, in every cell that it finished, over prefixes, as it
    counts.
    """
    summary = real_summary(name).filter(pl.col(CASES) > 1)
    for k, reference in zip((4, 8, 16, 32, 64), REFERENCE[name], strict=True):
        problem, _ = problem_from_histogram(summary, k, "prefixes", "levenshtein")
        solution = solved(BEST_FIRST, BestFirstParams(k=k, scope="prefixes"), problem)
        assert check_solution(problem, solution) <= (reference or 10**9)
