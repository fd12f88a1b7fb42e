"""The prefix tree: what it counts, keeps and releases, and what it refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.accounting.events import cost
from cloakwork.base.costs import Composed, DiscreteLaplace, Repeated
from cloakwork.base.facts import Facts, Unit
from cloakwork.noise import reproducible
from cloakwork_extras.trees.prefix_tree import PrefixTree
from conftest import runs
from extras.variants.tried import FACTS, PLENTY, Tried

TREE = Tried(PrefixTree())
WHOLE = {("a", "b"): 40, ("a",): 7, ("a", "b", "c"): 3, ("c", "c", "c", "c"): 11}
CUT = {("a", "b", "c", "a"): 50, ("a", "b"): 30, ("b",): 20}
THREE = {("a", "a"): 30, ("b", "a"): 20, ("c", "a"): 10}


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (WHOLE, {}, WHOLE),
        # Fifty cases begin with a, b and end nowhere: what is left below a, b takes them over.
        (CUT, {"length": 2}, {("a", "b"): 80, ("b",): 20}),
        ({("a", "x", "b"): 9, ("x",): 5}, {}, {("a", "b"): 9}),
        (THREE, {"prefixes": 2}, {("a", "a"): 30, ("b", "a"): 20}),
    ],
    ids=["the log comes back", "cases are cut", "undeclared labels", "the most frequent prefixes"],
)
def test_without_noise_to_speak_of_the_log_comes_back(rows, options, expected):
    """What is beyond the length, not declared or too much is left out."""
    found = TREE.released(rows, TREE.offered(**PLENTY, threshold=1, **options))
    assert found.keys() == expected.keys()
    if "prefixes" not in options:
        assert found == expected


def test_no_more_cases_are_released_than_there_can_be():
    facts = FACTS.model_copy(update={"units_at_most": 30})
    params = TREE.offered(facts, **PLENTY, threshold=1)
    assert sum(TREE.released({("a",): 40, ("b",): 20}, params).values()) == 30


def test_noise_on_an_empty_log_ends_and_keeps_to_its_bounds():
    params = TREE.offered(epsilon=0.05, threshold=1, prefixes=20)
    for seed in range(20):
        for variant, cases in TREE.released({}, params, reproducible(seed)).items():
            assert 1 <= len(variant) <= 4
            assert cases >= 1


def test_undeclared_activities_give_no_variant_that_nobody_took():
    rows = {("a", "b"): 400, ("a",): 300, ("q",): 1}
    params = TREE.offered(Facts(longest_case=4), noise="laplace")
    for seed in range(20):
        found = TREE.released(rows, params, reproducible(seed))
        assert found.keys() <= {("a", "b"), ("a",)}


@given(
    st.dictionaries(
        st.lists(st.sampled_from("abcdx"), max_size=6).map(tuple), st.integers(1, 60), max_size=12
    ),
    st.sampled_from([0.1, 8.0]),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(max_examples=runs(30))
def test_any_log_gives_whole_counts_over_declared_activities(rows, epsilon, declared, seed):
    params = TREE.offered(
        FACTS if declared else Facts(longest_case=4), epsilon, prefixes=50, noise="laplace"
    )
    labels = set("abc") if declared else {label for row in rows for label in row}
    for variant, cases in TREE.released(rows, params, reproducible(seed)).items():
        assert cases >= 1
        assert 1 <= len(variant) <= 4
        assert set(variant) <= labels


@pytest.mark.parametrize(
    ("facts", "noise", "split"),
    [
        (FACTS, "gaussian", "uniform"),
        (FACTS, "laplace", "geometric"),
        (Facts(longest_case=11), "gaussian", "geometric"),
        (Facts(unit=Unit(attribute="p", max_cases=3)), "gaussian", "uniform"),
        (Facts(unit=Unit(attribute="p", max_cases=3)), "laplace", "geometric"),
    ],
)
def test_the_cost_is_within_the_budget_and_near_it(facts, noise, split):
    params = TREE.offered(facts, 0.8, 1e-4, noise=noise, split=split)
    spent = cost(TREE.event(params, facts), 1e-4)
    assert 0.79 < spent.epsilon <= 0.8
    assert spent.delta <= 1e-4


def test_every_level_is_charged():
    params = TREE.offered(Facts(alphabet=("a",), longest_case=30), delta=0.0)
    levels = Repeated(times=31, event=DiscreteLaplace(scale=31.0, sensitivity=1))
    assert TREE.event(params) == Composed(events=(levels,))


@pytest.mark.parametrize(
    ("facts", "delta", "options", "words"),
    [
        (Facts(), 0.0, {}, "must be public"),
        (FACTS, 0.0, {"noise": "gaussian"}, "delta above 0"),
        (Facts(), 1e-3, {"threshold": 2}, "give single cases away"),
        (FACTS, 1e-3, {"threshold": 0}, "threshold"),
        (FACTS, 1e-3, {"length": 0}, "length"),
        (FACTS, 1e-3, {"split": "evenly"}, "split"),
    ],
)
def test_refusals_say_why(facts, delta, options, words):
    TREE.refused(facts, delta, options, words)
