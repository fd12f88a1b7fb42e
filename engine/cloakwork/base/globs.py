"""Globs over names: ``*`` stands for any characters or none, ``?`` for any one character, all else
for itself.

The one place that knows what a glob matches, whether two overlap, whether one contains another, and
which of several decides about a name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Final, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

WILD: Final = frozenset("*?")

MOST_GLOBS: Final = 100
"""Globs in one list; each is compared with every other."""


def is_glob(name: str) -> bool:
    """Whether a name is a glob; there is no escape, so a name with ``*`` or ``?`` always is."""
    return not WILD.isdisjoint(name)


def matches(glob: str, name: str) -> bool:
    """Whether the whole of ``name`` fits ``glob``; upper and lower case differ, ``[`` and ``]`` are
    literal.

    >>> matches("cost[eur]", "cost[eur]"), matches("cost[eur]", "coste")
    (True, False)
    """
    if not is_glob(glob):
        return glob == name
    return _regular_expression(glob).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _regular_expression(glob: str) -> re.Pattern[str]:
    """The glob as a regular expression.

    What stands between two stars is taken where it is found first and never looked for again (an
    atomic group), so that no name takes more steps than its length times the glob's.
    """
    # ``?`` was escaped with all other characters, so that ``\?`` stands for nothing else.
    first, *others = [re.escape(text).replace(r"\?", ".") for text in glob.split("*")]
    if not others:
        return re.compile(first, re.DOTALL)
    between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    return re.compile(f"{first}{between}.*{others[-1]}", re.DOTALL)


class _GlobPositions(NamedTuple):
    """Where the signs of a glob stand, as bits of a number; a set of positions between its signs is
    a number, too.
    """

    end: int
    stars: int
    any_one: int
    letters: Mapping[str, int]

    def after_nothing(self, reached: int) -> int:
        """The positions, and those behind stars that stand for nothing."""
        return _past_passable(reached, self.stars)

    def after_letter(self, reached: int, letter: str) -> int:
        """The positions after one more character; one that stands nowhere in the glob only fits its
        wildcards.
        """
        fits = self.any_one | self.letters.get(letter, 0)
        # A star takes the character and stays; a sign that fits it is passed.
        return self.after_nothing((reached & self.stars) | (reached & fits) << 1)

    def after_any_letter(self, reached: int) -> int:
        """The positions after one more character, whichever fits."""
        # Whatever stands before the end and is no star is passed.
        passed = reached & (self.end - 1) & ~self.stars
        return self.after_nothing((reached & self.stars) | passed << 1)

    def after_anything(self, reached: int) -> int:
        """The positions after any characters or none: whatever is not passed already can still be
        written.
        """
        if not reached:
            return 0
        # From the first position reached (the lowest bit) on, all up to the end.
        return (self.end << 1) - (reached & -reached)

    def after_run(self, reached: int) -> int:
        """The positions after a long run of a character that stands nowhere in the glob; 0 where no
        star can take it.

        Only what begins at the last star that the run leads to counts: what fits behind an earlier
        one fits there, too.
        """
        wild = self.stars | self.any_one
        stars_reached = _past_passable(reached, wild) & self.stars
        if not stars_reached:
            return 0
        last_star = 1 << (stars_reached.bit_length() - 1)
        return _past_passable(last_star, wild)


def _past_passable(reached: int, passable: int) -> int:
    """The positions, and all that lie behind them with only ``passable`` signs between."""
    further = reached | (reached & passable) << 1
    while further != reached:
        reached = further
        further = reached | (reached & passable) << 1
    return reached


@lru_cache(maxsize=1024)
def _positions_of(glob: str) -> _GlobPositions:
    bits: dict[str, int] = {}
    for place, sign in enumerate(glob):
        bits[sign] = bits.get(sign, 0) | 1 << place
    stars = bits.pop("*", 0)
    any_one = bits.pop("?", 0)
    return _GlobPositions(
        1 << len(glob),
        stars,
        any_one,
        bits,
    )


def overlap(one: str, other: str) -> bool:
    """Whether some name fits both globs: a name is built along ``one``, and ``other`` followed in
    all ways it may take.

    >>> overlap("case:*", "*Age"), overlap("a*", "b*")
    (True, False)
    """
    # All ways at once: a set of positions is a number.
    places = _positions_of(other)
    reached = places.after_nothing(1)
    for sign in one:
        if sign == "*":
            reached = places.after_anything(reached)
        elif sign == "?":
            reached = places.after_any_letter(reached)
        else:
            reached = places.after_letter(reached, sign)
    return bool(reached & places.end)


def contains(outer: str, inner: str) -> bool:
    """Whether every name that fits ``inner`` fits ``outer``.

    It is enough to try names in which each ``?`` of ``inner`` is a character found in neither glob,
    and each ``*`` either nothing or a run of such characters longer than ``outer``: no literal part
    of ``outer`` reaches across such a run, so where nothing and the long run both fit, all shorter
    runs do. After a long run only the last star of ``outer`` that can have met it counts; of
    several ways to get there, the one that got least far (the smaller number, as these sets are
    identified by where they begin). So few sets need to be followed.

    >>> contains("case:*", "case:diag*"), contains("a*", "*b"), contains("?*", "*")
    (True, False, False)
    """
    places = _positions_of(outer)
    ways = {places.after_nothing(1)}
    for sign in inner:
        if sign != "*":
            ways = {places.after_letter(way, "" if sign == "?" else sign) for way in ways}
            continue
        # The ways so far are those where the star is nothing; a long run adds one.
        ways.add(min(places.after_run(way) for way in ways))
    return all(way & places.end for way in ways)


def clashes(rules: Mapping[str, object]) -> Iterator[tuple[str, str, bool]]:
    """Pairs of globs among the keys of ``rules`` of which nothing says which one decides; the later
    one comes first.

    These are two that match the same names (the third value is then True), and two that overlap
    while neither contains the other and their rules differ. Where the rules are equal, it does not
    matter which of them decides.
    """
    for one, other in combinations(filter(is_glob, rules), 2):
        if not overlap(one, other):
            continue
        # Of two that overlap one decides only where it is the smaller.
        above = contains(one, other)
        below = contains(other, one)
        if above and below:
            yield other, one, True
        elif not (above or below) and rules[one] != rules[other]:
            yield other, one, False


Rule = TypeVar("Rule")


class RuleResolver(Generic[Rule]):
    """Which of the names and globs in ``rules`` decides about an attribute: its own name, else the
    smallest glob it fits.

    Of two globs the one that the other contains is the smaller. Between globs of which neither
    contains the other the text decides: ``clashes`` lets a policy have such only where they say the
    same.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        globs = [name for name in rules if is_glob(name)]
        # A glob inside another contains fewer of them, and is asked first.
        inside = {glob: sum(contains(glob, other) for other in globs) for glob in globs}
        self._globs = sorted(globs, key=lambda glob: (inside[glob], glob))

    def name(self, attribute: str) -> str | None:
        """The name or glob that decides about ``attribute``; None where none does."""
        if attribute in self._rules and not is_glob(attribute):
            return attribute
        return next((glob for glob in self._globs if matches(glob, attribute)), None)

    def rule(self, attribute: str) -> Rule | None:
        """What it says."""
        name = self.name(attribute)
        return None if name is None else self._rules[name]

    def rule_of(self, name_or_glob: str) -> Rule | None:
        """What decides about a name, or about all names of a glob: its own entry, else the smallest
        glob around it.
        """
        if name_or_glob in self._rules:
            return self._rules[name_or_glob]
        around = (glob for glob in self._globs if contains(glob, name_or_glob))
        return next((self._rules[glob] for glob in around), None)


def rule_resolver(
    model: BaseModel,
    source: object,
    rules: Callable[[], Mapping[str, Rule]],
) -> RuleResolver[Rule]:
    """The ``RuleResolver`` over ``rules()``, which follow from ``source``, a field of the frozen
    ``model``; made once.

    It is kept beside the model's fields, as a cached property is, and made anew for a copy with
    another ``source``.
    """
    # Past the model's own ``__setattr__``, which refuses, as the model is frozen.
    kept = vars(model).get(_KEPT)
    if kept is None or kept[0] is not source:
        kept = (source, RuleResolver(rules()))
        vars(model)[_KEPT] = kept
    found: RuleResolver[Rule] = kept[1]
    return found


_KEPT: Final = "decisive over its names"
