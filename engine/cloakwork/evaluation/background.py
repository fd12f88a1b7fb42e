"""What an attacker may know of a case, and the cases of a log that fit it best."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.evaluation.attribute_attacks import CodedAttributes
from cloakwork.evaluation.coded import DAY, HOUR, SECOND, CodedLog
from cloakwork.evaluation.matching import away_from, least_away
from cloakwork.evaluation.scales import Moved


class BestFit(NamedTuple):
    """The cases that fit best, among which an attacker can only guess: as rows of variants, or of
    cases; one of the two is None.
    """

    variants: Ints | None = None
    cases: Ints | None = None

    def size(self, log: CodedLog) -> int:
        """How many cases they are."""
        if self.cases is not None:
            return len(self.cases)
        return int(log.sizes[self.variants].sum())

    def chance(self, log: CodedLog, posterior: Floats) -> float:
        """The probability that a guess among them is right; ``posterior``: shape (cases,)."""
        if self.cases is not None:
            return float(posterior[self.cases].mean())
        of_variant = np.bincount(log.variant, posterior, len(log.sizes))
        return float(of_variant[self.variants].sum() / self.size(log))


@dataclass(frozen=True)
class Target:
    """A case that somebody looks for: ``case``, a row of ``log``. ``seed``: decides which of its
    events are known.
    """

    log: CodedLog
    case: int
    seed: int
    attributes: CodedAttributes | None = None

    @property
    def sequence(self) -> tuple[int, ...]:
        """Its activities."""
        return self.log.sequences[int(self.log.variant[self.case])]

    @property
    def times(self) -> Ints:
        """Its times, in microseconds."""
        return self.log.clock[self.log.events_of(self.case)]

    def points(self, number: int) -> Ints:
        """The positions of ``number`` events at random, or of all, in order."""
        draws = np.random.default_rng([self.seed, self.case, number])
        length = len(self.sequence)
        return np.sort(draws.permutation(length)[:number])


@dataclass(frozen=True)
class Searched:
    """The log in which a target is looked for.

    ``nearest``: the rows of its variants with the fewest edits from a variant of the target's log.
    ``aligned``: the events that such a variant has in common with one of them. ``posterior``: how
    likely each case is to be the target by all its times; None where the log is the target's own.
    """

    log: CodedLog
    nearest: Callable[[int], Ints]
    aligned: Callable[[int, int], tuple[Ints, Ints]]
    attributes: CodedAttributes | None = None
    posterior: Floats | None = None

    @classmethod
    def itself(cls, log: CodedLog, attributes: CodedAttributes | None = None) -> "Searched":
        """The target's own log."""

        def every(variant: int, _: int) -> tuple[Ints, Ints]:
            positions = np.arange(len(log.sequences[variant]))
            return positions, positions

        return cls(log, lambda variant: np.array([variant]), every, attributes)

    @cached_property
    def has_times(self) -> bool:
        """Whether times can be looked at."""
        return self.log.times is not None


@dataclass(frozen=True)
class Knowledge:
    """One kind of knowledge. ``name``: for programs; ``knows``: for people; ``sampled``: which part
    of a case is known is drawn at random.
    """

    name: str
    knows: str
    fits: Callable[[Target, Searched], BestFit]
    timed: bool = False
    sampled: bool = False


def kinds_of_knowledge(attributes: CodedAttributes | None, *, times: bool) -> list[Knowledge]:
    """All kinds that a log allows; ``times``: it has some."""
    found = [*_of_control_flow(), *(_of_times() if times else ())]
    if attributes is not None:
        found += attributes_known(attributes)
    return found


def _of_control_flow() -> Iterator[Knowledge]:
    for number in (1, 2, 3):
        what = "one of its activities" if number == 1 else f"{number} of its activities"
        yield Knowledge(f"events-{number}", what, _events(number), sampled=True)
    for number in (2, 3):
        words = f"{number} of its activities, and their order"
        yield Knowledge(f"order-{number}", words, _events(number, ordered=True), sampled=True)
    yield Knowledge("prefix-3", "its first 3 activities", _prefix)
    yield Knowledge("activities", "which activities it has", _activities)
    yield Knowledge("sequence", "its whole sequence of activities", _sequence)


def _of_times() -> Iterator[Knowledge]:
    for name, resolution in (("second", SECOND), ("hour", HOUR), ("day", DAY)):
        words = f"when it started, to the {name}"
        yield Knowledge(f"start-{name}", words, _start(resolution), timed=True)
    yield Knowledge("duration", "how long it took, to the hour", _duration, timed=True)
    for number in (1, 2, 3):
        words = "one of its events" if number == 1 else f"{number} of its events"
        fits = _timed_events(number)
        name = f"timed-events-{number}"
        words = f"{words}, with times to the hour"
        yield Knowledge(name, words, fits, timed=True, sampled=True)
    for name, words, fits in (
        ("start", "when it started, to the second", _with_start),
        ("gaps", "how long each step took", _with_gaps),
        ("times", "the time of every event", _with_times),
    ):
        yield Knowledge(f"sequence-{name}", f"its sequence, and {words}", fits, timed=True)


