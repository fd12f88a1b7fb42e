"""Turn a decision about variants into rewritten cases: which case follows which target, and which
events it keeps.

The rewriting looks at the control flow and at nothing else (``privacy.md`` 3, rule 4): which of
several identical cases moves is drawn at random, and which events of a case are kept follows from
its source and target variant alone. A claim about timestamps that is conditional on the control
flow therefore survives it.

Where the cases of a variant are split among several targets, the decision names them by their
ranks in the order of the log (``with_drawn_cases``), and a first pass finds where they stand: the
variant histogram need not say it of every case. So every case is rewritten by itself, in whichever
batch.

An event whose activity is substituted counts as one event deleted and one inserted: its time and
its attributes were observed for another activity and would be false statements about the new one,
and keeping them would let the raw time of an event stand for an event that never happened. Inserted
events are marked (``EventLog.inserted``) and hold their activity alone: the step ``kanon/fill``
gives them the attributes of kept events, and a timestamp mechanism, where there is one, times from
values that it released.

The cases of variants that are split among several targets: which follow which target, and where
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
from cloakwork.base.errors import MechanismError
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.log.sequences import Metric, encode_sequences
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import CASES, INDEX, places_of
from cloakwork.mechanisms.steps import MapCases, MapCasesBySummary
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
    def of(
        cls,
        assignment: pl.DataFrame,
        found: pl.DataFrame,
    ) -> "RowsOfCases | None":
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


TARGET: Final = "target"
ASSIGNMENT_SCHEMA: Final = pl.Schema(
    [(SOURCE, pl.List(pl.String())), (TARGET, pl.List(pl.String())), (CASES, pl.Int64())]
)
INSERTED: Final = -1
_SPLIT: Final = -1
_UNDECIDED: Final = "the log holds a case that was not decided on"


def case_rewriter(
    assignment: pl.DataFrame,
    *,
    mechanism: str,
    metric: Metric = "levenshtein",
) -> MapCases | MapCasesBySummary:
    """What moves the cases of a log as ``assignment`` says; case attributes and the order of cases
    stay.

    ``assignment``: rows (``source``: List[String], ``target``: List[String], ``cases``: Int64),
    complete: every variant of the log is a source, cases that stay have target = source, no pair
    occurs twice; with ``ranks``, as ``with_drawn_cases`` adds it, where some source has several
    targets. Kept events follow a shortest edit script of ``metric``. Linear in events, apart from
    one script a pair.

    Moving raises ``MechanismError`` (in the name of ``mechanism``) when the assignment does not fit
    the log.
    """
    templates = _case_templates(assignment, metric)
    sources = sources_of(assignment)
    split = split_sources(sources)
    row_of_source = {source: row for row, source in enumerate(sources)}
    row_of_source |= dict.fromkeys(split, _SPLIT)

    def moving(rows_of_split: RowsOfCases | None) -> MapCases:
        def move(log: EventLog) -> EventLog:
            rows = _rows_of_cases(
                log,
                row_of_source,
                rows_of_split,
                mechanism,
            )
            return _apply_templates(log, templates, rows)

        return MapCases(move, together="case")

    def mapping(found: pl.DataFrame) -> MapCases:
        rows = RowsOfCases.of(assignment, found)
        if rows is None:
            raise MechanismError(mechanism, _UNDECIDED)
        return moving(rows)

    if not split:
        return moving(None)
    numbers = {source: number for number, source in enumerate(split)}
    return MapCasesBySummary(SplitCases(numbers), mapping)


def _rows_of_cases(
    log: EventLog,
    row_of_source: Mapping[tuple[str, ...], int],
    rows_of_split: RowsOfCases | None,
    mechanism: str,
) -> Ints:
    """The row of the assignment that each case of ``log`` follows: int64, shape (cases,).

    ``row_of_source``: the row of each source that has one target, else _SPLIT. ``rows_of_split``:
    the rows of the cases of the latter.
    """
    variants = variants_of(log)
    row_of_variant = np.zeros(len(variants), np.int64)
    for variant in range(len(variants)):
        row = row_of_source.get(variants.labels(variant))
        if row is None:
            raise MechanismError(mechanism, "the log holds a variant that was not decided on")
        row_of_variant[variant] = row
    rows = row_of_variant[variants.of_case]
    if rows_of_split is not None:
        # The cases of split sources are named one by one.
        of_split = np.flatnonzero(rows == _SPLIT)
        found = rows_of_split.of_cases(log.index_of_case[of_split])
        if found is None:
            raise MechanismError(mechanism, _UNDECIDED)
        rows[of_split] = found
    return rows


@dataclass(frozen=True, slots=True)
class _CaseTemplates:
    """How each pair of the assignment rewrites a case, end to end.

    - ``origin``: int64; for each event of the target the position in the source that it is kept
      from, or INSERTED.
    - ``activity``: the label of each of those events: String.
    - ``offsets``: int64, shape (pairs + 1,).
    """

    origin: Ints
    activity: pl.Series
    offsets: Ints


def _case_templates(assignment: pl.DataFrame, metric: Metric) -> _CaseTemplates:
    """One template for each row of ``assignment``."""
    from rapidfuzz.distance import Indel, Levenshtein

    edits = Levenshtein if metric == "levenshtein" else Indel
    # Coded together, so that a label has one character in sources and targets.
    both = encode_sequences(pl.concat([assignment[SOURCE], assignment[TARGET].alias(SOURCE)]))
    sources, targets = both.texts[: assignment.height], both.texts[assignment.height :]
    origins = [np.zeros(0, np.int64)]
    for source, target in zip(sources, targets, strict=True):
        origin = np.full(len(target), INSERTED, np.int64)
        if source == target:
            origin = np.arange(len(target))
        else:
            for block in edits.opcodes(source, target):
                if block.tag == "equal":
                    kept = np.arange(block.src_start, block.src_end)
                    origin[block.dest_start : block.dest_end] = kept
        origins.append(origin)
    lengths = [len(target) for target in targets]
    return _CaseTemplates(
        origin=np.concatenate(origins),
        activity=assignment[TARGET].explode().drop_nulls(),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


def _apply_templates(
    log: EventLog,
    templates: _CaseTemplates,
    pair_of_case: Ints,
) -> EventLog:
    """``log`` with every case as the template of its pair says (int64, shape (cases,))."""
    lengths = np.diff(templates.offsets)[pair_of_case]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # The j-th new event of a case is the j-th of its template.
    from_case_to_template = templates.offsets[pair_of_case] - offsets[:-1]
    step = np.arange(offsets[-1]) + np.repeat(from_case_to_template, lengths)
    origin = templates.origin[step]
    is_inserted = origin == INSERTED
    # The event of ``log`` that is kept there; an inserted event gathers nulls.
    first_row_of_case = np.repeat(log.offsets[:-1], lengths)
    row = pl.Series("row", origin + first_row_of_case)
    kept_row = pl.select(pl.when(pl.Series(~is_inserted)).then(row)).to_series()
    activity = templates.activity.gather(pl.Series(step)).cast(log.events.schema[ACTIVITY])
    events = log.events.select(pl.all().gather(kept_row)).with_columns(activity.alias(ACTIVITY))
    inserted = is_inserted
    if log.inserted is not None:
        # What was inserted before stays so, where it is kept.
        inserted = is_inserted.copy()
        inserted[~is_inserted] = log.inserted[row.to_numpy()[~is_inserted]]
    return EventLog(
        events,
        log.cases,
        offsets,
        log.notes,
        inserted,
        case_index=log.case_index,
    )
