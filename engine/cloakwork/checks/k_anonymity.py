"""k-anonymity measured on a log alone, by a count that shares nothing with the mechanisms'.

The checker refines classes of cases event by event: two cases are in one class as long as
everything seen of them so far is equal. The sizes of the classes that cases pass through are the
prefix counts, the sizes of those in which they end the variant counts.

What it cannot see: whether the cases of the log are distinct real ones, which the release's lineage
has to say; and events of equal time have the order of the file (a reader who sorts them otherwise
sees other variants).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import GuaranteeBroken
from cloakwork.facts import Unit
from cloakwork.guarantees import KAnonymity
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, EventLog
from cloakwork.log.naming import named, values_of

_CASE: Unit = Unit()
_NOBODY: Final = -1
"""Stands for the owner of a case without a unit; it counts nowhere."""


def smallest_group(log: EventLog, guarantee: KAnonymity, unit: Unit = _CASE) -> int | None:
    """Size of the smallest class of ``log`` in the sense of ``guarantee``; None for a log without
    cases.

    Classes are told apart by the columns ``guarantee.over``: activities in order, event attributes
    event by event, and case attributes (``case:...``); a missing value is a value of its own, and
    so is an attribute that the log lacks. Sizes count cases, or distinct ``unit``s for
    ``count: units``: a case without one adds none. Raises ``GuaranteeBroken`` when the log lacks a
    column that is needed to count.
    """
    if log.cases.height == 0:
        return None
    owner = _owners(log, guarantee, unit)
    sizes = [
        _sizes(members, owner[cases]).min()
        for cases, members, ended in _refine(log, guarantee)
        if len(cases) and ended == (guarantee.scope == "variants")
    ]
    return int(min(sizes))


def check(log: EventLog, guarantee: KAnonymity, unit: Unit = _CASE) -> None:
    """Raise ``GuaranteeBroken`` unless every class of ``log`` holds at least ``guarantee.k``; an
    empty log holds.
    """
    smallest = smallest_group(log, guarantee, unit)
    if smallest is not None and smallest < guarantee.k:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the smallest group holds {smallest} {guarantee.count}"
        )


def _refine(
    log: EventLog, guarantee: KAnonymity
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], bool]]:
    """Yield (cases, the class of each, whether only cases that end here are meant), for each number
    of events seen.
    """
    lengths = np.diff(log.offsets)
    of_events = [_event_column(name) for name in guarantee.over if not _of_case(name)]
    symbol = _symbols(log.events, _present(log.events, of_events), guarantee)
    members = _symbols(log.cases, _present(log.cases, filter(_of_case, guarantee.over)), guarantee)
    cases = np.arange(log.cases.height)
    for seen in range(int(lengths.max()) + 1):
        ends = lengths[cases] == seen
        yield cases, members, False
        yield cases[ends], members[ends], True
        cases, members = cases[~ends], members[~ends]
        here = symbol[log.offsets[cases] + seen]
        members = np.unique(members * (symbol.max(initial=0) + 1) + here, return_inverse=True)[
            1
        ].astype(np.int64)


def _sizes(members: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each class that occurs in ``members``, how many distinct owners it has; 0 where no case
    has one.
    """
    classes, members = np.unique(members, return_inverse=True)
    owned = owner != _NOBODY
    base = owner.max(initial=0) + 1
    distinct = np.unique(members[owned] * base + owner[owned])
    return np.bincount(distinct // base, minlength=len(classes))


def _owners(log: EventLog, guarantee: KAnonymity, unit: Unit) -> NDArray[np.int64]:
    """A number for each case that cases of one unit share; ``_NOBODY`` for a case without the
    unit's attribute.
    """
    if guarantee.count == "cases" or unit.attribute is None:
        return np.arange(log.cases.height)
    shared = _symbols(log.cases, [unit.attribute], guarantee)
    return np.where(values_of(log.cases, unit.attribute).is_null().to_numpy(), _NOBODY, shared)


def _symbols(frame: pl.DataFrame, columns: list[str], guarantee: KAnonymity) -> NDArray[np.int64]:
    """A number for each row of ``frame`` that rows share if and only if they agree in ``columns``:
    int64, dense.
    """
    if missing := [name for name in columns if name not in frame.columns]:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the log has no column '{missing[0]}' to count by"
        )
    if not columns:
        return np.zeros(frame.height, np.int64)
    rows = pl.DataFrame(
        [values_of(frame, name).alias(str(place)) for place, name in enumerate(columns)]
    )
    distinct = rows.unique(maintain_order=True).with_row_index("symbol")
    joined = rows.join(
        distinct, on=named(*rows.columns), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["symbol"].to_numpy().astype(np.int64)


def _present(frame: pl.DataFrame, columns: Iterable[str]) -> list[str]:
    """Without attributes that the log does not have: missing everywhere, they tell no cases apart."""
    required = (ACTIVITY, TIMESTAMPS, METADATA)
    return [name for name in columns if name in frame.columns or name in required]


def _of_case(column: str) -> bool:
    return column.startswith(CASE_PREFIX)


def _event_column(column: str) -> str:
    return ACTIVITY if column == CONTROL_FLOW else column
