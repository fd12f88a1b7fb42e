"""Run a plan on a log: reserve the budget, take each step, check the result. Decides nothing that the plan left open."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.accounting.charge import Charge
from cloakwork.accounting.ledger import Ledger, Reservation
from cloakwork.budget import Cost
from cloakwork.checks.measure import measure as measured_on
from cloakwork.engines.embedded import Embedded, Engine
from cloakwork.errors import GuaranteeBroken, Infeasible, LedgerError, MechanismError, OutputError
from cloakwork.facts import Facts, Unit
from cloakwork.guarantees import ConfidenceBound, KAnonymity, brief
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.io.reread import as_read, as_steps_take_it
from cloakwork.log.naming import named, values_of, without
from cloakwork.mechanisms.base import Decision
from cloakwork.mechanisms.bound import Bound, BoundParams
from cloakwork.mechanisms.profile import Profile, bought, measure_profile
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.noise import Noise, secret
from cloakwork.plan.budget import terms, unit_charge
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.derive import goal_name
from cloakwork.plan.model import Claim, Plan, Step
from cloakwork.plan.prove import plan_again
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy
from cloakwork.progress import Reporter, heard_by, silent
from cloakwork.release_model import Internal, Release, StepRecord, Verdict

NOT_PRIVATE: Final = "not-private"

Observation = Callable[[Step, EventLog, EventLog], None]
"""Sees a step, and the log before and after it; for the internal report, never raises."""

Comparison = Callable[[Plan, EventLog, EventLog], Mapping[str, JsonValue]]
"""Figures of a release against its source, both under the standard names; for the internal report, never raises."""


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage. Internal: how long a step took can depend on the log."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``name``."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begun


def wanted(plan: Plan) -> Callable[[str], bool]:
    """Which attributes of the source the plan needs at all; a reader may skip the others."""
    needed = {CASE_ID, ACTIVITY, TIMESTAMP, plan.facts.unit.attribute}
    return lambda attribute: attribute in needed or plan.releases(attribute)


def execute(
    plan: Plan,
    log: EventLog,
    ledger: Ledger | None,
    *,
    engine: Engine | None = None,
    noise: Noise | None = None,
    catalogue: Catalogue | None = None,
    reporter: Reporter = silent,
    stopwatch: Stopwatch | None = None,
    compare: Comparison | None = None,
    observe: Observation | None = None,
    folder: Path | None = None,
) -> Release:
    """The release that ``plan`` makes of ``log``.

    Proves the plan again, reserves its cost in ``ledger`` before any step reads the log, takes the steps, and measures
    what can be measured. The release stays reserved until it is published. ``folder``: where that will be, if it is
    known. Raises PlanUnsound, BudgetExceeded, GuaranteeBroken, MechanismError or LedgerError. Once reserved, budget is
    never handed back. A ``noise`` source with a fixed seed is for tests: it charges no ledger, and the release says that
    it is not private. ``compare`` sees the source and the finished log, and changes neither; ``observe`` sees the log
    before and after each step.
    """
    catalogue = all_mechanisms() if catalogue is None else catalogue
    engine, noise, watch = engine or Embedded(), noise or secret(), stopwatch or Stopwatch()
    plan = plan_again(plan, catalogue)
    reporter("plan proved again")
    prepared = _prepared(log, plan)
    _require_enough_cases(prepared, plan)
    reservation = _reserve(plan, ledger, folder) if noise.private else None
    recognised = _recognised(prepared, reservation, reporter)
    records: list[StepRecord] = []
    result = prepared
    try:
        for step in plan.steps:
            reporter(f"{step.mechanism}: {step.why}")
            before = result
            with heard_by(reporter):
                result, record = _take(step, result, engine, noise, catalogue, watch)
            records.append(record)
            if observe is not None:
                observe(step, before, result)
        with watch.stage("finish"):
            result = as_read(fresh(result, noise), plan.policy.spec.output.format)
        with watch.stage("checks"):
            verdicts = tuple(_verdict(claim, result, plan) for claim in plan.claims)
    except BaseException as error:
        if reservation is not None:
            failed(reservation, error)
        raise
    released = _without_hidden(result, plan)
    release = Release(
        log=released,
        plan=plan,
        verdicts=verdicts,
        release_id=reservation.id if reservation else NOT_PRIVATE,
        internal=Internal(
            source=_figures(log),
            steps=tuple(records),
            stages=watch.seconds,
            notes=(*log.notes, *hints(prepared, plan), *recognised),
        ),
        ledger_entry=reservation.digest if reservation else None,
        private=noise.private,
        reservation=reservation,
    )
    if compare is None:
        return release
    with watch.stage("utility"):
        utility = compare(plan, prepared, released)
    return replace(release, internal=replace(release.internal, utility=utility))


def measure(policy: Policy, log: EventLog, ledger: Ledger, *, noise: Noise | None = None) -> Profile:
    """The DP profile of ``log`` that ``policy`` buys; its share is charged to ``ledger`` before the log is looked at.

    Raises PlanImpossible where the policy buys none, or its delta is too large, BudgetExceeded and LedgerError as
    ``execute`` does, and LedgerError for a ``noise`` source with a fixed seed.
    """
    noise, params, facts = noise or secret(), bought(policy), policy.facts()
    needs = {CASE_ID, facts.unit.attribute}.__contains__
    log = _whole_units(log, facts.unit)
    prepared = _ordered(log, _renamed(log, policy, needs), policy, needs, facts.unit)
    reservation = ledger.reserve(
        policy.metadata.dataset,
        policy=policy.metadata.name,
        version=policy.metadata.version,
        policy_digest=digest(policy),
        charges=(unit_charge(Cost(epsilon=params.epsilon, delta=params.delta), facts.unit),),
        terms=terms(policy),
        note="DP profile: noisy figures of the log, for planning",
        makes="profile",
        private=noise.private,
    )
    try:
        bounds = BoundParams(
            attribute=facts.unit.attribute,
            max_cases=facts.unit.max_cases,
            alphabet=facts.alphabet,
            longest_case=facts.longest_case,
        )
        cut = Bound().rewrite(bounds, Decision(pl.DataFrame()), noise)
        figures = measure_profile(params, Embedded().rewrite(prepared, cut), noise)
    except BaseException as error:
        failed(reservation, error)
        raise
    reservation.commit()
    return Profile(
        engine=version("cloakwork"),
        dataset=policy.metadata.dataset,
        release=reservation.id,
        ledger_entry=reservation.digest,
        params=params,
        figures=figures,
    )


def foresee(
    plan: Plan,
    log: EventLog,
    *,
    engine: Engine | None = None,
    catalogue: Catalogue | None = None,
    reporter: Reporter = silent,
) -> tuple[StepRecord, ...]:
    """What the plan's first steps would change in ``log``, as figures: for those who may see it, never for the public.

    Takes the steps until one measures through noise, or reads times that a claim protects; what is foreseen may depend
    on nothing else than what every claim of the plan takes as known (``docs/guarantees.md``). Charges nothing and
    releases nothing. Raises as ``execute`` does where a step refuses the log.
    """
    catalogue, engine, noise = all_mechanisms() if catalogue is None else catalogue, engine or Embedded(), secret()
    watch, records = Stopwatch(), list[StepRecord]()
    steps = foreseeable(plan)
    result = _prepared(log, plan) if steps else log
    if steps:
        _require_enough_cases(result, plan)
    for step in steps:
        reporter(f"{step.mechanism}: {step.why}")
        with heard_by(reporter):
            result, record = _take(step, result, engine, noise, catalogue, watch)
        if record.figures:
            records.append(record)
    return tuple(records)


def foreseeable(plan: Plan) -> tuple[Step, ...]:
    """The steps that may be tried out on the log while planning; none where a claim covers what they would read, or an
    unproven goal would."""
    if plan.unproven:
        return ()
    protected = {column for claim in plan.claims if claim.cost is not None for column in claim.guarantee.over}
    allowed = list[Step]()
    for step in plan.steps:
        if step.lineage.measures or step.lineage.generates or step.lineage.reads & protected:
            break
        allowed.append(step)
    return tuple(allowed) if any(step.lineage.reads for step in allowed) else ()


def failed(reservation: Reservation, error: BaseException) -> None:
    """Record that a release came to nothing; its cost stays spent. The reason is the kind of error, never its text."""
    try:
        reservation.fail(type(error).__name__)
    except LedgerError as unrecorded:
        # The entry stays open, as after a crash: as much is spent, and ``ledger reconcile`` closes it.
        error.add_note(f"the ledger does not know yet: {unrecorded}")


def _recognised(log: EventLog, reservation: Reservation | None, reporter: Reporter) -> tuple[str, ...]:
    """Which other datasets seem to hold the same cases: internal, and nothing else depends on it."""
    if reservation is None:
        return ()
    try:
        ids = log.cases[CASE_ID].cast(pl.String).drop_nulls()
        found = [str(hint) for hint in reservation.ledger.recognise(reservation, ids)]
    except (LedgerError, OutputError) as error:
        found = [f"no fingerprint of the case ids was kept: {error}"]
    for hint in found:
        reporter(f"internal hint: {hint}")
    return tuple(found)


def _reserve(plan: Plan, ledger: Ledger | None, folder: Path | None) -> Reservation:
    if ledger is None:
        raise MechanismError("ledger", "a release with private noise needs a ledger to charge")
    meta = plan.policy.metadata
    return ledger.reserve(
        meta.dataset,
        policy=meta.name,
        version=meta.version,
        policy_digest=plan.policy_digest,
        charges=plan.charges if plan.bounded else (*plan.charges, Charge(currency="none")),
        terms=terms(plan.policy),
        note="; ".join(
            [
                *(f"UNPROVEN: {brief(item.guarantee)}" for item in plan.unproven),
                *(brief(claim.guarantee) for claim in plan.claims),
            ]
        ),
        details={
            "mechanisms": [step.mechanism for step in plan.steps],
            "guarantees": [claim.guarantee.model_dump(mode="json") for claim in plan.claims],
            "unproven": [item.guarantee.model_dump(mode="json") for item in plan.unproven],
        },
        folder=folder,
    )


def _take(
    step: Step, log: EventLog, engine: Engine, noise: Noise, catalogue: Catalogue, watch: Stopwatch
) -> tuple[EventLog, StepRecord]:
    """Summarise, decide, rewrite."""
    mechanism = catalogue[step.mechanism]
    params = mechanism.Params.model_validate(step.params)
    begun = perf_counter()
    with watch.stage(step.mechanism):
        summary = engine.summarise(log, mechanism.summarise(params))
        decision = mechanism.decide(params, summary, noise)
        after = engine.rewrite(log, mechanism.rewrite(params, decision, noise))
    _require_marks(step, log, after)
    return after, StepRecord(step.mechanism, perf_counter() - begun, dict(decision.internal))


def _require_marks(step: Step, before: EventLog, after: EventLog) -> None:
    """Refuse a step that inserts events without marking them, or forgets which ones are inserted: what is checked on
    the kept events alone would count inserted ones for real."""
    expected = step.lineage.inserts or (before.inserted is not None and not step.lineage.generates)
    if expected and after.inserted is None:
        raise MechanismError(
            step.mechanism,
            "it does not say which events are inserted (EventLog.inserted); change a log by dataclasses.replace, "
            "keep_cases or keep_events",
        )


def _prepared(log: EventLog, plan: Plan) -> EventLog:
    """The log under its standard names, without the columns that the plan does not need."""
    needs, unit = wanted(plan), plan.facts.unit
    log = _whole_units(log, unit)
    events = _renamed(log, plan.policy, needs)
    if log.events.height:
        _require(events, plan)
        _require_quasi_identifiers(log, plan)
    ordered = _ordered(log, events, plan.policy, needs, unit)
    return ordered if TIMESTAMPS in plan.released else replace(ordered, events=ordered.events.drop(TIMESTAMP))


def _renamed(log: EventLog, policy: Policy, needs: Callable[[str], bool]) -> pl.DataFrame:
    """The events under standard names, without the columns that nobody needs."""
    activity = policy.attribute_with("control-flow") or ACTIVITY
    names = {activity: ACTIVITY, _timestamp_of(policy): TIMESTAMP}
    return pl.DataFrame(
        {
            names.get(name, name): _as_text(log, name) if name == activity else values_of(log.events, name)
            for name in log.events.columns
            if name in names or (needs(name) and name not in (ACTIVITY, TIMESTAMP))
        }
    )


def _as_text(log: EventLog, attribute: str) -> pl.Series:
    """The characters of an attribute that tells activities or units apart (``privacy.md`` 1: text is identity)."""
    text = log.text_of(attribute)
    if text is None:
        table = log.cases if attribute.startswith(CASE_PREFIX) else log.events
        raise MechanismError(
            "input",
            f"'{attribute}' tells activities or units apart and holds {table.schema[attribute]}, whose spelling one "
            f"more value can change; give it as text (read_log(path, text=['{attribute}']), or a column of strings)",
        )
    return text


def _timestamp_of(policy: Policy) -> str:
    return policy.attribute_with("timestamp") or TIMESTAMP


def _ordered(log: EventLog, events: pl.DataFrame, policy: Policy, needs: Callable[[str], bool], unit: Unit) -> EventLog:
    """``events`` and the needed attributes of the cases as a log, in the order of the policy's times."""
    timestamp = _timestamp_of(policy)
    events = _complete(events, log.events.height)
    if not (events[TIMESTAMP].dtype.is_temporal() or events[TIMESTAMP].dtype == pl.Null):
        raise MechanismError(
            "input", f"'{timestamp}' has the role timestamp and does not hold times; mend the policy or the log"
        )
    cases = log.cases.select(named(*(name for name in log.cases.columns if name == CASE_ID or needs(name))))
    output = policy.spec.output.format
    events, cases = as_steps_take_it(events, output), as_steps_take_it(cases, output)
    if unit.attribute in cases.columns:
        cases = cases.with_columns(_as_text(log, unit.attribute).alias(unit.attribute))
    if timestamp != TIMESTAMP:
        return EventLog.build(events, cases, log.case_of)
    return EventLog(events, cases, log.offsets, log.notes)


