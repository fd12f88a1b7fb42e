"""Which word of k-anonymity is the stricter one, by the checker that judges releases."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import Unit
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.diff import diff
from guarantees.measuring import smallest_group

POLICY = """apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: p, version: 1.0.0, owner: a@b.c, purpose: Compares two scopes, dataset: d}}
spec:
  attributes: {{"concept:name": {{role: control-flow}}, "*": {{treatment: drop}}}}
  guarantees: [{{kind: k-anonymity, k: 10, over: [control-flow], {option}}}]
"""


def log_of(cases: list[tuple[str, str]]) -> EventLog:
    """A case for each pair: its activities, a letter each, and its owner."""
    rows = [
        {"case:concept:name": str(i), "case:owner": owner, "concept:name": activity}
        for i, (activities, owner) in enumerate(cases)
        for activity in activities
    ]
    return EventLog.from_polars(pl.DataFrame(rows))


def group(log: EventLog, scope: str, count: str) -> int:
    """The smallest group of a log."""
    goal = KAnonymity.model_validate(
        {"kind": "k-anonymity", "k": 2, "scope": scope, "count": count}
    )
    smallest = smallest_group(log, goal, Unit(attribute="case:owner"))
    assert smallest is not None
    return smallest


@given(
    st.lists(
        st.tuples(st.text("ab", min_size=1, max_size=4), st.sampled_from("xyz")),
        min_size=1,
        max_size=12,
    )
)
def test_who_shares_a_sequence_shares_its_beginnings(cases: list[tuple[str, str]]) -> None:
    """Whatever k holds over variants holds over prefixes; and over cases where it does over
    units.
    """
    log = log_of(cases)
    for count in ("cases", "units"):
        assert group(log, "prefixes", count) >= group(log, "variants", count)
    for scope in ("variants", "prefixes"):
        assert group(log, scope, "cases") >= group(log, scope, "units")


def test_who_shares_beginnings_may_be_alone_with_a_sequence() -> None:
    """One case that ends where two others go on: its beginnings are shared by three."""
    log = log_of([("a", "x"), ("ab", "y"), ("ab", "z")])
    assert group(log, "prefixes", "cases") == 2
    assert group(log, "variants", "cases") == 1


def test_a_policy_that_turns_to_variants_is_tightened() -> None:
    """``policy diff`` says what the checker says."""
    beginnings, complete = (
        parse_policy(POLICY.format(option=f"scope: {scope}")) for scope in ("prefixes", "variants")
    )
    assert [change.verdict for change in diff(beginnings, complete)] == ["tighter"]
    assert [change.verdict for change in diff(complete, beginnings)] == ["looser"]
