"""Behavioural rules: which activities always or never follow or precede which; how many of them an extension breaks.

A rule reads as a sentence: ("Discharge", "always follows", "Register"). What no rule speaks of may happen sometimes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cloakwork.mechanisms.variants.tree import Candidates, Codes, Courses

Relation = Literal["always follows", "never follows", "never directly follows", "always precedes", "never precedes"]
Rule = tuple[str, Relation, str]


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Rules over coded activities, as tables of 0 and 1; A activities, and code A for the start (rows) and the END (columns).

    - ``never_after`` (A, A): the column's activity never comes after the row's.
    - ``needs`` (A, A): the row's activity never comes unless the column's came before.
    - ``owes`` (A, A): no case ends unless the column's activity came after the row's last one.
    - ``not_next`` (A + 1, A + 1): the column's never comes directly after the row's.
    """

    never_after: Codes
    needs: Codes
    owes: Codes
    not_next: Codes

    @classmethod
    def of(cls, rules: Sequence[Rule], alphabet: Sequence[str]) -> "RuleBook":
        """The rules over ``alphabet``, which holds every activity that they name."""
        code, size = {label: place for place, label in enumerate(alphabet)}, len(alphabet)
        never_after, needs, owes = (np.zeros((size, size), np.int64) for _ in range(3))
        not_next = np.zeros((size + 1, size + 1), np.int64)
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
        return cls(never_after, needs, owes, not_next)

    @classmethod
    def of_steps(cls, allowed: NDArray[np.bool_]) -> "RuleBook":
        """The rules that no step but the ``allowed`` (A + 1, A + 1) ever happens."""
        nothing = np.zeros((len(allowed) - 1,) * 2, np.int64)
        return cls(nothing, nothing, nothing, (~allowed).astype(np.int64))

    def broken(self, candidates: Candidates) -> Codes:
        """How many rules each candidate breaks by what it appends, for the first time or again: int64."""
        prefixes, size = len(candidates.paths), len(self.needs)
        last_place = np.full((prefixes, size), -1, np.int64)
        for place, codes in enumerate(candidates.paths.T):
            last_place[np.arange(prefixes), codes] = place
        seen = (last_place >= 0).astype(np.int64)
        last = candidates.paths[:, -1] if candidates.depth else np.full(prefixes, size)
        found = self.not_next[last].copy()
        found[:, :size] += seen @ self.never_after + (1 - seen) @ self.needs.T
        for a, b in np.argwhere(self.owes):
            found[:, size] += (last_place[:, a] >= 0) & (last_place[:, a] >= last_place[:, b])
        return np.asarray(found[candidates.parent, candidates.symbol])


def steps_of(courses: Courses, length: int, letters: int) -> Codes:
    """How many cases take each step at least once: int64 (A + 1, A + 1), the start and the END being steps too.

    A case is cut after ``length`` events, without its END, so that it takes at most ``length + 1`` different steps.
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
    counts = np.bincount(step, weights=courses.cases[row], minlength=(letters + 1) ** 2)
    return counts.astype(np.int64).reshape(letters + 1, letters + 1)
