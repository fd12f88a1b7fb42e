"""Replay: whether what a step asks of a log follows from its answers alone.

A step is recorded: each question that its kernel is asked, with all that it is asked by, the exact
sums behind the answer, and the answer. Then it is repeated on neighbouring logs, and gets the
recorded answers: a neighbour gives them with nearly the same probability, whatever they are. So the
next question must be the same one, to the last bit, and the sums behind it must differ by no more
than what it was charged for. Otherwise something else than an answer tells of the log, or an answer
tells more than it costs (``privacy.md`` 9).

Questions are compared by their parameters and by what they find, not by the code of a query. Sums
that are sampled are random, and are not compared.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import DiscreteGaussian, PrivacyEvent
from cloakwork.base.errors import CloakworkError
from cloakwork.base.naming import values_of
from cloakwork.base.progress import say
from cloakwork.engines.memory import MemoryEngine, in_memory
from cloakwork.kernel import Descent, Kernel, NoisySums, Selected
from cloakwork.kernel.books import answers_in, noise_in, part_moved
from cloakwork.kernel.gradients import CASES_AT_ONCE
from cloakwork.kernel.growth import Growth, Level
from cloakwork.kernel.vectors import ONE, Sums, added_up, key_of, vectors_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.steps import EnrichStep, MeasureStep
from cloakwork.noise import Noise, reproducible
from cloakwork.plan.model import Plan
from cloakwork.run import steps as run_steps
from cloakwork.run.release import StepRecord
from cloakwork.run.run import Run
from cloakwork.run.steps import GrantedStep

_ROUNDING: Final = 2.0
"""Grid steps by which a number of a gradient's sum may differ more: floats depend on how many cases
there are.
"""
_READINGS: Final = ("at", "at_labels")
_SEED: Final = 1


class NotCovered(BaseException):
    """A step does on a neighbour what its charge does not cover; no mechanism may swallow it."""


class _AllAnswered(BaseException):
    """The last answer was read: what follows is made of answers alone."""


@dataclass(frozen=True, slots=True)
class Summing:
    """What is behind a question: ``find`` gives what adds it up for so many of each case.
    ``counts``: how many there are; ``rows``: of each case, where it stands among those of the step.
    """

    find: Callable[[], Callable[[Ints], Sums]]
    counts: Ints
    rows: Ints

    def of_all(self) -> Sums:
        """Of all cases."""
        return self.find()(self.counts)

    def of_each(self) -> dict[int, Sums]:
        """Of each case by itself."""
        add = self.find()
        each = np.eye(len(self.rows), dtype=np.int64)
        return {row: add(one) for row, one in zip(self.rows.tolist(), each, strict=True)}


@dataclass(frozen=True, slots=True)
class Question:
    """``said``: what is asked, and by which parameters; ``sums``: the exact ones behind the answer,
    None where they are not compared; ``charged``: by what, None where it is free.
    """

    said: tuple[object, ...]
    answer: Any
    sums: Sums | None
    charged: PrivacyEvent | None


@dataclass(slots=True)
class Script:
    """A step's questions in their order. ``place``: how many were asked in a replay, None while the
    step is recorded. ``used``: the largest part of a charge by which sums of the replay moved.
    ``heard``: what each case has in each question, by its row, where that is noted and not
    judged.
    """

    questions: list[Question] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    place: int | None = None
    used: float = 0.0
    heard: list[dict[int, Sums]] | None = None

    def ask(
        self,
        said: tuple[object, ...],
        answer: Callable[[], Any],
        sums: Summing | None = None,
        charged: Callable[[], PrivacyEvent] | None = None,
    ) -> Any:
        """The answer: a new one while the step is recorded, else the recorded one."""
        if self.place is None:
            found, exact = answer(), None if sums is None else sums.of_all()
            self.questions.append(Question(said, found, exact, charged and charged()))
            return found
        if self.place == len(self.questions):
            raise NotCovered(f"it asks once more: {_shown(said)}")
        asked = self.questions[self.place]
        if asked.said != said:
            raise NotCovered(f"it asks {_shown(said)} in place of {_shown(asked.said)}")
        if self.heard is not None:
            self.heard.append({} if sums is None else sums.of_each())
        elif sums is not None and asked.sums is not None and asked.charged is not None:
            used = _part_used(asked.charged, asked.sums, sums.of_all(), said)
            self.used = max(self.used, used)
        self.place += 1
        # Which keys of a sum are read is compared as well.
        left = self.questions[self.place :]
        if not any(each.charged or each.said[0] in _READINGS for each in left):
            raise _AllAnswered
        return asked.answer


def _shown(said: tuple[object, ...]) -> str:
    return " ".join(str(each)[:80] for each in said)


def _part_used(
    charged: PrivacyEvent, recorded: Sums, found: Sums, said: tuple[object, ...]
) -> float:
    """How far the sums differ, of what the event allows; raises NotCovered where it is more."""
    moved = np.abs(added_up([recorded, Sums(found.keys, -found.sums)]).sums).astype(np.float64)
    if said[0] == "step":
        moved = np.maximum(moved - _ROUNDING, 0)
    part = part_moved(charged, moved)
    # The last bits of a root are not exact.
    if part > 1 + 1e-12:
        raise NotCovered(f"{_shown(said)}: moved by {100 * part:.0f} % of what is charged")
    return part


def _said(value: object) -> object:
    """A value as it can be compared: arrays by type, shape and bytes."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return repr(value)