def attributes_known(attributes: CodedAttributes) -> Iterator[Knowledge]:
    """What can be known of the attributes of cases and of events, as far as there are any."""
    if attributes.of_cases:
        names = ", ".join(attributes.of_cases)
        yield Knowledge("case-attributes", f"attributes of the case: {names}", _case_values)
    if attributes.of_events:
        names = ", ".join(attributes.of_events)
        words = f"one event, with its attributes: {names}"
        yield Knowledge("event-attributes", words, _event_values, sampled=True)


def _highest(scores: Floats | Ints) -> Ints:
    return np.flatnonzero(scores == scores.max())


def _events(number: int, *, ordered: bool = False) -> Callable[[Target, Searched], BestFit]:
    def fits(target: Target, searched: Searched) -> BestFit:
        known = [target.sequence[place] for place in target.points(number)]
        log = searched.log
        activities, times = np.unique(known, return_counts=True)
        score = np.minimum(log.counts[:, activities], times).sum(axis=1)
        if ordered:
            score = score + log.contains_in_order(known, score == len(known))
        return BestFit(variants=_highest(score))

    return fits


def _prefix(target: Target, searched: Searched) -> BestFit:
    known = target.sequence[:3]
    agree = searched.log.beginnings[:, : len(known)] == np.array(known)
    return BestFit(variants=_highest(np.cumprod(agree, axis=1).sum(axis=1)))


def _activities(target: Target, searched: Searched) -> BestFit:
    known = np.zeros(len(searched.log.alphabet), np.bool_)
    known[list(target.sequence)] = True
    return BestFit(variants=_highest(-((searched.log.counts > 0) != known).sum(axis=1)))


def _sequence(target: Target, searched: Searched) -> BestFit:
    return BestFit(variants=searched.nearest(int(target.log.variant[target.case])))


def _start(resolution: int) -> Callable[[Target, Searched], BestFit]:
    def fits(target: Target, searched: Searched) -> BestFit:
        away = away_from(searched.log.starts, int(target.times[0]), resolution)
        return BestFit(cases=_highest(-away))

    return fits


def _duration(target: Target, searched: Searched) -> BestFit:
    known = int(target.times[-1] - target.times[0])
    return BestFit(cases=_highest(-away_from(searched.log.durations, known, HOUR)))


def _timed_events(number: int) -> Callable[[Target, Searched], BestFit]:
    """Each known event is one event of its activity in a case, no two of them the same one."""

    def fits(target: Target, searched: Searched) -> BestFit:
        known: dict[int, list[int]] = {}
        for place in target.points(number).tolist():
            known.setdefault(target.sequence[place], []).append(int(target.times[place]))
        return BestFit(cases=_highest(-least_away(searched.log, known)))

    return fits


def _with_start(target: Target, searched: Searched) -> BestFit:
    cases = _same_sequence(target, searched)
    away = away_from(searched.log.starts[cases], int(target.times[0]), SECOND)
    return BestFit(cases=cases[_highest(-away)])


def _with_gaps(target: Target, searched: Searched) -> BestFit:
    return _by_times(target, searched, lambda moved: moved.gaps)


def _with_times(target: Target, searched: Searched) -> BestFit:
    if searched.posterior is not None:
        return BestFit(cases=_highest(searched.posterior))
    return _by_times(target, searched, lambda moved: moved.apart)


def _same_sequence(target: Target, searched: Searched) -> Ints:
    rows = searched.nearest(int(target.log.variant[target.case]))
    return np.concatenate([searched.log.cases_of(row) for row in rows.tolist()])


def _by_times(target: Target, searched: Searched, figure: Callable[[Moved], Floats]) -> BestFit:
    """The cases of the nearest sequences where a figure of the times is least."""
    variant = int(target.log.variant[target.case])
    cases, figures = [], []
    for row in searched.nearest(variant).tolist():
        ours, theirs = searched.aligned(variant, row)
        times = searched.log.times_of(row)[:, theirs]
        cases.append(searched.log.cases_of(row))
        figures.append(figure(Moved.between(target.times[ours], times)))
    return BestFit(cases=np.concatenate(cases)[_highest(-np.concatenate(figures))])


def _case_values(target: Target, searched: Searched) -> BestFit:
    assert target.attributes is not None  # noqa: S101 - see attributes_known
    assert searched.attributes is not None  # noqa: S101
    equal = searched.attributes.cases == target.attributes.cases[target.case]
    return BestFit(cases=_highest(equal.sum(axis=1)))


def _event_values(target: Target, searched: Searched) -> BestFit:
    """Cases with an event of the activity, and of these the most equal values in one event."""
    assert target.attributes is not None  # noqa: S101 - see attributes_known
    assert searched.attributes is not None  # noqa: S101
    place = int(target.points(1)[0])
    row = int(target.log.offsets[target.case]) + place
    rows, cases, begins = searched.log.occurrences(target.sequence[place])
    if not len(rows):
        return BestFit(cases=np.arange(searched.log.cases))
    equal = (searched.attributes.events[rows] == target.attributes.events[row]).sum(axis=1)
    return BestFit(cases=cases[_highest(np.maximum.reduceat(equal, begins))])