def _whole_units(log: EventLog, unit: Unit) -> EventLog:
    """The log with one unit a case at most; refuses one where no case names its unit, or one case names two."""
    _require_own_ids(log)
    name = unit.attribute
    if name is None:
        return log
    if name not in log.cases.columns:
        if not log.events.height:
            return log
        # Persons with several cases would go unprotected.
        raise Infeasible("bound", f"no case has '{name}', the policy's unit of privacy; it must be a case attribute")
    _as_text(log, name)
    stated_by_rows = name in log.source.rows
    if unit.on_conflict == "split" and stated_by_rows:
        return log.split_by(name)
    if place := log.source.conflicts.get(name):
        remedy = "mend the file, or say on_conflict: split under unit" if stated_by_rows else "mend the file"
        raise MechanismError("input", f"{place}: a case names two values of '{name}', the unit of privacy; {remedy}")
    return log


def _require_own_ids(log: EventLog) -> None:
    """Refuse a log in which two cases have one id: to count them as two, or to protect one of them alone, would be
    false where they are one case of the source. Cases without an id are cases of their own.
    """
    ids = log.cases[CASE_ID].drop_nulls()
    if ids.n_unique() == len(ids):
        return
    place = f"{log.source.repeated}: " if log.source.repeated else ""
    raise MechanismError(
        "input",
        f"{place}a case has the id of an earlier case ('{CASE_ID}'); make one case of them, or give each an id of its own",
    )


