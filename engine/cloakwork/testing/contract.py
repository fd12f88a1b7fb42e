"""What every mechanism promises beside its theorem.

Other packages inherit the class and name their mechanism; pytest then runs all of it. Nothing here
needs pytest: each method can be called, and raises AssertionError.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final, get_args

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from cloakwork.accounting.leaf_events import is_unbounded, leaves_of
from cloakwork.base.costs import NonPrivate, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX, values_of, without
from cloakwork.engines.base import Engine
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import Guarantee
from cloakwork.kernel import Measured
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, Aggregate, EventLog
from cloakwork.mechanisms.base import Mechanism, Offer, PartOfGoal, Proof, Refusal
from cloakwork.mechanisms.steps import EnrichStep, MeasureStep
from cloakwork.noise import Noise, reproducible
from cloakwork.run.replay import NotCovered, ReplayedStep
from cloakwork.run.steps import GrantedStep
from cloakwork.testing.contract_logs import (
    BATCH_LOG,
    EVERY_GOAL,
    LOGS,
    ODD_LOGS,
    RELEASED,
    RELEASED_LOGS,
    RESOURCE,
    Batches,
    assert_is_a_log,
    assert_same_log,
)
from cloakwork.testing.queries import (
    Asked,
    AskedGradient,
    answers_withheld,
    cases_that_differ,
    queries_collected,
)

PART_MU = 0.5
PART_DELTA = 1e-6
"""What the mechanism is asked to serve each part that it ``serves`` for."""


NEIGHBOURS: Final = 6

LONG: Final = "CLOAKWORK_RUNS"
"""Where the environment has it, what takes long is tried, too."""

_ASKED_LOGS = (LOGS["empty"], LOGS["all variants unique"], BATCH_LOG)
"""Logs whose cases are of all kinds that the other ones have, too."""


_ANSWERS: Final[dict[tuple[type, Mechanism[Any]], tuple[Offer[Any] | Refusal, ...]]] = {}
"""What each mechanism under test said to its goals and parts."""


class MechanismRuns:
    """A mechanism, what it is tried with, and how it is run.

    ``goals``: guarantees that the mechanism meets, given the declared ``facts``. ``serves``: parts
    of a joint goal, each by the columns that ``offer_part`` is asked for.
    """

    mechanism: ClassVar[Mechanism[Any]]
    goals: ClassVar[tuple[Guarantee, ...]] = ()
    serves: ClassVar[tuple[tuple[str, ...], ...]] = ()
    given: ClassVar[tuple[Any, ...]] = ()
    """Parameters of a step that the planner adds by itself, and that meets no goal alone."""
    facts: ClassVar[Facts] = Facts()
    may_refuse_logs: ClassVar[bool] = False
    """Whether it may raise ``MechanismError`` on some logs; never true of a mechanism with a DP
    claim.
    """

    def answers(self, options: dict[str, Any]) -> Iterator[Offer[Any] | Refusal]:
        """What the mechanism says to each of its goals and parts."""
        for goal in self.goals:
            yield self.mechanism.offer(goal, self.facts, options)
        for columns in self.serves:
            assert self.mechanism.serves_parts
            part = PartOfGoal(columns, PART_MU, PART_DELTA)
            yield self.mechanism.offer_part(part, self.facts, options)

    def offers(self) -> Iterator[Any]:
        """The parameters that the mechanism is given, and those that it offers for its goals and
        parts: asked for once, since to find the least noise takes longer than most checks.
        """
        yield from self.given
        key = (type(self), self.mechanism)
        if key not in _ANSWERS:
            _ANSWERS[key] = tuple(self.answers({}))
        for answer in _ANSWERS[key]:
            assert isinstance(answer, Offer), answer
            yield answer.params

    def run(
        self,
        params: Any,
        log: EventLog | Batches,
        noise: Noise,
        released: EventLog = RELEASED,
        engine: Engine | None = None,
    ) -> EventLog:
        """Summarise, decide and rewrite one log by ``engine``, else in memory; ``released``: the
        cases that one which enriches adds columns to.
        """
        return run_step(self.mechanism, params, log, noise, self.facts, engine, released)

    def outcome(self, params: Any, log: EventLog) -> EventLog | None:
        """The rewritten log, or None where the mechanism may and does refuse it."""
        try:
            return self.run(params, log, reproducible(1))
        except MechanismError:
            assert self.may_refuse_logs
            return None

    def granted(self, params: Any) -> GrantedStep:
        """The step that the mechanism takes, granted all that it asks for."""
        return GrantedStep.of(self.mechanism, params, self.facts)


class MechanismContract(MechanismRuns):
    """Inherit it, set ``mechanism``, ``goals`` (or ``serves``) and what they need, and pytest runs
    all of it.

    A mechanism that holds a kernel promises more: its questions tell of each case by itself, and
    what it makes follows from the answers alone. Of others, nothing of that is tried.
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
            if goal.kind not in declared:
                assert isinstance(self.mechanism.offer(goal, self.facts, {}), Refusal)

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
        for answer in self.answers({"no such option": 1}):
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
        adapter: TypeAdapter[PrivacyEvent] = TypeAdapter(PrivacyEvent)
        for params in self.offers():
            step = self.mechanism.step(params, self.facts)
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
            costs = any(not isinstance(leaf, NonPrivate) for leaf, _ in leaves_of(step.event))
            assert bool(lineage.measures) == costs
            assert lineage.writes
            assert lineage.enriches == isinstance(step, EnrichStep)
            assert lineage.enriches or not lineage.measures & lineage.reads

    def test_summary_is_mergeable(self) -> None:
        """Two batches merged give the summary of the whole."""
        log = LOGS["ordinary"]
        halves = Batches.of(log, (np.arange(log.case_count) >= 7).astype(np.int64))
        for _, aggregate in self._that_summarise():
            merged = aggregate.merge(pl.concat([aggregate.of(half) for half in halves]))
            at_once = aggregate.of(log)
            # Rows hold lists and nulls, which have no order of their own.
            assert sorted(map(repr, at_once.rows())) == sorted(map(repr, merged.rows()))

    def test_summaries_can_be_merged_in_any_grouping(self) -> None:
        """What was merged is merged again where a log has many batches."""
        for _, aggregate in self._that_summarise():
            tables = _summaries(aggregate, 5)
            some = aggregate.merge(pl.concat(tables[:3]))
            others = aggregate.merge(pl.concat(tables[3:]))
            in_groups = aggregate.merge(pl.concat([others, some]))
            assert in_groups.equals(aggregate.merge(pl.concat(tables)))

    def test_a_decision_does_not_depend_on_the_order_of_the_summary(self) -> None:
        """The rows of the batches' summaries come in any order."""
        for params, aggregate in self._that_summarise():
            rows = pl.concat(_summaries(aggregate, 7))
            permuted = rows.sample(fraction=1, shuffle=True, seed=5)
            one = self._rewrite_by(params, aggregate.merge(rows))
            other = self._rewrite_by(params, aggregate.merge(permuted))
            assert_same_log(one, other)

    def _that_summarise(self) -> Iterator[tuple[Any, Aggregate]]:
        """The parameters to run, of a mechanism that looks at a summary."""
        for params in self.offers():
            aggregate = self.granted(params).aggregate
            if aggregate is not None:
                yield params, aggregate

    def _rewrite_by(self, params: Any, summary: pl.DataFrame) -> EventLog:
        """What it makes of ``BATCH_LOG``, going by ``summary``."""
        # The same noise for every summary: whatever differs is the summary's doing.
        noise = reproducible(1)
        step = self.granted(params)
        outcome = step.take(step.opened(summary, noise), noise, released=RELEASED)
        return MemoryEngine().rewrite(BATCH_LOG, outcome.rewrite)

    def test_release_is_a_log(self) -> None:
        """On every log: whole cases, labelled events, ids used once, times in order; and the log
        that was given is what it was.
        """
        for log in LOGS.values():
            # Copied, as a mechanism could change columns in place.
            before = replace(
                log,
                events=log.events.clone(),
                cases=log.cases.clone(),
                offsets=log.offsets.copy(),
            )
            for params in self.offers():
                released = self.outcome(params, log)
                if released is not None:
                    assert_is_a_log(released)
                assert before.events.equals(log.events)
                assert before.cases.equals(log.cases)
                assert before.offsets.tolist() == log.offsets.tolist()

    def test_batches_change_nothing(self) -> None:
        """Over random batches on disk, the decision, and the release to the last value and type,
        are those of the log as a whole; over other numbers of them only where ``CLOAKWORK_RUNS`` is
        set.
        """
        for batches in (7, *((1, 4, 60) if LONG in os.environ else ())):
            parted = Batches.random(BATCH_LOG, batches)
            for params in self.offers():
                # One seed for both, so that only batches can make a difference.
                in_one_batch = self.run(params, BATCH_LOG, reproducible(1))
                in_batches = self.run(params, parted, reproducible(1), engine=LocalEngine())
                assert_same_log(in_one_batch, in_batches)

    def test_a_rewrite_draws_the_same_again(self) -> None:
        """A batch that is computed twice, as after a failure, is released once: nothing is drawn
        anew.
        """
        for params in self.offers():
            noise = reproducible(1)
            engine = MemoryEngine()
            step = self.granted(params)
            seen = step.look(BATCH_LOG, engine, noise)
            action = step.take(seen, noise, released=RELEASED).rewrite
            once = engine.rewrite(BATCH_LOG, action)
            again = engine.rewrite(BATCH_LOG, action)
            assert_same_log(once, again)

    def test_reads_only_what_its_lineage_names(self) -> None:
        """With the same randomness, other values in columns that it claims not to look at change
        nothing it writes.
        """
        log = LOGS["ordinary"]
        for params in self.offers():
            lineage = self.granted(params).kind.lineage
            original = self.outcome(params, log)
            other = self.outcome(params, _with_other_values(log, lineage))
            # A refusal of one log alone would tell of what it claims not to look at.
            if original is None or other is None:
                assert original is other
                continue
            if lineage.enriches:
                assert_same_log(original, other)
            # Only what it writes must be the same; the rest may be passed on.
            for column in sorted(lineage.writes & {CONTROL_FLOW, TIMESTAMPS}):
                name = {CONTROL_FLOW: ACTIVITY, TIMESTAMPS: TIMESTAMP}[column]
                assert original.offsets.tolist() == other.offsets.tolist()
                expected = values_of(original.events, name)
                assert expected.equals(values_of(other.events, name))

    def test_vectors_of_a_case_follow_from_that_case_alone(self) -> None:
        """Case by case, in permuted and in split batches, twice, and among other cases, each query
        and each gradient of a mechanism finds the same in a case.
        """
        for params in self._that_ask():
            for log in _ASKED_LOGS:
                for asked in self._asked(params, log):
                    first = next(cases_that_differ(asked), None)
                    assert first is None, first

    def test_neighbours_are_asked_the_same(self) -> None:
        """Neighbouring logs that get the same answers are asked the same questions, and what is
        behind an answer moves by no more than it is charged for.
        """
        for params in self._that_ask():
            step = self.granted(params)
            if is_unbounded(leaves_of(step.kind.event)):
                continue  # It looks at the raw log, and says so.
            replayed = ReplayedStep(step, BATCH_LOG, RELEASED)
            try:
                replayed.record()
                for _, neighbour in replayed.neighbours(NEIGHBOURS, seed=1):
                    replayed.replayed_on(neighbour)
            except NotCovered as fault:
                raise AssertionError(str(fault)) from fault

    def test_queries_leave_nothing_behind(self) -> None:
        """What is released does not depend on what else its queries were called on: the mechanism
        learns nothing from them but the answers.
        """
        for params in self._that_ask():
            for log in _ASKED_LOGS:
                released = self.run(params, log, reproducible(1))
                # Decoys come before and after: what a query remembers of them shows in the release.
                with queries_collected(disturbed=True):
                    disturbed = self.run(params, log, reproducible(1))
                assert_same_log(released, disturbed)

    def test_queries_ask_for_what_was_granted(self) -> None:
        """No query asks for a column that the mechanism's lineage does not name: it would find
        nothing, and nobody would be told.
        """
        for params in self._that_ask():
            for log in (LOGS["ordinary"], BATCH_LOG):
                for asked in self._asked(params, log):
                    assert not asked.refused

    def test_nothing_but_answers_tells_of_the_log(self) -> None:
        """Where its kernel answers as of an empty log, it makes the same of every log."""
        for params in self._that_ask():
            if is_unbounded(leaves_of(self.granted(params).kind.event)):
                continue  # It looks at the raw log, and says so.
            expected = self._without_answers(params, LOGS["empty"])
            for log in (*ODD_LOGS.values(), BATCH_LOG):
                assert_same_log(expected, self._without_answers(params, log))

    def _without_answers(self, params: Any, log: EventLog) -> EventLog:
        step = self.granted(params)
        # How many draws an order takes follows from the log: it has a source of its own.
        seen = step.look(log, MemoryEngine(), reproducible(2))
        assert isinstance(seen, Measured)
        with answers_withheld():
            outcome = step.take(seen, reproducible(1), released=RELEASED)
        return MemoryEngine().rewrite(log, outcome.rewrite)

    def test_every_log_gives_a_release(self) -> None:
        """Without values, without times, at the ends of the calendar, of other types, of other
        activities, of one long case; whatever the cases are like that columns are added to.
        """
        for params in self._that_ask():
            for log in ODD_LOGS.values():
                assert_is_a_log(self.run(params, log, reproducible(1)))
            if isinstance(self.granted(params).kind, EnrichStep):
                for released in RELEASED_LOGS.values():
                    made = self.run(params, BATCH_LOG, reproducible(1), released)
                    self._assert_enriched(params, made, released)

    def _assert_enriched(
        self,
        params: Any,
        made: EventLog,
        released: EventLog,
    ) -> None:
        """The same cases, and beside what they had, the columns that the lineage writes."""
        assert_is_a_log(made)
        written = self.granted(params).kind.lineage.writes - {METADATA}
        names = {TIMESTAMP if name == TIMESTAMPS else name for name in written}
        of_cases = {name for name in names if name.startswith(CASE_PREFIX)}
        assert set(made.events.columns) == {*released.events.columns, *names - of_cases}
        assert set(made.cases.columns) == {*released.cases.columns, *of_cases}
        for table in ("events", "cases"):
            before, after = (without(getattr(log, table), *names) for log in (released, made))
            assert after.equals(before)
        assert made.offsets.tolist() == released.offsets.tolist()

    def test_asks_what_its_event_lists(self) -> None:
        """One that enriches asks each question that it is charged for; what it is not charged for,
        the kernel refuses.
        """
        for params in self._that_ask():
            step = self.granted(params)
            if isinstance(step.kind, EnrichStep):
                noise = reproducible(1)
                seen = step.look(BATCH_LOG, MemoryEngine(), noise)
                recorded = step.take(seen, noise, released=RELEASED).recorded
                assert recorded is not None
                assert dict(leaves_of(recorded)) == dict(leaves_of(step.kind.event))

    def _that_ask(self) -> Iterator[Any]:
        """The parameters to run, of a mechanism that asks a kernel."""
        for params in self.offers():
            if isinstance(self.granted(params).kind, MeasureStep | EnrichStep):
                yield params

    def _asked(self, params: Any, log: EventLog) -> list[Asked | AskedGradient]:
        with queries_collected() as collected:
            self.run(params, log, reproducible(1))
        return collected


def _summaries(aggregate: Aggregate, batches: int) -> list[pl.DataFrame]:
    """Of each of so many random batches of ``BATCH_LOG``."""
    return [aggregate.of(batch) for batch in Batches.random(BATCH_LOG, batches)]


def _with_other_values(log: EventLog, lineage: Lineage) -> EventLog:
    """Other resources, and other times in the same order, where the lineage names none."""
    changed = log.events
    named = lineage.reads | lineage.measures
    if RESOURCE not in named:
        # Reversed: other resources for the events, and none that is new.
        changed = changed.with_columns(pl.col(RESOURCE).reverse())
    if TIMESTAMPS not in named:
        # Later by one more day each, so that times keep their order.
        later = pl.duration(days=pl.int_range(pl.len()))
        times = (pl.col(TIMESTAMP) + later).alias(TIMESTAMP)
        changed = changed.with_columns(times)
    return replace(log, events=changed)
