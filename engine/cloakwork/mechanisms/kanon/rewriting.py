"""Turn a decision about variants into rewritten cases: which case follows which target, and which
events it keeps.

The rewriting looks at the control flow and at nothing else (``privacy.md`` 3, rule 4): which of
several identical cases moves is drawn at random, and which events of a case are kept follows from
its source and target variant alone. A claim about timestamps that is conditional on the control
flow therefore survives it.

Where the cases of a variant are split among several targets, the decision names them by their index
in the whole log (``with_drawn_cases``). So every case is rewritten by itself, in whichever batch.

An event whose activity is substituted counts as one event deleted and one inserted: its time and
its attributes were observed for another activity and would be false statements about the new one,
and keeping them would let the raw time of an event stand for an event that never happened. Inserted
events are marked (``EventLog.inserted``) and hold their activity alone: the step ``kanon/fill``
gives them the attributes of kept events, and a timestamp mechanism, where there is one, times from
values that it released.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import CASES, INDEX, VARIANT, places_of
from cloakwork.mechanisms.kanon.sequences import Metric, encode_sequences
from cloakwork.noise import Noise

SOURCE: Final = "source"
TARGET: Final = "target"
ASSIGNMENT_SCHEMA: Final = pl.Schema(
    [(SOURCE, pl.List(pl.String())), (TARGET, pl.List(pl.String())), (CASES, pl.Int64())]
)
INSERTED: Final = -1
_SPLIT: Final = -1


def with_drawn_cases(assignment: pl.DataFrame, summary: pl.DataFrame, noise: Noise) -> pl.DataFrame:
    """``assignment`` with the column ``index`` (List[Int64], ascending): which cases follow each
    pair of a source that is split among several targets, drawn at random; null for other sources.

    ``summary``: rows as indexed ``VariantCounts`` give them.
    """
    targets = assignment.group_by(SOURCE).agg(pl.len().alias("targets"))
    split_sources = targets.filter(pl.col("targets") > 1).select(pl.col(SOURCE).alias(VARIANT))
    cases_of_source: dict[tuple[str, ...], list[int]] = defaultdict(list)
    split_rows = summary.join(split_sources, on=VARIANT, how="semi")
    for labels, index in split_rows.select(VARIANT, INDEX).rows():
        cases_of_source[tuple(labels)] += index
    # Sorted first, so that what is drawn does not depend on the order of the summary's rows.
    remaining = {
        source: np.sort(np.array(index, np.int64)) for source, index in cases_of_source.items()
    }
    drawn: list[list[int] | None] = []
    for labels, cases in assignment.select(SOURCE, CASES).rows():
        source = tuple(labels)
        if source not in remaining:
            drawn.append(None)
            continue
        shuffled = remaining[source][noise.permutation(len(remaining[source]))]
        drawn.append(np.sort(shuffled[:cases]).tolist())
        remaining[source] = np.sort(shuffled[cases:])
    return assignment.with_columns(pl.Series(INDEX, drawn, pl.List(pl.Int64)))


def case_rewriter(
    assignment: pl.DataFrame, *, mechanism: str, metric: Metric = "levenshtein"
) -> Callable[[EventLog], EventLog]:
    """What moves the cases of a log, or of a batch of it, as ``assignment`` says; case attributes
    and the order of cases stay.

    ``assignment``: rows (``source``: List[String], ``target``: List[String], ``cases``: Int64),
    complete: every variant of the log is a source, cases that stay have target = source, no pair
    occurs twice; with ``index``, as ``with_drawn_cases`` adds it, where some source has several
    targets. Kept events follow a shortest edit script of ``metric``. Linear in events, apart from
    one script a pair.

    Moving raises ``MechanismError`` (in the name of ``mechanism``) when the assignment does not fit
    the log.
    """
    templates = _case_templates(assignment, metric)
    pairs = _AssignmentPairs.of_assignment(assignment)

    def move_cases(log: EventLog) -> EventLog:
        return _apply_templates(log, templates, pairs.of_cases(log, mechanism))

    return move_cases


@dataclass(frozen=True, slots=True)
class _AssignmentPairs:
    """Which row of the assignment a case follows.

    - ``row_of_source``: by source, the row of each that has one target.
    - ``split_sources``: those with several targets, whose cases follow different rows.
    - ``index``: int64, ascending; the cases of split sources, by their index in the whole log.
    - ``row``: int64, the same shape; the row that each of these follows.
    """

    row_of_source: Mapping[tuple[str, ...], int]
    split_sources: frozenset[tuple[str, ...]]
    index: NDArray[np.int64]
    row: NDArray[np.int64]

    @classmethod
    def of_assignment(cls, assignment: pl.DataFrame) -> "_AssignmentPairs":
        """Those of ``assignment``, which is as ``case_rewriter`` takes it."""
        sources = [tuple(source) for source in assignment[SOURCE].to_list()]
        targets = Counter(sources)
        row_of_source = {source: row for row, source in enumerate(sources) if targets[source] == 1}
        split_sources = frozenset(source for source in sources if targets[source] > 1)
        index_lists = [None] * len(sources)
        if INDEX in assignment.columns:
            index_lists = assignment[INDEX].to_list()
        cases_of_row = [np.array(index or [], np.int64) for index in index_lists]
        index = np.concatenate([np.zeros(0, np.int64), *cases_of_row])
        row = np.repeat(np.arange(len(sources)), [len(cases) for cases in cases_of_row])
        ascending = np.argsort(index)
        return cls(row_of_source, split_sources, index[ascending], row[ascending])

    def of_cases(self, log: EventLog, mechanism: str) -> NDArray[np.int64]:
        """The row that each case of ``log`` follows: int64, shape (cases,)."""
        variants = variants_of(log)
        row_of_variant = np.zeros(len(variants), np.int64)
        for variant in range(len(variants)):
            source = variants.labels(variant)
            row = self.row_of_source.get(source, _SPLIT)
            if row == _SPLIT and source not in self.split_sources:
                raise MechanismError(mechanism, "the log holds a variant that was not decided on")
            row_of_variant[variant] = row
        rows = row_of_variant[variants.of_case]
        # The cases of split sources are named one by one.
        of_split = np.flatnonzero(rows == _SPLIT)
        place = places_of(self.index, log.index_of_case[of_split])
        if place is None:
            raise MechanismError(mechanism, "the log holds a case that was not decided on")
        rows[of_split] = self.row[place]
        return rows


@dataclass(frozen=True, slots=True)
class _CaseTemplates:
    """How each pair of the assignment rewrites a case, end to end.

    - ``origin``: int64; for each event of the target the position in the source that it is kept
      from, or INSERTED.
    - ``activity``: the label of each of those events: String.
    - ``offsets``: int64, shape (pairs + 1,).
    """

    origin: NDArray[np.int64]
    activity: pl.Series
    offsets: NDArray[np.int64]


def _case_templates(assignment: pl.DataFrame, metric: Metric) -> _CaseTemplates:
    """One template for each row of ``assignment``."""
    # Coded together, so that a label has one character in sources and targets.
    both = encode_sequences(pl.concat([assignment[SOURCE], assignment[TARGET].alias(SOURCE)]))
    sources = both.texts[: assignment.height]
    targets = both.texts[assignment.height :]
    origins = [
        _kept_positions(source, target, metric)
        for source, target in zip(sources, targets, strict=True)
    ]
    lengths = [len(target) for target in targets]
    return _CaseTemplates(
        origin=np.concatenate([np.zeros(0, np.int64), *origins]),
        activity=assignment[TARGET].explode().drop_nulls(),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


def _kept_positions(source: str, target: str, metric: Metric) -> NDArray[np.int64]:
    """For each position of ``target`` the position of ``source`` whose event is kept there, else
    INSERTED.
    """
    if source == target:
        return np.arange(len(source), dtype=np.int64)
    from rapidfuzz.distance import Indel, Levenshtein

    edits = Levenshtein if metric == "levenshtein" else Indel
    origin = np.full(len(target), INSERTED, np.int64)
    for block in edits.opcodes(source, target):
        if block.tag == "equal":
            origin[block.dest_start : block.dest_end] = np.arange(block.src_start, block.src_end)
    return origin


def _apply_templates(
    log: EventLog, templates: _CaseTemplates, pair_of_case: NDArray[np.int64]
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
    return EventLog(events, log.cases, offsets, log.notes, inserted, case_index=log.case_index)