def _require(events: pl.DataFrame, plan: Plan) -> None:
    """Refuse a log that nowhere has the attributes the policy is about; which attributes a file has is its schema.

    Under differential privacy over the control flow a log without activities is a log without cases, and gives an empty
    release.
    """
    standard = {CONTROL_FLOW: ACTIVITY, TIMESTAMPS: TIMESTAMP}
    given = {
        CONTROL_FLOW: plan.policy.attribute_with("control-flow"),
        TIMESTAMPS: plan.policy.attribute_with("timestamp"),
    }
    if plan.bounded:
        return
    for column in sorted({column for claim in plan.claims for column in claim.guarantee.over} & standard.keys()):
        name = standard[column]
        if name in events.columns:
            continue
        if given[column] in (None, name):
            raise MechanismError("input", f"no event has {column}; say where with --column {name}=COLUMN")
        raise MechanismError(
            "input", f"no event has '{given[column]}', to which the policy gives {column}; mend the policy or the log"
        )


def _require_quasi_identifiers(log: EventLog, plan: Plan) -> None:
    """Refuse a log that has no attribute of a name that k-anonymity is over: most likely it is spelt otherwise there."""
    over = (name for claim in plan.claims if claim.guarantee.kind == "k-anonymity" for name in claim.guarantee.over)
    for name in over:
        if name not in (CONTROL_FLOW, TIMESTAMPS, METADATA, *log.columns):
            what = "case" if name.startswith(CASE_PREFIX) else "event"
            raise MechanismError(
                "input", f"no {what} has '{name}', which a guarantee is over; mend the policy or the log"
            )


