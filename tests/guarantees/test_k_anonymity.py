"""The independent checker of k-anonymity, and which word is the stricter one by it.

``test_evidence`` compares it with a count in plain Python.
"""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import Unit
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import EventLog
from cloakwork.policy.diff import diff
from contracts.sample_logs import log_of
from guarantees.measuring import require, smallest_group
from plan.conftest import policy_of

VARIANTS = KAnonymity(kind="k-anonymity", k=2)
PREFIXES = KAnonymity(kind="k-anonymity", k=2, scope="prefixes")


def test_a_short_variant_may_hide_behind_a_longer_one_as_a_prefix() -> None:
    """One case of a beside two of ab."""
    log = log_of(["a", "ab", "ab"])
    assert smallest_group(log, VARIANTS) == 1
    assert smallest_group(log, PREFIXES) == 2


def test_empty_log_holds() -> None:
    """There is nobody to single out."""
    require(log_of([]), VARIANTS)
    assert smallest_group(log_of([]), PREFIXES) is None


def test_a_broken_guarantee_says_what_was_seen() -> None:
    """The guarantee's sentence, and the observed size."""
    with pytest.raises(
        GuaranteeBroken, match=r"the smallest group holds 1 released cases.*2-anonymity"
    ):
        require(log_of(["a", "b", "b"]), VARIANTS)
    require(log_of(["b", "b"]), VARIANTS)


def test_attributes_tell_classes_apart() -> None:
    """Case attributes and event attributes alike; missing is a value, and so it is where no case
    has the attribute.
    """
    log = log_of(["ab", "ab", "ab", "ab"])
    log = EventLog(
        log.events.with_columns(ward=pl.Series(["x", None, "x", None, "x", "y", "x", "y"])),
        log.cases.with_columns(pl.Series("case:Age", [40, 40, None, None])),
        log.offsets,
    )

    def smallest(*over: str) -> int | None:
        return smallest_group(log, KAnonymity(kind="k-anonymity", k=2, over=over))

    assert smallest("control-flow", "ward") == 2
    assert smallest("control-flow", "ward", "case:Age") == 2
    assert (smallest("case:row"), smallest("case:Name")) == (1, 4)
    with pytest.raises(GuaranteeBroken, match="no column 'timestamps'"):
        smallest("timestamps")


def test_counts_distinct_units() -> None:
    """Three cases of one person are one unit; cases without the attribute are none."""
    log = log_of(["a"] * 5 + ["b"] * 2)
    owners = pl.Series("case:Person", ["p", "p", "p", "q", "q", None, None])
    log = EventLog(log.events, log.cases.with_columns(owners), log.offsets)
    units = KAnonymity(kind="k-anonymity", k=2, count="units")
    assert smallest_group(log, units, Unit(attribute="case:Person", max_cases=3)) == 0
    assert smallest_group(log, units) == 2
    first = log.keep_cases(pl.Series([0, 1, 2]).to_numpy())
    assert smallest_group(first, units, Unit(attribute="case:Person")) == 1


CASES = st.tuples(st.text("ab", min_size=1, max_size=4), st.sampled_from("xyz"))
"""The activities of a case, and whose it is."""


@given(st.lists(CASES, min_size=1, max_size=12))
def test_who_shares_a_sequence_shares_its_beginnings(cases: list[tuple[str, str]]) -> None:
    """Whatever k holds over variants holds over prefixes; and over cases where it does over
    units.
    """
    log = log_of([activities for activities, _ in cases])
    owners = pl.Series("case:Person", [owner for _, owner in cases])
    log = EventLog(log.events, log.cases.with_columns(owners), log.offsets)

    def smallest(scope: Any, count: Any) -> Any:
        goal = KAnonymity(kind="k-anonymity", k=2, scope=scope, count=count)
        return smallest_group(log, goal, Unit(attribute="case:Person"))

    for count in ("cases", "units"):
        assert smallest("prefixes", count) >= smallest("variants", count)
    for scope in ("variants", "prefixes"):
        assert smallest(scope, "cases") >= smallest(scope, "units")


def test_a_policy_that_turns_to_variants_is_tightened() -> None:
    """``policy diff`` says what the checker says: a variant may hide behind a longer one."""
    over = {"kind": "k-anonymity", "k": 10, "over": ["control-flow"]}
    prefixes, variants = (
        policy_of(guarantees=[over | {"scope": scope}]) for scope in ("prefixes", "variants")
    )
    assert [change.verdict for change in diff(prefixes, variants)] == ["tighter"]
    assert [change.verdict for change in diff(variants, prefixes)] == ["looser"]
