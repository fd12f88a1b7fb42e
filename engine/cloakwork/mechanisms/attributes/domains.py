"""How the values of a log's attribute meet the domain or the range that a policy declares: bins of
the range (numbers, whole numbers, days or times), and numbers drawn from them.
"""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Final

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import UNIX_EPOCH, FoundType, RangeType
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.quantities import IF_SAID, Frozen
from cloakwork.kernel import Column
from cloakwork.mechanisms.steps import Listed, Numbers, places_of_numbers

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


@frozen
class Bins:
    """Half-open intervals between ``edges`` (float64, ascending), the last one closed.

    ``digits``: places behind the point of the numbers that are drawn; negative for tens. ``zero``:
    whether 0, the least number, has a bin of its own, which is the first. ``by_ratio``: whether
    numbers inside a bin are drawn on a logarithmic scale. ``integer``: whether edges and numbers
    are whole; the last edge is then the number behind the last.
    """

    edges: Floats
    digits: int = 0
    zero: bool = False
    by_ratio: bool = False
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
        # The grain is about a thousandth of the range, and 1 at most.
        grain = (high - low) / 1000
        digits = 0
        if grain > 0:
            digits = min(max(0, -math.floor(math.log10(grain))), _FINEST)
        by_ratio = low >= 0 and high >= _BY_RATIO * low and high > 0
        if not by_ratio:
            edges = _even_edges(low, high, MOST_BINS[fineness], digits)
            return cls(edges, digits)
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
        fineness: int,
    ) -> "Bins":
        """The same for whole numbers, of which each bin holds one at least."""
        if high - low < MOST_BINS[fineness]:
            return cls(np.arange(low, high + 2), integer=True)
        found = cls.of_range(low, high, fineness)
        edges = np.unique(np.append(np.ceil(found.edges[:-1]), high + 1))
        if found.zero and edges[0] == 0:
            edges = edges[(edges == 0) | (edges > 1)]
        return cls(edges, zero=found.zero, by_ratio=found.by_ratio, integer=True)

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
        return cls(np.array([low, *kept, after]), integer=True)

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1 + self.zero

    @property
    def ends(self) -> list[tuple[float, float]]:
        """Where each bin begins and ends; that of 0 alone does both there."""
        zero = [(0.0, 0.0)] if self.zero else []
        return [*zero, *pairwise(self.edges.tolist())]

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
        low = self.edges[place]
        high = self.edges[place + 1]
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


@lru_cache(maxsize=1 << 10)
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
    """Of bins of the smallest round width that needs at most ``most``, no finer than the grain."""
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


_SECOND: Final = 10**6
"""Microseconds."""


def is_of_times(column: Column) -> bool:
    """Whether a column's values are times: microseconds since 1970."""
    return bool(np.issubdtype(column.values.dtype, np.integer))


def read_numbers(column: Column, type_: RangeType) -> Floats:
    """What each value is as a number of this type: float64, NaN where it is missing or none.

    A whole number is that below a number with decimals. Days count from 1970, and times in whole
    seconds; a text is the day that it names, in whatever zone, and without a zone a time in UTC.
    """
    if type_ in ("number", "integer"):
        if is_of_times(column):
            return np.full(len(column.is_missing), np.nan)
        numbers = np.where(column.is_missing, np.nan, column.values)
        return np.floor(numbers) if type_ == "integer" else numbers
    if is_of_times(column):
        step = _SECOND * (86_400 if type_ == "date" else 1)
        return np.where(column.is_missing, np.nan, np.floor_divide(column.values, step))
    # Each distinct text is read once; the last place is that of missing values.
    read = np.array([*(_instant(text, type_) for text in column.alphabet), math.nan])
    return read[column.codes]


