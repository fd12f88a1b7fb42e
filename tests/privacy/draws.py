"""What the tests of the noise share: how samples are compared, and sources of words that are fed by hand."""

import mpmath
import numpy as np
from scipy.stats import chi2

FALSE_ALARM = 1e-8
"""Of one statistical test; all tests of noise together stay near 1e-6."""


def two_sample_p_value(a, b, cuts):
    """Chi-squared of two samples against each other."""
    counts = np.array([np.bincount(np.searchsorted(cuts, x, side="right"), minlength=len(cuts) + 1) for x in (a, b)])
    counts = counts[:, counts.sum(axis=0) > 0]
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.shape[1] - 1)


def fed(*words):
    """A source that gives these words, one at a time, and fails when asked for more."""
    left = [np.array([word], dtype=np.uint64) for word in words]
    return lambda size: left.pop(0)


def bits_of_exp(x, bits):
    """floor(2**bits exp(-x))."""
    with mpmath.workprec(bits + 64):
        return int(mpmath.floor(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * 2**bits))
