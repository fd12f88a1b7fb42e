"""k-anonymity measured on a log alone, by a count that shares nothing with the mechanisms'.

The checker refines classes of cases event by event: two cases are in one class as long as
everything seen of them so far is equal. The sizes of the classes that cases pass through are the
prefix counts, the sizes of those in which they end the variant counts.

What it cannot see: whether the cases of the log are distinct real ones, which the release's lineage
has to say; and events of equal time have the order of the file (a reader who sorts them otherwise
sees other variants).
"""

from collections.abc import Iterator
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

Ints = NDArray[np.int64]

_CASE: Unit = Unit()
_NO_OWNER: Final = -1
"""Stands for the owner of a case without a unit; it counts nowhere."""


def smallest_group(log: EventLog, guarantee: KAnonymity, unit: Unit = _CASE) -> int | None:
    """Size of the smallest class of ``log`` in the sense of ``guarantee``; None for a log without
    cases.

    Cases of one class agree in the columns ``guarantee.over``: activities in order, attributes of
    events event by event, and attributes of cases (``case:...``); a missing value is a value of its
    own, and so is an attribute that the log lacks. Sizes count cases, or distinct ``unit``s for
    ``count: units``: a case without one adds none. Raises ``GuaranteeBroken`` when the log lacks a
    column that is needed to count.
    """
    if log.cases.height == 0:
        return None
    owner = _owner_numbers(log, guarantee, unit)
    counts_complete_variants = guarantee.scope == "variants"
    smallest = []
    for cases, class_, have_ended in _classes_by_length(log, guarantee):
        if len(cases) and have_ended == counts_complete_variants:
            sizes = _class_sizes(class_, owner[cases])
            smallest.append(int(sizes.min()))
    return min(smallest)


def check(log: EventLog, guarantee: KAnonymity, unit: Unit = _CASE) -> None:
    """Raise ``GuaranteeBroken`` unless every class of ``log`` holds at least ``guarantee.k``; an
    empty log holds.
    """
    smallest = smallest_group(log, guarantee, unit)
    if smallest is not None and smallest < guarantee.k:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the smallest group holds {smallest} {guarantee.count}"
        )


def _classes_by_length(log: EventLog, guarantee: KAnonymity) -> Iterator[tuple[Ints, Ints, bool]]:
    """For each number of events, cases by what they agree in up to there: (cases, the class of
    each, whether these are only the cases that end there).
    """
    event_columns = [_event_column(name) for name in guarantee.over if not _is_of_cases(name)]
    case_columns = [name for name in guarantee.over if _is_of_cases(name)]
    symbol = _row_numbers(log.events, _without_absent(log.events, event_columns), guarantee)
    symbols = symbol.max(initial=0) + 1
    # Before the first event, cases agree in what is of cases alone.
    class_ = _row_numbers(log.cases, _without_absent(log.cases, case_columns), guarantee)
    cases = np.arange(log.cases.height)
    lengths = np.diff(log.offsets)
    for length in range(int(lengths.max()) + 1):
        yield cases, class_, False
        ends = lengths[cases] == length
        yield cases[ends], class_[ends], True
        cases, class_ = cases[~ends], class_[~ends]
        # Cases of one class stay in one class where their next events agree.
        next_symbol = symbol[log.offsets[cases] + length]
        _, class_ = np.unique(class_ * symbols + next_symbol, return_inverse=True)


def _class_sizes(class_: Ints, owner: Ints) -> Ints:
    """For each class that occurs, how many distinct owners it has; 0 where no case has one."""
    occurring, number = np.unique(class_, return_inverse=True)
    is_owned = owner != _NO_OWNER
    owners = owner.max(initial=0) + 1
    # Distinct pairs of a class and an owner, counted by class.
    pairs = np.unique(number[is_owned] * owners + owner[is_owned])
    return np.bincount(pairs // owners, minlength=len(occurring))


def _owner_numbers(log: EventLog, guarantee: KAnonymity, unit: Unit) -> Ints:
    """A number for each case that cases of one unit share; ``_NO_OWNER`` for a case without the
    unit's attribute.
    """
    if guarantee.count == "cases" or unit.attribute is None:
        return np.arange(log.cases.height)
    shared = _row_numbers(log.cases, [unit.attribute], guarantee)
    is_missing = values_of(log.cases, unit.attribute).is_null().to_numpy()
    return np.where(is_missing, _NO_OWNER, shared)


def _row_numbers(frame: pl.DataFrame, columns: list[str], guarantee: KAnonymity) -> Ints:
    """A number for each row of ``frame`` that rows share if and only if they agree in ``columns``:
    int64, dense.
    """
    for name in columns:
        if name not in frame.columns:
            observed = f"the log has no column '{name}' to count by"
            raise GuaranteeBroken(guarantee.sentence(), observed)
    if not columns:
        return np.zeros(frame.height, np.int64)
    # Numbered names, as two of the columns may be the same.
    rows = pl.DataFrame(
        [values_of(frame, name).alias(str(index)) for index, name in enumerate(columns)]
    )
    distinct = rows.unique(maintain_order=True).with_row_index("symbol")
    joined = rows.join(
        distinct, on=named(*rows.columns), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["symbol"].to_numpy().astype(np.int64)


def _without_absent(frame: pl.DataFrame, columns: list[str]) -> list[str]:
    """The columns without attributes that the log does not have: cases do not differ in them."""
    required = (ACTIVITY, TIMESTAMPS, METADATA)
    return [name for name in columns if name in frame.columns or name in required]


def _is_of_cases(column: str) -> bool:
    return column.startswith(CASE_PREFIX)


def _event_column(column: str) -> str:
    return ACTIVITY if column == CONTROL_FLOW else column
