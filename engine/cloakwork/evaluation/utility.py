"""Utility: how much of a log a release keeps.

A measure is a function of both logs that gives fields of ``Utility``; MEASURES lists them. Figures
that compare a release with its source read the raw log outside any guarantee: they are for the
internal report alone (``privacy.md`` section 3, rule 8), and choosing between several runs after
reading them voids the claims.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from cloakwork.base.errors import first_line
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.progress import Reporter
from cloakwork.base.quantities import Frozen, figure
from cloakwork.evaluation.control_flow import (
    FlowGraph,
    Histogram,
    absolute_log_difference,
    directly_follows,
    distances_of_steps,
    flow_graph,
    histogram,
    relative_log_similarity,
    true_variants,
)
from cloakwork.evaluation.discovery import Discovery, evaluate_in_subprocess
from cloakwork.evaluation.learning import LearnedFrom, learned_from
from cloakwork.evaluation.literature import PublishedFigures, ordinary_cases, published_figures
from cloakwork.evaluation.notes import contradicted_facts
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
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.sample import CaseSample, sampled_cases
from cloakwork.plan.model import Plan, Step
from cloakwork.run.run import Observer

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
    released_cases: int | None = figure("Cases released", "The closer to the source the better.")
    source_variants: int | None = figure("Variants in the source", "Distinct activity sequences.")
    true_variants: int | None = figure(
        "True variants", "Released variants that occur in the source."
    )
    fake_variants: int | None = figure(
        "Fake variants", "Released variants that do not occur in the source."
    )
    variant_precision: float | None = figure(
        "Variant precision", "Share of the released variants that are true."
    )
    variant_recall: float | None = figure(
        "Variant recall", "Share of the source's variants that are released."
    )
    case_precision: float | None = figure(
        "Variant precision, by cases", "Share of the released cases that follow a true variant."
    )
    case_recall: float | None = figure(
        "Variant recall, by cases", "Share of the source's cases whose variant is released."
    )
    relative_log_similarity: float | None = figure(
        "Relative log similarity",
        "How alike the variants and their shares are; similar variants count in part. 1 is best.",
    )
    absolute_log_difference: int | None = figure(
        "Absolute log difference",
        "Events to insert, remove or rename to turn one log into the other. 0 is best.",
    )
    dfg_edge_distance: float | None = figure(
        "Directly-follows distance",
        "How far the count of a step from one activity to the next is off, "
        "on average over all such steps. 0 is best.",
    )
    dfg_frequency_distance: float | None = figure(
        "Directly-follows distance, sorted (Libra's EMD Freq)",
        "The same when only the list of counts matters, and not which step has which; "
        "as the literature prints it.",
    )
    ordinary_cases: float | None = figure(
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


@dataclass(frozen=True)
class ComparedLogs:
    """What a measure is given.

    ``plan``: None where nobody knows how the release was made. ``seconds``: that mining a process
    model may take (0: none is mined). ``most_pairs``: of a variant here and one there; of more, no
    earth mover's distance is taken.
    """

    source: SeenLog
    released: SeenLog
    plan: Plan | None = None
    seconds: float = 0.0
    most_pairs: int = MOST_PAIRS

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
    most_pairs: int = MOST_PAIRS,
    seconds: float = 0.0,
) -> Utility:
    """Every figure of ``release`` against ``source`` that needs no plan; see ``ComparedLogs``."""
    logs = ComparedLogs(
        SeenLog.of(source),
        SeenLog.of(release),
        seconds=seconds,
        most_pairs=most_pairs,
    )
    return compared(logs)


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
    attributes, times = logs.columns
    if not (attributes or times):
        return {}
    source, released = logs.logs
    if logs.plan is None:
        return {"whole_log": compare_whole_logs(source, released, attributes=attributes)}
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


def _ordinary(logs: ComparedLogs) -> Mapping[str, Any]:
    # As long as mining a model, and asked for with it.
    return {"ordinary_cases": ordinary_cases(*logs.variants)} if logs.seconds else {}


def _published(logs: ComparedLogs) -> Mapping[str, Any]:
    return {"published": published_figures(logs.logs, logs.variants)}


def _of_few_pairs(figure: Callable[[Histogram, Histogram], float], logs: ComparedLogs) -> Any:
    """A figure that compares each variant of one log with each of the other."""
    pairs = len(logs.source.variants) * len(logs.released.variants)
    if pairs > logs.most_pairs:
        raise ValueError(
            f"left out, since {pairs:,} pairs of variants take too long "
            f"(at most {logs.most_pairs:,})"
        )
    return {figure.__name__: figure(*logs.variants)}


def _flow(logs: ComparedLogs) -> Mapping[str, Any]:
    return {"flow": flow_graph(*logs.logs, variants=logs.variants)}


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

    sides = logs.source.sample, logs.released.sample
    source, released = logs.logs
    # A sample of the cases would be found more easily than all of them.
    if source.events.height > MOST_ATTACKED or not all(side.is_whole for side in sides):
        raise ValueError(
            f"not measured, as the log has more than {MOST_ATTACKED:,} events; 'cloakwork risk' "
            "takes longer, and tells"
        )
    return {"findable": findable(source, released, plan, targets=ATTACKED)}


def _learned(logs: ComparedLogs) -> Mapping[str, Any]:
    return {"learned": learned_from(*logs.logs)}


MEASURES: Final[tuple[Measure, ...]] = (
    Measure("times and attributes", _times_and_attributes),
    Measure("variants", _variants, of_flow=True),
    Measure("process discovery", _discovery, of_flow=True),
    Measure("cases that look ordinary", _ordinary, of_flow=True),
    Measure("figures of papers", _published, of_flow=True),
    Measure(
        "relative log similarity", partial(_of_few_pairs, relative_log_similarity), of_flow=True
    ),
    Measure(
        "absolute log difference", partial(_of_few_pairs, absolute_log_difference), of_flow=True
    ),
    Measure("directly-follows graph", _flow),
    Measure("models of the release", _learned, of_flow=True),
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

    def finished(self, source: LogHandle, released: LogHandle) -> Mapping[str, JsonValue]:
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
