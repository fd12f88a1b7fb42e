"""The stand-in holds what is declared, and says what is supposed instead."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from cloakwork.api import load_policy
from cloakwork.evaluation.control_flow import histogram
from cloakwork.evaluation.stand_in import (
    FEW,
    MANY,
    RANKS,
    USUAL_CASES,
    StandInFacts,
    stand_in_facts,
)
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.plan.policies import parse_policy
from conftest import ROOT

WHOLE = "dp-whole-log"


def shipped(name: str, **changes: str) -> str:
    """The text of a shipped policy, with passages replaced."""
    text = (ROOT / "policies" / f"{name}.yaml").read_text("utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def logs_of(facts: StandInFacts) -> list[EventLog]:
    """One log of each invented process."""
    return [facts.log(shape, 0) for shape in facts.shapes]


def test_declared_facts_hold_of_every_invented_log() -> None:
    """Activities, window, gaps, domains and ranges."""
    policy = load_policy(WHOLE)
    declared = policy.facts()
    facts = stand_in_facts([policy], cases=300)
    assert declared.alphabet is not None
    assert declared.longest_gap is not None
    for log in logs_of(facts):
        assert 250 <= log.cases.height <= 300
        assert set(log.events[ACTIVITY]) <= set(declared.alphabet)
        times = log.events[TIMESTAMP]
        starts = times.gather(log.offsets[:-1])
        assert declared.window.start <= starts.min()
        assert starts.max() <= declared.window.end
        gaps = times.diff()[1:].to_numpy()[np.diff(log.case_of) == 0]
        assert gaps.min() >= np.timedelta64(0)
        assert gaps.max() <= np.timedelta64(declared.longest_gap)
        domain = set(declared.domains["department"])
        assert set(log.events["department"].drop_nulls()) <= domain
        low, high = declared.ranges["cost"]
        costs = log.events["cost"].drop_nulls()
        assert low <= costs.min() <= costs.max() <= high
        assert log.cases[CASE_ID].n_unique() == log.cases.height


def test_cases_are_no_longer_than_declared() -> None:
    """The longest case of this policy has 12 events."""
    facts = stand_in_facts([load_policy("dp-minimal-sharing")], cases=200)
    for log in logs_of(facts):
        assert np.diff(log.offsets).max() <= 12


def test_shapes_are_those_asked_for() -> None:
    """The ten most frequent variants hold about the share that the shape says."""
    facts = stand_in_facts([load_policy(WHOLE)], cases=2000)
    for (_, heads), log in zip((FEW, MANY), logs_of(facts), strict=True):
        sizes = sorted(histogram(log).values(), reverse=True)
        for rank, share in zip(RANKS, heads, strict=True):
            assert sum(sizes[:rank]) / log.cases.height == pytest.approx(share, abs=0.08)


def test_units_own_several_cases_but_no_more_than_declared() -> None:
    """The unit's attribute stands in the cases."""
    policy = load_policy("dp-per-person")
    unit = policy.spec.unit
    log = logs_of(stand_in_facts([policy], cases=200))[0]
    sizes = log.cases[unit.attribute].value_counts()["count"]
    assert 1 < sizes.max() <= unit.max_cases


def test_the_same_seed_gives_the_same_log_and_another_gives_another() -> None:
    """All settings are tried on the same logs."""
    first, second = (stand_in_facts([load_policy(WHOLE)], cases=50) for _ in range(2))
    shape = first.shapes[0]
    assert first.log(shape, 1).events.equals(second.log(shape, 1).events)
    assert not first.log(shape, 1).events.equals(first.log(shape, 2).events)


def test_what_nobody_declares_is_said_with_what_to_declare() -> None:
    """And nothing is said of what is declared."""
    assumed = " ".join(stand_in_facts([load_policy("dp-control-flow")]).assumed)
    for fact in ("units_at_most", "alphabet", "longest_case"):
        assert f"assume.{fact}" in assumed
    assert "cloakwork profile" in assumed and "--" not in assumed
    assert "assume.window" not in assumed  # no times are released
    assert stand_in_facts([load_policy("dp-control-flow")]).cases == USUAL_CASES
    whole = " ".join(stand_in_facts([load_policy(WHOLE)]).assumed)
    assert "assume.alphabet" not in whole
    assert "assume.window" not in whole
    assert "5,000 cases, of at most 10,000 declared" in whole


def test_facts_of_several_policies_are_put_together() -> None:
    """One declares the alphabet, the other the window."""
    facts = stand_in_facts([load_policy("dp-minimal-sharing"), load_policy(WHOLE)])
    assert len(facts.alphabet) == 8
    assert facts.times.longest_gap == timedelta(days=90)


def test_types_of_ranges_become_values_of_that_type() -> None:
    """Days, instants and whole numbers."""
    policy = parse_policy(
        shipped(
            WHOLE,
            **{
                '"cost": {role: sensitive, range: [0, 10000]}': (
                    '"cost": {role: sensitive, range: ["2020-01-01", "2021-01-01"]}'
                )
            },
        )
    )
    log = logs_of(stand_in_facts([policy], cases=50))[0]
    days = log.events["cost"].drop_nulls()
    assert isinstance(days.dtype, pl.Datetime)
    assert {2020} <= set(days.dt.year()) <= {2020, 2021}
