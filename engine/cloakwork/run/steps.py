"""One step of a plan: what its mechanism gets to see, and what becomes of the log."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import BaseModel, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.errors import MechanismError, PlanUnsound
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.engines.base import Engine
from cloakwork.engines.measured import ColumnsOfCases, ReleasedCases, measured_of
from cloakwork.engines.noised import noise_on_times, noise_on_values
from cloakwork.kernel import Books, Cases, Kernel, Measured
from cloakwork.kernel.books import composed
from cloakwork.kernel.local import Randomising
from cloakwork.kernel.perturb import OneTime, Perturbing
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.log.variants import CasesOfVariants
from cloakwork.mechanisms.aggregates import CaseRows, VariantCounts
from cloakwork.mechanisms.base import Mechanism
from cloakwork.mechanisms.registry import Package
from cloakwork.mechanisms.steps import (
    Aggregate,
    ColumnValues,
    Completion,
    Decision,
    EnrichCases,
    Enrichment,
    EnrichStep,
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
from cloakwork.noise import Noise
from cloakwork.run.search_cache import SearchCache, decide_with_cache


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step does to the log, figures for the internal report, and what it really measured:
    None where it measures nothing.
    """

    rewrite: Rewrite
    internal: Mapping[str, JsonValue] = field(default_factory=dict)
    recorded: PrivacyEvent | None = None


