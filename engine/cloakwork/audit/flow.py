"""The directly-follows graph of a source and of its release: their most frequent steps, side by
side, for the internal report alone.
"""

from typing import Final

import numpy as np
import polars as pl

from cloakwork.arrays import Floats, Ints
from cloakwork.audit.value_codes import joint_codes
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.quantities import Frozen

MOST_STEPS: Final = 15
"""Steps that are shown: those with the largest shares of both logs together."""

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


def flow_graph(source: EventLog, release: EventLog, most: int = MOST_STEPS) -> FlowGraph:
    """The ``most`` steps with the largest shares of both logs together."""
    source, release = with_activity(source), with_activity(release)
    before, after, labels = joint_codes(source.events[ACTIVITY], release.events[ACTIVITY])
    ends = len(labels)
    sides = [_steps(log, codes, ends) for log, codes in ((source, before), (release, after))]
    steps, step_of = np.unique(np.concatenate(sides), return_inverse=True)
    split = len(sides[0])
    counts = [np.bincount(side, minlength=len(steps)) for side in np.split(step_of, [split])]
    shares = [side / max(1, side.sum()) for side in counts]
    chosen = np.lexsort((steps, -(shares[0] + shares[1])))[:most]
    gaps = [
        _median_hours(log, codes, ends, steps[chosen])
        for log, codes in ((source, before), (release, after))
    ]
    names = [*labels, None]
    return FlowGraph(
        steps=tuple(
            FlowStep(
                first=names[step // (ends + 1)],
                second=names[step % (ends + 1)],
                source=int(counts[0][row]),
                released=int(counts[1][row]),
                source_median=gaps[0].get(step),
                released_median=gaps[1].get(step),
            )
            for row, step in zip(chosen.tolist(), steps[chosen].tolist(), strict=True)
        ),
        source_share=_share_of(shares[0], chosen),
        released_share=_share_of(shares[1], chosen),
    )


def _share_of(shares: Floats, chosen: Ints) -> float | None:
    return float(shares[chosen].sum()) if shares.sum() else None


def _steps(log: EventLog, codes: Ints, ends: int) -> Ints:
    """Each step of a log as one number; ``ends`` stands for the begin and the end of a case."""
    first = np.where(_begins(log), ends, np.roll(codes, 1))
    last = codes[np.flatnonzero(np.roll(_begins(log), -1))]
    return np.concatenate([first * (ends + 1) + codes, last * (ends + 1) + ends])


def _begins(log: EventLog) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether an event is the first of its case."""
    found = np.zeros(log.events.height, np.bool_)
    found[log.offsets[:-1][np.diff(log.offsets) > 0]] = True
    return found


def _median_hours(log: EventLog, codes: Ints, ends: int, steps: Ints) -> dict[int, float]:
    """Of ``steps``, the median of the hours from one event to the next."""
    if TIMESTAMP not in log.events.columns:
        return {}
    stamps = log.events[TIMESTAMP].dt.timestamp("us")
    begins = _begins(log)
    step = np.where(begins, ends, np.roll(codes, 1)) * (ends + 1) + codes
    gaps = pl.DataFrame({"step": step, "hours": stamps.diff().cast(pl.Float64) / _HOUR})
    shown = gaps.filter(pl.Series(~begins & np.isin(step, steps)))
    found = shown.drop_nulls().group_by("step").agg(pl.col("hours").median())
    return dict(found.iter_rows())
