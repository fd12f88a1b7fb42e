"""How the values of a log's attribute meet the domain or the range that a policy declares."""

import json
import math
from datetime import UTC, date, datetime
from typing import Annotated, Final

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import FoundType, RangeType
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.quantities import Frozen
from cloakwork.kernel import Column
from cloakwork.mechanisms.attributes.bins import UNIT, Bins, bins_of
from cloakwork.mechanisms.steps import Listed, Numbers, places_of_numbers

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
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
        return float(named.toordinal() - _EPOCH_DAY)
    zoned = named if named.tzinfo else named.replace(tzinfo=UTC)
    return float((zoned - _EPOCH).total_seconds() // 1)


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
    found: Annotated[FoundType | None, Field(exclude_if=lambda found: not found)] = None
    fineness: Annotated[int, Field(ge=0, le=2, exclude_if=lambda fineness: not fineness)] = 0

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
            return Listed(codes, _of_one_type(self.domain or ()))
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


def _of_one_type(domain: tuple[JsonValue, ...]) -> tuple[JsonValue, ...]:
    """The values as a column can hold them: where they are of several types, their texts."""
    kinds = {type(value) for value in domain}
    # By exact type: a truth value is not taken for a whole number here.
    if kinds <= {str} or kinds <= {bool} or kinds <= {int, float}:
        return domain
    return tuple(value if isinstance(value, str) else json.dumps(value) for value in domain)


def _folded(text: str) -> str:
    """The spelling by which a text is matched."""
    lower = text.lower()
    return lower if lower in _TRUTH else text
