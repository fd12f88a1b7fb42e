"""One step of a plan: what its mechanism gets to see, and what becomes of the log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
from pydantic import BaseModel, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError, PlanUnsound
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.privacy_event import PrivacyEvent, charges_anything
from cloakwork.engines.base import Engine
from cloakwork.engines.enriched import ColumnsOfCases
from cloakwork.engines.measured import ReleasedCases, measured_of
from cloakwork.engines.noise_on_times import noise_on_times
from cloakwork.engines.noise_on_values import noise_on_values
from cloakwork.kernel import Books, Cases, Kernel, Measured, Perturbation
from cloakwork.kernel.books import composed
from cloakwork.kernel.local import Randomisation, Randomising
from cloakwork.kernel.perturb import OneTime, Perturbing
from cloakwork.log.eventlog import EventLog
from cloakwork.log.from_variants import CasesOfVariants
from cloakwork.log.handle import LogHandle
from cloakwork.mechanisms.aggregates import CaseRows, VariantCounts
from cloakwork.mechanisms.base import (
    Aggregate,
    EnrichCases,
    Enriches,
    GenerateCases,
    Measurement,
    Measures,
    Perturbs,
    Rewrite,
)
from cloakwork.mechanisms.local_values import Randomises
from cloakwork.mechanisms.noisy_times import Completion, NoisySample
from cloakwork.mechanisms.third_party import Watched
from cloakwork.mechanisms.values import ColumnValues, Enrichment
from cloakwork.noise import Noise
from cloakwork.run.search_cache import SearchCache, decide_with_cache


@dataclass(frozen=True, slots=True)
class Grant:
    """What a plan grants a step: the columns of its ``lineage``, answers that cost ``event`` at
    most, and a log in which each ``unit`` has been bounded. ``shift``: where the plan claims metric
    privacy, how far a value may move; None where it protects units.
    """

    lineage: Lineage
    event: PrivacyEvent
    unit: Unit
    shift: timedelta | None = None

    @classmethod
    def of(cls, mechanism: Any, params: BaseModel, facts: Facts) -> "Grant":
        """What a mechanism asks for; a plan holds the same, proved."""
        lineage, event = mechanism.lineage(params), mechanism.event(params, facts)
        shift = None
        if mechanism.currency(params) == "metric" and isinstance(mechanism, Perturbs):
            protects = mechanism.perturbs(params).protects
            shift = protects.shift if isinstance(protects, OneTime) else None
        return cls(lineage, event, facts.unit, shift)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step does to the log, figures for the internal report, and what it really measured:
    None where it measures nothing.
    """

    rewrite: Rewrite
    internal: Mapping[str, JsonValue] = field(default_factory=dict)
    recorded: PrivacyEvent | None = None


def look(
    mechanism: Any, params: BaseModel, log: LogHandle, engine: Engine, noise: Noise, grant: Grant
) -> Measured | pl.DataFrame:
    """What of ``log`` the step may go by: a summary, or what a kernel answers from."""
    return opened(mechanism, engine.summarise(log, aggregate_of(mechanism, params, grant)), noise)


def aggregate_of(mechanism: Any, params: BaseModel, grant: Grant) -> Aggregate | None:
    """What is counted of each batch of the log: by a mechanism that measures, only what the step
    was granted. Variants do where that is the control flow; else each case is by itself.
    """
    if isinstance(mechanism, Perturbs | Randomises):
        return None
    if not isinstance(mechanism, Measures | Enriches):
        _require_no_measurement(mechanism, grant)
        found: Aggregate | None = mechanism.summarise(params)
        return found
    name = mechanism_name(mechanism)
    columns = grant.lineage.measures
    if isinstance(mechanism, Measures):
        columns |= grant.lineage.reads
    if CONTROL_FLOW not in columns:
        raise PlanUnsound(f"{name} was granted nothing that it can measure")
    unit = grant.unit.attribute if grant.unit.attribute in columns else None
    values = columns - {CONTROL_FLOW, METADATA, unit}
    if not values:
        return VariantCounts(unit)
    # Sums bound what one case more or less does; another value in a case would move them twice.
    measures_flow = CONTROL_FLOW in grant.lineage.measures
    if grant.lineage.measures and (not measures_flow or grant.shift is not None):
        raise PlanUnsound(f"{name} measures values of cases that it takes as known otherwise")
    return CaseRows(tuple(sorted(values)), unit)


