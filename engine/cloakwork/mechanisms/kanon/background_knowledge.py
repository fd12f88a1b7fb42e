"""Background knowledge: what an attacker may know of a case, how many cases match it, and which
events to suppress so that none does.

A *candidate* is a short sequence of symbols that an attacker may know. A case matches a candidate
if the candidate is a subsequence of what can be known of the case (its symbols need not follow each
other directly). All four kinds of background knowledge come down to that: a set or a multiset of
activities is a subsequence of the sorted activities.

Candidates of size n + 1 are candidates of size n with one symbol more at the end. Each prefix of a
candidate matches wherever the candidate does, so this finds all of them, in every order of their
symbols. (Rafiei and others join candidates of equal prefixes in one order only, and miss some.)
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from cloakwork.base.arrays import (
    Bools,
    Floats,
    Ints,
    begins_of,
    group_sums,
    offsets_of,
    owners_of,
    ranges_of,
)
from cloakwork.base.frozen import frozen

MOST_MATCHES: Final = 30_000_000
"""How many pairs of candidate and sequence are held at once; about 3 GB."""


class TooManyMatches(Exception):
    """There are more than ``MOST_MATCHES`` pairs of candidate and sequence."""


@frozen
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
            self.symbols[places],
            self.sequence_of[places],
            self.events_lost[places],
        )

    @property
    def symbol_bound(self) -> int:
        """A number above all symbols."""
        return int(self.symbols.max(initial=0)) + 1


@frozen
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


@frozen
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
    symbols = sequences.symbols
    sequence_of = sequences.sequence_of
    places = len(symbols)
    bound = sequences.symbol_bound
    # From where each match goes on: at first from the first place of each sequence.
    start = begins_of(sequence_of)
    if not len(start):
        return
    no_symbols = np.zeros((len(start), 0), np.int64)
    nothing_known = np.zeros(len(start), np.int64)
    level = KnowledgeLevel(
        no_symbols[:1],
        nothing_known,
        sequence_of[start],
        no_symbols,
    )
    yield level
    first, occurrences = _first_occurrences(sequences, start)
    is_last = np.diff(sequence_of, append=-1) != 0
    for _ in range(longest):
        count = first[start + 1] - first[start]
        match = owners_of(count)
        place = occurrences[_ranges(first[start], count)]
        if not len(place):
            return
        # A longer candidate is a pair of a candidate and the symbol behind it.
        pair = level.candidate[match] * bound + symbols[place]
        distinct, candidate = np.unique(pair, return_inverse=True)
        level = KnowledgeLevel(
            candidates=np.column_stack([level.candidates[distinct // bound], distinct % bound]),
            candidate=candidate.astype(np.int64),
            sequence=level.sequence[match],
            match_places=np.column_stack([level.match_places[match], place]),
        )
        yield level
        start = np.where(is_last[place], places, place + 1)


def _first_occurrences(sequences: KnownSequences, starts: Ints) -> tuple[Ints, Ints]:
    """For every place the first occurrence of each symbol from there on, inside its sequence: from
    place ``s`` on these are the second array's ``[first[s]:first[s + 1]]``, ascending.

    ``first``, the first array, has shape (places + 2,): behind the last place there is none.
    ``starts``: the first place of each sequence. Raises ``TooManyMatches``.
    """
    symbols = sequences.symbols
    sequence_of = sequences.sequence_of
    places = len(symbols)
    # The last place before each with the same symbol; where there is none, the last one before the
    # sequence. From behind that up to itself, a place is the first occurrence of its symbol.
    previous = np.repeat(starts, np.diff(np.append(starts, places))) - 1
    order = np.lexsort((np.arange(places), symbols, sequence_of))
    same_symbol = np.diff(symbols[order]) == 0
    repeats = same_symbol & (np.diff(sequence_of[order]) == 0)
    previous[order[1:][repeats]] = order[:-1][repeats]
    width = np.arange(places) - previous
    seen_from = _ranges(previous + 1, width)
    occurrence = owners_of(width)
    count = np.bincount(seen_from, minlength=places + 1)
    first = offsets_of(count)
    return first, occurrence[np.argsort(seen_from, kind="stable")]


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
            counted_holding // owners,
            np.ones_like(counted_holding),
            values,
            support,
        )
        confidence = np.maximum(confidence, of_units)
    return support, confidence


def _largest_share(
    held: Ints,
    weight: Ints,
    values: int,
    total: Ints,
) -> Floats:
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
    return owners_of(width), _ranges(offsets[rows], width)


def _ranges(first: Ints, width: Ints) -> Ints:
    """``ranges_of``; raises ``TooManyMatches`` where these are too many numbers."""
    if width.sum() > MOST_MATCHES:
        raise TooManyMatches
    return ranges_of(first, width)


def places_to_suppress(
    level: KnowledgeLevel,
    is_violating: Bools,
    sequences: KnownSequences,
) -> Ints:
    """Places to suppress so that no sequence matches a violating candidate of ``level`` (bool,
    shape (candidates,)): int64, ascending.

    Each sequence is treated by itself, one symbol after the other. The next symbol is the one with
    the best score: violating candidates that the sequence matches no more, for each event lost. Of
    a symbol only the places in a match are suppressed: those behind the earliest beginning of the
    candidate and before the latest end of it. Ties: fewer events lost, then the smaller symbol.
    """
    pair = sequences.sequence_of * sequences.symbol_bound + sequences.symbols
    # All places by sequence, symbol, place: those of a symbol in a match lie side by side.
    order = np.argsort(pair, kind="stable")
    events_lost = sequences.events_lost[order]
    sequence_of_symbol = np.unique(pair) // sequences.symbol_bound
    violations = np.flatnonzero(is_violating[level.candidate])
    rows = _symbols_of_matches(level, violations, sequences, order)
    # A candidate may name a symbol twice: of each match and symbol stays what loses fewest events.
    lost_before = offsets_of(events_lost)
    lost = lost_before[rows.end] - lost_before[rows.first]
    ranking = np.lexsort((lost, rows.symbol, rows.match))
    same_match = np.diff(rows.match[ranking], prepend=-1) == 0
    same_symbol = np.diff(rows.symbol[ranking], prepend=-1) == 0
    rows = rows.restricted_to(ranking[~(same_match & same_symbol)])
    suppressed = [np.zeros(0, np.int64)]
    while len(rows.match):
        chosen = np.ones(len(rows.match), np.bool_)
        # Where a single event is known, each that is violates by itself.
        if level.candidates.shape[1] > 1:
            chosen = _are_of_best_symbols(
                rows,
                sequence_of_symbol,
                events_lost,
            )
        suppressed.append(order[_ranges(rows.first[chosen], (rows.end - rows.first)[chosen])])
        rows = rows.restricted_to(~np.isin(rows.match, rows.match[chosen]))
    return np.unique(np.concatenate(suppressed))


@frozen
class _MatchSymbols:
    """The symbols of violating matches, one row for each; without any one of them, the match is
    gone.

    ``match``, ``symbol``: int64, shape (rows,), ``symbol`` a number for each symbol of each
    sequence. ``first``, ``end``: int64; which of the places, ordered by symbol, are to suppress.
    """

    match: Ints
    symbol: Ints
    first: Ints
    end: Ints

    def restricted_to(self, rows: Ints | Bools) -> "_MatchSymbols":
        """Some of the rows: their indexes, or a mask."""
        return _MatchSymbols(
            self.match[rows],
            self.symbol[rows],
            self.first[rows],
            self.end[rows],
        )


def _symbols_of_matches(
    level: KnowledgeLevel,
    matches: Ints,
    sequences: KnownSequences,
    order: Ints,
) -> _MatchSymbols:
    """The symbols of ``matches``; ``order``: all places, by sequence, symbol, place."""
    places = len(order)
    bound = sequences.symbol_bound
    pair = sequences.sequence_of * bound + sequences.symbols
    distinct, number = np.unique(pair, return_inverse=True)
    # Ascending, so that the places of a symbol in an interval are found by binary search.
    symbol_and_place = number[order] * (places + 1) + order
    candidate = level.candidates[level.candidate[matches]]
    size = candidate.shape[1]
    found = []
    # From the last symbol to the first: each lies behind the earliest place of the symbol before
    # it, and before the latest place of the symbol after it.
    latest = np.full(len(matches), places)
    for step in reversed(range(size)):
        earliest = np.zeros(len(matches), np.int64)
        if step > 0:
            earliest = level.match_places[matches, step - 1] + 1
        wanted = level.sequence[matches] * bound + candidate[:, step]
        symbol = np.searchsorted(distinct, wanted)
        first = np.searchsorted(symbol_and_place, symbol * (places + 1) + earliest)
        end = np.searchsorted(symbol_and_place, symbol * (places + 1) + latest)
        latest = order[end - 1]
        found.append(np.stack([symbol, first, end]))
    return _MatchSymbols(
        np.tile(matches, size),
        *np.concatenate(found, axis=1),
    )


def _are_of_best_symbols(
    rows: _MatchSymbols,
    sequence_of_symbol: Ints,
    events_lost: Ints,
) -> Bools:
    """Which rows are of the symbol with the best score in each sequence: bool, shape (rows,)."""
    symbols, number = np.unique(rows.symbol, return_inverse=True)
    matches_gone = np.bincount(number)
    # Matches of one symbol may share places; each place is suppressed once.
    width = rows.end - rows.first
    places = len(events_lost)
    pairs = np.unique(np.repeat(number, width) * places + _ranges(rows.first, width))
    lost = group_sums(
        pairs // places,
        events_lost[pairs % places],
        len(symbols),
    )
    sequence = sequence_of_symbol[symbols]
    ranking = np.lexsort((symbols, lost, -matches_gone / lost, sequence))
    is_first_of_sequence = np.diff(sequence[ranking], prepend=-1) != 0
    return np.asarray(np.isin(number, ranking[is_first_of_sequence]))
