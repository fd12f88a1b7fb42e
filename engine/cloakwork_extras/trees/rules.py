"""Behavioural rules: which activities always or never follow or precede which; how many of them an
extension breaks.

A rule reads as a sentence: ("Discharge", "always follows", "Register"). What no rule speaks of may
happen sometimes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.kernel import AnswerNoise, Cases, Clip, Entries, Kernel, NoisySums
from cloakwork_extras.trees.tree import END, Candidates

Relation = Literal[
    "always follows", "never follows", "never directly follows", "always precedes", "never precedes"
]
Rule = tuple[str, Relation, str]


@dataclass(frozen=True, slots=True)
class BehaviouralRules:
    """Stated rules, as tables of 0 and 1 over the n activities that they name; whatever else may
    happen breaks none.

    ``named``: these activities; in the tables, the END has the place n behind them, and all others
    n + 1.

    - ``never_after`` (n, n): the column's activity never comes after the row's.
    - ``required_before`` (n, n): the row's activity never comes unless the column's came before.
    - ``required_after`` (n, n): no case ends unless the column's activity came after the row's last
      one.
    - ``never_directly_after`` (n + 2, n + 2): the column's never comes directly after the row's.
    """

    named: tuple[str, ...]
    never_after: Ints
    required_before: Ints
    required_after: Ints
    never_directly_after: Ints

    @classmethod
    def from_rules(cls, rules: Sequence[Rule]) -> "BehaviouralRules":
        """The rules as tables."""
        named = dict.fromkeys(label for left, _, right in rules for label in (left, right))
        size = len(named)
        place_of = {label: place for place, label in enumerate(named)}
        found = cls(
            named=tuple(named),
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
        size = len(self.named)
        end, others = size, size + 1
        place_of = {label: place for place, label in enumerate(self.named)}
        # The END's code, -1, is the last entry's.
        codes = [place_of.get(label, others) for label in candidates.labels]
        place = np.array([*codes, end], np.int64)
        paths = place[candidates.paths]
        rows = np.arange(len(paths))
        # Where each path has each activity last; -1 where it has not. Later events overwrite.
        last_place = np.full((len(paths), size + 2), -1, np.int64)
        for position, activities in enumerate(paths.T):
            last_place[rows, activities] = position
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
        return np.asarray(broken[candidates.parent, place[candidates.symbol]])


_BEGINS, _GOES_ON, _ENDS = range(3)
"""What kind of step the labels in a key are: the first activity, two in a row, the last one."""


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """The one rule that nothing but the steps of the process ever happens: those whose noisy counts
    reach ``least``.

    ``counts`` as ``measure_steps`` makes them, ``declared``: over an alphabet.
    """

    counts: NoisySums
    least: int
    declared: bool

    def count_violations(self, candidates: Candidates) -> Ints:
        """1 for each candidate that appends what does not directly follow, else 0: int64."""
        start = np.full(len(candidates.paths), END)
        last = candidates.paths[:, -1] if candidates.depth else start
        width = len(candidates.labels) + 1
        # Start and END have the last code, the activities their own.
        step = last[candidates.parent] % width * width + candidates.symbol % width
        distinct, place = np.unique(step, return_inverse=True)
        if self.declared:
            noisy = self.counts.at(distinct)
        else:
            steps = [divmod(each, width) for each in distinct.tolist()]
            keys = [_step_key(before, after, candidates.labels) for before, after in steps]
            noisy = self.counts.at_labels(keys)
        return (noisy < self.least).astype(np.int64)[place]


def _step_key(before: int, after: int, labels: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """The key of a step between two codes, of which that behind all labels is the start's and the
    END's.
    """
    if before == len(labels):
        return _BEGINS, (labels[after],)
    if after == len(labels):
        return _ENDS, (labels[before],)
    return _GOES_ON, (labels[before], labels[after])


def measure_steps(
    kernel: Kernel, noise: AnswerNoise, length: int, alphabet: tuple[str, ...] | None
) -> NoisySums:
    """How many cases take each step at least once, with noise, read as steps are asked for.

    Over A activities of an ``alphabet``, others being passed over, a step from code a to code b has
    the key a * (A + 1) + b; A is the start (before) and the END (after), which are steps too.
    Without one its key is made of labels (``_step_key``). A case is cut after ``length`` events,
    without its END, so that it takes at most ``length + 1`` different steps.
    """
    clip = Clip("max", 1, length + 1)

    def steps_of_labels(cases: Cases) -> Entries:
        case, before, after = _steps_of(cases, length)
        kind = np.where(after < 0, _ENDS, np.where(before < 0, _BEGINS, _GOES_ON))
        start = np.where(before < 0, after, before)
        stop = np.where(after < 0, before, after) + 1
        return Entries(case, np.ones(len(case), np.int64), kind, start, stop)

    if alphabet is None:
        return kernel.sum(steps_of_labels, noise, clip)
    end = len(alphabet)

    def steps_of_codes(cases: Cases) -> Entries:
        known = cases.within(alphabet)
        case, before, after = _steps_of(known, length)
        # Where there is no event, its place is -1: the code behind all others.
        codes = np.append(known.codes, end)
        return Entries(case, np.ones(len(case), np.int64), codes[before] * (end + 1) + codes[after])

    return kernel.sum(steps_of_codes, noise, clip, keys=(end + 1) ** 2)


def _steps_of(cases: Cases, length: int) -> tuple[Ints, Ints, Ints]:
    """The steps of each case, cut after ``length`` events, each once: the case's row, and the
    places of the events before and after the step, -1 for the start and the END.
    """
    after = np.flatnonzero(cases.place < length)
    before = np.where(cases.place[after] == 0, -1, after - 1)
    # A case without events is no case.
    ended = np.flatnonzero((cases.lengths > 0) & (cases.lengths <= length))
    case = np.concatenate([cases.case_of[after], ended])
    before = np.concatenate([before, cases.offsets[ended + 1] - 1])
    after = np.concatenate([after, np.full(len(ended), -1)])
    # Once is enough; where there is no event, the code is the one behind all others.
    width = len(cases.alphabet) + 1
    codes = np.append(cases.codes, width - 1)
    step = codes[before] * width + codes[after]
    order = np.lexsort((step, case))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(case[order]) != 0) | (np.diff(step[order]) != 0)
    first = order[is_first]
    return case[first], before[first], after[first]
