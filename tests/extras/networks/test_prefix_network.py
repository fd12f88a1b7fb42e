"""The network over prefixes: cases as it reads them, attention, what it learns and says."""

import numpy as np
import pytest

from cloakwork.base.costs import Repeated
from cloakwork.kernel import Descent
from cloakwork.mechanisms.variants.chain import LengthGroups, MarkovChain, draw_sequences
from cloakwork.mechanisms.variants.markov import RemainingCases
from cloakwork.noise import reproducible
from cloakwork.testing import prepare
from cloakwork_extras.networks.transformer import VariantTransformer
from extras.networks.small_networks import needs_torch
from kernel.small import batch, kernel_of, measured

pytestmark = needs_torch

END = 2


def test_what_precedes_and_what_follows_each_place(prefixes):
    """START before the first event, the end after the last one; nothing of an empty case."""
    padded = prefixes.PaddedCases.of(batch(["ab", "b", ""], "ab"), 64)
    assert padded.before.tolist() == [[0, 1, 2], [0, 2, 0], [0, 0, 0]]
    assert padded.after.tolist() == [[0, 1, END], [1, END, 0], [0, 0, 0]]
    assert padded.is_real.sum(axis=1).tolist() == [3, 2, 0]


def test_a_longer_case_has_no_end(prefixes):
    """It is cut; one that just fits has its end."""
    padded = prefixes.PaddedCases.of(batch(["abab", "ab", "aba"], "ab"), 3)
    assert padded.before.tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert padded.after.tolist() == [[0, 1, 0], [0, 1, END], [0, 1, 0]]
    assert padded.is_real.all()


def test_no_cases_and_one_place(prefixes):
    """Shapes hold."""
    assert prefixes.PaddedCases.of(batch([], "ab"), 5).before.shape == (0, 1)
    assert prefixes.PaddedCases.of(batch(["ba"], "ab"), 1).after.tolist() == [[1]]


def test_contexts_follow_the_chain(prefixes):
    """The longest known context at each place, that of START where a case has none."""
    masses = {(0,): [1, 1, 0], (1,): [1, 1, 1], (2,): [1, 0, 1], (1, 2): [0, 1, 1]}
    chain = MarkovChain.from_masses({key: np.array(row) for key, row in masses.items()}, 1.0)
    contexts = prefixes.PaddedCases.of(batch(["abb", "b"], "ab"), 64).contexts(chain)
    assert contexts.tolist() == [[0, 1, 3, 2], [0, 2, 0, 0]]


STEPS = [[0, 1, 2, 3, 1], [0, 3, 3, 1, 2]]


@pytest.fixture
def added(torch, training):
    """What a network of random weights adds."""

    def by(network, steps, zeros=()):
        weights = network.shapes.split(network.shapes.initial(7, zeros))
        return network(training.Tape(weights), torch.tensor(steps))

    return by


@pytest.mark.parametrize("width", [0, 4])
def test_it_adds_nothing_before_training(prefixes, added, width):
    """The last layer begins at zero."""
    network = prefixes.PrefixNetwork(3, width, 64)
    assert not added(network, STEPS, (network.last,)).any()


@pytest.mark.parametrize("width", [0, 4])
def test_later_steps_do_not_matter(torch, prefixes, added, width):
    """What comes of a place is the same whatever follows it, and whatever other cases there are."""
    network = prefixes.PrefixNetwork(3, width, 64)
    there = added(network, STEPS)
    here = added(network, [STEPS[1][:3]])
    assert there.shape == (2, 5, 4)
    assert torch.allclose(there[1:, :3], here, atol=1e-5)


def test_all_of_the_prefix_matters(torch, prefixes, added):
    """Two cases that differ in an early step alone."""
    for width in (0, 4):
        network = prefixes.PrefixNetwork(3, width, 64)
        found = added(network, [[0, 1, 3, 3, 3], [0, 2, 3, 3, 3]])
        assert not torch.allclose(found[0, -1], found[1, -1], atol=1e-3)


