"""Advice on a policy for one log, for the file that holds it, and for the dataset that a ledger
keeps: where the two do not fit together."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.authoring.attributes import Nature, classify, figures_of, waits_of
from cloakwork.base.costs import Charge, cost_text
from cloakwork.base.errors import PlanImpossible
from cloakwork.base.facts import unit_name
from cloakwork.base.globs import is_glob
from cloakwork.base.naming import SERVICE_TIME, values_of
from cloakwork.base.quantities import hours
from cloakwork.guarantees.employees import performers
from cloakwork.guarantees.metric_privacy import MetricPrivacy
from cloakwork.ledger.account import Account, BudgetTerms, require_same_period
from cloakwork.ledger.books import NOTHING, DeclaredTotal, shifts_covering
from cloakwork.ledger.declarations import DatasetDeclaration
from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import Record
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIMESTAMP,
    EventLog,
    read_alike,
    rows_left_out,
)
from cloakwork.log.formats.detect import detect_input
from cloakwork.log.formats.options import InputOptions
from cloakwork.plan.budget import ledger_terms
from cloakwork.policy.advice import Advice, named_advice
from cloakwork.policy.document import Steps, did_you_mean
from cloakwork.policy.explain import covered_columns, is_released
from cloakwork.policy.lint import noise_of_a_wait
from cloakwork.policy.model import Policy

_STANDARD: Final = frozenset({CASE_ID, ACTIVITY, TIMESTAMP})

_REVEALING: Final[frozenset[Nature]] = frozenset(
    {"identifier", "staff", "free text", "time", "copy"}
)

MANY_LOST: Final = 0.5
"""Share of a log's waits that the noise exceeds, above which little is left of them."""


def lint_log(policy: Policy, log: EventLog) -> tuple[Advice, ...]:
    """What a careful reader would ask who has seen ``log``; internal, as it comes from the log."""
    return (
        *named_advice("sampled-log", _sampled(log)),
        *named_advice("rows-left-out", (Advice(("spec",), each) for each in rows_left_out(log))),
        *named_advice("names-read-alike", _alike(policy, log)),
        *named_advice("attribute-not-in-log", _missing(policy, log)),
        *named_advice("activity-not-in-log", _unknown_activities(policy, log)),
        *named_advice("employees-in-more-cases", _busy_employees(policy, log)),
        *named_advice("noise-beside-waits", _drowned_waits(policy, log)),
        *named_advice("glob-releases-attribute", _not_named(policy, log)),
        *named_advice("revealing-attribute", _revealing(policy, log)),
    )


def _sampled(log: EventLog) -> Iterator[Advice]:
    """In a part of the cases activities may be missing, and an employee has fewer of them."""
    if log.sample:
        says = (
            f"of the log a random sample was looked at, {log.sample}: whether it has the "
            "activities of assume.rules, and how many cases an employee has, was not"
        )
        yield Advice(("spec",), says)


