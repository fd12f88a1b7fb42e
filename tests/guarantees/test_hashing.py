"""Keyed hashes against whole numbers of any size in plain Python."""

import math
from hashlib import blake2b

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.guarantees.classes import PRIME, HashKey
from conftest import runs

KEY = HashKey(b"a key of texts", (12345, 2**59 + 7), (PRIME - 2, 2**33))
RESIDUES = st.integers(0, PRIME - 1) | st.sampled_from([0, 1, 2**32 - 1, 2**32, PRIME - 1])
TEXTS = st.lists(st.none() | st.text(max_size=30), max_size=12)


def polynomial(coefficients: list[int], point: int) -> int:
    """Its value modulo the prime, the first coefficient being that of the highest power."""
    value = 0
    for coefficient in coefficients:
        value = (value * point + coefficient) % PRIME
    return value


def plainly(text: str | None) -> list[int]:
    """Both words of a text."""
    if text is None:
        return [0, 0]
    digest = blake2b(text.encode(), key=KEY.text, digest_size=16).digest()
    return [int.from_bytes(word, "little") % PRIME for word in (digest[:8], digest[8:])]


@settings(max_examples=runs(12))
@given(TEXTS)
def test_texts_are_hashed_by_their_bytes(texts: list[str | None]) -> None:
    """Both words; a missing one is zero."""
    found = KEY.of_values(pl.Series(texts, dtype=pl.String))
    assert found.T.tolist() == [plainly(text) for text in texts]


@settings(max_examples=runs(12))
@given(st.lists(st.tuples(RESIDUES, RESIDUES), min_size=1, max_size=9), RESIDUES)
def test_products_are_exact(pairs: list[tuple[int, int]], point: int) -> None:
    """Up to the largest residues, which do not fit into a product of 64 bits."""
    key = HashKey(b"", (0, 0), (point, PRIME - 1 - point))
    before, symbol = (np.array([column, column], np.uint64) for column in zip(*pairs, strict=True))
    found = key.longer(before, symbol)
    assert found.tolist() == [
        [polynomial([old, new], point) for old, new in pairs] for point in key.sequence
    ]


def test_rows_and_sequences_tell_orders_apart() -> None:
    """Columns, and symbols, at points of their own."""
    texts = KEY.of_values(pl.Series(["a", "b"]))
    ab, ba = (KEY.of_rows([texts[:, [i]], texts[:, [1 - i]]], 1) for i in range(2))
    assert not np.isin(ab, ba).any()
    none = np.ones((2, 1), np.uint64)
    one, two = KEY.longer(none, ab), KEY.longer(KEY.longer(none, ab), ab)
    hashes = np.concatenate([none, one, two, KEY.longer(none, ba)], axis=1)
    assert [len(set(words)) for words in hashes.tolist()] == [4, 4]


def test_values_that_are_equal_have_one_hash() -> None:
    """Zero has two spellings, and what is no number many."""
    numbers = pl.Series([0.0, -0.0, math.nan, -math.nan, None, 1e16, 0.1 + 0.2, 0.3])
    first = KEY.of_values(numbers)[0].tolist()
    assert first[0] == first[1]
    assert first[2] == first[3]
    assert len(set(first)) == 6
    times = pl.Series([0, 1, 10**15]).cast(pl.Datetime("us", "UTC"))
    assert KEY.of_values(times).tolist() == KEY.of_values(pl.Series([0, 1, 10**15])).tolist()


def test_keys_are_drawn_anew() -> None:
    """Points from the whole range, and 256 bits for texts."""
    keys = [HashKey.drawn() for _ in range(2)]
    points = {point for key in keys for pair in (key.row, key.sequence) for point in pair}
    assert len(points) == 8
    assert len({key.text for key in keys}) == 2
    assert all(len(key.text) == 32 for key in keys)
    assert all(0 <= point < PRIME for point in points)
