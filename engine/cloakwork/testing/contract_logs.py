"""What the contract of mechanisms is tried on: goals, and made-up logs of every kind."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from cloakwork.base.arrays import Ints, offsets_of
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    LocalDP,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import log_of_variants

RESOURCE: Final = "org:resource"
BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)


def log_of(
    sequences: Sequence[Sequence[str]],
    times: Sequence[Sequence[datetime | None]] | None = None,
) -> EventLog:
    """One case an activity sequence; an event takes place an hour after the one before unless
    ``times`` says else.

    Every event has a resource that no other event has, so that rows can be followed; every case has
    ``case:row``.
    """
    if times is None:
        times = [
            [BEGIN + timedelta(days=row, hours=step) for step in range(len(labels))]
            for row, labels in enumerate(sequences)
        ]
    activities = [label for labels in sequences for label in labels]
    events = pl.DataFrame(
        {
            ACTIVITY: activities,
            TIMESTAMP: [time for case in times for time in case],
            RESOURCE: [f"r{position}" for position in range(len(activities))],
        },
        schema={ACTIVITY: pl.String, TIMESTAMP: TIME_TYPE, RESOURCE: pl.String},
    )
    names = [f"case {row}" for row in range(len(sequences))]
    cases = pl.DataFrame(
        {CASE_ID: names, "case:row": list(range(len(sequences)))},
        schema={CASE_ID: pl.String, "case:row": pl.Int64},
    )
    return EventLog(events, cases, offsets_of([len(labels) for labels in sequences]))


EVERY_GOAL: tuple[Guarantee, ...] = (
    KAnonymity(kind="k-anonymity", k=5),
    KAnonymity(kind="k-anonymity", k=5, scope="prefixes", count="units"),
    KAnonymity(kind="k-anonymity", k=5, over=(CONTROL_FLOW, "case:Age")),
    TCloseness(kind="t-closeness", t=0.2, attribute="Age"),
    LDiversity(kind="l-diversity", l=2, attribute="Age"),
    ConfidenceBound(kind="confidence-bound", L=2, K=5, C=0.5),
    DifferentialPrivacy(
        kind="differential-privacy",
        epsilon=1,
        over=(CONTROL_FLOW,),
    ),
    DifferentialPrivacy(
        kind="differential-privacy",
        epsilon=1,
        delta=1e-6,
        over=(CONTROL_FLOW, TIMESTAMPS),
    ),
    DifferentialPrivacy(
        kind="differential-privacy",
        epsilon=1,
        over=(TIMESTAMPS,),
        neighbours="bounded",
    ),
    MetricPrivacy(
        kind="metric-privacy",
        epsilon=1,
        shift=timedelta(hours=1),
    ),
    MetricPrivacy(
        kind="metric-privacy",
        epsilon=1,
        shift=timedelta(hours=1),
        over=("Age",),
    ),
    LocalDP(kind="local-dp", epsilon=1, over=("Age",)),
)

LOGS = {
    "empty": log_of([]),
    "one case": log_of([["a", "b", "c"]]),
    "a single activity": log_of([["a"]] * 12),
    "cases without events": log_of([[]] * 6 + [["a"]] * 6),
    "all variants unique": log_of([["a"] * length for length in range(1, 13)]),
    "ordinary": log_of(
        [["a", "b", "c"]] * 8 + [["a", "c"]] * 5 + [["a", "b", "b", "c"]] * 2 + [["d"]]
    ),
}


def _batch_log() -> EventLog:
    """A log of 90 cases of 9 units whose rare variants are too small for k = 4, with values, some
    of them missing, and one inserted event in each of five cases.
    """
    rows = [["a", "b", "c"]] * 40 + [["a", "c"]] * 26 + [["a", "b", "b", "c"]] * 10
    log = log_of([*rows, *[["a"]] * 8, *[["d"]] * 3, *[[]] * 3])
    # Mixed, so that the cases of one variant lie in several batches.
    mixed = np.random.default_rng(1).permutation(log.cases.height)
    log = log.keep_cases(mixed)
    inserted = np.zeros(log.events.height, np.bool_)
    inserted[log.offsets[[3, 17, 31, 45, 59]]] = True
    place = np.arange(log.cases.height)
    # An inserted event has no values of its own.
    lost = pl.lit(pl.Series(inserted))
    return replace(
        log,
        cases=log.cases.with_columns(
            pl.Series("case:unit", [None if i == 7 else f"u{i % 9}" for i in place.tolist()]),
            pl.Series("case:age", (place * 7 % 11).astype(np.float64)),
        ),
        events=log.events.with_columns(
            pl.when(~lost).then(pl.col(RESOURCE)).alias(RESOURCE),
            pl.when(~lost).then(pl.col(TIMESTAMP)).alias(TIMESTAMP),
            pl.Series("org:role", [f"role {i % 3}" for i in range(log.events.height)]),
        ),
        inserted=inserted,
    )


BATCH_LOG = _batch_log()


def _with_values(
    log: EventLog,
    time: datetime | None,
    role: Any,
    age: Any,
) -> EventLog:
    """``log`` with the same time, role and age everywhere."""
    stamps = pl.lit(time, log.events.schema[TIMESTAMP]).alias(TIMESTAMP)
    roles = pl.lit(role, pl.String if role is None else None).alias("org:role")
    return replace(
        log,
        events=log.events.with_columns(stamps, roles),
        cases=log.cases.with_columns(pl.lit(age).alias("case:age")),
    )


ODD_LOGS = {
    "empty, with columns": BATCH_LOG.keep_cases(np.zeros(0, np.int64)),
    "missing everywhere": _with_values(log_of([["a", "b", "c"]] * 9), None, None, None),
    "at the calendar's end": _with_values(
        log_of([["a", "b"]] * 9), datetime(9999, 12, 31, tzinfo=UTC), "", 1e300
    ),
    "at the calendar's beginning": _with_values(
        log_of([["a", "b"]] * 9), datetime(1, 1, 2, tzinfo=UTC), "\x00", -1e300
    ),
    "other types": _with_values(log_of([["a", "b"]] * 9), BEGIN, 5, "much"),
    "other activities": _with_values(log_of([["sleep"] * 40] * 5), BEGIN, "role 0", 3.0),
    "a long case": _with_values(log_of([["a"] * 5000]), BEGIN, "role 0", 3.0),
}
"""What a mechanism with a DP claim must make a release of, whatever it expects of a log."""

RELEASED = log_of_variants(
    [("a", "b", "c"), ("a",), ("a", "c", "c", "d"), ("z", "y"), ()], np.array([12, 4, 3, 2, 1])
)
"""Cases that a mechanism which enriches is handed; some of their activities no log has."""

RELEASED_LOGS = {
    "ordinary": RELEASED,
    "empty": log_of_variants([], np.zeros(0, np.int64)),
    "without events": log_of_variants([()], np.array([3])),
    "an activity of its own": log_of_variants([("new", "new")], np.array([2])),
}


def random_batches(batches: int, cases: int) -> Ints:
    """For each case one of so many batches, at random, but the same in each run of the test; where
    there are several, the first has no case, and the second a single one.
    """
    # No draw gives 0 or 1, where there are more: the first batch stays empty.
    found = np.random.default_rng(batches).integers(min(2, batches - 1), batches, cases)
    if batches > 2:
        found[cases // 2 : cases // 2 + 1] = 1
    return found


class Batches(list[EventLog]):
    """Batches of a log, which an engine may open one by one."""

    @classmethod
    def of(cls, log: EventLog, batch_of_case: Ints) -> "Batches":
        """``log`` in batches, numbered from 0, which may be empty; each knows where its cases stand
        in ``log``.
        """
        indexed = replace(log, case_index=log.index_of_case)
        places = range(int(batch_of_case.max(initial=0)) + 1)
        return cls(indexed.keep_cases(np.flatnonzero(batch_of_case == place)) for place in places)

    @classmethod
    def random(cls, log: EventLog, batches: int) -> "Batches":
        """So many, by ``random_batches``."""
        return cls.of(log, random_batches(batches, log.case_count))

    def load(self, place: int) -> EventLog:
        """As ``BatchSource.load``."""
        return self[place]


def assert_same_log(one: EventLog, other: EventLog) -> None:
    """The same cases, events, values, types and marks, in the same order."""
    assert_frame_equal(one.events, other.events, check_exact=True)
    assert_frame_equal(one.cases, other.cases, check_exact=True)
    assert one.offsets.tolist() == other.offsets.tolist()
    assert one.kept.tolist() == other.kept.tolist()


def assert_is_a_log(log: EventLog) -> None:
    """Check the invariants of an event log that any mechanism must keep."""
    assert log.offsets[0] == 0
    assert log.offsets[-1] == log.events.height
    assert len(log.offsets) == log.cases.height + 1
    assert (np.diff(log.offsets) >= 0).all()
    assert log.events[ACTIVITY].null_count() == 0
    assert log.cases[CASE_ID].n_unique() == log.cases.height
    if TIMESTAMP in log.events.columns:
        times = log.microseconds
        known = times.is_not_null().to_numpy()
        case = log.case_of[known]
        stamps = times.drop_nulls().to_numpy()
        # From one row to the next: not earlier, or of the next case.
        in_order = np.diff(stamps) >= 0
        next_case = np.diff(case) > 0
        assert (in_order | next_case).all()
