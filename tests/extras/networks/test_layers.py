"""Factors of gradients are the gradients of each case."""

import numpy as np

from extras.networks.lazily import Lazily, needs_torch, torch

pytestmark = needs_torch
Shapes = Lazily("cloakwork_extras.networks.training", "Shapes")
Tape = Lazily("cloakwork_extras.networks.training", "Tape")
generator_of = Lazily("cloakwork_extras.networks.training", "generator_of")


CASES, PLACES = 5, 3


def shapes():
    return Shapes(((3, 4), (5, 6), (7, 2), (4, 3)))


def losses(tape, codes):
    """An embedding, a layer at all places used twice, one on their mean, and one that is unused."""
    found = torch.tanh(tape.linear(1, tape.rows(0, codes)))
    found = found + torch.tanh(tape.linear(1, found[..., :4]))
    return tape.linear(2, found.mean(dim=1)).square().sum(dim=1)


def test_factors_are_gradients_of_each_case():
    """As autograd finds them case by case."""
    flat = shapes().initial(15)
    codes = torch.randint(0, 3, (CASES, PLACES), generator=generator_of(1, 2))
    tape = Tape(shapes().split(flat))
    found = tape.factors(losses(tape, codes))
    made = [torch.einsum("itp,itq->ipq", each.left, each.right) for each in found]
    for case in range(CASES):
        weights = shapes().split(flat)
        alone = Tape(weights)
        loss = losses(alone, codes[case : case + 1]).sum()
        expected = torch.autograd.grad(loss, weights, allow_unused=True)
        for matrix, gradient in zip(made, expected, strict=True):
            reference = torch.zeros_like(matrix[case]) if gradient is None else gradient
            assert torch.allclose(matrix[case], reference, atol=1e-5)


def test_initial_weights():
    """As many as there are, the same for a seed, and zeros where asked for."""
    flat = shapes().initial(1, zeros=(2,))
    assert flat.shape == (shapes().size,) == (3 * 4 + 5 * 6 + 7 * 2 + 4 * 3,)
    assert np.array_equal(flat, shapes().initial(1, zeros=(2,)))
    matrices = shapes().split(flat)
    assert not matrices[2].any()
    assert matrices[1][:-1].any()
    assert not matrices[1][-1].any()


def test_a_step_draws_the_same_however_often_it_is_asked():
    """And other steps draw otherwise."""
    drawn = [torch.rand(4, generator=generator_of(7, step)) for step in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
