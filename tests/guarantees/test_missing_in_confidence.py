"""A missing value counts in the denominator of C; a policy may declare that it is sensitive."""

from typing import Any

import pytest

from cloakwork.base.facts import Facts
from cloakwork.errors import GuaranteeBroken, MechanismError
from cloakwork.guarantees import ConfidenceBound
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.kanon.tlkc import Tlkc
from cloakwork.testing import run_mechanism
from contracts.sample_logs import courses_of, log_of
from contracts.value_logs import with_values
from guarantees.measuring import require, worst_knowledge

LOG = with_values(
    log_of([["a", "b"]] * 10 + [["a"]] * 30),
    "case:hiv",
    ["yes"] + [None] * 9 + ["yes", None, "no"] * 10,
)


def bound(**more: Any) -> ConfidenceBound:
    """At most 60 % of those who match one event hold one value."""
    return ConfidenceBound(kind="confidence-bound", L=1, K=2, C=0.6, attribute="case:hiv", **more)


def released(**more: Any) -> EventLog:
    """What suppression makes of the log."""
    return run_mechanism("kanon/tlkc", LOG, L=1, K=2, C=0.6, attribute="case:hiv", **more)


def test_missing_counts_in_the_denominator_only() -> None:
    """Nine of ten lack a value, and one in ten holds one: nothing has to go."""
    found = worst_knowledge(LOG, bound())
    assert found is not None
    assert found.confidence == 11 / 40
    assert sorted(courses_of(released())) == sorted(courses_of(LOG))


def test_missing_is_bounded_where_it_is_sensitive() -> None:
    """Whoever knows b knows with 90 % confidence that there is no value, until b goes."""
    goal = bound(missing="sensitive")
    found = worst_knowledge(LOG, goal)
    assert found is not None
    assert found.confidence == 0.9
    with pytest.raises(GuaranteeBroken, match=r"confidence in a value is 90\.0%"):
        require(LOG, goal)
    result = released(missing="sensitive")
    assert {*courses_of(result)} == {("a",)}
    require(result, goal)


def test_a_text_that_looks_like_nothing_is_a_value() -> None:
    """An empty text is another value than none."""
    log = with_values(log_of([["a"]] * 4), "case:hiv", ["", "", None, None])
    kept = run_mechanism(
        "kanon/tlkc", log, L=1, K=2, C=0.5, attribute="case:hiv", missing="sensitive"
    )
    assert kept.cases.height == 4


@pytest.mark.parametrize("attribute", [None, "hiv"])
def test_missing_values_need_an_attribute_of_cases(attribute: str | None) -> None:
    """Without one there is nothing to bound; events left out would take values with them."""
    goal = ConfidenceBound(
        kind="confidence-bound",
        L=1,
        K=2,
        C=0.6 if attribute else 1.0,
        attribute=attribute,
        missing="sensitive",
    )
    answer = Tlkc().offer(goal, Facts(), {})
    assert isinstance(answer, Refusal)
    assert answer.kind == "misconfigured"
    with pytest.raises(MechanismError, match="missing: sensitive"):
        raise MechanismError(Tlkc.name, answer.reason)


def test_values_are_equal_by_what_they_are() -> None:
    """-0.0 and 0.0 are one value with two spellings: as two, each is held by half of all."""
    log = with_values(log_of([["a"]] * 4), "case:hiv", [0.0, -0.0, 0.0, -0.0])
    found = worst_knowledge(log, bound())
    assert found is not None
    assert found.confidence == 1
    with pytest.raises(MechanismError, match="hold one value"):
        run_mechanism("kanon/tlkc", log, L=1, K=2, C=0.6, attribute="case:hiv")
