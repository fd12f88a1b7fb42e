"""Turn a decision about variants into rewritten cases: which case follows which target, and which
events it keeps.

The rewriting looks at the control flow and at nothing else (``privacy.md`` 3, rule 4): which of
several identical cases moves is drawn at random, and which events of a case are kept follows from
its source and target variant alone. A claim about timestamps that is conditional on the control
flow therefore survives it.

Where the cases of a variant are split among several targets, the decision names them by their
ranks in the order of the log (``with_drawn_cases``), and a first pass finds where these stand: the
variant histogram says it of no case. So every case is rewritten by itself, in whichever batch.

An event whose activity is substituted counts as one event deleted and one inserted: its time and
its attributes were observed for another activity and would be false statements about the new one,
and keeping them would let the raw time of an event stand for an event that never happened. Inserted
events are marked (``EventLog.inserted``) and hold their activity alone: the step ``kanon/fill``
gives them the attributes of kept events, and a timestamp mechanism, where there is one, times from
values that it released.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, offsets_of, ranges_of
from cloakwork.base.errors import MechanismError
from cloakwork.base.frozen import frozen
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.log.variants import Metric, encode_sequences, variants_of
from cloakwork.mechanisms.aggregates import CASES, INDEX, places_of
from cloakwork.mechanisms.steps import MapCases, MapCasesBySummary
from cloakwork.noise import Noise

SOURCE: Final = "source"
TARGET: Final = "target"
RANKS: Final = "ranks"
ASSIGNMENT_SCHEMA: Final = pl.Schema(
    [(SOURCE, pl.List(pl.String())), (TARGET, pl.List(pl.String())), (CASES, pl.Int64())]
)
_ROW: Final = "row"
_NUMBER: Final = "number"
_SPLIT_CASES_SCHEMA: Final = pl.Schema([(_NUMBER, pl.UInt32()), (INDEX, pl.Int64())])
_UNDECIDED: Final = "the log holds a case that was not decided on"
_SPLIT: Final = -1
"""In place of the row of a source that has several."""
_INSERTED: Final = -1
"""In place of the event that an inserted one is kept from."""


def _sources_of(assignment: pl.DataFrame) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The source of each row; and those that have several rows, in the order of their first."""
    sources = [tuple(source) for source in assignment[SOURCE].to_list()]
    return sources, [source for source, rows in Counter(sources).items() if rows > 1]


def with_drawn_cases(assignment: pl.DataFrame, noise: Noise) -> pl.DataFrame:
    """``assignment`` (see ``case_rewriter``) with the column ``ranks`` (List[Int64], ascending):
    which cases follow each pair of a source that is split among several targets, drawn at random;
    null for other sources. The cases of a source are counted from 0 in the order of the log.
    """
    sources, split = _sources_of(assignment)
    counts = assignment[CASES].to_list()
    cases_of_source: Counter[tuple[str, ...]] = Counter()
    for source, cases in zip(sources, counts, strict=True):
        cases_of_source[source] += cases
    remaining = {source: np.arange(cases_of_source[source]) for source in split}
    drawn: list[pl.Series | None] = []
    for source, cases in zip(sources, counts, strict=True):
        if source not in remaining:
            drawn.append(None)
            continue
        shuffled = remaining[source][noise.permutation(len(remaining[source]))]
        drawn.append(pl.Series(np.sort(shuffled[:cases]), dtype=pl.Int64))
        remaining[source] = np.sort(shuffled[cases:])
    return assignment.with_columns(pl.Series(RANKS, drawn, pl.List(pl.Int64)))


