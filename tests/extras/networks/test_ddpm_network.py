"""Variants made of noise."""

import numpy as np
import pytest

from extras.networks.lazily import Lazily, needs_torch, torch

pytestmark = needs_torch
Levels = Lazily("cloakwork_extras.networks.ddpm_network", "Levels")
VariantDenoiser = Lazily("cloakwork_extras.networks.ddpm_network", "VariantDenoiser")


def test_the_right_denoiser_draws_the_right_shares():
    """However few levels there are: within five deviations of so many chains, and what the last
    level leaves of the variant (a hundredth of its square).
    """
    shares = torch.tensor([0.6, 0.3, 0.08, 0.02])
    first, second = torch.zeros((6, 1)), torch.zeros((2, 4))
    second[-1] = shares.log()
    denoiser = VariantDenoiser(Levels.geometric(), first, second, 4)
    found = denoiser.mean_shares(torch.Generator().manual_seed(1))
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - shares.numpy()).max() < 5 * np.sqrt(0.25 / 2**15) + 0.005


def test_evidence_is_that_of_normal_noise():
    """The chances at a level are Bayes's: prior times likelihood."""
    levels, shares = Levels.geometric(), torch.tensor([0.5, 0.5])
    first, second = torch.zeros((4, 1)), torch.zeros((2, 2))
    second[-1] = shares.log()
    noisy, level = torch.tensor([[0.3, -0.2]]), 8
    kept = levels.kept[level].item()
    means = kept**0.5 * np.eye(2)
    likelihood = np.exp(-((noisy.numpy() - means) ** 2).sum(axis=1) / (2 * (1 - kept)))
    found = VariantDenoiser(levels, first, second, 2).chances(noisy, level)[0].numpy()
    assert found == pytest.approx(likelihood / likelihood.sum(), abs=1e-6)
