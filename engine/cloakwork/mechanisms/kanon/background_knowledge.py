"""Background knowledge: what an attacker may know of a case, and how many cases match it.

A *candidate* is a short sequence of symbols that an attacker may know. A case matches a candidate
if the candidate is a subsequence of what can be known of the case (its symbols need not follow each
other directly). All four kinds of background knowledge come down to that: a set or a multiset of
activities is a subsequence of the sorted activities.

Candidates of size n + 1 are candidates of size n with one symbol more at the end. Each prefix of a
candidate matches wherever the candidate does, so this finds all of them, in every order of their
symbols. (Rafiei and others join candidates of equal prefixes in one order only, and miss some.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints

MOST_MATCHES: Final = 30_000_000
"""How many pairs of candidate and sequence are held at once; about 3 GB."""


class TooManyMatches(Exception):
    """There are more than ``MOST_MATCHES`` pairs of candidate and sequence."""


@dataclass(frozen=True, slots=True)
class KnownSequences:
    """What can be known of cases: distinct sequences of symbols, end to end.

    - ``symbols``: int64, shape (places,); at least 0.
    - ``sequence_of``: int64, shape (places,); the sequence of each place, ascending.
    - ``events_lost``: int64, shape (places,); how many events of a case are suppressed with the
      place.
    """

    symbols: Ints
    sequence_of: Ints
    events_lost: Ints

    def restricted_to(self, places: Ints) -> "KnownSequences":
        """What is left of the sequences at ``places`` (int64, ascending)."""
        return KnownSequences(
            self.symbols[places], self.sequence_of[places], self.events_lost[places]
        )

    @property
    def starts(self) -> Ints:
        """The first place of each sequence that has one: int64, ascending."""
        return np.flatnonzero(np.diff(self.sequence_of, prepend=-1))

    @property
    def symbol_bound(self) -> int:
        """A number above all symbols."""
        return int(self.symbols.max(initial=0)) + 1


@dataclass(frozen=True, slots=True)
class SequenceCases:
    """The cases of each sequence, one row for those that are alike in unit and values.

    - ``offsets``: int64, shape (sequences + 1,); the rows of each sequence.
    - ``cases``: int64, shape (rows,); how many cases.
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
class KnowledgeLevel:
    """All candidates of one size that some sequence matches.

    - ``candidates``: int64, shape (candidates, size); the symbols of each.
    - ``candidate``, ``sequence``: int64, shape (matches,); which candidate is matched by which
      sequence, each pair once.
    - ``match_places``: int64, shape (matches, size); the earliest places of the candidate's symbols
      in the sequence.
    """

    candidates: Ints
    candidate: Ints
    sequence: Ints
    match_places: Ints


def knowledge_levels(sequences: KnownSequences, longest: int) -> Iterator[KnowledgeLevel]:
    """All candidates of size 0, 1, ..., ``longest``, shortest first; ends early where there is
    none.

    Time and memory go with the matches: at most (distinct symbols of a sequence)^size for each
    sequence. Raises ``TooManyMatches``.
    """
    start = sequences.starts
    if not len(start):
        return
    occurrences = _FirstOccurrences.of(sequences)
    no_symbols = np.zeros((len(start), 0), np.int64)
    level = KnowledgeLevel(
        candidates=no_symbols[:1],
        candidate=np.zeros(len(start), np.int64),
        sequence=sequences.sequence_of[start],
        match_places=no_symbols,
    )
    yield level
    for _ in range(longest):
        level, start = _extend_by_one_symbol(level, start, sequences, occurrences)
        if not len(level.candidate):
            return
        yield level


@dataclass(frozen=True, slots=True)
class _FirstOccurrences:
    """For every place the first occurrence of each symbol from there on, inside its sequence.

    - From place ``s`` on, these are ``places[first[s]:first[s + 1]]``, ascending. int64; ``first``
      has shape (places + 2,): from one place behind the last, there is none.
    - ``is_last``: bool, shape (places,); whether a place is the last of its sequence.
    """

    first: Ints
    places: Ints
    is_last: Bools

    @classmethod
    def of(cls, sequences: KnownSequences) -> "_FirstOccurrences":
        """Raises ``TooManyMatches``."""
        places = len(sequences.symbols)
        # A place is the first occurrence of its symbol from the place behind the occurrence before
        # it up to itself.
        previous = _previous_same_symbol(sequences)
        width = np.arange(places) - previous
        if width.sum() > MOST_MATCHES:
            raise TooManyMatches
        seen_from = concatenated_ranges(previous + 1, width)
        occurrence = np.repeat(np.arange(places), width)
        by_start = np.argsort(seen_from, kind="stable")
        count = np.bincount(seen_from, minlength=places + 1)
        first = np.concatenate([[0], np.cumsum(count)])
        is_last = np.diff(sequences.sequence_of, append=-1) != 0
        return cls(first, occurrence[by_start], is_last)


