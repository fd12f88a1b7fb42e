"""Which places of sequences to suppress, so that no sequence matches given candidates of background
knowledge any more.
"""

from dataclasses import dataclass

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.mechanisms.kanon.background_knowledge import (
    KnowledgeLevel,
    KnownSequences,
    concatenated_ranges,
    group_sums,
)


def places_to_suppress(
    level: KnowledgeLevel, is_violating: Bools, sequences: KnownSequences
) -> Ints:
    """Places to suppress so that no sequence matches a violating candidate of ``level`` (bool,
    shape (candidates,)): int64, ascending.

    Each sequence is treated by itself, one symbol after the other. The next symbol is the one with
    the best score: violating candidates that the sequence matches no more, for each event lost. Of
    a symbol only the places in a match are suppressed: those behind the earliest beginning of the
    candidate and before the latest end of it. Ties: fewer events lost, then the smaller symbol.
    """
    violations = np.flatnonzero(is_violating[level.candidate])
    rows = _match_symbols(level, violations, sequences)
    if level.candidates.shape[1] == 1:
        return np.sort(rows.places(np.ones(len(rows.match), np.bool_)))
    suppressed = [np.zeros(0, np.int64)]
    while len(rows.match):
        chosen = rows.of_best_symbols()
        suppressed.append(rows.places(chosen))
        rows = rows.without_matches(rows.match[chosen])
    return np.unique(np.concatenate(suppressed))


@dataclass(frozen=True, slots=True)
class _MatchSymbols:
    """The symbols of violating matches, one row for each; without any one of them, the match is
    gone.

    - ``match``: int64, shape (rows,).
    - ``symbol``: int64, shape (rows,); a number for each symbol of each sequence.
    - ``sequence``: int64, shape (symbols,); the sequence of each such number, ascending.
    - ``first``, ``end``: int64, shape (rows,); the places to suppress are ``order[first:end]``.
    - ``order``: int64, shape (places,); all places, by sequence, symbol, place.
    - ``events_lost``: int64, shape (places,); as in ``KnownSequences``.
    """

    match: Ints
    symbol: Ints
    sequence: Ints
    first: Ints
    end: Ints
    order: Ints
    events_lost: Ints

    def of_best_symbols(self) -> Bools:
        """The rows of the symbol with the best score in each sequence: bool, shape (rows,)."""
        symbols, number = np.unique(self.symbol, return_inverse=True)
        matches_gone = np.bincount(number)
        # Matches of one symbol may share places; each place is suppressed once.
        width = self.end - self.first
        place_index = concatenated_ranges(self.first, width)
        places = len(self.order)
        pairs = np.unique(np.repeat(number, width) * places + place_index)
        events = self.events_lost[self.order[pairs % places]]
        lost = group_sums(pairs // places, events, len(symbols))
        sequence = self.sequence[symbols]
        ranking = np.lexsort((symbols, lost, -matches_gone / lost, sequence))
        is_first_of_sequence = np.diff(sequence[ranking], prepend=-1) != 0
        return np.asarray(np.isin(number, ranking[is_first_of_sequence]))

    def places(self, chosen: Bools) -> Ints:
        """The places to suppress for the ``chosen`` rows."""
        first, end = self.first[chosen], self.end[chosen]
        return self.order[concatenated_ranges(first, end - first)]

    def without_matches(self, matches: Ints) -> "_MatchSymbols":
        """The rows of all other matches."""
        return self.restricted_to(~np.isin(self.match, matches))

    def restricted_to(self, rows: Ints | Bools) -> "_MatchSymbols":
        """Some of the rows: their indexes, or a mask."""
        return _MatchSymbols(
            self.match[rows],
            self.symbol[rows],
            self.sequence,
            self.first[rows],
            self.end[rows],
            self.order,
            self.events_lost,
        )


def _match_symbols(
    level: KnowledgeLevel, matches: Ints, sequences: KnownSequences
) -> _MatchSymbols:
    """The symbols of ``matches``. Where a candidate names a symbol twice, only the occurrence that
    costs fewer events.
    """
    places, bound = len(sequences.symbols), sequences.symbol_bound
    pair = sequences.sequence_of * bound + sequences.symbols
    distinct, number = np.unique(pair, return_inverse=True)
    order = np.lexsort((np.arange(places), pair))
    # Ascending, so that the places of a symbol in an interval are found by binary search.
    symbol_and_place = number[order] * (places + 1) + order
    candidate = level.candidates[level.candidate[matches]]
    sequence = level.sequence[matches]
    size = candidate.shape[1]
    found_symbol, found_first, found_end = [], [], []
    # From the last symbol to the first: each lies behind the earliest place of the symbol before
    # it, and before the latest place of the symbol after it.
    latest = np.full(len(matches), places)
    for step in reversed(range(size)):
        earliest = np.zeros(len(matches), np.int64)
        if step > 0:
            earliest = level.match_places[matches, step - 1] + 1
        symbol = np.searchsorted(distinct, sequence * bound + candidate[:, step])
        first = np.searchsorted(symbol_and_place, symbol * (places + 1) + earliest)
        end = np.searchsorted(symbol_and_place, symbol * (places + 1) + latest)
        latest = order[end - 1]
        found_symbol.append(symbol)
        found_first.append(first)
        found_end.append(end)
    rows = _MatchSymbols(
        np.tile(matches, size),
        np.concatenate(found_symbol),
        distinct // bound,
        np.concatenate(found_first),
        np.concatenate(found_end),
        order,
        sequences.events_lost,
    )
    return rows.restricted_to(_cheapest_of_each_symbol(rows))


def _cheapest_of_each_symbol(rows: _MatchSymbols) -> Ints:
    """For each match and symbol the row that loses the fewest events: indexes."""
    lost_before = np.concatenate([[0], np.cumsum(rows.events_lost[rows.order])])
    lost = lost_before[rows.end] - lost_before[rows.first]
    ranking = np.lexsort((lost, rows.symbol, rows.match))
    same_match = np.diff(rows.match[ranking], prepend=-1) == 0
    same_symbol = np.diff(rows.symbol[ranking], prepend=-1) == 0
    return np.asarray(ranking[~(same_match & same_symbol)], np.int64)
