"""Variants as strings of one character an activity: the form in which edit distances are fast."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.base.arrays import Ints, Ints32
from cloakwork.base.errors import MechanismError

Metric = Literal["levenshtein", "indel"]
"""Single edits: insertion, deletion and substitution of an event; ``indel`` counts a substitution
as two edits.
"""

_FIRST_SURROGATE: Final = 0xD800
_NUMBER_OF_SURROGATES: Final = 0x800
MOST_EVENTS: Final = 16_383
"""Events of the longest case whose distance to any other fits 16 bits."""

_COMPARED_FIRST: Final = 16
"""How many of the likeliest neighbours are compared first, to find out which others need not be."""


@dataclass(frozen=True, slots=True)
class CodedSequences:
    """Sequences of labels over one sorted alphabet.

    ``texts[i]`` holds one character for each label of sequence ``i``; comparing texts compares the
    sequences lexicographically by label. Alphabets of up to 1.1 million labels fit.
    """

    alphabet: tuple[str, ...]
    texts: tuple[str, ...]


def encode_sequences(sequences: pl.Series) -> CodedSequences:
    """Code ``sequences`` (List[String], no null labels) over the alphabet of all labels that occur
    in them.
    """
    # A sequence without labels explodes to a null.
    labels = sequences.explode().drop_nulls()
    labels_in_order = labels.unique().sort()
    alphabet = tuple(labels_in_order.to_list())
    position = labels.cast(pl.Enum(labels_in_order)).to_physical().to_numpy().astype(np.uint32)
    # All texts as one, cut where sequences end: much faster than a join for each.
    codes = np.where(
        position < _FIRST_SURROGATE,
        position,
        position + _NUMBER_OF_SURROGATES,
    )
    characters = codes.astype("<u4").tobytes().decode("utf-32-le")
    borders = [0, *np.cumsum(sequences.list.len().to_numpy()).tolist()]
    texts = tuple(characters[start:end] for start, end in pairwise(borders))
    return CodedSequences(alphabet, texts)


def position_to_code(position: int) -> int:
    """The code point that stands for the label at ``position`` of the alphabet; the surrogates are
    left out.
    """
    return position if position < _FIRST_SURROGATE else position + _NUMBER_OF_SURROGATES


class EditDistances:
    """Edit distances between coded sequences, found when asked.

    ``texts``: coded sequences. Asked for the nearest, it never compares sequences that must be far,
    since the activities that one has and the other lacks bound their distance from below.
    """

    def __init__(self, texts: tuple[str, ...], metric: Metric = "levenshtein") -> None:
        self._texts = np.array(texts, dtype=object)
        self.metric = metric

    @cached_property
    def matrix(self) -> NDArray[np.int16]:
        """All of them at once: int16, shape (texts, texts); 2 bytes a pair.

        Raises ``MechanismError`` where a distance might not fit: for a case of more than 16,383
        events.
        """
        from rapidfuzz import process

        texts = list(self._texts)
        if max(map(len, texts), default=0) > MOST_EVENTS:
            raise MechanismError(
                "edit distances",
                f"a case has more than {MOST_EVENTS:,} events; "
                "'assume: {longest_case: ...}' cuts such cases",
            )
        return np.asarray(
            process.cdist(
                texts,
                texts,
                scorer=self._scorer(),
                dtype=np.int16,
                workers=-1,
            )
        )

    def pairs(self, sources: Ints, targets: Ints) -> Ints:
        """The distance of each source to the target beside it: int64, shape (pairs,)."""
        from rapidfuzz import process

        if not len(sources):
            return np.zeros(0, np.int64)
        left = list(self._texts[sources])
        right = list(self._texts[targets])
        distances = process.cpdist(
            left,
            right,
            scorer=self._scorer(),
            dtype=np.int32,
        )
        return np.asarray(distances, np.int64)

    def between(self, sources: Ints, targets: Ints) -> Ints:
        """The distance of each source to each target: int64, shape (sources, targets)."""
        from rapidfuzz import process

        # A text of a million symbols is compared with itself for half a minute.
        if max(map(len, self._texts[sources]), default=0) > MOST_EVENTS:
            found = np.zeros((len(sources), len(targets)), np.int64)
            of_source, of_target = np.nonzero(sources[:, None] != targets)
            others = self.pairs(sources[of_source], targets[of_target])
            found[of_source, of_target] = others
            return found
        distances = process.cdist(
            self._texts[sources],
            self._texts[targets],
            scorer=self._scorer(),
            dtype=np.int32,
        )
        return np.asarray(distances, np.int64)

    def nearest(self, source: int, among: Ints) -> tuple[Ints, int]:
        """Those of ``among`` (int64, not empty, ascending) that are nearest to ``source``,
        ascending, and how far.
        """
        least = self._lower_bounds(source, among)
        few = min(_COMPARED_FIRST, len(least)) - 1
        # The likeliest are those of the least lower bounds.
        is_likely = least <= np.partition(least, few)[few]
        best_of_likely = int(self._distances_to(source, among[is_likely]).min())
        # Whatever must be farther than the best one found need not be compared.
        candidates = among[least <= best_of_likely]
        distances = self._distances_to(source, candidates, best_of_likely)
        nearest = distances.min()
        return candidates[distances == nearest], int(nearest)

    @cached_property
    def _occurrences(self) -> Ints32:
        """How often each activity occurs in each text: int32, shape (activities, texts)."""
        code_points = [ord(symbol) for text in self._texts for symbol in text]
        symbols, codes = np.unique(code_points, return_inverse=True)
        lengths = [len(text) for text in self._texts]
        text_of_symbol = np.repeat(np.arange(len(self._texts)), lengths)
        table = np.zeros((len(symbols), len(self._texts)), np.int32)
        # Not ``table[...] += 1``, which counts an activity that recurs once only.
        np.add.at(table, (codes, text_of_symbol), 1)
        return table

    @cached_property
    def _lengths(self) -> Ints:
        return np.asarray(self._occurrences.sum(axis=0), np.int64)

    def _scorer(self) -> Any:
        from rapidfuzz.distance import Indel, Levenshtein

        return Levenshtein.distance if self.metric == "levenshtein" else Indel.distance

    def _lower_bounds(self, source: int, among: Ints) -> Ints:
        """What the distances to ``among`` are at least: int64, shape (among,).

        One sequence has activities too many and lacks others. ``indel`` needs an edit for each of
        either; with substitutions the larger of the two numbers suffices, which is half the sum of
        all differences and of the difference in length.
        """
        own = self._occurrences[:, source : source + 1]
        difference = self._occurrences - own
        differing = np.abs(difference).sum(axis=0)
        if self.metric == "indel":
            return np.asarray(differing[among], np.int64)
        longer_by = np.abs(self._lengths - self._lengths[source])
        larger_number = (differing + longer_by) // 2
        return np.asarray(larger_number[among], np.int64)

    def _distances_to(
        self,
        source: int,
        others: Ints,
        cutoff: int | None = None,
    ) -> Ints:
        """Distances; those beyond ``cutoff`` are given as ``cutoff + 1``."""
        from rapidfuzz import process

        scores = process.cdist(
            [self._texts[source]],
            self._texts[others],
            scorer=self._scorer(),
            score_cutoff=cutoff,
            dtype=np.int32,
        )
        # One row, for there is one source.
        return np.asarray(scores[0], np.int64)
