"""Advisories: which releases each concerns, what it makes of them, and what the ledger makes of
that.
"""

import dataclasses
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.affected import advisories_of, with_voided_charges
from cloakwork.accounting.charge import Charge
from cloakwork.accounting.ledger import Ledger
from cloakwork.accounting.records import Record
from cloakwork.advisories import (
    Advisory,
    ReleaseProperties,
    advisories_for,
    guarantees_in,
    shipped_advisories,
)
from cloakwork.budget import Cost
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.publishing.earlier import EarlierPlan
from cloakwork.publishing.earlier_checks import measure_advisory, measure_as_0_1_0
from cloakwork.publishing.verify_earlier import read_as_pattern

EARLIER = Path(__file__).parent / "releases" / "0.1.0"

DP = {
    "kind": "differential-privacy",
    "epsilon": 1.0,
    "delta": 1e-6,
    "over": ["control-flow"],
    "neighbours": "unbounded",
}
METRIC = {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]}
K = {"kind": "k-anonymity", "k": 3, "over": ["control-flow"], "scope": "variants", "count": "cases"}
T = {
    "kind": "t-closeness",
    "t": 0.2,
    "attribute": "case:age",
    "distance": "emd",
    "classes": "variants",
}
BASE: dict[str, Any] = {
    "engine": "0.1.0",
    "guarantees": (),
    "mechanisms": ("bound",),
    "rules": {"concept:name": "protect", "*": "drop"},
    "unit": "",
    "shallow": (),
    "words": "",
}


def found(**properties: Any) -> dict[str, str]:
    """The status of each advisory that concerns a release of 0.1.0 with these properties, nothing
    being measured.
    """
    return {
        finding.advisory.id: finding.status
        for finding in advisories_for(ReleaseProperties(**(BASE | properties)))
    }


def test_each_has_a_number_of_its_own_in_order() -> None:
    assert [each.id for each in shipped_advisories()] == [
        f"CW-2026-{number:02}" for number in range(1, len(shipped_advisories()) + 1)
    ]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {}),
        ({"guarantees": (DP,)}, {"CW-2026-01": "open"}),
        (
            {"guarantees": (DP | {"delta": 1e-12},)},
            {"CW-2026-01": "open", "CW-2026-09": "weakened"},
        ),
        ({"guarantees": (DP | {"delta": 0.0},)}, {"CW-2026-01": "open"}),
        (
            {"guarantees": (DP,), "unit": "case:patient"},
            {"CW-2026-01": "open", "CW-2026-07": "open"},
        ),
        ({"rules": {"*": "keep"}}, {"CW-2026-02": "open"}),
        ({"rules": {"cost[eur]": "keep", "*": "drop"}}, {"CW-2026-02": "open"}),
        ({"guarantees": (METRIC,)}, {}),
        ({"guarantees": (METRIC,), "rules": {"day": "pseudonymise"}}, {"CW-2026-03": "weakened"}),
        (
            {"guarantees": (K,), "mechanisms": ("kanon/auto",), "rules": {"org": "keep"}},
            {"CW-2026-04": "open"},
        ),
        ({"guarantees": (K,), "mechanisms": ("kanon/auto",), "rules": {"case:age": "keep"}}, {}),
        (
            {
                "guarantees": (K,),
                "mechanisms": ("kanon/auto",),
                "rules": {"time:timestamp": "keep"},
            },
            {"CW-2026-04": "open"},
        ),
        (
            {
                "guarantees": (K,),
                "mechanisms": ("kanon/auto",),
                "rules": {"time:timestamp": "drop"},
            },
            {},
        ),
        (
            {
                "guarantees": (K,),
                "mechanisms": ("kanon/auto",),
                "rules": {"time:timestamp": "protect"},
            },
            {},
        ),
        (
            {
                "guarantees": (K,),
                "mechanisms": ("kanon/auto", "timestamps/laplace"),
                "rules": {"time:timestamp": "keep"},
            },
            {},
        ),
        (
            {
                "guarantees": (K, METRIC),
                "mechanisms": ("kanon/auto",),
                "rules": {"time:timestamp": "keep"},
            },
            {},
        ),
        ({"rules": {"^time:timestamp$": "keep", "*": "drop"}}, {"CW-2026-02": "open"}),
        ({"guarantees": (K,), "mechanisms": ("kanon/tlkc",), "rules": {"org": "keep"}}, {}),
        ({"guarantees": (T,)}, {"CW-2026-05": "open", "CW-2026-06": "open"}),
        ({"guarantees": (T | {"distance": "stochastic"},)}, {}),
        (
            {"guarantees": (K | {"over": ["control-flow", "case:age"]},)},
            {"CW-2026-08": "corrected"},
        ),
        ({"shallow": ("department",)}, {"CW-2026-10": "weakened"}),
        (
            {"words": "protected is one time of one event: not a premises, and not a person"},
            {"CW-2026-11": "corrected"},
        ),
    ],
)
def test_each_concerns_the_releases_that_it_is_about(
    properties: dict[str, Any], expected: dict[str, str]
) -> None:
    counted = any(
        each["kind"] in ("k-anonymity", "differential-privacy")
        for each in properties.get("guarantees", ())
    )
    traces_of_one_id = {"CW-2026-14": "open"} if counted else {}
    assert found(**properties) == expected | traces_of_one_id


