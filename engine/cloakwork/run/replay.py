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

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import DiscreteGaussian, PrivacyEvent
from cloakwork.base.errors import CloakworkError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_of
from cloakwork.base.progress import say
from cloakwork.engines.memory import MemoryEngine, in_memory
from cloakwork.kernel import Books, Descent, Kernel, NoisySums, Selected
from cloakwork.kernel import growth as growing
from cloakwork.kernel import kernel as asking
from cloakwork.kernel.books import answers_in, noise_in, part_moved
from cloakwork.kernel.growth import Growth, Level
from cloakwork.kernel.vectors import (
    ONE,
    Sums,
    added_up,
    answered,
    vectors_of,
)
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    TIMESTAMP,
    EventLog,
    LogHandle,
    joined_batches,
)
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.steps import EnrichStep, MeasureStep
from cloakwork.noise import Noise, reproducible
from cloakwork.plan.model import Plan
from cloakwork.run import steps as run_steps
from cloakwork.run.run import Run, StepRecord
from cloakwork.run.steps import GrantedStep

_ROUNDING: Final = 2.0
"""Grid steps by which a number of a gradient's sum may differ more: floats depend on how many cases
there are.
"""
_READINGS: Final = ("at", "at_labels")
_SEED: Final = 1

Key = tuple[int, tuple[str, ...]]
"""A number, and labels."""


class NotCovered(BaseException):
    """A step does on a neighbour what its charge does not cover; no mechanism may swallow it."""


class _AllAnswered(BaseException):
    """The last answer was read: what follows is made of answers alone."""


@frozen
class Question:
    """``said``: what is asked, and by which parameters; ``sums``: the exact ones behind the answer,
    None where there are none; ``charged``: by what, None where it is free; ``is_compared``: whether
    a replay compares the sums, which it does not where they are sampled.
    """

    said: tuple[object, ...]
    answer: Any
    sums: Sums | None
    charged: PrivacyEvent | None
    is_compared: bool = True


FindSums = Callable[[], Sums]
AskAnew = Callable[[], Any]
Heed = Callable[[int, FindSums | None, AskAnew | None], None]
"""Of the question at a place: what finds the exact sums behind it, and what asks it anew, both of
the log of the replay; None where there is none.
"""


