"""The Markov chain that variants/markov draws cases from: how it is fitted, and sequences drawn."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

from cloakwork.kernel import Randomness
from cloakwork.mechanisms.variants.chain import (
    Context,
    LengthGroups,
    MarkovChain,
    draw_sequences,
    fit_flow,
    in_whole,
    length_edges,
    nearest_counts,
    refine_contexts,
)
from cloakwork.mechanisms.variants.markov import UNIT_NORM
from cloakwork.noise import reproducible

LABELS = 4


def random_flow() -> np.ndarray:
    """A table of a log's transitions: what comes to a label leaves it."""
    rng = np.random.default_rng(3)
    total = np.zeros((LABELS + 1, LABELS + 1))
    for _ in range(50):
        variant = rng.integers(1, LABELS + 1, rng.integers(1, 9)).tolist()
        # Columns are labels from 1 on, and END behind them.
        steps = pairwise([0, *variant, LABELS + 1])
        for before, after in steps:
            total[before, after - 1] += UNIT_NORM / (len(variant) + 1) ** 0.5
    return total


def test_a_flow_is_its_own_fit() -> None:
    """Without a penalty, what is balanced already stays."""
    flow = random_flow()
    assert np.allclose(fit_flow(flow, np.zeros_like(flow), 0.0), flow, atol=1e-2 * flow.max())


def test_a_fit_is_balanced_and_nearer_to_the_truth() -> None:
    """What comes to a label leaves it, nothing is negative, and the noise is less than before."""
    flow = random_flow()
    noisy = flow + np.random.default_rng(4).normal(0, 20_000, flow.shape)
    found = fit_flow(noisy, np.zeros_like(flow), 5_000.0)
    assert (found >= 0).all()
    assert found[0, -1] == 0
    assert np.allclose(found[1:].sum(axis=1), found[:, :-1].sum(axis=0), atol=1e-2 * flow.max())
    assert np.linalg.norm(found - flow) < np.linalg.norm(noisy - flow)


def test_longer_contexts_keep_to_their_parents() -> None:
    """What stands out by less than the penalty is as the parent says; what the parent rules out
    stays out.
    """
    parent = np.array([[30.0, 10.0, 0.0]])
    assert refine_contexts(
        np.array([[16.0, 4.0, 90.0]]), parent, np.array([20.0]), 3.0
    ).tolist() == [[15.0, 5.0, 0.0]]
    assert refine_contexts(
        np.array([[5.0, 15.0, 0.0]]), parent, np.array([20.0]), 3.0
    ).tolist() == [[8.0, 12.0, 0.0]]


def test_a_chain_knows_how_long_its_cases_are() -> None:
    """Half of the cases are one event longer than the rest; each context has its own."""
    rows = {
        (0,): np.array([1.0, 0.0, 0.0]),
        (1,): np.array([0.0, 1.0, 1.0]),
        (2,): np.array([0.0, 0.0, 1.0]),
    }
    chain = MarkovChain.from_masses(rows, 1.0)
    assert chain.lengths(4).tolist() == [0.5, 0.5, 0.0, 0.0]
    # Columns: START, label 1, label 2; row n: fewer than n more events.
    assert chain.ended(3).tolist() == [[0, 0, 0], [0, 0.5, 1], [0.5, 1, 1], [1, 1, 1]]


def test_a_weighted_chain_goes_the_weighted_ways() -> None:
    """Factors are of the last two labels, whatever the context; a row adds up to 1 again."""
    rows = {(0,): np.array([1.0, 0.0]), (1,): np.array([1.0, 1.0]), (0, 1): np.array([3.0, 1.0])}
    factors = np.array([[1.0, 1.0], [1.0, 3.0]])
    chain = MarkovChain.from_masses(rows, 1.0).weighted(factors)
    assert chain.shares.tolist() == [[1, 0], [0.25, 0.75], [0.5, 0.5]]


LOOP = {(0,): np.array([1.0, 0.0]), (1,): np.array([9.0, 1.0])}
"""One label; a case goes on nine times of ten."""


def drawn_of(
    rows: Mapping[Context, np.ndarray],
    cases: int | LengthGroups,
    longest: int,
    sharpness: float = 1.0,
) -> list[tuple[int, ...]]:
    groups = LengthGroups.of_any(cases) if isinstance(cases, int) else cases
    chain = MarkovChain.from_masses(rows, sharpness)
    return draw_sequences(chain, groups, longest, Randomness(reproducible(1)))


