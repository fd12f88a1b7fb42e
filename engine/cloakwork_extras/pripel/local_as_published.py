"""Values and times of matched events through local noise, as PRIPEL was published: over what the
log itself has.
"""

import math
from datetime import timedelta
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import UNIX_EPOCH
from cloakwork.kernel import Cases, Column, Randomness
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.steps import Listed, Numbers, Times

_FINE: Final = 1 << 53
"""So many steps lie between 0 and 1."""

_TRUTH: Final = {"false": False, "true": True}
_MICROSECONDS: Final = Grid(UNIX_EPOCH, timedelta(microseconds=1))


def values_as_published(
    column: Column, rows: Ints, epsilon: float, random: Randomness, *, is_number: bool
) -> Listed | Numbers:
    """The values of a raw column at ``rows``, each through noise of ``epsilon``; missing ones stay.
    ``is_number``: a text is the number that it spells, or missing.

    Numbers: bounded Laplace noise over the range of the log. Truth values: randomised response.
    Others: the exponential mechanism over the values of the log, of which the true one has the
    utility 1, all others 0.
    """
    if not is_number and (column.alphabet or column.is_missing.all()):
        codes, values = column.codes[rows], column.alphabet
        if not _TRUTH.keys() >= set(values):
            return Listed(_exchanged(codes, len(values), epsilon / 2, random), values)
        truths = tuple(_TRUTH[value] for value in values)
        return Listed(_exchanged(codes, len(values), epsilon, random), truths)
    known = column.values[~column.is_missing]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    noisy = bounded_laplace(np.asarray(column.values[rows], np.float64), low, high, epsilon, random)
    return Numbers(np.where(column.is_missing[rows], np.nan, noisy))


def _exchanged(codes: Ints, size: int, exponent: float, random: Randomness) -> Ints:
    """Of ``size`` codes the true one with a weight of e**exponent, each other with 1; -1 stays."""
    if size < 2:
        return codes
    stays = random.coins(1 / (1 + (size - 1) * math.exp(-exponent)), len(codes))
    others = random.uniform(np.full(len(codes), size - 1, np.int64))
    return np.where(stays | (codes < 0), codes, (codes + 1 + others) % size)


def bounded_laplace(
    values: Floats, low: float | Floats, high: float | Floats, epsilon: float, random: Randomness
) -> Floats:
    """Each value with Laplace noise of (high - low) / epsilon, given that the sum lies between
    ``low`` and ``high`` (Holohan et al. 2020, definition 3.1; any value may become any other).

    By inverting the distribution function, in floating point: nothing proved rests on it.
    """
    width = np.asarray(high / 2 - low / 2)
    # Halves, so that the range of the largest numbers is a number.
    place = np.divide(values / 2 - low / 2, width, out=np.zeros(len(values)), where=width > 0)
    below = np.exp(-epsilon * place) / 2
    above = 1 - np.exp(-epsilon * (1 - place)) / 2
    uniform = (random.uniform(np.full(len(values), _FINE, np.int64)) + 0.5) / _FINE
    share = below + uniform * (above - below)
    nearer_end = np.maximum(np.minimum(share, 1 - share), np.finfo(np.float64).tiny)
    moved = np.log(2 * nearer_end) / epsilon
    noisy = np.clip(place + np.where(share < 0.5, moved, -moved), 0, 1)
    return np.asarray(low * (1 - noisy) + high * noisy, np.float64)


def times_as_published(
    source: Cases, made: Cases, case: Ints, event: Ints, epsilon: float, random: Randomness
) -> Times:
    """For each case of ``made`` the start of the case of ``source`` at ``case``, for each other
    event the gap before the one at ``event``, each through bounded Laplace noise of ``epsilon``:
    over all starts, and over the gaps that lead to an activity.

    A gap that is missing is 0, a start that is missing the earliest; no times at all are 1970.
    """
    follows = np.flatnonzero(made.place)
    gaps = source.gaps
    longest = np.zeros(len(source.alphabet))
    np.maximum.at(longest, source.codes, np.maximum(gaps.values, 0))
    raw = np.asarray(gaps.values[event[follows]], np.float64)
    noisy = bounded_laplace(np.maximum(raw, 0), 0.0, longest[made.codes[follows]], epsilon, random)
    starts = _starts_of(source)
    if len(case):
        low, high = float(starts.min()), float(starts.max())
        begins = bounded_laplace(starts[case], low, high, epsilon, random)
    else:
        begins = np.zeros(0)
    steps = np.zeros(len(made.codes))
    steps[follows] = noisy
    passed = np.cumsum(steps)
    first = made.offsets[made.case_of]
    times = begins[made.case_of] + passed - passed[first]
    # Inside what an integer holds before the calendar bounds it.
    return Times(_MICROSECONDS.microseconds(np.clip(times, -1e18, 1e18).astype(np.int64)))


def _starts_of(cases: Cases) -> Floats:
    """The first time of each case (microseconds), the earliest of all where it has none."""
    times = cases.times
    known = np.flatnonzero(~times.is_missing)
    starts = np.full(len(cases), np.nan)
    # Backwards, so that the first one is written last.
    starts[cases.case_of[known][::-1]] = times.values[known][::-1]
    earliest = float(np.nanmin(starts)) if len(known) else 0.0
    return np.where(np.isnan(starts), earliest, starts)
