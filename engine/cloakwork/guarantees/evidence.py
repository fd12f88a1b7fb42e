"""What a check sees of a log, batch by batch, and what it concludes from all of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from cloakwork.base.errors import GuaranteeBroken
from cloakwork.log.eventlog import Aggregate, EventLog, LogHandle, merged


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a log keeps a guarantee, and what was seen, as the end of a sentence."""

    holds: bool
    seen: str


@dataclass(frozen=True, slots=True)
class EvidenceOfView:
    """The evidence of what ``view`` makes of each batch."""

    evidence: Aggregate
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

    evidence: Aggregate
    judge: Callable[[pl.DataFrame], Observation]
    marks: Aggregate | None = None
    for_recogniser: Callable[[pl.DataFrame], Aggregate] | None = None

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


def gathered(log: LogHandle, evidence: Aggregate) -> pl.DataFrame:
    """The evidence of all batches, merged."""
    return _taken(log, evidence)[0]


def _taken(log: LogHandle, evidence: Aggregate) -> tuple[pl.DataFrame, bool]:
    """The merged evidence, and whether there are inserted events."""
    has_inserted: list[bool] = []

    def tables() -> Iterator[pl.DataFrame]:
        for table, inserted in log.results(partial(_look, evidence)):
            has_inserted.append(inserted)
            yield table

    return merged(evidence, tables()), any(has_inserted)


def _look(evidence: Aggregate, index: int, batch: EventLog) -> tuple[pl.DataFrame, bool]:
    """The evidence of a batch, and whether it has inserted events."""
    has_inserted_events = batch.inserted is not None and bool(batch.inserted.any())
    return evidence.of(batch), has_inserted_events


def require_column(frame: pl.DataFrame, name: str, guarantee: str) -> None:
    """Raise ``GuaranteeBroken`` where ``frame`` lacks a column; ``guarantee``: in its words."""
    if name not in frame.columns:
        raise GuaranteeBroken(guarantee, f"the log has no column '{name}' to count by")
