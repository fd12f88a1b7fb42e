"""A log file read in one pass: rows as the file spells them, chunk by chunk, then what makes logs
of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import polars as pl

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
    - ``key``: what tells cases apart, not null: one value a row of ``cases`` or, without these, of
      ``rows``. Cases of equal ids have equal keys.
    - ``cases``: one row a case with ``PLACE``, which ``rows`` have too. None: rows say all of it.
    """

    rows: pl.DataFrame
    key: pl.Series
    cases: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What shows only where a case is whole. All of it can be put together for several parts.

    - ``differing``: case attributes that differ between the rows of one case.
    - ``conflicts``: case attributes of which one case names two values: the row (from 0) where one
      first does.
    - ``repeated_ids``: how many cases have the id of an earlier one.
    """

    differing: frozenset[str] = frozenset()
    conflicts: dict[str, int] = field(default_factory=dict)
    repeated_ids: int = 0

    def joined(self, other: "Findings") -> "Findings":
        """What is found in two parts together."""
        names = self.conflicts.keys() | other.conflicts.keys()
        first = {
            name: min(each.conflicts[name] for each in (self, other) if name in each.conflicts)
            for name in names
        }
        repeated_ids = self.repeated_ids + other.repeated_ids
        return Findings(self.differing | other.differing, first, repeated_ids)


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
    joined = Findings()
    for each in found:
        joined = joined.joined(each)
    return joined


class ReadAgain(Exception):
    """What was read so far is to be thrown away, and the chunks to be asked for once more."""
