"""Sequences matched with the cases of a log."""

import numpy as np

from cloakwork.kernel import Cases, Randomness
from cloakwork.noise import reproducible
from cloakwork_extras.pripel import matched_cases, matched_events

LABELS = ("a", "b", "c", "d")


def cases(*sequences: str) -> Cases:
    return Cases.of([tuple(sequence) for sequence in sequences], LABELS)


def test_equal_sequences_first_then_the_nearest_that_is_left() -> None:
    source = cases("abc", "abc", "dd", "abd")
    made = cases("abc", "abcc", "abc", "ddd")
    found = matched_cases(made, source, Randomness(reproducible(1))).tolist()
    assert sorted(found[0:3:2]) == [0, 1]
    assert (found[1], found[3]) == (3, 2)


def test_each_case_is_taken_once_and_what_is_left_over_has_none() -> None:
    source, made = cases("ab", "ab"), cases("ab", "abc", "abd", "ab", "ab")
    found = matched_cases(made, source, Randomness(reproducible(1)))
    assert sorted(found.tolist()) == [-1, -1, -1, 0, 1]
    assert matched_cases(cases(), source, Randomness(reproducible(1))).tolist() == []
    assert matched_cases(cases("a"), cases(), Randomness(reproducible(1))).tolist() == [-1]


def test_events_take_the_first_of_their_activity_that_is_left_else_any() -> None:
    source, made = cases("abab", "ccd"), cases("aabc", "dd")
    found = matched_events(made, source, np.array([0, -1]), Randomness(reproducible(1))).tolist()
    assert found[:3] == [0, 2, 1]
    assert found[3] in (4, 5)
    assert found[4:] == [6, 6]


def test_many_cases_end() -> None:
    """1,000 sequences of their own against 1,000 others: no case is left, none is taken twice."""
    rng = np.random.default_rng(1)
    old, new = (
        cases(*("".join(rng.choice(LABELS, size)) for size in rng.integers(5, 20, 1000)))
        for _ in range(2)
    )
    found = matched_cases(new, old, Randomness(reproducible(1)))
    assert sorted(found.tolist()) == list(range(1000))
