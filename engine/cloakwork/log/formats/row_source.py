"""A log file read in one pass: rows as the file spells them, chunk by chunk, then what makes logs
of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.log.eventlog import EventLog

ROW: Final = "row"
"""Of a row: Int64, where it stands in all files together, from 0."""

PLACE: Final = "place"
"""Of a case whose file says more of it than its rows do: Int64, where it stands in all files."""

CELLS: Final = 2_500_000
"""Values in a chunk, about."""

MOST_ROWS: Final = 250_000


@dataclass(frozen=True, slots=True)
class RawChunk:
    """Some rows of a file, one an event, and their cases.

    - ``rows``: one row an event; ``ROW``, and columns called by numbers, which the assembler knows.
    - ``case_id``: the column of ``cases`` or, without these, of ``rows`` that holds case ids; not
      null in ``rows``. None: no case has one, and each is its own.
    - ``cases``: one row a case with ``PLACE``, which ``rows`` have too. None: rows say all of it.
    """

    rows: pl.DataFrame
    case_id: str | None
    cases: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What shows only where a case is whole. All of it can be put together for several parts.

    - ``differing``: case attributes that differ between the rows of one case.
    - ``conflicts``: case attributes of which one case names two values: the row (from 0) where one
      first does.
    - ``repeated_ids``: how many cases have the id of an earlier one.
    - ``repeated_number``: where rows have numbers: the least that two rows of one case have.
    - ``first_numbers``: those of the cases' first rows.
    """

    differing: frozenset[str] = frozenset()
    conflicts: dict[str, int] = field(default_factory=dict)
    repeated_ids: int = 0
    repeated_number: int | None = None
    first_numbers: tuple[Ints, ...] = ()


class Assembler(Protocol):
    """What makes a log of any whole cases of a file, as ``read_log`` would have them. Frozen, and
    fit to be pickled.
    """

    @property
    def surveyed(self) -> tuple[str, ...] | None:
        """The columns of rows that ``findings`` needs; None where nothing can be found."""
        ...

    def findings(self, rows: pl.DataFrame | None, cases: pl.DataFrame | None) -> Findings:
        """What shows in these whole cases; ``rows`` is None where no column is needed."""
        ...

    def settled(self, found: Findings) -> "Assembler":
        """The same, knowing what was found in all cases. Raises ``LogError`` where ``read_log``
        would.
        """
        ...

    def log_of(self, rows: pl.DataFrame, cases: pl.DataFrame | None = None) -> EventLog:
        """The log of whole cases, rows in any order. ``case_index`` says where each case's first
        row stands in all files (where files have cases: the case); what is said of the file as a
        whole (notes, types, conflicts) is said in each.
        """
        ...


@runtime_checkable
class RowSource(Protocol):
    """A log that is read chunk by chunk, once."""

    def chunks(self) -> Iterator[RawChunk]:
        """The rows in the order of the files. Raises ``LogError`` as ``read_log`` does."""
        ...

    def expected_rows(self) -> int:
        """About how many rows there are, from the sizes of the files and what was read so far."""
        ...

    def assembler(self) -> Assembler:
        """What makes logs of the rows; to be asked after the last chunk."""
        ...


def joined_findings(found: Sequence[Findings]) -> Findings:
    """What is found in all parts together."""
    conflicts: dict[str, int] = {}
    for each in found:
        for name, row in each.conflicts.items():
            conflicts[name] = min(row, conflicts.get(name, row))
    numbers = [each.repeated_number for each in found if each.repeated_number is not None]
    return Findings(
        frozenset[str]().union(*(each.differing for each in found)),
        conflicts,
        sum(each.repeated_ids for each in found),
        min(numbers, default=None),
        tuple(some for each in found for some in each.first_numbers),
    )


class ReadAgain(Exception):
    """What was read so far is to be thrown away, and the chunks to be asked for once more."""
