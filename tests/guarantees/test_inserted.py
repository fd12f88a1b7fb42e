"""Which inserted events show is said of the whole log, wherever its cases lie."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from cloakwork.guarantees.base import gathered
from cloakwork.guarantees.inserted import (
    KeptEvents,
    WithoutVisibleInsertions,
)
from cloakwork.log.eventlog import EventLog
from conftest import runs
from contracts.sample_logs import BEGIN, log_of
from guarantees.measuring import without_visible_insertions
from log_in_parts import LogInParts

Clock = Callable[[int], datetime]
BERLIN = ZoneInfo("Europe/Berlin")


def days_of_utc(day: int) -> datetime:
    """Midnight, one of all times of day."""
    return BEGIN + timedelta(days=day)


def days_of_berlin(day: int) -> datetime:
    """Midnight of a zone with summer time: two times of day, by season."""
    return (datetime(2024, 1, 1, tzinfo=BERLIN) + timedelta(days=day)).astimezone(UTC)


def two_hours(day: int) -> datetime:
    """Three o'clock at night, or in the afternoon."""
    return BEGIN + timedelta(days=day, hours=3 + 12 * (day % 2))


def minutes(day: int) -> datetime:
    """Any minute."""
    return BEGIN + timedelta(minutes=7919 * day)


def drawn_log(random: np.random.Generator, clock: Clock) -> EventLog:
    """Cases of a few events; some have no time or no attribute, some are inserted, and a few of
    these stand at another time of day, or at a more precise one.
    """
    cases = [list(random.choice(list("abc"), random.integers(0, 5))) for _ in range(40)]
    times = []
    for case in cases:
        days = np.sort(random.integers(0, 500, len(case)))
        times.append([None if random.random() < 0.1 else clock(int(day)) for day in days])
    log = log_of(cases, times)
    events = log.events.height
    inserted = random.random(events) < 0.3
    moved = pl.Series(inserted & (random.random(events) < 0.3))
    time = pl.col("time:timestamp")
    later = pl.duration(seconds=1 if clock is minutes else 3600)
    is_missing = pl.Series(random.random(events) < 0.2)
    return replace(
        log,
        events=log.events.with_columns(
            pl.when(moved).then(time + later).otherwise(time),
            pl.when(is_missing).then(None).otherwise(pl.lit("x")).alias("ward"),
        ),
        inserted=inserted,
    )


@pytest.mark.parametrize("count", [4, 25])
@pytest.mark.parametrize("clock", [days_of_utc, days_of_berlin, two_hours, minutes])
def test_parts_lose_what_the_whole_log_loses(clock: Clock, count: int) -> None:
    """Event by event; by attributes alone, and by times as well."""
    left_out = 0
    for seed in range(runs(1)):
        random = np.random.default_rng(seed)
        log = drawn_log(random, clock)
        parts = LogInParts.of(log, random.integers(0, count, log.cases.height), count)
        for by_time in (False, True):
            whole = without_visible_insertions(log, by_time=by_time)
            left_out += log.events.height - whole.events.height
            view = WithoutVisibleInsertions(gathered(parts, KeptEvents(by_time)), by_time)
            for part in parts.batches():
                seen = view(part)
                expected = whole.keep_cases(part.index_of_case)
                assert seen.events.equals(expected.events)
                assert seen.offsets.tolist() == expected.offsets.tolist()
    assert left_out > 0
