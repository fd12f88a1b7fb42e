"""What can be learned from a release: models of it, tried on its source beside models of the source
itself. For the internal report alone.

Every fifth case of the source is held out. A model of the release and one of the source's other
cases are tried on these: what differs is what the release lost.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints, place_in_run
from cloakwork.base.quantities import Figure, Frozen, figure
from cloakwork.evaluation.distances import joint_codes
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.variants import with_activity

HELD_OUT: Final = 5
"""Of so many cases of the source, the first is held out."""

LONGEST_CONTEXT: Final = 3
"""Activities that the next one is guessed by, at most."""

LONGEST_PLACE: Final = 20
"""Places in a case from here on count as one, where the remaining time is guessed."""

_HOUR: Final = 3.6e9  # microseconds


class LearnedFrom(Frozen):
    """How well models of the release do on the source, beside models of the source; None where
    there is nothing to learn from, or to try it on.
    """

    next_activity_released: Figure = figure(
        "Next activity, learned from the release",
        "Share of the source's next activities (or ends of cases) that a model of the release "
        "guesses.",
    )
    next_activity_source: Figure = figure(
        "Next activity, learned from the source",
        "Share: the same by a model of other cases of the source, to compare with.",
    )
    remaining_hours_released: Figure = figure(
        "Remaining time, learned from the release",
        "Hours by which a model of the release is off, on average, where it guesses how long "
        "cases of the source still take.",
    )
    remaining_hours_source: Figure = figure(
        "Remaining time, learned from the source",
        "Hours: the same by a model of other cases of the source, to compare with.",
    )


class _Both:
    """The events of source and release, one after another: ``codes`` of activities, ``case`` and
    ``place`` in it, int64; which are ``released``, and which are of cases ``held`` out.
    """

    def __init__(self, source: EventLog, release: EventLog) -> None:
        codes, labels = joint_codes(source.events[ACTIVITY], release.events[ACTIVITY])
        self.labels = len(labels)
        self.codes = np.concatenate(codes)
        # Cases of the release are numbered behind those of the source, so that none is both.
        self.case = np.concatenate([source.case_of, release.case_of + source.cases.height])
        self.place = place_in_run(self.case)
        self.released = np.arange(len(self.case)) >= len(codes[0])
        self.held = ~self.released & (self.case % HELD_OUT == 0)
        # What follows each event: an activity, or the end of its case, one more symbol.
        is_last = np.diff(self.case, append=-1) != 0
        self.following = np.where(is_last, self.labels, np.roll(self.codes, -1))

    def contexts(self) -> list[Ints]:
        """For each event nothing, the last activity, the last two, and so on, as one number
        each.
        """
        context = self.codes
        found = [np.zeros_like(self.codes), context]
        for back in range(1, LONGEST_CONTEXT):
            # Where a case has no event so far back, one more symbol says so.
            before = np.where(self.place >= back, np.roll(self.codes, back), self.labels)
            pairs = context * (self.labels + 1) + before
            # Numbered anew, so that numbers stay small however long the context is.
            _, context = np.unique(pairs, return_inverse=True)
            found.append(context)
        return found


def learned_from(source: EventLog, release: EventLog) -> LearnedFrom:
    """Next activity and remaining time of the source's held-out cases, by models of the release and
    of the source's other cases.

    The next activity is the most frequent one after the last three activities, two, one, or at all:
    the longest of these that the model knows. The remaining time is the median after the
    last activity at this place of a case, after the last activity, or of all.
    """
    source, release = with_activity(source), with_activity(release)
    both = _Both(source, release)
    if not both.held.any():
        return LearnedFrom()
    # The source's model does without the held-out cases, on which both are tried.
    taught = {"released": both.released, "source": ~both.released & ~both.held}
    found: dict[str, float] = {}
    contexts = both.contexts()
    for name, rows in taught.items():
        if rows.any():
            guesses = _guesses(_MOST_FREQUENT, contexts, both.following, rows, both.held)
            found[f"next_activity_{name}"] = float((guesses == both.following[both.held]).mean())
    if all(TIMESTAMP in log.events.columns for log in (source, release)):
        hours = np.concatenate([_hours(source), _hours(release)])
        found |= _figures_of_times(both, hours, taught)
    return LearnedFrom(**found)


def _hours(log: EventLog) -> Floats:
    """Times of all events in hours; NaN where one is missing."""
    stamps = log.microseconds.cast(float)
    hours: Floats = stamps.fill_null(float("nan")).to_numpy() / _HOUR
    return hours


def _figures_of_times(
    both: _Both,
    hours: Floats,
    taught: dict[str, Bools],
) -> dict[str, float]:
    known = ~np.isnan(hours)
    # A case ends at its latest known time, whatever the order of its events.
    latest = np.full(int(both.case.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(latest, both.case[known], hours[known])
    remaining = np.where(known, latest[both.case] - hours, 0.0)
    place = np.minimum(both.place, LONGEST_PLACE)
    groups = [np.zeros_like(both.codes), both.codes, both.codes * (LONGEST_PLACE + 1) + place]
    tried, found = both.held & known, dict[str, float]()
    for name, rows in taught.items():
        if (rows & known).any() and tried.any():
            guesses = _guesses(_MEDIAN, groups, remaining, rows & known, tried)
            off = np.abs(guesses - remaining[tried])
            found[f"remaining_hours_{name}"] = float(off.mean())
    return found


def _guesses(
    of_group: pl.Expr,
    groupings: Sequence[Ints],
    values: Ints | Floats,
    taught: Bools,
    tried: Bools,
) -> Floats:
    """For each event ``tried`` what its group tells of the values ``taught``, by the last of the
    groupings that knows the group: from the widest to the narrowest.
    """
    guesses = pl.Series([None] * int(tried.sum()), dtype=pl.Float64)
    for group in groupings:
        known = pl.DataFrame({"group": group[taught], "value": values[taught]})
        told = known.group_by("group").agg(of_group.cast(pl.Float64).alias("told"))
        asked = pl.DataFrame({"group": group[tried], "wider": guesses})
        found = asked.join(told, on="group", how="left", maintain_order="left")
        guesses = found.select(pl.coalesce("told", "wider")).to_series()
    return guesses.to_numpy()


_MOST_FREQUENT: Final = pl.col("value").mode().min()
"""The smallest of several."""

_MEDIAN: Final = pl.col("value").quantile(0.5, "higher")
"""Of two middle values the larger. No other guess is off by less, on average, among what was
taught.
"""
