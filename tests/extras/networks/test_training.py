"""Training by gradient steps of a kernel: the gradients of each case, noise that is enough and
hardly more, and what is learned.
"""

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import Composed, Cost, DiscreteLaplace, Repeated
from cloakwork.base.progress import heard_by
from cloakwork.kernel import Descent
from cloakwork.noise import reproducible
from cloakwork_extras.networks.steps import multiplier_for, multiplier_of_mu, steps_event
from extras.networks.small_networks import needs_torch
from kernel.small import kernel_of, measured

pytestmark = needs_torch

TARGET = Cost(epsilon=1.0, delta=1e-5)


def test_the_least_noise():
    """Beside other noise it meets the target, and a hundredth less does not."""
    beside = DiscreteLaplace(scale=4.0)
    found = multiplier_for(20, 0.25, 100, 2, TARGET, beside)
    for factor, is_met in ((1.0, True), (0.99, False)):
        event = Composed(events=(steps_event(20, 0.25, found * factor, 100, 2), beside))
        assert (cost(event, TARGET.delta).epsilon <= TARGET.epsilon) == is_met


def test_steps_on_everybody_are_one_normal_number():
    """Sixteen steps at four times the noise cost what one costs."""
    one = cost(steps_event(1, 1.0, 1 / 0.5, 100), 1e-6).epsilon
    many = cost(steps_event(16, 1.0, multiplier_of_mu(16, 0.5), 100), 1e-6).epsilon
    assert many == pytest.approx(one, rel=1e-3)


CASES, PLACES = 5, 3


@pytest.fixture(scope="module")
def layers(training):
    return training.Shapes(((3, 4), (5, 6), (7, 2), (4, 3)))


def losses_of_codes(torch, tape, codes):
    """An embedding, a layer at all places used twice, one on their mean, and one that is unused."""
    found = torch.tanh(tape.linear(1, tape.rows(0, codes)))
    found = found + torch.tanh(tape.linear(1, found[..., :4]))
    return tape.linear(2, found.mean(dim=1)).square().sum(dim=1)


def test_factors_are_gradients_of_each_case(torch, training, layers):
    """As autograd finds them case by case."""
    flat = layers.initial(15)
    codes = torch.randint(0, 3, (CASES, PLACES), generator=training.generator_of(1, 2))
    tape = training.Tape(layers.split(flat))
    found = tape.factors(losses_of_codes(torch, tape, codes))
    made = [torch.einsum("itp,itq->ipq", each.left, each.right) for each in found]
    for case in range(CASES):
        weights = layers.split(flat)
        alone = training.Tape(weights)
        loss = losses_of_codes(torch, alone, codes[case : case + 1]).sum()
        expected = torch.autograd.grad(loss, weights, allow_unused=True)
        for matrix, gradient in zip(made, expected, strict=True):
            reference = torch.zeros_like(matrix[case]) if gradient is None else gradient
            assert torch.allclose(matrix[case], reference, atol=1e-5)


def test_initial_weights(layers):
    """As many as there are, the same for a seed, and zeros where asked for."""
    flat = layers.initial(1, zeros=(2,))
    assert flat.shape == (layers.size,) == (3 * 4 + 5 * 6 + 7 * 2 + 4 * 3,)
    assert np.array_equal(flat, layers.initial(1, zeros=(2,)))
    matrices = layers.split(flat)
    assert not matrices[2].any()
    assert matrices[1][:-1].any()
    assert not matrices[1][-1].any()


def test_a_step_draws_the_same_however_often_it_is_asked(torch, training):
    """And other steps draw otherwise."""
    drawn = [torch.rand(4, generator=training.generator_of(7, step)) for step in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


TIMES = 60
DESCENT = Descent.of(times=TIMES, rate=0.5, norm=1.0, multiplier=0.5, denominator=250.0)
SEEN = measured([("a", "good"), ("b", "bad"), ("a", "bad"), ("b", "good")], [200, 200, 50, 50])


@pytest.fixture
def trained(torch, training):
    """Gives the weights after all steps."""

    def losses(tape, cases, step):
        """Cross-entropy of the last activity, given the first."""
        first = torch.tensor(cases.coded("ab")[cases.offsets[:-1]])
        last = torch.tensor(cases.coded(("good",))[cases.offsets[1:] - 1] == 0).long()
        scores = tape.linear(0, torch.nn.functional.one_hot(first, 2).float())
        return torch.nn.functional.cross_entropy(scores, last, reduction="none")

    def weights():
        shapes = training.Shapes(((3, 2),))
        event = Repeated(times=TIMES, event=DESCENT.event(shapes.size, 1))
        kernel = kernel_of(SEEN, event, noise=reproducible(15))
        update = training.Adam(rate=0.1, times=TIMES)
        task = training.Training("a test", losses, shapes, DESCENT, delta=1e-5)
        return update.average(task.run(kernel, shapes.initial(1), update))

    return weights


def test_a_network_learns(torch, trained):
    """What follows what, and the same for one seed."""
    weights = trained()
    chances = torch.softmax(torch.tensor(weights[:4] + np.tile(weights[4:], 2)).reshape(2, 2), 1)
    assert chances[:, 1].numpy() == pytest.approx([0.8, 0.2], abs=0.1)
    assert np.array_equal(weights, trained())


def test_progress_is_told(training, trained, monkeypatch):
    """In epochs, in steps and in what is spent: here as many units as there are steps."""
    monkeypatch.setattr(training, "REPORTED", 0.0)
    spent = lambda event, delta: Cost(epsilon=float(event.times), delta=0.0)  # noqa: E731
    monkeypatch.setattr(training, "cost", spent)
    heard = []
    with heard_by(heard.append):
        trained()
    assert len(heard) == TIMES
    assert heard[29].startswith("training a test: epoch 15 of 30 (step 30 of 60), epsilon 30 of")
