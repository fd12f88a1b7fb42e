"""How values of a log meet a declared domain or range: readings, codes, bins, and numbers drawn."""

import math
from dataclasses import replace
from datetime import date
from typing import get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import RangeType
from cloakwork.engines.measured import measured_cases
from cloakwork.kernel import Column
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.domains import (
    MOST_BINS,
    UNIT,
    Bins,
    MeasuredAttribute,
    read_numbers,
)
from cloakwork.mechanisms.steps import Numbers
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of

RANGES = [
    (0.0, 10_000.0),
    (0.0, 500.0),
    (0.0, 30.0),
    (0.0, 1.0),
    (0.0, 1e-7),
    (0.0, 1e12),
    (1.0, 1e9),
    (0.37, 88.1),
    (-40.0, 60.0),
    (-1e6, -1.0),
    (1990.0, 2014.0),
    (5.0, 5.5),
]


@pytest.mark.parametrize("fineness", [0, 1, 2])
@pytest.mark.parametrize("limits", RANGES)
def test_bins_are_few_ascending_and_fill_the_range(limits, fineness):
    bins = Bins.of_range(*limits, fineness)
    assert (np.diff(bins.edges) > 0).all()
    assert (bins.edges[0], bins.edges[-1]) == limits
    assert 5 <= bins.count <= MOST_BINS[fineness] + 1
    inside = np.linspace(*limits, 1000)
    assert set(bins.of(inside)) <= set(range(bins.count))
    assert bins.of(np.array([-1e300, 1e300])).tolist() == [0, bins.count - 1]


