"""From noisy histograms to distributions: each is shrunk to the shape that is expected of it."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats

BELIEVED: Final = 2.5
"""Sigmas by which a part must differ from what is expected, to be believed in full."""

EMPTY: Final = 1.7
"""Sigmas up to which a half is taken for empty, where what is expected does not fit."""

UNKNOWN: Final = 0.5
"""The same of parts of which nothing is expected; noise that hides more leaves them even."""

TOLERANCE: Final = 0.15
"""By how much the mass of a histogram usually differs from what is known of it, as a part of it."""


def distributions(
    noisy: Floats,
    sigma: float,
    mass: Floats,
    expected: Floats | None = None,
    differs: float = UNKNOWN,
    tolerance: float = TOLERANCE,
) -> Floats:
    """Distributions of which ``noisy`` are histograms with Gaussian noise of ``sigma``: shape
    (groups, bins), rows that add up to 1.

    ``mass``: what each row of the histogram adds up to, about. ``expected``: the shape that is
    expected of each, rows that add up to 1; where it has nothing, nothing is found. None: nothing
    is expected. ``differs``: by how much splits in two usually differ from what is expected, in
    standard deviations of a coin. ``tolerance``: by how much ``mass`` usually errs, as a part of
    it.

    Bins are halved again and again. How what lies in an interval is split between its halves is
    estimated by their noisy sums (least squares, given what both hold together), and averaged with
    what is expected by the inverse of their variances. What stands out from it is believed as it
    is; a half that is then hardly told from an empty one is empty. Nothing is lost: what one half
    does not get the other does.
    """
    groups, bins = noisy.shape
    depth = (bins - 1).bit_length()
    shape = np.full((1, bins), 1 / bins) if expected is None else expected
    # As many bins as halving needs; there is no noise in those that are added.
    added = (0, (1 << depth) - bins)
    cells = np.pad(noisy, [(0, 0), added])
    prior = np.pad(np.broadcast_to(shape, noisy.shape), [(0, 0), added])
    real = np.pad(np.ones(bins), added)
    # The mass of each row: its noisy total, averaged with what is known of it.
    spread = (tolerance * mass) ** 2
    weight = spread / (spread + (sigma * np.sqrt(bins)) ** 2)
    total = np.maximum(mass + weight * (noisy.sum(axis=1) - mass), 1e-9)[:, None]
    share = np.ones((groups, 1))
    for level in range(depth):
        intervals = 2 << level
        halves = (groups, intervals, cells.shape[1] // intervals)
        sizes = real.reshape(intervals, -1).sum(axis=1)
        left = _left_part(
            cells.reshape(halves).sum(axis=2),
            prior.reshape(halves).sum(axis=2),
            sigma**2 * sizes,
            total * share,
            None if expected is None else differs,
        )
        both = np.stack([share * left, share * (1 - left)], axis=2)
        share = both.reshape(groups, intervals)
    share = share[:, :bins]
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _left_part(
    found: Floats,
    known: Floats,
    variance: Floats,
    mass: Floats,
    differs: float | None,
) -> Floats:
    """The part of ``mass`` that falls into the left one of two halves: shape as ``mass``.

    ``found`` and ``known``: noisy sums, with their ``variance``, and expected parts of both halves,
    in turns. ``differs``: as of ``distributions``; None where nothing is expected.
    """
    both = known[:, 0::2] + known[:, 1::2]
    expected = np.where(both > 0, known[:, 0::2] / np.where(both > 0, both, 1), 1.0)
    # Both noisy sums say what the left half has: each is trusted the more, the less it errs.
    usable = np.maximum(mass, 1e-9)
    left = np.maximum(variance[0::2], 1e-9)
    right = np.maximum(variance[1::2], 1e-9)
    trust = right / (left + right)
    by_left = found[:, 0::2] / usable
    by_right = 1 - found[:, 1::2] / usable
    measured = trust * by_left + (1 - trust) * by_right
    error = np.sqrt(left * trust) / usable
    bound = BELIEVED * error
    if differs is None:
        is_noise = bound > UNKNOWN
        weight = np.where(is_noise, UNKNOWN**2 / (UNKNOWN**2 + error**2), 1.0)
    else:
        usual = differs**2 * np.maximum(expected * (1 - expected), 0.01)
        is_noise = np.abs(measured - expected) <= bound
        weight = np.where(is_noise, usual / (usual + error**2), 1.0)
    split = np.clip(expected + weight * (measured - expected), 0, 1)
    # What is believed against expectation may still be next to nothing on one side.
    split = np.where(is_noise, split, split * _kept(split / error))
    rest = 1 - split
    split = np.where(is_noise, split, 1 - rest * _kept(rest / error))
    # Where one half is expected to hold nothing at all, it does.
    is_settled = (expected <= 0) | (expected >= 1)
    return np.where(is_settled, expected, split)


def _kept(sigmas: Floats) -> Floats:
    """The part kept so far above 0: nothing up to ``EMPTY``, all from ``BELIEVED`` on."""
    return np.clip((sigmas - EMPTY) / (BELIEVED - EMPTY), 0, 1)
