"""How the cases of an invented process are drawn: paths, clocks and calendars, and who does what."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from math import exp
from random import Random
from statistics import NormalDist
from typing import TypeVar

Value = str | int | float | datetime

Attributes = dict[str, Value]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a pathway: taken with ``chance``, then repeated with chance ``again``, at most
    ``most`` times.
    """

    activity: str
    chance: float = 1.0
    again: float = 0.0
    most: int = 3


@dataclass(frozen=True, slots=True)
class Pathway:
    """One usual way through the process, how often it is taken, and which case values go with it."""

    weight: float
    labels: tuple[tuple[str, float], ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``time`` is UTC."""

    activity: str
    time: datetime
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its attributes, ``concept:name`` first, and its events in order."""

    attributes: Attributes
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Log:
    """A whole log: its title, its cases in file order."""

    name: str
    title: str
    cases: list[Case]


@dataclass(slots=True)
class Dice:
    """All randomness of one log, by ``random()`` alone, whose stream Python promises to keep."""

    seed: int
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self._random.random() < probability

    def below(self, bound: int) -> int:
        """An integer from 0 to ``bound`` - 1."""
        return int(self._random.random() * bound)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of ``choices``, all alike."""
        return choices[self.below(len(choices))]

    def weighted_choice(self, choices: Iterable[tuple[T, float]]) -> T:
        """One of ``choices``, each given with its weight."""
        pairs = list(choices)
        left = self._random.random() * sum(weight for _, weight in pairs)
        for choice, weight in pairs:
            left -= weight
            if left < 0:
                return choice
        return pairs[-1][0]

    def normal(self) -> float:
        """A standard normal value."""
        return NormalDist().inv_cdf(min(max(self._random.random(), 1e-12), 1 - 1e-12))

    def log_normal(self, median: float, spread: float) -> float:
        """A positive value around ``median``; ``spread`` is the standard deviation of its
        logarithm.
        """
        return median * exp(spread * self.normal())


def local_time(time: datetime) -> datetime:
    """The wall clock of central Europe: +01:00 in winter, +02:00 from the last Sunday of March to
    that of October.
    """
    summer_begins = _last_sunday(time.year, 3)
    winter_begins = _last_sunday(time.year, 10)
    offset = 2 if summer_begins <= time < winter_begins else 1
    return time.astimezone(timezone(timedelta(hours=offset)))


def _last_sunday(year: int, month: int) -> datetime:
    """The instant, on that day, at which clocks are changed: 01:00 UTC."""
    last = datetime(year, month, 31, 1, tzinfo=UTC)
    # Monday is 0, so a Sunday is no day away from itself.
    days_since_sunday = (last.weekday() + 1) % 7
    return last - timedelta(days=days_since_sunday)


def within_hours(time: datetime, dice: Dice, *, first: int, last: int, weekends: bool) -> datetime:
    """The same time when people are at work, else a while after they come in next."""
    wall = local_time(time)
    if first <= wall.hour < last and (weekends or wall.weekday() < 5):
        return time
    opening = wall.replace(hour=first, minute=0, second=0)
    if wall.hour >= last or wall.weekday() >= 5:
        opening += timedelta(days=1)
    while not weekends and opening.weekday() >= 5:
        opening += timedelta(days=1)
    begun = opening.astimezone(UTC) + timedelta(seconds=dice.below(5_400))
    return max(time, begun)


def draw_arrivals(
    dice: Dice, count: int, begin: datetime, days: int, rate: Callable[[datetime], float]
) -> list[datetime]:
    """``count`` instants in order, thicker where ``rate`` (local time -> 0 to 1) is high."""
    chosen: list[datetime] = []
    while len(chosen) < count:
        time = begin + timedelta(seconds=dice.below(days * 86_400))
        if dice.happens(rate(local_time(time))):
            chosen.append(time)
    return sorted(chosen)


def draw_path(pathway: Pathway, dice: Dice) -> list[str]:
    """One way along the pathway."""
    path: list[str] = []
    for step in pathway.steps:
        if not dice.happens(step.chance):
            continue
        path.append(step.activity)
        for _ in range(step.most - 1):
            if not dice.happens(step.again):
                break
            path.append(step.activity)
    return path


def shuffle_ties(path: list[str], ties: frozenset[str], dice: Dice) -> list[str]:
    """The path with some neighbouring steps that share a time written down the other way round."""
    path = list(path)
    for place in range(len(path) - 1):
        if {path[place], path[place + 1]} <= ties and dice.happens(0.12):
            path[place], path[place + 1] = path[place + 1], path[place]
    return path


def make_unusual(path: list[str], rare: Sequence[str], dice: Dice) -> list[str]:
    """The path with something unusual in it: a step left out, done twice, done early, or one that
    hardly ever occurs.
    """
    for _ in range(dice.weighted_choice([(1, 0.35), (2, 0.4), (3, 0.25)])):
        place = 1 + dice.below(len(path) - 2)
        kind = dice.weighted_choice(
            [("skip", 0.2), ("repeat", 0.2), ("early", 0.25), ("rare", 0.35)]
        )
        if kind == "skip" and len(path) > 4:
            path = path[:place] + path[place + 1 :]
        elif kind == "repeat":
            path = [*path[:place], path[place], *path[place:]]
        elif kind == "early" and place > 1:
            path = [*path[: place - 1], path[place], path[place - 1], *path[place + 1 :]]
        else:
            path = [*path[:place], dice.one_of(rare), *path[place:]]
    return path


@dataclass(frozen=True, slots=True)
class Work:
    """How one activity is done: by whom, after how long, at which hours, for how much money."""

    staff: str
    minutes: float
    spread: float = 0.6
    hours: tuple[int, int] | None = None
    money: float = 0.0


@dataclass(frozen=True, slots=True)
class Workplace:
    """How all activities are done; two in ``ties`` that follow each other often share their time."""

    work: dict[str, Work]
    ties: frozenset[str] = frozenset()
    weekends: bool = True


def draw_times(path: list[str], start: datetime, place: Workplace, dice: Dice) -> list[datetime]:
    """When each step of the path happens."""
    time = start
    times = [start]
    for before, activity in pairwise(path):
        is_tie = {activity, before} <= place.ties and dice.happens(0.75)
        if not is_tie:
            how = place.work[activity]
            minutes = dice.log_normal(how.minutes, how.spread)
            time += timedelta(seconds=int(60 * minutes))
            if how.hours:
                first, last = how.hours
                time = within_hours(time, dice, first=first, last=last, weekends=place.weekends)
        times.append(time)
    return times
