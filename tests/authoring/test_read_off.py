"""Proposals that hold values of the log: of no single case, and only where no noise is claimed."""

import re
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authoring.sample_logs import rich_log
from cloakwork.authoring.read_off import read_off, rounded_up
from cloakwork.authoring.suggestion import AUDIENCES, GOALS, K, PolicyHeader, suggest
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy

HEADER = PolicyHeader("test", "data", "somebody", "a test")
MARK = "read off the log"


def visits() -> EventLog:
    """Sixty cases: a ward of each, one of them of three cases only, an age and a cost."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        {
            "case:concept:name": f"c{case}",
            "concept:name": activity,
            "time:timestamp": start + timedelta(days=case, hours=7 * place),
            "case:ward": "hidden" if case < 3 else f"ward {case % 2}",
            "case:age": 21 + case % 50,
            "cost": 0.25 * case,
        }
        for case in range(60)
        for place, activity in enumerate("abc")
    ]
    return EventLog.from_polars(pl.DataFrame(rows))


def test_no_single_case_stands_in_them():
    """Rare values are left out, numbers rounded outwards."""
    log = visits()
    found = read_off(log, suggest(log, HEADER).proposals, 5)
    assert found.domains == {"case:ward": ("ward 0", "ward 1")}
    assert found.bands["case:age"] == (20, 30, 40, 50, 60, 70, 80)
    assert found.bands["cost"][0] == 0 and found.bands["cost"][-1] > 14.75
    assert found.longest_case == 5 and found.longest_gap == timedelta(hours=10)


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("times", [True, False])
def test_only_where_no_noise_is_claimed(goal, audience, times):
    """A domain read off the log would publish the one patient with a rare code."""
    found = suggest(visits(), HEADER, audience, goal, times=times)
    claims_noise = re.search(r"kind: (metric-privacy|differential-privacy)", found.text)
    assert (MARK in found.text) == (claims_noise is None) == (found.read_off is not None)
    assert "ward 1" not in found.text or claims_noise is None
    assert "hidden" not in found.text


@pytest.mark.parametrize("log", [visits(), rich_log()])
def test_what_is_confirmed_plans(log):
    """Each comment in place of the rule before it, the attribute under ``over``."""
    lines: list[str] = []
    names: list[str] = []
    for line in suggest(log, HEADER, "internal", times=False).text.splitlines():
        found = re.fullmatch(r"    #   or released: (.*)", line)
        if found:
            name = lines[-1].split(": {")[0].strip()
            names.append(name)
            lines[-1] = f"    {name}: {found[1]}"
        else:
            lines.append(re.sub(r"^  # (assume:|  longest_)", r"  \1", line))
    text = "\n".join(lines).replace(
        "over: [control-flow]", f"over: [control-flow, {', '.join(names)}]"
    )
    policy = parse_policy(text)
    assert names and policy.spec.assume.longest_case is not None
    assert [claim.guarantee.kind for claim in make_plan(policy).claims] == ["k-anonymity"]
    assert policy.goals()[0].model_dump()["k"] == K["internal"]


@given(st.floats(1e-9, 1e12))
def test_rounding_goes_up(number):
    """To 1, 2, 5, 10, ..., and at most two and a half times as far."""
    found = rounded_up(number)
    assert number <= found * (1 + 1e-9) and found <= 2.5 * number * (1 + 1e-9)


def test_a_log_of_nothing_proposes_nothing():
    """No case, no attribute, no time."""
    found = read_off(EventLog.empty(), (), 5)
    assert (found.domains, found.bands) == ({}, {})
    assert (found.longest_case, found.longest_gap) == (None, None)
