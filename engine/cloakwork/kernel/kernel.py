"""What a mechanism holds that measures a log: a handle, and never data.

Each method asks one question, bounds what a case can change in the answer, enters the event in the
step's books, and only then draws the noise. What a mechanism cannot ask, it cannot leak.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
from pydantic import JsonValue

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Bools, Floats, Ints, begins_of, group_sums, owners_of
from cloakwork.base.costs import Cost, EpsilonDelta, NonPrivate, PoissonSampled, PrivacyEvent
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.exact import drawn_rate
from cloakwork.base.frozen import frozen
from cloakwork.kernel.books import Books, composed, repeated
from cloakwork.kernel.cases import ASKED_AGAIN, Cases, Query, Silently
from cloakwork.kernel.gradients import Descent, Gradient, Update
from cloakwork.kernel.growth import Growth
from cloakwork.kernel.noises import AnswerNoise, Gaussian, Laplace, require_known, selection_event
from cloakwork.kernel.vectors import (
    ONE,
    AskedTwice,
    Clip,
    Sums,
    added_up,
    key_of,
    parts_of,
    sampled_sums,
    vectors_of,
)
from cloakwork.noise import Noise

T = TypeVar("T")
Labels = tuple[str, ...]


@frozen
class Selected:
    """Keys that were selected, with their noisy sums (int64, grid steps), in the order of the keys:
    it says nothing of the log's.

    A key is a number (``codes``, int64) with ``labels``.
    """

    codes: Ints
    labels: tuple[Labels, ...]
    noisy: Ints


@dataclass(slots=True, repr=False)
class NoisySums:
    """A vector of sums, each with noise of its own, read key by key.

    Every key has noise, whether a case has it or not. It is drawn when the key is first read and
    stays, so reading a part, chosen in whatever way, tells no more than reading all.
    """

    _sums: Sums | Callable[[], Sums]
    _noise: AnswerNoise
    _source: Noise
    _keys: int | None = None
    _codes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _noisy: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _by_label: dict[bytes, int] = field(default_factory=dict)

    def __reduce__(self) -> NoReturn:
        """A copy would draw noise of its own."""
        raise PlanUnsound("a kernel's answer is not copied")

    def __copy__(self) -> "NoisySums":
        """The same answer."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "NoisySums":
        """The same answer."""
        return self

    def at(self, codes: Ints) -> Ints:
        """The noisy sums at keys that are numbers alone: int64, of the shape of ``codes``.

        Raises PlanUnsound for a number outside of the declared ones.
        """
        codes = np.asarray(codes, np.int64)
        if codes.size == 0:
            return np.zeros(codes.shape, np.int64)
        if self._keys is not None and not 0 <= codes.min() <= codes.max() < self._keys:
            raise PlanUnsound(f"a key lies outside of the {self._keys:,} that were declared")
        # Each key has one draw, whenever it is first read.
        asked = np.sort(codes, axis=None)
        asked = asked[np.append(True, np.diff(asked) != 0)]
        new = np.setdiff1d(asked, self._codes, assume_unique=True)
        noisy = self._known().at(new) + self._noise.draw(self._source, len(new))
        merged = np.concatenate([self._codes, new])
        order = np.argsort(merged, kind="stable")
        self._codes = merged[order]
        self._noisy = np.concatenate([self._noisy, noisy])[order]
        return self._noisy[np.searchsorted(self._codes, codes)]

    @property
    def read(self) -> Selected:
        """What was read so far, and no raw sum; nothing is drawn."""
        by_label = sorted(self._by_label.items())
        spelled = [parts_of(key) for key, _ in by_label]
        codes = np.array([code for code, _ in spelled], np.int64)
        noisy = np.array([value for _, value in by_label], np.int64)
        labels = ((),) * len(self._codes) + tuple(labels for _, labels in spelled)
        return Selected(
            np.concatenate([self._codes, codes]),
            labels,
            np.concatenate([self._noisy, noisy]),
        )

    def at_labels(self, keys: list[tuple[int, Labels]]) -> Ints:
        """The noisy sums at keys of a number and labels: int64, shape (keys,).

        Raises PlanUnsound where the keys are declared to be numbers.
        """
        if self._keys is not None:
            raise PlanUnsound("the keys were declared to be numbers: they have no labels")
        if any(not labels for _, labels in keys):
            raise PlanUnsound("a key without labels is a number: it is read by ``at``")
        # In the order of the keys: draws do not depend on that of the question.
        spelled = [key_of(code, labels) for code, labels in keys]
        new = sorted(set(spelled) - self._by_label.keys())
        drawn = self._noise.draw(self._source, len(new))
        found = self._known().at_spelled(new) + drawn
        self._by_label.update(zip(new, found.tolist(), strict=True))
        return np.array([self._by_label[key] for key in spelled], np.int64)

    def _known(self) -> Sums:
        return self._sums() if callable(self._sums) else self._sums


