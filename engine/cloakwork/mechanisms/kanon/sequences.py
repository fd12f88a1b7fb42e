"""Variants as strings of one character an activity: the form in which edit distances are fast."""

from dataclasses import dataclass
from typing import Final

import polars as pl

_SURROGATES: Final = 0xD800
_AFTER_SURROGATES: Final = 0x800


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


def decode(text: str, alphabet: tuple[str, ...]) -> list[str]:
    """The labels that ``text`` stands for."""
    codes = map(ord, text)
    return [alphabet[code if code < _SURROGATES else code - _AFTER_SURROGATES] for code in codes]
