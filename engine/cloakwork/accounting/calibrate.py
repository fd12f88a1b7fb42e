import math


def _tail(scale, x):
    p = math.exp(-1 / scale)
    return p**x / (1 + p) if x > 0 else 1 - p ** (1 - x) / (1 + p)


def threshold_delta(scale, tau, m):
    return m * _tail(scale, tau - m)


def partition_threshold(scale, delta, m):
    t = 1
    while threshold_delta(scale, t, m) > delta:
        t += 1
    return t


def largest_delta(n):
    return 1e-6 if n is None else 1 / (10 * n)
