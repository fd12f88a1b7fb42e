"""PRETSA: its decisions, its offers and the edges of its domain."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.guarantees import DifferentialPrivacy, KAnonymity
from cloakwork.log.variants import encode_sequences
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork_extras.pretsa import Pretsa, PretsaParams, Scope
from conftest import runs
from mechanisms.kanon.problems import decided, released

PRETSA = Pretsa()


def test_a_rare_branch_moves_to_the_most_similar_variant() -> None:
    """abx is one edit away from abc, two from ad."""
    assert Counter(abc=4, ad=3) == released(PRETSA, ["abc"] * 3 + ["abx"] + ["ad"] * 3, k=3)


def test_ties_go_to_the_most_frequent_then_to_the_first() -> None:
    """ax is one edit away from all."""
    assert Counter(ab=3, ac=5) == released(PRETSA, ["ab"] * 3 + ["ac"] * 4 + ["ax"], k=3)
    assert Counter(ab=4, ac=3) == released(PRETSA, ["ab"] * 3 + ["ac"] * 3 + ["ax"], k=3)


def test_a_variant_that_is_a_prefix_of_another_counts_for_itself_only_over_variants() -> None:
    """Two cases of ab hide behind abc as a prefix, not as a variant."""
    courses = ["ab"] * 2 + ["abc"] * 5
    assert Counter(ab=2, abc=5) == released(PRETSA, courses, k=3, scope="prefixes")
    assert Counter(abc=7) == released(PRETSA, courses, k=3, scope="variants")


def test_a_cut_can_make_an_ancestor_violate() -> None:
    """b holds 3 cases until two of them move to acccc; what is left of b is then cut as well."""
    courses = ["bx", "bcccc", "bcccc"] + ["acccc"] * 3
    for scope in ("variants", "prefixes"):
        assert Counter(acccc=6) == released(PRETSA, courses, k=3, scope=scope)


def test_distances_count_from_the_original_variant() -> None:
    """aaab moves to baab and from there to ccaab: the figure is its distance to where it ends."""
    decision = decided(PRETSA, ["aaab", "baab", "baab"] + ["ccaab"] * 4, k=4)
    assert decision.internal["distance"] == 2 + 2 * 2


def test_internal_figures() -> None:
    """What the internal report shows."""
    figures = decided(PRETSA, ["abc"] * 3 + ["abx"] + ["ad"] * 3, k=3).internal
    assert figures == {
        "distance": 1,
        "cases": 7,
        "cases_moved": 1,
        "variants_before": 3,
        "variants_after": 2,
        "k_reached": 3,
        "stopped": "the greedy walk ended",
    }


def test_a_rare_case_may_lose_all_its_events() -> None:
    """The empty variant is a target like any other."""
    assert Counter({"": 5}) == released(PRETSA, [""] * 4 + ["a"], k=3)


def test_long_cases() -> None:
    """Depth is no recursion."""
    courses = ["a" * 5000] * 3 + ["a" * 4999 + "b"]
    assert Counter({"a" * 5000: 4}) == released(PRETSA, courses, k=2)


def test_many_labels() -> None:
    """More than 55,296 activities: distinct characters in the order of labels, no surrogate among
    them.
    """
    labels = [f"{number:06d}" for number in range(60_000)]
    text = encode_sequences(pl.Series([labels, labels[:1]], dtype=pl.List(pl.String))).texts[0]
    assert sorted(set(text)) == list(text)
    assert len(text.encode()) > len(labels)


def test_offers_k_anonymity_over_the_control_flow() -> None:
    """k and scope come from the goal."""
    answer = PRETSA.offer(KAnonymity(kind="k-anonymity", k=7, scope="prefixes"), Facts(), {})
    assert isinstance(answer, Offer)
    assert PretsaParams(k=7, scope="prefixes") == answer.params


@pytest.mark.parametrize(
    ("goal", "facts", "kind", "reason"),
    [
        (KAnonymity(kind="k-anonymity", k=7, over=("Age",)), Facts(), "never", "does not cover"),
        (
            DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=(TIMESTAMPS,)),
            Facts(),
            "never",
            "it cannot give differential privacy",
        ),
    ],
)
def test_refusals_say_why(goal: KAnonymity, facts: Facts, kind: str, reason: str) -> None:
    """In plain words."""
    answer = PRETSA.offer(goal, facts, {})
    assert isinstance(answer, Refusal)
    assert kind == answer.kind
    assert reason in answer.reason


def test_units_are_counted_where_the_goal_says_so() -> None:
    """By the attribute that the policy names as the unit."""
    answer = PRETSA.offer(
        KAnonymity(kind="k-anonymity", k=7, count="units"), Facts(unit=Unit(attribute="case:P")), {}
    )
    assert isinstance(answer, Offer)
    assert answer.params.unit == "case:P"
    assert {CONTROL_FLOW, "case:P"} == PRETSA.step(answer.params, Facts()).lineage.reads


def plain_pretsa(courses: list[str], k: int, scope: Scope) -> dict[str, str]:
    """The algorithm as it is told, with no thought of speed: which variant each variant of
    ``courses`` ends on.
    """
    size = Counter(courses)
    target = {variant: variant for variant in size}

    def held() -> Counter[str]:
        cases: Counter[str] = Counter()
        for variant in sorted(target):
            cases[target[variant]] += size[variant]
        return cases

    while True:
        nodes: Counter[str] = Counter()
        for variant, cases in held().items():
            sequence = variant + "\0" * (scope == "variants")
            for length in range(1, len(sequence) + 1):
                nodes[sequence[:length]] += cases
        violating = sorted(node for node, cases in nodes.items() if cases < k)
        if not violating:
            return target
        movers = sorted(
            variant for variant in target if (target[variant] + "\0").startswith(violating[0])
        )
        for mover in movers:
            del target[mover]
        for mover in movers:
            there = held()
            target[mover] = min(
                there, key=lambda other: (Levenshtein.distance(mover, other), -there[other], other)
            )


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@settings(max_examples=runs(40))
@given(courses=st.lists(st.text("abcd", max_size=5), max_size=25), k=st.integers(2, 8))
def test_pretsa_decides_as_the_plain_algorithm_does(
    courses: list[str], k: int, scope: Scope
) -> None:
    """Every variant ends on the same target."""
    if 0 < len(courses) < k:
        return
    table = decided(PRETSA, courses, k=k, scope=scope).table
    assert plain_pretsa(courses, k, scope) == {
        "".join(source): "".join(target) for source, target, _ in table.rows()
    }
