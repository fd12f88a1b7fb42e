"""One column of a log as a summary: what a decision about each single value needs, and how its
outcome reaches the cases again.

A mechanism whose decision moves values between cases cannot take them batch by batch. It summarises
the column instead, together with the activities of its cases, decides about all its values at once,
and every batch looks up what was decided for its cases.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import MechanismError
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, EventLog
from cloakwork.mechanisms.aggregates import INDEX, VARIANT, as_lists, places_of

VALUE: Final = "value"
INSERTED: Final = "inserted"


@dataclass(frozen=True, slots=True)
class ColumnOfCases:
    """The values of one attribute, case by case.

    A summary has one row a case: ``index`` (Int64, where it stands in the whole log), ``variant``
    (List[String], its activities); ``value``, where the log has the attribute (of cases: its value;
    of events: the list of their values); ``inserted`` (List[Boolean]), where events are marked so.
    Merged, it is sorted by ``index``.
    """

    attribute: str

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The column in one batch of whole cases."""
        labels = batch.events[ACTIVITY].cast(pl.String)
        columns = {
            INDEX: pl.Series(batch.index_of_case, dtype=pl.Int64),
            VARIANT: as_lists(labels, batch.offsets),
        }
        table = batch.cases if self._is_of_cases else batch.events
        if self.attribute in table.columns:
            values = values_of(table, self.attribute)
            if not self._is_of_cases:
                values = as_lists(values, batch.offsets)
            columns[VALUE] = values
        if batch.inserted is not None:
            columns[INSERTED] = as_lists(pl.Series(batch.inserted), batch.offsets)
        return pl.DataFrame(columns)

    @property
    def _is_of_cases(self) -> bool:
        return self.attribute.startswith(CASE_PREFIX)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The rows of all batches."""
        return summaries.sort(INDEX)

    def as_log(self, summary: pl.DataFrame) -> EventLog:
        """A log of the summarised cases that has nothing but their activities and the attribute."""
        lengths = summary[VARIANT].list.len().to_numpy().astype(np.int64)
        events = _members_of_all(summary[VARIANT]).alias(ACTIVITY).to_frame()
        cases = summary[INDEX].cast(pl.String).alias(CASE_ID).to_frame()
        if VALUE in summary.columns and self._is_of_cases:
            cases = cases.with_columns(summary[VALUE].alias(self.attribute))
        elif VALUE in summary.columns:
            values = _members_of_all(summary[VALUE]).alias(self.attribute)
            events = events.with_columns(values)
        inserted = None
        if INSERTED in summary.columns:
            inserted = _members_of_all(summary[INSERTED]).to_numpy()
        return EventLog(
            events=events,
            cases=cases,
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            inserted=inserted,
            case_index=summary[INDEX].to_numpy().astype(np.int64),
        )

    def with_decided_values(self, log: EventLog, decided: pl.DataFrame) -> EventLog:
        """``log``, or a batch of it, with the values of ``decided``: rows as ``of`` gives them.

        Raises ``MechanismError`` for a case that was not decided on.
        """
        row = places_of(decided[INDEX].to_numpy(), log.index_of_case)
        if row is None:
            raise MechanismError(self.attribute, "the log holds a case that was not decided on")
        values = decided[VALUE].gather(row)
        if self._is_of_cases:
            return replace(log, cases=log.cases.with_columns(values.alias(self.attribute)))
        values_of_events = _members_of_all(values).alias(self.attribute)
        return replace(log, events=log.events.with_columns(values_of_events))


def _members_of_all(lists: pl.Series) -> pl.Series:
    """The members of all lists, in order; an empty list has none."""
    return lists.explode(empty_as_null=False, keep_nulls=False)
