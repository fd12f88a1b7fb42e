"""The published diffusion model: what it learns, and what it draws where it learns nothing."""

import numpy as np
import pytest

from cloakwork_extras.networks.published import DdpmPublishedParams
from extras.networks.lazily import Lazily, needs_torch, torch

pytestmark = needs_torch
network = Lazily("cloakwork_extras.networks.diffusion_network")
Batches = Lazily("cloakwork_extras.networks.published_training", "Batches")
NoisyGradient = Lazily("cloakwork_extras.networks.published_training", "NoisyGradient")
count_codes = Lazily("cloakwork_extras.networks.published_training", "count_codes")

CASES = np.array([60, 3, 1])


def seeded(seed: int = 1) -> "torch.Generator":
    """A generator of torch."""
    return torch.Generator().manual_seed(seed)


def test_the_embedding_tells_steps_apart() -> None:
    """Sines and cosines of each step, as many as the network is wide."""
    found = network._embedding(20, 6)
    assert found.shape == (20, 6)
    assert found[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert float(found[3, 0]) == pytest.approx(np.sin(3))
    assert float(found[3, 3]) == pytest.approx(np.cos(3 * 10_000 ** (-1 / 3)), rel=1e-5)


def test_without_noise_frequent_variants_are_drawn_more_often() -> None:
    """More than twice a fair share of the frequent one would be, half of what there is."""
    generator = seeded()
    variances = torch.linspace(network.LEAST, network.MOST, 100)
    batches = Batches.of(CASES, 64, 300, generator)
    denoiser = network._train(
        network.Denoiser.drawn(3, 100, generator),
        variances,
        batches,
        NoisyGradient(1.0, 0.0, 64, generator),
    )
    codes = network._draw(denoiser, variances, (500, 3), generator)
    assert count_codes([codes], 3)[0] > 300


def test_where_nothing_is_learned_all_variants_are_drawn_alike() -> None:
    """The uniform draw over the source's variants: the rare ones as often as the frequent one."""
    silent = network.Denoiser.drawn(3, 10, seeded())
    for layer in silent.layers:
        layer.weight.zero_()
        layer.bias.zero_()
    variances = torch.linspace(network.LEAST, network.MOST, 10)
    codes = network._draw(silent, variances, (3000, 3), seeded())
    # 1,000 of each, with a standard deviation of 26.
    assert (abs(count_codes([codes], 3) - 1000) < 200).all()


def test_the_figures_say_how_much_noise_there_was() -> None:
    params = DdpmPublishedParams(published=1.0, delta=1e-4, epochs=5, batch=32, steps=5)
    drawn, figures = network.train_and_draw(params, CASES, 7)
    assert drawn.dtype == np.int64 and drawn.sum() == 64
    assert figures["steps of the training"] == 10
    assert float(str(figures["noise multiplier"])) > 1
