"""What an engine does: everything that touches rows."""

from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

import numpy as np
import polars as pl

from cloakwork.base.frozen import frozen
from cloakwork.log.eventlog import CASE_ID, Aggregate, Change, EventLog, LogHandle
from cloakwork.mechanisms.steps import MapCases, Rewrite
from cloakwork.noise import Stream
from cloakwork.noise.keyed import Addresses


@runtime_checkable
class BatchSource(Protocol):
    """A raw log in parts of whole cases; ``load`` can be pickled.

    ``EventLog.case_index`` of a part says where the first row of each case stands in the source:
    the order of cases in the log follows from it.
    """

    def __len__(self) -> int:
        """How many parts there are."""
        ...

    def load(self, place: int) -> EventLog:
        """One part, as a reader of the log would read its cases."""
        ...


EVENTS_OF_A_BATCH: Final = 250_000
"""About how many events are in memory at a time, by each process."""

EVENTS_OF_A_PART: Final = 1_000_000
"""About how many events one file of a release holds; a smaller release is one file."""


@frozen
class Opened:
    """A log as an engine holds it. ``log``: prepared; ``seen``: an aggregate over its source."""

    log: LogHandle
    seen: pl.DataFrame


@runtime_checkable
class Engine(Protocol):
    """Where rows are worked on; everything else is the same on every engine.

    With the same noise, every engine releases the same cases in the same order: draws depend on the
    index of a case, and on nothing else.
    """

    @property
    def name(self) -> str:
        """As the command line calls it."""
        ...

    def open(
        self,
        source: object,
        prepare: Change,
        unit: str | None,
        seen: Aggregate,
    ) -> Opened:
        """The log of ``source``, prepared case by case, its cases numbered in their order; all
        cases of a ``unit`` lie in one batch. ``seen`` is taken of what is read.
        """
        ...

    def summarise(self, log: LogHandle, aggregate: Aggregate | None) -> pl.DataFrame:
        """The aggregate over all cases; an empty table where a mechanism needs none."""
        ...

    def rewrite(self, log: LogHandle, action: Rewrite) -> LogHandle:
        """Carry out a mechanism's decision on all cases, which stay in their order."""
        ...

    def choose_cases(self, log: LogHandle, change: Change) -> LogHandle:
        """The cases that ``change`` leaves of each batch, numbered anew."""
        ...

    def shuffle(self, log: LogHandle, stream: Stream) -> LogHandle:
        """The same cases in random order under fresh random ids (``shuffled``)."""
        ...


def needs_all_cases(action: Rewrite) -> bool:
    """Whether a rewrite asks for the log in one batch."""
    return isinstance(action, MapCases) and action.together == "log"


def summary_of(log: EventLog, aggregate: Aggregate | None) -> pl.DataFrame:
    """The aggregate over a log in memory; an empty table where a mechanism needs none."""
    return pl.DataFrame() if aggregate is None else aggregate.merge(aggregate.of(log))


def part_bounds(
    cases: int,
    events: int,
    part_events: int = EVENTS_OF_A_PART,
) -> list[int]:
    """Where the files of a release begin and end, in cases: as many files of equally many cases as
    its events ask for.

    It follows from what is released alone: which engine ran, how many batches there were and how
    many events the raw log has, the files do not tell.
    """
    count = max(1, min(cases, events // part_events)) if cases else 1
    return [cases * place // count for place in range(count + 1)]


def order_keys(log: EventLog, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """By which two words (uint64, shape (cases,)) the cases of a release are sorted."""
    return stream.part("order").words(Addresses.of_cases(log.index_of_case))


def shuffled(log: EventLog, stream: Stream) -> EventLog:
    """The cases of ``log`` in random order under fresh random ids, both by their index: nothing
    tells where they stood.
    """
    first, second = order_keys(log, stream)
    moved = log.keep_cases(np.lexsort((second, first)))
    ids = stream.part("ids").names(Addresses.of_cases(moved.index_of_case))
    named = moved.cases.with_columns(pl.Series(CASE_ID, ids, pl.String))
    return replace(
        moved,
        cases=named,
        notes=(),
        case_index=None,
    )
