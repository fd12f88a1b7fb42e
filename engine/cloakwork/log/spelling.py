"""How the source of a log spelt its values, where the columns no longer say."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError
from cloakwork.base.naming import CASE_PREFIX


@dataclass(frozen=True, slots=True)
class SourceSpelling:
    """What a log's source said that the columns of the log no longer say, by full attribute name.

    - ``exact``: attributes whose values, cast to text, are the characters of the source.
    - ``texts``: the characters of others: String, one a row of the attribute's table.
    - ``rows``: case attributes that differ between the rows of one case (to be missing differs):
      the characters, one a row of the events.
    - ``conflicts``: case attributes of which one case names two values, and where one first does.
    - ``repeated``: where a second trace first states the case id of an earlier one; empty where
      none does.
    """

    exact: frozenset[str] = frozenset()
    texts: Mapping[str, pl.Series] = field(default_factory=dict)
    rows: Mapping[str, pl.Series] = field(default_factory=dict)
    conflicts: Mapping[str, str] = field(default_factory=dict)
    repeated: str = ""

    def combined_with(self, other: "SourceSpelling") -> "SourceSpelling":
        """What two sources say of different attributes."""
        return SourceSpelling(
            self.exact | other.exact,
            {**self.texts, **other.texts},
            {**self.rows, **other.rows},
            {**self.conflicts, **other.conflicts},
            self.repeated or other.repeated,
        )

    def for_rows(
        self, *, events: Ints | None = None, cases: Ints | None = None
    ) -> "SourceSpelling":
        """The same for these rows of the two tables (int64; None: all, as they are)."""

        def moved(name: str, values: pl.Series) -> pl.Series:
            chosen = cases if name.startswith(CASE_PREFIX) else events
            return values if chosen is None else values.gather(chosen)

        texts = {name: moved(name, values) for name, values in self.texts.items()}
        if events is None:
            return replace(self, texts=texts)
        rows = {name: values.gather(events) for name, values in self.rows.items()}
        return replace(self, texts=texts, rows=rows)


NO_SPELLING: Final = SourceSpelling()
"""Of a source that said nothing beside the columns."""


def keeps_spelling(values: pl.Series) -> bool:
    """Whether the type of ``values`` spells each of them by itself, whatever the others are."""
    kinds = (pl.String, pl.Null, pl.Categorical, pl.Enum)
    return values.dtype in kinds or values.dtype.is_integer()


def not_text(path: str | Path, attribute: str, kind: pl.DataType) -> LogError:
    """The refusal of an attribute that distinguishes cases, units or activities, by values that are
    not text.
    """
    return LogError(
        path,
        f"'{attribute}' holds {kind}, whose spelling one more value can change",
        hint="give it as text (in Python: cast to strings; for files: read_log(path, text=[...]))",
    )