@dataclass(slots=True)
class Script:
    """A step's questions in their order. ``place``: how many were asked in a replay, None while the
    step is recorded. ``heed``: what is done with those of a replay; where it is None they are
    judged, and ``used`` is the largest part of a charge by which sums moved.
    """

    questions: list[Question] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    place: int | None = None
    heed: Heed | None = None
    used: float = 0.0

    def ask(
        self,
        said: tuple[object, ...],
        answer: Callable[[], Any],
        sums: FindSums | None = None,
        charged: Callable[[], PrivacyEvent] | None = None,
        again: AskAnew | None = None,
        *,
        is_compared: bool = True,
    ) -> Any:
        """The answer: a new one while the step is recorded, else the recorded one. ``sums``: finds
        the exact ones behind it. ``again``: asks the log of this run, as often as it is called.
        """
        if self.place is None:
            found, exact = answer(), None if sums is None else sums()
            cost = charged and charged()
            self.questions.append(Question(said, found, exact, cost, is_compared))
            return found
        if self.place == len(self.questions):
            raise NotCovered(f"it asks once more: {_shown(said)}")
        asked = self.questions[self.place]
        if asked.said != said:
            raise NotCovered(f"it asks {_shown(said)} in place of {_shown(asked.said)}")
        if self.heed is not None:
            self.heed(self.place, sums, again)
        elif is_compared and sums is not None and asked.sums is not None and asked.charged:
            used = _part_used(asked.charged, asked.sums, sums(), said)
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

    def __init__(
        self,
        script: Script,
        real: Any,
        own: Kernel,
    ) -> None:
        super().__init__(script, real)
        self.own = own

    def __getattr__(self, name: str) -> Any:
        return partial(self._asked, name) if name in _QUESTIONS else super().__getattr__(name)

    @property
    def _own_measured(self) -> Any:
        # An audit looks inside.
        return self.own._Kernel__measured.whole()  # type: ignore[attr-defined]

    @property
    def _is_replaced(self) -> bool:
        return bool(self.own._Kernel__replaced)  # type: ignore[attr-defined]

    @property
    def randomness(self) -> _Watched:
        """What is drawn besides is the same for the same answers, so it is replayed, too."""
        return _Watched(self.script, self.real.randomness)

    def narrowed(self, *given: Any, **named: Any) -> "_WatchedKernel":
        """Whatever it is narrowed by has to follow from answers."""
        return _WatchedKernel(self.script, *self._both("narrowed", *given, **named))

    def branch(self, *given: Any) -> "_WatchedKernel":
        """The same log, by other books."""
        return _WatchedKernel(self.script, *self._both("branch", *given))

    def grow(self, delta: float = 0.0) -> "_WatchedGrowth":
        """Keys that grow level by level."""
        return _WatchedGrowth(self, *self._both("grow", delta))

    def _both(self, name: str, *given: Any, **named: Any) -> tuple[Any, Any]:
        """What a method gives that is no question: of the kernel that answers, and of the own."""
        real = super().__getattr__(name)(*given, **named)
        is_recorded = self.script.place is None
        return real, real if is_recorded else getattr(self.own, name)(*given, **named)

    def sum(self, *given: Any, **named: Any) -> _Watched:
        """Of noisy sums, each reading is a question."""
        return _Watched(self.script, self._asked("sum", *given, **named))

    def steps(
        self, gradient: Any, parameters: Floats, update: Any, descent: Any, *published: Any
    ) -> Floats:
        """Each step is a question; the sums of the first, second, fourth ... are compared, those of
        everybody.
        """
        told: list[tuple[Floats, Floats]] = []

        def heard(before: Floats, mean: Floats) -> Any:
            told.append((mean, update(before, mean)))
            return told[-1][1]

        is_recorded = self.script.place is None
        if is_recorded:
            self.real.steps(gradient, parameters, heard, descent, *published)
        cases, counts = self._own_measured.cases, self._own_measured.counts
        again = partial(self._first_step, gradient, parameters, replace(descent, times=1))
        moved = int(self.own._Kernel__max_cases)  # type: ignore[attr-defined]
        # The books have one entry for all steps: this is what one is charged by.
        event = descent.event(len(parameters), moved * (2 if self._is_replaced else 1))
        for step in range(descent.times):
            find = partial(_sums_of_step, descent, gradient, parameters, cases, counts, step)
            is_compared = (step + 1) & step == 0
            mean, after = self.script.ask(
                ("step", step, *map(_said, (descent, np.asarray(parameters), *published[1:]))),
                partial(told.__getitem__, step),
                find if is_compared else None,
                lambda: event,
                self._anew(again) if step == 0 else None,
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

        def find() -> Sums:
            query = by["query"]
            if name == "custom":
                return _numbered(query.compute(np.sort(measured.variant_counts)))
            vectors = vectors_of(measured.cases, query, clip, by.get("labels"))
            return vectors.sums(measured.counts)

        if name == "custom":
            said = (name, by["query"].name, by["query"].size, by["query"].sensitivity, *said[2:])
        real = partial(getattr(self.real, name), *given, **named)
        own = self._anew(partial(getattr(self.own, name), *given, **named))
        # Which entries of a case are drawn is not compared.
        compared = not clip.sampled
        return self.script.ask(said, real, find, self.last_charge, own, is_compared=compared)

    def _anew(self, ask: AskAnew) -> AskAnew:
        """What asks the kernel of this run, whose books are each time as they are now."""
        books: Books = self.own._Kernel__books  # type: ignore[attr-defined]
        slots, many = books.slots, len(books.recorded)

        def asked() -> Any:
            books.slots = slots
            del books.recorded[many:]
            self.own._Kernel__answers.clear()  # type: ignore[attr-defined]
            return ask()

        return asked

    def _first_step(
        self,
        gradient: Any,
        parameters: Floats,
        descent: Descent,
    ) -> Floats:
        """The noisy sum of a descent of a step, in grid steps."""
        found: list[Floats] = []

        def heard(before: Floats, mean: Floats) -> Floats:
            found.append(mean * (descent.denominator / descent.grid))
            return before

        self.own.steps(gradient, parameters, heard, descent)
        return found[0]

    def last_charge(self) -> PrivacyEvent:
        """What the books hold last."""
        found: PrivacyEvent = self.real._Kernel__books.recorded[-1]
        return found


def _numbered(numbers: Ints) -> Sums:
    return Sums(np.arange(len(numbers)), np.asarray(numbers, np.int64))


def _sums_of_step(descent: Descent, *given: Any) -> Sums:
    return _numbered(descent.summed(*given))


class _WatchedGrowth(_Watched):
    """Keys that grow. ``growth``: those of the log of this run."""

    def __init__(
        self,
        kernel: _WatchedKernel,
        real: Growth,
        growth: Growth,
    ) -> None:
        super().__init__(kernel.script, real)
        self.kernel, self.growth = kernel, growth

    def declared(self, query: Any, *given: Any, **named: Any) -> Any:
        """A question, whose own answer on a neighbour is not used."""
        grow = partial(self.growth.declared, query, *given, **named)

        def again() -> Any:
            self.growth._latest = None
            return grow()

        anew = self.kernel._anew(again)
        if self.growth is not self.real:
            grow()

        def find() -> Sums:
            keys, own = self.growth._latest  # type: ignore[misc]  # a level was told just now
            counted = (own >= 0) & (own <= keys.max(initial=-1))
            total = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
            np.add.at(total, own[counted], self.growth._counts[counted])
            return _numbered(total[keys])

        said = ("declared", *map(_said, given), *map(_said, named.items()))
        return self.script.ask(said, grow, find, self.kernel.last_charge, anew)

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
        if script.place is None:
            script.kernels.append(kernel)
        return _WatchedKernel(script, script.kernels[0], kernel)

    with patch.object(run_steps, "Kernel", made):
        yield


@frozen
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

    @property
    def compared(self) -> int:
        """Of how many of these a replay compares the sums: of none that are sampled, and of a
        descent those of some steps.
        """
        return sum(
            each.charged is not None and each.sums is not None and each.is_compared
            for each in self.script.questions
        )

    def replayed_on(
        self, neighbour: EventLog, heed: Heed | None = None, noise: Noise | None = None
    ) -> float:
        """Take the step on a neighbour of ``log``: which part of its charge was used, at most 1.

        ``heed``: what is done with its questions, which are not judged then. Raises NotCovered
        where the charge does not cover what it does.
        """
        again = Script(self.script.questions, self.script.kernels, 0, heed)
        with suppress(_AllAnswered), _watched(again):
            self._take(neighbour, noise)
            raise NotCovered(f"it asks {again.place} of {len(again.questions)} questions")
        return again.used

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

    def changed(table: pl.DataFrame, rows: Ints) -> pl.DataFrame:
        return table.with_columns(
            _odd(values_of(table, name), rows, draws).alias(name)
            for name in table.columns
            if name not in (CASE_ID, ACTIVITY, TIMESTAMP)
        )

    return replace(log, events=changed(events, rows), cases=changed(log.cases, cases))


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


# --- canaries: how well answers tell a log with a case from the log without it
#
# What is private are a kernel's noisy answers. So a step is recorded on a log, with a canary and
# without, and then the kernel of either log is asked the recorded questions thousands of times. By
# the likelihood ratio of all its answers nobody could tell the two logs better.


@frozen
class CanaryScores:
    """``with_it``, ``without``: the log of the likelihood ratio of all answers to a log with a
    canary, and to one without it: float64, a number for each time that they were asked. ``canary``:
    what it is. ``copies``: how many such cases are in the one log and not in the other.
    """

    with_it: Floats
    without: Floats
    canary: str
    copies: int


def canary_scores(
    step: ReplayedStep,
    runs: int,
    noise: Noise,
    copies: int = 1,
) -> CanaryScores:
    """Of the canary that moves the recorded answers most, of those tried.

    Raises CloakworkError where no answer tells of any, and where what is asked depends on it.
    """
    name = step.step.name
    if step.step.kind.lineage.is_given_flow or step.step.unit.attribute is not None:
        raise CloakworkError(f"{name}: a canary is a case more, which its claim is not about")

    def told_by(log: EventLog) -> dict[int, _Told]:
        found = dict[int, _Told]()

        def heed(place: int, sums: FindSums | None, again: AskAnew | None) -> None:
            # Of a descent the first step alone is asked anew.
            if sums is not None and again is not None:
                told = _Told.of(step.script.questions[place], sums())
                if told is not None:
                    found[place] = told

        step.replayed_on(log, heed)
        return found

    def tried() -> Iterator[tuple[float, str, EventLog]]:
        for canary, case in _canaries(step.log):
            say(f"trying {canary} as a canary")
            with_it = replace(joined_batches([step.log, *[case] * copies]), case_index=None)
            moves = [each.move for each in told_by(with_it).values()]
            yield sum(float(move @ move) for move in moves), canary, with_it

    def asked_anew(log: EventLog) -> Floats:
        ratios = list[Floats]()

        def heed(place: int, _: object, again: AskAnew | None) -> None:
            if again is not None and place in told:
                ratios.append(told[place].ratio(_read_anew(again, told[place].keys, runs)))

        step.replayed_on(log, heed, noise)
        return np.asarray(np.sum(ratios, axis=0), np.float64)

    try:
        _, canary, with_it = max(tried(), key=lambda each: each[0])
        told = told_by(with_it)
        if not told:
            raise CloakworkError(f"{name}: no answer of a kernel tells of a case")
        say(f"{runs:,} answers to each of {len(told)} questions, with {canary} and without")
        return CanaryScores(asked_anew(with_it), asked_anew(step.log), canary, copies)
    except NotCovered as fault:
        raise CloakworkError(f"{name}: {fault} (see audit replay)") from fault


@frozen
class _Told:
    """What the answer to a question tells of a canary: at ``keys``, what is behind it without the
    canary (``without``), and by how much that moves (``move``); float64, in scales of the noise,
    which is ``scale`` grid steps.
    """

    keys: list[Key]
    without: Floats
    move: Floats
    scale: float
    is_gaussian: bool

    @classmethod
    def of(cls, question: Question, with_it: Sums) -> "_Told | None":
        """None where it tells nothing."""
        answer, without = question.answer, question.sums
        # None of samples.
        leaf = None if question.charged is None else noise_in(question.charged)
        if without is None or leaf is None:
            return None
        scale = leaf.sigma if isinstance(leaf, DiscreteGaussian) else leaf.scale
        # Of both at all keys that one of them has.
        both = [
            added_up([one, Sums(other.keys, 0 * other.sums)])
            for one, other in ((without, with_it), (with_it, without))
        ]
        before, after = (each.sums / scale for each in both)
        is_told = before != after
        if isinstance(answer, Selected):
            # About what the threshold is. A key that is new may be told with a delta, which for
            # several units is larger: it is left out.
            is_told &= before > max(0.0, min(answer.noisy, default=math.inf) / scale - 1)
        rows = np.flatnonzero(is_told)
        codes, labels = both[0].at_rows(rows)
        keys = list(zip(codes.tolist(), labels, strict=True))
        if isinstance(answer, NoisySums):
            # Those that the step did read.
            read = set(zip(answer.read.codes.tolist(), answer.read.labels, strict=True))
            kept = [place for place, key in enumerate(keys) if key in read]
            keys, rows = [keys[place] for place in kept], rows[kept]
        if not keys:
            return None
        moved = (after - before)[rows]
        return cls(keys, before[rows], moved, scale, isinstance(leaf, DiscreteGaussian))

    def ratio(self, noisy: Floats) -> Floats:
        """The log of how much likelier numbers are with the canary; float64, one for each row."""
        # A key that is not told counts as 0, below all that are.
        apart, move = np.nan_to_num(noisy) / self.scale - self.without, self.move
        if self.is_gaussian:
            found = apart @ move - move @ move / 2
        else:
            found = (np.abs(apart) - np.abs(apart - move)).sum(axis=-1)
        return np.asarray(found, np.float64)


def _canaries(log: EventLog) -> Iterator[tuple[str, EventLog]]:
    """Cases that may move answers far, each with a name."""
    variants = variants_of(log)
    often = np.argsort(-variants.counts, kind="stable")
    longest = int(np.diff(log.offsets).max(initial=1))
    # More of the frequent ones than of the others.
    ranks = np.unique(np.geomspace(1, len(often), 24).astype(np.int64)) - 1
    chosen = [*often[ranks].tolist(), int(np.argmax(np.diff(variants.offsets)))]
    first = np.unique(variants.of_case, return_index=True)[1]
    for place, variant in enumerate(dict.fromkeys(chosen)):
        case = log.keep_cases(first[[variant]])
        yield f"a case of a variant of {variants.counts[variant]:,} cases", case
        for pause in (0, _PAUSE) if place < 3 else ():
            yield f"an invented case of {longest} events alike", _alike(case, longest, pause)


_PAUSE: Final = 3_600_000_000
"""Microseconds between two events of an invented case."""


def _alike(case: EventLog, events: int, pause: int) -> EventLog:
    """The first event of ``case``, so often, with a ``pause`` between two."""
    rows = case.events[np.zeros(events, np.int64)]
    if TIMESTAMP in rows.columns:
        times = values_of(rows, TIMESTAMP)
        later = times.cast(pl.Int64) + pause * np.arange(events)
        rows = rows.with_columns(later.cast(times.dtype).alias(TIMESTAMP))
    return replace(case, events=rows, offsets=np.array([0, events]), inserted=None)


def _read_anew(again: AskAnew, keys: list[Key], times: int) -> Floats:
    """The noisy numbers at ``keys`` of so many new answers; NaN where a key is not told.

    What a question finds in the same cases is found once, as it is always the same; noise is
    always new.
    """
    with (
        patch.object(asking, "vectors_of", _remembering(vectors_of, 0)),
        patch.object(growing, "answered", _remembering(answered, 0)),
        patch.object(Descent, "summed", _remembering(Descent.summed, 1)),
    ):
        return np.array([_numbers(again(), keys) for _ in range(times)], np.float64)


def _numbers(answer: Any, keys: list[Key]) -> Any:
    codes = np.array([code for code, _ in keys])
    if isinstance(answer, Selected):
        keys_told = zip(answer.codes.tolist(), answer.labels, strict=True)
        told = dict(zip(keys_told, answer.noisy.tolist(), strict=True))
        return [told.get(key, math.nan) for key in keys]
    if isinstance(answer, NoisySums):
        return answer.at_labels(keys) if keys[0][1] else answer.at(codes)
    return (answer.noisy if isinstance(answer, Level) else answer)[codes]


def _remembering(find: Callable[..., Any], by: int) -> Callable[..., Any]:
    """``find``, which remembers the last it found. ``by``: which argument has to be the same."""
    last: list[Any] = [None, None]

    def found(*given: Any) -> Any:
        if last[0] is not given[by]:
            last[:] = given[by], find(*given)
        return last[1]

    return found