def _require_no_measurement(mechanism: Any, grant: Grant) -> None:
    """What sees rows of the log measures nothing: whatever costs something asks a kernel."""
    if grant.lineage.measures or charges_anything(grant.event):
        name = mechanism_name(mechanism)
        raise PlanUnsound(f"{name} measures the log without a kernel that counts what it asks")


def opened(mechanism: Any, summary: pl.DataFrame, noise: Noise) -> Measured | pl.DataFrame:
    """A merged summary, as the mechanism may go by it."""
    asks = isinstance(mechanism, Measures | Enriches)
    return measured_of(summary, noise) if asks else summary


def take(
    mechanism: Any,
    params: BaseModel,
    seen: Measured | pl.DataFrame,
    noise: Noise,
    grant: Grant,
    searches: SearchCache | None = None,
    released: LogHandle | None = None,
) -> Outcome:
    """Let the mechanism decide, or measure, by what ``look`` found; ``released``: the cases that
    one which enriches adds columns to.
    """
    if isinstance(seen, Measured) and isinstance(mechanism, Enriches):
        return _enrich_cases(mechanism, params, seen, noise, grant, released)
    if isinstance(seen, Measured):
        return _make_cases(mechanism, params, seen, noise, grant)
    if isinstance(mechanism, Perturbs):
        return _perturb_times(mechanism, params, noise, grant)
    if isinstance(mechanism, Randomises):
        return _randomise_values(mechanism, params, noise, grant)
    decision = decide_with_cache(mechanism, params, seen, noise, searches)
    return Outcome(mechanism.rewrite(params, decision, noise.stream()), dict(decision.internal))


def measure(
    mechanism: Any, params: BaseModel, seen: Measured, noise: Noise, grant: Grant
) -> tuple[Measurement, PrivacyEvent]:
    """What a mechanism makes of a kernel's answers, and what these really cost."""
    kernel = _kernel_for(mechanism, seen, noise, grant)
    found = mechanism.measure(params, kernel)
    kernel.close()
    if not isinstance(found, Measurement):
        raise MechanismError(mechanism_name(mechanism), "measure returned no Measurement")
    return found, kernel.recorded


def _kernel_for(mechanism: Any, seen: Measured, noise: Noise, grant: Grant) -> Kernel:
    # A sensitivity that is proved on paper needs a proof, and a check by exhaustion, of ours.
    ours = not isinstance(mechanism, Watched)
    books = Books.of(grant.event)
    return Kernel(seen, books, noise, grant.unit.max_cases, allows_custom=ours)


def enrich(
    mechanism: Any, params: BaseModel, seen: Measured, noise: Noise, grant: Grant, cases: Cases
) -> tuple[Enrichment, PrivacyEvent]:
    """What a mechanism makes of a kernel's answers for ``cases``, and what these really cost."""
    kernel = _kernel_for(mechanism, seen, noise, grant)
    found = mechanism.enrich(params, kernel, cases)
    kernel.close()
    if not isinstance(found, Enrichment):
        raise MechanismError(mechanism_name(mechanism), "enrich returned no Enrichment")
    return found, kernel.recorded


def _enrich_cases(
    mechanism: Any,
    params: BaseModel,
    seen: Measured,
    noise: Noise,
    grant: Grant,
    released: LogHandle | None,
) -> Outcome:
    name, lineage = mechanism_name(mechanism), grant.lineage
    if released is None:
        raise PlanUnsound(f"{name} adds columns to cases, and none were made before it")
    made = ReleasedCases.of(released, lineage.reads - {METADATA})
    found, recorded = enrich(mechanism, params, seen, noise, grant, made.cases)
    offsets = made.cases.offsets
    columns = _columns_of_cases(found.columns, made.index, offsets, mechanism, grant)
    return Outcome(EnrichCases(released, columns.added), dict(found.internal), recorded)


