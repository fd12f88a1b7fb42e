"""What the settings of a comparison run on, decided by what all of them guarantee.

Whoever compares chooses afterwards, and what a choice depends on is part of what is released
(``privacy.md`` 3.7, 3.8). So one source serves all settings, and the guarantee that allows the
least decides:

- one that hides who is in the log (differential privacy of whole units), or local privacy: a
  stand-in, made of public facts. The log is not read;
- one that takes everything but times as known (metric privacy of times, differential privacy of
  times given the order of events): the log with invented times, in the order of the log's own;
- only such as are counted on the release: the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.evaluation.comparison_model import SourceKind
from cloakwork.evaluation.stand_in import RunSeed, StandInFacts
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.policy.model import Policy

RUNS_OF_STAND_IN: Final = 3
"""Runs for each invented process."""

RUNS_OF_TIMES: Final = 3


def source_kind(policies: Sequence[Policy]) -> SourceKind:
    """What may be looked at before choosing between ``policies``."""
    noised = [goal for policy in policies for goal in policy.goals() if goal.price() is not None]
    if not noised:
        return "log"
    given = all(goal.takes_columns_as_known() for goal in noised)
    over = {column for goal in noised for column in goal.over}
    return "log-with-invented-times" if given and over == {TIMESTAMPS} else "stand-in"


@dataclass(frozen=True, slots=True)
class SettingSource:
    """The logs that every setting runs on, one a run.

    ``log``: the raw log; None where nothing of it may be looked at.
    """

    kind: SourceKind
    facts: StandInFacts | None
    log: EventLog | None

    def runs(self) -> tuple[RunSeed | int, ...]:
        """What tells one run from another."""
        if self.kind == "log":
            return (0,)
        if self.kind == "log-with-invented-times":
            return tuple(range(RUNS_OF_TIMES))
        assert self.facts is not None  # noqa: S101 - made with facts
        return tuple(
            (shape, seed) for shape in self.facts.shapes for seed in range(RUNS_OF_STAND_IN)
        )

    def of_run(self, run: "RunSeed | int") -> EventLog:
        """The log of one run."""
        if self.kind == "stand-in":
            assert self.facts is not None and isinstance(run, tuple)  # noqa: S101 - by ``runs``
            return self.facts.log(*run)
        assert self.log is not None  # noqa: S101 - read by whoever made this
        if self.kind == "log":
            return self.log
        assert self.facts is not None and isinstance(run, int)  # noqa: S101 - by ``runs``
        return with_invented_times(self.log, self.facts, run)


def with_invented_times(log: EventLog, facts: StandInFacts, seed: int) -> EventLog:
    """The log with other times in the same order, in every column that a policy calls its
    timestamp; nothing of the raw times is left but the order of events.

    Raises LogError where policies call two columns of the log so, as their orders may differ.
    """
    named = [name for name in facts.time_names if name in log.events.columns]
    own = [name for name in named if name != TIMESTAMP]
    if len(own) > 1:
        raise LogError("log", f"'{own[0]}' and '{own[1]}' are both times by these policies")
    if own:
        log = _ordered_by(log, own[0])
    codes, activities = _codes(log, facts)
    # Nothing of the log's times is in them; noise is drawn for them later.
    draw = np.random.default_rng([seed, 2])
    stamps = facts.times.drawn(codes, log.offsets, activities, draw)
    events = log.events.with_columns(stamps.alias(name) for name in {TIMESTAMP, *named})
    return replace(log, events=events, notes=())


def _ordered_by(log: EventLog, name: str) -> EventLog:
    times = values_of(log.events, name)
    if not isinstance(times.dtype, pl.Datetime):
        return log
    events = log.events.with_columns(times.cast(TIME_TYPE).alias(TIMESTAMP))
    return EventLog.build(events, log.cases, log.case_of, source=log.source)


def _codes(log: EventLog, facts: StandInFacts) -> tuple[np.ndarray, int]:
    name = next((each for each in facts.activity_names[::-1] if each in log.events.columns), None)
    if name is None or not log.events.height:
        return np.zeros(log.events.height, np.int64), 1
    ranks = (
        values_of(log.events, name)
        .cast(pl.String)
        .fill_null("")
        .rank("dense")
        .to_numpy()
        .astype(np.int64)
    )
    return ranks - 1, int(ranks.max())
