"""Utility: how much of a log a release keeps.

A measure is a function of both logs that gives fields of ``Utility``; MEASURES lists them. Figures
that compare a release with its source read the raw log outside any guarantee: they are for the
internal report alone (``privacy.md`` section 3, rule 8), and choosing between several runs after
reading them voids the claims.

Beside figures it is noted which columns look like times beside a claim that takes them as known,
and where the log contradicts what its policy declares public. Of a log that may be too large to
look at as a whole, some measures take a random sample of the cases.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from functools import cached_property, partial
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.errors import first_line
from cloakwork.base.facts import Facts, RangeType
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import TIME_TYPE, values_of
from cloakwork.base.progress import Reporter
from cloakwork.base.quantities import Figure, Frozen, figure
from cloakwork.base.text import share_in_words
from cloakwork.evaluation.control_flow import (
    FlowGraph,
    Histogram,
    PublishedFigures,
    absolute_log_difference,
    directly_follows,
    distances_of_steps,
    flow_graph,
    histogram,
    ordinary_cases,
    published_figures,
    relative_log_similarity,
    true_variants,
)
from cloakwork.evaluation.discovery import Discovery, evaluate_in_subprocess
from cloakwork.evaluation.learning import LearnedFrom, learned_from
from cloakwork.evaluation.risk_figures import Attack
from cloakwork.evaluation.times import (
    ShareCurve,
    TimeUtility,
    compare_times_of_batches,
    rewrites_only_times,
)
from cloakwork.evaluation.whole_log import (
    WeekClock,
    WholeLogUtility,
    compare_whole_logs,
    time_curves,
)
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, LogHandle, joined_batches
from cloakwork.log.times import parse_times
from cloakwork.mechanisms.steps import Figures
from cloakwork.plan.model import Plan, Step
from cloakwork.run.run import Observer

MOST_EVENTS: Final = 500_000
"""About how many events a sample has; a log in batches that has no more is taken as it is."""

_MOST_CASES: Final = 4 * MOST_EVENTS
"""A log of cases without events is no reason to hold all of them."""

_PLACE: Final = 40
"""Bits for the row of a case in its batch, where it has no index."""


@frozen
class CaseSample:
    """Cases of a log of ``case_count`` cases: all of them, or some at random."""

    log: EventLog
    case_count: int

    @property
    def is_whole(self) -> bool:
        """Whether these are all cases of the log."""
        return self.log.cases.height == self.case_count

    def __str__(self) -> str:
        """How many of how many."""
        return f"{self.log.cases.height:,} of {self.case_count:,} cases"


def sampled_cases(log: LogHandle, most_events: int = MOST_EVENTS) -> CaseSample:
    """Cases of all batches with about ``most_events`` events; the whole log where it has no more,
    or is in memory anyway.

    Each case is chosen, or not, by its index in the log alone, so that the same are chosen before
    and after a step. What is chosen follows from no value, and hides nothing: for figures that
    nobody outside sees.
    """
    cases = log.case_count
    if isinstance(log, EventLog):
        return CaseSample(log, cases)
    share = min(most_events / max(log.event_count, 1), _MOST_CASES / max(cases, 1))
    if share >= 1:
        return CaseSample(_in_order(list(log.batches())), cases)

    def chosen(place: int, batch: EventLog) -> EventLog:
        numbers = batch.case_index
        if numbers is None:
            # Batch and row in one number, as the cases have no index.
            numbers = (place << _PLACE) + np.arange(batch.cases.height)
        return batch.keep_cases(np.flatnonzero(_are_chosen(numbers, share)))

    return CaseSample(_in_order(list(log.results(chosen))), cases)


def _in_order(batches: list[EventLog]) -> EventLog:
    """End to end; where cases have indexes, in their order."""
    log = joined_batches(batches)
    if all(batch.case_index is None for batch in batches):
        return replace(log, case_index=None)
    return log.keep_cases(np.argsort(log.index_of_case, kind="stable"))


def _are_chosen(numbers: Ints, share: float) -> Bools:
    """About this share of the numbers, at random by each number (the mixer of SplitMix64)."""
    # Unsigned numbers wrap around, as the mixer wants it.
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(32)) < np.uint64(share * 2**32)


_DATE: Final = r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}"


_EPOCHS: Final = ((5e8, 4.2e9), (5e11, 4.2e12), (5e14, 4.2e15), (5e17, 4.2e18))
"""Seconds, milliseconds, microseconds and nanoseconds since 1970, for times between 1985 and 2103.
"""


@frozen
class TimeHints(Observer):
    """Tells of released attributes that look like times beside a claim that takes them as known;
    figures of the raw log.

    Only a hint, for the internal report: no list of names decides which columns hold times, so the
    claim names every such column, and this stops nothing. It reads no column but those that the
    claim takes as known.
    """

    plan: Plan

    def notes(self, source: LogHandle) -> Iterator[str]:
        """A sentence for each such attribute."""
        # A claim that takes nothing as known leaves no column of times open.
        if all(claim.given is None for claim in self.plan.claims):
            return
        found: dict[str, _Looks] = {}
        for looks in source.results(partial(_looks_in, releases=self.plan.releases)):
            for name, seen in looks.items():
                found[name] = _Looks(*map(add, found[name], seen)) if name in found else seen
        for name, seen in found.items():
            if seen.are_times:
                yield (
                    f"'{name}' looks like times, and the claim over timestamps takes it as known: "
                    "whoever reads the release learns them; "
                    "drop it in the policy if they are to stay hidden"
                )


class _Looks(NamedTuple):
    """How many values of a column are times by their type or their text, how many are numbers, and
    how many of these lie ``inside`` of each of ``_EPOCHS``: int64, shape (4,). All of it adds up
    over batches.
    """

    dated: int
    numbers: int
    inside: Ints

    @classmethod
    def of(cls, column: pl.Series) -> "_Looks":
        dated = 0
        values = column.drop_nulls()
        if column.dtype.is_temporal():
            dated = 1
        elif column.dtype == pl.String:
            dated = int(values.str.contains(_DATE).sum())
        if not column.dtype.is_numeric():
            values = pl.Series(dtype=pl.Float64)
        inside = [values.is_between(low, high).sum() for low, high in _EPOCHS]
        return cls(dated, len(values), np.array(inside))

    @property
    def are_times(self) -> bool:
        """By the type, by a text, or by where most numbers lie: a few far off, such as 0 for a
        missing time, change nothing.
        """
        return self.dated > 0 or bool((2 * self.inside > self.numbers).any())


def _looks_in(
    _: int,
    log: EventLog,
    releases: Callable[[str], bool],
) -> dict[str, _Looks]:
    """Of each released column of a batch but the standard ones."""
    return {
        name: _Looks.of(values_of(table, name))
        for table in (log.cases, log.events)
        for name in table.drop(CASE_ID, ACTIVITY, TIMESTAMP, strict=False).columns
        if releases(name)
    }


def contradicted_facts(
    log: EventLog,
    facts: Facts,
    attributes: Iterable[str],
) -> tuple[str, ...]:
    """One sentence for each declared fact that the raw ``log`` contradicts. What does is dropped,
    missing or moved in a release, and nothing public says so: a misspelt value of a domain goes by
    unnoticed otherwise.

    ``attributes``: those whose declared values count, by name. Facts of a DP profile are nobody's
    declaration, and are left out.
    """
    found: list[str] = []
    if facts.alphabet is not None and "alphabet" not in facts.measured:
        labels = log.activities.drop_nulls()
        outside = ~labels.is_in(list(facts.alphabet))
        found += _said(outside, "events have activities that assume.alphabet lacks")
    found += _against_rules(log, facts)
    found += _against_times(log, facts)
    for name in attributes:
        found += _against_values(log, facts, name)
    return tuple(found)


def _against_rules(log: EventLog, facts: Facts) -> Iterator[str]:
    """Of the cases as they count: without activities that are not declared."""
    if facts.rules is None:
        return
    events = pl.DataFrame({"case": log.case_of, "label": log.activities})
    if facts.alphabet is not None:
        events = events.filter(pl.col("label").is_in(list(facts.alphabet)))
    cases = events.drop_nulls().group_by("case", maintain_order=True).agg("label")["label"]
    broken = [not facts.rules.keeps(case) for case in cases.to_list()]
    yield from _said(pl.Series(broken, dtype=pl.Boolean), "cases break assume.rules")


def _against_times(log: EventLog, facts: Facts) -> Iterator[str]:
    if TIMESTAMP not in log.events.columns:
        return
    timed = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP]}).drop_nulls()
    if facts.window is not None and "window" not in facts.measured:
        # Compared in UTC, whatever zone the log's times are in.
        starts = timed.group_by("case").agg(pl.col("time").min())["time"]
        window = (facts.window.start.astimezone(UTC), facts.window.end.astimezone(UTC))
        outside = ~starts.dt.convert_time_zone("UTC").is_between(*window)
        yield from _said(outside, "cases start outside of assume.window")
    if facts.longest_gap is not None and "longest_gap" not in facts.measured:
        gaps = timed.select(pl.col("time").diff().over("case"))["time"].drop_nulls()
        yield from _said(gaps > facts.longest_gap, "gaps are longer than assume.longest_gap")


def _against_values(
    log: EventLog,
    facts: Facts,
    name: str,
) -> Iterator[str]:
    table = log.table_of(name)
    if name not in table.columns:
        yield f"the log has no attribute '{name}'"
        return
    values = values_of(table, name).drop_nulls()
    if values.dtype.is_nested():
        yield f"the log's values of '{name}' are lists, which are released as missing"
        return
    numbers = _numbers(values, facts.types.get(name, "number"))
    if name in facts.ranges:
        outside = ~numbers.is_between(*facts.ranges[name]).fill_null(value=False)
        yield from _said(outside, f"values of '{name}' lie outside of its range")
    elif name in facts.domains:
        domain = facts.domains[name]
        # A value is in the domain as a number, as a text, or as a truth value in any spelling.
        truths = [str(value).lower() for value in domain if isinstance(value, bool)]
        texts = truths + [value for value in domain if isinstance(value, str)]
        of_texts = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
        listed = [float(value) for value in domain if isinstance(value, int | float)]
        spelt = values.cast(pl.String)
        either_case = [text for text in texts if text in ("true", "false")]
        is_known = (
            numbers.is_in([*of_texts, *listed]).fill_null(value=False)
            | spelt.is_in(texts)
            | spelt.str.to_lowercase().is_in(either_case)
        )
        yield from _said(~is_known, f"values of '{name}' are none of its domain")


def _numbers(values: pl.Series, type_: RangeType) -> pl.Series:
    """Values as numbers of a range of this type, as a mechanism reads them; null for others."""
    if type_ in ("number", "integer"):
        return values.cast(pl.String).cast(pl.Float64, strict=False)
    texts = values.dtype == pl.String
    times = parse_times(values).values if texts else values.cast(TIME_TYPE, strict=False)
    step = 86_400_000_000 if type_ == "date" else 1_000_000
    return times.to_physical() // step


def _said(is_so: pl.Series, what: str) -> Iterator[str]:
    """What share of the log contradicts a fact, if any does."""
    share = is_so.mean()
    if isinstance(share, float) and share > 0:
        yield f"{share_in_words(share)} of the log's {what}"


MOST_VARIANTS: Final = 200_000
"""Variants of a log that are counted in all of its cases: some 50 MB. Of a log that seems to have
more, those of a sample are compared.
"""

MOST_PAIRS: Final = 6_000_000
"""Pairs of variants to compare, for an earth mover's distance in a report: about ten seconds of one
core, and 500 MB.
"""

ATTACKED: Final = 150
"""Cases that are looked for in a release for a report."""

MOST_ATTACKED: Final = 200_000
"""Events of a log in which cases are looked for, for a report."""

_MICROSECONDS: Final = {"date": 86_400e6, "time": 1e6}
"""Of a step of a declared range, by its type."""

_AS_IN_THE_SOURCE: Final = ("keep", "protect")
"""Treatments that leave an attribute its own values; others put other names in their place."""


class Utility(Frozen):
    """What a release keeps of its source's control flow. Titles and descriptions are what the
    internal report prints.

    A figure that is None could not be had; ``notes`` says why, except for shares of nothing.
    """

    source_cases: int | None = figure("Cases in the source", "Cases with at least one named event.")
    released_cases: int | None = figure(
        "Cases released", "Cases; the closer to the source the better."
    )
    source_variants: int | None = figure(
        "Variants in the source", "Variants: distinct activity sequences."
    )
    true_variants: int | None = figure(
        "True variants", "Variants of the release that the source has."
    )
    fake_variants: int | None = figure(
        "Fake variants", "Variants of the release that the source lacks. 0 is best."
    )
    variant_precision: Figure = figure(
        "Variant precision", "Share of the released variants that are true. 1 is best."
    )
    variant_recall: Figure = figure(
        "Variant recall", "Share of the source's variants that are released. 1 is best."
    )
    case_precision: Figure = figure(
        "Variant precision, by cases",
        "Share of the released cases that follow a true variant. 1 is best.",
    )
    case_recall: Figure = figure(
        "Variant recall, by cases",
        "Share of the source's cases whose variant is released. 1 is best.",
    )
    relative_log_similarity: Figure = figure(
        "Relative log similarity",
        "How alike the variants and their shares are; similar variants count in part. 1 is best.",
    )
    absolute_log_difference: int | None = figure(
        "Absolute log difference",
        "Events to insert, remove or rename to turn one log into the other. 0 is best.",
    )
    dfg_edge_distance: Figure = figure(
        "Directly-follows distance",
        "How far the count of a step from one activity to the next is off, "
        "on average over all such steps. 0 is best.",
    )
    dfg_frequency_distance: Figure = figure(
        "Directly-follows distance, sorted (Libra's EMD Freq)",
        "The same when only the list of counts matters, and not which step has which; "
        "as the literature prints it.",
    )
    ordinary_cases: Figure = figure(
        "Cases that look ordinary",
        "Share of the released cases that an isolation forest, trained on the source, calls "
        "normal. 1 is best.",
    )
    discovery: Discovery | None = None
    published: PublishedFigures | None = None
    times: TimeUtility | None = None
    whole_log: WholeLogUtility | None = None
    flow: FlowGraph | None = None
    curves: tuple[ShareCurve, ...] = ()
    learned: LearnedFrom | None = None
    findable: tuple[Attack, ...] = ()
    notes: tuple[str, ...] = ()


@frozen
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


@dataclass(frozen=True)
class ComparedLogs:
    """What a measure is given.

    ``plan``: None where nobody knows how the release was made. ``seconds``: that mining a process
    model may take (0: none is mined).
    """

    source: SeenLog
    released: SeenLog
    plan: Plan | None = None
    seconds: float = 0.0

    @property
    def logs(self) -> tuple[EventLog, EventLog]:
        """Source and release, or the samples of their cases."""
        return self.source.sample.log, self.released.sample.log

    @property
    def variants(self) -> tuple[Histogram, Histogram]:
        """The variants of source and release."""
        return self.source.variants, self.released.variants

    @property
    def rewritten(self) -> bool:
        """Whether the control flow may be another than that of the source."""
        return self.plan is None or CONTROL_FLOW in _written_by(self.plan)

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], bool]:
        """The attributes of the release that are worth a comparison, in its order, and whether its
        times are; without a plan, all that both logs have.
        """
        source, released = self.logs
        if self.plan is not None:
            return compared_columns(self.plan, released)
        known = {*source.columns} - {CASE_ID, ACTIVITY, TIMESTAMP}
        return tuple(name for name in released.columns if name in known), True


class Measure(NamedTuple):
    """``name``: in notes, where a figure could not be had. ``of``: fields of ``Utility``; none
    where there is nothing to compare. ``of_flow``: only where the control flow may be another.
    """

    name: str
    of: Callable[[ComparedLogs], Mapping[str, Any]]
    of_flow: bool = False


def measured(
    source: LogHandle,
    release: LogHandle,
    *,
    seconds: float = 0.0,
) -> Utility:
    """Every figure of ``release`` against ``source`` that needs no plan; see ``ComparedLogs``."""
    logs = ComparedLogs(SeenLog.of(source), SeenLog.of(release), seconds=seconds)
    found = compared(logs)
    before, after = ({name for variant in each for name in variant} for each in logs.variants)
    if before & after or not after:
        return found
    said = "the source has none of the release's activities: is it the log that it was made from?"
    return found.model_copy(update={"notes": (said, *found.notes)})


def compared(logs: ComparedLogs) -> Utility:
    """Every figure, within bounds; one that fails is None, with a note."""
    notes = [*sample_notes(logs.source, logs.released)]
    found: dict[str, Any] = {}
    for measure in MEASURES:
        if measure.of_flow and not logs.rewritten:
            continue
        try:
            found |= measure.of(logs)
        except Exception as error:
            notes.append(f"{measure.name}: {first_line(error)}")
    return Utility(**found, notes=tuple(notes))


def sample_notes(source: SeenLog, release: SeenLog) -> tuple[str, ...]:
    """Which figures are those of a sample, in one sentence a log."""
    sides = (source, "the source"), (release, "the release")
    return tuple(
        f"of {name} {'times and attributes are' if seen.counts_all else 'all figures are'} those "
        f"of a random sample of {seen.sample}"
        for seen, name in sides
        if not seen.sample.is_whole
    )


def _times_and_attributes(logs: ComparedLogs) -> Mapping[str, Any]:
    source, released = logs.logs
    if logs.plan is None:
        times = TIMESTAMP in released.events.columns
        found = compare_whole_logs(source, released, times=times, attributes=logs.columns[0])
        return {"whole_log": found}
    return {"whole_log": whole_log_utility(logs.plan, source, released)}


def _variants(logs: ComparedLogs) -> Mapping[str, Any]:
    before, after = logs.variants
    true = true_variants(before, after)
    edges, frequencies = distances_of_steps(*map(directly_follows, (before, after)))
    cases_before = sum(before.values())
    cases_after = sum(after.values())
    return {
        "source_cases": cases_before,
        "released_cases": cases_after,
        "source_variants": len(before),
        "true_variants": len(true),
        "fake_variants": len(after) - len(true),
        "variant_precision": _share_of(len(true), len(after)),
        "variant_recall": _share_of(len(true), len(before)),
        "case_precision": _share_of(sum(after[variant] for variant in true), cases_after),
        "case_recall": _share_of(sum(before[variant] for variant in true), cases_before),
        "dfg_edge_distance": edges,
        "dfg_frequency_distance": frequencies,
    }


def _share_of(count: int, total: int) -> float | None:
    return count / total if total else None


def _discovery(logs: ComparedLogs) -> Mapping[str, Any]:
    if not logs.seconds:
        return {}
    return {"discovery": evaluate_in_subprocess(*logs.variants, logs.seconds)}


def _of_few_pairs(figure: Callable[[Histogram, Histogram], float], logs: ComparedLogs) -> Any:
    """A figure that compares each variant of one log with each of the other."""
    pairs = len(logs.source.variants) * len(logs.released.variants)
    if pairs > MOST_PAIRS:
        raise ValueError(
            f"left out, since {pairs:,} pairs of variants take too long (at most {MOST_PAIRS:,})"
        )
    return {figure.__name__: figure(*logs.variants)}


def _curves(logs: ComparedLogs) -> Mapping[str, Any]:
    """Of times where a step changed times alone, so that no other figure brought them."""
    plan = logs.plan
    if plan is None or TIMESTAMPS not in plan.released or logs.columns[1]:
        return {}
    return {"curves": time_curves(*logs.logs, week_clock(plan.facts))}


def _findable(logs: ComparedLogs) -> Mapping[str, Any]:
    """Who is found in the release, by what is known of him."""
    plan = logs.plan
    if plan is None:
        return {}
    from cloakwork.evaluation.knowledge import findable  # scipy loads where it is used

    source, released = logs.logs
    # A sample of the cases would be found more easily than all of them.
    is_whole = logs.source.sample.is_whole and logs.released.sample.is_whole
    if source.events.height > MOST_ATTACKED or not is_whole:
        raise ValueError(
            f"not measured, as the log has more than {MOST_ATTACKED:,} events; 'cloakwork risk "
            "--whole' takes longer, and tells"
        )
    return {"findable": findable(source, released, plan, targets=ATTACKED)}


MEASURES: Final[tuple[Measure, ...]] = (
    Measure("times and attributes", _times_and_attributes),
    Measure("variants", _variants, of_flow=True),
    Measure("process discovery", _discovery, of_flow=True),
    # As long as mining a model, and asked for with it.
    Measure(
        "cases that look ordinary",
        lambda logs: {"ordinary_cases": ordinary_cases(*logs.variants)} if logs.seconds else {},
        of_flow=True,
    ),
    Measure(
        "figures of papers",
        lambda logs: {"published": published_figures(logs.logs, logs.variants)},
        of_flow=True,
    ),
    Measure(
        "relative log similarity", partial(_of_few_pairs, relative_log_similarity), of_flow=True
    ),
    Measure(
        "absolute log difference", partial(_of_few_pairs, absolute_log_difference), of_flow=True
    ),
    Measure(
        "directly-follows graph",
        lambda logs: {"flow": flow_graph(*logs.logs, variants=logs.variants)},
    ),
    Measure(
        "models of the release",
        lambda logs: {"learned": learned_from(*logs.logs)},
        of_flow=True,
    ),
    Measure("curves of times", _curves),
    Measure("who is found", _findable),
)
"""In the order of their notes."""


@dataclass(slots=True)
class KeptUtility(Observer):
    """How much is left of the control flow, of times and of attributes, for the internal report if
    there will be one; of large logs, of a sample of their cases where it is no count of all.

    Whatever goes wrong here is noted there: the release is made, paid for, and does not depend on
    it. ``mining_seconds``: that mining a process model may take (0: none is mined).
    """

    plan: Plan
    reporter: Reporter
    mining_seconds: float = 0.0
    times: TimeUtility | None = field(default=None, init=False)

    def stepped(
        self,
        step: Step,
        before: LogHandle,
        after: LogHandle,
    ) -> None:
        """Figures of times before and after the last step that rewrites them."""
        if not (self.plan.policy.spec.output.report and rewrites_only_times(step)):
            return
        try:
            self.times = compare_times_of_batches(before, after)
        except Exception as error:
            self.times = TimeUtility(notes=(f"times were not compared: {first_line(error)}",))

    def finished(self, source: LogHandle, released: LogHandle) -> Figures:
        """All figures as data."""
        if not self.plan.policy.spec.output.report:
            return {}
        try:
            logs = ComparedLogs(
                SeenLog.of(source),
                SeenLog.of(released),
                self.plan,
                self.mining_seconds,
            )
        except Exception as error:
            notes = (f"utility was not measured: {first_line(error)}",)
            return Utility(times=self.times, notes=notes).model_dump(mode="json")
        self.reporter("measuring utility, for the internal report only")
        found = compared(logs).model_copy(update={"times": self.times})
        return found.model_dump(mode="json")


def whole_log_utility(
    plan: Plan,
    source: EventLog,
    released: EventLog,
) -> WholeLogUtility | None:
    """How far times and attributes of ``released`` are from those of ``source``, as distributions;
    both under the standard names. None where there is nothing to compare.
    """
    attributes, times = compared_columns(plan, released)
    if not attributes and not times:
        return None
    # A declared range in the unit that values are compared in: times in microseconds.
    ranges = {}
    for name, (low, high) in plan.facts.ranges.items():
        unit = _MICROSECONDS.get(plan.facts.types.get(name, "number"), 1.0)
        ranges[name] = low * unit, high * unit
    found = compare_whole_logs(
        source,
        released,
        times=times,
        attributes=attributes,
        ranges=ranges,
        clock=week_clock(plan.facts),
    )
    if not any(step.lineage.generates for step in plan.steps):
        return found
    measured_columns = {name for step in plan.steps for name in step.lineage.measures}
    declared = [*plan.facts.domains, *plan.facts.ranges]
    contradicted = contradicted_facts(
        source, plan.facts, [name for name in declared if name in measured_columns]
    )
    return found.model_copy(update={"contradicted": contradicted})


def compared_columns(plan: Plan, released: EventLog) -> tuple[tuple[str, ...], bool]:
    """The attributes of the release that are worth a comparison, in its order, and whether its
    times are.

    That is what the plan rewrites: everything where it rewrites the control flow, else the
    attributes that a step writes (what happened to times is then compared event by event).
    Attributes that are generalised, be it to reach k, or pseudonymised are left out: other values
    stand there.
    """
    coarser = {name for goal in plan.policy.goals() for name in goal.quasi_identifiers()}
    written = _written_by(plan)
    rewritten = CONTROL_FLOW in written
    attributes = []
    for name in released.columns:
        treated = plan.treated(name)
        if name in {CASE_ID, ACTIVITY, TIMESTAMP, *coarser} or treated is None:
            continue
        if treated.treatment in _AS_IN_THE_SOURCE and (rewritten or name in written):
            attributes.append(name)
    has_times = TIMESTAMP in released.events.columns and TIMESTAMPS in plan.released
    return tuple(attributes), rewritten and has_times


def _written_by(plan: Plan) -> set[str]:
    return {name for step in plan.steps for name in step.lineage.writes}


def week_clock(facts: Facts) -> WeekClock:
    """The declared clock; of days where the declared grid is of whole days."""
    whole_days = facts.grid % timedelta(days=1) == timedelta(0)
    return WeekClock(zone=facts.time_zone, days_from=facts.epoch if whole_days else None)
