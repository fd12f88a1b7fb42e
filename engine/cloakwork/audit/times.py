"""What noise on times took away: figures of a release's times against its source's, for the
internal report alone.

They read the raw log outside any guarantee, as ``audit/utility.py`` does, and are taken where
events of source and release still correspond: before and after the step that rewrites times, which
keeps events and their order.
"""

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.quantities import Frozen

MOST_PAIRS: Final = 10
"""Directly-follows pairs that are shown, the most frequent first."""

_HOUR: Final = 3.6e9  # microseconds

Floats = NDArray[np.float64]


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


class Times(Frozen):
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


def compared(before: EventLog, after: EventLog) -> Times:
    """The figures of ``after`` against ``before``: the same events in the same order, with other
    times.
    """
    if any(TIMESTAMP not in log.events.columns for log in (before, after)):
        return Times(notes=("there are no times to compare",))
    if before.events.height != after.events.height or not np.array_equal(
        before.offsets, after.offsets
    ):
        return Times(
            notes=(
                "the step changed which events there are, so their times cannot be compared one by one",
            )
        )
    known = (
        before.events[TIMESTAMP].is_not_null() & after.events[TIMESTAMP].is_not_null()
    ).to_numpy()
    if not known.any():
        return Times(events=0)
    raw, released = (_hours(log, known) for log in (before, after))
    case = before.case_of[known]
    error = np.abs(released - raw)
    follows = np.flatnonzero((case[1:] == case[:-1]) & (np.diff(np.flatnonzero(known)) == 1)) + 1
    begins = np.flatnonzero(np.diff(case, prepend=-1) != 0)
    ends = np.append(begins[1:], len(case)) - 1
    durations = raw[ends] - raw[begins], released[ends] - released[begins]
    gaps = raw[follows] - raw[follows - 1], released[follows] - released[follows - 1]
    labels = before.events[ACTIVITY].cast(pl.String).fill_null("").filter(pl.Series(known))
    return Times(
        events=len(raw),
        error_mean=float(error.mean()),
        error_median=float(np.median(error)),
        duration_source_mean=float(durations[0].mean()),
        duration_released_mean=float(durations[1].mean()),
        duration_source_median=float(np.median(durations[0])),
        duration_released_median=float(np.median(durations[1])),
        duration_distance=float(np.abs(np.sort(durations[0]) - np.sort(durations[1])).mean()),
        gap_source_median=_median(gaps[0]),
        gap_released_median=_median(gaps[1]),
        zeros_source=_zeros(gaps[0]),
        zeros_released=_zeros(gaps[1]),
        pairs=_pairs(labels, follows, gaps),
    )


def _hours(log: EventLog, known: NDArray[np.bool_]) -> Floats:
    stamps = log.events[TIMESTAMP].dt.timestamp("us").to_numpy()
    return np.asarray(stamps[known] / _HOUR, np.float64)


def _median(gaps: Floats) -> float | None:
    return float(np.median(gaps)) if len(gaps) else None


def _zeros(gaps: Floats) -> float | None:
    return float((gaps == 0).mean()) if len(gaps) else None


def _pairs(
    labels: pl.Series, follows: NDArray[np.int64], gaps: tuple[Floats, Floats]
) -> tuple[PairTimes, ...]:
    """The most frequent directly-follows pairs."""
    first, second = labels.gather(pl.Series(follows - 1)), labels.gather(pl.Series(follows))
    rows = pl.DataFrame({"first": first, "second": second, "source": gaps[0], "released": gaps[1]})
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
