"""What the internal report says of a log beside figures: columns that look like times beside a
claim that takes them as known, and where the log contradicts what its policy declares public.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from operator import add
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Facts, RangeType
from cloakwork.base.naming import TIME_TYPE, values_of
from cloakwork.base.text import share_in_words
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.times import parse_times
from cloakwork.plan.model import Plan
from cloakwork.run.run import Observer

_DATE: Final = r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}"


_EPOCHS: Final = ((5e8, 4.2e9), (5e11, 4.2e12), (5e14, 4.2e15), (5e17, 4.2e18))
"""Seconds, milliseconds, microseconds and nanoseconds since 1970, for times between 1985 and 2103.
"""


@dataclass(frozen=True, slots=True)
class TimeHints(Observer):
    """Tells of released attributes that look like times beside a claim that takes them as known;
    figures of the raw log.

    Only a hint, for the internal report: no list of names decides which columns hold times, so the
    claim names every such column, and this stops nothing. It reads no column but those that the
    claim takes as known.
    """

    plan: Plan

    def notes(self, source: LogHandle) -> Iterator[str]:
        """A sentence for each such attribute."""
        # A claim that takes nothing as known leaves no column of times open.
        if all(claim.given is None for claim in self.plan.claims):
            return
        found: dict[str, _Looks] = {}
        for looks in source.each_batch(partial(_looks_in, releases=self.plan.releases)):
            for name, seen in looks.items():
                found[name] = _Looks(*map(add, found[name], seen)) if name in found else seen
        for name, seen in found.items():
            if seen.are_times:
                yield (
                    f"'{name}' looks like times, and the claim over timestamps takes it as known: "
                    "whoever reads the release learns them; "
                    "drop it in the policy if they are to stay hidden"
                )


class _Looks(NamedTuple):
    """How many values of a column are times by their type or their text, how many are numbers, and
    how many of these lie ``inside`` of each of ``_EPOCHS``: int64, shape (4,). All of it adds up
    over batches.
    """

    dated: int
    numbers: int
    inside: Ints

    @classmethod
    def of(cls, column: pl.Series) -> "_Looks":
        dated = 0
        values = column.drop_nulls()
        if column.dtype.is_temporal():
            dated = 1
        elif column.dtype == pl.String:
            dated = int(values.str.contains(_DATE).sum())
        if not column.dtype.is_numeric():
            values = pl.Series(dtype=pl.Float64)
        inside = [values.is_between(low, high).sum() for low, high in _EPOCHS]
        return cls(dated, len(values), np.array(inside))

    @property
    def are_times(self) -> bool:
        """By the type, by a text, or by where most numbers lie: a few far off, such as 0 for a
        missing time, change nothing.
        """
        return self.dated > 0 or bool((2 * self.inside > self.numbers).any())


def _looks_in(
    _: int,
    log: EventLog,
    releases: Callable[[str], bool],
) -> dict[str, _Looks]:
    """Of each released column of a batch but the standard ones."""
    return {
        name: _Looks.of(values_of(table, name))
        for table in (log.cases, log.events)
        for name in table.drop(CASE_ID, ACTIVITY, TIMESTAMP, strict=False).columns
        if releases(name)
    }


def contradicted_facts(
    log: EventLog,
    facts: Facts,
    attributes: Iterable[str],
) -> tuple[str, ...]:
    """One sentence for each declared fact that the raw ``log`` contradicts. What does is dropped,
    missing or moved in a release, and nothing public says so: a misspelt value of a domain goes by
    unnoticed otherwise.

    ``attributes``: those whose declared values count, by name. Facts of a DP profile are nobody's
    declaration, and are left out.
    """
    found: list[str] = []
    if facts.alphabet is not None and "alphabet" not in facts.measured:
        labels = log.activities.drop_nulls()
        outside = ~labels.is_in(list(facts.alphabet))
        found += _said(outside, "events have activities that assume.alphabet lacks")
    found += _against_rules(log, facts)
    found += _against_times(log, facts)
    for name in attributes:
        found += _against_values(log, facts, name)
    return tuple(found)


def _against_rules(log: EventLog, facts: Facts) -> Iterator[str]:
    """Of the cases as they count: without activities that are not declared."""
    if facts.rules is None:
        return
    events = pl.DataFrame({"case": log.case_of, "label": log.activities})
    if facts.alphabet is not None:
        events = events.filter(pl.col("label").is_in(list(facts.alphabet)))
    cases = events.drop_nulls().group_by("case", maintain_order=True).agg("label")["label"]
    broken = [not facts.rules.keeps(case) for case in cases.to_list()]
    yield from _said(pl.Series(broken, dtype=pl.Boolean), "cases break assume.rules")


def _against_times(log: EventLog, facts: Facts) -> Iterator[str]:
    if TIMESTAMP not in log.events.columns:
        return
    timed = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP]}).drop_nulls()
    if facts.window is not None and "window" not in facts.measured:
        # Compared in UTC, whatever zone the log's times are in.
        starts = timed.group_by("case").agg(pl.col("time").min())["time"]
        window = (facts.window.start.astimezone(UTC), facts.window.end.astimezone(UTC))
        outside = ~starts.dt.convert_time_zone("UTC").is_between(*window)
        yield from _said(outside, "cases start outside of assume.window")
    if facts.longest_gap is not None and "longest_gap" not in facts.measured:
        gaps = timed.select(pl.col("time").diff().over("case"))["time"].drop_nulls()
        yield from _said(gaps > facts.longest_gap, "gaps are longer than assume.longest_gap")


def _against_values(
    log: EventLog,
    facts: Facts,
    name: str,
) -> Iterator[str]:
    table = log.table_of(name)
    if name not in table.columns:
        yield f"the log has no attribute '{name}'"
        return
    values = values_of(table, name).drop_nulls()
    if values.dtype.is_nested():
        yield f"the log's values of '{name}' are lists, which are released as missing"
        return
    numbers = _numbers(values, facts.types.get(name, "number"))
    if name in facts.ranges:
        outside = ~numbers.is_between(*facts.ranges[name]).fill_null(value=False)
        yield from _said(outside, f"values of '{name}' lie outside of its range")
    elif name in facts.domains:
        domain = facts.domains[name]
        # A value is in the domain as a number, as a text, or as a truth value in any spelling.
        truths = [str(value).lower() for value in domain if isinstance(value, bool)]
        texts = truths + [value for value in domain if isinstance(value, str)]
        of_texts = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
        listed = [float(value) for value in domain if isinstance(value, int | float)]
        spelt = values.cast(pl.String)
        either_case = [text for text in texts if text in ("true", "false")]
        is_known = (
            numbers.is_in([*of_texts, *listed]).fill_null(value=False)
            | spelt.is_in(texts)
            | spelt.str.to_lowercase().is_in(either_case)
        )
        yield from _said(~is_known, f"values of '{name}' are none of its domain")


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
        yield f"{share_in_words(share)} of the log's {what}"
