"""Sequences matched with the cases of a log, and their events with the events of these.

Everything here looks at a raw log: it is for what is only published.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.progress import say
from cloakwork.kernel import Cases, Randomness
from cloakwork.log.sequences import position_to_code

_AT_ONCE: Final = 64
"""Sequences whose distances to all others are held at once."""


@dataclass(frozen=True, slots=True)
class DistinctCases:
    """The distinct sequences of ``cases``: ``first``, a case of each; ``of_case``, which of them a
    case follows; all int64.
    """

    cases: Cases
    first: Ints
    of_case: Ints

    @classmethod
    def of(cls, cases: Cases) -> "DistinctCases":
        """In the order in which they first occur."""
        rows: dict[bytes, int] = {}
        first: list[int] = []
        of_case = np.empty(len(cases), np.int64)
        bounds = cases.offsets.tolist()
        for case in range(len(cases)):
            row = rows.setdefault(cases.codes[bounds[case] : bounds[case + 1]].tobytes(), len(rows))
            if row == len(first):
                first.append(case)
            of_case[case] = row
        return cls(cases, np.array(first, np.int64), of_case)

    @property
    def counts(self) -> Ints:
        """How many cases follow each."""
        return np.bincount(self.of_case, minlength=len(self.first)).astype(np.int64)

    def texts(self) -> list[str]:
        """Each sequence with one character for an activity, by its place in the alphabet."""
        places = range(len(self.cases.alphabet))
        letters = np.array([position_to_code(place) for place in places], "<u4")
        bounds = self.cases.offsets.tolist()
        return [
            letters[self.cases.codes[bounds[case] : bounds[case + 1]]].tobytes().decode("utf-32-le")
            for case in self.first.tolist()
        ]


def matched_cases(made: Cases, source: Cases, random: Randomness) -> Ints:
    """For each case of ``made`` one of ``source``, each of which is taken once; -1 for those that
    are left over. Both are coded by one alphabet.

    Cases of the same sequence first; then each sequence, in random order, takes the nearest ones
    that are left, by edit distance: the greedy form of the assignment, whose optimum is cubic.
    """
    new, old = DistinctCases.of(made), DistinctCases.of(source)
    required, left = new.counts, old.counts
    texts = old.texts()
    place = {text: row for row, text in enumerate(texts)}
    new_texts = new.texts()
    taken: list[tuple[int, int, int]] = []

    def take(one: int, other: int) -> None:
        number = int(min(required[one], left[other]))
        required[one] -= number
        left[other] -= number
        taken.append((one, other, number))

    for one, text in enumerate(new_texts):
        if text in place:
            take(one, place[text])
    unmatched = random.permutation(len(new_texts))
    unmatched = unmatched[required[unmatched] > 0]
    say(f"matching {len(unmatched):,} sequences with the nearest of {len(texts):,}")
    for start in range(0, len(unmatched), _AT_ONCE):
        if not left.any():
            break
        rows = unmatched[start : start + _AT_ONCE]
        distances = _distances([new_texts[row] for row in rows], texts)
        for row, distance in zip(rows.tolist(), distances, strict=True):
            while required[row] and left.any():
                nearest = int(np.argmin(np.where(left > 0, distance, np.iinfo(np.int32).max)))
                take(row, nearest)
    return _pairs_of(new, old, taken)


def _distances(rows: list[str], columns: list[str]) -> Ints:
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    return np.asarray(process.cdist(rows, columns, scorer=Levenshtein.distance, dtype=np.int32))


def _pairs_of(new: DistinctCases, old: DistinctCases, taken: list[tuple[int, int, int]]) -> Ints:
    """Which case of a sequence goes with which of another, where ``taken`` of them (new, old, how
    many) go together.
    """
    found = np.full(len(new.of_case), -1)
    of_new, of_old = (np.argsort(side.of_case, kind="stable") for side in (new, old))
    at_new, at_old = (np.cumsum(side.counts) - side.counts for side in (new, old))
    for one, other, number in taken:
        rows = of_new[at_new[one] : at_new[one] + number]
        found[rows] = of_old[at_old[other] : at_old[other] + number]
        at_new[one] += number
        at_old[other] += number
    return found


def matched_events(made: Cases, source: Cases, case: Ints, random: Randomness) -> Ints:
    """For each event of ``made`` one of ``source`` with the same activity, which must occur there:
    of the case that ``case`` matches with its own, the first that is not taken yet; where there is
    none, any.
    """
    letters = len(made.alphabet)
    group = source.case_of * letters + source.codes
    by_group = np.argsort(group, kind="stable")
    sorted_groups = group[by_group]
    with_case = case[made.case_of]
    required = with_case * letters + made.codes
    first = np.searchsorted(sorted_groups, required)
    place = first + _turns(made.case_of * letters + made.codes)
    ends = np.searchsorted(sorted_groups, required, side="right")
    found: Bools = (place < ends) & (with_case >= 0)
    event = np.full(len(made.codes), -1)
    event[found] = by_group[place[found]]
    by_code = np.argsort(source.codes, kind="stable")
    begins = np.searchsorted(source.codes[by_code], np.arange(letters + 1))
    codes = made.codes[~found]
    event[~found] = by_code[begins[codes] + random.uniform(np.diff(begins)[codes])]
    return event


def _turns(group: Ints) -> Ints:
    """How often each value stands before in ``group``."""
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    turns = np.empty(len(group), np.int64)
    turns[order] = np.arange(len(group)) - np.searchsorted(grouped, grouped)
    return turns
