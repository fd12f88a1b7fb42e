"""What somebody may know of a case: every sequence of events, each found once."""

import numpy as np

from cloakwork.mechanisms.kanon.background_knowledge import (
    KnownSequences,
    knowledge_levels,
)


def test_all_knowledge_is_found_once() -> None:
    """Every subsequence of every sequence, in every order of its symbols; repetitions count."""
    sequences = KnownSequences(
        np.array([0, 1, 0, 1, 0]), np.array([0, 0, 0, 1, 1]), np.ones(5, np.int64)
    )
    levels = list(knowledge_levels(sequences, 3))
    found = [[*map(tuple, level.candidates.tolist())] for level in levels]
    assert found == [[()], [(0,), (1,)], [(0, 0), (0, 1), (1, 0)], [(0, 1, 0)]]
    pairs = [
        sorted(zip(level.candidate.tolist(), level.sequence.tolist(), strict=True))
        for level in levels
    ]
    assert pairs == [
        [(0, 0), (0, 1)],
        [(0, 0), (0, 1), (1, 0), (1, 1)],
        [(0, 0), (1, 0), (2, 0), (2, 1)],
        [(0, 0)],
    ]
