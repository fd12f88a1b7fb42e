"""The Markov chain that ``variants/markov`` draws cases from, and the flow that it is fitted to."""

import numpy as np

from cloakwork.mechanisms.variants.chain import MarkovChain, fit_flow, refine_contexts
from mechanisms.variants.by_hand import LABELS, mass_by_hand


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
