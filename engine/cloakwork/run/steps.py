"""One step of a plan: what its mechanism gets to see, and what becomes of the log.

Whatever a mechanism returns is held to what its step declares, whoever brings the mechanism; what
it raises is told as its package's, where that is not Cloakwork.
"""

import sys
from collections.abc import Callable
from dataclasses import field, replace
from datetime import timedelta
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from pydantic import BaseModel, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.facts import Facts, ProcessRules, Unit
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.engines.base import Engine
from cloakwork.engines.measured import ColumnsOfCases, ReleasedLog, measured_log, measured_of
from cloakwork.engines.noised import noise_on_times, noise_on_values
from cloakwork.kernel import Answer, Books, Cases, Kernel, Measured, MeasuredBatches, Randomness
from cloakwork.kernel.books import composed
from cloakwork.kernel.local import Randomising
from cloakwork.kernel.perturb import OneTime, Perturbing
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    TIMESTAMP,
    Aggregate,
    Change,
    EventLog,
    LogHandle,
)
from cloakwork.log.variants import CasesOfVariants
from cloakwork.mechanisms.aggregates import CaseRows, VariantCounts
from cloakwork.mechanisms.base import Mechanism
from cloakwork.mechanisms.registry import Package
from cloakwork.mechanisms.steps import (
    CASES_OF_A_PART,
    ColumnValues,
    Completion,
    Decision,
    EnrichCases,
    Enrichment,
    EnrichStep,
    Figures,
    GenerateCases,
    MapCases,
    MapCasesBySummary,
    Measurement,
    MeasureStep,
    NoiseOnTimesStep,
    NoiseOnValuesStep,
    NoisySample,
    Rewrite,
    RewriteStep,
    StepKind,
)
from cloakwork.noise import Noise, source_of
from cloakwork.run.search_cache import SearchCache, decide_with_cache

Found = TypeVar("Found")

_COLUMN_OF: Final = {ACTIVITY: CONTROL_FLOW, TIMESTAMP: TIMESTAMPS}
"""Lineage's name of a standard column of the events."""


@frozen
class Outcome:
    """What a step does to the log, figures for the internal report, and what it really measured:
    None where it measures nothing. ``asked``: the kernel that it asked.
    """

    rewrite: Rewrite
    internal: Figures = field(default_factory=dict)
    recorded: PrivacyEvent | None = None
    asked: Kernel | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The kernel's: more of them are read while the rewrite is carried out."""
        return () if self.asked is None else self.asked.answers


