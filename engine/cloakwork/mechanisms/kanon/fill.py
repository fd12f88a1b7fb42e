"""Give inserted events the attributes of real ones, so that nobody can tell by what an event lacks
that it was inserted.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.addresses import case_addresses, event_addresses
from cloakwork.mechanisms.base import (
    Decision,
    Gives,
    MapCases,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
    WithoutDecision,
)
from cloakwork.mechanisms.kanon.raw_times import (
    FAR,
    TimePrecisions,
    UntimedEvents,
    times_for,
)
from cloakwork.noise import Addresses, Stream
from cloakwork.quantities import Frozen

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NONE: Final = -1
"""Stands for no row."""
_LONGEST_SUM: Final = 2**60
"""Microseconds; gaps are cut so that a case's sum of them stays below, far inside int64."""


class FillParams(Frozen):
    """What is filled in, and from whom.

    ``columns``: what the policy releases of events beside the control flow: what lineage follows.
    ``times``: whether times are released as they are, so that inserted events get one, too.
    ``donors``: whose attributes an inserted event takes: those of an event of its ``activity`` or,
    beside quasi-identifiers, of the same place of its ``variant``.
    """

    columns: tuple[str, ...] = ()
    times: bool = False
    donors: Literal["activity", "variant"] = "activity"


class Fill(WithoutDecision):
    """Each inserted event copies the attributes of one kept event of its activity, missing ones
    included.

    Which event follows from the control flow and chance alone. Where times are released as they
    are, an inserted event lies at a random time between the kept events around it, as precise as a
    kept event of its activity (``raw_times``); at either end of a case, about a gap of its activity
    lies between. Where a mechanism releases times, it has given all events theirs before.

    The event copied is one of the same number among the events of its activity in its case, where
    one is kept.

    Beside quasi-identifiers an event is copied from the same place of a case that follows the same
    variant, so that what a class shares stays shared; if no event is kept there, from the activity
    in that variant, then in the log as a whole.

    **Why it gives nothing away.** It copies what is released as it stands, inside each column. A
    guarantee over values is brought about after it, over all events and over the kept ones alone,
    and is measured both ways.

    **Edge cases.** Nothing inserted: unchanged. No kept event of an activity: its inserted events
    stay without attributes, and the check of k-anonymity takes them away before it counts once
    more. So it does with an event between whose neighbours no time is as precise as those of its
    activity.
    """

    gives: ClassVar[tuple[Gives, ...]] = ()
    name: ClassVar[str] = "kanon/fill"
    summary: ClassVar[str] = (
        "Gives inserted events the attributes of kept events of the same activity."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "Every inserted event has exactly the attribute values of a kept event of its activity, "
        "if there is any.",
        "by construction",
    )
    Params = FillParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[FillParams] | Refusal:
        """The planner adds it behind a step that inserts events; alone it meets no goal."""
        return Refusal("never", "it completes events that another mechanism has inserted")

    def lineage(self, params: FillParams) -> Lineage:
        """Copies values inside each column; who copies whom follows from the control flow."""
        columns = frozenset(params.columns)
        return Lineage(
            reads=columns | {CONTROL_FLOW}, writes=columns | {METADATA}, fills=True, stability=None
        )

    def rewrite(self, params: FillParams, decision: Decision, stream: Stream) -> Rewrite:
        """Fill in the inserted events; all cases lie together.

        Any case may lend a row: a sample of the rows of each key would do for attributes alone,
        but beside quasi-identifiers there is a key for each place of each variant, so that the
        sample would be the log. Raw times need all kept ones: an inserted time must fit every
        precision in which its activity was ever recorded, and where days follow the season, the
        kept days next to it. A sample would leave some out, and an event of a precision that no
        kept one seems to have is taken away by the check.
        """
        return MapCases(lambda log: _with_filled_events(log, params, stream), together="log")


