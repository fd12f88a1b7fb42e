"""Raw variants as the published trees read them: the rules that SaCoFa finds there, and the
extensions that break them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.kernel import Measured


@dataclass(frozen=True, slots=True)
class RawVariants:
    """The variants of a log, coded by the places of their activities among ``labels``: ``codes``
    one after another, ``offsets`` (variants + 1), and ``cases`` of each; all int64.
    """

    labels: tuple[str, ...]
    codes: Ints
    offsets: Ints
    cases: Ints

    @classmethod
    def of(cls, measured: Measured) -> "RawVariants":
        """All variants but that without events."""
        labels = tuple(sorted(measured.cases.alphabet))
        rows = np.flatnonzero(measured.cases.lengths)
        coded = measured.cases.within(labels).take(rows)
        return cls(labels, coded.codes, coded.offsets, measured.counts[rows])

    def next_code(self, rows: Ints, depth: int) -> Ints:
        """What follows the first ``depth`` events of each of ``rows``, all of them that long: an
        activity, or the END, whose code is the one after the last activity's.
        """
        # Where the last variant has ended, there is no code at its place: any will do.
        place = np.minimum(self.offsets[rows] + depth, len(self.codes) - 1)
        has_ended = self.offsets[rows] + depth == self.offsets[rows + 1]
        return np.where(has_ended, len(self.labels), self.codes[place])


@dataclass(frozen=True, slots=True)
class CandidateExtensions:
    """All extensions of the kept ``paths`` (prefixes, depth) by a code (END last), prefix by
    prefix, with raw ``counts``.
    """

    paths: Ints
    counts: Ints
    letters: int

    @property
    def width(self) -> int:
        """How many extensions each path has."""
        return self.letters + 1

    @property
    def path_row(self) -> Ints:
        """The row of ``paths`` that each extends."""
        return np.repeat(np.arange(len(self.paths)), self.width)

    @property
    def symbol(self) -> Ints:
        """What each appends."""
        return np.tile(np.arange(self.width), len(self.paths))


@dataclass(frozen=True, slots=True)
class RawRules:
    """What always or never follows or precedes what in the log, each (A, A) of bool; ``first``:
    which activities begin a case.

    A variant's activity b follows a where it comes after the first a, and precedes it where it
    comes before the last.
    """

    always_after: Bools
    never_after: Bools
    always_before: Bools
    never_before: Bools
    first: Bools

    @classmethod
    def read_off(cls, variants: RawVariants) -> "RawRules":
        """The rules that every variant of the log keeps, nearly: rules of precedence are broken by
        some real prefixes.
        """
        letters = len(variants.labels)
        # The row of each event's variant, and the event's position there.
        row = np.repeat(np.arange(len(variants.cases)), np.diff(variants.offsets))
        position = np.arange(len(variants.codes)) - variants.offsets[row]
        shape = (len(variants.cases), letters)
        order = ActivityOrder.from_events(row, variants.codes, position, shape)
        always_after = np.ones((letters, letters), bool)
        never_after, always_before, never_before = (always_after.copy() for _ in range(3))
        for a in range(letters):
            occurs = order.occurs(a)
            followers = order.after(a)[occurs]
            always_after[a] = followers.all(axis=0)
            never_after[a] = ~followers.any(axis=0)
            predecessors = order.before(a)[occurs]
            always_before[a] = predecessors.all(axis=0)
            never_before[a] = ~predecessors.any(axis=0)
        first_events = variants.codes[variants.offsets[:-1]]
        begins = np.zeros(letters, bool)
        begins[first_events] = True
        return cls(always_after, never_after, always_before, never_before, begins)

    def count_violations(self, found: CandidateExtensions) -> Ints:
        """How many rules each extension breaks, over the whole of its path; the first events are
        judged by ``first`` alone.
        """
        letters, symbol = found.letters, found.symbol
        if found.paths.shape[1] == 0:
            end_breaks_one = 1
            return np.append((~self.first).astype(np.int64), end_breaks_one)
        ended = symbol == letters
        path_row = found.path_row
        # An END appends nothing: it stands as its path's first activity, at the place where that
        # is.
        appended = np.where(ended, found.paths[path_row, 0], symbol)
        paths = np.concatenate([found.paths[path_row], appended[:, None]], axis=1)
        position = np.tile(np.arange(paths.shape[1]), (len(paths), 1))
        position[ended, -1] = 0
        row = np.repeat(np.arange(len(paths)), paths.shape[1])
        shape = (len(paths), letters)
        order = ActivityOrder.from_events(row, paths.ravel(), position.ravel(), shape)
        violations = np.zeros(len(paths), np.int64)
        for a in range(letters):
            after, before = order.after(a), order.before(a)
            faults = (after & self.never_after[a]).sum(axis=1)
            # What always follows may still come, until the case has ended.
            faults += (~after & self.always_after[a]).sum(axis=1) * ended
            faults += (before & self.never_before[a]).sum(axis=1)
            faults += (~before & self.always_before[a]).sum(axis=1)
            violations += faults * order.occurs(a)
        return violations


_ABSENT: Final = 1 << 30
"""A first place behind all others: of an activity that a sequence does not have."""


@dataclass(frozen=True, slots=True)
class ActivityOrder:
    """Where each of A activities stands first and last in each of n sequences: int64, shape (n, A);
    ``_ABSENT`` and -1 where it does not.
    """

    first: Ints
    last: Ints

    @classmethod
    def from_events(
        cls, row: Ints, code: Ints, position: Ints, shape: tuple[int, int]
    ) -> "ActivityOrder":
        """From the sequence, the activity and the position of each event; ``shape``: (n, A)."""
        first, last = np.full(shape, _ABSENT), np.full(shape, -1)
        np.minimum.at(first, (row, code), position)
        np.maximum.at(last, (row, code), position)
        return cls(first, last)

    def occurs(self, a: int) -> Bools:
        """Which sequences (n,) hold activity a."""
        return np.asarray(self.first[:, a] < _ABSENT)

    def after(self, a: int) -> Bools:
        """Which activities (n, A) come after the first a."""
        return np.asarray(self.last > self.first[:, [a]])

    def before(self, a: int) -> Bools:
        """Which activities (n, A) come before the last a."""
        return np.asarray(self.first < self.last[:, [a]])
