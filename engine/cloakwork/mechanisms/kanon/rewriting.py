"""Turn a decision about variants into rewritten cases: which case follows which target, and which
events it keeps.

The rewriting looks at the control flow and at nothing else (``privacy.md`` 3, rule 4): which of
several identical cases moves is drawn at random, and which events of a case are kept follows from
its source and target variant alone. A claim about timestamps that is conditional on the control
flow therefore survives it.

Where the cases of a variant part among several targets, the decision names them by their index in
the whole log (``with_drawn_cases``). So every case is rewritten by itself, in whichever batch.

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
_DIVIDED: Final = -1


def with_drawn_cases(assignment: pl.DataFrame, summary: pl.DataFrame, noise: Noise) -> pl.DataFrame:
    """``assignment`` with the column ``index`` (List[Int64], ascending): which cases follow each
    pair of a source that parts among several targets, drawn at random; null for other sources.

    ``summary``: rows as indexed ``VariantCounts`` give them.
    """
    targets = assignment.group_by(SOURCE).agg(pl.len().alias("targets"))
    parting = targets.filter(pl.col("targets") > 1)[SOURCE]
    held: dict[tuple[str, ...], list[int]] = defaultdict(list)
    of_parting = summary.join(parting.alias(VARIANT).to_frame(), on=VARIANT, how="semi")
    for labels, index in of_parting.select(VARIANT, INDEX).rows():
        held[tuple(labels)] += index
    # Sorted first, so that what is drawn does not depend on the order of the summary's rows.
    left = {labels: np.sort(np.array(index, np.int64)) for labels, index in held.items()}
    drawn: list[list[int] | None] = []
    for labels, cases in assignment.select(SOURCE, CASES).rows():
        source = tuple(labels)
        if source not in left:
            drawn.append(None)
            continue
        shuffled = left[source][noise.permutation(len(left[source]))]
        drawn.append(np.sort(shuffled[:cases]).tolist())
        left[source] = np.sort(shuffled[cases:])
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
    templates = _templates(assignment, metric)
    pairs = _Pairs.of(assignment)

    def move(log: EventLog) -> EventLog:
        return _apply_templates(log, templates, pairs.of_cases(log, mechanism))

    return move


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Which row of the assignment a case follows.

    - ``undivided``: by source, the row of each that has one target; ``divided``: the other
      sources.
    - ``index``: int64, ascending; the cases of these, by their index in the whole log. ``row``: the
      row that each follows.
    """

    undivided: Mapping[tuple[str, ...], int]
    divided: frozenset[tuple[str, ...]]
    index: NDArray[np.int64]
    row: NDArray[np.int64]

    @classmethod
    def of(cls, assignment: pl.DataFrame) -> "_Pairs":
        """Those of an assignment."""
        sources = [tuple(source) for source in assignment[SOURCE].to_list()]
        targets = Counter(sources)
        named = [None] * len(sources)
        if INDEX in assignment.columns:
            named = assignment[INDEX].to_list()
        cases = [np.array(index or [], np.int64) for index in named]
        index = np.concatenate([np.zeros(0, np.int64), *cases])
        row = np.repeat(np.arange(len(cases)), [len(each) for each in cases])
        order = np.argsort(index)
        return cls(
            {source: row for row, source in enumerate(sources) if targets[source] == 1},
            frozenset(source for source in sources if targets[source] > 1),
            index[order],
            row[order],
        )

    def of_cases(self, log: EventLog, mechanism: str) -> NDArray[np.int64]:
        """The row that each case of ``log`` follows: int64, shape (cases,)."""
        variants = variants_of(log)
        sources = [variants.labels(variant) for variant in range(len(variants))]
        if not all(source in self.undivided or source in self.divided for source in sources):
            raise MechanismError(mechanism, "the log holds a variant that was not decided on")
        row_of = np.array([self.undivided.get(source, _DIVIDED) for source in sources], np.int64)
        rows = row_of[variants.of_case] if sources else np.zeros(0, np.int64)
        parted = np.flatnonzero(rows == _DIVIDED)
        asked = log.index_of_case[parted]
        place = places_of(self.index, asked)
        if place is None:
            raise MechanismError(mechanism, "the log holds a case that was not decided on")
        rows[parted] = self.row[place]
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


def _templates(assignment: pl.DataFrame, metric: Metric) -> _CaseTemplates:
    both = encode_sequences(pl.concat([assignment[SOURCE], assignment[TARGET].alias(SOURCE)]))
    sources, targets = both.texts[: assignment.height], both.texts[assignment.height :]
    origins = [
        _kept_positions(source, target, metric)
        for source, target in zip(sources, targets, strict=True)
    ]
    return _CaseTemplates(
        origin=np.concatenate([np.zeros(0, np.int64), *origins]),
        activity=assignment[TARGET].explode().drop_nulls(),
        offsets=np.concatenate([[0], np.cumsum([len(target) for target in targets])]).astype(
            np.int64
        ),
    )


def _kept_positions(source: str, target: str, metric: Metric) -> NDArray[np.int64]:
    """For each position of ``target`` the position of ``source`` whose event is kept there, else
    INSERTED.
    """
    if source == target:
        return np.arange(len(source), dtype=np.int64)
    from rapidfuzz.distance import Indel, Levenshtein

    script = (Levenshtein if metric == "levenshtein" else Indel).opcodes(source, target)
    origin = np.full(len(target), INSERTED, np.int64)
    for block in script:
        if block.tag == "equal":
            origin[block.dest_start : block.dest_end] = np.arange(block.src_start, block.src_end)
    return origin


def _apply_templates(
    log: EventLog, templates: _CaseTemplates, pair_of_case: NDArray[np.int64]
) -> EventLog:
    lengths = np.diff(templates.offsets)[pair_of_case]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    step = np.arange(offsets[-1]) + np.repeat(
        templates.offsets[pair_of_case] - offsets[:-1], lengths
    )
    origin = templates.origin[step]
    row = pl.Series(
        "row", np.where(origin == INSERTED, INSERTED, origin + np.repeat(log.offsets[:-1], lengths))
    )
    kept_row = (
        row.to_frame().select(pl.when(pl.col("row") != INSERTED).then(pl.col("row"))).to_series()
    )
    activity = templates.activity.gather(pl.Series(step)).cast(log.events.schema[ACTIVITY])
    events = log.events.select(pl.all().gather(kept_row)).with_columns(activity.alias(ACTIVITY))
    inserted = origin == INSERTED
    if log.inserted is not None:
        inserted[~inserted] = log.inserted[row.to_numpy()[~inserted]]
    return EventLog(events, log.cases, offsets, log.notes, inserted, case_index=log.case_index)
