"""What every mechanism promises beside its theorem.

Other packages inherit the class and name their mechanism; pytest then runs all of it. Nothing here
needs pytest: each method can be called, and raises AssertionError.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, get_args

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal
from pydantic import TypeAdapter

from cloakwork.arrays import Ints
from cloakwork.engines.batches import in_batches
from cloakwork.engines.memory import Engine, MemoryEngine
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
from cloakwork.log.naming import values_of
from cloakwork.mechanisms.base import Measures, Mechanism, Offer, Proof, Refusal
from cloakwork.noise import Noise, reproducible
from cloakwork.privacy_event import (
    FREE,
    Composed,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.run.steps import Grant, aggregate_of, look, opened, take
from cloakwork.testing.logs import RESOURCE, log_of
from cloakwork.testing.queries import cases_that_differ, queries_collected
from cloakwork.testing.runs import run_step

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


def _batch_log() -> EventLog:
    """A log of 90 cases of 9 units whose rare variants are too small for k = 4, with values, some
    of them missing, and one inserted event in each of five cases.
    """
    rows = [["a", "b", "c"]] * 40 + [["a", "c"]] * 26 + [["a", "b", "b", "c"]] * 10
    log = log_of([*rows, *[["a"]] * 8, *[["d"]] * 3, *[[]] * 3])
    mixed = np.random.default_rng(1).permutation(log.cases.height)
    log = log.keep_cases(mixed)
    inserted = np.zeros(log.events.height, np.bool_)
    inserted[log.offsets[[3, 17, 31, 45, 59]]] = True
    place = np.arange(log.cases.height)
    # An inserted event has no values of its own.
    lost = pl.lit(pl.Series(inserted))
    return replace(
        log,
        cases=log.cases.with_columns(
            pl.Series("case:unit", [None if i == 7 else f"u{i % 9}" for i in place.tolist()]),
            pl.Series("case:age", (place * 7 % 11).astype(np.float64)),
        ),
        events=log.events.with_columns(
            pl.when(~lost).then(pl.col(RESOURCE)).alias(RESOURCE),
            pl.when(~lost).then(pl.col(TIMESTAMP)).alias(TIMESTAMP),
            pl.Series("org:role", [f"role {i % 3}" for i in range(log.events.height)]),
        ),
        inserted=inserted,
    )


BATCH_LOG = _batch_log()


class MechanismContract:
    """Inherit it, set ``mechanism``, ``goals`` and what they need, and pytest runs all of it.

    ``goals``: guarantees that the mechanism meets, given the declared ``facts``.
    """

    mechanism: ClassVar[Mechanism[Any]]
    goals: ClassVar[tuple[Guarantee, ...]] = ()
    given: ClassVar[tuple[Any, ...]] = ()
    """Parameters of a step that the planner adds by itself, and that meets no goal alone."""
    facts: ClassVar[Facts] = Facts()
    may_refuse_logs: ClassVar[bool] = False
    """Whether it may raise ``MechanismError`` on some logs; never true of a mechanism with a DP
    claim.
    """

    def offers(self) -> Iterator[Any]:
        """The parameters that the mechanism is given, and those that it offers for its goals."""
        yield from self.given
        for goal in self.goals:
            offer = self.mechanism.offer(goal, self.facts, {})
            assert isinstance(offer, Offer), offer
            yield offer.params

    def run(self, params: Any, log: EventLog, noise: Noise) -> EventLog:
        """Summarise, decide and rewrite one log as a whole."""
        return self.run_on(MemoryEngine(), params, log, noise)

    def run_on(self, engine: Engine, params: Any, log: EventLog, noise: Noise) -> EventLog:
        """Summarise, decide and rewrite one log, in the batches of ``engine``."""
        return run_step(self.mechanism, params, log, noise, self.facts, engine)

    def outcome(self, params: Any, log: EventLog, noise: Noise) -> EventLog | None:
        """The rewritten log, or None where the mechanism may and does refuse it."""
        try:
            return self.run(params, log, noise)
        except MechanismError:
            assert self.may_refuse_logs
            return None

    def test_introduces_itself(self) -> None:
        """Name, summary and theorem say something."""
        assert self.mechanism.name.count("/") <= 1
        assert self.mechanism.summary.endswith(".")
        assert self.mechanism.proof in get_args(Proof)
        assert self.mechanism.proof != "kernel" or isinstance(self.mechanism, Measures)
        assert self.mechanism.theorem.statement
        assert self.mechanism.theorem.source

    def test_offers_what_it_declares(self) -> None:
        """It offers the kinds that it gives and no other; the test has something to run."""
        declared = {each.kind for each in self.mechanism.gives}
        assert self.goals if declared else self.given
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
        halves = in_batches(log, (np.arange(log.cases.height) >= 7).astype(np.int64), 2)
        for params in self.offers():
            grant = Grant.of(self.mechanism, params, self.facts)
            aggregate = aggregate_of(self.mechanism, params, grant)
            if aggregate is None:
                continue
            summaries = pl.concat([aggregate.of(half) for half in halves])
            merged = aggregate.merge(summaries)
            at_once = aggregate.of(log)
            # Rows hold lists and nulls, which have no order of their own.
            assert sorted(map(repr, at_once.rows())) == sorted(map(repr, merged.rows()))

    def test_release_is_a_log(self) -> None:
        """On every log: whole cases, labelled events, ids used once, times in order."""
        for log in LOGS.values():
            for params in self.offers():
                released = self.outcome(params, log, reproducible(1))
                if released is not None:
                    assert_is_a_log(released)

    def test_changes_nothing_in_place(self) -> None:
        """The log and the summary that it was given are what they were."""
        for log in LOGS.values():
            before = replace(
                log, events=log.events.clone(), cases=log.cases.clone(), offsets=log.offsets.copy()
            )
            for params in self.offers():
                self.outcome(params, log, reproducible(1))
                assert before.events.equals(log.events)
                assert before.cases.equals(log.cases)
                assert before.offsets.tolist() == log.offsets.tolist()

    def test_batches_change_nothing(self) -> None:
        """Over random batches the decision, and the release to the last value and type, are the
        same.
        """
        for batches in (1, 4, 60):
            for params in self.offers():
                in_one_batch = self.run(params, BATCH_LOG, reproducible(1))
                engine = MemoryEngine(batches, random_batches(batches))
                in_batches = self.run_on(engine, params, BATCH_LOG, reproducible(1))
                assert_same_log(in_one_batch, in_batches)

    def test_a_rewrite_draws_the_same_again(self) -> None:
        """A batch that is computed twice, as after a failure, is released once: nothing is drawn
        anew.
        """
        for params in self.offers():
            noise = reproducible(1)
            engine = MemoryEngine()
            grant = Grant.of(self.mechanism, params, self.facts)
            seen = look(self.mechanism, params, BATCH_LOG, engine, noise, grant)
            action = take(self.mechanism, params, seen, noise, grant).rewrite
            once = engine.rewrite(BATCH_LOG, action)
            again = engine.rewrite(BATCH_LOG, action)
            assert_same_log(once, again)

    def test_a_decision_does_not_depend_on_the_order_of_the_summary(self) -> None:
        """The rows of the batches' summaries come in any order."""
        for params in self.offers():
            grant = Grant.of(self.mechanism, params, self.facts)
            aggregate = aggregate_of(self.mechanism, params, grant)
            if aggregate is None:
                continue
            batches = in_batches(BATCH_LOG, random_batches(7)(BATCH_LOG.cases.height), 7)
            rows = pl.concat([aggregate.of(batch) for batch in batches])
            permuted = rows.sample(fraction=1, shuffle=True, seed=5)
            one = self._rewrite_by(params, aggregate.merge(rows), grant)
            other = self._rewrite_by(params, aggregate.merge(permuted), grant)
            assert_same_log(one, other)

    def _rewrite_by(self, params: Any, summary: pl.DataFrame, grant: Grant) -> EventLog:
        """What it makes of ``BATCH_LOG``, going by ``summary``."""
        noise = reproducible(1)
        seen = opened(self.mechanism, summary, noise)
        outcome = take(self.mechanism, params, seen, noise, grant)
        return MemoryEngine().rewrite(BATCH_LOG, outcome.rewrite)

    def test_vectors_of_a_case_follow_from_that_case_alone(self) -> None:
        """Case by case, in permuted and in split batches, twice, and among other cases, each query
        of a mechanism finds the same in a case.
        """
        for params in self._that_measure():
            for log in (*LOGS.values(), BATCH_LOG):
                with queries_collected() as collected:
                    self.run(params, log, reproducible(1))
                for asked in collected:
                    assert not list(cases_that_differ(asked))

    def test_queries_leave_nothing_behind(self) -> None:
        """What is released does not depend on what else its queries were called on: the mechanism
        learns nothing from them but the answers.
        """
        for params in self._that_measure():
            for log in (*LOGS.values(), BATCH_LOG):
                released = self.run(params, log, reproducible(1))
                with queries_collected(disturbed=True):
                    disturbed = self.run(params, log, reproducible(1))
                assert_same_log(released, disturbed)

    def test_queries_ask_for_what_was_granted(self) -> None:
        """No query asks for a column that the mechanism's lineage does not name: it would find
        nothing, and nobody would be told.
        """
        for params in self._that_measure():
            for log in (*LOGS.values(), BATCH_LOG):
                with queries_collected() as collected:
                    self.run(params, log, reproducible(1))
                for asked in collected:
                    assert not asked.refused

    def _that_measure(self) -> Iterator[Any]:
        """The parameters to run, of a mechanism that asks a kernel."""
        if isinstance(self.mechanism, Measures):
            yield from self.offers()

    def test_reads_only_what_its_lineage_names(self) -> None:
        """With the same randomness, other values in columns that it claims not to look at change
        nothing it writes.
        """
        log = LOGS["ordinary"]
        for params in self.offers():
            lineage = self.mechanism.lineage(params)
            original = self.outcome(params, log, reproducible(1))
            other = self.outcome(params, _with_other_values(log, lineage), reproducible(1))
            if original is None or other is None:
                assert original is other
                continue
            for column in sorted(lineage.writes & {CONTROL_FLOW, TIMESTAMPS}):
                name = {CONTROL_FLOW: ACTIVITY, TIMESTAMPS: TIMESTAMP}[column]
                assert original.offsets.tolist() == other.offsets.tolist()
                expected = values_of(original.events, name)
                assert expected.equals(values_of(other.events, name))


def random_batches(batches: int) -> Callable[[int], Ints]:
    """For each case one of so many batches, at random, but the same in each run of the test."""
    return lambda cases: np.random.default_rng(batches).integers(0, batches, cases)


def assert_same_log(one: EventLog, other: EventLog) -> None:
    """The same cases, events, values, types and marks, in the same order."""
    assert_frame_equal(one.events, other.events, check_exact=True)
    assert_frame_equal(one.cases, other.cases, check_exact=True)
    assert one.offsets.tolist() == other.offsets.tolist()
    assert one.kept.tolist() == other.kept.tolist()


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
        case = log.case_of[known]
        stamps = times.drop_nulls().to_numpy()
        # From one row to the next: not earlier, or of the next case.
        in_order = np.diff(stamps) >= 0
        next_case = np.diff(case) > 0
        assert (in_order | next_case).all()


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
