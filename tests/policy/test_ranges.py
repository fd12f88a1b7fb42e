"""Declared ranges of numbers, days and instants, and what an attribute's type may be."""

from typing import Any

import pytest
from pydantic import ValidationError

from cloakwork.policy.declared import number_of_end
from cloakwork.policy.model import AttributeRule

_DAYS = ["2024-01-01", "2024-12-31"]
_INSTANTS = ["2024-01-01T00:00:00Z", "2024-12-31T00:00+01:00"]


def _rule(**said: Any) -> AttributeRule:
    return AttributeRule(role="sensitive", **said)


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        ({"range": [0, 5]}, "number"),
        ({"range": [0, 5], "type": "integer"}, "integer"),
        ({"range": _DAYS}, "date"),
        ({"range": _DAYS, "type": "date"}, "date"),
        ({"range": _INSTANTS}, "time"),
        ({"find_values": True}, "text"),
        ({"find_values": True, "type": "integer"}, "integer"),
        ({"domain": [1, 2]}, None),
    ],
)
def test_the_type_follows_from_how_a_range_is_written(said: dict[str, Any], type_: str) -> None:
    """Whole numbers are said to be such; nothing is guessed."""
    assert _rule(**said).value_type() == type_


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"range": [0, "2024-01-01"]}, "two numbers, two days, or two instants"),
        ({"range": list(reversed(_DAYS))}, "two ascending days"),
        ({"range": _INSTANTS[:1] * 2}, "two ascending instants"),
        ({"range": ["2024-02-30", "2024-03-01"]}, "a day of the calendar"),
        ({"range": ["1800-01-01", "2024-03-01"]}, "years from 1900 to 2199"),
        ({"range": ["2024-01-01T00:00:00", "2025-01-01T00:00:00"]}, "with its time zone"),
        ({"range": [0, True]}, "must be a number, a day"),
        ({"range": [0.5, 5], "type": "integer"}, "two whole numbers"),
        ({"range": [0, 5], "type": "date"}, "the range is of numbers"),
        ({"range": _DAYS, "type": "integer"}, "the range is of days"),
        ({"domain": [1], "type": "integer"}, "a domain says its own type"),
        ({"type": "integer"}, "belongs to a range"),
        ({"find_values": True, "type": "date"}, "text or integer"),
        ({"find_values": True, "domain": ["a"]}, "stands in place of a domain"),
        ({"find_values": True, "range": [0, 1]}, "stands in place of a domain"),
    ],
)
def test_a_type_that_does_not_fit_is_refused(said: dict[str, Any], message: str) -> None:
    """With the reason."""
    with pytest.raises(ValidationError, match=message):
        _rule(**said)


def test_ends_are_days_and_seconds() -> None:
    """Since 1970, instants in UTC."""
    assert [number_of_end(end) for end in (3.5, "1970-01-02", "1969-12-31")] == [3.5, 1, -1]
    assert number_of_end("1970-01-01T01:00:00.5+01:00") == 0
