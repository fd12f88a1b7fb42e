"""What is promised by every mechanism that asks a kernel: its questions tell of each case by
itself, and what it makes follows from the answers alone.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from cloakwork.accounting.leaf_events import is_unbounded, leaves_of
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import METADATA, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX, without
from cloakwork.engines.base import Engine
from cloakwork.engines.memory import MemoryEngine
from cloakwork.guarantees import Guarantee
from cloakwork.kernel import Measured
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Mechanism, Offer, PartOfGoal
from cloakwork.mechanisms.steps import EnrichStep, MeasureStep
from cloakwork.noise import Noise, reproducible
from cloakwork.run.steps import GrantedStep
from cloakwork.testing.contract_logs import (
    BATCH_LOG,
    LOGS,
    ODD_LOGS,
    RELEASED,
    RELEASED_LOGS,
    assert_is_a_log,
    assert_same_log,
)
from cloakwork.testing.queries import Asked, AskedGradient, cases_that_differ, queries_collected
from cloakwork.testing.runs import run_step
from cloakwork.testing.small_cases import contributions_at_fault
from cloakwork.testing.withheld_answers import answers_withheld

PART_MU, PART_DELTA = 0.5, 1e-6
"""What the mechanism is asked to serve each part that it ``serves`` for."""


_ASKED_LOGS = (LOGS["empty"], LOGS["all variants unique"], BATCH_LOG)
"""Logs whose cases are of all kinds that the other ones have, too."""


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

    def offers(self) -> Iterator[Any]:
        """The parameters that the mechanism is given, and those that it offers for its goals and
        parts.
        """
        yield from self.given
        for goal in self.goals:
            offer = self.mechanism.offer(goal, self.facts, {})
            assert isinstance(offer, Offer), offer
            yield offer.params
        for columns in self.serves:
            assert self.mechanism.serves_parts
            part = PartOfGoal(columns, PART_MU, PART_DELTA)
            offer = self.mechanism.offer_part(part, self.facts, {})
            assert isinstance(offer, Offer), offer
            yield offer.params

    def run(
        self, params: Any, log: EventLog, noise: Noise, released: EventLog = RELEASED
    ) -> EventLog:
        """Summarise, decide and rewrite one log as a whole; ``released``: the cases that one which
        enriches adds columns to.
        """
        return self.run_on(MemoryEngine(), params, log, noise, released)

    def run_on(
        self,
        engine: Engine,
        params: Any,
        log: EventLog,
        noise: Noise,
        released: EventLog = RELEASED,
    ) -> EventLog:
        """Summarise, decide and rewrite one log, in the batches of ``engine``."""
        return run_step(self.mechanism, params, log, noise, self.facts, engine, released)

    def outcome(self, params: Any, log: EventLog, noise: Noise) -> EventLog | None:
        """The rewritten log, or None where the mechanism may and does refuse it."""
        try:
            return self.run(params, log, noise)
        except MechanismError:
            assert self.may_refuse_logs
            return None

    def granted(self, params: Any) -> GrantedStep:
        """The step that the mechanism takes, granted all that it asks for."""
        return GrantedStep.of(self.mechanism, params, self.facts)


class AskingContract(MechanismRuns):
    """What every mechanism that holds a kernel promises; of others, nothing is tried here."""

    def test_vectors_of_a_case_follow_from_that_case_alone(self) -> None:
        """Case by case, in permuted and in split batches, twice, and among other cases, each query
        and each gradient of a mechanism finds the same in a case.
        """
        for params in self._that_ask():
            for log in _ASKED_LOGS:
                for asked in self._asked(params, log):
                    _assert_none(cases_that_differ(asked))

    def test_small_cases_move_no_answer_by_more_than_its_clip(self) -> None:
        """Over a small universe of cases with all values: what each contributes to a sum is within
        the clip, and the same by itself as beside all others.
        """
        for params in self._that_ask():
            for asked in self._asked(params, BATCH_LOG):
                if isinstance(asked, Asked):
                    _assert_none(contributions_at_fault(asked))

    def test_queries_leave_nothing_behind(self) -> None:
        """What is released does not depend on what else its queries were called on: the mechanism
        learns nothing from them but the answers.
        """
        for params in self._that_ask():
            for log in _ASKED_LOGS:
                released = self.run(params, log, reproducible(1))
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

    def _assert_enriched(self, params: Any, made: EventLog, released: EventLog) -> None:
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
        """All that it asks about a log."""
        with queries_collected() as collected:
            self.run(params, log, reproducible(1))
        return collected


def _assert_none(faults: Iterator[str]) -> None:
    first = next(faults, None)
    assert first is None, first
