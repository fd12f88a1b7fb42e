"""Values of a log as numbers of a declared type."""

import math

import numpy as np
import pytest

from cloakwork.base.facts import RangeType
from cloakwork.kernel import Column
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute, read_numbers

_DAY = 86_400
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
    midnight = 19_753.0 * _DAY
    read = read_numbers(_of_texts(*_TEXTS, None), "time")
    later = 4.5 * 3600 + _DAY
    expected = [midnight, midnight + later, midnight + _DAY / 2, midnight, *[math.nan] * 4]
    np.testing.assert_array_equal(read, expected)


def test_times_are_days_and_seconds() -> None:
    """Of a column of times, before 1970 too; as numbers they are none."""
    micros = np.array([19_753 * _DAY * 10**6 + 1, -1, 0])
    times = Column.of_times(micros, np.array([False, False, True]))
    np.testing.assert_array_equal(read_numbers(times, "date"), [19_753, -1, math.nan])
    np.testing.assert_array_equal(read_numbers(times, "time"), [19_753 * _DAY, -1, math.nan])
    assert np.isnan(read_numbers(times, "number")).all()
    listed = MeasuredAttribute(name="x", domain=(0, -1))
    assert listed.codes(times).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(("type_", "expected"), [("number", 5.7), ("integer", 5.0)])
def test_a_number_with_decimals_is_the_whole_one_below(type_: RangeType, expected: float) -> None:
    """Where whole numbers are declared; texts that are none are missing."""
    read = read_numbers(_of_texts("5.7", "x", None), type_)
    np.testing.assert_array_equal(read, [expected, math.nan, math.nan])
