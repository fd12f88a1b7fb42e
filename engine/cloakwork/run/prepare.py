"""What a log must have before the first step: names, text, order, units of privacy, and the cases
of its window; and what a run asks of all cases, batch by batch.
"""

from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import Infeasible, MechanismError
from cloakwork.base.facts import UNIX_EPOCH, Facts, Unit
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import named, nulls, values_of
from cloakwork.engines.base import Engine
from cloakwork.ledger.case_hashes import fingerprint, hashed_ids, merged_fingerprint
from cloakwork.ledger.ledger import Ledger, Reservation
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
    LogHandle,
    with_attribute,
)
from cloakwork.log.formats.round_trip import with_one_spelling
from cloakwork.log.formats.row_source import Keeps
from cloakwork.plan.budget import charged_window
from cloakwork.plan.model import Plan
from cloakwork.policy.model import Policy


@frozen
class SourceFigures:
    """Counts of the raw log; internal."""

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row."""
        events = batch.events
        untimed = events[TIMESTAMP].null_count() if TIMESTAMP in events.columns else 0
        return pl.DataFrame(
            {
                "cases": batch.cases.height,
                "events": events.height,
                "events without a time": int(untimed),
                "longest case": int(np.diff(batch.offsets).max(initial=0)),
            }
        )

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Sums, and the longest case."""
        return summaries.select(
            pl.all().exclude("longest case").sum(), pl.col("longest case").max()
        )


@frozen
class MostKept:
    """How many cases, and how many units of privacy, stay after bounding, or more; a case without a
    unit is none. Batches hold all cases of a unit.
    """

    facts: Facts

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row: ``cases`` and ``units``."""
        labels = batch.events[ACTIVITY]
        known = labels.is_not_null()
        if self.facts.alphabet is not None:
            known = labels.is_in(list(self.facts.alphabet)).fill_null(False)
        # Cases without a known event go.
        known_events = np.bincount(batch.case_of[known.to_numpy()], minlength=batch.cases.height)
        staying = batch.cases.filter(pl.Series(known_events > 0))
        attribute = self.facts.unit.attribute
        cases = staying.height
        units = cases if attribute is None else 0
        if attribute in staying.columns:
            # Cases without a unit are not cut.
            owners = values_of(staying, str(attribute)).drop_nulls()
            sizes = owners.value_counts(name="cases")["cases"].to_numpy()
            kept = int(np.minimum(sizes, self.facts.unit.max_cases).sum())
            cases += kept - len(owners)
            units = len(sizes)
        return pl.DataFrame({"cases": cases, "units": units})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Sums."""
        return summaries.sum()


@frozen
class CaseIdSample:
    """The keyed fingerprint of the case ids: ``key`` lies beside the ledger."""

    key: bytes = field(repr=False)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row, ``sample``."""
        ids = batch.cases[CASE_ID].cast(pl.String).drop_nulls()
        return pl.DataFrame({"sample": fingerprint(ids, self.key)})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The fingerprint of all."""
        return pl.DataFrame({"sample": merged_fingerprint(summaries["sample"])})


def case_id_sample(log: LogHandle, engine: Engine, ledger: Ledger) -> str:
    """The fingerprint of the log's case ids, made with the key beside ``ledger``."""
    found: str = engine.summarise(log, CaseIdSample(ledger.case_id_key()))["sample"][0]
    return found


@frozen
class HashedIds:
    """Keyed hashes of the case ids of a window: ``key`` lies beside the ledger."""

    key: bytes = field(repr=False)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """One row a case, ``hash`` (Binary)."""
        return pl.DataFrame({"hash": self.hashes(batch)}, schema={"hash": pl.Binary})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """All of them."""
        return summaries

    def hashes(self, batch: EventLog) -> list[bytes | None]:
        """The hash of each case's id."""
        ids = batch.cases[CASE_ID].cast(pl.String)
        by_id = hashed_ids(ids.drop_nulls(), self.key)
        return [None if text is None else by_id[text] for text in ids]


_NEVER: Final = np.iinfo(np.int64).max


