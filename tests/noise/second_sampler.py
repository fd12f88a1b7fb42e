"""Discrete Laplace and Gaussian noise a second time: slow, rational, and written from the
pseudocode of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
algorithms 1 to 3. No line, table or bound is shared with the engine's sampler.

Randomness comes as fair bits, one at a time.
"""

import math
from fractions import Fraction


class NoBitsLeft(Exception):
    """More bits are asked for than there are."""


class Bits:
    """Fair bits, given beforehand."""

    def __init__(self, bits):
        self.left = list(reversed(bits))

    def __call__(self):
        if not self.left:
            raise NoBitsLeft
        return self.left.pop()


def bernoulli(share, bit):
    """True with a rational probability: whether a uniform real, bit by bit, lies below it."""
    share = Fraction(share)
    if share >= 1:
        return True
    while share > 0:
        share *= 2
        digit = int(share >= 1)
        share -= digit
        drawn = bit()
        if drawn != digit:
            return drawn < digit
    return False


def uniform(below, bit):
    """A uniform integer in [0, below), by rejection."""
    while True:
        found = 0
        for _ in range((below - 1).bit_length()):
            found = 2 * found + bit()
        if found < below:
            return found


def bernoulli_exp(gamma, bit):
    """Algorithm 1: True with probability exp(-gamma), for a rational gamma >= 0."""
    gamma = Fraction(gamma)
    if gamma <= 1:
        k = 1
        while bernoulli(gamma / k, bit):
            k += 1
        return k % 2 == 1
    for _ in range(math.floor(gamma)):
        if not bernoulli_exp(1, bit):
            return False
    return bernoulli_exp(gamma - math.floor(gamma), bit)


def laplace(t, s, bit):
    """Algorithm 2: masses proportional to exp(-|x| s / t)."""
    while True:
        u = uniform(t, bit)
        if not bernoulli_exp(Fraction(u, t), bit):
            continue
        v = 0
        while bernoulli_exp(1, bit):
            v += 1
        size = (u + t * v) // s
        is_negative = bernoulli(Fraction(1, 2), bit)
        if is_negative and size == 0:
            continue
        return -size if is_negative else size


def gaussian(square, bit):
    """Algorithm 3: masses proportional to exp(-x**2 / (2 square)), for a rational ``square``."""
    t = math.isqrt(math.floor(square)) + 1
    while True:
        y = laplace(t, 1, bit)
        if bernoulli_exp((abs(y) - square / t) ** 2 / (2 * square), bit):
            return y


def outcomes(draw, depth):
    """What ``draw(bit)`` returns on all bit strings of up to ``depth`` bits: the share of strings
    on which it returns each value, and that on which it asks for more.
    """
    found, undecided = {}, Fraction(0)
    strings = [()]
    while strings:
        string = strings.pop()
        try:
            value = draw(Bits(string))
        except NoBitsLeft:
            if len(string) < depth:
                strings += [(*string, 0), (*string, 1)]
            else:
                undecided += Fraction(1, 2 ** len(string))
        else:
            found[value] = found.get(value, 0) + Fraction(1, 2 ** len(string))
    return found, undecided


def below_exp(bits, gamma):
    """Whether the uniform real that begins with ``bits`` lies below exp(-gamma); None where these
    bits do not tell.
    """
    prefix = int("".join(map(str, bits)) or "0", 2)
    low, high = Fraction(prefix, 2 ** len(bits)), Fraction(prefix + 1, 2 ** len(bits))
    for terms in (20, 40, 80):
        least, most = exp_between(gamma, terms)
        if high <= least:
            return True
        if low >= most:
            return False
    return None


def exp_between(gamma, terms):
    """Two rationals around exp(-gamma): so many terms of its series at gamma / n, raised to n."""
    n = max(1, math.ceil(gamma))
    total, term, before = Fraction(1), Fraction(1), Fraction(1)
    for k in range(1, terms):
        term *= -Fraction(gamma) / n / k
        before, total = total, total + term
    low, high = sorted((before, total))
    # Shortened to 256 bits, outwards.
    fine = 2**256
    low, high = Fraction(math.floor(low * fine), fine), Fraction(math.ceil(high * fine), fine)
    return low**n, high**n
