"""Variants as strings of one character an activity: the form in which edit distances are fast."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

_SURROGATES: Final = 0xD800
_AFTER_SURROGATES: Final = 0x800
_FIRST: Final = 16
"""How many of the likeliest neighbours are compared first, to find out which others need not be."""


@dataclass(frozen=True, slots=True)
class CodedSequences:
    """Sequences of labels over one sorted alphabet.

    ``texts[i]`` holds one character for each label of sequence ``i``; comparing texts compares the sequences
    lexicographically by label. Alphabets of up to 1.1 million labels fit.
    """

    alphabet: tuple[str, ...]
    texts: tuple[str, ...]


def encode(sequences: pl.Series) -> CodedSequences:
    """Code ``sequences`` (List[String], no null labels) over the alphabet of all labels that occur in them."""
    alphabet = tuple(sequences.explode().drop_nulls().unique().sort().to_list())
    character = {label: chr(position_to_code(position)) for position, label in enumerate(alphabet)}
    texts = tuple("".join([character[label] for label in labels]) for labels in sequences.to_list())
    return CodedSequences(alphabet, texts)


def position_to_code(position: int) -> int:
    """The code point that stands for the label at ``position`` of the alphabet; the surrogates are left out."""
    return position if position < _SURROGATES else position + _AFTER_SURROGATES


class EditDistances:
    """Levenshtein distances (insertion, deletion and substitution cost 1) between coded sequences, found when asked.

    ``texts``: coded sequences. Sequences that must be far, since the activities that one has and the other lacks bound
    their distance from below, are never compared.
    """

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = np.array(texts, dtype=object)
        self._occurs = _occurrences(texts)
        self._lengths = self._occurs.sum(axis=0)

    def nearest(self, source: int, among: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Those of ``among`` (int64, not empty, ascending) that are nearest to ``source``, ascending, and how far."""
        least = self._at_least(source, among)
        first = least <= np.partition(least, min(_FIRST, len(least)) - 1)[min(_FIRST, len(least)) - 1]
        best = int(self._between(source, among[first]).min())
        candidates = among[least <= best]
        distances = self._between(source, candidates, best)
        return candidates[distances == distances.min()], int(distances.min())

    def _at_least(self, source: int, among: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is missing and what is too many in the other, whichever is more: half of sum and difference."""
        differing = np.abs(self._occurs - self._occurs[:, source : source + 1]).sum(axis=0)
        return np.asarray((differing + np.abs(self._lengths - self._lengths[source]))[among] // 2, np.int64)

    def _between(self, source: int, others: NDArray[np.int64], cutoff: int | None = None) -> NDArray[np.int64]:
        """Distances; those beyond ``cutoff`` are given as ``cutoff + 1``."""
        from rapidfuzz import process
        from rapidfuzz.distance import Levenshtein

        texts = self._texts[others]
        scores = process.cdist(
            [self._texts[source]], texts, scorer=Levenshtein.distance, score_cutoff=cutoff, dtype=np.int32
        )
        return np.asarray(scores[0], np.int64)


def _occurrences(texts: tuple[str, ...]) -> NDArray[np.int32]:
    """How often each activity occurs in each text: int32, shape (activities, texts)."""
    symbols, codes = np.unique([ord(symbol) for text in texts for symbol in text], return_inverse=True)
    table = np.zeros((len(symbols), len(texts)), np.int32)
    np.add.at(table, (codes, np.repeat(np.arange(len(texts)), [len(text) for text in texts])), 1)
    return table
