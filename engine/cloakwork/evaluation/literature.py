"""What papers on the anonymization of event logs measure, of any two logs: for the internal report
and ``audit utility`` alone.

A paper knows which released case was made from which; two logs do not tell. Where a figure of a
paper needs it, here stands the least that it can be.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats
from cloakwork.base.errors import MechanismError
from cloakwork.base.quantities import Frozen, figure
from cloakwork.evaluation.control_flow import (
    Histogram,
    Variant,
    directly_follows,
    distances_of_steps,
    hours_of_steps,
    with_activity,
)
from cloakwork.log.eventlog import TIMESTAMP, EventLog

MOST_CASES: Final = 200_000
"""Cases that an isolation forest is trained on, at most."""


class PublishedFigures(Frozen):
    """Figures that papers print; None where there is nothing to compare."""

    modified_traces: int | None = figure(
        "Modified traces",
        "Least number of the source's cases that follow another variant in the release, or none.",
    )
    df_representativeness: float | None = figure(
        "Representativeness of directly-follows steps (Knols)",
        "Share of the source's steps that the release has about as often as expected. 1 is best.",
    )
    activity_distance_error: float | None = figure(
        "Distances between activities",
        "By how much the distance of two activities, learned from what stands before and after "
        "them, is off on average. 0 is best.",
    )
    cycle_time_error: float | None = figure(
        "Error of mean cycle times",
        "Relative error of the mean time since the event before, at most 1; mean over the "
        "activities. 0 is best.",
    )
    dfg_hours_distance: float | None = figure(
        "Directly-follows distance, in hours",
        "How far the hours that all cases spend on a step are off, on average over all steps. "
        "0 is best.",
    )
    dfg_hours_distance_sorted: float | None = figure(
        "Directly-follows distance, in hours, sorted (Libra's EMD Time)",
        "The same when only the list of hours matters, as the literature prints it.",
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
        matched, in_order = distances_of_steps(*map(_total_hours, hours))
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


def _total_hours(hours: pl.DataFrame) -> dict[tuple[str, str], float]:
    totals = hours.group_by("first", "second").agg(pl.col("hours").sum().round(9))
    totals = totals.sort("first", "second")
    return {(first, second): total for first, second, total in totals.iter_rows()}


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
