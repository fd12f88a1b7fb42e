"""What the tests of the kernel share: small batches of cases, queries written out case by case, and
sources of noise that say what was drawn.
"""

from itertools import product

import numpy as np

from cloakwork.base.costs import Composed
from cloakwork.kernel import Books, Cases, Entries, Kernel, Measured, Owners
from cloakwork.noise import reproducible


def batch(variants, alphabet=None):
    """Cases with these activity sequences."""
    variants = [tuple(variant) for variant in variants]
    if alphabet is None:
        alphabet = sorted({label for variant in variants for label in variant})
    place = {label: code for code, label in enumerate(alphabet)}
    codes = [place[label] for variant in variants for label in variant]
    offsets = np.cumsum([0, *map(len, variants)])
    return Cases(tuple(alphabet), np.array(codes, np.int64), offsets.astype(np.int64))


def all_variants(labels, longest):
    """Every sequence of at most so many of these labels, the empty one too."""
    return [each for n in range(longest + 1) for each in product(labels, repeat=n)]


def measured(variants, counts=None, owners=None):
    """What a kernel answers from."""
    counts = np.ones(len(variants), np.int64) if counts is None else np.array(counts, np.int64)
    if owners is not None:
        owners = Owners(*(np.array(column, np.int64) for column in owners))
    return Measured(batch(variants), counts, owners)


def kernel_of(seen, *events, noise=None, max_cases=1):
    """A kernel whose plan lists these events."""
    books = Books.of(Composed(events=events))
    return Kernel(seen, books, Silent() if noise is None else noise, max_cases)


def entries(rows):
    """Entries (case, code, value), in this order."""
    case, code, value = zip(*rows, strict=True) if rows else ((), (), ())
    return Entries(np.array(case, np.int64), np.array(value), np.array(code, np.int64))


def case_by_case(find):
    """A query from what each case alone has: ``find(variant)`` lists (code, value), or (code,
    value, start, stop) with places in the case.
    """

    def query(cases):
        columns = [[] for _ in range(5)]
        for row, variant in enumerate(cases.variants()):
            first = cases.offsets[row]
            for code, value, *run in find(variant):
                start, stop = run or (0, 0)
                found = (row, value, code, start + first, stop + first)
                for column, number in zip(columns, found, strict=True):
                    column.append(number)
        return Entries(*(np.array(column, np.int64) for column in columns))

    return query


def as_dicts(cases, vectors):
    """Each case's vector, by key."""
    found = [{} for _ in range(len(cases))]
    for case, key, value in zip(vectors.case, vectors.key, vectors.value, strict=True):
        name = vectors.keys[key]
        assert name not in found[case]
        found[case][name] = int(value)
    return found


def size_of(vector, norm):
    """The norm of a vector, its square for l2."""
    sizes = [abs(value) for value in vector]
    if norm == "l2":
        return sum(size * size for size in sizes)
    return max(sizes, default=0) if norm == "max" else sum(sizes)


class Silent:
    """A source whose noise is zero, and that lists what was asked of it."""

    private = False

    def __init__(self):
        self.drawn = []
        self._other = reproducible(1)

    def laplace_values(self, scale, size):
        self.drawn.append(("laplace", scale, size))
        return np.zeros(size, np.int64)

    def gaussian_values(self, sigma, size):
        self.drawn.append(("gaussian", sigma, size))
        return np.zeros(size, np.int64)

    def coins(self, rate, size):
        self.drawn.append(("coins", rate, size))
        return self._other.coins(rate, size)

    def uniform(self, below):
        self.drawn.append(("uniform", below))
        return self._other.uniform(below)
