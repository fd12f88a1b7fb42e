"""The networks of TraVaG as published: what they learn, and why noise on the decoder protects
nothing.
"""

import math

import numpy as np

from cloakwork_extras.networks.published import TravagPublishedParams
from extras.networks.lazily import Lazily, needs_torch, torch

pytestmark = needs_torch
networks = Lazily("cloakwork_extras.networks.adversarial_networks")
AdamSteps = Lazily("cloakwork_extras.networks.published_training", "AdamSteps")
Batches = Lazily("cloakwork_extras.networks.published_training", "Batches")
LayerRecord = Lazily("cloakwork_extras.networks.published_training", "LayerRecord")
NoisyGradient = Lazily("cloakwork_extras.networks.published_training", "NoisyGradient")
drawn_layers = Lazily("cloakwork_extras.networks.published_training", "drawn_layers")
one_hot = Lazily("cloakwork_extras.networks.published_training", "one_hot")
tensors_of = Lazily("cloakwork_extras.networks.published_training", "tensors_of")

CASES = np.array([30, 20, 14])


def seeded(seed: int = 1) -> "torch.Generator":
    """A generator of torch."""
    return torch.Generator().manual_seed(seed)


def without_noise(norm: float) -> NoisyGradient:
    """Clipping alone."""
    return NoisyGradient(norm, 0.0, 64, seeded())


def test_without_noise_the_autoencoder_learns_its_variants() -> None:
    """Each is decoded from its own code."""
    batches = Batches.of(CASES, 64, 300, seeded())
    autoencoder = networks._train_autoencoder(3, 8, batches, without_noise(1.0))
    codes = autoencoder.codes(torch.arange(3))
    assert autoencoder.logits(codes).argmax(dim=1).tolist() == [0, 1, 2]


def test_the_discriminator_pulls_the_generator_towards_what_there_is() -> None:
    """Without noise, the frequent variant is drawn more often than the rare one."""
    batches = Batches.of(CASES, 64, 300, seeded())
    autoencoder = networks._train_autoencoder(3, 8, batches, without_noise(1.0))
    generator = networks._train_generator(autoencoder, 3, 8, batches, without_noise(1.0))
    drawn = autoencoder.logits(generator(torch.randn(500, 8, generator=seeded(2)))).argmax(dim=1)
    counts = torch.bincount(drawn, minlength=3).tolist()
    assert counts[0] > counts[2]


def test_the_figures_say_how_much_noise_there_was() -> None:
    params = TravagPublishedParams(
        published=1.0, delta=1e-4, epochs=5, adversarial_epochs=3, batch=32, code=4
    )
    drawn, figures = networks.train_and_draw(params, CASES, 7)
    assert drawn.dtype == np.int64 and drawn.sum() == 64
    assert figures["steps of the decoder"] == 10
    assert figures["steps of the discriminator"] == 6
    least = float(str(figures["noise multiplier of the discriminator"]))
    assert float(str(figures["noise multiplier of the decoder"])) > least > 1


def test_one_case_moves_what_the_decoder_learns_from_all_others() -> None:
    """The flaw: the clip bounds what a case adds to a step by itself, and the noise covers no more.
    But the encoder learns from every case without noise, so that one case changes the codes of all
    others, and with these their gradients.
    """
    decoder = drawn_layers((8, 8, 3), seeded())
    common = torch.tensor([0] * 40 + [1] * 20)
    found = []
    for cases in (common, torch.cat([common, torch.tensor([2])])):
        autoencoder = networks.Autoencoder(drawn_layers((3, 8, 8), seeded(2)), decoder)
        unprotected = tensors_of(autoencoder.encoder)
        for tensor in unprotected:
            tensor.requires_grad_()
        descent = AdamSteps(unprotected, networks.RATE)
        for _ in range(120):
            descent.step(clipped_sums(autoencoder, cases, unprotected)[1])
        found.append(clipped_sums(autoencoder, common, unprotected)[0])
    moved = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(*found, strict=True)))
    assert moved > 0.2 * networks.DECODER_CLIP


def clipped_sums(autoencoder, cases, unprotected):
    """The decoder's clipped sum, which gets noise, and the encoder's gradient, which gets none."""
    record = LayerRecord()
    logits = autoencoder.logits(autoencoder.codes(cases), record)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, one_hot(cases, 3), reduction="none"
    )
    return record.clipped_sum(losses.mean(dim=1), networks.DECODER_CLIP, unprotected)
