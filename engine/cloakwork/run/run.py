"""Run a plan on a log: reserve the budget, take each step, check the result. Decides nothing that
the plan left open. What comes of it is a release: a log for which every claim of its plan holds. It
cannot exist otherwise. And measuring the DP profile that a policy buys.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import polars as pl
from pydantic import JsonValue

from cloakwork.base.costs import Cost, PrivacyEvent
from cloakwork.base.errors import (
    GuaranteeBroken,
    LedgerError,
    MechanismError,
    PlanUnsound,
)
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import without
from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.base.progress import Reporter, heard_by, silent, stop_if_interrupted
from cloakwork.base.text import version_of
from cloakwork.engines.base import Engine, Opened
from cloakwork.engines.measured import measured_of
from cloakwork.engines.memory import MemoryEngine
from cloakwork.guarantees import MetricPrivacy
from cloakwork.kernel import Answer, Books, Kernel
from cloakwork.ledger.ledger import Ledger, Require, Reservation, ReservationRequest
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.formats.round_trip import TypesReadBack
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.bound import BoundContributions, BoundParams
from cloakwork.mechanisms.profile import Profile, ProfileFigures, ProfileParams, measure_profile
from cloakwork.mechanisms.registry import Package
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.mechanisms.steps import Decision, Figures
from cloakwork.noise import Noise, secret
from cloakwork.plan.budget import (
    facts_in_window,
    ledger_terms,
    require_profile_params,
    reservation_request,
    unit_charge,
)
from cloakwork.plan.model import Catalogue, Claim, Plan, Step
from cloakwork.plan.planner import replan
from cloakwork.plan.sentences import exposed_lines, unproven_sentence
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy, describe_version
from cloakwork.run.prepare import (
    SourceFigures,
    case_id_sample,
    in_time_order,
    in_window,
    measured_attributes,
    own_cases,
    prepared_log,
    require_enough_cases,
    under_standard_names,
    with_one_unit_a_case,
)
from cloakwork.run.reading import local_engine
from cloakwork.run.search_cache import SearchCache
from cloakwork.run.steps import GrantedStep


def tells_measurements(plan: Plan) -> bool:
    """Whether a release of ``plan`` may tell the answers that its log was made of."""
    return plan.bounded and not plan.unproven


@frozen
class Verdict:
    """Whether one claim holds for this release; ``observed`` says what an independent check
    measured, if one could.
    """

    claim: Claim
    holds: bool
    observed: str


@frozen
class StepRecord:
    """What one step did: its seconds, and figures of the raw log. Internal, never published.

    ``recorded``: the noise really drawn, as the kernel recorded it; None where the step measures
    nothing. ``answers``: what it answered, which is not internal where the plan's claim covers it.
    """

    mechanism: str
    seconds: float
    figures: Figures
    recorded: PrivacyEvent | None = None
    answers: tuple[Answer, ...] = field(default=(), repr=False)


@frozen
class Internal:
    """Everything measured on the raw log; goes into the internal report only.

    ``source``: name of the log file, counts, what the reader noted. ``stages``: seconds by stage
    (read, steps, write). ``utility``: how much of the control flow is left
    (``cloakwork.evaluation.utility.Utility`` as data); empty where no step rewrites it.
    """

    source: Figures
    steps: tuple[StepRecord, ...]
    stages: Mapping[str, float]
    notes: tuple[str, ...] = ()
    utility: Figures = field(default_factory=dict)


@frozen
class Release:
    """An anonymized log with its plan and one verdict for each claim.

    ``release_id``: the ledger's row; ``ledger_entry``: the digest of its reservation there, None
    without a ledger. ``reservation``: what ``publish`` tells the ledger by; the ledger shows it as
    reserved until then. ``private``: False when a fixed seed was used (tests only; stamped NOT
    PRIVATE). Raises ValueError where a claim has no verdict, or one that does not hold, and where
    nothing is claimed at all unless the plan says what is unproven instead.
    """

    log: LogHandle
    plan: Plan
    verdicts: tuple[Verdict, ...]
    release_id: str
    internal: Internal
    private: bool = True
    ledger_entry: str | None = None
    reservation: Reservation | None = field(default=None, repr=False, compare=False)

    @property
    def recorded(self) -> dict[int, PrivacyEvent]:
        """What the kernel recorded of each step that measures, by its place in the plan."""
        records = enumerate(record.recorded for record in self.internal.steps)
        return {place: event for place, event in records if event is not None}

    @property
    def measurements(self) -> tuple[Answer, ...]:
        """The answers that may be told beside the log: those that a claim of differential privacy
        over all that is released is charged for. None where the plan has no such claim, or a seed
        is known.

        Such a claim counts all noise per unit of the release (``derived_at_cost``), whichever goal
        its step serves, so telling answers instead of what was made of them costs nothing (Dwork
        and Roth 2014, proposition 2.1). What is charged for units with the same cases and other
        values is not among them.
        """
        if not (self.private and tells_measurements(self.plan)):
            return ()
        steps = zip(self.plan.steps, self.internal.steps, strict=False)
        covered = (
            record
            for step, record in steps
            if step.currency == "unit" and not step.lineage.is_given_flow
        )
        return tuple(answer for record in covered for answer in record.answers)

    # Short: what notebooks show says more.
    __repr__ = object.__repr__

    def _repr_html_(self) -> str:
        claims = [
            (verdict.claim.guarantee.kind, verdict.claim.sentence, verdict.observed)
            for verdict in self.verdicts
        ]
        counts = f"{self.log.case_count:,} cases, {self.log.event_count:,} events"
        where = "In memory: publish() writes it to a folder, signed."
        title = f"Release {self.release_id} of {describe_version(self.plan.policy)}"
        unproven = listing("Unproven", map(unproven_sentence, self.plan.unproven))
        return shown(
            title if self.private else f"{title}: NOT PRIVATE, drawn from a fixed seed",
            paragraph(f"{counts}. {where}"),
            unproven,
            table(("guarantee", "says", "checked"), claims),
            listing("Not protected", exposed_lines(self.plan)),
        )

    def __post_init__(self) -> None:
        # By identity: two claims may say the same.
        held = {id(verdict.claim) for verdict in self.verdicts if verdict.holds}
        if any(id(claim) not in held for claim in self.plan.claims):
            raise ValueError("a release exists only where every claim of its plan holds")
        if not self.plan.claims and not self.plan.unproven:
            raise ValueError("a release claims something, or says what is unproven")


NOT_PRIVATE: Final = "not-private"


class Observer:
    """Hears of the raw log while a plan runs, for the internal report: it changes nothing, and
    never raises. Each method may be left as it is.
    """

    def stepped(
        self,
        step: Step,
        before: LogHandle,
        after: LogHandle,
    ) -> None:
        """A step was taken; the log before and after it."""

    def notes(self, source: LogHandle) -> Iterable[str]:
        """What the internal report should say of the source, prepared for the plan."""
        return ()

    def finished(self, source: LogHandle, released: LogHandle) -> Figures:
        """Figures of the release against its source, both under the standard names."""
        return {}


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage. Internal: how long a step took can depend on the log."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``name``."""
        stop_if_interrupted()
        begun = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begun


