"""The least distance of all ways to move whole variants, by trying every one of them; shares nothing with the engine."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from rapidfuzz.distance import Indel, Levenshtein


def least_distance(
    texts: Sequence[str], cases: Sequence[int], mass: Sequence[int], k: int, scope: str, metric: str = "levenshtein"
) -> int:
    """Over all maps of variants to variants whose classes hold ``mass`` k; for 6 variants at most (46,656 maps)."""
    measure = Levenshtein.distance if metric == "levenshtein" else Indel.distance
    maps = np.array(list(product(range(len(texts)), repeat=len(texts))))
    edits = np.array(
        [[count * measure(one, other) for other in texts] for one, count in zip(texts, cases, strict=True)]
    )
    cost = edits[np.arange(len(texts)), maps].sum(axis=1)
    groups = (
        {text: {row} for row, text in enumerate(texts)}
        if scope == "variants"
        else {
            text[:end]: {row for row, other in enumerate(texts) if other.startswith(text[:end])}
            for text in texts
            for end in range(1, len(text) + 1)
        }
    )
    allowed = np.ones(len(maps), bool)
    for rows in groups.values():
        inside = np.isin(maps, list(rows))
        allowed &= ~inside.any(axis=1) | (inside @ np.array(mass) >= k)
    return int(cost[allowed].min())
