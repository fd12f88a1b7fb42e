"""The directly-follows graph of a source and of its release: their most frequent steps, side by
side, for the internal report alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.quantities import Frozen
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog

MOST_STEPS: Final = 15
"""Steps that are shown: those with the largest shares of both logs together."""

Histogram = Mapping[tuple[str, ...], int]
"""Cases by variant: the activity labels in order, and how many cases (at least 1) follow them."""

Step = tuple[str | None, str | None]
"""Two activities, one after the other; None where a case begins, or ends."""

_HOUR: Final = 3.6e9  # microseconds


class FlowStep(Frozen):
    """One activity directly followed by another: how often in each log, and the median of the hours
    between them where both events have a time. ``first`` is None where cases begin, ``second``
    where they end.
    """

    first: str | None
    second: str | None
    source: int
    released: int
    source_median: float | None = None
    released_median: float | None = None


class FlowGraph(Frozen):
    """The most frequent steps of two logs, beginnings and ends of cases among them; the share of
    all steps that they are in each log, None of a log without any.
    """

    steps: tuple[FlowStep, ...]
    source_share: float | None
    released_share: float | None


def with_activity(log: EventLog) -> EventLog:
    """``log`` without events that have no activity."""
    labels = log.events[ACTIVITY]
    return log.keep_events(labels.is_not_null().to_numpy()) if labels.null_count() else log


def flow_graph(
    source: EventLog,
    release: EventLog,
    most: int = MOST_STEPS,
    variants: tuple[Histogram, Histogram] | None = None,
) -> FlowGraph:
    """The ``most`` steps with the largest shares of both logs together.

    ``variants``: of both logs how many cases follow each, where ``source`` and ``release`` are
    samples of their cases, which medians are then taken of.
    """
    source, release = with_activity(source), with_activity(release)
    if variants is None:
        counted = _steps_of_log(source), _steps_of_log(release)
    else:
        counted = _steps_of_variants(variants[0]), _steps_of_variants(variants[1])
    # None, where cases begin and end, stands last.
    steps = sorted(counted[0].keys() | counted[1].keys(), key=_by_name)
    counts = [np.array([side[step] for step in steps], np.int64) for side in counted]
    shares = [side / max(1, side.sum()) for side in counts]
    chosen = np.lexsort((np.arange(len(steps)), -(shares[0] + shares[1])))[:most]
    shown = [steps[row] for row in chosen.tolist()]
    gaps = [_median_hours(log, shown) for log in (source, release)]
    return FlowGraph(
        steps=tuple(
            FlowStep(
                first=step[0],
                second=step[1],
                source=counted[0][step],
                released=counted[1][step],
                source_median=gaps[0].get(step),
                released_median=gaps[1].get(step),
            )
            for step in shown
        ),
        source_share=_share_of(shares[0], chosen),
        released_share=_share_of(shares[1], chosen),
    )


def _by_name(step: Step) -> tuple[bool, str, bool, str]:
    first, second = step
    return first is None, first or "", second is None, second or ""


def _share_of(shares: Floats, chosen: Ints) -> float | None:
    return float(shares[chosen].sum()) if shares.sum() else None


def _steps_of_variants(variants: Histogram) -> Counter[Step]:
    """How often cases that follow the variants take each step."""
    counts: Counter[Step] = Counter()
    for variant, cases in variants.items():
        for step in pairwise((None, *variant, None)):
            counts[step] += cases
    return counts


def _steps_of_log(log: EventLog) -> Counter[Step]:
    """How often each step is taken in a log whose events have activities."""
    labels = log.events[ACTIVITY].cast(pl.String)
    begins = _begins(log)
    ends = labels.gather(np.flatnonzero(np.roll(begins, -1)))
    rows = pl.DataFrame({"first": labels.shift().set(pl.Series(begins), None), "second": labels})
    last = pl.DataFrame({"first": ends}).with_columns(pl.lit(None, pl.String).alias("second"))
    counted = pl.concat([rows, last]).group_by("first", "second").len()
    return Counter({(first, second): times for first, second, times in counted.iter_rows()})


def _begins(log: EventLog) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether an event is the first of its case."""
    found = np.zeros(log.events.height, np.bool_)
    found[log.offsets[:-1][np.diff(log.offsets) > 0]] = True
    return found


def _median_hours(log: EventLog, steps: Sequence[Step]) -> dict[Step, float]:
    """Of ``steps``, the median of the hours from one event to the next."""
    if TIMESTAMP not in log.events.columns:
        return {}
    labels = log.events[ACTIVITY].cast(pl.String)
    hours = log.events[TIMESTAMP].dt.timestamp("us").diff().cast(pl.Float64) / _HOUR
    gaps = pl.DataFrame({"first": labels.shift(), "second": labels, "hours": hours})
    inside = gaps.filter(pl.Series(~_begins(log))).drop_nulls()
    shown = pl.DataFrame(steps, schema={"first": pl.String, "second": pl.String}, orient="row")
    found = inside.join(shown, on=["first", "second"], how="semi")
    medians = found.group_by("first", "second").agg(pl.col("hours").median())
    return {(first, second): median for first, second, median in medians.iter_rows()}