def _complete(events: pl.DataFrame, height: int) -> pl.DataFrame:
    """The ``height`` events with an activity and a time column, all missing where the log has none."""
    missing: dict[str, pl.DataType] = {ACTIVITY: pl.String(), TIMESTAMP: TIME_TYPE}
    return events.with_columns(
        pl.Series(name, [None], dtype=kind).new_from_index(0, height)
        for name, kind in missing.items()
        if name not in events.columns
    ).with_columns(pl.col(ACTIVITY).cast(pl.String))


def _require_enough_cases(log: EventLog, plan: Plan) -> None:
    """Refuse, before any budget is spent, groups of more cases or units than the log has after bounding; ``Infeasible``.

    How many there are is public beside k-anonymity, and taken as given by claims about times. Where differential privacy
    hides who is there, nothing is refused for what the log holds.
    """
    if plan.bounded or log.events.height == 0:
        return
    cases, units = _most_that_stay(log, plan.facts)
    for claim in plan.claims:
        goal = claim.guarantee
        if isinstance(goal, KAnonymity):
            symbol, least, of_units = "k", goal.k, goal.count == "units"
        elif isinstance(goal, ConfidenceBound):
            symbol, least, of_units = "K", goal.K, True
        else:
            continue
        held = units if of_units else cases
        if cases and held < least:
            unit = plan.facts.unit.attribute if of_units else None
            noun = "cases" if unit is None else f"different values of '{unit}'"
            advice = f": choose {symbol} of at most {held:,}" if held > 1 else ""
            if unit is not None and held == 0:
                advice = f": a case without '{unit}' counts as no unit"
            raise Infeasible(
                goal_name(goal),
                f"{symbol} = {least:,}, but the log holds {held:,} {noun}; no such release of it exists{advice}",
            )