def _with_filled_events(log: EventLog, params: FillParams, stream: Stream) -> EventLog:
    """The log with every inserted event complete."""
    if log.inserted is None or not log.inserted.any():
        return log
    activity = _dense_codes(log.events[ACTIVITY])
    if params.donors == "variant":
        keys = [*_positions_in_variant(log, activity), activity]
    else:
        keys = [_occurrence_numbers(log, activity), activity]
    # Kept events copy themselves.
    source = np.arange(log.events.height)
    source[log.inserted] = _draw_source_rows(log, keys, log.inserted, stream.part("donors"))
    attributes = log.events.drop(ACTIVITY, TIMESTAMP, strict=False)
    events = log.events.with_columns(attributes.select(pl.all().gather(_or_null(source))))
    if params.times and TIMESTAMP in log.events.columns:
        times = _times_of_inserted(log, log.inserted, activity, source, stream.part("times"))
        events = events.with_columns(times)
    return replace(log, events=events)


def _positions_in_variant(log: EventLog, activity: Ints) -> list[Ints]:
    """For each event its position in its variant, and its variant together with its activity."""
    variants = variants_of(log)
    step = np.arange(log.events.height) - np.repeat(log.offsets[:-1], np.diff(log.offsets))
    variant = variants.of_case[log.case_of]
    activities = activity.max(initial=0) + 1
    return [variants.offsets[variant] + step, variant * activities + activity]


def _occurrence_numbers(log: EventLog, activity: Ints) -> Ints:
    """A number for each event: of its activity together with how many events of it the case has
    before.
    """
    pair = log.case_of * (activity.max(initial=0) + 1) + activity
    # Stable, so that the events of one case and activity lie side by side in the order of the log.
    order = np.argsort(pair, kind="stable")
    start = np.flatnonzero(np.diff(pair[order], prepend=-1))
    size = np.diff(start, append=len(pair))
    before = np.empty(len(pair), np.int64)
    before[order] = np.arange(len(pair)) - np.repeat(start, size)
    return np.asarray(activity * (before.max(initial=0) + 1) + before, np.int64)


def _draw_source_rows(log: EventLog, keys: list[Ints], inserted: Bools, stream: Stream) -> Ints:
    """For each inserted event a random kept one that shares the first of ``keys`` for which there
    is any; -1 where there is none.
    """
    kept, to_fill = np.flatnonzero(~inserted), np.flatnonzero(inserted)
    rows = np.full(len(to_fill), _NONE, np.int64)
    for key in keys:
        remaining = np.flatnonzero(rows == _NONE)
        open_rows = to_fill[remaining]
        at = event_addresses(log, open_rows)
        rows[remaining] = draw_by_key(kept, key[kept], key[open_rows], stream, at)
    return rows


def draw_by_key(pool: Ints, key: Ints, requested: Ints, stream: Stream, at: Addresses) -> Ints:
    """For each of the keys ``requested`` a random entry of ``pool`` (int64, with its ``key``) that
    has it, by a draw at ``at``; -1 where none has.
    """
    order = np.argsort(key, kind="stable")
    ascending = key[order]
    first = np.searchsorted(ascending, requested, side="left")
    size = np.searchsorted(ascending, requested, side="right") - first
    drawn = np.full(len(requested), _NONE, np.int64)
    occurs = np.flatnonzero(size > 0)
    if len(occurs):
        offset = stream.uniform(size[occurs].astype(np.int64), at.at(occurs))
        drawn[occurs] = pool[order[first[occurs] + offset]]
    return drawn


def _dense_codes(labels: pl.Series) -> Ints:
    """A number for each label: int64, dense."""
    return labels.cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64) - 1


def _or_null(rows: Ints) -> pl.Series:
    """Rows to gather, null where there is none."""
    frame = pl.DataFrame({"row": rows})
    return frame.select(pl.when(pl.col("row") != _NONE).then("row")).to_series()


