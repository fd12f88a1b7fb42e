"""Hints for the internal report: columns that look like times beside a claim that takes them as
known.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Final

import polars as pl

from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.handle import LogHandle
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
        if all(claim.given is None for claim in self.plan.claims):
            return
        found: dict[str, _Looks] = {}
        for looks in source.each_batch(partial(_looks_in, releases=self.plan.releases)):
            for name, seen in looks.items():
                earlier = found.get(name)
                found[name] = seen if earlier is None else earlier.added(seen)
        for name, seen in found.items():
            if seen.are_times:
                yield (
                    f"'{name}' looks like times, and the claim over timestamps takes it as known: "
                    "whoever reads the release learns them; "
                    "drop it in the policy if they are to stay hidden"
                )


@dataclass(frozen=True, slots=True)
class _Looks:
    """What a column looks like: whether times by its type or by any of its texts, else how many
    numbers it has, and how many of them lie ``below`` and ``above`` each of ``_EPOCHS``.
    """

    dated: bool
    numbers: int = 0
    below: tuple[int, ...] = (0,) * len(_EPOCHS)
    above: tuple[int, ...] = (0,) * len(_EPOCHS)

    @classmethod
    def of(cls, column: pl.Series) -> "_Looks":
        if column.dtype.is_temporal():
            return cls(dated=True)
        if column.dtype == pl.String:
            return cls(dated=bool(column.str.contains(_DATE).any()))
        if not column.dtype.is_numeric():
            return cls(dated=False)
        values = column.drop_nulls()
        below = tuple(int((values < low).sum()) for low, _ in _EPOCHS)
        above = tuple(int((values > high).sum()) for _, high in _EPOCHS)
        return cls(False, len(values), below, above)

    def added(self, other: "_Looks") -> "_Looks":
        """Of two batches together."""
        return _Looks(
            self.dated or other.dated,
            self.numbers + other.numbers,
            tuple(map(add, self.below, other.below)),
            tuple(map(add, self.above, other.above)),
        )

    @property
    def are_times(self) -> bool:
        """By the type, by a text, or by where the median lies: a few numbers far off, such as 0 for
        a missing time, do not move it.
        """
        outside = (max(sides) for sides in zip(self.below, self.above, strict=True))
        return self.dated or any(2 * most < self.numbers for most in outside)


def _looks_in(_: int, log: EventLog, releases: Callable[[str], bool]) -> dict[str, _Looks]:
    """Of each released column of a batch but the standard ones."""
    return {
        name: _Looks.of(values_of(table, name))
        for table in (log.cases, log.events)
        for name in table.drop(CASE_ID, ACTIVITY, TIMESTAMP, strict=False).columns
        if releases(name)
    }
