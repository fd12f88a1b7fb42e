"""The tables of all attributes, read from a kernel's noisy answer."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import NoisySums
from cloakwork.mechanisms.attributes.contributions import SIDE_WEIGHT, TableLayout, is_of_cases
from cloakwork.mechanisms.attributes.estimation import expected_beside
from cloakwork.mechanisms.attributes.structure import independent
from cloakwork.mechanisms.attributes.tables import Counted, totals_of

STANDS_OUT: Final = 3.0
"""How many deviations of its noise a count must lie above nothing, to be believed."""


class NoisyTables:
    """The noisy tables, in cases; ``step``: cases in a grid step.

    ``answers``: the tables, each time with the deviation of their noise in grid steps; several are
    averaged, weighted by how precise they are.
    """

    def __init__(
        self, layout: TableLayout, answers: Sequence[tuple[NoisySums, float]], step: float
    ) -> None:
        self.layout, self._step = layout, step
        self._weighted = [(sums, 1 / sigma**2) for sums, sigma in answers]
        self._precision = sum(weight for _, weight in self._weighted)
        self._sigma = step / math.sqrt(self._precision)

    def _at(self, begin: int, count: int, weight: float = 1.0) -> Floats:
        codes: Ints = begin + np.arange(count)
        found = np.zeros(count)
        for sums, precision in self._weighted:
            found += sums.at(codes) * (precision / self._precision)
        return found * (self._step / weight)

    def counted(self, place: int) -> Counted:
        """The counts of one attribute."""
        layout, side = self.layout, self._sigma / SIDE_WEIGHT
        attribute, groups = layout.attributes[place], layout.groups(place)
        weight = layout.weight(place)
        values = self._at(layout.values(place), groups * attribute.size, weight)
        values = values.reshape(groups, attribute.size)
        alone = None
        sigma = self._sigma / weight
        variance = sigma**2 * max(attribute.size, 1)
        if layout.counts_totals(place):
            alone = self._at(layout.totals(place), groups, SIDE_WEIGHT)
            variance = 1 / (1 / variance + 1 / side**2)
        first = layout.masses + (len(layout.labels) if is_of_cases(attribute) else 0)
        return Counted(
            values=values,
            sigma=sigma,
            totals=totals_of(values, sigma, alone, side),
            total_sigma=float(np.sqrt(variance)),
            mass=self._at(first, groups, SIDE_WEIGHT),
            mass_sigma=side,
        )

    def masses(self) -> tuple[Floats, float]:
        """How many cases have each activity, and last how many there are: shape (labels + 1,); and
        the deviation of their noise.
        """
        count = len(self.layout.labels) + 1
        found = self._at(self.layout.masses, count, SIDE_WEIGHT)
        return found, self._sigma / SIDE_WEIGHT

    def kept(self, place: int) -> float:
        """The share of an attribute's values that are the one before; 0 where noise hides it."""
        if is_of_cases(self.layout.attributes[place]):
            return 0.0
        several, same = self._at(2 * place, 2, SIDE_WEIGHT).tolist()
        if self.layout.counts_follows(place):
            same = float(np.trace(self.followed(place)))
        least = STANDS_OUT * self._sigma / SIDE_WEIGHT
        if several < least or same < least:
            return 0.0
        return min(float(same / several), 1.0)

    def followed(self, place: int) -> Floats:
        """How often each value (row) is followed by each, of an attribute of few."""
        size = self.layout.attributes[place].size
        found = self._at(self.layout.follows(place), size**2, SIDE_WEIGHT)
        return found.reshape(size, size)

    def transitions(self, place: int) -> Floats | None:
        """The same with the noise taken out; None where it is not counted, or noise hides it."""
        layout, sigma = self.layout, self._sigma / SIDE_WEIGHT
        if is_of_cases(layout.attributes[place]) or not layout.counts_follows(place):
            return None
        counts = self.followed(place)
        if counts.sum() < STANDS_OUT * sigma * max(layout.attributes[place].size, 1):
            return None
        return expected_beside(counts, np.maximum(independent(counts), 1e-6), sigma)
