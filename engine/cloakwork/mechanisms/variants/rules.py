"""Behavioural rules: which activities always or never follow or precede which; how many of them an
extension breaks.

A rule reads as a sentence: ("Discharge", "always follows", "Register"). What no rule speaks of may
happen sometimes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cloakwork.mechanisms.variants.tree import Candidates, Codes, Courses

Relation = Literal[
    "always follows", "never follows", "never directly follows", "always precedes", "never precedes"
]
Rule = tuple[str, Relation, str]


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Stated rules, as tables of 0 and 1 over the n activities that they name; whatever else may
    happen breaks none.

    ``place`` (A + 1,): where an activity's code stands among these; n for the END's, n + 1 for all
    others'.

    - ``never_after`` (n, n): the column's activity never comes after the row's.
    - ``needs`` (n, n): the row's activity never comes unless the column's came before.
    - ``owes`` (n, n): no case ends unless the column's activity came after the row's last one.
    - ``not_next`` (n + 2, n + 2): the column's never comes directly after the row's.
    """

    place: Codes
    never_after: Codes
    needs: Codes
    owes: Codes
    not_next: Codes

    @classmethod
    def of(cls, rules: Sequence[Rule], alphabet: Sequence[str]) -> "RuleBook":
        """The rules over ``alphabet``, which holds every activity that they name."""
        named = dict.fromkeys(label for one, _, other in rules for label in (one, other))
        code, size = {label: place for place, label in enumerate(named)}, len(named)
        never_after, needs, owes = (np.zeros((size, size), np.int64) for _ in range(3))
        not_next = np.zeros((size + 2, size + 2), np.int64)
        for one, relation, other in rules:
            a, b = code[one], code[other]
            match relation:
                case "always follows":
                    owes[b, a] = 1
                case "never follows":
                    never_after[b, a] = 1
                case "never directly follows":
                    not_next[b, a] = 1
                case "always precedes":
                    needs[b, a] = 1
                case "never precedes":
                    never_after[a, b] = 1
        place = np.array([*(code.get(label, size + 1) for label in alphabet), size], np.int64)
        return cls(place, never_after, needs, owes, not_next)

    def broken(self, candidates: Candidates) -> Codes:
        """How many rules each candidate breaks by what it appends, for the first time or again:
        int64.
        """
        paths, size = self.place[candidates.paths], len(self.needs)
        rows = np.arange(len(paths))
        last_place = np.full((len(paths), size + 2), -1, np.int64)
        for place, codes in enumerate(paths.T):
            last_place[rows, codes] = place
        seen = (last_place[:, :size] >= 0).astype(np.int64)
        found = self.not_next[
            paths[:, -1] if candidates.depth else np.full(len(paths), size + 1)
        ].copy()
        found[:, :size] += seen @ self.never_after + (1 - seen) @ self.needs.T
        for a, b in np.argwhere(self.owes):
            found[:, size] += (last_place[:, a] >= 0) & (last_place[:, a] >= last_place[:, b])
        return np.asarray(found[candidates.parent, self.place[candidates.symbol]])


@dataclass(frozen=True, slots=True)
class KnownSteps:
    """The one rule that no step but the ``allowed`` ever happens: their codes, ascending, as
    ``steps_taken`` has them.
    """

    allowed: Codes
    letters: int

    def broken(self, candidates: Candidates) -> Codes:
        """1 for each candidate that appends what does not directly follow, else 0: int64."""
        start = np.full(len(candidates.paths), self.letters)
        last = candidates.paths[:, -1] if candidates.depth else start
        step = last[candidates.parent] * (self.letters + 1) + candidates.symbol
        return (~np.isin(step, self.allowed)).astype(np.int64)


def steps_taken(courses: Courses, length: int, letters: int) -> tuple[Codes, Codes]:
    """The steps that occur, ascending, and how many cases take each at least once: int64, both of
    one shape.

    A step from code a to code b is a * (A + 1) + b; A is the start (before) and the END (after),
    which are steps too. A case is cut after ``length`` events, without its END, so that it takes at
    most ``length + 1`` different steps.
    """
    steps = []
    rows = np.arange(len(courses.cases))
    lengths = np.diff(courses.offsets)
    before = np.full(len(rows), letters)
    for depth in range(min(length + 1, int(lengths.max(initial=0)) + 1)):
        rows, before = rows[lengths[rows] >= depth], before[lengths[rows] >= depth]
        after = courses.after(rows, depth, letters)
        counted = (after == letters) | (depth < length)
        steps.append(((rows * (letters + 1) + before) * (letters + 1) + after)[counted])
        before = after
    distinct = np.unique(np.concatenate(steps)) if steps else np.empty(0, np.int64)
    row, step = np.divmod(distinct, (letters + 1) ** 2)
    codes, place = np.unique(step, return_inverse=True)
    return codes, np.bincount(place, weights=courses.cases[row], minlength=len(codes)).astype(
        np.int64
    )


def steps_of(courses: Courses, length: int, letters: int) -> Codes:
    """How many cases take each step, whether it occurs or not: int64 (A + 1, A + 1), the layout of
    ``steps_taken``.
    """
    counts = np.zeros((letters + 1) ** 2, np.int64)
    codes, cases = steps_taken(courses, length, letters)
    counts[codes] = cases
    return counts.reshape(letters + 1, letters + 1)