@frozen
class GrantedStep:
    """A step ready to be taken: its kind, and what a plan grants it: the columns of its lineage,
    answers that cost its event at most, and a log in which each ``unit`` has been bounded.

    ``source``: the mechanism by name, and who brings it; ``params``: its own. ``shift``: where the
    plan claims metric privacy, how far a value may move; None where it protects units. ``rules``:
    none of the cases that are made of answers breaks one.
    """

    kind: StepKind
    source: Package
    params: BaseModel
    unit: Unit
    shift: timedelta | None = None
    rules: ProcessRules | None = None

    @classmethod
    def of(
        cls,
        mechanism: Mechanism[Any],
        params: BaseModel,
        facts: Facts,
    ) -> "GrantedStep":
        """With all that the mechanism asks for; a plan holds the same, proved."""
        kind = mechanism.step(params, facts)
        shift = None
        if isinstance(kind, NoiseOnTimesStep) and kind.currency == "metric":
            protects = kind.noise.protects
            shift = protects.shift if isinstance(protects, OneTime) else None
        source = Package(mechanism.name, mechanism.package)
        return cls(
            kind,
            source,
            params,
            facts.unit,
            shift,
            facts.rules,
        )

    @property
    def name(self) -> str:
        """Of the mechanism."""
        return self.source.name

    @property
    def aggregate(self) -> Aggregate | None:
        """What is counted of each batch of the log; None where nothing is, or each case is asked
        about by itself.
        """
        match self.kind:
            case RewriteStep(summary=summary) if summary is not None:
                return HeldAggregate(summary, self.source)
            case MeasureStep() | EnrichStep():
                asked = self.asked
                return asked if isinstance(asked, VariantCounts) else None
        return None

    @property
    def asked(self) -> VariantCounts | CaseRows:
        """What a kernel answers from: only what the lineage names. Variants do where that is the
        control flow; else each case is by itself.
        """
        lineage = self.kind.lineage
        # Granted is what it measures; raw columns only where new cases are made of them, or the
        # control flow where it is taken as known.
        columns = lineage.measures
        if isinstance(self.kind, MeasureStep) or lineage.is_given_flow:
            columns |= lineage.reads
        if CONTROL_FLOW not in columns:
            raise PlanUnsound(f"{self.name} was granted nothing that it can measure")
        unit = self.unit.attribute if self.unit.attribute in columns else None
        # The control flow comes with every summary, and the unit by itself.
        values = columns - {CONTROL_FLOW, METADATA, unit}
        if not values:
            return VariantCounts(unit)
        # Sums bound what one case more or less does; another value in a case would move them twice.
        # A step that is given the flow is charged for that.
        is_charged = CONTROL_FLOW in lineage.measures or lineage.is_given_flow
        if lineage.measures and (not is_charged or self.shift is not None):
            raise PlanUnsound(f"{self.name} measures values of cases that it takes as known")
        return CaseRows(tuple(sorted(values)), unit)

    def look(
        self,
        log: LogHandle,
        engine: Engine,
        noise: Noise,
    ) -> Measured | MeasuredBatches | pl.DataFrame:
        """What of ``log`` the step may go by: a summary, or what a kernel answers from."""
        asks = isinstance(self.kind, MeasureStep | EnrichStep)
        if asks and isinstance(rows := self.asked, CaseRows):
            seen = measured_log(log, rows, noise)
            # Only what adds columns is asked batch by batch.
            return seen if isinstance(self.kind, EnrichStep) else seen.whole()
        return self.opened(engine.summarise(log, self.aggregate), noise)

    def opened(self, summary: pl.DataFrame, noise: Noise) -> Measured | pl.DataFrame:
        """A merged summary, as the step may go by it."""
        asks = isinstance(self.kind, MeasureStep | EnrichStep)
        return measured_of(summary, noise) if asks else summary

    def take(
        self,
        seen: Measured | MeasuredBatches | pl.DataFrame,
        noise: Noise,
        searches: SearchCache | None = None,
        released: LogHandle | None = None,
    ) -> Outcome:
        """Decide, or measure, by what ``look`` found; ``released``: the cases that a step which
        enriches adds columns to.
        """
        match self.kind, seen:
            case MeasureStep(), Measured():
                return self._made_cases(seen, noise)
            case EnrichStep(), Measured() | MeasuredBatches():
                return self._enriched_cases(seen, noise, released)
            case RewriteStep(), pl.DataFrame():
                return self._rewritten(
                    self.kind,
                    seen,
                    noise,
                    searches,
                )
            case NoiseOnTimesStep(), _:
                return self._noise_on_times(self.kind, noise)
            case NoiseOnValuesStep(noise=declared, values=values), _:
                of_cases = {name for name in declared.noises if name.startswith(CASE_PREFIX)}
                # Its event is in the books before a value is looked at.
                books = Books.of(self.kind.event)
                stream = noise.stream().part("noise")
                randomising = Randomising(
                    declared,
                    frozenset(of_cases),
                    books,
                    stream,
                )
                action = noise_on_values(randomising, values)
                return Outcome(action, recorded=composed(books.recorded))
        raise PlanUnsound(f"{self.name} was handed what another kind of step goes by")

    def measure(self, seen: Measured, noise: Noise) -> tuple[Measurement, Kernel]:
        """What a ``MeasureStep`` makes of a kernel's answers, and the kernel, closed."""
        if not isinstance(self.kind, MeasureStep):
            raise PlanUnsound(f"{self.name} makes no cases of answers")
        found, kernel = self._asked(
            self.kind.measure,
            Measurement,
            "measure",
            seen,
            noise,
        )
        return found.keeping(self.rules), kernel

    def enrich(
        self,
        seen: Measured | MeasuredBatches,
        noise: Noise,
        cases: Cases,
    ) -> tuple[Enrichment, Kernel]:
        """What an ``EnrichStep`` makes of a kernel's answers for ``cases``, and the kernel,
        closed.
        """
        if not isinstance(self.kind, EnrichStep):
            raise PlanUnsound(f"{self.name} adds no columns to cases")
        enrich = self.kind.enrich
        return self._asked(
            lambda kernel: enrich(kernel, cases),
            Enrichment,
            "enrich",
            seen,
            noise,
        )

    def _asked(
        self,
        ask: Callable[[Kernel], Found],
        returns: type[Found],
        what: str,
        seen: Measured | MeasuredBatches,
        noise: Noise,
    ) -> tuple[Found, Kernel]:
        """What ``ask`` makes of a kernel's answers, and the kernel, closed: it says what these
        really cost.
        """
        kernel = Kernel(
            seen,
            Books.of(self.kind.event),
            noise,
            self.unit.max_cases,
            is_ours=self.source.package is None,
            replaced=self.kind.lineage.is_given_flow,
        )
        found = self.source.held(ask, returns, what)(kernel)
        kernel.close()
        return found, kernel

    def _made_cases(self, seen: Measured, noise: Noise) -> Outcome:
        found, kernel = self.measure(seen, noise)
        # What came out without a case is not released.
        is_released = found.cases > 0
        figures: dict[str, JsonValue] = {
            "variants in the log": len(seen.variant_counts),
            "cases in the log": int(seen.counts.sum()),
            "variants released": int(is_released.sum()),
            "cases released": int(found.cases[is_released].sum()),
            **found.internal,
        }
        cases = CasesOfVariants.of(found.variants, found.cases)
        # Parts of many cases are each to be like all of them.
        if cases.case_count > CASES_OF_A_PART and not found.columns:
            cases = cases.spread()
        make = self._making(cases, found.columns)
        return Outcome(
            GenerateCases(cases.case_count, make, cases.events_until),
            figures,
            kernel.recorded,
            kernel,
        )

    def _making(
        self,
        cases: CasesOfVariants,
        columns: ColumnValues,
    ) -> Callable[[int, int], EventLog]:
        """What makes a range of the cases, with their part of the columns."""
        self._require_columns(columns)
        if not columns:
            return cases.made
        index = np.arange(cases.case_count)
        offsets = cases.offsets_of_cases()
        found = self._columns_of_cases(columns, index, offsets)
        return lambda first, behind: found.added(cases.made(first, behind))

    def _enriched_cases(
        self,
        seen: Measured | MeasuredBatches,
        noise: Noise,
        released: LogHandle | None,
    ) -> Outcome:
        if released is None:
            raise PlanUnsound(f"{self.name} adds columns to cases, and none were made before it")
        in_parts = isinstance(self.kind, EnrichStep) and self.kind.in_parts
        size = CASES_OF_A_PART if in_parts else sys.maxsize
        made = ReleasedLog.of(released, self.kind.lineage.reads - {METADATA}, size)
        asked = made.fullest()
        found, kernel = self.enrich(seen, noise, made.cases_of(asked))
        first = self._added(found.columns, asked)
        place = int(asked.index_of_case.max(initial=0)) // size
        stream = noise.stream() if made.parts.height > 1 else None

        def added(part: EventLog) -> EventLog:
            of = int(part.index_of_case.max(initial=0)) // size
            if of == place or found.of_part is None or stream is None:
                return first.added(part)
            # Drawn by the part's own key: the same again, whatever is drawn before.
            randomness = Randomness(source_of(stream.part(f"part {of}")))
            return self._added(found.of_part(made.cases_of(part), randomness), part).added(part)

        return Outcome(
            EnrichCases(released, size, added),
            dict(found.internal),
            kernel.recorded,
            kernel,
        )

    def _added(self, columns: ColumnValues, part: EventLog) -> ColumnsOfCases:
        self._require_columns(columns)
        return self._columns_of_cases(columns, part.index_of_case, part.offsets)

    def _columns_of_cases(
        self,
        columns: ColumnValues,
        index: Ints,
        offsets: Ints,
    ) -> ColumnsOfCases:
        try:
            return ColumnsOfCases.of(columns, index, offsets)
        except ValueError as error:
            raise self.source.fault(f"it made {error}") from error

    def _require_columns(self, columns: ColumnValues) -> None:
        """A mechanism makes all columns that it may write, and no other."""
        lineage = self.kind.lineage
        with_cases = {CONTROL_FLOW, METADATA} if lineage.generates else {METADATA}
        if set(columns) != lineage.writes - with_cases:
            raise self.source.fault("it made other columns than its lineage writes")

    def _noise_on_times(self, kind: NoiseOnTimesStep, noise: Noise) -> Outcome:
        books = Books.of(kind.event)
        stream = noise.stream()
        perturbing = Perturbing(
            kind.noise,
            books,
            stream.part("noise"),
            self.unit.max_cases,
            self.shift,
        )

        def complete(sample: NoisySample) -> Completion:
            # A fault in it is that of who brings the mechanism, and is said so.
            with self.source.errors_attributed("complete failed"):
                completion = kind.complete(sample)
            return self.source.held(completion, np.ndarray, "complete")

        action = noise_on_times(perturbing, complete, stream)
        return Outcome(action, recorded=composed(books.recorded))

    def _rewritten(
        self,
        kind: RewriteStep,
        summary: pl.DataFrame,
        noise: Noise,
        searches: SearchCache | None,
    ) -> Outcome:
        with self.source.errors_attributed("decide failed"):
            decision = decide_with_cache(
                kind,
                self.name,
                self.params,
                summary,
                noise,
                searches,
            )
        # What a package returns is checked by type, as it may be anything.
        self.source.require_type(decision, Decision, "decide")
        self.source.require_type(decision.table, pl.DataFrame, "decide")
        with self.source.errors_attributed("rewrite failed"):
            action = kind.rewrite(decision, noise.stream())
        return Outcome(self._held(action), dict(decision.internal))

    def _held(self, action: Rewrite) -> Rewrite:
        """A rewrite that is refused where it returns something else than a log, releases a column
        that its lineage does not write, or forgets which events are inserted.
        """
        generates = self.kind.lineage.generates
        match action:
            case GenerateCases(make=make):
                make = self.source.held(make, EventLog, "rewrite")

                def held_making(first: int, behind: int) -> EventLog:
                    made = make(first, behind)
                    self._require_written(_column_names(made))
                    return made

                return replace(action, make=held_making)
            case MapCases(apply=apply) if not generates:
                return replace(action, apply=self._held_mapping(apply))
            case MapCasesBySummary(aggregate=aggregate, mapping=mapping) if not generates:
                mapping = self.source.held(mapping, MapCases, "rewrite")

                def held(table: pl.DataFrame) -> MapCases:
                    found = mapping(table)
                    return replace(found, apply=self._held_mapping(found.apply))

                return MapCasesBySummary(HeldAggregate(aggregate, self.source), held)
            case MapCases() | MapCasesBySummary():
                raise self.source.fault(
                    "makes new cases by its lineage, yet its rewrite maps the cases of the log"
                )
        raise self.source.fault(f"rewrite returned {type(action).__name__}, no rewrite")

    def _held_mapping(self, apply: Change) -> Change:
        lineage = self.kind.lineage
        apply = self.source.held(apply, EventLog, "rewrite")

        def held(before: EventLog) -> EventLog:
            after = apply(before)
            # Only columns that were not there before are new to the release.
            self._require_written(_column_names(after) - _column_names(before))
            # What is checked on the kept events alone would count inserted ones for real.
            if after.inserted is None and (lineage.inserts or before.inserted is not None):
                raise self.source.fault(
                    "it does not say which events are inserted (EventLog.inserted); "
                    "change a log by dataclasses.replace, keep_cases or keep_events"
                )
            return after

        return held

    def _require_written(self, columns: set[str]) -> None:
        """A column that no step is known to write would be released unjudged."""
        released = {_COLUMN_OF.get(column, column) for column in columns - {CASE_ID}}
        unknown = sorted(released - self.kind.lineage.writes)
        if unknown:
            raise self.source.fault(
                f"releases {', '.join(unknown)}, which its lineage does not write"
            )


@frozen
class HeldAggregate:
    """The summary that a mechanism takes: a table, or the fault of who brings it."""

    aggregate: Aggregate
    source: Package

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Its summary of one batch."""
        return self.source.held(self.aggregate.of, pl.DataFrame, "summary")(batch)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Its summaries, merged."""
        return self.source.held(self.aggregate.merge, pl.DataFrame, "summary")(summaries)


def _column_names(log: EventLog) -> set[str]:
    return {*log.events.columns, *log.cases.columns}
