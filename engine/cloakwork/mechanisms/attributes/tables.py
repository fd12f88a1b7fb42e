"""The noisy tables of attributes, and the distributions that they say: post-processing, which costs
nothing.

What does not stand out of its noise is not believed. How counts are spread is learnt from all of
them, and each is then what it is expected to be (empirical Bayes); a group (the events of an
activity) is taken to be like the groups that it shares values with, and like all groups of its
attribute, where its own counts say nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import NoisySums
from cloakwork.mechanisms.attributes.contributions import SIDE_WEIGHT, TableLayout

GRID: Final = 60
"""Sizes that a count may have, beside next to none."""

STEPS: Final = 60
"""Of expectation and maximisation."""

LARGEST_RATIO: Final = 128.0
"""A count is at most so many times what was expected of it."""

_MOST_ROWS: Final = 20_000
"""Counts that the spread is learnt from, and that are looked at together."""

_NONE: Final = 1e-3
"""Next to none, in deviations of the noise, or as a share of what was expected."""


def expected_counts(counts: Floats, sigma: float) -> Floats:
    """What each of ``counts`` is expected to be without its noise, of deviation ``sigma`` (above
    0): above 0, of the same shape.

    Their spread is the one under which they are likeliest (Kiefer and Wolfowitz 1956), which loses
    little where most counts are none (Jiang and Zhang 2009).
    """
    largest = max(float(counts.max(initial=0.0)), sigma)
    sizes = np.concatenate([[_NONE * sigma], np.geomspace(sigma / 8, largest, GRID)])
    return _means(counts, np.ones_like(counts), sizes, sigma)


def expected_beside(
    counts: Floats,
    guess: Floats,
    sigma: float,
) -> Floats:
    """The same, where ``guess`` (above 0) says what they should be like: estimated is how many
    times that they are.
    """
    ratios = np.geomspace(1 / LARGEST_RATIO, LARGEST_RATIO, GRID)
    return _means(counts, guess, np.concatenate([[_NONE], ratios]), sigma) * guess


def _means(
    counts: Floats,
    unit: Floats,
    sizes: Floats,
    sigma: float,
) -> Floats:
    """The posterior mean of each count's size, in units of ``unit``; sizes are those of a grid."""
    flat, scale = counts.ravel(), unit.ravel()
    if not len(flat):
        return counts

    def likelihood(part: slice) -> Floats:
        """Of each count (row) under each size (column), up to a factor a row."""
        apart = flat[part, None] - scale[part, None] * sizes
        square = (apart / sigma) ** 2
        # Less the least square of its row, so that no row underflows to nothing.
        least = square.min(axis=1, keepdims=True)
        return np.asarray(np.exp((least - square) / 2), np.float64)

    # Which sizes there are, learnt from some of the counts (expectation and maximisation).
    some = likelihood(slice(None, None, -(-len(flat) // _MOST_ROWS)))
    weight = np.full(len(sizes), 1 / len(sizes))
    for _ in range(STEPS):
        weight = _posterior(some, weight).mean(axis=0)
    # Then each count's posterior mean, so many rows at a time.
    found = np.empty(len(flat))
    for begin in range(0, len(flat), _MOST_ROWS):
        part = slice(begin, begin + _MOST_ROWS)
        found[part] = _posterior(likelihood(part), weight) @ sizes
    return found.reshape(counts.shape)


def _posterior(likelihood: Floats, weight: Floats) -> Floats:
    # No weight reaches zero, so each row has some.
    posterior = likelihood * np.maximum(weight, 1e-12)
    return np.asarray(posterior / posterior.sum(axis=1, keepdims=True), np.float64)


PLAUSIBLE: Final = 2.5
"""Within how many deviations a share is taken to be none, or all."""

ROUNDS: Final = 3
"""How often groups learn from those before them: values travel so many steps further."""

_LEAST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Counted:
    """Noisy counts of one attribute, float64, in cases.

    ``values``: shape (groups, values), with noise of deviation ``sigma``. ``totals``: what each
    group's values add up to, shape (groups,), with noise of deviation ``total_sigma``; ``mass``:
    how many cases have the group, with noise of deviation ``mass_sigma``.
    """

    values: Floats
    sigma: float
    totals: Floats
    total_sigma: float
    mass: Floats
    mass_sigma: float


@dataclass(frozen=True, slots=True)
class ValueShares:
    """The values of one attribute by group: ``present``, the share that has one, shape (groups,);
    ``shape``: how often each of these is, shape (groups, values), rows that add up to 1.
    """

    present: Floats
    shape: Floats


def fitted(counted: Counted, passed_on: Floats) -> ValueShares:
    """What the counts say, with the noise taken out as far as it can be.

    ``passed_on``: for each group (row) the share of its values that are known to be those of each
    group (column), shape (groups, groups), rows that add up to 1 at most: of activities that come
    before it. What else a group is expected to be like are all groups together.
    """
    present = _present(counted)
    used = (present > 0) & (counted.totals > 0)
    everywhere = _over_all_groups(counted, used)
    shape = np.tile(everywhere, (len(present), 1))
    if used.sum() > 1 and len(everywhere):
        parents = shape
        known = np.where(used, passed_on, 0.0)
        rest = 1 - known.sum(axis=1, keepdims=True)
        # Groups learn from what others became in the round before.
        for _ in range(1 + ROUNDS * bool(known.any())):
            shape = _of_groups(counted, used, parents)
            parents = known @ shape + rest * everywhere
    return ValueShares(present, shape)


def _present(counted: Counted) -> Floats:
    """The share of each group that has a value: none or all, where that is plausible; where both
    are, the share over all groups.
    """
    totals, mass = counted.totals, np.maximum(counted.mass, 0.0)
    if not counted.values.shape[1]:
        return np.zeros(len(totals))
    overall = float(np.clip(totals.sum() / max(mass.sum(), _LEAST), 0.0, 1.0))
    some = totals > PLAUSIBLE * counted.total_sigma
    apart = np.hypot(counted.total_sigma, counted.mass_sigma)
    all_of_them = mass - totals < PLAUSIBLE * apart
    share = np.clip(totals / np.maximum(mass, _LEAST), 0.0, 1.0)
    share = np.where(all_of_them, 1.0, share)
    return np.where(some, share, np.where(all_of_them, overall, 0.0))


def _over_all_groups(counted: Counted, used: Bools) -> Floats:
    """The shape over all groups that are ``used``, shape (values,); even, where there are none."""
    size = counted.values.shape[1]
    if not used.any() or not size:
        return np.full(size, 1 / max(size, 1))
    counts = counted.values[used].sum(axis=0)
    expected = expected_counts(counts, counted.sigma * float(np.sqrt(used.sum())))
    return np.asarray(expected / expected.sum(), np.float64)


def _of_groups(
    counted: Counted,
    used: Bools,
    parents: Floats,
) -> Floats:
    """The shape of each group that is ``used``, expected to be like its row of ``parents``; of the
    others that.
    """
    guess = np.maximum(counted.totals[used, None] * parents[used], _LEAST)
    found = expected_beside(counted.values[used], guess, counted.sigma)
    shape = parents.copy()
    shape[used] = found / found.sum(axis=1, keepdims=True)
    return shape


def independent(table: Floats) -> Floats:
    """A table of the same margins without any structure."""
    rows, columns = np.maximum(table.sum(axis=1), 0), np.maximum(table.sum(axis=0), 0)
    return np.outer(rows, columns) / max(float(rows.sum()), 1e-9)


STANDS_OUT: Final = 3.0
"""How many deviations of its noise a count must lie above nothing, to be believed."""


class NoisyTables:
    """The noisy tables, in cases; ``step``: cases in a grid step.

    ``answers``: the tables, each time with the deviation of their noise in grid steps; several are
    averaged, weighted by how precise they are.
    """

    def __init__(
        self,
        layout: TableLayout,
        answers: Sequence[tuple[NoisySums, float]],
        step: float,
    ) -> None:
        # Answers are averaged by precision, which adds up.
        weighted = [(sums, 1 / sigma**2) for sums, sigma in answers]
        precision = sum(weight for _, weight in weighted)
        self.layout = layout
        self._step = step
        self._parts = [(sums, weight / precision) for sums, weight in weighted]
        self._sigma = step / math.sqrt(precision)
        self._side_sigma = self._sigma / SIDE_WEIGHT

    def _at(
        self,
        begin: int,
        count: int,
        weight: float = SIDE_WEIGHT,
    ) -> Floats:
        """The counts from the key ``begin`` on, of what goes in with this weight."""
        codes: Ints = begin + np.arange(count)
        found = np.zeros(count)
        for sums, part in self._parts:
            found += sums.at(codes) * part
        return found * (self._step / weight)

    def counted(self, place: int) -> Counted:
        """The counts of one attribute."""
        layout, side = self.layout, self._side_sigma
        attribute, groups = layout.attributes[place], layout.groups(place)
        weight = layout.weight(place)
        values = self._at(layout.values(place), groups * attribute.size, weight)
        values = values.reshape(groups, attribute.size)
        sigma = self._sigma / weight
        # Each group's total: what its values add up to, and its own count if any, weighted by how
        # precise they are.
        totals: Floats = values.sum(axis=1)
        variance = sigma**2 * max(attribute.size, 1)
        if layout.counts_totals(place):
            alone = self._at(layout.totals(place), groups)
            trust = side**2 / (variance + side**2)
            totals = trust * totals + (1 - trust) * alone
            variance = 1 / (1 / variance + 1 / side**2)
        # Behind the activities' masses stands that of all cases.
        first = layout.masses + (len(layout.labels) if attribute.is_of_cases else 0)
        return Counted(
            values=values,
            sigma=sigma,
            totals=totals,
            total_sigma=float(np.sqrt(variance)),
            mass=self._at(first, groups),
            mass_sigma=side,
        )

    def masses(self) -> tuple[Floats, float]:
        """How many cases have each activity, and last how many there are: shape (labels + 1,); and
        the deviation of their noise.
        """
        return self._at(self.layout.masses, len(self.layout.labels) + 1), self._side_sigma

    def kept(self, place: int) -> float:
        """The share of an attribute's values that are the one before; 0 where noise hides it."""
        if self.layout.attributes[place].is_of_cases:
            return 0.0
        several, same = self._at(2 * place, 2).tolist()
        if self.layout.counts_follows(place):
            # The diagonal: values that follow themselves.
            same = float(np.trace(self.followed(place)))
        if min(several, same) < STANDS_OUT * self._side_sigma:
            return 0.0
        return min(float(same / several), 1.0)

    def followed(self, place: int) -> Floats:
        """How often each value (row) is followed by each, of an attribute of few."""
        size = self.layout.attributes[place].size
        return self._at(self.layout.follows(place), size**2).reshape(size, size)

    def transitions(self, place: int) -> Floats | None:
        """The same with the noise taken out; None where it is not counted, or noise hides it."""
        attribute, sigma = self.layout.attributes[place], self._side_sigma
        if attribute.is_of_cases or not self.layout.counts_follows(place):
            return None
        counts = self.followed(place)
        if counts.sum() < STANDS_OUT * sigma * max(attribute.size, 1):
            return None
        return expected_beside(counts, np.maximum(independent(counts), 1e-6), sigma)
