"""Bins of a declared range (numbers, whole numbers, days or times), and numbers drawn from them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import RangeType

DECADES: Final = 4
"""Powers of ten below the largest number that have bins of their own, on a scale by ratios."""

_EPOCH: Final = date(1970, 1, 1).toordinal()

_DAY: Final = 86_400
"""Seconds."""

_WIDTHS: Final = (1, 10, 60, 600, 3600, 6 * 3600, _DAY, 7 * _DAY)
"""Seconds of the bins of times that are shorter than a month."""

_MONTHS: Final = (1, 3, 12, 60, 120, 240, 600)
"""Months of the others."""

LEADING: Final = (
    (1.0, 2.0, 5.0),
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    tuple(digits / 10 for digits in range(10, 100)),
)
"""Where bins begin that go by ratios, up to powers of ten; by how fine they are."""

MOST_BINS: Final = (20, 60, 400)
"""By how fine they are."""

UNIT: Final = 1 << 30
"""Numbers are drawn inside a bin from so many equal chances."""

_BY_RATIO: Final = 100
"""From here on the largest number is so many times the least that bins go by ratios."""

_FINEST: Final = 12
"""Digits behind the point of the finest grain."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Half-open intervals between ``edges`` (float64, ascending), the last one closed.

    ``digits``: places behind the point of the numbers that are drawn; negative for tens. ``zero``:
    whether 0, the least number, has a bin of its own, which is the first. ``by_ratio``: whether
    numbers inside a bin are drawn on a logarithmic scale. ``integer``: whether edges and numbers
    are whole; the last edge is then the number behind the last.
    """

    edges: Floats
    digits: int
    zero: bool
    by_ratio: bool
    integer: bool = False

    @classmethod
    def of_range(
        cls,
        low: float,
        high: float,
        fineness: int = 0,
    ) -> "Bins":
        """Bins with round edges from ``low`` to ``high``: by ratios (1, 2, 5, 10, ...) where the
        range spans decades from 0 or a positive number on, else of one width. ``fineness``: 0, 1
        or 2, for some 10, 40 or 300 of them.
        """
        digits = _digits(high - low)
        by_ratio = low >= 0 and high >= _BY_RATIO * low and high > 0
        if not by_ratio:
            edges = _even_edges(low, high, MOST_BINS[fineness], digits)
            return cls(edges, digits, zero=False, by_ratio=False)
        # Below two grains there is one number.
        least = max(low, high / 10**DECADES, 2 * 10.0**-digits)
        between = [
            edge
            for edge in _round_numbers(least, high, fineness)
            # An edge between two numbers of the grain parts nothing.
            if low < edge < high and _on_grain(np.array(edge), digits) >= edge * (1 - 1e-9)
        ]
        return cls(np.array([low, *between, high]), digits, zero=low == 0, by_ratio=True)

    @classmethod
    def of_whole_numbers(
        cls,
        low: float,
        high: float,
        fineness: int = 0,
    ) -> "Bins":
        """The same for whole numbers, of which each bin holds one at least."""
        if high - low < MOST_BINS[fineness]:
            edges = np.arange(low, high + 2)
            return cls(
                edges,
                0,
                zero=False,
                by_ratio=False,
                integer=True,
            )
        found = cls.of_range(low, high, fineness)
        edges = np.unique(np.append(np.ceil(found.edges[:-1]), high + 1))
        if found.zero and edges[0] == 0:
            edges = edges[(edges == 0) | (edges > 1)]
        return cls(
            edges,
            0,
            zero=found.zero,
            by_ratio=found.by_ratio,
            integer=True,
        )

    @classmethod
    def of_times(
        cls,
        low: float,
        high: float,
        unit: int,
        most: int,
    ) -> "Bins":
        """The finest bins of round widths of which there are at most ``most``, both ends inside;
        ``unit``: seconds in what ``low`` and ``high`` are counted in.
        """
        after = high + 1
        # From the finest width up, until there are few enough bins.
        for width in (width / unit for width in _WIDTHS if width >= unit):
            if (after - low) / width <= most - 1:
                # A Monday; weeks begin there, and days at midnight.
                monday = 4 * _DAY / unit
                first = np.floor((low - monday) / width) + 1
                last = np.ceil((after - monday) / width)
                return cls.between(low, monday + width * np.arange(first, last), after)
        # Longer spans go by months, which have no one width.
        inner = np.zeros(0)
        for months in _MONTHS:
            inner = np.array([*_beginnings(low * unit, after * unit, months)], np.float64) / unit
            if len(inner) < most:
                break
        return cls.between(low, inner, after)

    @classmethod
    def between(
        cls,
        low: float,
        inner: Floats,
        after: float,
    ) -> "Bins":
        """Of whole numbers from ``low`` to before ``after``, with those of the edges ``inner`` that
        lie between.
        """
        kept = inner[(inner > low) & (inner < after)]
        edges = np.array([low, *kept, after])
        return cls(
            edges,
            0,
            zero=False,
            by_ratio=False,
            integer=True,
        )

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1 + self.zero

    def of(self, numbers: Floats) -> Ints:
        """The bin of each number, clamped to the range: int64."""
        held = np.clip(numbers, self.edges[0], self.edges[-1])
        place = np.searchsorted(self.edges, held, side="right") - 1
        inside = np.clip(place, 0, len(self.edges) - 2)
        if not self.zero:
            return inside.astype(np.int64)
        return np.where(held <= 0, 0, inside + 1).astype(np.int64)

    def draw(self, bins: Ints, chance: Ints) -> Floats:
        """A number of each of ``bins``, on the grain; ``chance``: int64, uniform in [0, UNIT)."""
        inside = bins - self.zero
        place = np.maximum(inside, 0)
        low, high = self.edges[place], self.edges[place + 1]
        share = chance / UNIT
        spread = low + (high - low) * share
        # A draw by ratios is uniform in the logarithm; the bin from 0 on is drawn evenly.
        if self.by_ratio:
            ratio = high / np.where(low > 0, low, high)
            spread = np.where(low > 0, low * ratio**share, spread)
        drawn = np.where(inside < 0, 0.0, _on_grain(spread, self.digits))
        # Rounding may leave the bin; 0 where it has a bin of its own lies in no other.
        within = np.where(low > self.edges[0], low, (low + high) / 2)
        if self.integer:
            within = np.floor(within)
        return np.where(self.of(drawn) == bins, drawn, within)


def bins_of(
    low: float,
    high: float,
    type_: RangeType,
    fineness: int,
) -> Bins:
    """Bins from ``low`` to ``high``, both of them inside; days count from 1970, and times in whole
    seconds.
    """
    match type_:
        case "number":
            return Bins.of_range(low, high, fineness)
        case "integer":
            return Bins.of_whole_numbers(low, high, fineness)
        case "date":
            return Bins.of_times(low, high, _DAY, MOST_BINS[fineness])
        case "time":
            return Bins.of_times(low, high, 1, MOST_BINS[fineness])


def _digits(span: float) -> int:
    """Of the grain: about a thousandth of the range, and 1 at most."""
    if span / 1000 <= 0:
        return 0
    return min(max(0, -math.floor(math.log10(span / 1000))), _FINEST)


def _on_grain(numbers: Floats, digits: int) -> Floats:
    """Rounded down; the quotient of whole numbers is the nearest float to the decimal."""
    scale = 10.0**digits
    scaled = numbers * scale
    # What lies a rounding error below a step is on it.
    return np.floor(scaled + np.abs(scaled) * 1e-12) / scale


def _round_numbers(
    low: float,
    high: float,
    fineness: int,
) -> list[float]:
    """Round numbers from ``low`` to ``high``; powers of ten alone where even the coarsest are too
    many, and the largest of them.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    most = MOST_BINS[fineness] - 2
    for leading in (LEADING[fineness], (1.0,)):
        found = [float(f"{lead}e{power}") for power in powers for lead in leading]
        kept = [number for number in found if low * (1 - 1e-9) <= number <= high]
        if len(kept) <= most:
            return kept
    return kept[-most:]


