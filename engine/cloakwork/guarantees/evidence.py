"""What a check sees of a log, batch by batch, and what it concludes from all of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import polars as pl

from cloakwork.base.errors import GuaranteeBroken
from cloakwork.log.eventlog import EventLog, LogHandle

_ROWS_MERGED: Final = 250_000
"""How many rows of evidence are merged at a time, at least."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a log keeps a guarantee, and what was seen, as the end of a sentence."""

    holds: bool
    seen: str


class Evidence(Protocol):
    """A summary of a log that can be taken batch by batch, as mechanisms take theirs.

    Batches hold whole cases. The columns of all batches have the same types; one that a batch lacks
    is missing in all its rows. Picklable, so that other processes can take it, with the same keys.
    """

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Summarise one batch; raises ``GuaranteeBroken`` where it lacks a column to count by."""
        ...

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """One summary of the rows of several; merging merged summaries is the same as merging all.
        The order of rows says nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class EvidenceOfView:
    """The evidence of what ``view`` makes of each batch."""

    evidence: Evidence
    view: Callable[[EventLog], EventLog]

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Of what somebody sees of the batch."""
        return self.evidence.of(self.view(batch))

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """As the evidence does."""
        return self.evidence.merge(summaries)


def as_everybody_sees(batch: EventLog) -> EventLog:
    """The batch without the knowledge which events were inserted."""
    return replace(batch, inserted=None)


@dataclass(frozen=True, slots=True)
class GuaranteeCheck:
    """The check of one guarantee: on the log as everybody reads it, by ``evidence``, and for
    somebody who recognises inserted events.

    ``judge``: what the merged evidence shows; raises ``GuaranteeBroken`` where it cannot be
    measured. ``marks``: the evidence of what tells inserted events from others, where it takes the
    whole log; ``for_recogniser``: from that, merged (an empty table where there is none), the
    evidence of what somebody sees who recognises them, which ``judge`` judges as well. None where
    marks do not matter.
    """

    evidence: Evidence
    judge: Callable[[pl.DataFrame], Observation]
    marks: Evidence | None = None
    for_recogniser: Callable[[pl.DataFrame], Evidence] | None = None

    def measured_on(self, log: LogHandle) -> Observation:
        """What the check sees on ``log``, of which one batch at a time is in memory."""
        merged, has_inserted_events = _taken(log, self.evidence)
        public = self.judge(merged)
        if not public.holds or not has_inserted_events or self.for_recogniser is None:
            return public
        # The whole log comes first: which inserted events show follows from all kept ones.
        marks = pl.DataFrame() if self.marks is None else gathered(log, self.marks)
        recognised = self.judge(gathered(log, self.for_recogniser(marks)))
        if recognised.holds:
            return public
        return Observation(False, f"{recognised.seen}, once inserted events are recognised")


def gathered(log: LogHandle, evidence: Evidence) -> pl.DataFrame:
    """The evidence of all batches, merged: a few at a time, so that not all of them are in memory.

    Between two merges as many rows come as were left of the first, and ``_ROWS_MERGED`` at least.
    """
    merged, _ = _taken(log, evidence)
    return merged


def _taken(log: LogHandle, evidence: Evidence) -> tuple[pl.DataFrame, bool]:
    """The merged evidence, and whether there are inserted events."""
    waiting: list[pl.DataFrame] = []
    rows, most_rows, has_inserted_events = 0, _ROWS_MERGED, False
    for table, inserted in log.results(partial(_look, evidence)):
        waiting.append(table)
        has_inserted_events |= inserted
        rows += table.height
        if rows > most_rows:
            waiting = [_merged(evidence, waiting)]
            rows = waiting[0].height
            # Twice what is left, so that a merge that shortens nothing is not made each time.
            most_rows = max(_ROWS_MERGED, 2 * rows)
    return _merged(evidence, waiting), has_inserted_events


def _look(evidence: Evidence, index: int, batch: EventLog) -> tuple[pl.DataFrame, bool]:
    """The evidence of a batch, and whether it has inserted events."""
    has_inserted_events = batch.inserted is not None and bool(batch.inserted.any())
    return evidence.of(batch), has_inserted_events


def _merged(evidence: Evidence, tables: list[pl.DataFrame]) -> pl.DataFrame:
    # A column that a batch lacks has the type of nothing there.
    return evidence.merge(pl.concat(tables, how="vertical_relaxed"))


def require_column(frame: pl.DataFrame, name: str, guarantee: str) -> None:
    """Raise ``GuaranteeBroken`` where ``frame`` lacks a column; ``guarantee``: in its words."""
    if name not in frame.columns:
        raise GuaranteeBroken(guarantee, f"the log has no column '{name}' to count by")
