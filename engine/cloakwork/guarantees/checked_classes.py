"""Classes of cases that agree event by event: numbered inside a batch, and known by their hashes
over all batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Words
from cloakwork.base.naming import named, values_of
from cloakwork.guarantees.hashing import HashKey


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows by what they agree in: ``of_row`` (int64, dense) and ``hashes`` of the numbers."""

    of_row: Ints
    hashes: Words


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What cases agree in before their first event, and up to and with each of their events.

    ``at_start``: int64, shape (cases,); ``of_event``: int64, shape (events,): numbers of classes,
    equal for cases that agree so far; ``of_case``: those in which cases end. ``hashes``: uint64,
    shape (2, classes).
    """

    at_start: Ints
    of_event: Ints
    of_case: Ints
    hashes: Words


def numbered_rows(frame: pl.DataFrame, columns: Sequence[str], key: HashKey) -> NumberedRows:
    """The rows of ``frame`` by what they hold in ``columns``; a column that it lacks is missing in
    all rows. A missing value is a value of its own.
    """
    present = [name for name in columns if name in frame.columns]
    # Numbered names, as two of the columns may be the same.
    rows = pl.DataFrame([values_of(frame, name).alias(str(i)) for i, name in enumerate(present)])
    if present:
        distinct = rows.unique(maintain_order=True)
        numbers = distinct.with_row_index("number")
        joined = rows.join(
            numbers, on=named(*rows.columns), how="left", nulls_equal=True, maintain_order="left"
        )
        of_row = joined["number"].to_numpy().astype(np.int64)
    else:
        distinct, of_row = rows, np.zeros(frame.height, np.int64)
    count = distinct.height if present else 1
    known = iter(distinct.get_columns())
    missing = np.zeros((2, count), np.uint64)
    hashes = [key.of_values(next(known)) if name in present else missing for name in columns]
    return NumberedRows(of_row, key.of_rows(hashes, count))


def prefixes_of(
    offsets: Ints, symbols: NumberedRows, key: HashKey, start: NumberedRows | None = None
) -> Prefixes:
    """The classes of cases whose events are ``symbols[offsets[i]:offsets[i + 1]]``; ``start``: what
    cases agree in before the first of them.

    Cases are followed event by event: those of one class stay in one where their next events agree.
    """
    lengths = np.diff(offsets)
    if start is None:
        start = NumberedRows(np.zeros(len(lengths), np.int64), np.ones((2, 1), np.uint64))
    width = symbols.hashes.shape[1]
    of_event = np.zeros(len(symbols.of_row), np.int64)
    cases, class_, first_number = np.arange(len(lengths)), start.of_row, 0
    level = key.longer(np.ones_like(start.hashes), start.hashes)
    hashes = [level]
    length = 0
    while True:
        goes_on = lengths[cases] > length
        if not goes_on.all():
            cases, class_ = cases[goes_on], class_[goes_on]
        if not len(cases):
            break
        events = offsets[cases] + length
        pairs, class_ = np.unique(class_ * width + symbols.of_row[events], return_inverse=True)
        before, symbol = np.divmod(pairs, width)
        first_number += level.shape[1]
        level = key.longer(level[:, before], symbols.hashes[:, symbol])
        hashes.append(level)
        of_event[events] = first_number + class_
        length += 1
    # A case without events ends where it starts.
    of_case = start.of_row.copy()
    has_events = lengths > 0
    of_case[has_events] = of_event[offsets[1:][has_events] - 1]
    return Prefixes(start.of_row, of_event, of_case, np.concatenate(hashes, axis=1))


def in_lists(values: pl.Series, lengths: Ints) -> pl.Series:
    """``values`` in lists of these lengths, one after the other."""
    every = pl.DataFrame({"row": np.arange(len(lengths))})
    rows = pl.DataFrame({"row": np.repeat(np.arange(len(lengths)), lengths), "values": values})
    lists = rows.group_by("row", maintain_order=True).agg("values")
    # Empty lists have no rows, so that the join makes nulls of them.
    joined = every.join(lists, on="row", how="left", maintain_order="left")["values"]
    return joined.fill_null(pl.Series([[]], dtype=joined.dtype))
