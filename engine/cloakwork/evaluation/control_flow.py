"""The control flow of two logs beside each other: how alike their variants are, and their most
frequent steps.

Figures of a release beside its source read the raw log outside any guarantee: they are for the
internal report alone (``privacy.md`` section 3, rule 8).
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.quantities import Frozen
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.sequences import position_to_code
from cloakwork.log.variants import variants_of

Variant = tuple[str, ...]

Histogram = Mapping[Variant, int]
"""Cases by variant: the activity labels in order, and how many cases (at least 1) follow them."""

Step = tuple[str | None, str | None]
"""Two activities, one after the other; None where a case begins, or ends."""

MOST_STEPS: Final = 15
"""Steps that are shown: those with the largest shares of both logs together."""

_HOUR: Final = 3.6e9  # microseconds
_ITERATIONS: Final = 10**9
"""The solver ends long before; its default of 10**5 stops early, with an answer that was once 8 %
off.
"""


def histogram(log: LogHandle) -> dict[Variant, int]:
    """The variant histogram of all batches of ``log``; events without an activity and cases without
    events are left out.
    """
    found: Counter[Variant] = Counter()
    for counted in log.each_batch(_counted):
        found.update(counted)
    return dict(found)


def _counted(_: int, log: EventLog) -> dict[Variant, int]:
    variants = variants_of(with_activity(log))
    counted = {variants.labels(row): int(variants.counts[row]) for row in range(len(variants))}
    return {variant: cases for variant, cases in counted.items() if variant}


def with_activity(log: EventLog) -> EventLog:
    """``log`` without events that have no activity."""
    labels = log.events[ACTIVITY]
    return log.keep_events(labels.is_not_null().to_numpy()) if labels.null_count() else log


def true_variants(source: Histogram, release: Histogram) -> frozenset[Variant]:
    """The released variants that occur in the source; the others are fake."""
    return frozenset(source.keys() & release.keys())


def relative_log_similarity(source: Histogram, release: Histogram) -> float:
    """1 minus the earth mover's distance between the two distributions of variants; between 0 and
    1.

    Moving a share from one variant to another costs their Levenshtein distance over the longer
    one's length (Rafiei and van der Aalst 2020, "Towards Quantifying Privacy in Process Mining";
    TraVaS 2022). Exact. What both logs share is not held in place, as TraVaS does: that is optimal
    for a metric only, and this distance is none (ab, aba, ba: 1/3 + 1/3 < 1). Two empty logs score
    1; one empty log scores 0, since nothing of the other is there.
    """
    if not source or not release:
        return float(not source and not release)
    lengths = [np.array([len(variant) for variant in side]) for side in (source, release)]
    longer = np.maximum.outer(lengths[0], lengths[1])
    costs = _edit_distances(source, release) / np.maximum(longer, 1)
    before = _cases_of(source)
    after = _cases_of(release)
    similarity = 1.0 - _transport_cost(before / before.sum(), after / after.sum(), costs)
    return min(max(similarity, 0.0), 1.0)


def absolute_log_difference(source: Histogram, release: Histogram) -> int:
    """The least number of events to insert, remove or rename that turns one log into the other
    (TraVaS 2022).

    Cases are matched one to one at the cost of their Levenshtein distance; those that the larger
    log has more are matched with nothing, at the cost of their length. Exact: both costs are one
    metric, with nothing as the empty variant, so cases of the same variant stay put.
    """
    # What both logs share is matched with itself.
    left = Counter(source) - Counter(release)
    right = Counter(release) - Counter(source)
    surplus = left.total() - right.total()
    # Empty variants fill the smaller log up: matched with one, a case costs its length.
    if surplus > 0:
        right[()] = surplus
    elif surplus < 0:
        left[()] = -surplus
    if not left:
        return 0
    costs = _edit_distances(left, right).astype(np.float64)
    return round(_transport_cost(_cases_of(left), _cases_of(right), costs))


def _cases_of(side: Histogram) -> Floats:
    return np.array(list(side.values()), np.float64)


def _edit_distances(rows: Iterable[Variant], columns: Iterable[Variant]) -> NDArray[np.int32]:
    """Edit distances between variants, in activities: int32, shape (rows, columns)."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    sides = [list(rows), list(columns)]
    alphabet = {label for side in sides for variant in side for label in variant}
    # Each activity becomes one character, so that the distance of texts is that of variants.
    letters = {label: chr(position_to_code(place)) for place, label in enumerate(sorted(alphabet))}
    texts = [["".join(letters[label] for label in variant) for variant in side] for side in sides]
    return np.asarray(
        process.cdist(
            *texts,
            scorer=Levenshtein.distance,
            dtype=np.int32,
        )
    )