@frozen
class EntryDetails:
    """What is told of a release beside what its plan says.

    ``folder``: where it will be, if that is known. ``details`` and ``notes``: what the ledger's
    entry and the internal report say beside the rest; notes are taken once the log was read.
    ``require``: raises where the ledger's entries forbid the release, in the transaction that
    reserves.
    """

    folder: Path | None = None
    details: Figures = field(default_factory=dict)
    notes: Iterable[str] = ()
    require: Require | None = None


NOT_COMPARED: Final = (
    "whether its cases were released as another dataset is not known: fingerprints of the ledger "
    "are missing, or the right to read them"
)

NO_DETAILS: Final = EntryDetails()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a plan is run: which engine, which noise, who hears of it.

    A ``noise`` source with a fixed seed is for tests: it charges no ledger, and the release says
    that it is not private. ``searches``: where what a search without noise finds is kept, and found
    again. ``watch``: the seconds by stage.
    """

    plan: Plan
    engine: Engine = field(default_factory=MemoryEngine)
    noise: Noise = field(default_factory=lambda: secret())  # noqa: PLW0108 - late
    catalogue: Catalogue = field(default_factory=lambda: all_mechanisms())  # noqa: PLW0108 - late
    reporter: Reporter = silent
    observers: tuple[Observer, ...] = ()
    searches: SearchCache | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def release(
        self,
        log: object,
        ledger: Ledger | None,
        entry: EntryDetails = NO_DETAILS,
    ) -> Release:
        """The release that the plan makes of ``log``: an event log, or another source that the
        engine opens.

        Proves the plan again, reserves its cost in ``ledger`` before any step reads the log, takes
        the steps, and measures what can be measured. The release stays reserved until it is
        published. Raises PlanUnsound, BudgetExceeded, SameCases, GuaranteeBroken, MechanismError or
        LedgerError. Once reserved, budget is never handed back.
        """
        # A plan is data: whoever edited it gets no more than it proves.
        plan = replan(self.plan, self.catalogue)
        self.reporter("plan proved again")
        proved = replace(self, plan=plan)
        with self.watch.stage("prepare"):
            opened = proved._opened(log)
            prepared = opened.log
        # Before any step reads the log: what is reserved is never handed back.
        reservation = None
        if self.noise.private:
            if ledger is None:
                reason = "a release with private noise needs a ledger to charge"
                raise MechanismError("ledger", reason)
            request = reservation_request(plan)
            reservation = ledger.reserve(
                replace(
                    request,
                    sample=case_id_sample(prepared, self.engine, ledger),
                    details={**request.details, **entry.details},
                    folder=entry.folder,
                    require=entry.require,
                )
            )
        # From here on an error leaves the cost spent.
        with recording_failure(reservation):
            return proved._made(prepared, reservation, entry, opened.seen.row(0, named=True))

    def _opened(self, log: object) -> Opened:
        """The log as prepared for the plan; refused where it holds too few cases."""
        unit = self.plan.facts.unit.attribute
        prepare = partial(prepared_log, plan=self.plan)
        opened = self.engine.open(log, prepare, unit, SourceFigures())
        require_enough_cases(opened.log, self.plan, self.engine)
        return opened

    def _made(
        self,
        prepared: LogHandle,
        reservation: Reservation | None,
        entry: EntryDetails,
        source: Figures,
    ) -> Release:
        """The release, once it is paid for."""
        plan = self.plan
        not_compared: tuple[str, ...] = ()
        if reservation is not None and not reservation.was_compared:
            not_compared = (NOT_COMPARED,)
        prepared, of_window = own_cases(
            prepared,
            plan.facts,
            reservation,
            self.engine,
        )
        result, records = self.steps(prepared)
        with self.watch.stage("finish"):
            result = finished(
                result,
                plan,
                self.engine,
                self.noise,
            )
        with self.watch.stage("checks"):
            verdicts = tuple(_verdict(claim, result, plan) for claim in plan.claims)
        # What only steps and checks needed goes before anybody sees it.
        released = result.with_columns_of(partial(without_hidden, plan=plan))
        seen = (note for each in self.observers for note in each.notes(prepared))
        release = Release(
            log=released,
            plan=plan,
            verdicts=verdicts,
            release_id=reservation.id if reservation else NOT_PRIVATE,
            internal=Internal(
                source=source,
                steps=records,
                stages=self.watch.seconds,
                notes=(*entry.notes, *prepared.notes, *of_window, *seen, *not_compared),
            ),
            ledger_entry=reservation.digest if reservation else None,
            private=self.noise.private,
            reservation=reservation,
        )
        with self.watch.stage("utility"):
            utility: dict[str, JsonValue] = {}
            for each in self.observers:
                utility.update(each.finished(prepared, released))
        return replace(release, internal=replace(release.internal, utility=utility))

    def preview(self, log: object) -> tuple[StepRecord, ...]:
        """What the plan's first steps would change in ``log``, as figures: for those who may see
        it, never for the public.

        Takes the steps until one measures through noise, or reads times that a claim protects; what
        is shown may depend on nothing else than what every claim of the plan takes as known
        (``docs/guarantees.md``). Charges nothing and releases nothing. Raises as ``release`` does
        where a step refuses the log.
        """
        # What is shown may depend on nothing that a claim protects.
        steps = previewable(self.plan)
        if not steps:
            return ()
        _, records = replace(self, observers=()).steps(self._opened(log).log, steps)
        return tuple(record for record in records if record.figures)

    def trial(self, log: EventLog) -> tuple[LogHandle, LogHandle]:
        """The log as prepared for the plan, and what its steps make of it, under the standard
        names.

        The plan comes from ``make_plan`` just now and is not proved again; no ledger is charged, no
        claim checked, and there is no release: what comes back must not leave the comparison. The
        caller answers for the log: where a claim rests on noise, it must hold nothing that the
        noise protects. Raises as ``release`` does where a step refuses the log.
        """
        prepared = prepared_log(log, self.plan)
        require_enough_cases(prepared, self.plan, self.engine)
        result, _ = self.steps(prepared)
        made = finished(
            result,
            self.plan,
            self.engine,
            self.noise,
        )
        return prepared, made.with_columns_of(partial(without_hidden, plan=self.plan))

    def steps(
        self, log: LogHandle, steps: tuple[Step, ...] | None = None
    ) -> tuple[LogHandle, tuple[StepRecord, ...]]:
        """What the steps of the plan (or these) make of a log that was prepared for it, one after
        the other. Nothing is charged or checked.
        """
        records: list[StepRecord] = []
        result = log
        source = log
        made_anew = False
        for step in self.plan.steps if steps is None else steps:
            self.reporter(f"{step.mechanism}: {step.why}")
            before = result
            with heard_by(self.reporter):
                taken = granted(step, self.plan, self.catalogue)
                measured = source if step.lineage.enriches else result
                result, record = self.take_step(taken, measured, released=result)
            # Columns are added by what is measured on the log as it was before cases were made
            # anew, columns of them drawn, or cases changed: gaps and durations there are real ones.
            made_anew = made_anew or step.lineage.leaves_source
            source = source if made_anew else result
            records.append(record)
            for observer in self.observers:
                observer.stepped(step, before, result)
        return result, tuple(records)

    def take_step(
        self,
        step: GrantedStep,
        log: LogHandle,
        released: LogHandle | None = None,
    ) -> tuple[LogHandle, StepRecord]:
        """Look at the log as far as the plan grants it, decide or measure, rewrite; ``released``:
        what a step that enriches adds columns to.
        """
        begun = perf_counter()
        with self.watch.stage(step.name):
            seen = step.look(log, self.engine, self.noise)
            outcome = step.take(
                seen,
                self.noise,
                self.searches,
                released,
            )
            after = self.engine.rewrite(log, outcome.rewrite)
        seconds = perf_counter() - begun
        return after, StepRecord(
            step.name,
            seconds,
            outcome.internal,
            outcome.recorded,
            outcome.answers,
        )


@contextmanager
def recording_failure(reservation: Reservation | None) -> Iterator[None]:
    """Record that a release came to nothing, where an error ends the block; its cost stays spent.
    The reason is the kind of error, never its text.
    """
    try:
        yield
    except BaseException as error:
        try:
            if reservation is not None:
                reservation.fail(type(error).__name__)
        except LedgerError as unrecorded:
            # The entry stays open, as after a crash: as much is spent, and ``ledger reconcile``
            # closes it.
            error.add_note(f"the ledger does not know yet: {unrecorded}")
        raise


def granted(
    step: Step,
    plan: Plan,
    catalogue: Catalogue,
) -> GrantedStep:
    """``step`` with what ``plan`` grants it, by the guarantees that it serves.

    Raises PlanUnsound where its mechanism would take another step than the plan was proved for.
    """
    mechanism = catalogue[step.mechanism]
    params = mechanism.Params.model_validate(step.params)
    kind = mechanism.step(params, plan.facts)
    if (kind.lineage, kind.event, kind.currency) != (step.lineage, step.event, step.currency):
        raise PlanUnsound(f"{step.mechanism} would take another step than the plan says")
    # A plan names goals by their places in the policy.
    shift = None
    if step.currency == "metric":
        goals = plan.policy.goals()
        served = [goals[place] for place in step.goals]
        shifts = [goal.shift for goal in served if isinstance(goal, MetricPrivacy)]
        shift = max(shifts, default=None)
    source = Package(step.mechanism, mechanism.package)
    return GrantedStep(
        kind,
        source,
        params,
        plan.facts.unit,
        shift,
        plan.facts.rules,
    )


def previewable(plan: Plan) -> tuple[Step, ...]:
    """The steps that may be tried out on the log while planning; none where a claim covers what
    they would read, or an unproven goal would.
    """
    if plan.unproven:
        return ()
    # Columns over which a claim rests on noise.
    protected: set[str] = set()
    for claim in plan.claims:
        if claim.cost is not None:
            protected |= set(claim.guarantee.over)
    allowed = list[Step]()
    for step in plan.steps:
        lineage = step.lineage
        if lineage.measures or lineage.generates or lineage.reads & protected:
            break
        allowed.append(step)
    # Steps that read nothing would show nothing.
    return tuple(allowed) if any(step.lineage.reads for step in allowed) else ()


def finished(
    log: LogHandle,
    plan: Plan,
    engine: Engine,
    noise: Noise,
) -> LogHandle:
    """The cases under fresh ids in random order, as whoever reads the release will read them."""
    shuffled = engine.shuffle(log, noise.stream())
    types = TypesReadBack(plan.output.format, ReadRequest(options=plan.output.options))
    found = engine.summarise(shuffled, types)
    return shuffled.with_columns_of(partial(types.read_back, found=found))


def without_hidden(log: EventLog, plan: Plan) -> EventLog:
    """Nothing but the columns that the plan releases: what only the steps and the checks needed
    goes.
    """
    hidden = [TIMESTAMP] if TIMESTAMPS not in plan.released else []
    unit = plan.facts.unit.attribute
    if unit in log.cases.columns and unit != CASE_ID and not plan.releases(unit):
        hidden.append(unit)
    hidden += [name for name in measured_attributes(plan) if not plan.releases(name)]
    hidden += plan.employees
    events = without(log.events, *hidden)
    cases = without(log.cases, *hidden)
    return replace(
        log,
        events=events,
        cases=cases,
        inserted=None,
    )


def _verdict(
    claim: Claim,
    log: LogHandle,
    plan: Plan,
) -> Verdict:
    """Measure what can be measured; a guarantee that fails stops the release."""
    raw = any(step.lineage.fills and TIMESTAMPS in step.lineage.writes for step in plan.steps)
    # Values that are drawn for every event, inserted or not, give no inserted one away.
    given = [step.lineage.writes for step in plan.steps if step.lineage.is_given_flow]
    drawn = frozenset[str]().union(*given) - {*claim.guarantee.over}
    # Neither does what another claim counts by, and nobody sees.
    unseen = (drawn - {TIMESTAMPS}) | (plan.employees - {claim.guarantee.employees})
    log = log.with_columns_of(lambda batch: replace(batch, events=without(batch.events, *unseen)))
    check = claim.guarantee.check(plan.facts.unit, raw_times=raw)
    if check is None:
        return Verdict(
            claim,
            holds=True,
            observed="derived from lineage and privacy events; nothing to measure on one release",
        )
    found = check.measured_on(log)
    if not found.holds:
        raise GuaranteeBroken(claim.sentence, found.seen)
    return Verdict(claim, holds=True, observed=found.seen)


_IN_MEMORY: Final = MemoryEngine()


def measure(
    policy: Policy,
    log: object,
    ledger: Ledger,
    *,
    noise: Noise | None = None,
    window: str | None = None,
    require: Require | None = None,
) -> Profile:
    """The DP profile of ``log`` that ``policy`` buys; its share is charged to ``ledger`` before the
    log is looked at. ``log``: an event log, or rows that are worked on in batches. ``window``: of a
    growing log, the one whose cases are measured.
    ``require``: as for ``execute``.

    Raises PlanImpossible where the policy buys none, or its delta is too large, BudgetExceeded and
    LedgerError as ``execute`` does, and LedgerError for a ``noise`` source with a fixed seed.
    """
    noise = noise or secret()
    params = require_profile_params(policy)
    # The same preparation as of a release, as far as the profile looks.
    facts = facts_in_window(policy, policy.facts(), window)
    unit = facts.unit
    needs = {CASE_ID, unit.attribute}.__contains__

    def prepare(batch: EventLog) -> EventLog:
        batch = in_window(with_one_unit_a_case(batch, unit), policy, facts)
        events = under_standard_names(batch, policy, needs)
        return in_time_order(batch, events, policy, needs, unit)

    engine = _IN_MEMORY if isinstance(log, EventLog) else local_engine()
    prepared = engine.open(log, prepare, unit.attribute, SourceFigures()).log
    request = ReservationRequest(
        dataset=policy.metadata.dataset,
        policy=policy.metadata.name,
        version=policy.metadata.version,
        policy_digest=digest(policy),
        charges=(unit_charge(Cost(epsilon=params.epsilon, delta=params.delta), facts),),
        terms=ledger_terms(policy, window),
        note="DP profile: noisy figures of the log, for planning",
        makes="profile",
        private=noise.private,
        require=require,
        sample=case_id_sample(prepared, engine, ledger) if noise.private else None,
    )
    reservation = ledger.reserve(request)
    with recording_failure(reservation):
        # Bounded as a release bounds it: the parameters charge for that.
        own, _ = own_cases(prepared, facts, reservation, engine)
        cut = BoundContributions().rewrite(
            BoundParams.of(facts),
            Decision(pl.DataFrame()),
            noise.stream(),
        )
        figures = figures_of(params, engine.rewrite(own, cut), noise, engine)
    reservation.commit()
    return Profile(
        engine=version_of("cloakwork"),
        dataset=policy.metadata.dataset,
        window=window,
        release=reservation.id,
        ledger_entry=reservation.digest,
        params=params,
        figures=figures,
    )


def figures_of(
    params: ProfileParams,
    log: LogHandle,
    noise: Noise,
    engine: Engine = _IN_MEMORY,
) -> ProfileFigures:
    """The noisy figures of ``log``, which has been bounded, by a kernel that answers what the
    parameters charge for.
    """
    measured = measured_of(engine.summarise(log, VariantCounts()), noise)
    kernel = Kernel(
        measured,
        Books.of(params.event()),
        noise,
        params.unit.max_cases,
    )
    return measure_profile(params, kernel)
