"""Variants as strings of one character an activity: the form in which edit distances are fast."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import MechanismError

Metric = Literal["levenshtein", "indel"]
"""Single edits: insertion, deletion and substitution of an event; ``indel`` counts a substitution
as two edits.
"""

_SURROGATES: Final = 0xD800
_AFTER_SURROGATES: Final = 0x800
LONGEST: Final = 16_383
"""Events of the longest case whose distance to any other fits 16 bits."""

_FIRST: Final = 16
"""How many of the likeliest neighbours are compared first, to find out which others need not be."""


@dataclass(frozen=True, slots=True)
class CodedSequences:
    """Sequences of labels over one sorted alphabet.

    ``texts[i]`` holds one character for each label of sequence ``i``; comparing texts compares the
    sequences lexicographically by label. Alphabets of up to 1.1 million labels fit.
    """

    alphabet: tuple[str, ...]
    texts: tuple[str, ...]


def encode(sequences: pl.Series) -> CodedSequences:
    """Code ``sequences`` (List[String], no null labels) over the alphabet of all labels that occur
    in them.
    """
    alphabet = tuple(sequences.explode().drop_nulls().unique().sort().to_list())
    character = {label: chr(position_to_code(position)) for position, label in enumerate(alphabet)}
    texts = tuple("".join([character[label] for label in labels]) for labels in sequences.to_list())
    return CodedSequences(alphabet, texts)


def position_to_code(position: int) -> int:
    """The code point that stands for the label at ``position`` of the alphabet; the surrogates are
    left out.
    """
    return position if position < _SURROGATES else position + _AFTER_SURROGATES


class EditDistances:
    """Edit distances between coded sequences, found when asked.

    ``texts``: coded sequences. Asked for the nearest, it never compares sequences that must be far,
    since the activities that one has and the other lacks bound their distance from below.
    """

    def __init__(self, texts: tuple[str, ...], metric: Metric = "levenshtein") -> None:
        self._texts = np.array(texts, dtype=object)
        self._metric = metric

    @cached_property
    def matrix(self) -> NDArray[np.int16]:
        """All of them at once: int16, shape (texts, texts); 2 bytes a pair.

        Raises ``MechanismError`` where a distance might not fit: for a case of more than 16,383
        events.
        """
        from rapidfuzz import process

        texts = list(self._texts)
        if max(map(len, texts), default=0) > LONGEST:
            message = f"a case has more than {LONGEST:,} events; 'assume: {{longest_case: ...}}' cuts such cases"
            raise MechanismError("edit distances", message)
        return np.asarray(
            process.cdist(texts, texts, scorer=self._scorer(), dtype=np.int16, workers=-1)
        )

    def pairs(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The distance of each source to the target beside it: int64, shape (pairs,)."""
        from rapidfuzz import process

        if not len(sources):
            return np.zeros(0, np.int64)
        left, right = list(self._texts[sources]), list(self._texts[targets])
        return np.asarray(
            process.cpdist(left, right, scorer=self._scorer(), dtype=np.int32), np.int64
        )

    def nearest(self, source: int, among: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Those of ``among`` (int64, not empty, ascending) that are nearest to ``source``,
        ascending, and how far.
        """
        least = self._at_least(source, among)
        first = (
            least <= np.partition(least, min(_FIRST, len(least)) - 1)[min(_FIRST, len(least)) - 1]
        )
        best = int(self._between(source, among[first]).min())
        candidates = among[least <= best]
        distances = self._between(source, candidates, best)
        return candidates[distances == distances.min()], int(distances.min())

    @cached_property
    def _occurs(self) -> NDArray[np.int32]:
        return _occurrences(tuple(self._texts))

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.asarray(self._occurs.sum(axis=0), np.int64)

    def _scorer(self) -> Any:
        from rapidfuzz.distance import Indel, Levenshtein

        return Levenshtein.distance if self._metric == "levenshtein" else Indel.distance

    def _at_least(self, source: int, among: NDArray[np.int64]) -> NDArray[np.int64]:
        """What one has too many and what it lacks: their sum for ``indel``, else whichever is more."""
        differing = np.abs(self._occurs - self._occurs[:, source : source + 1]).sum(axis=0)
        if self._metric == "indel":
            return np.asarray(differing[among], np.int64)
        return np.asarray(
            (differing + np.abs(self._lengths - self._lengths[source]))[among] // 2, np.int64
        )

    def _between(
        self, source: int, others: NDArray[np.int64], cutoff: int | None = None
    ) -> NDArray[np.int64]:
        """Distances; those beyond ``cutoff`` are given as ``cutoff + 1``."""
        from rapidfuzz import process

        texts = self._texts[others]
        scores = process.cdist(
            [self._texts[source]], texts, scorer=self._scorer(), score_cutoff=cutoff, dtype=np.int32
        )
        return np.asarray(scores[0], np.int64)


def _occurrences(texts: tuple[str, ...]) -> NDArray[np.int32]:
    """How often each activity occurs in each text: int32, shape (activities, texts)."""
    symbols, codes = np.unique(
        [ord(symbol) for text in texts for symbol in text], return_inverse=True
    )
    table = np.zeros((len(symbols), len(texts)), np.int32)
    np.add.at(table, (codes, np.repeat(np.arange(len(texts)), [len(text) for text in texts])), 1)
    return table
