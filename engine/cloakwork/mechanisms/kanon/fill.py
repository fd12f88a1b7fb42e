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
    MapCases,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
    WithoutDecision,
)
from cloakwork.mechanisms.kanon.raw_times import FAR, Patterns, Places, placed
from cloakwork.noise import Addresses, Stream
from cloakwork.quantities import Frozen

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NOBODY: Final = -1
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
    in that variant, then in the whole log.

    **Why it gives nothing away.** It copies what is released as it stands, inside each column. A
    guarantee over values is brought about after it, over all events and over the kept ones alone,
    and is measured both ways.

    **Edge cases.** Nothing inserted: unchanged. No kept event of an activity: its inserted events
    stay without attributes, and the check of k-anonymity takes them away before it counts once
    more. So it does with a raw time whose neighbours leave no room for one that is as precise as
    those of its activity.
    """

    name: ClassVar[str] = "kanon/fill"
    summary: ClassVar[str] = (
        "Gives inserted events the attributes of kept events of the same activity."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "Every inserted event has exactly the attribute values of a kept event of its activity, if there is any.",
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
        """Fill in the inserted events; any case may lend its values, so all lie together."""
        return MapCases(lambda log: _completed(log, params, stream), together="log")


def _completed(log: EventLog, params: FillParams, stream: Stream) -> EventLog:
    """The log with every inserted event complete."""
    if log.inserted is None or not log.inserted.any():
        return log
    activity = _numbered(log.events[ACTIVITY])
    first = _places(log, activity) if params.donors == "variant" else [_repeats(log, activity)]
    keys = [*first, activity]
    source = np.arange(log.events.height)
    source[log.inserted] = _drawn_rows(log, keys, log.inserted, stream.part("donors"))
    attributes = log.events.drop(ACTIVITY, TIMESTAMP, strict=False)
    events = log.events.with_columns(attributes.select(pl.all().gather(_or_null(source))))
    if params.times and TIMESTAMP in log.events.columns:
        events = events.with_columns(_times(log, activity, source, stream.part("times")))
    return replace(log, events=events)


def _places(log: EventLog, activity: Ints) -> list[Ints]:
    """For each event its place in its variant, and its variant together with its activity."""
    variants = variants_of(log)
    step = np.arange(log.events.height) - np.repeat(log.offsets[:-1], np.diff(log.offsets))
    of_event = variants.of_case[log.case_of]
    return [variants.offsets[of_event] + step, of_event * (activity.max(initial=0) + 1) + activity]


def _repeats(log: EventLog, activity: Ints) -> Ints:
    """A number for each event: of its activity together with how many events of it the case has
    before.
    """
    pair = log.case_of * (activity.max(initial=0) + 1) + activity
    order = np.argsort(pair, kind="stable")
    start = np.flatnonzero(np.diff(pair[order], prepend=-1))
    before = np.empty(len(pair), np.int64)
    before[order] = np.arange(len(pair)) - np.repeat(start, np.diff(start, append=len(pair)))
    return np.asarray(activity * (before.max(initial=0) + 1) + before, np.int64)


def _drawn_rows(log: EventLog, keys: list[Ints], inserted: Flags, stream: Stream) -> Ints:
    """For each inserted event a random kept one that shares the first of ``keys`` for which there
    is any.
    """
    kept, lost = np.flatnonzero(~inserted), np.flatnonzero(inserted)
    rows = np.full(len(lost), _NOBODY, np.int64)
    for key in keys:
        open_ = np.flatnonzero(rows == _NOBODY)
        at = event_addresses(log, lost[open_])
        rows[open_] = drawn(kept, key[kept], key[lost[open_]], stream, at)
    return rows


def drawn(pool: Ints, key: Ints, asked: Ints, stream: Stream, at: Addresses) -> Ints:
    """For each key of ``asked`` a random entry of ``pool`` (int64, with its ``key``) that has it,
    by a draw at ``at``; -1 where none has.
    """
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], asked, side="left")
    size = np.searchsorted(key[order], asked, side="right") - first
    found = np.full(len(asked), _NOBODY, np.int64)
    some = np.flatnonzero(size > 0)
    if len(some):
        place = stream.uniform(size[some].astype(np.int64), at.at(some))
        found[some] = pool[order[first[some] + place]]
    return found


def _numbered(labels: pl.Series) -> Ints:
    """A number for each label: int64, dense."""
    return labels.cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64) - 1


def _or_null(rows: Ints) -> pl.Series:
    """Rows to gather, null where there is nobody."""
    return (
        pl.Series("row", rows)
        .to_frame()
        .select(pl.when(pl.col("row") != _NOBODY).then("row"))
        .to_series()
    )


def _times(log: EventLog, activity: Ints, source: Ints, stream: Stream) -> pl.Series:
    """The times of all events, with one for each inserted event whose source has one: between its
    neighbours, or a gap drawn from its activity behind or before the only neighbour.
    """
    assert log.inserted is not None  # noqa: S101 - asked only where events are inserted
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    known = stamps.is_not_null().to_numpy() & ~log.inserted
    if not known.any():
        return log.events[TIMESTAMP]
    time = np.where(known, stamps.fill_null(0).to_numpy(), 0)
    earlier, later = _neighbours(known, log.offsets)
    first, last = earlier != _NOBODY, later != _NOBODY
    total = np.cumsum(_gaps(log, time, known, activity, stream.part("gaps")))
    start = np.repeat(log.offsets[:-1], np.diff(log.offsets))
    after = time[earlier] + total - total[earlier]
    before = time[later] - (total[later] - total)
    alone = drawn(
        time[known],
        np.zeros(int(known.sum()), np.int64),
        np.zeros(log.cases.height, np.int64),
        stream.part("starts"),
        case_addresses(log),
    )
    neither = alone[log.case_of] + total - total[start]
    room = np.maximum(time[later] - time[earlier], 0) + 1
    every_event = event_addresses(log, np.arange(log.events.height))
    middle = time[earlier] + stream.part("between").uniform(room, every_event)
    aim = np.select([first & last, first, last], [middle, after, before], neither)
    span = (int(time[known].min()), int(time[known].max()))
    aim = np.clip(aim, *span)
    donor = np.maximum(source, 0)
    rows = np.flatnonzero(log.inserted & (source != _NOBODY) & known[donor])
    case, behind = log.case_of[rows], earlier[rows]
    run = np.cumsum((np.diff(case, prepend=_NOBODY) != 0) | (np.diff(behind, prepend=_NOBODY) != 0))
    low = np.where(first, time[earlier], -FAR)[rows]
    high = np.maximum(np.where(last, time[later], FAR)[rows], low)
    places = Places(
        run,
        low,
        high,
        aim[rows[np.lexsort((aim[rows], run))]],
        activity[rows],
        time[donor[rows]],
        span,
    )
    filled = time.copy()
    filled[rows] = placed(places, Patterns.of(time[known], activity[known]))
    lacks = ~known
    lacks[rows] = False
    whole = pl.Series(TIMESTAMP, filled).cast(TIME_TYPE).cast(log.events.schema[TIMESTAMP])
    return pl.select(pl.when(pl.Series(~lacks)).then(whole).alias(TIMESTAMP)).to_series()


def _neighbours(known: Flags, offsets: Ints) -> tuple[Ints, Ints]:
    """For each event the row of the last known one up to it in its case, and of the first from it
    on; -1 for none.
    """
    rows = np.arange(len(known))
    first, end = (np.repeat(edge, np.diff(offsets)) for edge in (offsets[:-1], offsets[1:]))
    earlier = np.maximum.accumulate(np.where(known, rows, _NOBODY))
    later = np.minimum.accumulate(np.where(known, rows, len(known))[::-1])[::-1]
    return np.where(earlier >= first, earlier, _NOBODY), np.where(later < end, later, _NOBODY)


def _gaps(log: EventLog, time: Ints, known: Flags, activity: Ints, stream: Stream) -> Ints:
    """For each event a gap by which a kept event of its activity follows the one before; else of
    any; else 0.
    """
    rows = np.flatnonzero(known)
    case = log.case_of[rows]
    follows = np.flatnonzero(case[1:] == case[:-1]) + 1
    most = _LONGEST_SUM // (int(np.diff(log.offsets).max()) + 1)
    gap = np.clip(time[rows[follows]] - time[rows[follows - 1]], 0, most)
    if not len(gap):
        return np.zeros(len(time), np.int64)
    at = event_addresses(log, np.arange(len(time)))
    of_activity = activity[rows[follows]]
    found = drawn(np.arange(len(gap)), of_activity, activity, stream.part("of activity"), at)
    anywhere = stream.part("of any").uniform(np.full(len(time), len(gap), np.int64), at)
    return np.asarray(gap[np.where(found == _NOBODY, anywhere, found)], np.int64)
