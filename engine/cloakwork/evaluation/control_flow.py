"""The control flow of two logs beside each other: how alike their variants are, and their most
frequent steps.

Figures of a release beside its source read the raw log outside any guarantee: they are for the
internal report alone (``privacy.md`` section 3, rule 8).

Beside them stands what papers on the anonymization of event logs measure, of any two logs
(``published_figures``). A paper knows which released case was made from which; two logs do not
tell. Where a figure of a paper needs it, here stands the least that it can be.
"""

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.quantities import Figure, Frozen, figure
from cloakwork.log.eventlog import TIMESTAMP, EventLog, LogHandle
from cloakwork.log.variants import EditDistances, encode_sequences, variants_of, with_activity

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
    for counted in log.results(_counted):
        found.update(counted)
    return dict(found)


def _counted(_: int, log: EventLog) -> dict[Variant, int]:
    variants = variants_of(with_activity(log))
    counted = {variants.labels(row): int(variants.counts[row]) for row in range(len(variants))}
    return {variant: cases for variant, cases in counted.items() if variant}


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
    longer = np.maximum.outer(*lengths)
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


def _edit_distances(rows: Histogram, columns: Histogram) -> Ints:
    """Edit distances between variants, in activities: int64, shape (rows, columns)."""
    both = pl.Series([*rows, *columns], dtype=pl.List(pl.String))
    distances = EditDistances(encode_sequences(both).texts)
    places = np.arange(len(both))
    return distances.between(*np.split(places, [len(rows)]))


def _transport_cost(
    supply: Floats,
    demand: Floats,
    costs: Floats,
) -> float:
    """The least cost of moving ``supply`` to ``demand``, of one sum: exact, by network simplex."""
    # Else torch loads, where it is installed.
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
    # Python 3.12 and later warn of a text in POT when they compile it.
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
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
    shown = pl.DataFrame(steps, schema={"first": pl.String, "second": pl.String}, orient="row")
    found = hours_of_steps(log).join(shown, on=["first", "second"], how="semi")
    return _of_steps(found, pl.col("hours").median())


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


MOST_CASES: Final = 200_000
"""Cases that an isolation forest is trained on, at most."""


class PublishedFigures(Frozen):
    """Figures that papers print; None where there is nothing to compare."""

    modified_traces: int | None = figure(
        "Modified traces",
        "Cases of the source, at least, that follow another variant in the release, or none.",
    )
    df_representativeness: Figure = figure(
        "Representativeness of directly-follows steps (Knols)",
        "Share of the source's steps that the release has about as often as expected. 1 is best.",
    )
    activity_distance_error: Figure = figure(
        "Distances between activities",
        "By how much the distance of two activities, learned from what stands before and after "
        "them, is off on average. 0 is best.",
    )
    cycle_time_error: Figure = figure(
        "Error of mean cycle times",
        "Share by which the mean time since the event before is off, at most 1; mean over the "
        "activities. 0 is best.",
    )
    dfg_hours_distance: Figure = figure(
        "Directly-follows distance, in hours",
        "Hours by which what all cases spend on a step is off, on average over all steps. "
        "0 is best.",
    )
    dfg_hours_distance_sorted: Figure = figure(
        "Directly-follows distance, in hours, sorted (Libra's EMD Time)",
        "Hours: the same when only their list matters, as the literature prints it.",
    )


def published_figures(
    logs: tuple[EventLog, EventLog],
    variants: tuple[Histogram, Histogram],
) -> PublishedFigures:
    """Every figure of a release against its source; those of times only where both logs have any.

    ``variants``: of both logs how many cases follow each; ``logs`` may be samples of their cases.
    """
    times: dict[str, float | None] = {}
    if all(TIMESTAMP in log.events.columns for log in logs):
        hours = [hours_of_steps(with_activity(log)) for log in logs]
        total = pl.col("hours").sum().round(9)
        matched, in_order = distances_of_steps(*(_of_steps(each, total) for each in hours))
        times = {
            "cycle_time_error": cycle_time_error(*hours),
            "dfg_hours_distance": matched,
            "dfg_hours_distance_sorted": in_order,
        }
    return PublishedFigures(
        modified_traces=modified_traces(*variants),
        df_representativeness=df_representativeness(*variants),
        activity_distance_error=activity_distance_error(*variants),
        **times,
    )


def modified_traces(source: Histogram, release: Histogram) -> int:
    """Cases of the source that can have no counterpart of the same variant; where cases only move
    from rare variants to others, those that moved (Fahrenkrog-Petersen et al., DKE 2023).
    """
    return sum(max(0, cases - release.get(variant, 0)) for variant, cases in source.items())