def _most_that_stay(log: EventLog, facts: Facts) -> tuple[int, int]:
    """How many cases, and how many units of privacy, stay after bounding, or more; a case without a unit is none."""
    labels = log.events[ACTIVITY]
    known = labels.is_not_null() if facts.alphabet is None else labels.is_in(list(facts.alphabet)).fill_null(False)
    staying = log.cases.filter(pl.Series(np.bincount(log.case_of[known.to_numpy()], minlength=log.cases.height) > 0))
    if facts.unit.attribute is None:
        return staying.height, staying.height
    if facts.unit.attribute not in staying.columns:
        return staying.height, 0
    owners = values_of(staying, facts.unit.attribute).drop_nulls()
    alone = staying.height - len(owners)
    sizes = owners.value_counts(name="cases")["cases"].to_numpy()
    return int(np.minimum(sizes, facts.unit.max_cases).sum()) + alone, len(sizes)


_DATE: Final = r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}"
_EPOCHS: Final = ((5e8, 4.2e9), (5e11, 4.2e12), (5e14, 4.2e15), (5e17, 4.2e18))
"""Seconds, milliseconds, microseconds and nanoseconds since 1970, for times between 1985 and 2103."""


def hints(log: EventLog, plan: Plan) -> Iterator[str]:
    """Released attributes that look like times beside a claim that takes them as known; figures of the raw log.

    Only a hint, for the internal report: no list of looks decides what tells times, so the claim names every such column,
    and this stops nothing. It reads no column but those that the claim takes as known.
    """
    if all(claim.given is None for claim in plan.claims):
        return
    for table in (log.cases, log.events):
        for name in table.drop(CASE_ID, ACTIVITY, TIMESTAMP, strict=False).columns:
            if plan.releases(name) and _looks_like_times(values_of(table, name)):
                yield (
                    f"'{name}' looks like times, and the claim over timestamps takes it as known: whoever reads "
                    "the release learns them; drop it in the policy if they are to stay hidden"
                )


