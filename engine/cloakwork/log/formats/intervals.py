"""Logs that say when work on an event began: read as one event with a service time, written with
``start_timestamp`` again, as pm4py has it.

In between there are no starts: how long work took is an attribute of numbers, and the start is
``time:timestamp`` less it (decision 15).
"""

from dataclasses import replace
from typing import Final

import polars as pl

from cloakwork.base.naming import (
    LIFECYCLE,
    SERVICE_TIME,
    START,
    TIME_TYPE,
    TIMESTAMP,
    nulls,
    values_of,
    without,
)
from cloakwork.log.eventlog import EventLog, not_text
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.log.times import parse_times, within_calendar

_SECOND: Final = 1_000_000  # microseconds
_MOST: Final = 1 << 40
"""Seconds, more than the calendar has; in microseconds, 64 bits."""


def as_asked(log: EventLog, request: ReadRequest) -> EventLog:
    """The log with service times, and what ``activity_with`` names behind the activity and a plus
    sign, in place of an attribute of its own.

    Both as the source spells them: each event's activity follows from that event alone, and is
    missing where it is over the limit of a value. LogError where the spelling is not known.
    """
    if starts := request.written.starts:
        # Also where no event has a start: one more case changes no other.
        log = _respelt(log, SERVICE_TIME)
        if starts != SERVICE_TIME:
            log = replace(log, events=without(log.events, SERVICE_TIME))
    log = with_service_times(log, request)
    name = request.written.activity_with
    if name is None or not {name, request.activity} <= {*log.events.columns}:
        return log
    texts = []
    for each in (request.activity, name):
        text = log.text_of(each)
        if text is None:
            raise not_text("log", each, log.events.schema[each])
        texts.append(text)
    label = texts[0] + ("+" + texts[1]).fill_null("")
    is_large = label.str.len_bytes() > request.bounds.value_size
    label = label.set(is_large.fill_null(value=False), None)
    events = without(log.events, name).with_columns(label.alias(request.activity))
    return _respelt(replace(log, events=events), request.activity)


def _respelt(log: EventLog, name: str) -> EventLog:
    """Without the source's spelling of ``name``, which holds other values."""
    texts = dict(log.source.texts)
    texts.pop(name, None)
    return replace(log, source=replace(log.source, texts=texts))


def with_service_times(log: EventLog, request: ReadRequest) -> EventLog:
    """The log with ``service_time`` in place of the starts that ``request`` names, if any; missing
    where a start is, or lies behind its completion.

    Of pairs of ``lifecycle:transition`` the completion stays, and starts are left out: the earliest
    open start of the activity in the case is a completion's own.
    """
    name = request.written.starts
    if name is None or not {name, request.timestamp, request.activity} <= {*log.events.columns}:
        return log
    # As the source spells it, whatever kind all values together are read as.
    activity = log.text_of(request.activity)
    if activity is None:
        activity = values_of(log.events, request.activity)
    events = pl.DataFrame(
        {
            "case": log.case_of,
            "activity": activity,
            "ended": values_of(log.events, request.timestamp).cast(TIME_TYPE),
            "began": values_of(log.events, name),
        }
    )
    if name == LIFECYCLE:
        events, is_start = _paired(events)
        log = log.keep_events(~is_start.to_numpy())
    elif not events["began"].dtype.is_temporal():
        began = parse_times(events["began"].cast(pl.String)).values
        events = events.with_columns(began=began)
    seconds = (pl.col("ended") - pl.col("began").cast(TIME_TYPE)).dt.total_microseconds() // _SECOND
    service = events.select(pl.when(seconds >= 0).then(seconds)).to_series()
    others = log.events if name == LIFECYCLE else without(log.events, name)
    said = f"when work began was read from '{name}': service_time is the seconds until it ended"
    events = others.with_columns(service.alias(SERVICE_TIME))
    return replace(log, events=events, notes=(*log.notes, said))


def _paired(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """The events that are no starts, each completion with when it ``began``; and which events are
    starts: bool.
    """
    state = pl.col("began").cast(pl.String).str.to_lowercase().fill_null("")
    of_one = ("case", "activity")
    events = events.with_columns(starts=state == "start", ends=state == "complete")
    opened = pl.col("starts").cum_sum().over(of_one)
    closed = pl.col("ends").cum_sum().over(of_one).cast(pl.Int64)
    # A completion that nothing opened takes no start from those that follow.
    unopened = (closed - opened).clip(0).cum_max().over(of_one)
    is_own = pl.col("ends") & (unopened == unopened.shift(1, fill_value=0).over(of_one))
    events = events.with_columns(
        place=pl.when("starts").then(opened).when(is_own).then(closed - unopened)
    )
    starts = events.filter("starts").select(*of_one, "place", began="ended")
    found = (
        events.filter(~pl.col("starts"))
        .drop("began")
        .join(starts, on=[*of_one, "place"], how="left", nulls_equal=True, maintain_order="left")
    )
    return found, events["starts"]


def with_starts(log: EventLog, options: InputOptions | None) -> EventLog:
    """The log with ``start_timestamp`` in place of numbers called ``service_time``: never behind
    the completion; missing where the number or the time is. As it is where ``options`` name none.
    """
    if options is None or options.starts is None or TIMESTAMP not in log.events.columns:
        return log
    none = nulls(log.event_count, pl.Int64())
    numbers = log.events.get_column(SERVICE_TIME, default=none)
    if not numbers.dtype.is_numeric():
        return log
    seconds = numbers.clip(0, _MOST).floor().cast(pl.Int64, strict=False)
    spans = (seconds * _SECOND).cast(pl.Duration("us"))
    starts = within_calendar(log.events[TIMESTAMP].cast(TIME_TYPE) - spans)
    held = without(log.events, SERVICE_TIME, START)
    return replace(log, events=held.with_columns(starts.alias(START)))