def _transport_cost(
    supply: Floats,
    demand: Floats,
    costs: Floats,
) -> float:
    """The least cost of moving ``supply`` to ``demand``, of one sum: exact, by network simplex."""
    # Else torch loads, where it is installed.
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
    from ot import emd2

    cost, report = emd2(
        supply,
        demand,
        costs,
        numItermax=_ITERATIONS,
        log=True,
    )
    # The solver only warns where it gives up, and its answer is then no optimum.
    if report["warning"]:
        raise MechanismError(
            "audit/utility", f"the earth mover's distance was not found: {report['warning']}"
        )
    return float(cost)


def directly_follows(log: Histogram, *, ends: bool = False) -> Counter[Step]:
    """How often one activity directly follows another, over all cases; with ``ends``, how often
    cases begin and end with one, too, as steps from and to None.
    """
    counts: Counter[Step] = Counter()
    for variant, cases in log.items():
        for step in pairwise((None, *variant, None) if ends else variant):
            counts[step] += cases
    return counts


def distances_of_steps(
    source: Mapping[Any, float],
    release: Mapping[Any, float],
) -> tuple[float | None, float | None]:
    """Mean over the steps of either log of how far their two figures are apart, and the same when
    both lists of figures are sorted first, so that it matters no longer which step is which (of
    counts: Libra's "EMD Freq", Elkoumy et al. 2022); None without any step. A step that a log lacks
    has 0.
    """
    steps = source.keys() | release.keys()
    if not steps:
        return None, None
    left, right = (np.array([side.get(step, 0) for step in steps]) for side in (source, release))
    matched, in_order = np.abs(left - right), np.abs(np.sort(left) - np.sort(right))
    return float(matched.mean()), float(in_order.mean())


class FlowStep(Frozen):
    """One activity directly followed by another: how often in each log, and the median of the hours
    between them where both events have a time. ``first`` is None where cases begin, ``second``
    where they end.
    """

    first: str | None
    second: str | None
    source: int
    released: int
    source_median: float | None = None
    released_median: float | None = None


class FlowGraph(Frozen):
    """The most frequent steps of two logs, beginnings and ends of cases among them; the share of
    all steps that they are in each log, None of a log without any.
    """

    steps: tuple[FlowStep, ...]
    source_share: float | None
    released_share: float | None


def flow_graph(
    source: EventLog,
    release: EventLog,
    variants: tuple[Histogram, Histogram],
    most: int = MOST_STEPS,
) -> FlowGraph:
    """The ``most`` steps with the largest shares of both logs together.

    ``variants``: of both logs how many cases follow each; ``source`` and ``release`` may be samples
    of their cases, which medians are taken of.
    """
    counted = [directly_follows(side, ends=True) for side in variants]
    # None, where cases begin and end, stands last.
    steps = sorted(
        counted[0].keys() | counted[1].keys(),
        key=lambda step: [(label is None, label or "") for label in step],
    )
    counts = [np.array([side[step] for step in steps], np.int64) for side in counted]
    # By shares, so that the larger log does not decide alone.
    shares = [side / max(1, side.sum()) for side in counts]
    chosen = np.lexsort((np.arange(len(steps)), -(shares[0] + shares[1])))[:most]
    shown = [steps[row] for row in chosen.tolist()]
    gaps = [_median_hours(with_activity(log), shown) for log in (source, release)]
    return FlowGraph(
        steps=tuple(
            FlowStep(
                first=step[0],
                second=step[1],
                source=counted[0][step],
                released=counted[1][step],
                source_median=gaps[0].get(step),
                released_median=gaps[1].get(step),
            )
            for step in shown
        ),
        source_share=_share_of(shares[0], chosen),
        released_share=_share_of(shares[1], chosen),
    )


def _share_of(shares: Floats, chosen: Ints) -> float | None:
    return float(shares[chosen].sum()) if shares.sum() else None


def _median_hours(log: EventLog, steps: Sequence[Step]) -> dict[Step, float]:
    """Of ``steps``, the median of the hours from one event to the next."""
    if TIMESTAMP not in log.events.columns:
        return {}
    inside = hours_of_steps(log)
    shown = pl.DataFrame(steps, schema={"first": pl.String, "second": pl.String}, orient="row")
    found = inside.join(shown, on=["first", "second"], how="semi")
    medians = found.group_by("first", "second").agg(pl.col("hours").median())
    return {(first, second): median for first, second, median in medians.iter_rows()}


def hours_of_steps(log: EventLog) -> pl.DataFrame:
    """Every step of every case whose two events have a time: ``first``, ``second`` (activities) and
    ``hours`` between them. Of a log whose events all have an activity.
    """
    labels = log.activities
    hours = log.microseconds.diff().cast(pl.Float64) / _HOUR
    steps = pl.DataFrame({"first": labels.shift(), "second": labels, "hours": hours})
    # The gap before a case's first event leads to another case, and does not count.
    same_case: Bools = np.diff(log.case_of, prepend=-1) == 0
    return steps.filter(pl.Series(same_case)).drop_nulls()
