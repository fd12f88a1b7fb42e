"""What a query sees of cases beside their control flow, where its step was granted it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.naming import CASE_PREFIX


class NotGranted(LookupError):
    """A query asked for a column that its step was not granted."""


@dataclass(frozen=True, slots=True)
class Column:
    """The values of a column, one an event, or one a case where it is of cases (``case:...``). All
    arrays are read-only.

    - ``values``: numbers, float64; of times and gaps, microseconds, int64. 0 where ``is_missing``
      (bool): of a text that is no finite number, too.
    - ``codes``: int64, the place of each text in ``alphabet`` (in no order that means anything);
      -1 where a value is missing, or is known as a number alone.

    Both follow from each value by itself, whatever type the others give the column.
    """

    values: Ints | Floats
    is_missing: Bools
    codes: Ints
    alphabet: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.values, self.is_missing, self.codes):
            array.flags.writeable = False

    @classmethod
    def of_times(cls, microseconds: Ints, is_missing: Bools) -> "Column":
        """Times, or what lies between them."""
        # One number in memory, for all of them.
        no_text = np.broadcast_to(np.int64(-1), microseconds.shape)
        return cls(microseconds, is_missing, no_text)

    def at(self, rows: Any) -> "Column":
        """The values at ``rows`` (places, or marks)."""
        return Column(self.values[rows], self.is_missing[rows], self.codes[rows], self.alphabet)


class Columns(dict[str, Column]):
    """The columns that a step was granted, by the names of its lineage; NotGranted for others."""

    def __missing__(self, name: str) -> Column:
        raise NotGranted(name)

    def at(self, events: Any, rows: Any = slice(None)) -> "Columns":
        """The values of these ``events`` and cases."""
        return Columns(
            (name, column.at(rows if name.startswith(CASE_PREFIX) else events))
            for name, column in self.items()
        )