def test_more_events_than_it_learned_from(torch, prefixes, added):
    """From ``places`` on nothing tells how many there are."""
    found = added(prefixes.PrefixNetwork(3, 0, 4), [[0, *[1] * 9]])
    assert torch.equal(found[0, 3], found[0, 9])
    assert not torch.equal(found[0, 2], found[0, 3])


LABELS = ("a", "b", "c", "x")
VARIANTS = [("a", "c", "x", "a"), ("b", "c", "x", "b")]
"""What comes last depends on the first step, which no chain of order 2 remembers."""


def params(**options):
    """What is offered for a log of 1,000 cases."""
    facts = {"alphabet": LABELS, "units_at_most": 1000, "longest_case": 4}
    return prepare(VariantTransformer(), epsilon=20.0, delta=1e-4, options=options, **facts).params


def remaining(kernel=None):
    """Cases of both variants, and tables of order 1."""
    follows = {(0,): [1, 1, 0, 0, 0], (1,): [0, 0, 1, 0, 1], (2,): [0, 0, 1, 0, 1]}
    follows |= {(3,): [0, 0, 0, 2, 0], (4,): [1, 1, 0, 0, 0]}
    masses = {context: np.array(row, np.float64) for context, row in follows.items()}
    return RemainingCases(kernel, LABELS, masses, 1000)


def learned(prefixes, given, counts=(500, 500)):
    """The factors, by a kernel that allows for the steps alone."""
    steps = Descent.of(
        times=given.steps,
        rate=1.0,
        norm=1.0,
        multiplier=given.multiplier,
        denominator=1.0,
    )
    event = Repeated(times=given.steps, event=steps.event(given.size, 1))
    kernel = kernel_of(measured(VARIANTS, counts), event, noise=reproducible(5))
    return prefixes.learned_factors(given, remaining(kernel.narrowed(LABELS)))


@pytest.mark.parametrize("width", [0, 4])
def test_it_remembers_the_first_step(prefixes, width):
    """After b c x comes b rather than a, and the other way round."""
    factors = learned(prefixes, params(width=width, steps=30))
    after_a, after_b = factors(np.array([[1, 3, 4], [2, 3, 4]]))
    assert after_a[0] > 3 * after_a[1]
    assert after_b[1] > 3 * after_b[0]
    chain = prefixes.PrefixModel.of(params(), remaining()).chain
    drawn = draw_sequences(chain, LengthGroups.of_any(400), 4, reproducible(1), factors)
    kept = sum(case[3:4] == case[:1] for case in drawn if len(case) > 3)
    assert kept > 0.75 * sum(len(case) > 3 for case in drawn)


def test_what_is_not_trained_changes_nothing(prefixes):
    """Every factor is 1, however long the prefix; and draws are those of the chain."""
    model = prefixes.PrefixModel.of(params(places=2), remaining())
    start = model.network.shapes.initial(1, zeros=(model.network.last,))
    factors = model.factors(start)
    assert factors(np.ones((3, 7), np.int64)).tolist() == [[1.0] * 5] * 3
    assert factors(np.zeros((1, 0), np.int64)).shape == (1, 5)
    draws = [
        draw_sequences(model.chain, LengthGroups.of_any(50), 9, reproducible(1), each)
        for each in (None, factors)
    ]
    assert draws[0] == draws[1]


def test_the_loss_is_that_of_the_chain(prefixes, training):
    """Minus the logarithm of the probability, over the root of the steps; steps that the chain
    rules out do not count, and a case without events has none.
    """
    model = prefixes.PrefixModel.of(params(), remaining())
    tape = training.Tape(model.network.shapes.split(np.zeros(model.network.shapes.size)))
    found = model.losses(tape, batch(["acxa", "c", ""], LABELS), 0)
    # START, then a of two, c or the end, x, a or b, c or the end.
    assert found.tolist() == pytest.approx([4 * np.log(2) / 5**0.5, 0.0, 0.0], abs=1e-6)


def test_rare_labels_share_a_slot(prefixes):
    """Where there are more than the network tells apart: by the noisy tables."""
    slots = prefixes._label_slots(remaining(), 2)
    # c and x, the third and the fourth label, hold as much as a and b do; ties by their order.
    assert slots.tolist() == [0, 1, 1, 1]