def _previous_same_symbol(sequences: KnownSequences) -> Ints:
    """For each place the last one before it in its sequence with the same symbol; where there is
    none, the last place before the sequence: int64, shape (places,).
    """
    symbols, sequence_of = sequences.symbols, sequences.sequence_of
    starts = sequences.starts
    lengths = np.diff(np.append(starts, len(symbols)))
    previous = np.repeat(starts, lengths) - 1
    order = np.lexsort((np.arange(len(symbols)), symbols, sequence_of))
    same_symbol = np.diff(symbols[order]) == 0
    same_sequence = np.diff(sequence_of[order]) == 0
    repeats = same_symbol & same_sequence
    previous[order[1:][repeats]] = order[:-1][repeats]
    return previous


def _extend_by_one_symbol(
    level: KnowledgeLevel, start: Ints, sequences: KnownSequences, occurrences: _FirstOccurrences
) -> tuple[KnowledgeLevel, Ints]:
    """Candidates of one symbol more, and the place from which each of their matches goes on.

    ``start``: int64, shape (matches,); that place for the matches of ``level``.
    """
    first = occurrences.first[start]
    count = occurrences.first[start + 1] - first
    if count.sum() > MOST_MATCHES:
        raise TooManyMatches
    match = np.repeat(np.arange(len(count)), count)
    place = occurrences.places[concatenated_ranges(first, count)]
    # A longer candidate is a pair of a candidate and the symbol behind it.
    bound = sequences.symbol_bound
    pair = level.candidate[match] * bound + sequences.symbols[place]
    distinct, candidate = np.unique(pair, return_inverse=True)
    shorter, symbol = distinct // bound, distinct % bound
    longer = KnowledgeLevel(
        candidates=np.column_stack([level.candidates[shorter], symbol]),
        candidate=candidate.astype(np.int64),
        sequence=level.sequence[match],
        match_places=np.column_stack([level.match_places[match], place]),
    )
    behind_all = len(sequences.symbols)
    return longer, np.where(occurrences.is_last[place], behind_all, place + 1)


def support_and_confidence(level: KnowledgeLevel, cases: SequenceCases) -> tuple[Ints, Floats]:
    """For each candidate of ``level`` the number of distinct units that match it (int64), and the
    largest confidence in one value (float64); both of shape (candidates,).

    Confidence in a value is the share of the matching cases that hold it or, where units own
    several cases, the share of the matching units of which a matching case holds it, whichever is
    more; 0 where no value is held. In the share of units, cases without one are left out, or taken
    for one unit each, whichever gives more. Raises ``TooManyMatches``.
    """
    candidates = len(level.candidates)
    match, row = _expand_rows(level.sequence, cases.offsets)
    candidate = level.candidate[match]
    matching_cases = group_sums(candidate, cases.cases[row], candidates)
    holder, item = _expand_rows(row, cases.value_offsets)
    values = int(cases.value.max(initial=0)) + 1
    held = candidate[holder] * values + cases.value[item]
    weight = cases.cases[row][holder]
    confidence = _largest_share(held, weight, values, matching_cases)
    if cases.unit is None:
        return matching_cases, confidence
    unit = cases.unit[row]
    owners = int(cases.unit.max(initial=0)) + 1
    matching = np.unique(candidate * owners + unit)
    holding = np.unique(held * owners + unit[holder])
    support = np.zeros(candidates, np.int64)
    # Once with every case without a unit as a unit of its own, then without these cases.
    for counted in (owners, cases.units):
        counted_matching = matching[matching % owners < counted]
        counted_holding = holding[holding % owners < counted]
        support = np.bincount(counted_matching // owners, minlength=candidates)
        of_units = _largest_share(
            counted_holding // owners, np.ones_like(counted_holding), values, support
        )
        confidence = np.maximum(confidence, of_units)
    return support, confidence


def _largest_share(held: Ints, weight: Ints, values: int, total: Ints) -> Floats:
    """The largest share that one value has of each candidate's ``total``: float64, like ``total``.

    ``held``: the candidate times ``values`` plus the value, once for each ``weight``.
    """
    distinct, inverse = np.unique(held, return_inverse=True)
    candidate = distinct // values
    share = group_sums(inverse, weight, len(distinct)) / total[candidate]
    largest = np.zeros(len(total))
    np.maximum.at(largest, candidate, share)
    return largest


def _expand_rows(rows: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """For each of ``rows`` all its items ``offsets[row]:offsets[row + 1]``: (position in ``rows``,
    item), in order. Raises ``TooManyMatches``.
    """
    width = offsets[rows + 1] - offsets[rows]
    if width.sum() > MOST_MATCHES:
        raise TooManyMatches
    return np.repeat(np.arange(len(rows)), width), concatenated_ranges(offsets[rows], width)


def concatenated_ranges(first: Ints, width: Ints) -> Ints:
    """The numbers ``first[i]``, ..., ``first[i] + width[i] - 1`` for each i, one range after the
    other: int64.
    """
    ends = np.cumsum(width)
    begins = ends - width
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(first - begins, width), np.int64)


def group_sums(group: Ints, weight: Ints, groups: int) -> Ints:
    """The sum of ``weight`` for each group: int64, shape (groups,)."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, weight)
    return total
