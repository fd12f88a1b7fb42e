"""Utility: how much of a log's control flow a release keeps.

Every figure compares two variant histograms. Figures that compare a release with its source read
the raw log outside any guarantee: they are for the internal report alone (``privacy.md`` section 3,
rule 8), and choosing between several runs after reading them voids the claims.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from pydantic import Field

from cloakwork.base.arrays import Floats, Ints, Ints32
from cloakwork.base.errors import MechanismError
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.control_flow import FlowGraph, Histogram, flow_graph, with_activity
from cloakwork.evaluation.curves import ShareCurve
from cloakwork.evaluation.discovery import Discovery, evaluate_in_subprocess
from cloakwork.evaluation.learning import LearnedFrom, learned_from
from cloakwork.evaluation.times import TimeUtility
from cloakwork.evaluation.whole_log import WholeLogUtility
from cloakwork.log.eventlog import EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.log.sample import CaseSample, sampled_cases
from cloakwork.log.sequences import position_to_code
from cloakwork.log.variants import variants_of

Variant = tuple[str, ...]

MOST_VARIANTS: Final = 200_000
"""Variants of a log that are counted in all of its cases: some 50 MB. Of a log that seems to have
more, those of a sample are compared.
"""

MOST_PAIRS: Final = 6_000_000
"""Pairs of variants to compare, for an earth mover's distance in a report: about ten seconds of one
core, and 500 MB.
"""

_ITERATIONS: Final = 10**9
"""The solver ends long before; its default of 10**5 stops early, with an answer that was once 8 %
off.
"""


def _figure(title: str, description: str) -> Any:
    """A field of a figure with its plain name and one line that explains it."""
    return Field(default=None, title=title, description=description)


class Utility(Frozen):
    """What a release keeps of its source's control flow. Titles and descriptions are what the
    internal report prints.

    A figure that is None could not be had; ``notes`` says why, except for shares of nothing.
    """

    source_cases: int | None = _figure(
        "Cases in the source", "Cases with at least one named event."
    )
    released_cases: int | None = _figure("Cases released", "The closer to the source the better.")
    source_variants: int | None = _figure("Variants in the source", "Distinct activity sequences.")
    true_variants: int | None = _figure(
        "True variants", "Released variants that occur in the source."
    )
    fake_variants: int | None = _figure(
        "Fake variants", "Released variants that do not occur in the source."
    )
    variant_precision: float | None = _figure(
        "Variant precision", "Share of the released variants that are true."
    )
    variant_recall: float | None = _figure(
        "Variant recall", "Share of the source's variants that are released."
    )
    case_precision: float | None = _figure(
        "Variant precision, by cases", "Share of the released cases that follow a true variant."
    )
    case_recall: float | None = _figure(
        "Variant recall, by cases", "Share of the source's cases whose variant is released."
    )
    relative_log_similarity: float | None = _figure(
        "Relative log similarity",
        "How alike the variants and their shares are; similar variants count in part. 1 is best.",
    )
    absolute_log_difference: int | None = _figure(
        "Absolute log difference",
        "Events to insert, remove or rename to turn one log into the other. 0 is best.",
    )
    dfg_edge_distance: float | None = _figure(
        "Directly-follows distance",
        "How far the count of a step from one activity to the next is off, "
        "on average over all such steps. 0 is best.",
    )
    dfg_frequency_distance: float | None = _figure(
        "Directly-follows distance, sorted (Libra's EMD Freq)",
        "The same when only the list of counts matters, and not which step has which; "
        "as the literature prints it.",
    )
    discovery: Discovery | None = None
    times: TimeUtility | None = None
    whole_log: WholeLogUtility | None = None
    flow: FlowGraph | None = None
    curves: tuple[ShareCurve, ...] = ()
    learned: LearnedFrom | None = None
    notes: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class SeenLog:
    """What figures are taken from: the variants of a log, and a sample of its cases with all else.

    ``counts_all``: whether the variants are those of all cases.
    """

    variants: Histogram
    sample: CaseSample
    counts_all: bool = True

    @classmethod
    def of(cls, log: LogHandle) -> "SeenLog":
        """A log as a whole where it is small, so that the sample is all of it."""
        sample = sampled_cases(log)
        of_sample = histogram(sample.log)
        if sample.is_whole:
            return cls(of_sample, sample)
        # As many variants are new in the other cases, at most, as the sample has only once
        # (Good 1953: the chance that the next case is of a new one).
        once = sum(cases == 1 for cases in of_sample.values()) / max(sample.log.cases.height, 1)
        others = sample.case_count - sample.log.cases.height
        if len(of_sample) + once * others > MOST_VARIANTS:
            return cls(of_sample, sample, counts_all=False)
        return cls(histogram(log), sample)


def measured(
    source: LogHandle, release: LogHandle, *, most_pairs: int = MOST_PAIRS, seconds: float = 0.0
) -> Utility:
    """Every figure of ``release`` against ``source``; see ``compared``."""
    return compared(SeenLog.of(source), SeenLog.of(release), most_pairs, seconds)


def sample_notes(source: SeenLog, release: SeenLog) -> tuple[str, ...]:
    """Which figures are those of a sample, in one sentence a log."""
    sides = (source, "the source"), (release, "the release")
    return tuple(
        f"of {name} {'times and attributes are' if seen.counts_all else 'all figures are'} those "
        f"of a random sample of {seen.sample}"
        for seen, name in sides
        if not seen.sample.is_whole
    )


def compared(
    source: SeenLog, release: SeenLog, most_pairs: int = MOST_PAIRS, seconds: float = 0.0
) -> Utility:
    """Every figure of ``release`` against ``source``, within bounds; a figure that fails is None,
    with a note.

    Earth mover's distances are left out above ``most_pairs`` pairs of a variant here and one there,
    process discovery after ``seconds`` (0: not tried).
    """
    before, after = source.variants, release.variants
    logs = source.sample.log, release.sample.log
    notes = [*sample_notes(source, release)]

    def within_bounds(figure: Callable[[Histogram, Histogram], Any]) -> Any:
        name = figure.__name__.replace("_", " ")
        pairs = len(before) * len(after)
        if pairs > most_pairs:
            notes.append(
                f"{name}: left out, since {pairs:,} pairs of variants take too long "
                f"(at most {most_pairs:,})"
            )
            return None
        return with_note(name, lambda: figure(before, after))

    def with_note(name: str, figure: Callable[[], Any]) -> Any:
        try:
            return figure()
        except Exception as error:
            notes.append(f"{name}: {error or type(error).__name__}".partition("\n")[0])
            return None

    true = true_variants(before, after)
    cases_before, cases_after = sum(before.values()), sum(after.values())
    true_before = sum(before[variant] for variant in true)
    true_after = sum(after[variant] for variant in true)
    discovery = None
    if seconds:
        discovery = with_note(
            "process discovery", lambda: evaluate_in_subprocess(before, after, seconds)
        )
    return Utility(
        source_cases=cases_before,
        released_cases=cases_after,
        source_variants=len(before),
        true_variants=len(true),
        fake_variants=len(after) - len(true),
        variant_precision=_share_of(len(true), len(after)),
        variant_recall=_share_of(len(true), len(before)),
        case_precision=_share_of(true_after, cases_after),
        case_recall=_share_of(true_before, cases_before),
        relative_log_similarity=within_bounds(relative_log_similarity),
        absolute_log_difference=within_bounds(absolute_log_difference),
        dfg_edge_distance=dfg_edge_distance(before, after),
        dfg_frequency_distance=dfg_frequency_distance(before, after),
        discovery=discovery,
        flow=with_note(
            "directly-follows graph", lambda: flow_graph(*logs, variants=(before, after))
        ),
        learned=with_note("models of the release", lambda: learned_from(*logs)),
        notes=tuple(notes),
    )


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
    lengths = np.maximum.outer(_lengths_of(source), _lengths_of(release))
    costs = _edit_distances(source, release) / np.maximum(lengths, 1)
    cases_before, cases_after = _cases_of(source), _cases_of(release)
    supply = cases_before / cases_before.sum()
    demand = cases_after / cases_after.sum()
    similarity = 1.0 - _transport_cost(supply, demand, costs)
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
    if surplus > 0:
        right[()] = surplus
    elif surplus < 0:
        left[()] = -surplus
    if not left:
        return 0
    costs = _edit_distances(left, right).astype(np.float64)
    return round(_transport_cost(_cases_of(left), _cases_of(right), costs))


def dfg_edge_distance(source: Histogram, release: Histogram) -> float | None:
    """Mean over the directly-follows relations of either log of how far their two counts are apart;
    None without any.
    """
    left, right = _counts_of_relations(source, release)
    return _mean_difference(left, right)


def dfg_frequency_distance(source: Histogram, release: Histogram) -> float | None:
    """Libra's "EMD Freq": the same mean when both lists of counts are sorted first, so that it
    matters no longer which relation is which; at most ``dfg_edge_distance``. Given for comparison
    with the literature (Elkoumy et al. 2022).
    """
    left, right = _counts_of_relations(source, release)
    return _mean_difference(np.sort(left), np.sort(right))


def _mean_difference(left: Ints, right: Ints) -> float | None:
    if not len(left):
        return None
    return float(np.abs(left - right).mean())


def directly_follows(log: Histogram) -> dict[tuple[str, str], int]:
    """How often one activity directly follows another, over all cases."""
    counts: Counter[tuple[str, str]] = Counter()
    for variant, cases in log.items():
        for pair in pairwise(variant):
            counts[pair] += cases
    return dict(counts)


def _counts_of_relations(source: Histogram, release: Histogram) -> tuple[Ints, Ints]:
    """The counts of every relation that occurs in either log, in one order: twice int64, shape
    (relations,).
    """
    left, right = directly_follows(source), directly_follows(release)
    pairs = left.keys() | right.keys()
    return (
        np.array([left.get(pair, 0) for pair in pairs], np.int64),
        np.array([right.get(pair, 0) for pair in pairs], np.int64),
    )


def _share_of(count: int, total: int) -> float | None:
    return count / total if total else None


def _cases_of(side: Histogram) -> Floats:
    return np.array(list(side.values()), np.float64)


def _lengths_of(side: Iterable[Variant]) -> Ints:
    return np.array([len(variant) for variant in side], np.int64)


def _edit_distances(rows: Iterable[Variant], columns: Iterable[Variant]) -> Ints32:
    """Edit distances between variants, in activities: int32, shape (rows, columns)."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    sides = [list(rows), list(columns)]
    alphabet = {label for side in sides for variant in side for label in variant}
    # Each activity becomes one character, so that the distance of texts is that of variants.
    letters = {label: chr(position_to_code(place)) for place, label in enumerate(sorted(alphabet))}

    def text_of(variant: Variant) -> str:
        return "".join(letters[label] for label in variant)

    texts = [list(map(text_of, side)) for side in sides]
    return np.asarray(process.cdist(*texts, scorer=Levenshtein.distance, dtype=np.int32))


def _transport_cost(supply: Floats, demand: Floats, costs: Floats) -> float:
    """The least cost of moving ``supply`` to ``demand``, both of one sum: the exact optimum, by the
    network simplex.
    """
    # Else torch loads, where it is installed.
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
    from ot import emd2

    cost, report = emd2(supply, demand, costs, numItermax=_ITERATIONS, log=True)
    if report["warning"]:
        raise MechanismError(
            "audit/utility", f"the earth mover's distance was not found: {report['warning']}"
        )
    return float(cost)