class _Watched:
    """Stands in for ``real``; each call of a method is a question without a charge."""

    def __init__(self, script: Script, real: Any) -> None:
        self.script, self.real = script, real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if not callable(found):
            return found

        def asked(*given: Any, **named: Any) -> Any:
            said = (name, *map(_said, given), *map(_said, named.items()))
            return self.script.ask(said, partial(found, *given, **named))

        return asked


_QUESTIONS: Final = ("select", "sample_sums", "custom")


class _WatchedKernel(_Watched):
    """Stands in for the kernel of a step. ``own``: that of the log of this run; ``real``: that
    which gives, or gave, the answers.
    """

    def __init__(self, script: Script, real: Any, own: Kernel, rows: Ints | None = None) -> None:
        super().__init__(script, real)
        self.own = own
        self.rows = np.arange(len(self._own_measured.counts)) if rows is None else rows

    def __getattr__(self, name: str) -> Any:
        return partial(self._asked, name) if name in _QUESTIONS else super().__getattr__(name)

    @property
    def _own_measured(self) -> Any:
        return self.own._Kernel__measured  # type: ignore[attr-defined]  # an audit looks inside

    @property
    def _is_replaced(self) -> bool:
        return bool(self.own._Kernel__replaced)  # type: ignore[attr-defined]

    @property
    def randomness(self) -> _Watched:
        """What is drawn besides is the same for the same answers, so it is replayed, too."""
        return _Watched(self.script, self.real.randomness)

    def narrowed(self, *given: Any, **named: Any) -> "_WatchedKernel":
        """Whatever it is narrowed by has to follow from answers."""
        real = super().__getattr__("narrowed")(*given, **named)
        own = real if self.script.place is None else self.own.narrowed(*given, **named)
        told = signature(Kernel.narrowed).bind(None, *given, **named).arguments.get("without", ())
        left = self._own_measured.cases.among(told) < 0
        return _WatchedKernel(self.script, real, own, self.rows[left])

    def branch(self, *given: Any) -> "_WatchedKernel":
        """The same log, by other books."""
        real = super().__getattr__("branch")(*given)
        own = real if self.script.place is None else self.own
        return _WatchedKernel(self.script, real, own, self.rows)

    def grow(self, delta: float = 0.0) -> "_WatchedGrowth":
        """Keys that grow level by level."""
        real = super().__getattr__("grow")(delta)
        growth = real if self.script.place is None else self.own.grow(delta)
        return _WatchedGrowth(self, real, growth)

    def sum(self, *given: Any, **named: Any) -> _Watched:
        """Of noisy sums, each reading is a question."""
        return _Watched(self.script, self._asked("sum", *given, **named))

    def steps(
        self, gradient: Any, parameters: Floats, update: Any, descent: Any, *published: Any
    ) -> Floats:
        """Each step is a question; the sums of the first, second, fourth ... are compared, those of
        everybody.
        """
        told: list[tuple[Floats, Floats, Floats]] = []

        def heard(before: Floats, mean: Floats) -> Any:
            steps = mean * (descent.denominator / descent.grid)
            told.append((mean, update(before, mean), steps))
            return told[-1][1]

        is_recorded = self.script.place is None
        if is_recorded:
            self.real.steps(gradient, parameters, heard, descent, *published)
        cases, counts = self._own_measured.cases, self._own_measured.counts
        moved = int(self.own._Kernel__max_cases)  # type: ignore[attr-defined]
        # The books have one entry for all steps: this is what one is charged by.
        event = descent.event(len(parameters), moved * (2 if self._is_replaced else 1))
        for step in range(descent.times):
            find = partial(_adding_steps, descent, gradient, parameters, cases, step)
            is_compared = (step + 1) & step == 0
            mean, after, _ = self.script.ask(
                ("step", step, *map(_said, (descent, np.asarray(parameters), *published[1:]))),
                partial(told.__getitem__, step),
                Summing(find, counts, self.rows) if is_compared else None,
                lambda: event,
            )
            # An update may remember the one before: it is asked once a step.
            parameters = after if is_recorded else update(parameters, mean)
        return parameters

    def raw(self) -> Any:
        """No answer protects what is read so."""
        raise NotCovered("it looks at the raw log, and claims nothing")

    def _asked(self, name: str, *given: Any, **named: Any) -> Any:
        bound = signature(getattr(Kernel, name)).bind(None, *given, **named)
        bound.apply_defaults()
        by, measured = bound.arguments, self._own_measured
        # Queries are compared by what they find.
        said = (name, *(_said(value) for key, value in by.items() if key not in ("query", "table")))
        clip = by.get("clip", ONE)
        clip = replace(clip, replaced=self._is_replaced)

        def find() -> Callable[[Ints], Sums]:
            query = by["query"]
            if name == "custom":
                return lambda counts: _numbered(query.compute(np.sort(counts[counts > 0])))
            return vectors_of(measured.cases, query, clip, by.get("labels")).sums

        if name == "custom":
            said = (name, by["query"].name, by["query"].size, by["query"].sensitivity, *said[2:])
        ask = partial(getattr(self.real, name), *given, **named)
        sums = Summing(find, measured.counts, self.rows)
        return self.script.ask(said, ask, None if clip.sampled else sums, self.last_charge)

    def last_charge(self) -> PrivacyEvent:
        """What the books hold last."""
        books = self.real._Kernel__books
        found: PrivacyEvent = books.recorded[-1]
        return found