@frozen
class SplitCases:
    """The aggregate: where the cases of some variants stand. ``numbers``: what to call these.

    A summary has one row a case: ``number`` (UInt32, of its variant) and ``index`` (Int64, where it
    stands in the whole log). Merged, it is sorted by both.
    """

    numbers: Mapping[tuple[str, ...], int] = field(repr=False)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Those of one batch."""
        number = _of_each_case(batch, self.numbers, _SPLIT)
        rows = np.flatnonzero(number != _SPLIT)
        found = {_NUMBER: number[rows], INDEX: batch.index_of_case[rows]}
        return pl.DataFrame(found, schema=_SPLIT_CASES_SCHEMA)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """All of them."""
        return summaries.sort(_NUMBER, INDEX)


def _of_each_case(log: EventLog, known: Mapping[tuple[str, ...], int], unknown: int) -> Ints:
    """What is ``known`` of the variant of each case, or else ``unknown``: int64, shape (cases,)."""
    variants = variants_of(log)
    found = [known.get(variants.labels(variant), unknown) for variant in range(len(variants))]
    return np.array(found, np.int64)[variants.of_case]


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
    templates = _CaseTemplates.of(assignment, metric)
    sources, split = _sources_of(assignment)
    row_of_source = {source: row for row, source in enumerate(sources)}
    row_of_source |= dict.fromkeys(split, _SPLIT)
    unknown = _SPLIT - 1

    def moving(index_of_split: Ints, row_of_split: Ints) -> MapCases:
        """``index_of_split``: the cases of split sources, ascending; ``row_of_split``: their
        rows of the assignment.
        """

        def move(log: EventLog) -> EventLog:
            rows = _of_each_case(log, row_of_source, unknown)
            if (rows == unknown).any():
                raise MechanismError(mechanism, "the log holds a variant that was not decided on")
            of_split = np.flatnonzero(rows == _SPLIT)
            place = places_of(index_of_split, log.index_of_case[of_split])
            if place is None:
                raise MechanismError(mechanism, _UNDECIDED)
            rows[of_split] = row_of_split[place]
            return templates.apply(log, rows)

        return MapCases(move, together="case")

    if not split:
        nobody = np.zeros(0, np.int64)
        return moving(nobody, nobody)
    numbers = {source: number for number, source in enumerate(split)}

    def mapping(found: pl.DataFrame) -> MapCases:
        if RANKS not in assignment.columns:
            raise MechanismError(mechanism, _UNDECIDED)
        numbered = assignment.select(RANKS).with_row_index(_ROW)
        number = pl.Series(_NUMBER, [numbers.get(source) for source in sources], pl.UInt32)
        drawn = numbered.with_columns(number).drop_nulls().explode(RANKS).sort(_NUMBER, RANKS)
        # Each rank of a source was drawn once: sorted, they stand beside the cases that they name.
        if not drawn[_NUMBER].equals(found[_NUMBER]):
            raise MechanismError(mechanism, _UNDECIDED)
        by_index = found.with_columns(drawn[_ROW].cast(pl.Int64)).sort(INDEX)
        return moving(by_index[INDEX].to_numpy(), by_index[_ROW].to_numpy())

    return MapCasesBySummary(SplitCases(numbers), mapping)


def origin_of_events(source: str, target: str, metric: Metric = "levenshtein") -> Ints:
    """For each event of the coded sequence ``target`` the position in ``source`` that it is kept
    from, or -1: int64.
    """
    from rapidfuzz.distance import Indel, Levenshtein

    edits = Levenshtein if metric == "levenshtein" else Indel
    origin = np.full(len(target), _INSERTED, np.int64)
    for block in edits.opcodes(source, target):
        if block.tag == "equal":
            kept = np.arange(block.src_start, block.src_end)
            origin[block.dest_start : block.dest_end] = kept
    return origin


@frozen
class _CaseTemplates:
    """How each pair of the assignment rewrites a case, end to end.

    - ``origin``: int64; for each event of the target the position in the source that it is kept
      from, or ``_INSERTED``.
    - ``activity``: the label of each of those events: String.
    - ``offsets``: int64, shape (pairs + 1,).
    """

    origin: Ints
    activity: pl.Series
    offsets: Ints

    @classmethod
    def of(cls, assignment: pl.DataFrame, metric: Metric) -> "_CaseTemplates":
        """One template for each row of ``assignment``."""
        # Coded together, so that a label has one character in sources and targets.
        both = encode_sequences(pl.concat([assignment[SOURCE], assignment[TARGET].alias(SOURCE)]))
        sources = both.texts[: assignment.height]
        targets = both.texts[assignment.height :]
        origins = [np.zeros(0, np.int64)]
        for source, target in zip(sources, targets, strict=True):
            origins.append(origin_of_events(source, target, metric))
        lengths = [len(target) for target in targets]
        return cls(
            origin=np.concatenate(origins),
            activity=assignment[TARGET].explode().drop_nulls(),
            offsets=offsets_of(lengths),
        )

    def apply(self, log: EventLog, pair_of_case: Ints) -> EventLog:
        """``log`` with every case as the template of its pair says (int64, shape (cases,))."""
        lengths = np.diff(self.offsets)[pair_of_case]
        offsets = offsets_of(lengths)
        # The j-th new event of a case is the j-th of its template.
        step = ranges_of(self.offsets[pair_of_case], lengths)
        origin = self.origin[step]
        inserted = origin == _INSERTED
        # The event of ``log`` that is kept there; an inserted event gathers nulls.
        row = origin + np.repeat(log.offsets[:-1], lengths)
        kept_row = pl.select(pl.when(pl.Series(~inserted)).then(pl.Series(_ROW, row))).to_series()
        activity = self.activity.gather(pl.Series(step)).cast(log.events.schema[ACTIVITY])
        events = log.events.select(pl.all().gather(kept_row)).with_columns(activity.alias(ACTIVITY))
        if log.inserted is not None:
            # What was inserted before stays so, where it is kept.
            was_inserted = log.inserted[row[~inserted]]
            inserted[~inserted] = was_inserted
        return EventLog(
            events,
            log.cases,
            offsets,
            log.notes,
            inserted,
            case_index=log.case_index,
        )
