"""What the network of variants/transformer learns, and says of prefixes."""

import numpy as np
import pytest

from cloakwork.base.costs import Repeated
from cloakwork.kernel import Descent
from cloakwork.mechanisms.variants.chain import LengthGroups, draw_sequences
from cloakwork.mechanisms.variants.markov import RemainingCases
from cloakwork.noise import reproducible
from cloakwork.testing import prepare
from cloakwork_extras.networks.transformer import VariantTransformer
from extras.networks.lazily import Lazily, needs_torch
from kernel.small import batch, kernel_of, measured

pytestmark = needs_torch
prefix_training = Lazily("cloakwork_extras.networks.prefix_network")
PrefixModel = Lazily("cloakwork_extras.networks.prefix_network", "PrefixModel")
learned_factors = Lazily("cloakwork_extras.networks.prefix_network", "learned_factors")
Tape = Lazily("cloakwork_extras.networks.training", "Tape")

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


def learned(given, counts=(500, 500)):
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
    return learned_factors(given, remaining(kernel.narrowed(LABELS)))


@pytest.mark.parametrize("width", [0, 4])
def test_it_remembers_the_first_step(width):
    """After b c x comes b rather than a, and the other way round."""
    factors = learned(params(width=width, steps=30))
    after_a, after_b = factors(np.array([[1, 3, 4], [2, 3, 4]]))
    assert after_a[0] > 3 * after_a[1]
    assert after_b[1] > 3 * after_b[0]
    chain = PrefixModel.of(params(), remaining()).chain
    drawn = draw_sequences(chain, LengthGroups.of_any(400), 4, reproducible(1), factors)
    kept = sum(case[3:4] == case[:1] for case in drawn if len(case) > 3)
    assert kept > 0.75 * sum(len(case) > 3 for case in drawn)


def test_what_is_not_trained_changes_nothing():
    """Every factor is 1, however long the prefix; and draws are those of the chain."""
    model = PrefixModel.of(params(places=2), remaining())
    start = model.network.shapes.initial(1, zeros=(model.network.last,))
    factors = model.factors(start)
    assert factors(np.ones((3, 7), np.int64)).tolist() == [[1.0] * 5] * 3
    assert factors(np.zeros((1, 0), np.int64)).shape == (1, 5)
    draws = [
        draw_sequences(model.chain, LengthGroups.of_any(50), 9, reproducible(1), each)
        for each in (None, factors)
    ]
    assert draws[0] == draws[1]


def test_the_loss_is_that_of_the_chain():
    """Minus the logarithm of the probability, over the root of the steps; steps that the chain
    rules out do not count, and a case without events has none.
    """
    model = PrefixModel.of(params(), remaining())
    tape = Tape(model.network.shapes.split(np.zeros(model.network.shapes.size)))
    found = model.losses(tape, batch(["acxa", "c", ""], LABELS), 0)
    # START, then a of two, c or the end, x, a or b, c or the end.
    assert found.tolist() == pytest.approx([4 * np.log(2) / 5**0.5, 0.0, 0.0], abs=1e-6)


def test_rare_labels_share_a_slot():
    """Where there are more than the network tells apart: by the noisy tables."""
    slots = prefix_training._label_slots(remaining(), 2)
    # c and x, the third and the fourth label, hold as much as a and b do; ties by their order.
    assert slots.tolist() == [0, 1, 1, 1]
