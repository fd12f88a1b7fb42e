"""Bins of whole numbers, days and times."""

from datetime import date
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import RangeType
from cloakwork.mechanisms.attributes.bins import MOST_BINS, UNIT
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.steps import Numbers

_EPOCH = date(1970, 1, 1).toordinal()


def _days(*texts: str) -> tuple[float, ...]:
    return tuple(float(date.fromisoformat(text).toordinal() - _EPOCH) for text in texts)


@given(
    low=st.one_of(st.integers(-200, 200), st.integers(-25_000, 84_000)),
    span=st.one_of(st.integers(1, 50), st.integers(1, 25_000), st.just(10**9)),
    type_=st.sampled_from([kind for kind in get_args(RangeType) if kind != "number"]),
    fineness=st.integers(0, 2),
    seed=st.integers(0, 2**30 - 1),
)
def test_what_is_drawn_is_whole_and_lies_in_its_bin(
    low: int, span: int, type_: RangeType, fineness: int, seed: int
) -> None:
    """Also at the end of the range, and with every chance; each bin holds a value."""
    if type_ == "date":
        # Days of the years that a policy may name.
        span = min(span, 84_000 - low)
    limits = (float(low), float(low + max(span, 1)))
    attribute = MeasuredAttribute(name="x", range=limits, type=type_, fineness=fineness)
    bins = attribute.bins
    assert bins is not None
    assert attribute.size <= MOST_BINS[fineness] + 1
    codes = np.repeat(np.arange(attribute.size), 3)
    chance = np.tile(np.array([0, seed, UNIT - 1]), attribute.size)
    released = attribute.released(codes, chance)
    assert isinstance(released, Numbers)
    assert released.type == type_
    values = released.values
    assert (values % 1 == 0).all()
    assert limits[0] <= values.min() <= values.max() <= limits[1]
    np.testing.assert_array_equal(bins.of(values), codes)
    assert {bins.of(np.array(limits))[0], bins.of(np.array(limits))[1]} == {0, attribute.size - 1}


def test_a_few_whole_numbers_have_a_bin_each() -> None:
    """As far as there are bins; of more, bins are of round widths."""
    few = MeasuredAttribute(name="x", range=(0, 5), type="integer").bins
    assert few is not None
    assert few.edges.tolist() == [0, 1, 2, 3, 4, 5, 6]
    many = MeasuredAttribute(name="x", range=(-60, 60), type="integer").bins
    assert many is not None
    assert set(np.diff(many.edges[1:-1])) == {10.0}
    ratios = MeasuredAttribute(name="x", range=(0, 10_000), type="integer").bins
    assert ratios is not None
    assert (ratios.zero, ratios.by_ratio) == (True, True)
    assert ratios.of(np.array([0, 1, 2, 9_999, 10_000.0])).tolist() == [0, 1, 2, 12, 12]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (("2024-01-15", "2024-03-14"), ["2024-01-15", "2024-01-22", "2024-01-29"]),
        (("2023-01-15", "2024-05-02"), ["2023-01-15", "2023-02-01", "2023-03-01"]),
        (("1990-03-05", "2010-03-05"), ["1990-03-05", "1995-01-01", "2000-01-01"]),
        (("1900-01-01", "2100-12-31"), ["1900-01-01", "1920-01-01", "1940-01-01"]),
    ],
)
def test_days_have_bins_of_weeks_months_and_years(
    ends: tuple[str, str], expected: list[str]
) -> None:
    """The finest of which there are not too many; weeks begin on Mondays."""
    low, high = _days(*ends)
    bins = MeasuredAttribute(name="x", range=(low, high), type="date").bins
    assert bins is not None
    begin = [date.fromordinal(int(edge) + _EPOCH).isoformat() for edge in bins.edges[:3]]
    assert begin == expected
    assert bins.edges[-1] == high + 1


def test_times_have_bins_of_hours() -> None:
    """On the hour, and on midnights."""
    low = _days("2024-01-15")[0] * 86_400 + 100
    bins = MeasuredAttribute(name="x", range=(low, low + 10 * 3600), type="time").bins
    assert bins is not None
    assert (bins.edges[1:-1] % 3600 == 0).all()
    days = MeasuredAttribute(name="x", range=(low, low + 15 * 86_400), type="time").bins
    assert days is not None
    assert (days.edges[1:-1] % 86_400 == 0).all()
