"""The figures of attributes, against a count by hand."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.authoring.figures import Figures, figures_of
from cloakwork.log.eventlog import EventLog

VALUES = st.sampled_from([None, "x", "y", "z"])
CASES = st.lists(st.lists(st.tuples(st.sampled_from("ab"), VALUES), min_size=1, max_size=4))


def log_of(cases: list[list[tuple[str, str | None]]]) -> EventLog:
    """A log whose events have an activity and, some of them, a value."""
    schema = ("case:concept:name", "concept:name", "value")
    rows = [
        (str(case), activity, value)
        for case, events in enumerate(cases)
        for activity, value in events
    ]
    frame = pl.DataFrame(rows, dict.fromkeys(schema, pl.String), orient="row")
    return EventLog.from_polars(frame)


@given(CASES)
def test_figures_agree_with_a_count_by_hand(cases: list[list[tuple[str, str | None]]]) -> None:
    """Filled, distinct, cases, alone, least, constant in a case."""
    (found,) = figures_of(log_of(cases))
    held = [{value for _, value in events if value is not None} for events in cases]
    having = {value: sum(value in values for values in held) for value in "xyz"}
    with_value = [values for values in held if values]
    events = [value for case in cases for _, value in case]
    filled = [value for value in events if value is not None]
    assert found.filled == (len(filled) / len(events) if events else 0)
    assert found.distinct == sum(count > 0 for count in having.values())
    assert found.cases == len(with_value)
    alone = sum(any(having[value] == 1 for value in values) for values in with_value)
    assert found.alone == (alone / len(with_value) if with_value else 0)
    assert found.least == min((count for count in having.values() if count), default=0)
    constant = sum(len(values) == 1 for values in with_value)
    assert found.constant_in_case == (constant / len(with_value) if with_value else 0)


def only(values: list[object]) -> Figures:
    """The figures of one column of events, each of a case of its own."""
    frame = pl.DataFrame(
        {
            "case:concept:name": [str(case) for case in range(len(values))],
            "concept:name": ["a"] * len(values),
            "value": values,
        }
    )
    return figures_of(EventLog.from_polars(frame))[0]


def test_text_that_reads_as_something_else_is_that() -> None:
    """Many logs hold numbers and times as text."""
    assert only(["1", "2"]).type == "whole number"
    assert only(["1.5", "2"]).type == "number"
    assert only(["2024-01-01 10:00:00", "2024-01-02"]).type == "time"
    assert only(["1", "a"]).type == "text"
    assert only([True, False]).type == "truth value"


def test_a_copy_of_the_activity_is_found_though_values_are_missing() -> None:
    """Where there is a value, it is the activity's."""
    assert only(["a", None, "a"]).copies == "concept:name"
    assert only(["a", "b", "a"]).copies is None