def _even_edges(
    low: float,
    high: float,
    most: int,
    digits: int,
) -> Floats:
    """Of bins of the smallest round width of which there are at most ``most``, and which is no
    finer than the grain.
    """
    span = high - low
    # A span that underflows or overflows gets one bin.
    if span / most <= 0 or not math.isfinite(span):
        return np.array([low, high])
    power = math.floor(math.log10(span / most))
    widths = [float(f"{lead}e{power + more}") for more in (0, 1) for lead in (1, 2, 5)]
    # The two outer bins may be parts of one.
    fits = (width for width in widths if span / width <= most - 1 and width >= 10.0**-digits)
    width = next(fits, widths[-1])
    first = math.floor(low / width) + 1
    inner = np.arange(first, math.ceil(high / width)) * width
    inner = inner[(inner > low) & (inner < high)]
    return np.array([low, *inner, high])


def _beginnings(
    low: float,
    after: float,
    months: int,
) -> Iterator[float]:
    """Seconds since 1970 at which months begin, of which every ``months``-th counts."""
    first = date.fromordinal(_EPOCH + int(low // _DAY))
    last = date.fromordinal(_EPOCH + int(after // _DAY))
    # Months counted from year 0, from a multiple of ``months`` on.
    for month in range(12 * first.year // months * months, 12 * last.year + 12, months):
        begin = date(month // 12, month % 12 + 1, 1)
        if first < begin <= last + timedelta(days=1):
            yield float((begin.toordinal() - _EPOCH) * _DAY)
