"""Whoever takes away the events that lack attributes must not get back the variants that nobody else has."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from cloakwork.api import make_plan
from cloakwork.execute import execute
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.io import read_log
from cloakwork.noise import reproducible
from cloakwork.policy.load import load_policy
from conftest import EXAMPLES, ROOT, hurried
from contracts.sample_logs import BEGIN, log_of


def released(policy: Path, log: EventLog) -> EventLog:
    """The release that a policy makes of a log."""
    return execute(make_plan(load_policy(policy)), log, None, noise=reproducible(4)).log


def stripped_variants(log: EventLog, lacking: list[str]) -> Counter[tuple[str, ...]]:
    """How many cases have which activities, without the events that have no value of any of ``lacking``."""
    rows = pl.DataFrame({"case": log.case_of, "activity": log.events[ACTIVITY]}).with_columns(
        there=~log.events.select(pl.all_horizontal(pl.col(lacking).is_null())).to_series()
    )
    lists: list[list[str]] = [[] for _ in range(log.cases.height)]
    for case, activity, there in rows.rows():
        if there:
            lists[case].append(activity)
    return Counter(map(tuple, lists))


def test_the_shipped_policy_on_the_shipped_log(tmp_path: Path) -> None:
    """On version 0.1.0, 144 of 1,040 cases fell below k = 20, one of them alone."""
    policy = hurried(ROOT / "policies" / "kanon-with-generalised-attributes.yaml", tmp_path, 0.2)
    release = released(policy, read_log(EXAMPLES / "hospital.xes.gz"))
    found = stripped_variants(release, ["department", "org:resource"])
    below = {variant: count for variant, count in found.items() if count < 20}
    assert sum(below.values()) == 0, f"{sum(below.values())} cases below k, smallest {min(below.values())}"


SPEC: dict[str, Any] = {
    "apiVersion": "cloakwork/v1",
    "kind": "PrivacyPolicy",
    "metadata": {"name": "p", "version": "1.0.0", "owner": "o@example.org", "purpose": "test", "dataset": "d"},
}
RAW_TIMES = SPEC | {
    "spec": {
        "unit": "case",
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp", "treatment": "keep"},
            "*": {"treatment": "drop"},
        },
        "guarantees": [{"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}],
        "expose": {"timestamps": "the partner needs the times of all events"},
    }
}


@pytest.fixture
def log() -> EventLog:
    """20 cases of one variant; 4 lack an event at the beginning, in the middle or at the end, or two of them."""
    courses = [["a", "b", "c", "d"]] * 20 + [["b", "c", "d"], ["a", "c", "d"], ["a", "b", "c"], ["a", "d"]]
    times = [
        [BEGIN + timedelta(days=row, hours=3 * step) for step in range(len(each))] for row, each in enumerate(courses)
    ]
    return log_of(courses, times)


def test_raw_times(tmp_path: Path, log: EventLog) -> None:
    """Where times are released as they are, inserted events have one, too: between their neighbours, in full hours like
    all others."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(RAW_TIMES), "utf-8")
    release = released(policy, log)
    assert min(stripped_variants(release, [TIMESTAMP]).values()) >= 5
    times = release.events[TIMESTAMP]
    assert (times.dt.truncate("1h") == times).all()
    steps = pl.DataFrame({"case": release.case_of, "time": times}).select(pl.col("time").diff().over("case"))
    assert (steps.to_series().drop_nulls() >= timedelta(0)).all()