def df_representativeness(source: Histogram, release: Histogram) -> float | None:
    """Share of the source's directly-follows steps whose ratio, released count over count, lies
    within one standard deviation of the expected one, cases over cases, and above 0 (Knols and van
    der Werf, ICPM 2019). None for a source without steps.
    """
    before, after = directly_follows(source), directly_follows(release)
    if not before:
        return None
    ratios = np.array([after[step] / count for step, count in before.items()])
    expected = sum(release.values()) / sum(source.values())
    is_near = np.abs(ratios - expected) <= ratios.std()
    return float((is_near & (ratios > 0)).mean())


def cycle_time_error(source: pl.DataFrame, release: pl.DataFrame) -> float | None:
    """Relative error of an activity's mean time since the event before it, at most 1, and 1 for an
    activity that is gone; mean over the source's activities (Fahrenkrog-Petersen et al., DKE 2023).

    Both as ``hours_of_steps`` gives them. None where no event of the source has a time before it.
    """
    # Rounded and in one order: the order of sums, and so their last digit, differs by run.
    means = [
        side.group_by("second").agg(pl.col("hours").mean().round(9)).sort("second")
        for side in (source, release)
    ]
    both = means[0].join(means[1], on="second", how="left", suffix="_after")
    before, after = both["hours"], both["hours_after"]
    # 0 / 0 is no error at all; anything else over 0 is the largest.
    error = ((after - before).abs() / before).fill_nan(0.0).clip(0.0, 1.0).fill_null(1.0)
    return None if error.is_empty() else float(error.to_numpy().mean())


def _of_steps(hours: pl.DataFrame, figure: pl.Expr) -> dict[Step, float]:
    found = hours.group_by("first", "second").agg(figure).sort("first", "second")
    return {(first, second): each for first, second, each in found.iter_rows()}


def activity_distances(log: Histogram, labels: Sequence[str]) -> Floats:
    """Cosine distances of the activities' contexts, (labels, labels): which activity stands
    directly before, which directly after, each weighed by its positive pointwise mutual information
    (contexts: Bose and van der Aalst, SDM 2009). An activity that the log lacks is 1 from all.
    """
    place: dict[str | None, int] = {label: row for row, label in enumerate(labels)}
    # Where a case begins or ends, or an activity is none of ``labels``, stands one more symbol.
    none, width = len(labels), len(labels) + 1
    counts = np.zeros((width, 2 * width))
    for (first, second), cases in directly_follows(log, ends=True).items():
        before, after = place.get(first, none), place.get(second, none)
        counts[after, before] += cases
        counts[before, width + after] += cases
    counts = counts[:none]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(counts.sum(), 1.0)
    weights = np.log(np.maximum(counts / np.where(expected > 0, expected, 1.0), 1.0))
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    directions = weights / np.where(lengths > 0, lengths, 1.0)
    distances: Floats = 1.0 - directions @ directions.T
    return distances


def activity_distance_error(source: Histogram, release: Histogram) -> float | None:
    """Mean over the pairs of the source's activities of how far their two distances are apart; None
    of fewer than two activities.
    """
    labels = sorted({label for variant in source for label in variant})
    if len(labels) < 2:
        return None
    apart = np.abs(activity_distances(source, labels) - activity_distances(release, labels))
    return float(apart[np.triu_indices(len(labels), k=1)].mean())


def ordinary_cases(source: Histogram, release: Histogram) -> float | None:
    """Share of the released cases that an isolation forest (Liu, Ting and Zhou 2008) calls normal
    which was trained on the source: the rest is noise that is easily recognised (Fahrenkrog-
    Petersen et al., SaCoFa, ICPM 2021, section V-B). None of an empty log.

    Features: which activities and which directly-follows steps a case has; those that the source
    lacks tell a forest nothing. Raises MechanismError where scikit-learn (extra ``mining``) is not
    installed, or the source is too large.
    """
    if not source or not release:
        return None
    if sum(source.values()) > MOST_CASES:
        raise MechanismError("audit/utility", f"not taken of more than {MOST_CASES:,} cases")
    try:
        from sklearn.ensemble import IsolationForest
    except ImportError as error:
        said = "scikit-learn is not installed; pip install 'cloakwork[mining]'"
        raise MechanismError("audit/utility", said) from error
    known = sorted({feature for variant in source for feature in _features_of(variant)})
    columns = {feature: place for place, feature in enumerate(known)}
    # A fixed seed: the same two logs give the same figure.
    forest: Any = IsolationForest(random_state=0)
    forest.fit(np.repeat(_features(source, columns), list(source.values()), axis=0))
    is_normal = forest.predict(_features(release, columns)) == 1
    return float(np.average(is_normal, weights=list(release.values())))


def _features_of(variant: Variant) -> set[tuple[str, ...]]:
    return {(label,) for label in variant} | set(pairwise(variant))


def _features(log: Histogram, columns: Mapping[tuple[str, ...], int]) -> Bools:
    has = np.zeros((len(log), len(columns)), np.bool_)
    for row, variant in enumerate(log):
        has[row, [columns[each] for each in _features_of(variant) if each in columns]] = True
    return has
