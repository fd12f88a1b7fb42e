"""What noise on times took away: figures of a release's times against its source's, for the
internal report alone.

They read the raw log outside any guarantee, as ``evaluation/utility.py`` does, and are taken where
events of source and release still correspond: before and after the step that rewrites times, which
keeps events and their order.
"""

from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.quantities import Frozen
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog, joined_batches
from cloakwork.log.handle import LogHandle

MOST_PAIRS: Final = 10
"""Directly-follows pairs that are shown, the most frequent first."""

_HOUR: Final = 3.6e9  # microseconds


def _figure(title: str, description: str) -> Any:
    return Field(default=None, title=title, description=description)


class PairTimes(Frozen):
    """One activity directly followed by another: how often, and the hours between them before and
    after.
    """

    first: str
    second: str
    times: int
    source_median: float
    released_median: float
    source_mean: float
    released_mean: float
    source_zeros: float
    released_zeros: float


class TimeUtility(Frozen):
    """How far released times are from those of the source; hours and shares. None where there is
    nothing to compare.

    Events without a raw time (inserted ones) count nowhere; a gap is the time between two
    neighbours that both have one.
    """

    events: int | None = _figure("Events compared", "Events that have a time in the source.")
    error_mean: float | None = _figure(
        "Error of a time, mean", "Hours by which a released time is off. 0 is best."
    )
    error_median: float | None = _figure(
        "Error of a time, median", "Half of the released times are off by less."
    )
    duration_source_mean: float | None = _figure(
        "Case duration in the source, mean", "Hours from first to last event."
    )
    duration_released_mean: float | None = _figure(
        "Case duration released, mean", "The closer to the source the better."
    )
    duration_source_median: float | None = _figure("Case duration in the source, median", "Hours.")
    duration_released_median: float | None = _figure("Case duration released, median", "Hours.")
    duration_distance: float | None = _figure(
        "Distance of case durations",
        "Wasserstein distance of both distributions, in hours. 0 is best.",
    )
    gap_source_median: float | None = _figure(
        "Time between neighbouring events in the source, median", "Hours."
    )
    gap_released_median: float | None = _figure(
        "Time between neighbouring events released, median", "Hours."
    )
    zeros_source: float | None = _figure(
        "Share of zero gaps in the source", "Neighbouring events at the same time."
    )
    zeros_released: float | None = _figure(
        "Share of zero gaps released", "The closer to the source the better."
    )
    pairs: tuple[PairTimes, ...] = ()
    notes: tuple[str, ...] = ()


MOST_EVENTS: Final = 500_000
"""About how many events are compared: batches are read until there are so many."""


def compare_times_of_batches(before: LogHandle, after: LogHandle) -> TimeUtility:
    """The figures of the first batches, of ``MOST_EVENTS`` events or a few more.

    Reading a batch may mean to carry out the step anew. Engines spread cases over batches by a
    keyed hash, so that the first ones hold a random sample.
    """
    found = ([], [])  # type: tuple[list[EventLog], list[EventLog]]
    events = cases = 0
    for batches in zip(before.batches(), after.batches(), strict=False):
        for side, batch in zip(found, batches, strict=True):
            side.append(batch)
        events += batches[0].events.height
        cases += batches[0].cases.height
        if events >= MOST_EVENTS:
            break
    figures = compare_times(*(joined_batches(side) for side in found))
    if cases == before.case_count:
        return figures
    note = f"times were compared on a sample of {cases:,} of {before.case_count:,} cases"
    return figures.model_copy(update={"notes": (*figures.notes, note)})


def compare_times(before: EventLog, after: EventLog) -> TimeUtility:
    """The figures of ``after`` against ``before``: the same events in the same order, with other
    times.
    """
    if any(TIMESTAMP not in log.events.columns for log in (before, after)):
        return TimeUtility(notes=("there are no times to compare",))
    if not _have_the_same_events(before, after):
        note = (
            "the step changed which events there are, so their times cannot be compared one by one"
        )
        return TimeUtility(notes=(note,))
    timed = before.events[TIMESTAMP].is_not_null() & after.events[TIMESTAMP].is_not_null()
    known = timed.to_numpy()
    if not known.any():
        return TimeUtility(events=0)
    raw = _hours_of(before, known)
    released = _hours_of(after, known)
    error = np.abs(released - raw)
    case = before.case_of[known]

    begins = np.flatnonzero(np.diff(case, prepend=-1) != 0)
    ends = np.append(begins[1:], len(case)) - 1
    raw_durations = raw[ends] - raw[begins]
    released_durations = released[ends] - released[begins]
    # In one dimension, pairing sorted values is an optimal transport (Wasserstein distance 1).
    moved_by = np.abs(np.sort(raw_durations) - np.sort(released_durations))

    same_case = case[1:] == case[:-1]
    neighbours = np.diff(np.flatnonzero(known)) == 1
    follows = np.flatnonzero(same_case & neighbours) + 1
    raw_gaps = raw[follows] - raw[follows - 1]
    released_gaps = released[follows] - released[follows - 1]
    labels = before.events[ACTIVITY].cast(pl.String).fill_null("").filter(pl.Series(known))
    return TimeUtility(
        events=len(raw),
        error_mean=float(error.mean()),
        error_median=float(np.median(error)),
        duration_source_mean=float(raw_durations.mean()),
        duration_released_mean=float(released_durations.mean()),
        duration_source_median=float(np.median(raw_durations)),
        duration_released_median=float(np.median(released_durations)),
        duration_distance=float(moved_by.mean()),
        gap_source_median=_median_of(raw_gaps),
        gap_released_median=_median_of(released_gaps),
        zeros_source=_share_of_zeros(raw_gaps),
        zeros_released=_share_of_zeros(released_gaps),
        pairs=_most_frequent_pairs(labels, follows, raw_gaps, released_gaps),
    )


def _have_the_same_events(before: EventLog, after: EventLog) -> bool:
    """As far as counts by case tell; the caller compares a step that keeps events and order."""
    if before.events.height != after.events.height:
        return False
    return np.array_equal(before.offsets, after.offsets)


def _hours_of(log: EventLog, known: Bools) -> Floats:
    stamps = log.events[TIMESTAMP].dt.timestamp("us").to_numpy()
    return np.asarray(stamps[known] / _HOUR, np.float64)


def _median_of(gaps: Floats) -> float | None:
    return float(np.median(gaps)) if len(gaps) else None


def _share_of_zeros(gaps: Floats) -> float | None:
    return float((gaps == 0).mean()) if len(gaps) else None


def _most_frequent_pairs(
    labels: pl.Series, follows: Ints, raw_gaps: Floats, released_gaps: Floats
) -> tuple[PairTimes, ...]:
    """The most frequent directly-follows pairs, and their gaps before and after."""
    rows = pl.DataFrame(
        {
            "first": labels.gather(pl.Series(follows - 1)),
            "second": labels.gather(pl.Series(follows)),
            "source": raw_gaps,
            "released": released_gaps,
        }
    )
    found = rows.group_by("first", "second").agg(
        pl.len().alias("times"),
        pl.col("source").median().alias("source_median"),
        pl.col("released").median().alias("released_median"),
        pl.col("source").mean().alias("source_mean"),
        pl.col("released").mean().alias("released_mean"),
        (pl.col("source") == 0).mean().alias("source_zeros"),
        (pl.col("released") == 0).mean().alias("released_zeros"),
    )
    top = found.sort(["times", "first", "second"], descending=[True, False, False]).head(MOST_PAIRS)
    return tuple(PairTimes.model_validate(row) for row in top.to_dicts())