def in_window(
    log: EventLog,
    policy: Policy,
    facts: Facts,
) -> EventLog:
    """The cases whose first time lies in the window of ``facts``; the log as it is without one.

    A case without any time lies in no window. Where a case is to be known again by its id, one
    without an id is left out. Each case stays or goes by its own data alone.
    """
    # Borders are those of the calendar.
    windows = policy.spec.budget.windows
    if windows is None or facts.release_window is None:
        return log
    first, after = windows.span(facts.release_window)
    starts = _starts(log, policy.attribute_with("timestamp") or TIMESTAMP)
    stays = (starts >= _microseconds(first)) & (starts < _microseconds(after))
    if charged_window(facts) is not None:
        stays &= log.cases[CASE_ID].is_not_null().to_numpy()
    return log.keep_cases(np.flatnonzero(stays))


def own_cases(
    log: LogHandle,
    facts: Facts,
    reservation: Reservation | None,
    engine: Engine,
) -> tuple[LogHandle, tuple[str, ...]]:
    """The cases of a log of one window that the ledger has in no other window, now recorded with
    this one; and a note for the internal report.

    All of them, where the window has no account of its own, or nothing is charged.
    """
    if reservation is None or charged_window(facts) is None:
        return log, ()
    # Recorded and compared in one transaction: no case is in two windows.
    hashing = HashedIds(reservation.ledger.case_id_key())
    hashes = frozenset(engine.summarise(log, hashing)["hash"].drop_nulls().to_list())
    elsewhere = reservation.record_hashes(hashes)
    note = (
        f"{log.case_count:,} cases of the log start in window {facts.release_window}; "
        f"{len(elsewhere):,} of them were left out, as they were released with another window"
    )
    if not elsewhere:
        return log, (note,)

    def own(batch: EventLog) -> EventLog:
        stays = [each not in elsewhere for each in hashing.hashes(batch)]
        return batch.keep_cases(np.flatnonzero(stays))

    return engine.choose_cases(log, own), (note,)


def require_times(values: pl.Series, name: str) -> None:
    """Refuse a column without times where the policy says that it holds them."""
    if not (values.dtype.is_temporal() or values.dtype == pl.Null):
        raise MechanismError(
            "input",
            f"'{name}' has the role timestamp and does not hold times; "
            "correct the policy or the log",
        )


def _starts(log: EventLog, timestamp: str) -> Ints:
    """The first time of each case in microseconds, ``_NEVER`` where it has none."""
    starts = np.full(log.cases.height, _NEVER, np.int64)
    if timestamp in log.events.columns:
        require_times(log.events[timestamp], timestamp)
        times = log.events[timestamp].cast(TIME_TYPE).to_physical().fill_null(_NEVER).to_numpy()
        np.minimum.at(starts, log.case_of, times)
    return starts


def _microseconds(moment: datetime) -> int:
    return (moment - UNIX_EPOCH) // timedelta(microseconds=1)


def required_attributes(plan: Plan) -> Keeps:
    """Which attributes of the source the plan needs at all; a reader may skip the others."""
    # What identifies, orders or is measured is read; of the rest, what is released.
    needed = {CASE_ID, ACTIVITY, TIMESTAMP, plan.facts.unit.attribute}
    needed |= measured_attributes(plan) | plan.employees
    if plan.facts.release_window is not None:
        needed.add(_timestamp_of(plan.policy))
    return lambda attribute: attribute in needed or plan.releases(attribute)


def measured_attributes(plan: Plan) -> frozenset[str]:
    """The attributes that steps of the plan measure through noise."""
    measured = frozenset[str]().union(*(step.lineage.measures for step in plan.steps))
    return measured - {CONTROL_FLOW, METADATA, TIMESTAMPS, CASE_ID, ACTIVITY, TIMESTAMP}


def prepared_log(log: EventLog, plan: Plan) -> EventLog:
    """The log under its standard names, without the columns that the plan does not need; of a
    growing log the cases of the plan's window.
    """
    # Text first: a case's own spelling must not depend on the types of columns.
    needs = required_attributes(plan)
    unit = plan.facts.unit
    log = with_one_unit_a_case(_with_source_texts(log, _read_as_text(plan)), unit)
    log = in_window(log, plan.policy, plan.facts)
    events = under_standard_names(log, plan.policy, needs, plan.employees)
    if log.events.height:
        _require_columns(events, plan)
        # An attribute that k-anonymity is over and that is not there is most likely spelt
        # otherwise.
        names = (name for claim in plan.claims for name in claim.guarantee.quasi_identifiers())
        for name in names:
            if name not in log.columns:
                what = "case" if name.startswith(CASE_PREFIX) else "event"
                fault = f"no {what} has '{name}', which a guarantee is over"
                raise MechanismError("input", f"{fault}; correct the policy or the log")
        for name in sorted(plan.employees - {*log.events.columns}):
            fault = f"no event has '{name}', and a guarantee protects each"
            remedy = "correct the policy ('cloakwork policy lint POLICY LOG' helps) or the log"
            raise MechanismError("input", f"{fault}; {remedy}")
    ordered = in_time_order(
        log,
        events,
        plan.policy,
        needs,
        unit,
    )
    measures_times = any(TIMESTAMPS in step.lineage.measures for step in plan.steps)
    if measures_times or TIMESTAMPS in plan.released:
        return ordered
    return replace(ordered, events=ordered.events.drop(TIMESTAMP))


