"""The shapes of values that mechanisms give to released events and cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import RangeType


@dataclass(frozen=True, slots=True)
class Listed:
    """Values of a column that come from a list: ``codes``, int64, the place of each in ``domain``,
    -1 where a value is missing. The type of the column is that of the domain.
    """

    codes: Ints
    domain: tuple[JsonValue, ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Values of a column that are numbers: float64; NaN where one is missing. ``type``: what the
    column holds. Whole numbers are at most 2**53; dates are days since 1970, times seconds.
    """

    values: Floats
    type: RangeType = "number"


@dataclass(frozen=True, slots=True)
class Times:
    """Times of events: int64, microseconds since 1970; in each case they do not descend."""

    microseconds: Ints


ColumnValues = Mapping[str, Listed | Numbers | Times]
"""Values by the name of their column."""


@dataclass(frozen=True, slots=True)
class Enrichment:
    """What a mechanism made of noisy answers for cases: columns by their names in a lineage, with a
    value for each event, or for each case where the name begins with ``case:``.
    """

    columns: ColumnValues
    internal: Mapping[str, JsonValue] = field(default_factory=dict)
