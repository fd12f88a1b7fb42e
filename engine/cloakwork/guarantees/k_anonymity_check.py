"""k-anonymity measured on a log alone, by a count that shares nothing with the mechanisms'.

The checker refines classes of cases event by event: two cases are in one class as long as
everything seen of them so far is equal. The sizes of the classes that cases pass through are the
prefix counts, the sizes of those in which they end the variant counts. Over several batches a class
is known by its keyed hash (``checks.hashing`` gives the probability of a collision, by which two
classes would count as one), and sizes add up; memory goes with the classes, and with the pairs of a
class and a unit where units are counted.

What it cannot see: whether the cases of the log are distinct real ones, which the release's lineage
has to say; and events of equal time have the order of the file (a reader who sorts them otherwise
sees other variants).
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Words
from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.guarantees import KAnonymity
from cloakwork.guarantees.checked_classes import in_lists, numbered_rows, prefixes_of
from cloakwork.guarantees.evidence import gathered
from cloakwork.guarantees.hashing import HashKey
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, EventLog
from cloakwork.log.handle import LogHandle

_CASE: Unit = Unit()
_CLASS: Final = ("class_1", "class_2")
_CLASS_SIZES: Final = pl.Schema([(name, pl.UInt64()) for name in _CLASS] + [("size", pl.Int64())])
_CLASS_UNITS: Final = pl.Schema(
    [(name, pl.UInt64()) for name in _CLASS] + [("units", pl.List(pl.UInt64()))]
)


@dataclass(frozen=True, slots=True)
class ClassSizes:
    """How many cases, or which units, the classes of a guarantee hold.

    One row a class: ``class_1``, ``class_2`` (UInt64, its hash) and ``size`` (Int64, cases). Where
    units count, which may have cases in several batches, ``units`` (List[UInt64], hashes) in place
    of the size; cases without one add none, and of two whose hashes collide one is counted.
    """

    guarantee: KAnonymity
    unit: Unit = _CASE
    key: HashKey = field(default_factory=HashKey.drawn)

    @property
    def counts_units(self) -> bool:
        """Whether rows are of units."""
        return self.guarantee.count == "units" and self.unit.attribute is not None

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The classes of one batch."""
        if batch.cases.height == 0:
            return pl.DataFrame(schema=_CLASS_UNITS if self.counts_units else _CLASS_SIZES)
        of_events = [_event_column(name) for name in self.guarantee.over if not _is_of_cases(name)]
        of_cases = [name for name in self.guarantee.over if _is_of_cases(name)]
        for name in of_events:
            if name in (ACTIVITY, TIMESTAMPS, METADATA):
                self._require_column(batch.events, name)
        found = prefixes_of(
            batch.offsets,
            numbered_rows(batch.events, of_events, self.key),
            self.key,
            numbered_rows(batch.cases, of_cases, self.key),
        )
        class_, case = found.of_case, np.arange(batch.cases.height)
        if self.guarantee.scope == "prefixes":
            # A case is in the class of each of its beginnings, that of no event included.
            class_ = np.concatenate([found.at_start, found.of_event])
            case = np.concatenate([case, batch.case_of])
        if self.counts_units:
            classes, units = self._distinct_units(batch, class_, case)
            columns = [*_hash_columns(found.hashes[:, classes]), units.alias("units")]
            return pl.DataFrame(columns, _CLASS_UNITS)
        sizes = np.bincount(class_, minlength=found.hashes.shape[1])
        classes = np.flatnonzero(sizes)
        counted = pl.Series("size", sizes[classes], pl.Int64)
        return pl.DataFrame([*_hash_columns(found.hashes[:, classes]), counted])

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Sizes of one class are added up; a unit counts once in a class."""
        if self.counts_units:
            units = pl.col("units").explode(empty_as_null=False).unique()
            return summaries.group_by(_CLASS).agg(units)
        return summaries.group_by(_CLASS).agg(pl.col("size").sum())

    def smallest(self, merged: pl.DataFrame) -> int | None:
        """Size of the smallest class; None where there is none."""
        if merged.height == 0:
            return None
        sizes = merged["units"].list.len() if self.counts_units else merged["size"]
        return int(sizes.to_numpy().min())

    def _distinct_units(self, batch: EventLog, class_: Ints, case: Ints) -> tuple[Ints, pl.Series]:
        """The classes that occur, and the distinct units of each."""
        attribute = self.unit.attribute or ""
        self._require_column(batch.cases, attribute)
        numbered = numbered_rows(batch.cases, [attribute], self.key)
        width = numbered.hashes.shape[1]
        # Sorting is faster than numpy's table of distinct numbers.
        pairs = np.sort(class_ * width + numbered.of_row[case])
        is_first = np.diff(pairs, prepend=-1) > 0
        classes, units = np.divmod(pairs[is_first], width)
        is_missing = values_of(batch.cases, attribute).is_null().to_numpy()
        has_unit = ~np.isin(units, numbered.of_row[is_missing][:1])
        occurring = np.flatnonzero(np.bincount(classes))
        lengths = np.bincount(classes[has_unit], minlength=occurring[-1] + 1)[occurring]
        hashes = pl.Series(numbered.hashes[0][units[has_unit]])
        return occurring, in_lists(hashes, lengths)

    def _require_column(self, frame: pl.DataFrame, name: str) -> None:
        if name not in frame.columns:
            observed = f"the log has no column '{name}' to count by"
            raise GuaranteeBroken(self.guarantee.sentence(), observed)


def smallest_group(log: LogHandle, guarantee: KAnonymity, unit: Unit = _CASE) -> int | None:
    """Size of the smallest class of ``log`` in the sense of ``guarantee``; None for a log without
    cases.

    Cases of one class agree in the columns ``guarantee.over``: activities in order, attributes of
    events event by event, and attributes of cases (``case:...``); a missing value is a value of its
    own, and so is an attribute that the log lacks. Sizes count cases, or distinct ``unit``s for
    ``count: units``: a case without one adds none. Raises ``GuaranteeBroken`` when the log lacks a
    column that is needed to count.
    """
    sizes = ClassSizes(guarantee, unit)
    return sizes.smallest(gathered(log, sizes))


def check(log: LogHandle, guarantee: KAnonymity, unit: Unit = _CASE) -> None:
    """Raise ``GuaranteeBroken`` unless every class of ``log`` holds at least ``guarantee.k``; an
    empty log holds.
    """
    smallest = smallest_group(log, guarantee, unit)
    if smallest is not None and smallest < guarantee.k:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the smallest group holds {smallest} {guarantee.count}"
        )


def _hash_columns(hashes: Words) -> list[pl.Series]:
    return [pl.Series(name, words) for name, words in zip(_CLASS, hashes, strict=True)]


def _is_of_cases(column: str) -> bool:
    return column.startswith(CASE_PREFIX)


def _event_column(column: str) -> str:
    return ACTIVITY if column == CONTROL_FLOW else column
