"""Globs over names: ``*`` stands for any characters or none, ``?`` for any one character, all else
for itself.

The one place that knows what a glob matches, whether two overlap, whether one contains another, and
which of several decides about a name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Final, Generic, TypeVar

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
def _regular_expression(
    glob: str,
    letter: str = "{}",
    any_one: str = ".",
    skipped: str = "",
) -> re.Pattern[str]:
    """The glob as a regular expression; ``letter`` and ``any_one`` say what stands for one sign,
    ``skipped`` what may stand before each character that a ``?`` beside a star asks for.

    What stands between two stars is taken where it is found first and never looked for again (an
    atomic group), so that no name takes more steps than its length times the glob's.
    """

    def expression(signs: re.Match[str]) -> str:
        text = signs[0]
        if "*" in text:
            return f"){f'{skipped}{any_one}' * text.count('?')}(?>.*?"
        return any_one * len(text) if is_glob(text) else letter.format(re.escape(text))

    # Wildcards beside each other are read at once: ``*?`` is ``?*``.
    expressions = re.sub(r"[*?]+|[^*?]", expression, glob)
    return re.compile(rf"(?>{expressions}\Z)", re.DOTALL)


def overlap(one: str, other: str) -> bool:
    """Whether some name fits both globs.

    Where both have a star, either's star takes what the other asks for between its first and last
    one, so only the beginnings and the ends have to agree.

    >>> overlap("case:*", "*Age"), overlap("a*", "b*")
    (True, False)
    """
    if "*" in one and "*" in other:
        beginnings = zip(one.partition("*")[0], other.partition("*")[0], strict=False)
        ends = zip(
            reversed(one.rpartition("*")[2]), reversed(other.rpartition("*")[2]), strict=False
        )
        return all(a == b or "?" in (a, b) for a, b in (*beginnings, *ends))
    wild, plain = (one, other) if "*" in one else (other, one)
    # A ``?`` of the one without a star becomes whichever letter the other asks for.
    return _regular_expression(wild, letter="[{}?]").fullmatch(plain) is not None


def contains(outer: str, inner: str) -> bool:
    """Whether every name that fits ``inner`` fits ``outer``.

    The signs of ``inner`` are read as a name: its ``?`` is a character that only wildcards of
    ``outer`` fit, and its ``*`` one that only a star takes, for it may be nothing. A ``?`` beside a
    star of ``outer`` asks for one more character, whatever stars of ``inner`` stand before it.

    >>> contains("case:*", "case:diag*"), contains("a*", "*b"), contains("?*", "*a")
    (True, False, True)
    """
    counted = _regular_expression(outer, any_one=r"[^*]", skipped=r"\**")
    return counted.fullmatch(inner) is not None


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