def _alike(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """A person spelt in two ways is protected, and pays, as two."""
    for name in dict.fromkeys((CASE_ID, policy.spec.unit.attribute or CASE_ID)):
        for says in (*read_alike(log.cases, name), *read_alike(log.events, name)):
            yield Advice(("spec",), says)


def missing_starts(policy: Policy, log: EventLog) -> Iterator[str]:
    """What to say where the log lacks the starts that ``spec.input`` names."""
    starts = policy.spec.input and policy.spec.input.starts
    if starts is not None and SERVICE_TIME not in log.columns:
        yield f"the log has no starts in '{starts}'{did_you_mean(starts, log.columns)}"


def _missing(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """A rule for an attribute that the log lacks does nothing, and its author thinks it does."""
    # Names that the policy does not use: one of them was probably meant.
    free = set(log.columns) - _STANDARD - set(policy.spec.attributes)
    for says in missing_starts(policy, log):
        yield Advice(("spec", "input", "starts"), says)
    for name in policy.spec.attributes:
        if is_glob(name) or name in log.columns or name == policy.attribute_with("case-id"):
            continue
        # Cases and events may be confused; else the nearest name was probably meant.
        bare = name.removeprefix(CASE_PREFIX)
        other = bare if bare != name else CASE_PREFIX + name
        meant = f", did you mean '{other}'?" if other in free else did_you_mean(name, free)
        yield Advice(("spec", "attributes", name), f"the log has no attribute '{name}'{meant}")


def _unknown_activities(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """A rule on an activity that the log lacks may leave out every case, or do nothing."""
    rules = policy.spec.assume.rules
    column = policy.attribute_with("control-flow")
    if log.sample or rules is None or column not in log.events.columns:
        return
    known = {str(name) for name in values_of(log.events, column).drop_nulls().unique()}
    for name in sorted({*rules.labels()} - known):
        message = f"the log has no activity '{name}'{did_you_mean(name, known)}"
        yield Advice(("spec", "assume", "rules"), message)


def _busy_employees(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """Nothing enforces in how many cases one employee is at most, and the claim rests on it."""
    unit = policy.spec.unit
    declared = policy.spec.assume.cases_per_employee
    if log.sample or unit.level == "case" or declared is None or unit.attribute is None:
        return
    events = pl.DataFrame({"case": log.case_of, "who": performers(log, unit.attribute)})
    cases = events.drop_nulls().unique().group_by("who").len()["len"]
    busy = int((cases > declared).sum())
    if busy:
        yield Advice(
            ("spec", "assume", "cases_per_employee"),
            f"{busy:,} of {len(cases):,} '{unit.attribute}' take part in more than {declared:,} "
            "cases of this log: the claim would not hold for them as it stands",
        )


def _drowned_waits(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """Times whose waits are mostly noise are released all the same, and look like times."""
    waits = waits_of(log)
    for index, goal in enumerate(policy.spec.guarantees):
        if not isinstance(goal, MetricPrivacy) or not len(waits):
            continue
        noise = noise_of_a_wait(goal)
        hour = timedelta(hours=1)
        lost = float((waits < noise / hour).mean())
        if lost > MANY_LOST:
            yield Advice(
                ("spec", "guarantees", index, "shift"),
                f"noise moves a wait by {hours(noise / hour)} on average, and {lost:.0%} of the "
                f"waits in this log are shorter (half are under {hours(float(np.median(waits)))}): "
                "a smaller shift keeps more of them, and so do times drawn anew, by "
                "differential-privacy over timestamps",
            )


def _not_named(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """What a glob releases, nobody has decided about."""
    for name in log.columns:
        glob = policy.rule_name(name)
        if name in _STANDARD or glob is None or not is_glob(glob):
            continue
        if is_released(policy, glob):
            message = f"it releases '{name}' of the log, which nobody named; give it a rule"
            yield Advice(("spec", "attributes", glob), message)


def _revealing(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """What singles cases or people out, and is released without a guarantee that covers it."""
    covered = covered_columns(policy)
    for figures in figures_of(log):
        rule = policy.rule_name(figures.name)
        if rule is None or not is_released(policy, rule) or policy.column(rule) in covered:
            continue
        proposal = classify(figures)
        if proposal.nature in _REVEALING:
            message = (
                f"'{figures.name}' is released and covered by no guarantee, and in this log it "
                f"{proposal.reason}; drop it"
            )
            yield Advice(("spec", "attributes", rule), message)


_COMPARED: Final = ("encoding", "delimiter", "time_format", "decimal")
_ALIKE: Final = ({"latin-1", "cp1252"}, {"utf-16", "utf-16-le"}, {"utf-16", "utf-16-be"})
"""Encodings that the bytes of most files do not tell apart."""


def lint_input(policy: Policy, path: str | Path) -> tuple[Advice, ...]:
    """Where ``spec.input`` does not seem to fit the file at ``path``; internal, as it comes from
    the log. LogError for what is no readable file.
    """
    stated = policy.spec.input or InputOptions()
    column = stated.columns.get(TIMESTAMP, policy.attribute_with("timestamp"))
    known = dict(stated.columns)
    if column is not None and column not in (TIMESTAMP, *known.values()):
        known[TIMESTAMP] = column
    # The file is looked at as if the compared options were not stated.
    part = stated.model_copy(update=dict.fromkeys(_COMPARED) | {"columns": known})
    seems = detect_input(path, part)
    found: list[Advice] = []
    if column == TIMESTAMP and TIMESTAMP in seems.columns:
        meant = seems.columns[TIMESTAMP]
        message = f"columns.timestamp is not stated, and this log seems to need {meant!r}"
        found.append(Advice(("spec", "input"), message))
        # How times are written is compared once their column is stated.
        seems = seems.model_copy(update={"time_format": None})
    elif column is None:
        seems = seems.model_copy(update={"time_format": None})
    for name in _COMPARED:
        said = getattr(stated, name)
        seen = getattr(seems, name)
        if seen is None or said == seen or {said, seen} in _ALIKE:
            continue
        given = "is not stated" if said is None else f"is {said!r}"
        message = f"{given}, and this log seems to need {seen!r}"
        found.append(Advice(("spec", "input", name), message))
    return tuple(named_advice("input-of-log", found))


_WINDOWS: Final[Steps] = ("spec", "budget", "windows")


def lint_dataset(policy: Policy, ledger: Ledger) -> tuple[Advice, ...]:
    """Where ``policy`` is otherwise than its dataset is declared in ``ledger``, or declares totals
    above those that bind. Raises LedgerError where the ledger cannot be read.
    """
    dataset = policy.metadata.dataset
    terms = ledger_terms(policy)
    declaration = ledger.declaration(dataset)
    records = ledger.history(dataset)
    said = dict(declaration.contradictions(terms))
    units = (Advice(("spec", "unit"), said["unit"]),) if "unit" in said else ()
    return (
        *named_advice("dataset-unit", units),
        *named_advice("dataset-windows", _windows(policy, terms, said, records)),
        *named_advice("dataset-total", _totals(policy, terms, declaration, records)),
    )


def _windows(
    policy: Policy, terms: BudgetTerms, said: Mapping[Any, str], records: tuple[Record, ...]
) -> Iterator[Advice]:
    """Other windows than declared; else than those of earlier releases."""
    if "budget.windows" in said:
        yield Advice(_WINDOWS, said["budget.windows"])
        return
    try:
        require_same_period(policy.metadata.dataset, records, terms.every, policy.metadata.name)
    except PlanImpossible as error:
        yield from (Advice(_WINDOWS, cause.reason) for cause in error.causes)


def _totals(
    policy: Policy, terms: BudgetTerms, declaration: DatasetDeclaration, records: tuple[Record, ...]
) -> Iterator[Advice]:
    """The smallest total ever declared binds, so a larger one of the policy promises too much."""
    charges = _asked(policy)
    # Totals bind per book; single values may have a book of their own.
    account = declaration.bind(Account.of(records), charges)
    said = set[tuple[Steps, bool]]()
    for own in terms.declared(charges, records):
        for bound in account.bounds(own.book):
            # At the shift of times that the policy asks for, so that the two can be compared.
            least = NOTHING.left_of(bound.cost, shifts_covering(bound.shift, own.shift))
            key = _place(policy, own), bound.of_dataset
            if key in said or own.cost.is_within(least):
                continue
            said.add(key)
            by = (
                "the dataset is declared with" if bound.of_dataset else "an earlier policy declared"
            )
            message = (
                f"the policy allows {cost_text(own.cost, digits=6)} in the book "
                f"'{own.book.name}'; {by} {cost_text(least, digits=6)}, and that binds: releases "
                "above it are refused"
            )
            yield Advice(key[0], message)


def _asked(policy: Policy) -> tuple[Charge, ...]:
    """What the guarantees would cost: for which shift of times, and in which books."""
    prices = [price for goal in policy.goals() if (price := goal.price()) is not None]
    return tuple(
        Charge(
            currency=price.currency,
            cost=price.cost,
            shift=price.shift,
            unit=unit_name(policy.spec.unit) if price.currency == "unit" else price.per,
        )
        for price in prices
    )


def _place(policy: Policy, total: DeclaredTotal) -> Steps:
    """Where the policy says a total: a unit's book, one of its own for single values, the total."""
    book = total.book
    budget = policy.spec.budget
    if book.currency == "unit" and book.unit in budget.books:
        return ("spec", "budget", "books", str(book.unit))
    place = ("spec", "budget", "total")
    if book.currency != "unit" and getattr(budget.total, book.currency, None) is not None:
        return (*place, book.currency)
    return place
