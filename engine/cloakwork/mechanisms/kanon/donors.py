"""Draw whom an inserted event copies: a random one of the entries that share its key."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.noise import Addresses, Stream

NONE: Final = -1
"""Stands for no row."""


def draw_by_key(pool: Ints, key: Ints, requested: Ints, stream: Stream, at: Addresses) -> Ints:
    """For each of the keys ``requested`` a random entry of ``pool`` (int64, with its ``key``) that
    has it, by a draw at ``at``; -1 where none has.
    """
    # Sorted by key, the entries of one key are a run, of which searchsorted finds both ends.
    order = np.argsort(key, kind="stable")
    ascending = key[order]
    first = np.searchsorted(ascending, requested, side="left")
    size = np.searchsorted(ascending, requested, side="right") - first
    drawn = np.full(len(requested), NONE, np.int64)
    occurs = np.flatnonzero(size > 0)
    if len(occurs):
        offset = stream.uniform(size[occurs].astype(np.int64), at.at(occurs))
        drawn[occurs] = pool[order[first[occurs] + offset]]
    return drawn
