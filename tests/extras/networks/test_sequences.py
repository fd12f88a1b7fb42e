"""Cases as a network reads them."""

import numpy as np

from cloakwork.mechanisms.variants.chain import MarkovChain
from extras.networks.lazily import Lazily, needs_torch
from kernel.small import batch

pytestmark = needs_torch
PaddedCases = Lazily("cloakwork_extras.networks.prefix_network", "PaddedCases")

END = 2


def test_what_precedes_and_what_follows_each_place():
    """START before the first event, the end after the last one; nothing of an empty case."""
    padded = PaddedCases.of(batch(["ab", "b", ""], "ab"), 64)
    assert padded.before.tolist() == [[0, 1, 2], [0, 2, 0], [0, 0, 0]]
    assert padded.after.tolist() == [[0, 1, END], [1, END, 0], [0, 0, 0]]
    assert padded.is_real.sum(axis=1).tolist() == [3, 2, 0]


def test_a_longer_case_has_no_end():
    """It is cut; one that just fits has its end."""
    padded = PaddedCases.of(batch(["abab", "ab", "aba"], "ab"), 3)
    assert padded.before.tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert padded.after.tolist() == [[0, 1, 0], [0, 1, END], [0, 1, 0]]
    assert padded.is_real.all()


def test_no_cases_and_one_place():
    """Shapes hold."""
    assert PaddedCases.of(batch([], "ab"), 5).before.shape == (0, 1)
    assert PaddedCases.of(batch(["ba"], "ab"), 1).after.tolist() == [[1]]


def test_contexts_follow_the_chain():
    """The longest known context at each place, that of START where a case has none."""
    masses = {(0,): [1, 1, 0], (1,): [1, 1, 1], (2,): [1, 0, 1], (1, 2): [0, 1, 1]}
    chain = MarkovChain.from_masses({key: np.array(row) for key, row in masses.items()}, 1.0)
    contexts = PaddedCases.of(batch(["abb", "b"], "ab"), 64).contexts(chain)
    assert contexts.tolist() == [[0, 1, 3, 2], [0, 2, 0, 0]]