@pytest.mark.parametrize("engine", ["0.2.0", "0.2.0.dev0", "0.10.0", "1.0"])
def test_none_concerns_later_versions(engine: str) -> None:
    everything = {
        "guarantees": (DP, METRIC, K, T),
        "mechanisms": ("kanon/auto",),
        "rules": {"*": "keep"},
    }

    assert found(engine=engine, **everything) == {}


def test_what_a_measurement_shows_settles_it() -> None:
    properties = ReleaseProperties(**(BASE | {"guarantees": (T,)}))

    assert {each.status for each in advisories_for(properties, lambda *_: (True, "far"))} == {
        "void"
    }
    assert {each.status for each in advisories_for(properties, lambda *_: (False, "near"))} == {
        "cleared"
    }
    assert {each.status for each in advisories_for(properties, lambda *_: None)} == {"open"}
    (finding, *_) = advisories_for(properties, lambda *_: (None, "near, perhaps"))
    assert finding.status == "open" and "(near, perhaps)" in str(finding)


def log_of(cases: list[list[tuple[str, Any]]], ages: list[Any] | None = None) -> EventLog:
    """Cases of events with an activity and a value each."""
    rows = [
        {
            CASE_ID: str(number),
            ACTIVITY: activity,
            "value": value,
            "case:age": None if ages is None else ages[number],
        }
        for number, events in enumerate(cases)
        for activity, value in events
    ]
    return EventLog.from_polars(
        pl.DataFrame(rows, schema_overrides={"value": pl.String, "case:age": pl.Float64})
    )


def advisory(measure: str) -> Advisory:
    return next(each for each in shipped_advisories() if each.measure == measure)


def test_events_without_attributes_are_left_out_where_their_activity_has_some() -> None:
    """Three cases a, b; in one of them b was inserted. Where b never has a value, the file cannot
    tell.
    """
    told = log_of([[("a", "x"), ("b", "y")], [("a", "x"), ("b", "y")], [("a", "x"), ("b", None)]])
    untold = log_of([[("a", "x"), ("b", None)]] * 3)
    measure = advisory("k without empty events")

    shown = measure_as_0_1_0(told, K)
    assert shown is not None and shown.holds
    assert measure_advisory(told, measure, K, raw_times=False) == (
        True,
        "without events that have no attributes, the smallest group holds 1 released cases",
    )
    assert measure_advisory(untold, measure, K, raw_times=False) == (
        None,
        "without events that have no attributes, the smallest group holds 3 released cases",
    )