def _numbered(numbers: Ints) -> Sums:
    return Sums(np.arange(len(numbers)), np.asarray(numbers, np.int64))


def _adding_steps(
    descent: Descent, gradient: Any, parameters: Floats, cases: Any, step: int
) -> Callable[[Ints], Sums]:
    """All gradients of a step are found once, in batches as the kernel's."""
    if len(cases) > CASES_AT_ONCE:
        return lambda counts: _numbered(descent.summed(gradient, parameters, cases, counts, step))
    moves = descent.clipped(gradient, parameters, cases, step)
    return lambda counts: _numbered(moves.summed(counts))


class _WatchedGrowth(_Watched):
    """Keys that grow. ``growth``: those of the log of this run."""

    def __init__(self, kernel: _WatchedKernel, real: Growth, growth: Growth) -> None:
        super().__init__(kernel.script, real)
        self.kernel, self.growth = kernel, growth

    def declared(self, query: Any, *given: Any, **named: Any) -> Any:
        """A question, whose own answer on a neighbour is not used."""
        grow = partial(self.growth.declared, query, *given, **named)
        if self.growth is not self.real:
            grow()

        def find() -> Callable[[Ints], Sums]:
            keys, own = self.growth._latest  # type: ignore[misc]  # a level was told just now
            counted = (own >= 0) & (own <= keys.max(initial=-1))

            def add(counts: Ints) -> Sums:
                total = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
                np.add.at(total, own[counted], counts[counted])
                return _numbered(total[keys])

            return add

        said = ("declared", *map(_said, given), *map(_said, named.items()))
        sums = Summing(find, self.growth._counts, self.kernel.rows)
        return self.script.ask(said, grow, sums, self.kernel.last_charge)

    def occurring(self, *given: Any, **named: Any) -> Any:
        """Keys that occur are numbered log by log: from here on nothing is compared."""
        if self.growth is not self.real:
            raise _AllAnswered
        return super().__getattr__("occurring")(*given, **named)

    def keep(self, rows: Ints) -> None:
        """Cases of other keys are followed no further."""
        super().__getattr__("keep")(rows)
        if self.growth is not self.real:
            self.growth.keep(rows)


