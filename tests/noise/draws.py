"""What the tests of the noise share: how samples are compared, and sources of words that are fed by
hand.
"""

import mpmath
import numpy as np
from scipy.stats import binom, hypergeom

FALSE_ALARM = 1e-10
"""Of one comparison of what was drawn with what should be; a test makes fewer than ten, so it fails
by chance at 1e-9.
"""


def p_value(counts, size, shares):
    """Each of ``counts`` among ``size`` draws against its share: the least p-value of one binomial
    test each (twice the smaller tail), times their number.

    Exact for any share (Bonferroni); chi-squared's p-values are not, that far out.
    """
    held, shares = np.array(counts, dtype=float), np.array(shares, dtype=float)
    assert held.shape == shares.shape
    ends = binom.cdf(held, size, shares), binom.sf(held - 1, size, shares)
    return len(held) * 2 * np.minimum(*ends).min()


def law_p_value(values, cuts, tails):
    """Draws against a law: how many reach each cut (``tails``: how many should), and how many lie
    between two cuts.
    """
    held = beyond(values, cuts)
    return p_value([*held, *-np.diff(held)], len(values), [*tails, *-np.diff(tails)])


def two_sample_p_value(a, b, cuts):
    """Two samples against each other: the least of one exact test (Fisher's) a cut, times their
    number.
    """
    held, size = beyond(a, cuts), len(a) + len(b)
    both = held + beyond(b, cuts)
    ends = hypergeom.cdf(held, size, both, len(a)), hypergeom.sf(held - 1, size, both, len(a))
    return len(cuts) * 2 * np.minimum(*ends).min()


def beyond(values, cuts):
    """How many values reach each cut."""
    return len(values) - np.searchsorted(np.sort(values), cuts)


def fed(*words):
    """A source that gives these words, one at a time, and fails when asked for more."""
    left = [np.array([word], dtype=np.uint64) for word in words]
    return lambda size: left.pop(0)


def bits_of_exp(x, bits):
    """floor(2**bits exp(-x))."""
    with mpmath.workprec(bits + 64):
        return int(mpmath.floor(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * 2**bits))
