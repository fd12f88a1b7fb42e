"""k over the output, for any log, k and scope, by the independent checker."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from cloakwork.errors import MechanismError
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.log.sequences import EditDistances
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.kanon.pretsa import Pretsa, PretsaParams, Scope
from cloakwork.mechanisms.steps import MapCases
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import assert_is_a_log
from conftest import runs
from contracts.sample_logs import RESOURCE, courses_of, log_of
from guarantees.measuring import require

PRETSA = Pretsa()
COURSES = st.lists(st.text("abcd", max_size=6), max_size=40)


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@given(courses=COURSES, k=st.integers(2, 8))
def test_pretsa_releases_k_anonymous_logs_of_known_variants(
    courses: list[str], k: int, scope: Scope
) -> None:
    """Every class holds k; every variant was seen; no case is lost; what is kept keeps its row,
    what is new has no time.
    """
    log, params = log_of(courses), PretsaParams(k=k, scope=scope)
    summary = VariantCounts().of(log)
    if 0 < len(courses) < k:
        with pytest.raises(MechanismError):
            PRETSA.decide(params, summary, secret())
        return
    decision = PRETSA.decide(params, summary, secret())
    action = PRETSA.rewrite(params, decision, secret().stream())
    assert isinstance(action, MapCases)
    released = action.apply(log)

    require(released, KAnonymity(kind="k-anonymity", k=k, scope=scope))
    assert_is_a_log(released)
    assert set(courses_of(released)) <= set(courses_of(log))
    assert log.cases.equals(released.cases)
    assert released.events[TIMESTAMP].is_null().equals(released.events[RESOURCE].is_null())
    kept = released.events.drop_nulls()
    assert kept.join(log.events, on=log.events.columns, how="semi").height == kept.height
    assert released.events.null_count()[RESOURCE].item() <= decision.internal["distance"]
    assert np.array_equal(kept[RESOURCE].unique(maintain_order=True), kept[RESOURCE])


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
    table = PRETSA.decide(
        PretsaParams(k=k, scope=scope), VariantCounts().of(log_of(courses)), secret()
    ).table
    assert plain_pretsa(courses, k, scope) == {
        "".join(source): "".join(target) for source, target, _ in table.rows()
    }


@given(texts=st.sets(st.text("abcd", max_size=9), min_size=2, max_size=60), chosen=st.data())
def test_nearest_sequences_are_the_nearest(texts: set[str], chosen: st.DataObject) -> None:
    """The lower bound leaves out no sequence that is as near."""
    every = tuple(sorted(texts))
    among = sorted(chosen.draw(st.sets(st.sampled_from(range(len(every))), min_size=1)))
    distances = {other: Levenshtein.distance(every[0], every[other]) for other in among}
    nearest, distance = EditDistances(every).nearest(0, np.array(among))
    assert distance == min(distances.values())
    assert nearest.tolist() == [other for other in among if distances[other] == distance]
