"""A made-up mechanism that is granted more than the control flow: it asks about gaps, an attribute
of events and one of cases. And small logs for it, with ties, missing values and two texts.
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import product

import numpy as np
import polars as pl

from cloakwork.base.costs import Composed, DiscreteLaplace, EpsilonDelta
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.quantities import Frozen
from cloakwork.engines.measured import measured_cases
from cloakwork.kernel import Clip, Entries, Gaussian, Laplace
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement, MeasureStep
from cloakwork.testing.contract_logs import BEGIN, log_of

ROLE, AGE = "org:role", "case:age"
HOUR = 3_600_000_000
TEXTS = Clip("l1", 2, 2)
LENGTHS = Clip("l2", 300, 4)
SIGMA = 2000.0
LEAST, DELTA = 400, 1e-9


def gaps(cases):
    """How many ties, gaps of up to an hour, and longer ones a case has."""
    found = cases.gaps
    known = np.flatnonzero(~found.is_missing)
    size = np.where(found.values[known] == 0, 0, np.where(found.values[known] <= HOUR, 1, 2))
    return Entries(cases.case_of[known], np.ones(len(known), np.int64), size)


def roles(cases):
    """The role of each event, with whether its activity is ``a``."""
    events = np.arange(len(cases.codes))
    is_a = (cases.coded("a") >= 0).astype(np.int64)
    return Entries(cases.case_of, np.ones(len(events), np.int64), is_a, events, events + 1)


def ages(cases):
    """The text of each case's age."""
    rows = np.arange(len(cases))
    return Entries(rows, np.ones(len(rows), np.int64), None, rows, rows + 1)


def hours_by_role(cases):
    """Hours that lie before events of two roles, and the age, in hundredths: of any size."""
    gap, role, age = cases.gaps, cases.columns[ROLE], cases.columns[AGE]
    code = np.array([{"x": 0, "y": 1}.get(text, -1) for text in (*role.alphabet, None)])[role.codes]
    events = np.flatnonzero(~gap.is_missing & (code >= 0))
    rows = np.flatnonzero(~age.is_missing)
    return Entries(
        np.concatenate([cases.case_of[events], rows]),
        100 * np.concatenate([gap.values[events] / HOUR, age.values[rows]]),
        np.concatenate([code[events], np.full(len(rows), 2)]),
    )


class NoParams(Frozen):
    """Nothing to set."""


class MeasuresGaps(Mechanism[NoParams]):
    """Releases a case ``a`` for each tie that it counts, and ``a b`` for each age of 5."""

    name = "toy/gaps"
    summary = "Counts gaps, roles and ages."
    proof = "kernel"
    theorem = Theorem("Noise on sums of clipped vectors.", "a toy")
    gives = (Gives("differential-privacy", CONTROL_FLOW),)
    Params = NoParams
    granted = frozenset({CONTROL_FLOW, TIMESTAMPS, ROLE, AGE})

    def offer(self, goal, facts, options):
        if goal.kind != "differential-privacy" or goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it makes cases of counts")
        if options:
            return Refusal("misconfigured", "it has no options")
        return Offer(NoParams(), "counts gaps")

    def step(self, params, facts):
        writes = frozenset({CONTROL_FLOW, METADATA})
        return MeasureStep(
            lineage=Lineage(measures=self.granted, writes=writes, generates=True),
            event=self.event(facts),
            measure=partial(self.measure, params),
        )

    def event(self, facts):
        cases = facts.unit.max_cases
        counted = DiscreteLaplace(scale=8.0, sensitivity=cases)
        selected = DiscreteLaplace(scale=8.0, sensitivity=2 * cases)
        (gaussian, *_) = Gaussian(SIGMA).events(LENGTHS, cases, 3)
        hidden = EpsilonDelta(epsilon=0.0, delta=DELTA)
        return Composed(events=(counted, counted, selected, hidden, gaussian))

    def measure(self, params, kernel):
        ties = kernel.sum(gaps, Laplace(8.0), keys=3).at(np.arange(3))
        aged = kernel.sum(ages, Laplace(8.0), labels=AGE)
        selected = kernel.select(roles, Laplace(8.0), LEAST, TEXTS, labels=ROLE)
        hours = kernel.sum(hours_by_role, Gaussian(SIGMA), LENGTHS, keys=3).at(np.arange(3))
        figures = {
            "roles": [list(each) for each in selected.labels],
            "hours": hours.tolist(),
        }
        counted = np.array([ties[0], int(aged.at_labels([(0, ("5",))])[0])])
        return Measurement([("a",), ("a", "b")], counted, figures)


VALUES = list(product((timedelta(0), timedelta(hours=1), None), ("x", "y", None)))
"""Of an event: how long after the last one it took place, a tie, or no time at all; its role."""

AGES = ("5", "x", None)


def universe(labels, longest):
    """All cases of at most so many events: (events, age), of events (label, time passed, role)."""
    events = [(label, *values) for label in labels for values in VALUES]
    sequences = [each for n in range(longest + 1) for each in product(events, repeat=n)]
    return list(product(sequences, AGES))


def log_with_values(cases):
    """A log of such cases."""
    times = [times_of(events) for events, _ in cases]
    log = log_of([[label for label, _, _ in events] for events, _ in cases], times)
    roles = pl.Series(ROLE, [role for events, _ in cases for _, _, role in events], pl.String)
    ages = pl.Series(AGE, [age for _, age in cases], pl.String)
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE)
    events = log.events.with_columns(roles, stamps)
    return replace(log, events=events, cases=log.cases.with_columns(ages))


def times_of(events):
    """The times of a case's events."""
    now, times = BEGIN, []
    for _, passed, _ in events:
        now += passed or timedelta(0)
        times.append(None if passed is None else now)
    return times


def rows_of(unit=None):
    """What is counted of a log where the toy runs."""
    return CaseRows((AGE, ROLE, TIMESTAMPS), unit)


def with_columns(cases):
    """What a kernel answers from, of such cases."""
    return measured_cases(log_with_values(cases), rows_of(), InOrder())


class InOrder:
    """Leaves cases as they are."""

    def permutation(self, size):
        return np.arange(size)
