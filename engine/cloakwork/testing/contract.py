"""What every mechanism promises beside its theorem.

Other packages inherit the class and name their mechanism; pytest then runs all of it. Nothing here
needs pytest: each method can be called, and raises AssertionError.
"""

import os
from dataclasses import replace
from typing import Any, Final, get_args

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from cloakwork.base.costs import (
    FREE,
    Composed,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.base.naming import values_of
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.batches import in_batches
from cloakwork.engines.memory import MemoryEngine
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, PartOfGoal, Proof, Refusal
from cloakwork.mechanisms.steps import EnrichStep, MeasureStep
from cloakwork.noise import reproducible
from cloakwork.testing.asking_contract import PART_DELTA, PART_MU, AskingContract
from cloakwork.testing.contract_logs import (
    BATCH_LOG,
    EVERY_GOAL,
    LOGS,
    RELEASED,
    assert_is_a_log,
    assert_same_log,
    random_batches,
    uneven_batches,
)
from cloakwork.testing.logs import RESOURCE

LONG: Final = "CLOAKWORK_RUNS"
"""Where the environment has it, what takes long is tried, too."""


class MechanismContract(AskingContract):
    """Inherit it, set ``mechanism``, ``goals`` (or ``serves``) and what they need, and pytest runs
    all of it.
    """

    def test_introduces_itself(self) -> None:
        """Name, summary and theorem say something."""
        assert self.mechanism.name.count("/") <= 1
        assert self.mechanism.summary.endswith(".")
        assert self.mechanism.proof in get_args(Proof)
        assert self.mechanism.theorem.statement
        assert self.mechanism.theorem.source

    def test_offers_what_it_declares(self) -> None:
        """It offers the kinds that it gives and no other; the test has something to run."""
        declared = {each.kind for each in self.mechanism.gives}
        assert self.goals if declared else (self.given or self.serves)
        for goal in (*self.goals, *EVERY_GOAL):
            if isinstance(self.mechanism.offer(goal, self.facts, {}), Offer):
                assert goal.kind in declared

    def test_answers_every_goal(self) -> None:
        """An offer or a refusal with its reason, never an exception."""
        for goal in EVERY_GOAL:
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
        for columns in self.serves:
            assert self.mechanism.serves_parts
            part = PartOfGoal(columns, PART_MU, PART_DELTA)
            answer = self.mechanism.offer_part(part, self.facts, {"no such option": 1})
            assert isinstance(answer, Refusal)
            assert answer.kind == "misconfigured"

    def test_parameters_survive_json(self) -> None:
        """A plan can be written down and read back."""
        for params in self.offers():
            assert params == self.mechanism.Params.model_validate_json(params.model_dump_json())

    def test_cost_is_data(self) -> None:
        """The event survives JSON, and the currency is one that the ledger knows; what a proof by
        the kernel rests on asks one.
        """
        for params in self.offers():
            step = self.mechanism.step(params, self.facts)
            adapter: TypeAdapter[PrivacyEvent] = TypeAdapter(PrivacyEvent)
            assert step.event == adapter.validate_json(adapter.dump_json(step.event))
            assert step.currency in ("unit", "metric", "local")
            assert self.mechanism.proof != "kernel" or isinstance(step, MeasureStep | EnrichStep)

    def test_measurements_are_charged(self) -> None:
        """A mechanism costs something if and only if it measures something; what it measures it
        does not read, but for one that enriches, which reads what is released.
        """
        for params in self.offers():
            step = self.mechanism.step(params, self.facts)
            lineage = step.lineage
            assert bool(lineage.measures) == _costs(step.event)
            assert lineage.writes
            assert lineage.enriches == isinstance(step, EnrichStep)
            assert lineage.enriches or not lineage.measures & lineage.reads

    def test_summary_is_mergeable(self) -> None:
        """Two batches merged give the summary of the whole."""
        log = LOGS["ordinary"]
        halves = in_batches(log, (np.arange(log.cases.height) >= 7).astype(np.int64), 2)
        for params in self.offers():
            aggregate = self.granted(params).aggregate
            if aggregate is None:
                continue
            summaries = pl.concat([aggregate.of(half) for half in halves])
            merged = aggregate.merge(summaries)
            at_once = aggregate.of(log)
            # Rows hold lists and nulls, which have no order of their own.
            assert sorted(map(repr, at_once.rows())) == sorted(map(repr, merged.rows()))

    def test_release_is_a_log(self) -> None:
        """On every log: whole cases, labelled events, ids used once, times in order; and the log
        that was given is what it was.
        """
        for log in LOGS.values():
            before = replace(
                log, events=log.events.clone(), cases=log.cases.clone(), offsets=log.offsets.copy()
            )
            for params in self.offers():
                released = self.outcome(params, log, reproducible(1))
                if released is not None:
                    assert_is_a_log(released)
                assert before.events.equals(log.events)
                assert before.cases.equals(log.cases)
                assert before.offsets.tolist() == log.offsets.tolist()

    def test_batches_change_nothing(self) -> None:
        """Over random batches, in memory and on disk, the decision, and the release to the last
        value and type, are the same.
        """
        engines = (MemoryEngine(7, uneven_batches(7)), _in_batches_on_disk(9))
        for params in self.offers():
            in_one_batch = self.run(params, BATCH_LOG, reproducible(1))
            for engine in engines:
                in_batches = self.run_on(engine, params, BATCH_LOG, reproducible(1))
                assert_same_log(in_one_batch, in_batches)

    def test_many_batches_change_nothing(self) -> None:
        """As over few; only where ``CLOAKWORK_RUNS`` is set."""
        if LONG not in os.environ:
            return
        for params in self.offers():
            in_one_batch = self.run(params, BATCH_LOG, reproducible(1))
            for batches in (1, 4, 60):
                in_memory = MemoryEngine(batches, random_batches(batches))
                for engine in (in_memory, _in_batches_on_disk(batches)):
                    in_batches = self.run_on(engine, params, BATCH_LOG, reproducible(1))
                    assert_same_log(in_one_batch, in_batches)

    def test_summaries_can_be_merged_in_any_grouping(self) -> None:
        """What was merged is merged again where a log has many batches."""
        for params in self.offers():
            aggregate = self.granted(params).aggregate
            if aggregate is None:
                continue
            batches = in_batches(BATCH_LOG, random_batches(5)(BATCH_LOG.cases.height), 5)
            tables = [aggregate.of(batch) for batch in batches]
            some = aggregate.merge(pl.concat(tables[:3]))
            others = aggregate.merge(pl.concat(tables[3:]))
            in_groups = aggregate.merge(pl.concat([others, some]))
            assert in_groups.equals(aggregate.merge(pl.concat(tables)))

    def test_a_rewrite_draws_the_same_again(self) -> None:
        """A batch that is computed twice, as after a failure, is released once: nothing is drawn
        anew.
        """
        for params in self.offers():
            noise = reproducible(1)
            engine = MemoryEngine()
            step = self.granted(params)
            action = step.take(
                step.look(BATCH_LOG, engine, noise), noise, released=RELEASED
            ).rewrite
            once = engine.rewrite(BATCH_LOG, action)
            again = engine.rewrite(BATCH_LOG, action)
            assert_same_log(once, again)

    def test_a_decision_does_not_depend_on_the_order_of_the_summary(self) -> None:
        """The rows of the batches' summaries come in any order."""
        for params in self.offers():
            aggregate = self.granted(params).aggregate
            if aggregate is None:
                continue
            batches = in_batches(BATCH_LOG, random_batches(7)(BATCH_LOG.cases.height), 7)
            rows = pl.concat([aggregate.of(batch) for batch in batches])
            permuted = rows.sample(fraction=1, shuffle=True, seed=5)
            one = self._rewrite_by(params, aggregate.merge(rows))
            other = self._rewrite_by(params, aggregate.merge(permuted))
            assert_same_log(one, other)

    def _rewrite_by(self, params: Any, summary: pl.DataFrame) -> EventLog:
        """What it makes of ``BATCH_LOG``, going by ``summary``."""
        noise, step = reproducible(1), self.granted(params)
        outcome = step.take(step.opened(summary, noise), noise, released=RELEASED)
        return MemoryEngine().rewrite(BATCH_LOG, outcome.rewrite)

    def test_reads_only_what_its_lineage_names(self) -> None:
        """With the same randomness, other values in columns that it claims not to look at change
        nothing it writes.
        """
        log = LOGS["ordinary"]
        for params in self.offers():
            lineage = self.granted(params).kind.lineage
            original = self.outcome(params, log, reproducible(1))
            other = self.outcome(params, _with_other_values(log, lineage), reproducible(1))
            if original is None or other is None:
                assert original is other
                continue
            if lineage.enriches:
                assert_same_log(original, other)
            for column in sorted(lineage.writes & {CONTROL_FLOW, TIMESTAMPS}):
                name = {CONTROL_FLOW: ACTIVITY, TIMESTAMPS: TIMESTAMP}[column]
                assert original.offsets.tolist() == other.offsets.tolist()
                expected = values_of(original.events, name)
                assert expected.equals(values_of(other.events, name))


def _in_batches_on_disk(batches: int) -> LocalEngine:
    """Batches of about as many events each."""
    return LocalEngine(batch_events=max(1, BATCH_LOG.events.height // batches))


def _costs(event: PrivacyEvent) -> bool:
    if isinstance(event, Composed):
        return event != FREE and any(_costs(part) for part in event.events)
    if isinstance(event, Repeated | PoissonSampled):
        return _costs(event.event)
    return not isinstance(event, NonPrivate)


def _with_other_values(log: EventLog, lineage: Lineage) -> EventLog:
    """Other resources, and other times in the same order, so far as the lineage does not name
    them.
    """
    changed, named = log.events, lineage.reads | lineage.measures
    if RESOURCE not in named:
        changed = changed.with_columns(pl.col(RESOURCE).reverse())
    if TIMESTAMPS not in named:
        later = pl.duration(days=pl.int_range(pl.len()))
        times = (pl.col(TIMESTAMP) + later).alias(TIMESTAMP)
        changed = changed.with_columns(times)
    return replace(log, events=changed)
