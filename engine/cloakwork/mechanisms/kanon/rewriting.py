"""Turn a decision about variants into rewritten cases: which case follows which target, and which
events it keeps.

The rewriting looks at the control flow and at nothing else (``privacy.md`` 3, rule 4): which of
several identical cases moves is drawn at random, and which events of a case are kept follows from
its source and target variant alone. A claim about timestamps that is conditional on the control
flow therefore survives it.

An event whose activity is substituted counts as one event deleted and one inserted: its time and
its attributes were observed for another activity and would be false statements about the new one,
and keeping them would let the raw time of an event stand for an event that never happened. Inserted
events are marked (``EventLog.inserted``) and hold their activity alone: the step ``kanon/fill``
gives them the attributes of kept events, and a timestamp mechanism, where there is one, times from
values that it released.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.log.variants import Variants, variants_of
from cloakwork.mechanisms.aggregates import CASES
from cloakwork.mechanisms.kanon.sequences import Metric, encode_sequences
from cloakwork.noise import Noise

SOURCE: Final = "source"
TARGET: Final = "target"
ASSIGNMENT_SCHEMA: Final = pl.Schema(
    [(SOURCE, pl.List(pl.String())), (TARGET, pl.List(pl.String())), (CASES, pl.Int64())]
)
INSERTED: Final = -1


def rewrite_cases(
    log: EventLog,
    assignment: pl.DataFrame,
    noise: Noise,
    *,
    mechanism: str,
    metric: Metric = "levenshtein",
) -> EventLog:
    """Move the cases of ``log`` as ``assignment`` says; case attributes and the order of cases
    stay.

    ``assignment``: rows (``source``: List[String], ``target``: List[String], ``cases``: Int64),
    complete: every variant of the log is a source, cases that stay have target = source, no pair
    occurs twice. A source with one target is moved as a whole, so logs may come batch by batch; a
    source that parts among several needs all its cases at once. Kept events follow a shortest edit
    script of ``metric``. Linear in events, apart from one script a pair.

    Raises ``MechanismError`` (in the name of ``mechanism``) when the assignment does not fit the
    log.
    """
    variants = variants_of(log)
    pair_of_case = _draw_pairs(variants, assignment, noise, mechanism)
    return _apply(log, _templates(assignment, metric), pair_of_case)


@dataclass(frozen=True, slots=True)
class _Templates:
    """How each pair of the assignment rewrites a case, end to end.

    - ``origin``: int64; for each event of the target the position in the source that it is kept
      from, or INSERTED.
    - ``activity``: the label of each of those events: String.
    - ``offsets``: int64, shape (pairs + 1,).
    """

    origin: NDArray[np.int64]
    activity: pl.Series
    offsets: NDArray[np.int64]


def _draw_pairs(
    variants: Variants, assignment: pl.DataFrame, noise: Noise, mechanism: str
) -> NDArray[np.int64]:
    """For each case the row of ``assignment`` that it follows; identical cases are told apart by
    chance alone.
    """
    rows_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, source in enumerate(assignment[SOURCE].to_list()):
        rows_of[tuple(source)].append(row)
    choices = [rows_of.get(variants.labels(variant), []) for variant in range(len(variants))]
    if not all(choices):
        raise MechanismError(mechanism, "the log holds a variant that was not decided on")
    first = np.array([rows[0] for rows in choices], np.int64)
    pairs = first[variants.of_case] if choices else np.zeros(0, np.int64)
    parted = [variant for variant, rows in enumerate(choices) if len(rows) > 1]
    if not parted:
        return pairs
    sizes = assignment[CASES].to_numpy()
    shuffled = noise.permutation(len(pairs))
    shuffled = shuffled[np.argsort(variants.of_case[shuffled], kind="stable")]
    ends = np.cumsum(variants.counts)
    for variant in parted:
        rows = np.array(choices[variant], np.int64)
        if sizes[rows].sum() != variants.counts[variant]:
            raise MechanismError(
                mechanism, "a variant whose cases part was not rewritten as a whole"
            )
        cases = shuffled[ends[variant] - variants.counts[variant] : ends[variant]]
        pairs[cases] = np.repeat(rows, sizes[rows])
    return pairs


def _templates(assignment: pl.DataFrame, metric: Metric) -> _Templates:
    both = encode_sequences(pl.concat([assignment[SOURCE], assignment[TARGET].alias(SOURCE)]))
    sources, targets = both.texts[: assignment.height], both.texts[assignment.height :]
    origins = [
        _kept(source, target, metric) for source, target in zip(sources, targets, strict=True)
    ]
    return _Templates(
        origin=np.concatenate([np.zeros(0, np.int64), *origins]),
        activity=assignment[TARGET].explode().drop_nulls(),
        offsets=np.concatenate([[0], np.cumsum([len(target) for target in targets])]).astype(
            np.int64
        ),
    )


def _kept(source: str, target: str, metric: Metric) -> NDArray[np.int64]:
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


def _apply(log: EventLog, templates: _Templates, pair_of_case: NDArray[np.int64]) -> EventLog:
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
    return EventLog(events, log.cases, offsets, log.notes, inserted)