def _make_cases(
    mechanism: Any, params: BaseModel, seen: Measured, noise: Noise, grant: Grant
) -> Outcome:
    found, recorded = measure(mechanism, params, seen, noise, grant)
    is_released = found.cases > 0
    figures: dict[str, JsonValue] = {
        "variants in the log": len(seen.variant_counts),
        "cases in the log": int(seen.counts.sum()),
        "variants released": int(is_released.sum()),
        "cases released": int(found.cases[is_released].sum()),
        **found.internal,
    }
    cases = CasesOfVariants.of(found.variants, found.cases)
    make = _made_with_columns(cases, found.columns, mechanism, grant)
    return Outcome(GenerateCases(cases.case_count, make, cases.events_until), figures, recorded)


def _made_with_columns(
    cases: CasesOfVariants, columns: ColumnValues, mechanism: Any, grant: Grant
) -> Callable[[int, int], EventLog]:
    """What makes a range of the cases, with their part of the columns."""
    if not columns:
        _require_columns(columns, mechanism, grant)
        return cases.made
    index, offsets = np.arange(cases.case_count), cases.offsets_of_cases()
    found = _columns_of_cases(columns, index, offsets, mechanism, grant)
    return lambda first, behind: found.added(cases.made(first, behind))


def _columns_of_cases(
    columns: ColumnValues, index: Ints, offsets: Ints, mechanism: Any, grant: Grant
) -> ColumnsOfCases:
    """Columns that a mechanism made for cases: all that it may write, and no other."""
    _require_columns(columns, mechanism, grant)
    try:
        return ColumnsOfCases.of(columns, index, offsets)
    except ValueError as error:
        raise MechanismError(mechanism_name(mechanism), f"it made {error}") from error


def _require_columns(columns: ColumnValues, mechanism: Any, grant: Grant) -> None:
    lineage = grant.lineage
    with_cases = {CONTROL_FLOW, METADATA} if lineage.generates else {METADATA}
    if set(columns) != lineage.writes - with_cases:
        name = mechanism_name(mechanism)
        raise MechanismError(name, "it made other columns than its lineage writes")


def _perturb_times(mechanism: Perturbs, params: BaseModel, noise: Noise, grant: Grant) -> Outcome:
    name = mechanism_name(mechanism)
    declared = mechanism.perturbs(params)
    if not isinstance(declared, Perturbation):
        raise MechanismError(name, "perturbs returned no Perturbation")
    if TIMESTAMPS not in grant.lineage.measures or CONTROL_FLOW not in grant.lineage.reads:
        raise PlanUnsound(f"{name} was not granted the times and the order of events")
    books, stream = Books.of(grant.event), noise.stream()
    perturbing = Perturbing(
        declared, books, stream.part("noise"), grant.unit.max_cases, grant.shift
    )

    def complete(sample: NoisySample) -> Completion:
        return mechanism.completion(params, sample)

    action = noise_on_times(perturbing, complete, stream)
    return Outcome(action, recorded=composed(books.recorded))


def _randomise_values(
    mechanism: Randomises, params: BaseModel, noise: Noise, grant: Grant
) -> Outcome:
    name, lineage = mechanism_name(mechanism), grant.lineage
    declared = mechanism.randomises(params)
    if not isinstance(declared, Randomisation):
        raise MechanismError(name, "randomises returned no Randomisation")
    names = frozenset(declared.noises)
    if lineage.reads or not names <= lineage.measures or names != lineage.writes:
        raise PlanUnsound(f"{name} randomises other values than its plan lists")
    of_cases = frozenset(each for each in names if each.startswith(CASE_PREFIX))
    books = Books.of(grant.event)
    randomising = Randomising(declared, of_cases, books, noise.stream().part("noise"))
    action = noise_on_values(randomising, mechanism.public_values(params))
    return Outcome(action, recorded=composed(books.recorded))


def mechanism_name(mechanism: Any) -> str:
    """As policies and plans name it."""
    return str(mechanism.name)
