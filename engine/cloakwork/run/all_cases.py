"""What a run asks of all cases of a log, as aggregates: batch by batch, whatever the engine."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.facts import Facts
from cloakwork.base.naming import values_of
from cloakwork.ledger.fingerprint import fingerprint, merged_fingerprint
from cloakwork.ledger.window_hashes import hashed_ids
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """Counts of the raw log; internal."""

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row."""
        events = batch.events
        untimed = events[TIMESTAMP].null_count() if TIMESTAMP in events.columns else 0
        return pl.DataFrame(
            {
                "cases": batch.cases.height,
                "events": events.height,
                "events without a time": int(untimed),
                "longest case": int(np.diff(batch.offsets).max(initial=0)),
            }
        )

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Sums, and the longest case."""
        return summaries.select(
            pl.all().exclude("longest case").sum(), pl.col("longest case").max()
        )


def figures_in(table: pl.DataFrame) -> Mapping[str, JsonValue]:
    """What ``SourceFigures`` counted."""
    return dict(table.row(0, named=True))


@dataclass(frozen=True, slots=True)
class MostKept:
    """How many cases, and how many units of privacy, stay after bounding, or more; a case without a
    unit is none. Batches hold all cases of a unit.
    """

    facts: Facts

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row: ``cases`` and ``units``."""
        cases, units = self._counts(batch)
        return pl.DataFrame({"cases": cases, "units": units})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Sums."""
        return summaries.sum()

    def _counts(self, log: EventLog) -> tuple[int, int]:
        labels = log.events[ACTIVITY]
        known = labels.is_not_null()
        if self.facts.alphabet is not None:
            known = labels.is_in(list(self.facts.alphabet)).fill_null(False)
        known_events = np.bincount(log.case_of[known.to_numpy()], minlength=log.cases.height)
        staying = log.cases.filter(pl.Series(known_events > 0))
        unit = self.facts.unit
        if unit.attribute is None:
            return staying.height, staying.height
        if unit.attribute not in staying.columns:
            return staying.height, 0
        owners = values_of(staying, unit.attribute).drop_nulls()
        alone = staying.height - len(owners)
        sizes = owners.value_counts(name="cases")["cases"].to_numpy()
        return int(np.minimum(sizes, unit.max_cases).sum()) + alone, len(sizes)


@dataclass(frozen=True, slots=True)
class CaseIdSample:
    """The keyed fingerprint of the case ids: ``key`` lies beside the ledger."""

    key: bytes

    def __repr__(self) -> str:
        return "CaseIdSample()"

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row, ``sample``."""
        ids = batch.cases[CASE_ID].cast(pl.String).drop_nulls()
        return pl.DataFrame({"sample": fingerprint(ids, self.key)})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The fingerprint of all."""
        return pl.DataFrame({"sample": merged_fingerprint(summaries["sample"])})


@dataclass(frozen=True, slots=True)
class HashedIds:
    """Keyed hashes of the case ids of a window: ``key`` lies beside the ledger."""

    key: bytes

    def __repr__(self) -> str:
        return "HashedIds()"

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row a case, ``hash`` (Binary)."""
        return pl.DataFrame({"hash": self.hashes(batch)}, schema={"hash": pl.Binary})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """All of them."""
        return summaries

    def hashes(self, batch: EventLog) -> list[bytes | None]:
        """The hash of each case's id."""
        ids = batch.cases[CASE_ID].cast(pl.String)
        by_id = hashed_ids(ids.drop_nulls(), self.key)
        return [None if text is None else by_id[text] for text in ids]