def _instant(text: str, type_: RangeType) -> float:
    """The day or second that a text names (ISO 8601, or with ``/`` in the day); NaN for others."""
    try:
        named = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        return math.nan
    if type_ == "date":
        return float(named.toordinal() - _EPOCH)
    zoned = named if named.tzinfo else named.replace(tzinfo=UTC)
    return float((zoned - UNIX_EPOCH).total_seconds() // 1)


_TRUTH: Final = frozenset({"true", "false"})


class MeasuredAttribute(Frozen):
    """An attribute by its ``name``, with all values that it may have: a ``domain``, or those of a
    ``range``, clamped to it. ``type``: what the range is of, days counted since 1970 and times in
    seconds. ``found``: nothing is declared, and values of this type are found through noise.
    ``fineness``: of its bins (``bins_of``).
    """

    name: str
    domain: tuple[JsonValue, ...] | None = None
    range: tuple[float, float] | None = None
    type: Annotated[RangeType, Field(exclude_if=lambda type_: type_ == "number")] = "number"
    found: Annotated[FoundType | None, IF_SAID] = None
    fineness: Annotated[int, Field(ge=0, le=2), IF_SAID] = 0

    @property
    def bins(self) -> Bins | None:
        """Of the range, if any."""
        return None if self.range is None else bins_of(*self.range, self.type, self.fineness)

    @property
    def is_of_cases(self) -> bool:
        """Whether it has one value a case."""
        return self.name.startswith(CASE_PREFIX)

    @property
    def size(self) -> int:
        """How many values are distinguished: those of the domain, or the bins of the range."""
        bins = self.bins
        return len(self.domain or ()) if bins is None else bins.count

    @property
    def is_of_numbers(self) -> bool:
        """Whether the order of its values means something: of a range, or a domain of numbers."""
        listed = self.domain or ()
        numbers = [value for value in listed if type(value) in (int, float)]
        return self.range is not None or len(numbers) == len(listed)

    def codes(self, column: Column) -> Ints:
        """The place of each value in the domain, or its bin: int64; -1 where it is missing.

        A value outside of the domain is missing; a number outside of the range is held there.
        Values are matched by their text, truth values in any case of letters; those without a text,
        or whose text is none of the domain, as numbers. Each is read by itself, whatever type the
        others give its column.
        """
        bins = self.bins
        if bins is not None:
            numbers = read_numbers(column, self.type)
            is_missing = np.isnan(numbers)
            return np.where(is_missing, -1, bins.of(np.where(is_missing, 0.0, numbers)))
        by_number = self._by_number(column)
        if not column.alphabet:
            return by_number
        places: dict[str, int] = {}
        for place, value in enumerate(self.domain or ()):
            if isinstance(value, str | bool):
                places.setdefault(_folded(str(value)), place)
        table = np.array([places.get(_folded(text), -1) for text in column.alphabet], np.int64)
        by_text = np.where(column.codes >= 0, table[column.codes], -1)
        # A match by text goes before one by number.
        return np.where(by_text >= 0, by_text, by_number)

    def exact(self, column: Column, codes: Ints) -> Floats:
        """What tells one value from another, float64: of a range the number itself."""
        if self.range is None:
            return codes.astype(np.float64)
        return np.clip(read_numbers(column, self.type), *self.range)

    def released(self, codes: Ints, chance: Ints) -> Listed | Numbers:
        """Values of these ``codes``; ``chance``: int64, what numbers are drawn by inside a bin,
        uniform in [0, ``bins.UNIT``).
        """
        bins = self.bins
        if bins is None:
            return Listed(codes, self.domain or ())
        drawn = bins.draw(np.maximum(codes, 0), chance % UNIT)
        # Behind the last whole number lies the end of its bin.
        within = np.clip(drawn, *self.range) if self.range else drawn
        return Numbers(np.where(codes < 0, np.nan, within), self.type)

    def _by_number(self, column: Column) -> Ints:
        """Places in the domain of what is the same number (``places_of_numbers``)."""
        places = places_of_numbers(self.domain or ())
        missing = np.full(len(column.is_missing), -1)
        if not places or is_of_times(column):
            return missing
        numbers = np.array(sorted(places), np.float64)
        place_of = np.array([places[number] for number in numbers.tolist()], np.int64)
        # A search finds where a number would stand, whether or not it does.
        nearest = np.minimum(np.searchsorted(numbers, column.values), len(numbers) - 1)
        matches = ~column.is_missing & (numbers[nearest] == column.values)
        return np.where(matches, place_of[nearest], missing)


def _folded(text: str) -> str:
    """The spelling by which a text is matched."""
    lower = text.lower()
    return lower if lower in _TRUTH else text