def _looks_like_times(column: pl.Series) -> bool:
    """Whether a column looks like times by its type, by any of its texts, or by where most of its numbers lie."""
    if column.dtype.is_temporal():
        return True
    if column.dtype == pl.String:
        return bool(column.str.contains(_DATE).any())
    middle = column.drop_nulls().median() if column.dtype.is_numeric() else None
    return isinstance(middle, int | float) and any(low <= middle <= high for low, high in _EPOCHS)


def fresh(log: EventLog, noise: Noise) -> EventLog:
    """The same cases under fresh random ids, in random order: nothing tells where they stood."""
    shuffled = log.keep_cases(noise.permutation(log.cases.height))
    ids = pl.Series(CASE_ID, list(noise.names(shuffled.cases.height)), pl.String)
    return replace(shuffled, cases=shuffled.cases.with_columns(ids), notes=())


def _without_hidden(log: EventLog, plan: Plan) -> EventLog:
    """Nothing but the columns that the plan releases: what only the steps and the checks needed goes."""
    hidden = [TIMESTAMP] if TIMESTAMPS not in plan.released else []
    hidden += [
        name for name in log.cases.columns if name == plan.facts.unit.attribute != CASE_ID and not plan.releases(name)
    ]
    events, cases = without(log.events, *hidden), without(log.cases, *hidden)
    return replace(log, events=events, cases=cases, inserted=None)


def _verdict(claim: Claim, log: EventLog, plan: Plan) -> Verdict:
    """Measure what can be measured; a guarantee that fails stops the release."""
    raw = any(step.lineage.fills and TIMESTAMPS in step.lineage.writes for step in plan.steps)
    found = measured_on(log, claim.guarantee, plan.facts.unit, raw_times=raw)
    if found is None:
        return Verdict(
            claim, holds=True, observed="derived from lineage and privacy events; nothing to measure on one release"
        )
    if not found.holds:
        raise GuaranteeBroken(claim.sentence, found.seen)
    return Verdict(claim, holds=True, observed=found.seen)


def _figures(source: EventLog) -> dict[str, JsonValue]:
    """Counts of the raw log; internal."""
    return {
        "cases": source.cases.height,
        "events": source.events.height,
        "events without a time": int(source.events[TIMESTAMP].null_count())
        if TIMESTAMP in source.events.columns
        else 0,
        "longest case": int(np.diff(source.offsets).max(initial=0)),
    }
