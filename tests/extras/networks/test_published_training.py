"""Clipped sums from the factors of layers, the optimisers, and the batches."""

import math

import numpy as np
import pytest

from extras.networks.lazily import Lazily, needs_torch, torch

pytestmark = needs_torch
training = Lazily("cloakwork_extras.networks.published_training")


def seeded(seed: int = 1) -> "torch.Generator":
    """A generator of torch."""
    return torch.Generator().manual_seed(seed)


def network(layers, values, through):
    """Two layers with tanh between; one number a case, over all places."""
    first, second = layers
    made = through(second, torch.tanh(through(first, values)))
    return (made**2).flatten(1).sum(dim=1)


def gradients_one_by_one(layers, values, norm):
    """The sum of clipped gradients, case by case, by torch alone."""
    tensors = training.tensors_of(layers)
    for tensor in tensors:
        tensor.requires_grad_()
    sums = [torch.zeros_like(tensor) for tensor in tensors]
    for case in values:
        loss = network(layers, case[None], lambda layer, inputs: layer(inputs)).sum()
        found = torch.autograd.grad(loss, tensors)
        length = math.sqrt(sum(float((each**2).sum()) for each in found))
        for total, each in zip(sums, found, strict=True):
            total.add_(each, alpha=min(1.0, norm / length))
    return sums


@pytest.mark.parametrize("shape", [(7, 3), (7, 2, 3)])
@pytest.mark.parametrize("norm", [0.05, 1e3])
def test_clipped_sums_are_those_of_the_cases_one_by_one(shape, norm) -> None:
    """With one place a case and with several, where all are clipped and where none is."""
    layers = training.drawn_layers((3, 5, 2), seeded())
    values = torch.randn(shape, generator=seeded(2))
    record = training.LayerRecord()
    sums, _ = record.clipped_sum(network(layers, values, record.through), norm)
    for found, expected in zip(sums, gradients_one_by_one(layers, values, norm), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_one_case_moves_the_sum_by_the_clip_at_most() -> None:
    layers = training.drawn_layers((3, 5, 2), seeded())
    values = torch.randn(6, 3, generator=seeded(2))

    def sums(cases):
        record = training.LayerRecord()
        return record.clipped_sum(network(layers, cases, record.through), 0.05)[0]

    pairs = zip(sums(values), sums(values[1:]), strict=True)
    moved = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in pairs))
    assert moved <= 0.05 + 1e-6


def test_an_empty_batch_gives_zeros() -> None:
    layers = training.drawn_layers((3, 5, 2), seeded())
    record = training.LayerRecord()
    sums, _ = record.clipped_sum(network(layers, torch.zeros(0, 3), record.through), 1.0)
    assert [tuple(each.shape) for each in sums] == [(5, 3), (5,), (2, 5), (2,)]
    assert all(not each.any() for each in sums)


def test_noise_has_the_deviation_that_is_asked_for() -> None:
    """Of 20,000 numbers: within 5 %, which is ten standard errors."""
    noise = training.NoisyGradient(norm=0.5, multiplier=4.0, batch=10, generator=seeded())
    (found,) = noise.means([torch.full((20_000,), 30.0)])
    assert float(found.std()) == pytest.approx(0.2, rel=0.05)
    assert float(found.mean()) == pytest.approx(3.0, abs=0.02)


def test_steps_against_a_gradient_that_stays() -> None:
    """By hand: Adam's two means are then the gradient and its square, so that each step is the rate
    long; RMSprop's mean is 1 - .99^t of the square.
    """
    gradient = torch.tensor([0.5, -2.0])
    signs = gradient.sign()
    adam, rms = torch.zeros(2), torch.zeros(2)
    of_adam, of_rms = training.AdamSteps([adam], 0.01), training.RmspropSteps([rms], 0.01)
    for _ in range(5):
        of_adam.step([gradient])
        of_rms.step([gradient])
    torch.testing.assert_close(adam, -0.05 * signs)
    expected = sum(0.01 / math.sqrt(1 - 0.99**step) for step in range(1, 6))
    torch.testing.assert_close(rms, -expected * signs)


def test_a_gradient_that_turns_moves_little() -> None:
    """Adam's mean of gradient and opposite, by hand: .1 g, then (.9 .1 - .1) g over 1 - .9^2."""
    value, gradient = torch.zeros(1), torch.ones(1)
    descent = training.AdamSteps([value], 0.01)
    descent.step([gradient])
    descent.step([-gradient])
    assert float(value) == pytest.approx(-0.01 + 0.01 * 0.01 / 0.19, rel=1e-5)


def test_batches_hold_each_case_with_the_same_chance() -> None:
    """Small logs are one batch; large ones have as many steps as the epochs take."""
    whole_log = training.Batches.of(np.array([3, 2]), 64, 4, seeded())
    drawn = [codes.tolist() for _, codes in whole_log.drawn("training")]
    assert drawn == [[0, 0, 0, 1, 1]] * 4
    large = training.Batches.of(np.array([500, 500]), 100, 3, seeded())
    sizes = [len(codes) for _, codes in large.drawn("training")]
    assert len(sizes) == 30
    # 3,000 cases on average, with a standard deviation of 52.
    assert abs(sum(sizes) - 3000) < 400


def test_one_hot_vectors_and_counts() -> None:
    codes = torch.tensor([2, 0, 2])
    assert training.one_hot(codes, 3).tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    assert training.count_codes([codes, codes[:1]], 4).tolist() == [1, 0, 3, 0]
    assert list(training.portions(2 * training.AT_ONCE + 1)) == [2048, 2048, 1]
