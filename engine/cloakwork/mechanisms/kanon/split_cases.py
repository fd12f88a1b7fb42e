"""The cases of variants that are split among several targets: which follow which target, and where
they stand in the log.

What is drawn are ranks among the cases of a variant, in the order of the log. The indexes of cases
are looked up afterwards, of these variants alone: the variant histogram says them of no case.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.log.eventlog import EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import CASES, INDEX, places_of
from cloakwork.noise import Noise

SOURCE: Final = "source"
RANKS: Final = "ranks"
_NUMBER: Final = "number"
_SCHEMA: Final = pl.Schema([(_NUMBER, pl.UInt32()), (INDEX, pl.Int64())])
_NOT_SPLIT: Final = -1


def with_drawn_cases(assignment: pl.DataFrame, noise: Noise) -> pl.DataFrame:
    """``assignment`` (see ``case_rewriter``) with the column ``ranks`` (List[Int64], ascending):
    which cases follow each pair of a source that is split among several targets, drawn at random;
    null for other sources. The cases of a source are counted from 0 in the order of the log.
    """
    sources = sources_of(assignment)
    counts = assignment[CASES].to_list()
    cases_of_source: Counter[tuple[str, ...]] = Counter()
    for source, cases in zip(sources, counts, strict=True):
        cases_of_source[source] += cases
    remaining = {source: np.arange(cases_of_source[source]) for source in split_sources(sources)}
    drawn: list[pl.Series | None] = []
    for source, cases in zip(sources, counts, strict=True):
        if source not in remaining:
            drawn.append(None)
            continue
        shuffled = remaining[source][noise.permutation(len(remaining[source]))]
        drawn.append(pl.Series(np.sort(shuffled[:cases]), dtype=pl.Int64))
        remaining[source] = np.sort(shuffled[cases:])
    return assignment.with_columns(pl.Series(RANKS, drawn, pl.List(pl.Int64)))


def sources_of(assignment: pl.DataFrame) -> list[tuple[str, ...]]:
    """The source of each row."""
    return [tuple(source) for source in assignment[SOURCE].to_list()]


def split_sources(sources: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Those that have several rows, in the order of their first."""
    return tuple(source for source, targets in Counter(sources).items() if targets > 1)


@dataclass(frozen=True, slots=True)
class SplitCases:
    """The aggregate: where the cases of some variants stand. ``numbers``: what to call these.

    A summary has one row a case: ``number`` (UInt32, of its variant) and ``index`` (Int64, where it
    stands in the whole log). Merged, it is sorted by both.
    """

    numbers: Mapping[tuple[str, ...], int] = field(repr=False)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Those of one batch."""
        variants = variants_of(batch)
        of_variant = [
            self.numbers.get(variants.labels(variant), _NOT_SPLIT)
            for variant in range(len(variants))
        ]
        number = np.array(of_variant, np.int64)[variants.of_case]
        rows = np.flatnonzero(number != _NOT_SPLIT)
        found = {_NUMBER: number[rows], INDEX: batch.index_of_case[rows]}
        return pl.DataFrame(found, schema=_SCHEMA)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """All of them."""
        return summaries.sort(_NUMBER, INDEX)


@dataclass(frozen=True, slots=True)
class RowsOfCases:
    """Which row of an assignment each case of a split variant follows.

    ``index``: int64, ascending; these cases, by their index in the whole log. ``row``: int64, the
    same shape.
    """

    index: Ints
    row: Ints

    @classmethod
    def of(cls, assignment: pl.DataFrame, found: pl.DataFrame) -> "RowsOfCases | None":
        """``assignment``: with drawn ranks; ``found``: the cases of its split sources, numbered in
        the order of ``split_sources``, merged. None where these are others than were decided on,
        or nothing was drawn.
        """
        if RANKS not in assignment.columns:
            return None
        sources = sources_of(assignment)
        numbers = {source: number for number, source in enumerate(split_sources(sources))}
        split_rows = {row: numbers[each] for row, each in enumerate(sources) if each in numbers}
        drawn = np.zeros(len(numbers), np.int64)
        for row, number in split_rows.items():
            drawn[number] += len(assignment[RANKS][row])
        counts = np.bincount(found[_NUMBER].to_numpy(), minlength=len(numbers))
        if not np.array_equal(drawn, counts):
            return None
        starts = np.cumsum(counts) - counts
        row_of_place = np.full(found.height, _NOT_SPLIT)
        for row, number in split_rows.items():
            row_of_place[starts[number] + assignment[RANKS][row].to_numpy()] = row
        index = found[INDEX].to_numpy()
        order = np.argsort(index)
        return cls(index[order], row_of_place[order])

    def of_cases(self, index: Ints) -> Ints | None:
        """The row of each case of split variants; None where one was not decided on."""
        place = places_of(self.index, index)
        return None if place is None else self.row[place]
