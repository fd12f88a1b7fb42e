"""A4: whoever takes away the events that lack attributes must not get back the variants that nobody
else has.
"""

from collections import Counter
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
import yaml

from cloakwork.api import make_plan
from cloakwork.errors import GuaranteeBroken
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.noise import reproducible
from cloakwork.plan.policies import load_policy
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.run.run import Run
from conftest import EXAMPLES, ROOT, hurried
from contracts.sample_logs import BEGIN, log_of


def released(policy: Path, log: EventLog, seed: int = 3) -> EventLog:
    """The release that a policy makes of a log."""
    return Run(plan=make_plan(load_policy(policy)), noise=reproducible(seed)).release(log, None).log


def stripped_variants(log: EventLog, lacking: list[str]) -> Counter[tuple[str, ...]]:
    """How many cases have which activities, without the events that have no value of any of
    ``lacking``.
    """
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
    assert sum(below.values()) == 0, (
        f"{sum(below.values())} cases below k, smallest {min(below.values())}"
    )


SPEC: dict[str, Any] = {
    "apiVersion": "cloakwork/v1",
    "kind": "PrivacyPolicy",
    "metadata": {
        "name": "p",
        "version": "1.0.0",
        "owner": "o@example.org",
        "purpose": "test",
        "dataset": "d",
    },
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
    """20 cases of one variant; 4 lack an event at the beginning, in the middle or at the end, or
    two of them.
    """
    courses = [["a", "b", "c", "d"]] * 20 + [
        ["b", "c", "d"],
        ["a", "c", "d"],
        ["a", "b", "c"],
        ["a", "d"],
    ]
    times = [
        [BEGIN + timedelta(days=row, hours=3 * step) for step in range(len(each))]
        for row, each in enumerate(courses)
    ]
    return log_of(courses, times)


def test_raw_times(tmp_path: Path, log: EventLog) -> None:
    """Where times are released as they are, inserted events have one, too: between their
    neighbours, in full hours like all others.
    """
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(RAW_TIMES), "utf-8")
    release = released(policy, log)
    assert min(stripped_variants(release, [TIMESTAMP]).values()) >= 5
    times = release.events[TIMESTAMP]
    assert (times.dt.truncate("1h") == times).all()
    steps = pl.DataFrame({"case": release.case_of, "time": times}).select(
        pl.col("time").diff().over("case")
    )
    assert (steps.to_series().drop_nulls() >= timedelta(0)).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
def test_raw_times_are_as_precise_as_those_of_their_activity(
    tmp_path: Path, zone: str, seed: int
) -> None:
    """A laboratory reports days, everybody else seconds: an inserted report at 14:27:31 is known
    for what it is, and so is one at midnight of the wrong season.
    """
    courses = (
        [["register", "report", "end"]] * 40
        + [["register", "end"]] * 2
        + [["register", "report"]] * 2
    )
    at = {"register": timedelta(hours=9, minutes=1, seconds=7), "report": timedelta(days=1)}
    at["end"] = timedelta(days=2, hours=15, minutes=33, seconds=41)
    first = datetime(2024, 3, 1, tzinfo=ZoneInfo(zone))
    times = [
        [
            (first + timedelta(days=3 * row) + at[each] + noise(row, each)).astimezone(UTC)
            for each in course
        ]
        for row, course in enumerate(courses)
    ]
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(RAW_TIMES), "utf-8")
    release = released(policy, log_of(courses, times), seed)
    local = release.events[TIMESTAMP].dt.convert_time_zone(zone)
    known = release.events.select(ACTIVITY, midnight=local.dt.time() == time(0))
    shows = known.select((pl.col(ACTIVITY) == "report") & ~pl.col("midnight")).to_series()
    found = stripped_variants(release.keep_events(~shows.to_numpy()), [ACTIVITY])
    assert min(found.values()) >= 5, (
        f"{shows.sum()} reports show; smallest group {min(found.values())}"
    )


def noise(row: int, activity: str) -> timedelta:
    """Some minutes and seconds, but for reports."""
    return timedelta(seconds=0 if activity == "report" else 61 * row)


def test_no_room_for_such_a_time_is_no_release(tmp_path: Path) -> None:
    """Neighbours that lie in the same second have no midnight between them: one plain line instead
    of a release.
    """
    courses = [["register", "report", "end"]] * 20 + [["register", "end"]] * 2
    times = [
        [BEGIN + timedelta(days=3 * row + step, seconds=step % 2 - 1) for step in range(3)]
        for row in range(20)
    ]
    times = [
        [first - timedelta(seconds=row), BEGIN + timedelta(days=3 * row + 1), last]
        for row, (first, _, last) in enumerate(times)
    ]
    times += [
        [
            BEGIN + timedelta(days=90, hours=9, seconds=1),
            BEGIN + timedelta(days=90, hours=9, seconds=1.5),
        ]
    ] * 2
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(RAW_TIMES), "utf-8")
    with pytest.raises(GuaranteeBroken, match="once inserted events are recognised"):
        released(policy, log_of(courses, times))


def test_the_warning_says_what_happens_to_raw_times(tmp_path: Path) -> None:
    """They are not copied."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(RAW_TIMES), "utf-8")
    told = [caveat_in_words(each) for each in make_plan(load_policy(policy)).warnings]
    about = [line for line in told if "inserts" in line]
    assert len(about) == 1
    assert "copy" not in about[0]
    assert "drawn between" in about[0]