@frozen
class Table:
    """What an answer is called where it is published (``measurements.parquet``).

    ``spell``: what keys that are numbers (int64) stand for, a list of values each; None: the
    number. ``one``: what counts for 1, in grid steps, of each of these keys; None: the clip, so
    that the longest vector of a case does.
    """

    name: str
    spell: Callable[[Ints], Sequence[Sequence[JsonValue]]] | None = None
    one: Callable[[Ints], Floats] | None = None


ANSWER: Final = Table("answer")
"""Of which its mechanism says no more."""


@frozen
class Answer:
    """What a kernel has answered, and so what may be told at no further cost: noisy values at the
    keys that were read or selected.

    ``most``: what the clip was; ``sigma``: the deviation of the noise; both in grid steps.
    """

    table: Table
    most: int
    sigma: float
    told: Selected

    def __len__(self) -> int:
        """How many keys."""
        return len(self.told.codes)

    def rows(self) -> list[tuple[list[JsonValue], float, float]]:
        """Each key, as a list of values, with its noisy value and the deviation of its noise."""
        codes, labels = self.told.codes, self.told.labels
        spell, one = self.table.spell, self.table.one
        keys: list[list[JsonValue]]
        # Labels say what a key is; its number is told where it has none.
        if any(labels) or spell is None:
            keys = [list(each) or [code] for code, each in zip(codes.tolist(), labels, strict=True)]
        else:
            keys = [list(key) for key in spell(codes)]
        unit = np.full(len(codes), float(self.most)) if one is None else one(codes)
        values = self.told.noisy / unit
        return list(zip(keys, values.tolist(), (self.sigma / unit).tolist(), strict=True))


@frozen
class Randomness:
    """Draws that are the same for the same answers and the same seed."""

    source: Noise

    def uniform(self, below: Ints) -> Ints:
        """For each bound (int64 > 0) an independent uniform integer in [0, bound)."""
        return self.source.uniform(below)

    def coins(self, rate: float, size: int) -> Bools:
        """``size`` independent coins, True with probability ``rate``."""
        return self.source.coins(rate, size)

    def permutation(self, size: int) -> Ints:
        """A uniformly random order of ``range(size)``: int64."""
        return self.source.permutation(size)

    def laplace_values(self, scale: float, size: int) -> Ints:
        """``size`` draws of discrete Laplace noise: int64."""
        return self.source.laplace_values(scale, size)


AT_ONCE: Final = 1 << 14
"""Cases in a batch, where each case is by itself."""

VALUES_AT_ONCE: Final = 1 << 16
"""Values of all columns in a batch, about, of which sums of numbers are asked: a gradient step has
some thirty entries for each, and up to ten numbers in memory for each entry.
"""


@frozen
class Owners:
    """Which unit has how many of which cases, one entry a unit and row of the cases.

    ``row``, ``unit`` (numbered from 0) and ``cases``: int64, of one shape.
    """

    row: Ints
    unit: Ints
    cases: Ints

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.unit.max(initial=-1)) + 1