@dataclass(frozen=True, slots=True)
class GrantedStep:
    """A step ready to be taken: its kind, and what a plan grants it: the columns of its lineage,
    answers that cost its event at most, and a log in which each ``unit`` has been bounded.

    ``shift``: where the plan claims metric privacy, how far a value may move; None where it
    protects units. ``name`` and ``params``: of the mechanism. ``package``: who brings it, where
    that is not Cloakwork: its faults are then told as that package's.
    """

    kind: StepKind
    name: str
    params: BaseModel
    unit: Unit
    shift: timedelta | None = None
    package: str | None = None

    @classmethod
    def of(cls, mechanism: Mechanism[Any], params: BaseModel, facts: Facts) -> "GrantedStep":
        """With all that the mechanism asks for; a plan holds the same, proved."""
        kind, shift = mechanism.step(params, facts), None
        if isinstance(kind, NoiseOnTimesStep) and kind.currency == "metric":
            protects = kind.noise.protects
            shift = protects.shift if isinstance(protects, OneTime) else None
        return cls(kind, mechanism.name, params, facts.unit, shift, mechanism.package)

    @property
    def aggregate(self) -> Aggregate | None:
        """What is counted of each batch of the log; of one that asks a kernel, only what its
        lineage names. Variants do where that is the control flow; else each case is by itself.
        """
        match self.kind:
            case RewriteStep(summary=summary):
                if summary is None or self.package is None:
                    return summary
                return PackageAggregate(summary, self._source)
            case NoiseOnTimesStep() | NoiseOnValuesStep():
                return None
        lineage = self.kind.lineage
        columns = lineage.measures
        if isinstance(self.kind, MeasureStep):
            columns |= lineage.reads
        if CONTROL_FLOW not in columns:
            raise PlanUnsound(f"{self.name} was granted nothing that it can measure")
        unit = self.unit.attribute if self.unit.attribute in columns else None
        values = columns - {CONTROL_FLOW, METADATA, unit}
        if not values:
            return VariantCounts(unit)
        # Sums bound what one case more or less does; another value in a case would move them twice.
        measures_flow = CONTROL_FLOW in lineage.measures
        if lineage.measures and (not measures_flow or self.shift is not None):
            raise PlanUnsound(f"{self.name} measures values of cases that it takes as known")
        return CaseRows(tuple(sorted(values)), unit)

    def look(self, log: LogHandle, engine: Engine, noise: Noise) -> Measured | pl.DataFrame:
        """What of ``log`` the step may go by: a summary, or what a kernel answers from."""
        return self.opened(engine.summarise(log, self.aggregate), noise)

    def opened(self, summary: pl.DataFrame, noise: Noise) -> Measured | pl.DataFrame:
        """A merged summary, as the step may go by it."""
        asks = isinstance(self.kind, MeasureStep | EnrichStep)
        return measured_of(summary, noise) if asks else summary

    def take(
        self,
        seen: Measured | pl.DataFrame,
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
            case EnrichStep(), Measured():
                return self._enriched_cases(seen, noise, released)
            case NoiseOnTimesStep(), _:
                return self._noise_on_times(self.kind, noise)
            case NoiseOnValuesStep(), _:
                return self._noise_on_values(self.kind, noise)
            case RewriteStep(), pl.DataFrame():
                return self._rewritten(self.kind, seen, noise, searches)
        raise PlanUnsound(f"{self.name} was handed what another kind of step goes by")

    def measure(self, seen: Measured, noise: Noise) -> tuple[Measurement, PrivacyEvent]:
        """What a ``MeasureStep`` makes of a kernel's answers, and what these really cost."""
        if not isinstance(self.kind, MeasureStep):
            raise PlanUnsound(f"{self.name} makes no cases of answers")
        kernel = self._kernel(seen, noise)
        with self._attributed("measure failed"):
            found = self.kind.measure(kernel)
        kernel.close()
        self._require_type(found, Measurement, "measure")
        return found, kernel.recorded

    def enrich(self, seen: Measured, noise: Noise, cases: Cases) -> tuple[Enrichment, PrivacyEvent]:
        """What an ``EnrichStep`` makes of a kernel's answers for ``cases``, and what these really
        cost.
        """
        if not isinstance(self.kind, EnrichStep):
            raise PlanUnsound(f"{self.name} adds no columns to cases")
        kernel = self._kernel(seen, noise)
        with self._attributed("enrich failed"):
            found = self.kind.enrich(kernel, cases)
        kernel.close()
        self._require_type(found, Enrichment, "enrich")
        return found, kernel.recorded

    def _rewritten(
        self, kind: RewriteStep, summary: pl.DataFrame, noise: Noise, searches: SearchCache | None
    ) -> Outcome:
        with self._attributed("decide failed"):
            decision = decide_with_cache(kind, self.name, self.params, summary, noise, searches)
        self._require_type(decision, Decision, "decide")
        self._require_type(decision.table, pl.DataFrame, "decide")
        with self._attributed("rewrite failed"):
            action = kind.rewrite(decision, noise.stream())
        return Outcome(self._checked(action), dict(decision.internal))

    def _kernel(self, seen: Measured, noise: Noise) -> Kernel:
        books = Books.of(self.kind.event)
        # A sensitivity that is proved on paper needs a proof, and a check by exhaustion, of ours.
        ours = self.package is None
        return Kernel(seen, books, noise, self.unit.max_cases, allows_custom=ours)

    def _made_cases(self, seen: Measured, noise: Noise) -> Outcome:
        found, recorded = self.measure(seen, noise)
        is_released = found.cases > 0
        figures: dict[str, JsonValue] = {
            "variants in the log": len(seen.variant_counts),
            "cases in the log": int(seen.counts.sum()),
            "variants released": int(is_released.sum()),
            "cases released": int(found.cases[is_released].sum()),
            **found.internal,
        }
        cases = CasesOfVariants.of(found.variants, found.cases)
        make = self._made_with_columns(cases, found.columns)
        return Outcome(GenerateCases(cases.case_count, make, cases.events_until), figures, recorded)

    def _made_with_columns(
        self, cases: CasesOfVariants, columns: ColumnValues
    ) -> Callable[[int, int], EventLog]:
        """What makes a range of the cases, with their part of the columns."""
        if not columns:
            self._require_columns(columns)
            return cases.made
        index, offsets = np.arange(cases.case_count), cases.offsets_of_cases()
        found = self._columns_of_cases(columns, index, offsets)
        return lambda first, behind: found.added(cases.made(first, behind))

    def _enriched_cases(self, seen: Measured, noise: Noise, released: LogHandle | None) -> Outcome:
        if released is None:
            raise PlanUnsound(f"{self.name} adds columns to cases, and none were made before it")
        made = ReleasedCases.of(released, self.kind.lineage.reads - {METADATA})
        found, recorded = self.enrich(seen, noise, made.cases)
        columns = self._columns_of_cases(found.columns, made.index, made.cases.offsets)
        return Outcome(EnrichCases(released, columns.added), dict(found.internal), recorded)

    def _columns_of_cases(
        self, columns: ColumnValues, index: Ints, offsets: Ints
    ) -> ColumnsOfCases:
        """Columns that a mechanism made for cases: all that it may write, and no other."""
        self._require_columns(columns)
        try:
            return ColumnsOfCases.of(columns, index, offsets)
        except ValueError as error:
            raise self._fault(f"it made {error}") from error

    def _require_columns(self, columns: ColumnValues) -> None:
        lineage = self.kind.lineage
        with_cases = {CONTROL_FLOW, METADATA} if lineage.generates else {METADATA}
        if set(columns) != lineage.writes - with_cases:
            raise self._fault("it made other columns than its lineage writes")

    def _noise_on_times(self, kind: NoiseOnTimesStep, noise: Noise) -> Outcome:
        books, stream = Books.of(kind.event), noise.stream()
        perturbing = Perturbing(
            kind.noise, books, stream.part("noise"), self.unit.max_cases, self.shift
        )
        complete = kind.complete
        if self.package is not None:
            complete = self._completion_of_package
        action = noise_on_times(perturbing, complete, stream)
        return Outcome(action, recorded=composed(books.recorded))

    def _completion_of_package(self, sample: NoisySample) -> Completion:
        assert isinstance(self.kind, NoiseOnTimesStep)  # noqa: S101 - called for it alone
        with self._attributed("complete failed"):
            completion = self.kind.complete(sample)
        return self._source.guarded(completion, "complete failed")

    def _noise_on_values(self, kind: NoiseOnValuesStep, noise: Noise) -> Outcome:
        of_cases = frozenset(name for name in kind.noise.noises if name.startswith(CASE_PREFIX))
        books = Books.of(kind.event)
        randomising = Randomising(kind.noise, of_cases, books, noise.stream().part("noise"))
        action = noise_on_values(randomising, kind.values)
        return Outcome(action, recorded=composed(books.recorded))

    def _checked(self, action: Rewrite) -> Rewrite:
        """A rewrite that is refused where it returns something else than a log, releases a column
        that its lineage does not write, or forgets which events are inserted.
        """
        generates = self.kind.lineage.generates
        match action:
            case GenerateCases():
                return replace(action, make=self._checked_making(action.make))
            case MapCases() if not generates:
                return replace(action, apply=self._checked_mapping(action.apply))
            case MapCasesBySummary(aggregate=aggregate, mapping=mapping) if not generates:
                if self.package is not None:
                    aggregate = PackageAggregate(aggregate, self._source)
                return MapCasesBySummary(aggregate, lambda table: self._checked_map(mapping, table))
            case MapCases() | MapCasesBySummary():
                said = "makes new cases by its lineage, yet its rewrite maps the cases of the log"
                raise self._fault(said)
        raise self._fault(f"rewrite returned {type(action).__name__}, no rewrite")

    def _checked_map(
        self, mapping: Callable[[pl.DataFrame], MapCases], table: pl.DataFrame
    ) -> MapCases:
        with self._attributed("rewrite failed"):
            action = mapping(table)
        self._require_type(action, MapCases, "rewrite")
        return replace(action, apply=self._checked_mapping(action.apply))

    def _checked_making(
        self, make: Callable[[int, int], EventLog]
    ) -> Callable[[int, int], EventLog]:
        def make_and_check(first: int, behind: int) -> EventLog:
            with self._attributed("rewrite failed"):
                made = make(first, behind)
            self._require_type(made, EventLog, "rewrite")
            self._require_written(_column_names(made))
            return made

        return make_and_check

    def _checked_mapping(
        self, apply: Callable[[EventLog], EventLog]
    ) -> Callable[[EventLog], EventLog]:
        lineage = self.kind.lineage

        def apply_and_check(before: EventLog) -> EventLog:
            with self._attributed("rewrite failed"):
                after = apply(before)
            self._require_type(after, EventLog, "rewrite")
            self._require_written(_column_names(after) - _column_names(before))
            # What is checked on the kept events alone would count inserted ones for real.
            if after.inserted is None and (lineage.inserts or before.inserted is not None):
                raise self._fault(
                    "it does not say which events are inserted (EventLog.inserted); "
                    "change a log by dataclasses.replace, keep_cases or keep_events"
                )
            return after

        return apply_and_check

    def _require_written(self, columns: set[str]) -> None:
        """A column that no step is known to write would be released unjudged."""
        released = {_COLUMN_OF.get(column, column) for column in columns - {CASE_ID}}
        unknown = sorted(released - self.kind.lineage.writes)
        if unknown:
            said = f"releases {', '.join(unknown)}, which its lineage does not write"
            raise self._fault(said)

    @property
    def _source(self) -> Package:
        return Package(self.name, self.package or "cloakwork")

    def _attributed(self, what: str) -> AbstractContextManager[None]:
        """Errors of another package are told as its own; ours are ours to see."""
        return nullcontext() if self.package is None else self._source.errors_attributed(what)

    def _require_type(self, found: object, kind: type, what: str) -> None:
        if not isinstance(found, kind):
            raise self._fault(f"{what} returned {type(found).__name__}, not {kind.__name__}")

    def _fault(self, message: str) -> MechanismError:
        if self.package is None:
            return MechanismError(self.name, message)
        return self._source.package_error(message)


@dataclass(frozen=True, slots=True)
class PackageAggregate:
    """A summary that another package takes."""

    aggregate: Aggregate
    package: Package

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Its summary of one batch."""
        with self.package.errors_attributed("summary failed"):
            table = self.aggregate.of(batch)
        return self.package.require_type(table, pl.DataFrame, "summary")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Its summaries, merged."""
        with self.package.errors_attributed("summary failed"):
            table = self.aggregate.merge(summaries)
        return self.package.require_type(table, pl.DataFrame, "summary")


_COLUMN_OF: Final = {ACTIVITY: CONTROL_FLOW, TIMESTAMP: TIMESTAMPS}
"""Lineage's name of a standard column of the events."""


def _column_names(log: EventLog) -> set[str]:
    return {*log.events.columns, *log.cases.columns}
