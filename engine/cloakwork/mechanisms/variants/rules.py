"""Behavioural rules: which activities always or never follow or precede which; how many of them an
extension breaks.

A rule reads as a sentence: ("Discharge", "always follows", "Register"). What no rule speaks of may
happen sometimes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cloakwork.arrays import Ints
from cloakwork.mechanisms.variants.tree import Candidates, CodedVariants

Relation = Literal[
    "always follows", "never follows", "never directly follows", "always precedes", "never precedes"
]
Rule = tuple[str, Relation, str]


@dataclass(frozen=True, slots=True)
class BehaviouralRules:
    """Stated rules, as tables of 0 and 1 over the n activities that they name; whatever else may
    happen breaks none.

    ``place`` (A + 1,): where an activity's code stands among these; n for the END's, n + 1 for all
    others'.

    - ``never_after`` (n, n): the column's activity never comes after the row's.
    - ``required_before`` (n, n): the row's activity never comes unless the column's came before.
    - ``required_after`` (n, n): no case ends unless the column's activity came after the row's last
      one.
    - ``never_directly_after`` (n + 2, n + 2): the column's never comes directly after the row's.
    """

    place: Ints
    never_after: Ints
    required_before: Ints
    required_after: Ints
    never_directly_after: Ints

    @classmethod
    def from_rules(cls, rules: Sequence[Rule], alphabet: Sequence[str]) -> "BehaviouralRules":
        """The rules over ``alphabet``, which holds every activity that they name."""
        named = dict.fromkeys(label for left, _, right in rules for label in (left, right))
        size = len(named)
        place_of = {label: place for place, label in enumerate(named)}
        end, others = size, size + 1
        places = [place_of.get(label, others) for label in alphabet]
        found = cls(
            place=np.array([*places, end], np.int64),
            never_after=np.zeros((size, size), np.int64),
            required_before=np.zeros((size, size), np.int64),
            required_after=np.zeros((size, size), np.int64),
            never_directly_after=np.zeros((size + 2, size + 2), np.int64),
        )
        for left, relation, right in rules:
            a, b = place_of[left], place_of[right]
            match relation:
                case "always follows":
                    found.required_after[b, a] = 1
                case "never follows":
                    found.never_after[b, a] = 1
                case "never directly follows":
                    found.never_directly_after[b, a] = 1
                case "always precedes":
                    found.required_before[b, a] = 1
                case "never precedes":
                    found.never_after[a, b] = 1
        return found

    def count_violations(self, candidates: Candidates) -> Ints:
        """How many rules each candidate breaks by what it appends, for the first time or again:
        int64.
        """
        size = len(self.required_before)
        end, others = size, size + 1
        paths = self.place[candidates.paths]
        rows = np.arange(len(paths))
        # Where each path has each activity last; -1 where it has not. Later events overwrite.
        last_place = np.full((len(paths), size + 2), -1, np.int64)
        for place, activities in enumerate(paths.T):
            last_place[rows, activities] = place
        seen = (last_place[:, :size] >= 0).astype(np.int64)
        # Before the first event stands nothing that a rule names.
        before = paths[:, -1] if candidates.depth else np.full(len(paths), others)
        broken = self.never_directly_after[before].copy()
        # Products of 0-1 matrices count: for each path and next activity the rules it breaks.
        broken[:, :size] += seen @ self.never_after
        broken[:, :size] += (1 - seen) @ self.required_before.T
        for a, b in np.argwhere(self.required_after):
            # Ending here breaks the rule where b did not come after the last a.
            last_a, last_b = last_place[:, a], last_place[:, b]
            broken[:, end] += (last_a >= 0) & (last_a >= last_b)
        return np.asarray(broken[candidates.parent, self.place[candidates.symbol]])


@dataclass(frozen=True, slots=True)
class AllowedSteps:
    """The one rule that no step but the ``allowed`` ever happens: their codes, ascending, as
    ``occurring_steps`` has them.
    """

    allowed: Ints
    letters: int

    def count_violations(self, candidates: Candidates) -> Ints:
        """1 for each candidate that appends what does not directly follow, else 0: int64."""
        start = np.full(len(candidates.paths), self.letters)
        last = candidates.paths[:, -1] if candidates.depth else start
        step = last[candidates.parent] * (self.letters + 1) + candidates.symbol
        return (~np.isin(step, self.allowed)).astype(np.int64)


def occurring_steps(variants: CodedVariants, length: int, letters: int) -> tuple[Ints, Ints]:
    """The steps that occur, ascending, and how many cases take each at least once: int64, both of
    one shape.

    A step from code a to code b is a * (A + 1) + b; A is the start (before) and the END (after),
    which are steps too. A case is cut after ``length`` events, without its END, so that it takes at
    most ``length + 1`` different steps.
    """
    end = letters
    width = letters + 1
    steps = []
    rows = np.arange(len(variants.cases))
    lengths = np.diff(variants.offsets)
    # The start has the END's code.
    before = np.full(len(rows), end)
    longest = int(lengths.max(initial=0))
    for depth in range(min(length, longest) + 1):
        going = lengths[rows] >= depth
        rows, before = rows[going], before[going]
        after = variants.next_code(rows, depth, end)
        # At full length only an END still counts.
        counted = (after == end) | (depth < length)
        step = before * width + after
        of_variant = rows * width**2 + step
        steps.append(of_variant[counted])
        before = after
    # A step that a variant takes twice counts once.
    distinct = np.unique(np.concatenate(steps))
    row, step = np.divmod(distinct, width**2)
    codes, place = np.unique(step, return_inverse=True)
    cases = np.bincount(place, weights=variants.cases[row], minlength=len(codes))
    return codes, cases.astype(np.int64)


def count_steps(variants: CodedVariants, length: int, letters: int) -> Ints:
    """How many cases take each step, whether it occurs or not: int64 (A + 1, A + 1), the layout of
    ``occurring_steps``.
    """
    width = letters + 1
    counts = np.zeros(width**2, np.int64)
    codes, cases = occurring_steps(variants, length, letters)
    counts[codes] = cases
    return counts.reshape(width, width)