def timed(cases: list[list[tuple[str, str | None, bool]]]) -> EventLog:
    """Cases of events with an activity, a value, and whether they have a time."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        {
            CASE_ID: str(number),
            ACTIVITY: activity,
            TIMESTAMP: start if has_time else None,
            "value": value,
        }
        for number, events in enumerate(cases)
        for activity, value, has_time in events
    ]
    types = {"value": pl.String, TIMESTAMP: pl.Datetime("us", "UTC")}
    return EventLog.from_polars(pl.DataFrame(rows, schema_overrides=types))


A, B, INSERTED = ("a", "x", True), ("b", None, True), ("b", None, False)


@pytest.mark.parametrize(
    ("cases", "raw_times", "is_so"),
    [
        ([[A, B]] * 2 + [[A, INSERTED]], True, True),
        ([[A, B]] * 3, True, False),
        ([[A, INSERTED]] * 3, True, None),
        ([[A, B]] * 3 + [[A, INSERTED]] * 3, True, None),
        ([[A, A]] * 2 + [[A, ("a", None, True)]], True, False),
        ([[A, A]] * 2 + [[A, ("a", None, True)]], False, True),
        ([[INSERTED]] * 3, True, False),
        ([[A, ("b", "y", False)]] * 3, False, None),
    ],
    ids=[
        "inserted events have no time",
        "every event has one",
        "an activity that never has a time: it cannot tell",
        "k holds without them: it cannot tell",
        "an event with a raw time was not inserted",
        "times that were written anew tell nothing",
        "no event has anything",
        "times that are missing though written anew",
    ],
)
def test_a_raw_time_is_an_attribute_that_inserted_events_lack(
    cases: list[list[tuple[str, str | None, bool]]], raw_times: bool, is_so: bool | None
) -> None:
    found = measure_advisory(
        timed(cases), advisory("k without empty events"), K, raw_times=raw_times
    )

    assert found is not None and found[0] is is_so, found


def released_by(rules: dict[str, tuple[str, str]]) -> EarlierPlan:
    """A plan of version 0.1.0 with these attributes, each with its column and treatment."""
    return EarlierPlan.model_validate(
        {
            "format": "cloakwork/plan/v1",
            "engine": "0.1.0",
            "policy": {"metadata": {}, "spec": {"attributes": {}, "output": {"format": "csv"}}},
            "policy_digest": "",
            "attributes": [
                {"attribute": name, "column": column, "treatment": how}
                for name, (column, how) in rules.items()
            ],
            "steps": [],
            "claims": [],
            "exposed": [],
        }
    )


@pytest.mark.parametrize(
    ("times", "column", "seen"),
    [
        ("drop", "value", "the log holds times, which the plan drops"),
        ("keep", "value", None),
        ("keep", "^value$", "the log holds '^value$', a name that was read as a pattern"),
        ("keep", "*", "the log holds '*', a name that was read as a pattern"),
        ("keep", "hidden\nname", "the log holds 'hidden\\nname', which the plan drops"),
    ],
)
def test_what_a_log_holds_because_a_name_was_a_pattern(
    times: str, column: str, seen: str | None
) -> None:
    plan = released_by(
        {
            "time:timestamp": ("timestamps", times),
            "*": ("*", "keep"),
            "hidden*": ("hidden*", "drop"),
        }
    )
    log = timed([[A]])
    renamed = EventLog(log.events.rename({"value": column}), log.cases, log.offsets)

    assert read_as_pattern(renamed, plan) == seen


def test_one_outlier_does_not_make_classes_close_by_ranks() -> None:
    """Two variants, one of the young and one of the old, and one case that is 10,000 years old."""
    cases = [[("a", None)]] * 50 + [[("b", None)]] * 50
    ages = (
        [20.0 + number % 3 for number in range(50)]
        + [80.0 + number % 3 for number in range(49)]
        + [10_000.0]
    )
    log = log_of(cases, ages)

    then = measure_as_0_1_0(log, T)
    assert then is not None and then.holds
    so, seen = measure_advisory(log, advisory("closeness by ranks"), T, raw_times=False) or (
        False,
        "",
    )
    assert so and re.search(r"lies 0\.25\d* away", seen), seen


def test_an_attribute_that_is_recorded_only_for_some_tells() -> None:
    """Of one variant every case has the value, of the other none."""
    log = log_of([[("a", None)]] * 10 + [[("b", None)]] * 10, [1.0] * 10 + [None] * 10)

    then = measure_as_0_1_0(log, T)
    assert then is not None and then.holds
    assert measure_advisory(log, advisory("closeness with missing values"), T, raw_times=False) == (
        True,
        "by missing values some group lies at least 0.5 away, t is 0.2",
    )


def test_the_meaning_then_is_what_version_0_1_0_measured() -> None:
    """By hand: ages 0 to 10 in two classes of two, ranges of 10: 0, 10 against 4, 6 lies .2 from
    all four.
    """
    log = log_of([[("a", None)]] * 2 + [[("b", None)]] * 2, [0.0, 10.0, 4.0, 6.0])
    seen = measure_as_0_1_0(log, T)

    assert (
        seen is not None
        and seen.seen.startswith("the farthest group lies 0.2 from all values")
        and seen.holds
    )
    assert not measure_as_0_1_0(log, T | {"t": 0.19}).holds  # type: ignore[union-attr]
    diverse = {
        "kind": "l-diversity",
        "l": 2.0,
        "attribute": "case:age",
        "variety": "distinct",
        "classes": "variants",
    }
    assert measure_as_0_1_0(log, diverse).holds  # type: ignore[union-attr]
    assert not measure_as_0_1_0(log, diverse | {"l": 3.0}).holds  # type: ignore[union-attr]
    assert measure_as_0_1_0(log, METRIC) is None


def test_a_log_without_cases_settles_nothing_and_breaks_nothing() -> None:
    empty = log_of([[("a", None)]]).keep_cases(np.zeros(0, np.int64))

    for guarantee in (
        K,
        T,
        {
            "kind": "l-diversity",
            "l": 2.0,
            "attribute": "x",
            "variety": "entropy",
            "classes": "prefixes",
        },
    ):
        assert (
            measure_as_0_1_0(empty, guarantee) is None or measure_as_0_1_0(empty, guarantee).holds
        )  # type: ignore[union-attr]


def records(tmp_path: Path) -> tuple[Record, ...]:
    copy = shutil.copy(EARLIER / "ledger.db", tmp_path / "ledger.db")
    return Ledger(f"sqlite:///{copy}").history()


def test_entries_of_0_1_0_name_their_guarantees(tmp_path: Path) -> None:
    kinds = {
        record.policy: [each["kind"] for each in guarantees_in(record.note)]
        for record in records(tmp_path)
    }

    assert kinds == {
        "kanon-control-flow": ["k-anonymity"],
        "kanon-dp-timestamps": ["k-anonymity", "metric-privacy"],
        "kanon-t-closeness": ["k-anonymity", "t-closeness"],
        "kanon-with-generalised-attributes": ["k-anonymity"],
        "dp-control-flow": ["differential-privacy"],
        "kanon-quasi-identifiers": ["k-anonymity"],
        "kanon-case-dp-timestamps": ["k-anonymity", "differential-privacy"],
    }


def test_an_entry_tells_less_than_a_release_and_so_stays_open(tmp_path: Path) -> None:
    dp = next(record for record in records(tmp_path) if record.policy == "dp-control-flow")
    status = {each.advisory.id: each.status for each in advisories_of(dp)}

    assert status["CW-2026-01"] == "open" and status["CW-2026-12"] == "weakened"
    assert "CW-2026-09" not in status, "its delta is noted: 1e-6"
    assert with_voided_charges(dp) == dp, "what is open is not recharged"


def test_a_new_entry_says_which_version_made_it(tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'new.db'}")
    book.reserve("d", policy="p", charges=[Charge(currency="none")])
    (record,) = book.history()

    assert record.engine.startswith("0.2") and advisories_of(record) == ()


def test_an_entry_whose_claim_is_void_counts_without_bound_and_what_it_charged_stays_spent() -> (
    None
):
    void = shipped_advisories()[0].model_copy(update={"depends": None})
    record = Record(
        id="x",
        dataset="d",
        policy="p",
        version="1",
        policy_digest="",
        charges=(Charge(currency="unit", cost=Cost(epsilon=1.0)),),
        totals=(),
        note="Whether ... (differential privacy over control-flow).",
        state="committed",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        digest="0" * 64,
    )

    assert with_voided_charges(record, [void]).charges == (*record.charges, Charge(currency="none"))
    assert with_voided_charges(with_voided_charges(record, [void]), [void]) == with_voided_charges(
        record, [void]
    )
    assert with_voided_charges(record, [void]).without_dp
    later = dataclasses.replace(record, engine="0.2.0")
    assert with_voided_charges(later, [void]) == later


def test_the_ledger_counts_what_is_void_as_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of version 0.1.0 that paid for differential privacy; nothing that it charged is
    handed back.
    """
    copy = shutil.copy(EARLIER / "ledger.db", tmp_path / "ledger.db")
    book = Ledger(f"sqlite:///{copy}")
    (before,) = book.summary()
    void = shipped_advisories()[0].model_copy(update={"depends": None})
    monkeypatch.setattr("cloakwork.advisories.shipped_advisories", lambda: (void,))
    (after,) = book.summary()

    assert {each.policy for each in after.without_dp} - {
        each.policy for each in before.without_dp
    } == {"dp-control-flow"}
    assert after.balances == before.balances
