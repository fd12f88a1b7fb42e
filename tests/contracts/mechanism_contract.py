"""What every mechanism promises beside its theorem; third parties inherit the class and name their
mechanism.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    LocalDP,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import MapCases, Mechanism, Offer, Refusal
from cloakwork.noise import Noise, reproducible
from cloakwork.privacy_event import (
    FREE,
    Composed,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from contracts.sample_logs import RESOURCE, log_of

EVERY_GOAL: tuple[Guarantee, ...] = (
    KAnonymity(kind="k-anonymity", k=5),
    KAnonymity(kind="k-anonymity", k=5, scope="prefixes", count="units"),
    KAnonymity(kind="k-anonymity", k=5, over=(CONTROL_FLOW, "case:Age")),
    TCloseness(kind="t-closeness", t=0.2, attribute="Age"),
    LDiversity(kind="l-diversity", l=2, attribute="Age"),
    ConfidenceBound(kind="confidence-bound", L=2, K=5, C=0.5),
    DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=(CONTROL_FLOW,)),
    DifferentialPrivacy(
        kind="differential-privacy", epsilon=1, delta=1e-6, over=(CONTROL_FLOW, TIMESTAMPS)
    ),
    DifferentialPrivacy(
        kind="differential-privacy", epsilon=1, over=(TIMESTAMPS,), neighbours="bounded"
    ),
    MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1)),
    MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1), over=("Age",)),
    LocalDP(kind="local-dp", epsilon=1, over=("Age",)),
)

LOGS = {
    "empty": log_of([]),
    "one case": log_of([["a", "b", "c"]]),
    "a single activity": log_of([["a"]] * 12),
    "cases without events": log_of([[]] * 6 + [["a"]] * 6),
    "all variants unique": log_of([["a"] * length for length in range(1, 13)]),
    "ordinary": log_of(
        [["a", "b", "c"]] * 8 + [["a", "c"]] * 5 + [["a", "b", "b", "c"]] * 2 + [["d"]]
    ),
}


class MechanismContract:
    """Inherit it, set ``mechanism``, ``goals`` and what they need, and pytest runs all of it."""

    mechanism: ClassVar[Mechanism[Any]]
    goals: ClassVar[tuple[Guarantee, ...]]
    facts: ClassVar[Facts] = Facts()
    may_refuse_logs: ClassVar[bool] = False
    """Whether it may raise ``MechanismError`` on some logs; never true of a mechanism with a DP
    claim.
    """

    def offers(self) -> Iterator[Any]:
        """The parameters that the mechanism offers for each of its goals."""
        for goal in self.goals:
            offer = self.mechanism.offer(goal, self.facts, {})
            assert isinstance(offer, Offer), offer
            yield offer.params

    def run(self, params: Any, log: EventLog, noise: Noise) -> EventLog:
        """Summarise, decide and rewrite one log as a whole."""
        aggregate = self.mechanism.summarise(params)
        summary = pl.DataFrame() if aggregate is None else aggregate.of(log)
        action = self.mechanism.rewrite(
            params, self.mechanism.decide(params, summary, noise), noise
        )
        return action.apply(log) if isinstance(action, MapCases) else action.make()

    def outcome(self, params: Any, log: EventLog, noise: Noise) -> EventLog | None:
        """The rewritten log, or None where the mechanism may and does refuse it."""
        try:
            return self.run(params, log, noise)
        except MechanismError:
            assert self.may_refuse_logs
            return None

    def test_introduces_itself(self) -> None:
        """Name, summary and theorem say something."""
        assert self.mechanism.name.count("/") == 1
        assert self.mechanism.summary.endswith(".")
        assert self.mechanism.proof in ("proved", "published")
        assert self.mechanism.theorem.statement
        assert self.mechanism.theorem.source

    @pytest.mark.parametrize("goal", EVERY_GOAL, ids=lambda goal: goal.kind)
    def test_answers_every_goal(self, goal: Guarantee) -> None:
        """An offer or a refusal with its reason, never an exception."""
        answer = self.mechanism.offer(goal, Facts(), {})
        assert isinstance(answer, Offer | Refusal)
        if isinstance(answer, Refusal):
            assert answer.reason
            assert bool(answer.needs) == (answer.kind == "needs")
        else:
            assert answer.why
            assert isinstance(answer.params, self.mechanism.Params)

    def test_refuses_options_that_it_does_not_know(self) -> None:
        """A misspelt option is not passed over."""
        for goal in self.goals:
            answer = self.mechanism.offer(goal, self.facts, {"no such option": 1})
            assert isinstance(answer, Refusal)
            assert answer.kind == "misconfigured"

    def test_parameters_survive_json(self) -> None:
        """A plan can be written down and read back."""
        for params in self.offers():
            assert params == self.mechanism.Params.model_validate_json(params.model_dump_json())

    def test_cost_is_data(self) -> None:
        """The event survives JSON, and the currency is one that the ledger knows."""
        for params in self.offers():
            event = self.mechanism.event(params, self.facts)
            adapter: TypeAdapter[PrivacyEvent] = TypeAdapter(PrivacyEvent)
            assert event == adapter.validate_json(adapter.dump_json(event))
            assert self.mechanism.currency(params) in ("unit", "metric", "local")

    def test_measurements_are_charged(self) -> None:
        """A mechanism costs something if and only if it measures something; what it measures it
        does not read.
        """
        for params in self.offers():
            lineage = self.mechanism.lineage(params)
            assert bool(lineage.measures) == _costs(self.mechanism.event(params, self.facts))
            assert lineage.writes
            assert not lineage.measures & lineage.reads

    def test_facts_stay_facts(self) -> None:
        """What may be known afterwards is again a set of public facts."""
        for params in self.offers():
            assert isinstance(self.mechanism.facts_after(params, self.facts), Facts)

    def test_summary_is_mergeable(self) -> None:
        """Two batches merged give the summary of the whole."""
        log = LOGS["ordinary"]
        halves = [log.keep_cases(np.arange(0, 7)), log.keep_cases(np.arange(7, log.cases.height))]
        for params in self.offers():
            if (aggregate := self.mechanism.summarise(params)) is None:
                continue
            merged = aggregate.merge(pl.concat([aggregate.of(half) for half in halves]))
            whole = aggregate.of(log)
            assert sorted(map(repr, whole.rows())) == sorted(map(repr, merged.rows()))

    @pytest.mark.parametrize("name", LOGS)
    def test_release_is_a_log(self, name: str) -> None:
        """On every log: whole cases, labelled events, ids used once, times in order."""
        for params in self.offers():
            released = self.outcome(params, LOGS[name], reproducible(1))
            if released is not None:
                assert_is_a_log(released)

    @pytest.mark.parametrize("name", LOGS)
    def test_changes_nothing_in_place(self, name: str) -> None:
        """The log and the summary that it was given are what they were."""
        log = LOGS[name]
        before = replace(
            log, events=log.events.clone(), cases=log.cases.clone(), offsets=log.offsets.copy()
        )
        for params in self.offers():
            self.outcome(params, log, reproducible(1))
            assert before.events.equals(log.events)
            assert before.cases.equals(log.cases)
            assert before.offsets.tolist() == log.offsets.tolist()

    def test_reads_only_what_its_lineage_names(self) -> None:
        """With the same randomness, other values in columns that it claims not to look at change
        nothing it writes.
        """
        log = LOGS["ordinary"]
        for params in self.offers():
            lineage = self.mechanism.lineage(params)
            original = self.outcome(params, log, reproducible(1))
            other = self.outcome(params, _with_other_values(log, lineage), reproducible(1))
            assert original is not None
            assert other is not None
            for column in sorted(lineage.writes & {CONTROL_FLOW, TIMESTAMPS}):
                name = {CONTROL_FLOW: ACTIVITY, TIMESTAMPS: TIMESTAMP}[column]
                assert original.offsets.tolist() == other.offsets.tolist()
                assert original.events[name].equals(other.events[name])


def assert_is_a_log(log: EventLog) -> None:
    """Check the invariants of an event log that any mechanism must keep."""
    assert log.offsets[0] == 0
    assert log.offsets[-1] == log.events.height
    assert len(log.offsets) == log.cases.height + 1
    assert (np.diff(log.offsets) >= 0).all()
    assert log.events[ACTIVITY].null_count() == 0
    assert log.cases[CASE_ID].n_unique() == log.cases.height
    if TIMESTAMP in log.events.columns:
        times = log.events[TIMESTAMP].dt.timestamp("us")
        known = times.is_not_null().to_numpy()
        case, stamps = log.case_of[known], times.drop_nulls().to_numpy()
        assert ((np.diff(stamps) >= 0) | (np.diff(case) > 0)).all()


def _costs(event: PrivacyEvent) -> bool:
    if isinstance(event, Composed):
        return event != FREE and any(_costs(part) for part in event.events)
    if isinstance(event, Repeated | PoissonSampled):
        return _costs(event.event)
    return not isinstance(event, NonPrivate)


def _with_other_values(log: EventLog, lineage: Lineage) -> EventLog:
    """Other resources, and, unless the lineage names them, other times in the same order."""
    changed = log.events.with_columns(pl.col(RESOURCE).reverse())
    if not {TIMESTAMPS} & (lineage.reads | lineage.measures):
        changed = changed.with_columns(pl.col(TIMESTAMP) + pl.duration(days=pl.int_range(pl.len())))
    return replace(log, events=changed)