@pytest.mark.parametrize("fineness", [0, 1, 2])
@pytest.mark.parametrize("limits", RANGES)
def test_a_number_that_is_drawn_lies_in_its_bin(limits, fineness):
    bins = Bins.of_range(*limits, fineness)
    every = np.repeat(np.arange(bins.count), 5)
    chance = np.tile([0, 1, UNIT // 3, UNIT // 2, UNIT - 1], bins.count)
    drawn = bins.draw(every, chance)
    assert ((limits[0] <= drawn) & (drawn <= limits[1])).all()
    assert bins.of(drawn).tolist() == every.tolist()
    assert np.isfinite(drawn).all()


def test_edges_and_grain_follow_from_the_range():
    bins = Bins.of_range(0.0, 1000.0)
    assert bins.edges.tolist() == [0, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert bins.zero
    whole = bins.draw(np.full(50, 7), np.linspace(0, UNIT - 1, 50).astype(np.int64))
    assert (whole == np.round(whole)).all()
    tenths = Bins.of_range(0.0, 500.0)
    some = tenths.draw(np.full(50, 7), np.linspace(0, UNIT - 1, 50).astype(np.int64))
    assert all(number == round(number, 1) for number in some.tolist())
    assert Bins.of_range(-10.0, 10.0).edges.tolist() == list(range(-10, 11, 2))


@pytest.mark.parametrize("limits", RANGES)
def test_finer_bins_are_more(limits):
    """But for a range that has fewer numbers."""
    counts = [Bins.of_range(*limits, fineness).count for fineness in (0, 1, 2)]
    assert counts == sorted(counts)
    assert Bins.of_range(0.0, 10_000.0, 2).edges[-3:].tolist() == [9800.0, 9900.0, 10_000.0]
    assert 35.0 in Bins.of_range(0.0, 10_000.0, 2).edges


def test_zero_has_a_bin_of_its_own():
    """An amount of nothing is no small amount."""
    bins = Bins.of_range(0.0, 100.0)
    assert bins.of(np.array([0.0, -5.0, 0.01])).tolist() == [0, 0, 1]
    assert bins.draw(np.array([0, 0]), np.array([0, UNIT - 1])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("limits", [(-5e-324, 0.0), (0.0, 5e-324), (0.0, 1e-320), (1.0, 1 + 2e-16)])
def test_ranges_of_next_to_nothing_have_bins(limits):
    """A run would stop on them, when its budget is spent."""
    bins = Bins.of_range(*limits)
    assert (bins.edges[0], bins.edges[-1]) == limits
    assert bins.of(np.array(limits)).tolist()[0] == 0


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


_SECONDS = 86_400
_TEXTS = (
    "2024-01-31",
    "2024-01-31T23:30:00-05:00",
    " 2024/01/31 12:00 ",
    "2024-01-31T00:00:00.999Z",
    "31.01.2024",
    "",
    "7",
)


def _of_texts(*texts: str | None) -> Column:
    alphabet = tuple(sorted({text for text in texts if text is not None}))
    codes = np.array([-1 if text is None else alphabet.index(text) for text in texts])
    numbers = np.zeros(len(texts))
    for row, text in enumerate(texts):
        try:
            numbers[row] = float(text or "")
        except ValueError:
            numbers[row] = math.nan
    is_missing = np.isnan(numbers)
    return Column(np.where(is_missing, 0, numbers), is_missing, codes, alphabet)


def test_a_text_is_the_day_that_it_names() -> None:
    """In whatever zone; what names none is missing."""
    day = 19_753.0
    read = read_numbers(_of_texts(*_TEXTS, None), "date")
    np.testing.assert_array_equal(read, [day, day, day, day, *[math.nan] * 4])


def test_a_text_is_a_time_in_its_zone() -> None:
    """In UTC where it names none; whole seconds."""
    midnight = 19_753.0 * _SECONDS
    read = read_numbers(_of_texts(*_TEXTS, None), "time")
    later = 4.5 * 3600 + _SECONDS
    expected = [midnight, midnight + later, midnight + _SECONDS / 2, midnight, *[math.nan] * 4]
    np.testing.assert_array_equal(read, expected)


def test_times_are_days_and_seconds() -> None:
    """Of a column of times, before 1970 too; as numbers they are none."""
    micros = np.array([19_753 * _SECONDS * 10**6 + 1, -1, 0])
    times = Column.of_times(micros, np.array([False, False, True]))
    np.testing.assert_array_equal(read_numbers(times, "date"), [19_753, -1, math.nan])
    np.testing.assert_array_equal(read_numbers(times, "time"), [19_753 * _SECONDS, -1, math.nan])
    assert np.isnan(read_numbers(times, "number")).all()
    listed = MeasuredAttribute(name="x", domain=(0, -1))
    assert listed.codes(times).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(("type_", "expected"), [("number", 5.7), ("integer", 5.0)])
def test_a_number_with_decimals_is_the_whole_one_below(type_: RangeType, expected: float) -> None:
    """Where whole numbers are declared; texts that are none are missing."""
    read = read_numbers(_of_texts("5.7", "x", None), type_)
    np.testing.assert_array_equal(read, [expected, math.nan, math.nan])


NAME = "case:x"


def codes_of(values, **declared):
    """The codes of ``values``, in their order."""
    rows = [["a"] * (place + 1) for place in range(len(values))]
    log = log_of(rows)
    log = replace(log, cases=log.cases.with_columns(pl.Series(NAME, values)))
    cases = measured_cases(log, CaseRows((NAME,)), reproducible(1)).cases
    attribute = MeasuredAttribute(name=NAME, **declared)
    return attribute.codes(cases.columns[NAME])[np.argsort(cases.lengths)].tolist()


@pytest.mark.parametrize(
    ("values", "domain", "codes"),
    [
        (["x", "y", "X", None, ""], ("x", "y"), [0, 1, -1, -1, -1]),
        ([5, 10, 7], (5, 10), [0, 1, -1]),
        ([5.0, 10.5, 7.0], (5, 10.5), [0, 1, -1]),
        (["5", "5.0", "x", "1e1"], (5, 10), [0, 0, -1, 1]),
        ([True, False, None], (True, False), [0, 1, -1]),
        (["true", "True", "FALSE", "yes"], (True, False), [0, 0, 1, -1]),
        ([True, False], ("False", "True"), [1, 0]),
        (["007", "7", "8"], ("7", "007"), [1, 0, -1]),
        ([1, 0], (True, False), [-1, -1]),
        ([1, 2], (), [-1, -1]),
        ([1, None], (None,), [-1, -1]),
        (["\x000", "0"], (7, 0), [-1, 1]),
    ],
)
def test_values_are_found_in_the_domain(values, domain, codes):
    assert codes_of(values, domain=domain) == codes


@pytest.mark.parametrize("domain", [("1", "2", "x"), (1, 2), (1.0, 2.0, "x")])
def test_a_value_is_found_whatever_type_others_give_its_column(domain):
    """1 is found beside 2, beside 1.5 and beside a text."""
    for others in ([2, 2], [1.5, 2.0], ["y", "2"]):
        values = [type(others[0])(1), *others]
        assert codes_of(values, domain=domain)[0] == 0
    assert codes_of(["1", "2", "y"], domain=domain)[:2] == [0, 1]


def test_numbers_outside_of_the_range_are_held_there():
    held = codes_of([-5.0, 0.0, 100.0, 1e9, None], range=(0.0, 100.0))
    assert held == [0, 0, held[3], held[3], -1]
    assert codes_of(["x", "nan", "inf", "3"], range=(0.0, 100.0))[:3] == [-1, -1, -1]


def test_what_tells_values_apart():
    """Two numbers of one bin are two values."""
    column = Column(np.array([1.2, 1.3]), np.zeros(2, np.bool_), np.full(2, -1))
    ranged = MeasuredAttribute(name="x", range=(0.0, 1000.0))
    codes = ranged.codes(column)
    assert codes[0] == codes[1]
    assert len(set(ranged.exact(column, codes).tolist())) == 2