@pytest.mark.parametrize("at_once", [2**22, 6])
def test_factors_follow_from_all_of_a_prefix(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that began with 1 goes on with 1, one that began with 2 with 2, where the chain would
    do both; in chunks as at once, and as long as is required.
    """
    monkeypatch.setattr("cloakwork.mechanisms.variants.chain._CHUNK", at_once)
    rows = {(label,): np.array([1.0, 1.0, 1.0]) for label in range(3)}
    prefixes: list[np.ndarray] = []

    def factors(prefix: np.ndarray) -> np.ndarray:
        prefixes.extend(prefix.tolist())
        found = np.ones((len(prefix), 3))
        if prefix.shape[1]:
            found[np.arange(len(prefix)), 2 - prefix[:, 0]] = 1e-12
        return found

    groups = LengthGroups(np.array([10, 30]), np.array([3]))
    chain = MarkovChain.from_masses(rows, 1.0)
    drawn = draw_sequences(chain, groups, 8, Randomness(reproducible(1)), factors)
    assert all(len(set(case)) == 1 for case in drawn)
    assert sorted(case[0] for case in drawn) == [1] * 20 + [2] * 20
    assert sum(len(case) < 3 for case in drawn) == 10
    # Each prefix is asked for once in each group of lengths.
    asked = Counter(map(tuple, prefixes))
    assert max(asked.values()) == 2
    assert set(asked) == {case[:end] for case in drawn for end in range(min(len(case) + 1, 8))}


def test_a_chain_draws_what_it_expects() -> None:
    """Three quarters go one way; all 400 cases come out as 300 and 100, and the last step is
    END.
    """
    rows = {
        (0,): np.array([1.0, 0.0, 0.0]),
        (1,): np.array([0.0, 3.0, 1.0]),
        (2,): np.array([0.0, 0.0, 1.0]),
    }
    drawn = Counter(drawn_of(rows, 400, 9))
    assert drawn == {(1, 2): 300, (1,): 100}
    sharp = Counter(drawn_of(rows, 400, 9, sharpness=2.0))
    assert sharp == {(1, 2): 360, (1,): 40}


def test_a_chain_knows_the_longest_context() -> None:
    """After START, 1 comes 1; after 1, 1 comes END."""
    rows = {
        (0,): np.array([1.0, 0.0]),
        (1,): np.array([1.0, 1.0]),
        (0, 1): np.array([1.0, 0.0]),
        (1, 1): np.array([0.0, 1.0]),
    }
    assert Counter(drawn_of(rows, 10, 9)) == {(1, 1): 10}


def test_an_endless_chain_is_cut() -> None:
    """At the declared length; no case at all is drawn where none is wanted."""
    rows = {(0,): np.array([1.0, 0.0]), (1,): np.array([1.0, 0.0])}
    assert drawn_of(rows, 3, 5) == [(1,) * 5] * 3
    assert drawn_of(rows, 0, 5) == []


def test_cases_are_as_long_as_is_wanted() -> None:
    """As many of each group of lengths, however rare the chain itself makes them."""
    groups = LengthGroups(np.array([500, 0, 300, 200]), np.array([3, 5, 30]))
    lengths = np.array([len(sequence) for sequence in drawn_of(LOOP, groups, 60)])
    assert np.histogram(lengths, [1, 3, 5, 30, 61])[0].tolist() == [500, 0, 300, 200]
    # Within a group it is the chain that decides: of lengths 1 and 2 it has .1 and .09.
    assert (lengths == 1).sum() == pytest.approx(500 / 1.9, abs=1)


def test_a_case_of_a_length_knows_where_it_leads() -> None:
    """Only one of two ways leads to cases of three events; with this length all take it."""
    rows = {
        (0,): np.array([1.0, 9.0, 0.0]),
        (1,): np.array([1.0, 0.0, 1.0]),
        (2,): np.array([0.0, 0.0, 1.0]),
    }
    groups = LengthGroups(np.array([0, 10, 0]), np.array([3, 4]))
    assert drawn_of(rows, groups, 9) == [(1, 1, 1)] * 10


def test_lengths_that_a_chain_does_not_have() -> None:
    """The cases are drawn all the same, as the chain has them."""
    rows = {(0,): np.array([1.0, 0.0]), (1,): np.array([0.0, 1.0])}
    assert drawn_of(rows, LengthGroups(np.array([0, 7]), np.array([5])), 9) == [(1,)] * 7


def test_edges_part_a_chain_evenly() -> None:
    """Each group holds about as many of its cases; none begins above the longest measured."""
    chain = MarkovChain.from_masses(LOOP, 1.0)
    edges = length_edges(chain, 4, 400)
    assert edges.tolist() == [4, 8, 15]
    assert length_edges(chain, 4, 7).tolist() == [4]
    assert length_edges(chain, 1, 400).tolist() == []
    endless = {(0,): np.array([1.0, 0.0]), (1,): np.array([1.0, 0.0])}
    assert length_edges(MarkovChain.from_masses(endless, 1.0), 9, 50).tolist() == []


def test_noisy_counts_become_counts() -> None:
    """None is negative, they add up, and what was so already stays; all noise is something too."""
    assert nearest_counts(np.array([3.0, 0.0, 2.0]), 5).tolist() == [3, 0, 2]
    assert nearest_counts(np.array([9.0, 2.0, -4.0]), 5).tolist() == [5, 0, 0]
    assert nearest_counts(np.array([-9.0, -9.0]), 4).tolist() == [2, 2]
    assert in_whole(np.array([0.4, 0.4, 2.2]), 3).tolist() == [0, 1, 2]
    reduced = LengthGroups(np.array([900, 100]), np.array([4])).reduced(10)
    assert reduced.cases.tolist() == [9, 1]