def _read_as_text(plan: Plan) -> frozenset[str]:
    """Attributes that are measured as the characters of the source. What is released of the source
    keeps its type; what is made anew has one of its own.
    """
    lineages = [step.lineage for step in plan.steps]
    # Values that a step measures and replaces are made anew as well.
    making = [each for each in lineages if each.enriches or each.writes <= each.measures]
    made = frozenset[str]().union(*(lineage.writes for lineage in making))
    measured = measured_attributes(plan)
    return frozenset(name for name in measured if name in made or not plan.releases(name))


def _with_source_texts(log: EventLog, names: Iterable[str]) -> EventLog:
    """The log with these attributes as the characters of its source, where they are known: what a
    case says does not depend on the type that other cases give the column.
    """
    for name in names:
        text = log.text_of(name) if name in log.table_of(name).columns else None
        if text is None:
            continue
        log = with_attribute(log, name, text)
    return log


def under_standard_names(
    log: EventLog,
    policy: Policy,
    needs: Keeps,
    employees: frozenset[str] = frozenset(),
) -> pl.DataFrame:
    """The events under standard names, without the columns that nobody needs; who performed them by
    ``employees`` as text.
    """
    # Attributes that already have a standard name, and are not meant, would stand beside.
    activity = policy.attribute_with("control-flow") or ACTIVITY
    names = {activity: ACTIVITY, _timestamp_of(policy): TIMESTAMP}
    return pl.DataFrame(
        {
            names.get(name, name): _as_text(log, name)
            if name == activity or name in employees
            else values_of(log.events, name)
            for name in log.events.columns
            if name in names or (needs(name) and name not in (ACTIVITY, TIMESTAMP))
        }
    )


def _as_text(log: EventLog, attribute: str) -> pl.Series:
    """The characters of an attribute that tells activities or units apart (``privacy.md`` 1: text
    is identity).
    """
    text = log.text_of(attribute)
    if text is None:
        table = log.table_of(attribute)
        raise MechanismError(
            "input",
            f"'{attribute}' tells activities or units apart and holds {table.schema[attribute]}, "
            "whose spelling one more value can change; give it as text (read_log(path, "
            f"text=['{attribute}']), or a column of strings)",
        )
    return text


def _timestamp_of(policy: Policy) -> str:
    return policy.attribute_with("timestamp") or TIMESTAMP


def in_time_order(
    log: EventLog,
    events: pl.DataFrame,
    policy: Policy,
    needs: Keeps,
    unit: Unit,
) -> EventLog:
    """``events`` and the needed attributes of the cases as a log, in the order of the policy's
    times.
    """
    timestamp = _timestamp_of(policy)
    # A log without activities or times is a log all the same.
    missing: dict[str, pl.DataType] = {ACTIVITY: pl.String(), TIMESTAMP: TIME_TYPE}
    events = events.with_columns(
        nulls(log.events.height, kind).alias(name)
        for name, kind in missing.items()
        if name not in events.columns
    ).with_columns(pl.col(ACTIVITY).cast(pl.String))
    require_times(events[TIMESTAMP], timestamp)
    cases = log.cases.select(
        named(*(name for name in log.cases.columns if name == CASE_ID or needs(name)))
    )
    output = policy.spec.output.format
    events = with_one_spelling(events, output)
    cases = with_one_spelling(cases, output)
    if unit.attribute in cases.columns:
        cases = cases.with_columns(_as_text(log, unit.attribute).alias(unit.attribute))
    # Other times than those that the reader went by: another order.
    if timestamp != TIMESTAMP:
        ordered = EventLog.build(
            events,
            cases,
            log.case_of,
            notes=log.notes,
        )
        return replace(ordered, case_index=log.case_index)
    return EventLog(
        events,
        cases,
        log.offsets,
        log.notes,
        case_index=log.case_index,
    )


