"""Give inserted events the attributes of real ones, so that nobody can tell by what an event lacks
that it was inserted.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.quantities import Frozen
from cloakwork.guarantees import Guarantee
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal, Theorem
from cloakwork.mechanisms.kanon.donors import NONE, draw_by_key
from cloakwork.mechanisms.kanon.inserted_times import with_times_of_inserted
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep, event_addresses
from cloakwork.noise import Stream


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


class Fill(Mechanism[FillParams]):
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
    action: ClassVar[str] = "give inserted events attributes"
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
    needs_all_cases: ClassVar[str] = "any case may lend its values to an inserted event"

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[FillParams] | Refusal:
        """The planner adds it behind a step that inserts events; alone it meets no goal."""
        return Refusal("never", "it completes events that another mechanism has inserted")

    def step(self, params: FillParams, facts: Facts) -> RewriteStep:
        """Copies values inside each column; who copies whom follows from the control flow."""
        columns = frozenset(params.columns)
        return RewriteStep(
            lineage=Lineage(
                reads=columns | {CONTROL_FLOW},
                writes=columns | {METADATA},
                fills=True,
                stability=None,
            ),
            rewrite=partial(self.rewrite, params),
        )

    def rewrite(self, params: FillParams, decision: Decision, stream: Stream) -> Rewrite:
        """Fill in the inserted events; all cases lie together.

        Any case may lend a row: a sample of the rows of each key would do for attributes alone,
        but beside quasi-identifiers there is a key for each place of each variant, so that the
        sample would be the log. Raw times need all kept ones: whether an activity is daily is said
        of all its times, and where days follow the season, an inserted one is like the kept days
        before and after it. The check reads all of them, and would take away what a sample misled.
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
        times = with_times_of_inserted(log, log.inserted, activity, source, stream.part("times"))
        events = events.with_columns(times)
    return replace(log, events=events)


def _positions_in_variant(log: EventLog, activity: Ints) -> list[Ints]:
    """For each event its position in its variant, and its variant together with its activity."""
    variants = variants_of(log)
    variant = variants.of_case[log.case_of]
    # Where the variant's own activities begin, plus the position: no two variants share a number.
    position = variants.offsets[variant] + log.position_of_event
    activities = activity.max(initial=0) + 1
    return [position, variant * activities + activity]


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
    # Counted from where the run of its case and activity starts.
    before[order] = np.arange(len(pair)) - np.repeat(start, size)
    return np.asarray(activity * (before.max(initial=0) + 1) + before, np.int64)


def _draw_source_rows(log: EventLog, keys: list[Ints], inserted: Bools, stream: Stream) -> Ints:
    """For each inserted event a random kept one that shares the first of ``keys`` for which there
    is any; -1 where there is none.
    """
    kept, to_fill = np.flatnonzero(~inserted), np.flatnonzero(inserted)
    rows = np.full(len(to_fill), NONE, np.int64)
    for key in keys:
        remaining = np.flatnonzero(rows == NONE)
        open_rows = to_fill[remaining]
        at = event_addresses(log, open_rows)
        rows[remaining] = draw_by_key(kept, key[kept], key[open_rows], stream, at)
    return rows


def _dense_codes(labels: pl.Series) -> Ints:
    """A number for each label: int64, dense."""
    return labels.cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64) - 1


def _or_null(rows: Ints) -> pl.Series:
    """Rows to gather, null where there is none."""
    frame = pl.DataFrame({"row": rows})
    return frame.select(pl.when(pl.col("row") != NONE).then("row")).to_series()
