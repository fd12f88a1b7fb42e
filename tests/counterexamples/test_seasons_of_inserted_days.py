"""Days of a zone with summer time: an inserted event begins its day when all others of the log do,
whatever the kept events of its own activity are, and a release is not refused where the events
around it tell the season.

Fails: seasons are decided for each activity by itself (``TimePrecisions.by_season``,
``checks.inserted._is_in_season``). On road_traffic_fines no release with raw times comes about, at
any k from 5 to 100.
"""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
import yaml

from cloakwork.api import make_plan
from cloakwork.guarantees.inserted import without_visible_insertions
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.noise import reproducible
from cloakwork.plan.policies import load_policy
from cloakwork.run.run import Run
from contracts.sample_logs import log_of

ZONE = "Europe/Berlin"
POLICY: dict[str, Any] = {
    "apiVersion": "cloakwork/v1",
    "kind": "PrivacyPolicy",
    "metadata": {
        "name": "p",
        "version": "1.0.0",
        "owner": "o@example.org",
        "purpose": "test",
        "dataset": "d",
    },
    "spec": {
        "unit": "case",
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp", "treatment": "keep"},
            "*": {"treatment": "drop"},
        },
        "guarantees": [{"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}],
        "expose": {"timestamps": "the partner needs the days of all events"},
    },
}

Course = tuple[list[str], int, int]
"""Activities, the month in 2024 in which they happen, and how many such cases there are."""


def released(courses: list[Course], tmp_path: Path) -> EventLog:
    """The release of cases whose events happen some days apart, each at local midnight."""
    variants, times = [], []
    for activities, month, cases in courses:
        first = datetime(2024, month, 1, tzinfo=ZoneInfo(ZONE))
        for case in range(cases):
            days = [first + timedelta(days=case % 15 + 5 * step) for step in range(len(activities))]
            variants.append(activities)
            times.append([day.astimezone(UTC) for day in days])
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY), "utf-8")
    plan = make_plan(load_policy(policy))
    return Run(plan=plan, noise=reproducible(3)).release(log_of(variants, times), None).log


WINTER_WITHOUT_B: Course = (["a", "c"], 1, 2)
COURSES: dict[str, list[Course]] = {
    "b in summer only": [(["a", "b", "c"], 6, 40), (["d", "d"], 1, 20), WINTER_WITHOUT_B],
    "b later in winter": [(["a", "b", "c"], 6, 40), (["a", "b", "c"], 12, 12), WINTER_WITHOUT_B],
    "b in September and December": [
        (["a", "b", "c"], 9, 20),
        (["a", "b", "c"], 12, 20),
        (["a", "c"], 10, 2),
    ],
}


@pytest.mark.parametrize("name", COURSES)
def test_all_days_begin_at_local_midnight(tmp_path: Path, name: str) -> None:
    """Whoever knows the zone sees no event that begins its day at another hour."""
    release = released(COURSES[name], tmp_path)
    local = release.events[TIMESTAMP].dt.convert_time_zone(ZONE).dt.time()
    shows = release.events.filter(local != pl.lit(time(0)))
    assert shows.height == 0, shows.select(ACTIVITY, TIMESTAMP).rows()


def test_two_times_an_hour_apart_are_no_season() -> None:
    """15:11 in October and 14:11 in January are no days of a zone: their activity has no time of
    day, to the mechanism as to the check. On ccc19 the check refused every release with raw times.
    """
    kept = [datetime(2018, 10, 17, 15, 11, tzinfo=UTC), datetime(2019, 1, 16, 14, 11, tzinfo=UTC)]
    inserted = [datetime(2018, 10, 11, 12, 14, tzinfo=UTC)]
    log = log_of([["x"]] * 3, [[each] for each in kept + inserted])
    marked = replace(log, inserted=np.array([False, False, True]))
    assert without_visible_insertions(marked, by_time=True).events.height == 3