@frozen
class Measured:
    """What a kernel answers from; nothing but the kernel touches it.

    ``cases``: distinct cases, in random order; ``counts``: int64, how often each occurs. Where the
    step was granted more than the control flow, each case is by itself, and a query is shown
    ``at_once`` of them at most. ``owners``: where the step was granted the unit.
    """

    cases: Cases
    counts: Ints
    owners: Owners | None = None
    at_once: int = AT_ONCE

    @property
    def columns(self) -> frozenset[str]:
        """What was granted beside the control flow."""
        return frozenset(self.cases.columns)

    def whole(self) -> "Measured":
        """Itself."""
        return self

    def added_up(self, task: Callable[["Measured"], T], add: Callable[[T, T], T]) -> T:
        """What ``task`` finds, which goes part by part itself."""
        return task(self)

    def narrowed(self, labels: Sequence[str], without: Sequence[tuple[str, ...]]) -> "Measured":
        """As of ``Kernel.narrowed``."""
        kept = self
        if without:
            kept = self.take(np.flatnonzero(self.cases.among(without) < 0))
        return replace(kept, cases=kept.cases.within(labels))

    def batches(self, values: int | None = None) -> Iterator["Measured"]:
        """The same in parts that a query is asked of, one after another; without owners.
        ``values``: of all columns in a part, about, where that is fewer: no case is cut.
        """
        columns = len(self.cases.columns)
        if not columns:
            yield self
            return
        part = np.arange(len(self.counts)) // self.at_once
        if values is not None:
            # Either count moves on to the next part.
            part += self.cases.offsets[:-1] // max(values // columns, 1)
        for start, stop in pairwise([0, *begins_of(part)[1:].tolist(), len(part)]):
            yield Measured(self.cases.between(start, stop), self.counts[start:stop])

    def take(self, rows: Ints) -> "Measured":
        """The cases at ``rows`` (ascending)."""
        owners = self.owners
        if owners is not None:
            place = np.searchsorted(rows, owners.row)
            kept = np.isin(owners.row, rows)
            owners = Owners(
                place[kept],
                owners.unit[kept],
                owners.cases[kept],
            )
        return Measured(
            self.cases.take(rows),
            self.counts[rows],
            owners,
            self.at_once,
        )

    def by_variant(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The activity sequences, ascending, and how many cases follow each (int64)."""
        counted: Counter[tuple[str, ...]] = Counter()
        for variant, cases in zip(
            self.cases.variants(),
            self.counts.tolist(),
            strict=True,
        ):
            counted[variant] += cases
        variants = sorted(counted)
        return variants, np.array([counted[variant] for variant in variants], np.int64)

    @property
    def variant_counts(self) -> Ints:
        """How many cases follow each distinct activity sequence: int64."""
        return self.by_variant()[1] if self.cases.columns else self.counts


@frozen
class MeasuredBatches:
    """The same of a log in batches, each case by itself, which is never in memory as a whole.

    ``columns``: what was granted beside the control flow. ``results``: what a task finds in each
    batch, in any process. ``all_cases``: all batches as one, in memory.
    ``narrowings``: as of ``Kernel.narrowed``.
    """

    columns: frozenset[str]
    results: Callable[..., Iterator[Any]]
    all_cases: Callable[[], Measured]
    narrowings: tuple[tuple[Sequence[str], Sequence[tuple[str, ...]]], ...] = ()

    def whole(self) -> Measured:
        """For what is not asked batch by batch."""
        return reduce(lambda found, each: found.narrowed(*each), self.narrowings, self.all_cases())

    def added_up(self, task: Callable[[Measured], T], add: Callable[[T, T], T]) -> T:
        """What ``task`` finds in all batches: ``add`` gives the same in any order."""
        # What is sent to other processes holds the narrowings, and nothing else of this.
        narrowings = self.narrowings

        def narrowed(batch: Measured) -> T:
            return task(reduce(lambda found, each: found.narrowed(*each), narrowings, batch))

        found: Iterator[T] = self.results(narrowed)
        return reduce(add, found)

    def narrowed(
        self, labels: Sequence[str], without: Sequence[tuple[str, ...]]
    ) -> "MeasuredBatches":
        """As of ``Measured``."""
        return replace(self, narrowings=(*self.narrowings, (labels, without)))


@dataclass(slots=True)
class _OnePass:
    """Sums that were asked for before any of them was read: one pass over the batches finds all."""

    measured: MeasuredBatches
    asked: list[tuple[Query, Clip, str | None]] = field(default_factory=list)
    found: list[Sums] = field(default_factory=list)

    def at(self, place: int) -> Sums:
        """One of them."""
        if not self.found:
            find = partial(_sums_of, self.asked)
            self.found = self.measured.added_up(find, _together)
        return self.found[place]


@frozen
class CustomQuery:
    """A question that is no sum of vectors of cases.

    ``compute`` maps how many cases each distinct activity sequence has (int64, ascending) to
    numbers (int64, shape (``size``,)). One case more or less changes them by at most
    ``sensitivity`` altogether (l1); ``because`` says why. Each is checked by exhaustion over small
    logs (``tests/kernel/test_exhaustion.py``).
    """

    name: str
    compute: Callable[[Ints], Ints]
    size: int
    sensitivity: int
    because: str


class Kernel:
    """Answers questions about a log that a step of a plan was granted.

    ``randomness``: for what a mechanism does with answers. ``is_ours``: whether the
    mechanism comes with Cloakwork; only then questions may be asked whose sensitivity is proved on
    paper, and functions of any other are called again (``AskedTwice``, ``require_same_rows``).
    ``replaced``: neighbours have the same cases, of which one unit's have other values; then only
    sums and gradient steps on all cases are answered.
    """

    def __init__(
        self,
        measured: Measured | MeasuredBatches,
        books: Books,
        noise: Noise,
        max_cases: int,
        *,
        is_ours: bool = True,
        replaced: bool = False,
    ) -> None:
        self.__is_ours = is_ours
        self.__replaced = replaced
        self.__measured = measured
        self.__books = books
        self.__noise = noise
        self.__max_cases = max_cases
        self.randomness = Randomness(noise)
        self.__answers: list[tuple[Table, int, AnswerNoise, NoisySums | Selected]] = []
        self.__pass: _OnePass | None = None

    def close(self) -> None:
        """The step is over: nothing more is answered."""
        self.__books.close()

    def __reduce__(self) -> NoReturn:
        """A copy would have books of its own."""
        raise PlanUnsound("a kernel is not copied")

    @property
    def recorded(self) -> PrivacyEvent:
        """What has really been drawn so far."""
        return composed(self.__books.recorded)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All sums and selections so far, also of kernels that were narrowed or branched off, and
        gradient steps that have a table. A sample is none, and not among them.
        """
        return tuple(
            Answer(
                table,
                most,
                noise.deviation,
                found.read if isinstance(found, NoisySums) else found,
            )
            for table, most, noise, found in self.__answers
        )

    def narrowed(self, labels: Sequence[str], without: Sequence[tuple[str, ...]] = ()) -> "Kernel":
        """The same kernel, with the same books, for the cases that follow none of the sequences
        ``without``, and of these for the events whose label is one of ``labels``.

        What becomes of a case follows from that case alone.
        """
        # Each case by itself, so the log's neighbours stay neighbours.
        return self.__alike(self.__measured.narrowed(labels, without), self.__books)

    def sum(
        self,
        query: Query,
        noise: AnswerNoise,
        clip: Clip = ONE,
        keys: int | None = None,
        labels: str | None = None,
        table: Table = ANSWER,
    ) -> NoisySums:
        """The sum over all cases of what ``query`` finds in each, clipped to ``clip``; each key has
        noise.

        ``keys``: how many there are (0 to keys - 1), where they are so declared. One unit moves the
        sum by at most its cases times the clip, whatever ``query`` does. ``labels``: the column
        whose texts label the keys; None: the activities, which are other labels, however they are
        spelled. Raises PlanUnsound where the plan does not list this answer, or grants no such
        column.
        """
        # Refused before the log is looked at.
        require_known(noise, clip)
        self.__require_granted(labels)
        clip = replace(clip, replaced=self.__replaced)
        self.__books.record(*noise.events(clip, self.__max_cases, keys))
        sums = NoisySums(
            self.__sums_later(query, clip, labels),
            noise,
            self.__noise,
            keys,
        )
        self.__answers.append((table, clip.most, noise, sums))
        return sums

    def select(
        self,
        query: Query,
        noise: AnswerNoise,
        least: int,
        clip: Clip = ONE,
        labels: str | None = None,
        table: Table = ANSWER,
    ) -> Selected:
        """The keys that occur and whose noisy sums reach ``least`` (grid steps), with these;
        ``labels`` as of ``sum``.

        Only keys that occur have noise: what hides those of one unit alone is the threshold, whose
        delta is charged (Korolova et al. 2009; Desfontaines et al. 2022).
        """
        require_known(noise, clip)
        self.__require_presence_hidden("a selection of keys")
        self.__require_granted(labels)
        # What the threshold cannot hide is charged as delta.
        delta = noise.selection_delta(least, clip, self.__max_cases)
        if delta >= 1:
            raise PlanUnsound(f"a threshold of {least:,} hides no key of one unit alone")
        events = noise.events(clip, self.__max_cases, None)
        if delta > 0:
            events = tuple(composed([event, selection_event(delta)]) for event in events)
        self.__books.record(*events)
        sums = self.__sums(query, clip, labels)
        sums = replace(sums, sums=np.maximum(sums.sums, 0))
        noisy = sums.sums + noise.draw(self.__noise, len(sums.sums))
        # A key that no case counts for (of value 0) does not occur.
        reached = np.flatnonzero((noisy >= least) & (sums.sums > 0))
        selected = Selected(*sums.at_rows(reached), noisy[reached])
        self.__answers.append((table, clip.most, noise, selected))
        return selected

    def grow(self, delta: float = 0.0) -> Growth:
        """Keys that grow level by level; ``delta``: what their thresholds may spend, all together.

        A case has one key a level: that of the level before, if it was kept, with one extension.
        """
        self.__require_presence_hidden("keys that grow")
        if delta >= 1:
            raise PlanUnsound("thresholds that may spend a delta of 1 hide no key of one unit")
        if delta > 0:
            self.__books.record(selection_event(delta))
        measured = self.__measured.whole()
        return Growth(
            measured.cases,
            measured.counts,
            self.__books,
            self.__noise,
            self.__max_cases,
            delta,
            self.__twice,
        )

    def sample_sums(
        self,
        query: Query,
        noise: AnswerNoise,
        rate: float,
        times: int,
        keys: int,
    ) -> Ints:
        """Noisy sums in ``times`` samples, each of which holds every unit independently with
        probability ``rate``: int64, shape (times, keys). A case counts for one key.
        """
        require_known(noise)
        self.__require_presence_hidden("sums over samples")
        # A sample is charged by the rate that is really drawn.
        (event, *_) = noise.events(ONE, self.__max_cases, keys)
        sampled = PoissonSampled(rate=drawn_rate(rate), event=event)
        self.__books.record(repeated(times, sampled))
        measured = self.__measured.whole()
        owners = self.__owners(measured)
        vectors = vectors_of(measured.cases, self.__twice(query), ONE)
        noisy = np.empty((times, keys), np.int64)
        for sample in range(times):
            sums = vectors.sums(self.__sample(measured, owners, rate))
            noisy[sample] = NoisySums(sums, noise, self.__noise, keys).at(np.arange(keys))
        return noisy

    def steps(
        self,
        gradient: Gradient,
        parameters: Floats,
        update: Update,
        descent: Descent,
        table: Table | None = None,
        told: int = 0,
    ) -> Floats:
        """Parameters after gradient steps with noise, each on a sample of the units (DP-SGD).

        ``parameters``: those to begin with, which follow from no data: float64, shape (size,).
        One unit moves the sum of a step by at most its cases times the clip (L2), whatever
        ``gradient`` does; what ``update`` makes of the noisy means is post-processing. A step
        whose sample is empty is a step like any other. ``table``: what the noisy sum of the last
        step is called where it is published; of that the first ``told`` numbers are.
        """
        if type(descent) is not Descent or type(descent.noise) is not Gaussian:
            raise PlanUnsound("gradient steps are taken by a Descent, with Gaussian noise")
        size = len(parameters)
        if descent.rate < 1:
            self.__require_presence_hidden("gradient steps on samples")
        # Other values of a case are one vector less, and one more.
        cases_moved = 2 * self.__max_cases if self.__replaced else self.__max_cases
        self.__books.record(repeated(descent.times, descent.event(size, cases_moved)))
        # Where everybody is in every sample, it does not matter whose cases there are, and the log
        # may lie in batches.
        measured, owners = self.__measured, None
        if descent.rate < 1 or not self.__is_ours:
            measured = measured.whole()
        if descent.rate < 1:
            owners = self.__owners(measured.whole())
        for step in range(descent.times):
            if isinstance(measured, Measured):
                counts = measured.counts
                if owners is not None:
                    counts = self.__sample(measured, owners, descent.rate)
                drawn = np.flatnonzero(counts)
                cases = measured.cases.take(drawn)
                # Every step would take twice as long: the first, second, fourth, eighth ... do.
                if not self.__is_ours and (step + 1) & step == 0:
                    part = cases.take(self.__noise.permutation(len(cases))[:ASKED_AGAIN])
                    descent.require_same_rows(gradient, parameters, part, step)
                total = descent.summed(gradient, parameters, cases, counts[drawn], step)
            else:
                summed = partial(_summed, descent, gradient, parameters, step)
                total = measured.added_up(summed, np.add)
            noisy = total + descent.noise.draw(self.__noise, size)
            mean = np.asarray(noisy * (descent.grid / descent.denominator), np.float64)
            parameters = update(parameters, mean)
            if np.shape(parameters) != (size,):
                raise PlanUnsound("an update changes how many parameters there are")
        if table is not None:
            codes = np.arange(size)[:told]
            first = Selected(codes, ((),) * len(codes), noisy[:told])
            self.__answers.append((table, descent.clip, descent.noise, first))
        return parameters

    def custom(self, query: CustomQuery, noise: Laplace) -> Ints:
        """The numbers of a question that is no sum over cases, each with noise; where it fails on
        the log, or answers something else, noise alone, silently.
        """
        if not self.__is_ours:
            raise PlanUnsound(f"the sensitivity of '{query.name}' is asserted, and not enforced")
        self.__require_presence_hidden("a question of its own")
        require_known(noise)
        clip = Clip("l1", query.sensitivity, query.size)
        self.__books.record(*noise.events(clip, self.__max_cases, query.size))
        exact = np.zeros(query.size, np.int64)
        with Silently():
            found = np.asarray(
                query.compute(np.sort(self.__measured.whole().variant_counts)), np.int64
            )
            if found.shape == exact.shape:
                exact = found
        noisy = exact + noise.draw(self.__noise, query.size)
        told = Selected(np.arange(query.size), ((),) * query.size, noisy)
        self.__answers.append((Table(query.name), ONE.most, noise, told))
        return noisy

    def branch(self, event: PrivacyEvent, budget: Cost) -> "Kernel":
        """A kernel for one of several ways to go on, of which the plan charges (epsilon, delta)
        whichever is taken.

        ``event``: what this way is charged for; it must cost ``budget`` at most, which fills a
        slot. All that the new kernel answers fits the leaves of ``event``, so together it is
        (epsilon, delta)-DP, however its questions are chosen. Which way is taken depends on answers
        alone and the slot bounds each of them, so it composes with all else that is answered
        (Dwork and Roth 2014, theorem B.1; also where both kernels are asked in turns: Vadhan and
        Zhang 2023, on concurrent composition). A slot is filled once, so one way is taken.
        """
        # The way must fit the slot before anything is asked on it.
        spent = cost(event, budget.delta)
        if spent.epsilon > budget.epsilon or spent.delta > budget.delta:
            raise PlanUnsound(f"a way to go on costs {spent}, more than {budget}")
        self.__books.record(EpsilonDelta(epsilon=budget.epsilon, delta=budget.delta))
        return self.__alike(self.__measured, self.__books.branch(event))

    def raw(self) -> Measured:
        """All that the step was granted, without any noise: for mechanisms whose published form
        looks at the log. Every use makes the step unbounded.
        """
        self.__books.record(NonPrivate(reason="the raw counts are looked at"))
        return self.__measured.whole()

    def __alike(self, measured: Measured | MeasuredBatches, books: Books) -> "Kernel":
        alike = Kernel(
            measured,
            books,
            self.__noise,
            self.__max_cases,
            is_ours=self.__is_ours,
            replaced=self.__replaced,
        )
        alike.__answers = self.__answers
        return alike

    def __sums(
        self,
        query: Query,
        clip: Clip,
        labels: str | None = None,
    ) -> Sums:
        """Batch by batch. Each case's vector is whole grid steps, within the clip before it is
        added: so is a unit's, whatever batches there are, and integers have one sum in any order.
        """
        query = self.__twice(query)
        # What others' functions are asked again is drawn of all cases, once.
        measured = self.__measured if self.__is_ours else self.__measured.whole()
        if not clip.sampled:
            find = partial(_sums_of, [(query, clip, labels)])
            return measured.added_up(find, _together)[0]

        def drawn(batch: Measured) -> Sums:
            vectors = vectors_of(batch.cases, query, clip, labels)
            return sampled_sums(vectors, clip, batch.counts, self.__noise)

        # Drawn in the order of one log, from the kernel's own source.
        return added_up([drawn(batch) for batch in measured.whole().batches()])

    def __sums_later(
        self,
        query: Query,
        clip: Clip,
        labels: str | None,
    ) -> Sums | Callable[[], Sums]:
        """The same; of a log in batches, once they are read. What draws is asked at once."""
        if not isinstance(self.__measured, MeasuredBatches) or clip.sampled or not self.__is_ours:
            return self.__sums(query, clip, labels)
        if self.__pass is None or self.__pass.found:
            self.__pass = _OnePass(self.__measured)
        self.__pass.asked.append((query, clip, labels))
        return partial(self.__pass.at, len(self.__pass.asked) - 1)

    def __twice(self, query: Query) -> Query:
        return query if self.__is_ours else AskedTwice(query, self.__noise)

    def __require_presence_hidden(self, question: str) -> None:
        if self.__replaced:
            raise PlanUnsound(
                f"{question} is charged for a unit more or less, and the step's claim is about "
                "other values of one"
            )

    def __require_granted(self, labels: str | None) -> None:
        if labels is not None and labels not in self.__measured.columns:
            raise PlanUnsound(f"a step asked for '{labels}', which it was not granted")

    def __sample(self, measured: Measured, owners: Owners, rate: float) -> Ints:
        """How often each distinct case is in a Poisson sample of the units: int64."""
        # One coin a unit: all its cases are in the sample, or none.
        drawn = self.__noise.coins(rate, owners.units)[owners.unit]
        return group_sums(owners.row[drawn], owners.cases[drawn], len(measured.cases))

    def __owners(self, measured: Measured) -> Owners:
        """Whose cases there are; where a unit has one case at most, each case is a unit."""
        if measured.owners is not None:
            return measured.owners
        if self.__max_cases > 1:
            raise PlanUnsound("a step that samples units must be granted them")
        row = owners_of(measured.counts)
        return Owners(
            row,
            np.arange(len(row)),
            np.ones(len(row), np.int64),
        )


def _sums_of(
    asked: Sequence[tuple[Query, Clip, str | None]],
    batch: Measured,
) -> list[Sums]:
    # A batch of a file is asked in parts, as a log in memory is. Small ones would ask others'
    # functions again too often, and merge texts that are keys as often.
    are_numbers = all(
        labels is None and not isinstance(query, AskedTwice) for query, _, labels in asked
    )
    parts = (
        [
            vectors_of(part.cases, query, clip, labels).sums(part.counts)
            for query, clip, labels in asked
        ]
        for part in batch.batches(VALUES_AT_ONCE if are_numbers else None)
    )
    return reduce(_together, parts)


def _together(one: Sequence[Sums], other: Sequence[Sums]) -> list[Sums]:
    return [added_up(both) for both in zip(one, other, strict=True)]


def _summed(
    descent: Descent, gradient: Gradient, parameters: Floats, step: int, batch: Measured
) -> Ints:
    return descent.summed(gradient, parameters, batch.cases, batch.counts, step)