@contextmanager
def _watched(script: Script) -> Iterator[None]:
    """The kernel of a step is watched inside the block."""

    def made(*given: Any, **named: Any) -> _WatchedKernel:
        kernel = Kernel(*given, **named)
        if script.place is None or script.heard is not None:
            script.kernels.append(kernel)
        return _WatchedKernel(script, script.kernels[0], kernel)

    with patch.object(run_steps, "Kernel", made):
        yield


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A step that asks a kernel: what it was granted of ``log``, and the cases that it added
    columns to, ``released``; None where it made cases.
    """

    step: GrantedStep
    log: EventLog
    released: LogHandle | None
    script: Script = field(default_factory=Script)

    def record(self, noise: Noise | None = None) -> None:
        """Take the step, and keep what it asks.

        Raises NotCovered where it is answered more than its plan lists.
        """
        with _watched(self.script):
            self._take(self.log, noise)
        answered_to = answers_in(self.script.kernels[0].recorded)
        if answered_to > (listed := answers_in(self.step.kind.event)):
            raise NotCovered(f"it has {answered_to:,} answers, and is charged for {listed:,}")

    @property
    def charged(self) -> int:
        """How many questions were charged."""
        return sum(each.charged is not None for each in self.script.questions)

    def replayed_on(self, neighbour: EventLog) -> float:
        """Take the step on a neighbour of ``log``: which part of its charge was used, at most 1.

        Raises NotCovered where the charge does not cover what it does.
        """
        again = Script(self.script.questions, self.script.kernels, 0)
        try:
            with _watched(again):
                self._take(neighbour)
        except _AllAnswered:
            return again.used
        raise NotCovered(f"it asks {again.place} of {len(again.questions)} questions")

    def sums_of(self, cases: EventLog) -> list[dict[int, Sums]]:
        """What each of other ``cases``, of variants that are all distinct, has in each question,
        the answers as recorded; by the place of its variant among the sorted ones.
        """
        heard: list[dict[int, Sums]] = []
        again = Script(self.script.questions, [*self.script.kernels], 0, heard=heard)
        with suppress(_AllAnswered), _watched(again):
            self._take(cases)
        seen = again.kernels[-1]._Kernel__measured.cases.variants()  # type: ignore[attr-defined]
        place = {row: at for at, row in enumerate(sorted(range(len(seen)), key=seen.__getitem__))}
        return [{place[row]: sums for row, sums in each.items()} for each in heard]

    def _take(self, log: EventLog, noise: Noise | None = None) -> None:
        noise = noise or reproducible(_SEED)
        seen = self.step.look(log, MemoryEngine(), noise)
        self.step.take(seen, noise, released=self.released)

    def neighbours(self, number: int, seed: int) -> Iterator[tuple[str, EventLog]]:
        """Random neighbours of ``log``, each with what was done: a unit taken out, or put in with
        odd labels, times and values; where the control flow is known, its times and values replaced
        by odd ones.
        """
        log, unit = self.log, self.step.unit.attribute
        draws = np.random.default_rng(seed)
        owner = None if unit is None else log.text_of(unit)
        for each in range(number if log.case_count else 0):
            case = int(draws.integers(log.case_count))
            own = np.array([case])
            if owner is not None:
                own = np.flatnonzero((owner == owner[case]).fill_null(value=False).to_numpy())
            others = np.setdiff1d(np.arange(log.case_count), own)
            if self.step.kind.lineage.is_given_flow:
                yield f"other values of case {case}", _with_odd_values(log, own, draws)
            elif each % 2 and len(others):
                yield f"without case {case}", log.keep_cases(others)
            else:
                yield f"with one more like case {case}", _with_one_more(log, case, unit, draws)


@dataclass(frozen=True)
class _NotedRun(Run):
    noted: list[ReplayedStep] = field(default_factory=list)

    def take_step(
        self, step: GrantedStep, log: LogHandle, released: LogHandle | None = None
    ) -> tuple[LogHandle, StepRecord]:
        if isinstance(step.kind, MeasureStep | EnrichStep):
            self.noted.append(ReplayedStep(step, in_memory(log), released))
        return super().take_step(step, log, released)


def replayed_steps(plan: Plan, log: EventLog, mechanism: str) -> list[ReplayedStep]:
    """The steps by ``mechanism`` of a trial of ``plan`` on ``log``, recorded.

    Raises CloakworkError where it takes none that asks a kernel.
    """
    noted = _NotedRun(plan=plan, noise=reproducible(_SEED))
    noted.trial(log)
    found = [each for each in noted.noted if each.step.name == mechanism]
    if not found:
        raise CloakworkError(f"{mechanism}: asks nothing of this log that can be replayed")
    for each in found:
        each.record()
    return found


def _with_one_more(
    log: EventLog, case: int, unit: str | None, draws: np.random.Generator
) -> EventLog:
    """Somebody new, with the events of ``case`` under other labels, and odd values."""
    last = np.array([log.case_count])
    log = log.keep_cases(np.append(np.arange(log.case_count), case))
    names = {CASE_ID, unit or CASE_ID}
    fresh = [
        values_of(log.cases, name).cast(pl.String).scatter(last, "somebody new").alias(name)
        for name in names
    ]
    log = replace(log, cases=log.cases.with_columns(fresh))
    rows = np.flatnonzero(np.isin(log.case_of, last))
    labels = _odd(log.activities.cast(pl.String), rows, draws)
    events = log.events.with_columns(labels.alias(ACTIVITY))
    return _with_odd_values(replace(log, events=events), last, draws)


def _with_odd_values(log: EventLog, cases: Ints, draws: np.random.Generator) -> EventLog:
    """The times of ``cases`` moved and stretched, in order as before, and other values."""
    rows = np.flatnonzero(np.isin(log.case_of, cases))
    events = log.events
    if TIMESTAMP in events.columns:
        times = log.microseconds.fill_null(0).to_numpy().copy()
        begins = times[log.offsets[log.case_of[rows]]]
        factor, later = draws.choice([0.0, 0.5, 2.0, 1000.0]), draws.integers(-(10**13), 10**13)
        times[rows] = begins + (factor * (times[rows] - begins)).astype(np.int64) + later
        moved = pl.Series(TIMESTAMP, times).cast(events[TIMESTAMP].dtype)
        events = events.with_columns(
            pl.when(pl.col(TIMESTAMP).is_not_null()).then(moved).alias(TIMESTAMP)
        )
    kept = (CASE_ID, ACTIVITY, TIMESTAMP)
    return replace(
        log,
        events=events.with_columns(
            _odd(values_of(events, name), rows, draws).alias(name)
            for name in events.columns
            if name not in kept
        ),
        cases=log.cases.with_columns(
            _odd(values_of(log.cases, name), cases, draws).alias(name)
            for name in log.cases.columns
            if name not in kept
        ),
    )


def _odd(column: pl.Series, rows: Ints, draws: np.random.Generator) -> pl.Series:
    """A column with the values of other rows at ``rows``; some of them missing, or odd."""
    places = np.arange(len(column))
    places[rows] = draws.integers(len(column), size=len(rows))
    some = rows[draws.random(len(rows)) < 1 / 3]
    odd: list[Any] = [None] * len(some)
    if column.dtype.is_float():
        odd = draws.choice([math.nan, -0.0, math.inf, -1e300, 5e-324], len(some)).tolist()
    elif column.dtype == pl.String:
        odd = ["of nobody else"] * len(some)
    return column[places].scatter(some, odd)


# --- canaries: how well answers tell cases that are in a log from cases that were left out of it
#
# Whoever knows the log but for a canary, and what a step asks, tells best by the likelihood ratio
# of the answers: with the canary, and without. Noisy tables are published, so these are what
# somebody has. One run tells of all canaries (Steinke, Nasr and Jagielski 2023, "Privacy auditing
# with one (1) training run").


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """``scores``: the log of each canary's likelihood ratio, float64, shape (runs, canaries);
    ``member``: whether it was in the log, bool, of the same shape. ``is_gaussian``: whether all
    noise that they come from is. ``event``: what the step is charged for.
    """

    scores: Floats
    member: Bools
    is_gaussian: bool
    event: PrivacyEvent


def canary_scores(step: ReplayedStep, canaries: int, runs: int, noise: Noise) -> CanaryScores:
    """Of so many cases of the step's log, each in half of the runs; the others are in all of them.

    Raises CloakworkError where no answer is a noisy sum over all cases.
    """
    log, owner = step.log, step.step.unit.attribute
    if owner is not None:
        raise CloakworkError("canaries are single cases, and the unit is not the case")
    chosen = _telling(step, canaries)
    own = log.keep_cases(chosen)
    scores = np.zeros((runs, len(chosen)))
    member = np.zeros(scores.shape, np.bool_)
    kinds = set[bool]()
    for run in range(runs):
        say(f"run {run + 1:,} of {runs:,}")
        member[run] = noise.coins(0.5, len(chosen))
        kept = np.setdiff1d(np.arange(log.case_count), chosen[~member[run]])
        recorded = ReplayedStep(step.step, log.keep_cases(kept), step.released)
        recorded.record(noise)
        told = [_told_by(each) for each in recorded.script.questions]
        kinds |= {each.is_gaussian for each in told if each is not None}
        for answer, sums in zip(told, recorded.sums_of(own), strict=False):
            if answer is None:
                continue
            for place, each in sums.items():
                scores[run, place] += answer.ratio(each, is_in=bool(member[run, place]))
    if not kinds:
        raise CloakworkError(
            f"{step.step.name}: no noise on sums of all cases, so no canary is in it"
        )
    return CanaryScores(scores, member, kinds == {True}, step.step.kind.event)


def _telling(step: ReplayedStep, canaries: int) -> Ints:
    """Cases that move the recorded answers nearly as far as any, one of a variant, by variant."""
    variants = variants_of(step.log)
    labels = [variants.labels(each) for each in range(len(variants.counts))]
    # The most frequent first: what is rare may not be told at all.
    often = np.argsort(-variants.counts, kind="stable")[: 4 * canaries]
    tried = sorted(often.tolist(), key=labels.__getitem__)
    first = np.unique(variants.of_case, return_index=True)[1][tried]
    told = [_told_by(each) for each in step.script.questions]
    moved = np.zeros(len(tried))
    for answer, sums in zip(told, step.sums_of(step.log.keep_cases(first)), strict=False):
        if answer is None:
            continue
        for place, each in sums.items():
            moved[place] += float(((answer.at(each) / answer.scale) ** 2).sum())
    chosen: Ints = first[moved >= NEARLY * moved.max(initial=0.0)]
    return chosen[:canaries]


NEARLY: Final = 0.9
"""Of the largest square of a move: canaries below it would hide how well the others are told."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What an answer tells: ``noisy`` numbers, what is behind them (``exact``), and the noise's
    ``scale``, all in grid steps; ``at``: the same numbers of other sums.
    """

    noisy: Floats
    exact: Floats
    at: Callable[[Sums], Ints]
    scale: float
    is_gaussian: bool

    def ratio(self, own: Sums, *, is_in: bool) -> float:
        """The log of how much likelier the answer is with a case, whose sums are ``own``."""
        move = self.at(own).astype(np.float64)
        others = self.exact - move if is_in else self.exact
        apart = (self.noisy - others) / self.scale
        move /= self.scale
        if self.is_gaussian:
            return float(apart @ move - move @ move / 2)
        return float((np.abs(apart) - np.abs(apart - move)).sum())


def _told_by(question: Question) -> _Told | None:
    """None where it is no noisy sum."""
    if question.sums is None or question.charged is None:
        return None
    noise = noise_in(question.charged)
    if noise is None:
        return None
    is_gaussian = isinstance(noise, DiscreteGaussian)
    scale = noise.sigma if isinstance(noise, DiscreteGaussian) else noise.scale
    noisy, at = _numbers(question.answer)
    exact = at(question.sums)
    if np.shape(noisy) != exact.shape:
        return None
    return _Told(np.asarray(noisy, np.float64), exact.astype(np.float64), at, scale, is_gaussian)


def _numbers(answer: Any) -> tuple[Any, Callable[[Sums], Ints]]:
    """The noisy numbers of an answer, and what reads the same keys off other sums."""
    if isinstance(answer, NoisySums | Selected):
        told = answer.read if isinstance(answer, NoisySums) else answer
        if not any(told.labels):
            return told.noisy, lambda sums: sums.at(told.codes)
        keys = [key_of(*key) for key in zip(told.codes.tolist(), told.labels, strict=True)]
        return told.noisy, lambda sums: sums.at_spelled(keys)
    if isinstance(answer, Level):
        answer = answer.noisy
    # Of a gradient step the last part, in grid steps.
    noisy = answer[-1] if isinstance(answer, tuple) else answer
    return noisy, lambda sums: sums.at(np.arange(len(noisy)))
