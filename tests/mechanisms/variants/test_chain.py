"""The Markov chain that ``variants/markov`` draws cases from, and the flow that it is fitted to."""

from collections import Counter

import numpy as np

from cloakwork.kernel import Randomness
from cloakwork.mechanisms.variants.chain import MarkovChain, fit_flow, refine_contexts
from cloakwork.noise import reproducible
from mechanisms.variants.by_hand import LABELS, mass_by_hand


def randomness() -> Randomness:
    return Randomness(reproducible(1))


def random_flow() -> np.ndarray:
    """A table of a log's transitions: what comes to a label leaves it."""
    rng = np.random.default_rng(3)
    variants = [rng.integers(1, LABELS + 1, rng.integers(1, 9)).tolist() for _ in range(50)]
    codes = np.arange(LABELS + 1)[:, None] * (LABELS + 2) + np.arange(1, LABELS + 2)
    total = np.zeros((LABELS + 1, LABELS + 1))
    for variant in variants:
        mass = mass_by_hand(variant, 1)
        total += np.vectorize(lambda code, mass=mass: mass.get(code, 0.0))(codes)
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


def test_a_heavy_penalty_leaves_what_was_expected() -> None:
    """Where the noise drowns everything, the released variants speak for the others."""
    flow = random_flow()
    assert np.allclose(fit_flow(flow * 0, flow, 1e9), flow, atol=1e-2 * flow.max())


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


def test_a_chain_draws_what_it_expects() -> None:
    """Three quarters go one way; all 400 cases come out as 300 and 100, and the last step is
    END.
    """
    rows = {
        (0,): np.array([1.0, 0.0, 0.0]),
        (1,): np.array([0.0, 3.0, 1.0]),
        (2,): np.array([0.0, 0.0, 1.0]),
    }
    drawn = Counter(MarkovChain.from_masses(rows, 1.0).draw_sequences(400, 9, randomness()))
    assert drawn == {(1, 2): 300, (1,): 100}
    sharp = Counter(MarkovChain.from_masses(rows, 2.0).draw_sequences(400, 9, randomness()))
    assert sharp == {(1, 2): 360, (1,): 40}


def test_a_chain_knows_the_longest_context() -> None:
    """After START, 1 comes 1; after 1, 1 comes END."""
    rows = {
        (0,): np.array([1.0, 0.0]),
        (1,): np.array([1.0, 1.0]),
        (0, 1): np.array([1.0, 0.0]),
        (1, 1): np.array([0.0, 1.0]),
    }
    assert Counter(MarkovChain.from_masses(rows, 1.0).draw_sequences(10, 9, randomness())) == {
        (1, 1): 10
    }


def test_an_endless_chain_is_cut() -> None:
    """At the declared length; no case at all is drawn where none is wanted."""
    rows = {(0,): np.array([1.0, 0.0]), (1,): np.array([1.0, 0.0])}
    assert MarkovChain.from_masses(rows, 1.0).draw_sequences(3, 5, randomness()) == [(1,) * 5] * 3
    assert MarkovChain.from_masses(rows, 1.0).draw_sequences(0, 5, randomness()) == []