def with_one_unit_a_case(log: EventLog, unit: Unit) -> EventLog:
    """The log with one unit a case at most; refuses one where no case names its unit, or one case
    names two.
    """
    _require_distinct_ids(log)
    name = unit.attribute
    if name is None:
        return log
    if name not in log.cases.columns:
        if not log.events.height:
            return log
        # Persons with several cases would go unprotected.
        raise Infeasible(
            "bound",
            f"no case has '{name}', the policy's unit of privacy; it must be a case attribute: "
            f"in a table, a column called '{CASE_PREFIX}...', and so in the policy",
        )
    _as_text(log, name)
    stated_by_rows = name in log.source.rows
    if unit.on_conflict == "split" and stated_by_rows:
        return log.split_by(name)
    if place := log.source.conflicts.get(name):
        remedy = "correct the file"
        if stated_by_rows:
            remedy += ", or say on_conflict: split under unit"
        raise MechanismError(
            "input", f"{place}: a case names two values of '{name}', the unit of privacy; {remedy}"
        )
    return log


def _require_distinct_ids(log: EventLog) -> None:
    """Refuse a log in which a case has two ids, or two cases have one: to count them as two, or to
    protect one of them alone, would be false where they are one case of the source. Cases without
    an id are cases of their own.
    """
    if place := log.source.conflicts.get(CASE_ID):
        raise MechanismError("input", f"{place}: a case names two ids ('{CASE_ID}'); give it one")
    # Cases without an id are cases of their own.
    ids = log.cases[CASE_ID].drop_nulls()
    if ids.n_unique() == len(ids):
        return
    place = f"{log.source.repeated}: " if log.source.repeated else ""
    raise MechanismError(
        "input",
        f"{place}a case has the id of an earlier case ('{CASE_ID}'); make one case of them, "
        "or give each an id of its own",
    )


def _require_columns(events: pl.DataFrame, plan: Plan) -> None:
    """Refuse a log that nowhere has the attributes the policy is about; which attributes a file has
    is its schema.

    Under differential privacy over the control flow a log without activities is a log without
    cases, and gives an empty release.
    """
    standard = {CONTROL_FLOW: ACTIVITY, TIMESTAMPS: TIMESTAMP}
    given = {
        CONTROL_FLOW: plan.policy.attribute_with("control-flow"),
        TIMESTAMPS: plan.policy.attribute_with("timestamp"),
    }
    if plan.bounded:
        return
    for column in sorted(
        {column for claim in plan.claims for column in claim.guarantee.over} & standard.keys()
    ):
        name = standard[column]
        if name in events.columns:
            continue
        if given[column] in (None, name):
            raise MechanismError(
                "input", f"no event has {column}; say where with --column {name}=COLUMN"
            )
        raise MechanismError(
            "input",
            f"no event has '{given[column]}', to which the policy gives {column}; "
            "correct the policy or the log",
        )


def require_enough_cases(
    log: LogHandle,
    plan: Plan,
    engine: Engine,
) -> None:
    """Refuse, before any budget is spent, groups of more cases or units than the log has after
    bounding; ``Infeasible``.

    How many there are is public beside k-anonymity, and taken as given by claims about times. Where
    differential privacy hides who is there, nothing is refused for what the log holds. Cases of a
    window that another window has are known only once the ledger was charged: where too few are
    left then, the mechanism refuses, and what was charged stays.
    """
    # An empty log has an empty release.
    groups = (claim.guarantee.least_group() for claim in plan.claims)
    if plan.bounded or log.event_count == 0 or not any(groups):
        return
    cases, units = engine.summarise(log, MostKept(plan.facts)).row(0)
    for claim in plan.claims:
        goal = claim.guarantee
        group = goal.least_group()
        if group is None:
            continue
        symbol = group.symbol
        least = group.least
        of_units = group.counts == "units"
        held = units if of_units else cases
        if cases and held < least:
            unit = plan.facts.unit.attribute if of_units else None
            noun = f"different values of '{unit}'"
            if unit is None:
                noun = "case" if held == 1 else "cases"
            advice = f": choose {symbol} of at most {held:,}" if held > 1 else ""
            if unit is not None and held == 0:
                advice = f": a case without '{unit}' counts as no unit"
            raise Infeasible(
                goal.cited(),
                f"{symbol} = {least:,}, but the log holds {held:,} {noun}; "
                f"no such release of it exists{advice}",
            )
