"""Where a log contradicts what a policy declares public of it: for the internal report alone.

What contradicts a declared fact is dropped, missing or moved in a release, and nothing public says
so: a misspelt value of a domain goes by unnoticed otherwise.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC

import polars as pl

from cloakwork.base.facts import Facts, RangeType
from cloakwork.base.naming import TIME_TYPE, values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.times import parse_times


def contradicted_facts(log: EventLog, facts: Facts, attributes: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each declared fact that the raw ``log`` contradicts.

    ``attributes``: those whose declared values count, by name. Facts of a DP profile are nobody's
    declaration, and are left out.
    """
    return (
        *_of_activities(log, facts),
        *_of_times(log, facts),
        *(note for name in attributes for note in _of_values(log, facts, name)),
    )


def _of_activities(log: EventLog, facts: Facts) -> Iterator[str]:
    if facts.alphabet is not None and "alphabet" not in facts.measured:
        labels = log.events[ACTIVITY].cast(pl.String).drop_nulls()
        outside = ~labels.is_in(list(facts.alphabet))
        yield from _said(outside, "events have activities that assume.alphabet lacks")


def _of_times(log: EventLog, facts: Facts) -> Iterator[str]:
    if TIMESTAMP not in log.events.columns:
        return
    timed = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP]}).drop_nulls()
    if facts.window is not None and "window" not in facts.measured:
        starts = timed.group_by("case").agg(pl.col("time").min())["time"]
        window = (facts.window.start.astimezone(UTC), facts.window.end.astimezone(UTC))
        outside = ~starts.dt.convert_time_zone("UTC").is_between(*window)
        yield from _said(outside, "cases start outside of assume.window")
    if facts.longest_gap is not None and "longest_gap" not in facts.measured:
        gaps = timed.select(pl.col("time").diff().over("case"))["time"].drop_nulls()
        yield from _said(gaps > facts.longest_gap, "gaps are longer than assume.longest_gap")


def _of_values(log: EventLog, facts: Facts, name: str) -> Iterator[str]:
    table = log.cases if name.startswith(CASE_PREFIX) else log.events
    if name not in table.columns:
        yield f"the log has no attribute '{name}'"
        return
    values = values_of(table, name).drop_nulls()
    if values.dtype.is_nested():
        yield f"the log's values of '{name}' are lists, which are released as missing"
        return
    numbers = _numbers(values, facts.types.get(name, "number"))
    if name in facts.ranges:
        least, largest = facts.ranges[name]
        outside = ~numbers.is_between(least, largest).fill_null(value=False)
        yield from _said(outside, f"values of '{name}' lie outside of its range")
    elif name in facts.domains:
        texts = [str(value).lower() for value in facts.domains[name] if isinstance(value, bool)]
        texts += [value for value in facts.domains[name] if isinstance(value, str)]
        known = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
        listed = [value for value in facts.domains[name] if isinstance(value, int | float)]
        is_listed = numbers.is_in([*known, *map(float, listed)]).fill_null(value=False)
        spelt = values.cast(pl.String)
        is_spelt = spelt.is_in(texts) | spelt.str.to_lowercase().is_in(
            [text for text in texts if text in ("true", "false")]
        )
        yield from _said(~(is_listed | is_spelt), f"values of '{name}' are none of its domain")


def _numbers(values: pl.Series, type_: RangeType) -> pl.Series:
    """Values as numbers of a range of this type, as a mechanism reads them; null for others."""
    if type_ in ("number", "integer"):
        return values.cast(pl.String).cast(pl.Float64, strict=False)
    texts = values.dtype == pl.String
    times = parse_times(values).values if texts else values.cast(TIME_TYPE, strict=False)
    step = 86_400_000_000 if type_ == "date" else 1_000_000
    return times.to_physical() // step


def _said(is_so: pl.Series, what: str) -> Iterator[str]:
    """What share of the log contradicts a fact, if any does."""
    share = is_so.mean() if len(is_so) else None
    if isinstance(share, float) and share > 0:
        percent = "less than 1%" if share < 0.005 else f"{share:.0%}"
        yield f"{percent} of the log's {what}"
