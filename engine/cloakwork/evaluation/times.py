"""What noise on times took away: figures of a release's times against its source's, for the
internal report alone; and how times of two logs are drawn.

They read the raw log outside any guarantee, and are taken where events of source and release still
correspond: before and after the step that rewrites times, which keeps events and their order.
"""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints, begins_of
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.quantities import Figure, Frozen, figure
from cloakwork.log.eventlog import TIMESTAMP, EventLog, LogHandle, joined_batches
from cloakwork.plan.model import Step

MOST_EVENTS: Final = 500_000
"""About how many events are compared: batches are read until there are so many."""

_HOUR: Final = 3.6e9  # microseconds
_MARKS: Final = ((1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 d"), (604_800, "1 w"))
_YEAR: Final = 365 * 86_400
_CLASSES_OF_POWER: Final = 4
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class TimeUtility(Frozen):
    """How far released times are from those of the source; hours and shares. None where there is
    nothing to compare.

    Events without a raw time (inserted ones) count nowhere; a gap is the time between two
    neighbours that both have one.
    """

    events: int | None = figure("Events compared", "Events that have a time in the source.")
    error_mean: Figure = figure(
        "Error of a time, mean", "Hours by which a released time is off. 0 is best."
    )
    error_median: Figure = figure(
        "Error of a time, median", "Hours: half of the released times are off by less."
    )
    duration_source_mean: Figure = figure(
        "Case duration in the source, mean", "Hours from first to last event."
    )
    duration_released_mean: Figure = figure(
        "Case duration released, mean", "Hours; the closer to the source the better."
    )
    duration_source_median: Figure = figure("Case duration in the source, median", "Hours.")
    duration_released_median: Figure = figure("Case duration released, median", "Hours.")
    duration_distance: Figure = figure(
        "Distance of case durations",
        "Hours between both distributions (Wasserstein distance). 0 is best.",
    )
    gap_source_median: Figure = figure(
        "Time between neighbouring events in the source, median", "Hours."
    )
    gap_released_median: Figure = figure(
        "Time between neighbouring events released, median", "Hours."
    )
    zeros_source: Figure = figure(
        "Share of zero gaps in the source", "Share of neighbouring events at the same time."
    )
    zeros_released: Figure = figure(
        "Share of zero gaps released", "Share; the closer to the source the better."
    )
    notes: tuple[str, ...] = ()


def rewrites_only_times(step: Step) -> bool:
    """Whether events before and after a step correspond to one another, with other times."""
    written = step.lineage.writes
    return TIMESTAMPS in written and CONTROL_FLOW not in written and not step.lineage.enriches


def compare_times_of_batches(before: LogHandle, after: LogHandle) -> TimeUtility:
    """The figures of the first batches, of ``MOST_EVENTS`` events or a few more.

    Reading a batch may mean to carry out the step anew. Engines spread cases over batches by a
    keyed hash, so that the first ones hold a random sample.
    """
    source: list[EventLog] = []
    released: list[EventLog] = []
    for old, new in zip(before.batches(), after.batches(), strict=False):
        source.append(old)
        released.append(new)
        if sum(batch.events.height for batch in source) >= MOST_EVENTS:
            break
    figures = compare_times(joined_batches(source), joined_batches(released))
    cases = sum(batch.cases.height for batch in source)
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
    # As far as counts by case tell; the caller compares a step that keeps events and order.
    if not np.array_equal(before.offsets, after.offsets):
        said = "the step changed which events there are"
        return TimeUtility(notes=(f"{said}, so their times cannot be compared one by one",))
    timed = before.events[TIMESTAMP].is_not_null() & after.events[TIMESTAMP].is_not_null()
    known = np.flatnonzero(timed.to_numpy())
    if not len(known):
        return TimeUtility(events=0)
    case = before.case_of[known]
    raw, noised = (log.microseconds.to_numpy()[known] / _HOUR for log in (before, after))
    error = np.abs(noised - raw)

    # The first and the last known event of each case.
    begins = begins_of(case)
    ends = np.append(begins[1:], len(case)) - 1
    durations, noised_durations = (hours[ends] - hours[begins] for hours in (raw, noised))
    # In one dimension, pairing sorted values is an optimal transport (Wasserstein distance 1).
    moved_by = np.abs(np.sort(durations) - np.sort(noised_durations))

    # Neighbours in the log itself, with no event without a time between them.
    is_next = (np.diff(case) == 0) & (np.diff(known) == 1)
    follows = np.flatnonzero(is_next) + 1
    gaps, noised_gaps = (hours[follows] - hours[follows - 1] for hours in (raw, noised))
    return TimeUtility(
        events=len(raw),
        error_mean=float(error.mean()),
        error_median=float(np.median(error)),
        duration_source_mean=float(durations.mean()),
        duration_released_mean=float(noised_durations.mean()),
        duration_source_median=float(np.median(durations)),
        duration_released_median=float(np.median(noised_durations)),
        duration_distance=float(moved_by.mean()),
        gap_source_median=float(np.median(gaps)) if len(gaps) else None,
        gap_released_median=float(np.median(noised_gaps)) if len(gaps) else None,
        zeros_source=float((gaps == 0).mean()) if len(gaps) else None,
        zeros_released=float((noised_gaps == 0).mean()) if len(gaps) else None,
    )


class ShareCurve(Frozen):
    """Shares of the source and of the release in the same classes, which follow one another.

    ``marks``: where along them, from 0 to 1, words stand that say what a class is.
    """

    title: str
    source: tuple[float, ...]
    released: tuple[float, ...]
    marks: tuple[tuple[float, str], ...]


def duration_curve(source: Floats, release: Floats) -> ShareCurve:
    """Case durations in seconds, in four classes for each power of ten; the first holds those below
    one second.
    """
    longest = max(float(side.max(initial=_YEAR)) for side in (source, release))
    classes = int(np.ceil(np.log10(longest) * _CLASSES_OF_POWER)) + 1
    sides = [
        np.where(side < 1, 0, np.log10(np.maximum(side, 1)) * _CLASSES_OF_POWER + 1)
        for side in (source, release)
    ]
    marks = [
        ((np.log10(seconds) * _CLASSES_OF_POWER + 1) / (classes + 1), words)
        for seconds, words in (*_MARKS, (_YEAR, "1 y"))
    ]
    counted = [side.astype(np.int64) for side in sides]
    return _curve("How long cases take", counted, classes + 1, marks)


def profile_curve(
    source: Ints,
    release: Ints,
    slots: int,
    clocks: str = "UTC",
) -> ShareCurve:
    """Events by hour of the week (``slots`` 168), by these ``clocks``, or day of the week (7), from
    Monday on.
    """
    marks = [(place / 7, day) for place, day in enumerate(_DAYS)]
    what = "When events happen"
    if slots > 7:
        what += f": hours of the week, {clocks}"
    return _curve(what, [source, release], slots, marks)


def _curve(
    title: str,
    sides: list[Ints],
    classes: int,
    marks: list[tuple[float, str]],
) -> ShareCurve:
    shares = [
        np.bincount(np.minimum(side, classes - 1), minlength=classes) / max(len(side), 1)
        for side in sides
    ]
    return ShareCurve(
        title=title,
        source=tuple(shares[0].round(6).tolist()),
        released=tuple(shares[1].round(6).tolist()),
        marks=tuple((round(float(place), 4), words) for place, words in marks),
    )
