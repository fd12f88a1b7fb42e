"""Advisories: which releases each concerns, and what it makes of them."""

from pathlib import Path
from typing import Any

import pytest

from cloakwork.publishing.advisories import (
    ReleaseProperties,
    advisories_for,
    guarantees_in,
    shipped_advisories,
)
from publishing.earlier_releases import METRIC, K, T, records

DP = {
    "kind": "differential-privacy",
    "epsilon": 1.0,
    "delta": 1e-6,
    "over": ["control-flow"],
    "neighbours": "unbounded",
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