def _times_of_inserted(
    log: EventLog, inserted: Bools, activity: Ints, source: Ints, stream: Stream
) -> pl.Series:
    """The times of all events, with one for each inserted event whose source has one."""
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    known = stamps.is_not_null().to_numpy() & ~inserted
    if not known.any():
        return log.events[TIMESTAMP]
    time = np.where(known, stamps.fill_null(0).to_numpy(), 0)
    neighbours = earlier, later = _neighbours(known, log.offsets)
    gaps = _gaps(log, time, known, activity, stream.part("gaps"))
    span = (int(time[known].min()), int(time[known].max()))
    target = np.clip(_target_times(log, time, known, neighbours, gaps, stream), *span)
    donor = np.maximum(source, 0)
    rows = np.flatnonzero(inserted & (source != _NONE) & known[donor])
    # Events are in one gap if they have the same case and the same known event before them.
    case, behind = log.case_of[rows], earlier[rows]
    starts_gap = (np.diff(case, prepend=_NONE) != 0) | (np.diff(behind, prepend=_NONE) != 0)
    gap_index = np.cumsum(starts_gap)
    low = np.where(earlier != _NONE, time[earlier], -FAR)[rows]
    high = np.where(later != _NONE, time[later], FAR)[rows]
    # Targets are drawn one by one; inside a gap they are given out in ascending order.
    by_gap_and_target = rows[np.lexsort((target[rows], gap_index))]
    untimed = UntimedEvents(
        gap_index=gap_index,
        low=low,
        high=np.maximum(high, low),
        target_time=target[by_gap_and_target],
        activity=activity[rows],
        donor=time[donor[rows]],
        span=span,
    )
    complete = time.copy()
    complete[rows] = times_for(untimed, TimePrecisions.of(time[known], activity[known]))
    has_time = known.copy()
    has_time[rows] = True
    times = pl.Series(TIMESTAMP, complete).cast(TIME_TYPE).cast(log.events.schema[TIMESTAMP])
    return pl.select(pl.when(pl.Series(has_time)).then(times).alias(TIMESTAMP)).to_series()


def _target_times(
    log: EventLog,
    time: Ints,
    known: Bools,
    neighbours: tuple[Ints, Ints],
    gaps: Ints,
    stream: Stream,
) -> Ints:
    """A random time for each event near which it may have taken place: between its neighbours with
    a known time; its gap behind or before its only neighbour; in a case without any known time, its
    gaps behind a random time of the log.
    """
    earlier, later = neighbours
    has_earlier, has_later = earlier != _NONE, later != _NONE
    # Differences of the running total add up the gaps between two events.
    total = np.cumsum(gaps)
    start = np.repeat(log.offsets[:-1], np.diff(log.offsets))
    after = time[earlier] + total - total[earlier]
    before = time[later] - (total[later] - total)
    known_times = time[known]
    one_key = np.zeros(len(known_times), np.int64)
    asked, at = np.zeros(log.cases.height, np.int64), case_addresses(log)
    start_of_case = draw_by_key(known_times, one_key, asked, stream.part("starts"), at)
    of_case = start_of_case[log.case_of] + total - total[start]
    width = np.maximum(time[later] - time[earlier], 0) + 1
    every_event = event_addresses(log, np.arange(log.events.height))
    between = time[earlier] + stream.part("between").uniform(width, every_event)
    return np.select(
        [has_earlier & has_later, has_earlier, has_later], [between, after, before], of_case
    )


def _neighbours(known: Bools, offsets: Ints) -> tuple[Ints, Ints]:
    """For each event the row of the last known one up to it in its case, and of the first from it
    on; -1 for none.
    """
    rows = np.arange(len(known))
    lengths = np.diff(offsets)
    first, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    earlier = np.maximum.accumulate(np.where(known, rows, _NONE))
    # From the end backwards, the last known row so far is the next one.
    later = np.minimum.accumulate(np.where(known, rows, len(known))[::-1])[::-1]
    return np.where(earlier >= first, earlier, _NONE), np.where(later < end, later, _NONE)


def _gaps(log: EventLog, time: Ints, known: Bools, activity: Ints, stream: Stream) -> Ints:
    """For each event a gap by which a kept event of its activity follows the one before; else of
    any; else 0.
    """
    rows = np.flatnonzero(known)
    case = log.case_of[rows]
    follows = np.flatnonzero(case[1:] == case[:-1]) + 1
    longest = _LONGEST_SUM // (int(np.diff(log.offsets).max()) + 1)
    gap = np.clip(time[rows[follows]] - time[rows[follows - 1]], 0, longest)
    if not len(gap):
        return np.zeros(len(time), np.int64)
    at = event_addresses(log, np.arange(len(time)))
    place, of_activity = np.arange(len(gap)), activity[rows[follows]]
    index = draw_by_key(place, of_activity, activity, stream.part("of activity"), at)
    of_any = stream.part("of any").uniform(np.full(len(time), len(gap), np.int64), at)
    return np.asarray(gap[np.where(index == _NONE, of_any, index)], np.int64)
