"""Background knowledge: what an attacker may know of a case, who matches it, and how to leave
nobody who does.

Knowledge is a short sequence of symbols, and a case matches it if the sequence is a subsequence of
its course (its symbols need not follow each other directly). All four kinds of knowledge come down
to that: a set or a multiset of activities is a subsequence of the sorted course.

Knowledge of size n + 1 is made from knowledge of size n and one symbol more behind it. Each of its
beginnings matches wherever it does, so this finds all of it, in every order of its symbols. (Rafiei
and others join candidates of equal beginnings in one order only, and miss groups.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_MATCHES: Final = 30_000_000
"""How many pairs of knowledge and course are held at once; about 3 GB."""


class TooManyMatches(Exception):
    """There are more than ``MOST_MATCHES`` pairs of knowledge and course."""


@dataclass(frozen=True, slots=True)
class Courses:
    """Distinct courses of events as sequences of symbols, end to end.

    - ``symbol``: int64, shape (places,); at least 0.
    - ``course``: int64, shape (places,); the course of each place, ascending.
    - ``events``: int64, shape (places,); how many events of a case go when the place is suppressed.
    """

    symbol: Ints
    course: Ints
    events: Ints

    def at(self, places: Ints) -> "Courses":
        """What is left of the courses at ``places`` (int64, ascending)."""
        return Courses(self.symbol[places], self.course[places], self.events[places])


@dataclass(frozen=True, slots=True)
class Members:
    """The cases of each course, in rows that are alike in unit and values.

    - ``offsets``: int64, shape (courses + 1,); the rows of each course.
    - ``cases``: int64, shape (rows,).
    - ``unit``: int64, shape (rows,); None where cases are counted. Numbers from ``units`` on stand
      for cases without a unit, each of which has its own row and number, and counts as no unit.
    - ``value_offsets``: int64, shape (rows + 1,), and ``value``: int64; the sensitive values that
      each row's cases hold.
    """

    offsets: Ints
    cases: Ints
    unit: Ints | None
    value_offsets: Ints
    value: Ints
    units: int


@dataclass(frozen=True, slots=True)
class Level:
    """All knowledge of one size that some course matches.

    - ``known``: int64, shape (groups, size); the symbols of each piece of knowledge.
    - ``group``, ``course``: int64, shape (matches,); which knowledge is matched by which course,
      each pair once.
    - ``at``: int64, shape (matches, size); the earliest places where it is.
    """

    known: Ints
    group: Ints
    course: Ints
    at: Ints


def levels(courses: Courses, longest: int) -> Iterator[Level]:
    """All knowledge of size 0, 1, ..., ``longest``, shortest first; ends early where there is none.

    Time and memory go with the matches: at most (distinct symbols of a course)^size for each
    course. Raises ``TooManyMatches``.
    """
    begins = np.flatnonzero(np.diff(courses.course, prepend=-1))
    if not len(begins):
        return
    reach = _Reach.of(courses)
    none = np.zeros((len(begins), 0), np.int64)
    level = Level(none[:1], np.zeros(len(begins), np.int64), courses.course[begins], none)
    start = begins
    yield level
    for _ in range(longest):
        level, start = _longer(level, start, courses, reach)
        if not len(level.group):
            return
        yield level


@dataclass(frozen=True, slots=True)
class _Reach:
    """Where the first of each symbol stands, seen from every place.

    Looking from place ``s`` on, inside its course, each symbol that still comes has its first place
    in ``to[first[s]:first[s + 1]]``. int64; ``first`` has shape (places + 2,), and the place behind
    the last reaches none.
    """

    first: Ints
    to: Ints
    ends: NDArray[np.bool_]

    @classmethod
    def of(cls, courses: Courses) -> "_Reach":
        places = len(courses.symbol)
        before = _previous(courses)
        width = np.arange(places) - before
        if width.sum() > MOST_MATCHES:
            raise TooManyMatches
        to = np.repeat(np.arange(places), width)
        start = _ranges(before + 1, width)
        order = np.argsort(start, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(start, minlength=places + 1))])
        return cls(first, to[order], np.diff(courses.course, append=-1) != 0)


def _previous(courses: Courses) -> Ints:
    """The place before each one where its course has the same symbol, else the last place of the
    course before.
    """
    places = np.arange(len(courses.symbol))
    order = np.lexsort((places, courses.symbol, courses.course))
    same = (np.diff(courses.symbol[order]) == 0) & (np.diff(courses.course[order]) == 0)
    before = _first_places(courses) - 1
    before[order[1:][same]] = order[:-1][same]
    return before


def _first_places(courses: Courses) -> Ints:
    """For each place the first place of its course: int64, shape (places,)."""
    begins = np.flatnonzero(np.diff(courses.course, prepend=-1))
    return np.repeat(begins, np.diff(np.append(begins, len(courses.course))))


def _longer(level: Level, start: Ints, courses: Courses, reach: _Reach) -> tuple[Level, Ints]:
    """Knowledge of one symbol more, and from which place on each match goes on."""
    fan = reach.first[start + 1] - reach.first[start]
    if fan.sum() > MOST_MATCHES:
        raise TooManyMatches
    match = np.repeat(np.arange(len(fan)), fan)
    place = reach.to[_ranges(reach.first[start], fan)]
    symbols = int(courses.symbol.max(initial=0)) + 1
    key = level.group[match] * symbols + courses.symbol[place]
    distinct, group = np.unique(key, return_inverse=True)
    longer = Level(
        known=np.column_stack([level.known[distinct // symbols], distinct % symbols]),
        group=group.astype(np.int64),
        course=level.course[match],
        at=np.column_stack([level.at[match], place]),
    )
    return longer, np.where(reach.ends[place], len(courses.symbol), place + 1)


def tally(level: Level, members: Members) -> tuple[Ints, Floats]:
    """For each group of ``level`` its number of distinct units, and the largest confidence in one
    value.

    Confidence in a value is the share of the matching cases that hold it or, where units own
    several cases, the share of the matching units of which a matching case holds it, whichever is
    more; 0 where no value is held. In the share of units, cases without one are left out, or taken
    for one unit each, whichever gives more.
    """
    groups = len(level.known)
    match, row = _spread(level.course, members.offsets)
    group = level.group[match]
    cases = _sums(group, members.cases[row], groups)
    holds, item = _spread(row, members.value_offsets)
    told, value = group[holds], members.value[item]
    values = int(members.value.max(initial=0)) + 1
    held, weight = told * values + value, members.cases[row][holds]
    if members.unit is None:
        return cases, _largest_share(held, weight, values, cases)
    owners = int(members.unit.max(initial=0)) + 1
    matching = np.unique(group * owners + members.unit[row])
    holding = np.unique(held * owners + members.unit[row][holds])
    largest = _largest_share(held, weight, values, cases)
    size = np.zeros(groups, np.int64)
    for counted in (owners, members.units):
        size = np.bincount(matching[matching % owners < counted] // owners, minlength=groups)
        by_unit = holding[holding % owners < counted] // owners
        largest = np.maximum(largest, _largest_share(by_unit, np.ones_like(by_unit), values, size))
    return size, largest


def _largest_share(held: Ints, weight: Ints, values: int, total: Ints) -> Floats:
    """``held``: group times ``values`` plus value, with its weight; the largest share that one
    value has of a group.
    """
    distinct, inverse = np.unique(held, return_inverse=True)
    group = distinct // values
    largest = np.zeros(len(total))
    np.maximum.at(largest, group, _sums(inverse, weight, len(distinct)) / total[group])
    return largest


def unmatch(level: Level, violating: NDArray[np.bool_], courses: Courses) -> Ints:
    """Places to suppress so that no course matches ``violating`` knowledge (bool, shape (groups,))
    any more.

    Each course is treated by itself. Of the symbols it has to part with one after the other, the
    first is the one with the best score: violating knowledge that it matches no more, for each
    event lost. A symbol goes only where it takes part in a match: behind the earliest beginning and
    before the latest end of the knowledge around it. Ties: fewer events lost, then the smaller
    symbol. int64, ascending.
    """
    matches = np.flatnonzero(violating[level.group])
    parts = _parts(level, matches, courses)
    if level.known.shape[1] == 1:
        return np.sort(parts.places(np.ones(len(parts.match), np.bool_)))
    gone = [np.zeros(0, np.int64)]
    while len(parts.match):
        chosen = parts.best()
        gone.append(parts.places(chosen))
        parts = parts.without(parts.match[chosen])
    return np.unique(np.concatenate(gone))


@dataclass(frozen=True, slots=True)
class _Parts:
    """Symbols that take part in violating matches; without any one of its parts a match is gone.

    - ``match``: int64, shape (parts,); ``symbol``: a number for each symbol of each course: int64,
      shape (parts,).
    - ``course``: int64, shape (symbols,); ascending.
    - ``first``, ``last``: int64, shape (parts,); the places to suppress are ``order[first:last]``.
    - ``order``: int64, shape (places,); ``events``: int64, shape (places,).
    """

    match: Ints
    symbol: Ints
    course: Ints
    first: Ints
    last: Ints
    order: Ints
    events: Ints

    def best(self) -> NDArray[np.bool_]:
        """The parts of the best symbol of each course: bool, shape (parts,)."""
        symbols, number = np.unique(self.symbol, return_inverse=True)
        unmatched = np.bincount(number)
        spot = _ranges(self.first, self.last - self.first)
        pairs = np.unique(np.repeat(number, self.last - self.first) * len(self.order) + spot)
        lost = _sums(
            pairs // len(self.order), self.events[self.order[pairs % len(self.order)]], len(symbols)
        )
        course = self.course[symbols]
        order = np.lexsort((symbols, lost, -unmatched / lost, course))
        winners = order[np.flatnonzero(np.diff(course[order], prepend=-1))]
        return np.asarray(np.isin(number, winners))

    def places(self, chosen: NDArray[np.bool_]) -> Ints:
        """The places that the chosen parts stand at."""
        first, last = self.first[chosen], self.last[chosen]
        return self.order[_ranges(first, last - first)]

    def without(self, matches: Ints) -> "_Parts":
        """The parts of all other matches."""
        left = ~np.isin(self.match, matches)
        return _Parts(
            self.match[left],
            self.symbol[left],
            self.course,
            self.first[left],
            self.last[left],
            self.order,
            self.events,
        )


def _parts(level: Level, matches: Ints, courses: Courses) -> _Parts:
    """The parts of ``matches``; where knowledge names a symbol twice, the part that costs fewer
    events.
    """
    places, symbols = len(courses.symbol), int(courses.symbol.max(initial=0)) + 1
    own = courses.course * symbols + courses.symbol
    order = np.lexsort((np.arange(places), own))
    distinct, number = np.unique(own, return_inverse=True)
    stands = number[order] * (places + 1) + order
    known, course = level.known[level.group[matches]], level.course[matches]
    size = known.shape[1]
    late = np.full(len(matches), places)
    found: list[tuple[Ints, Ints, Ints]] = []
    for step in reversed(range(size)):
        symbol = np.searchsorted(distinct, course * symbols + known[:, step])
        after = level.at[matches, step - 1] + 1 if step else np.zeros(len(matches), np.int64)
        first = np.searchsorted(stands, symbol * (places + 1) + after)
        last = np.searchsorted(stands, symbol * (places + 1) + late)
        late = order[last - 1]
        found.append((symbol, first, last))
    symbol, first, last = (np.concatenate([part[column] for part in found]) for column in range(3))
    match = np.tile(matches, size)
    behind = np.concatenate([[0], np.cumsum(courses.events[order])])
    cheapest = np.lexsort((behind[last] - behind[first], symbol, match))
    repeated = (np.diff(match[cheapest], prepend=-1) == 0) & (
        np.diff(symbol[cheapest], prepend=-1) == 0
    )
    kept = cheapest[~repeated]
    return _Parts(
        match[kept],
        symbol[kept],
        distinct // symbols,
        first[kept],
        last[kept],
        order,
        courses.events,
    )


def _spread(rows: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """For each of ``rows`` all its items ``offsets[row]:offsets[row + 1]``: (position in ``rows``,
    item), in order.
    """
    width = offsets[rows + 1] - offsets[rows]
    if width.sum() > MOST_MATCHES:
        raise TooManyMatches
    return np.repeat(np.arange(len(rows)), width), _ranges(offsets[rows], width)


def _ranges(first: Ints, width: Ints) -> Ints:
    """The numbers ``first[i]``, ..., ``first[i] + width[i] - 1`` for each i, one range after the
    other.
    """
    ends = np.cumsum(width)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(first - (ends - width), width), np.int64)


def _sums(group: Ints, weight: Ints, groups: int) -> Ints:
    """The sum of ``weight`` for each group: int64, shape (groups,)."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, weight)
    return total
