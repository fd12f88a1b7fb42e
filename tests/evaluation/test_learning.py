"""What models of a release guess of its source, by hand."""

from datetime import timedelta

import pytest

from cloakwork.evaluation.learning import LearnedFrom, learned_from
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from contracts.sample_logs import BEGIN, log_of


def at(*hours):
    return [None if hour is None else BEGIN + timedelta(hours=hour) for hour in hours]


def test_next_activities_by_hand():
    """The first of five cases is held out; the longest known beginning decides."""
    source = log_of(["abcd", "xbd", "xbd", "abcd", "xbd"])
    found = learned_from(source, log_of(["abc", "xbd", "xbd"]))
    # Of the source: after ab comes c. Of the release: after abc a case ends, and d is not learned.
    assert found.next_activity_source == 1.0
    assert found.next_activity_released == pytest.approx(3 / 4)
    # Nothing is known after b but c or d by the one activity, and after x nothing at all.
    unknown = learned_from(source, log_of(["yb", "yb", "bcd"]))
    # a: the most frequent of all, b or the end, which is the later one; b: the end; c: d; d: end.
    assert unknown.next_activity_released == pytest.approx(2 / 4)


def test_remaining_times_by_hand():
    """Medians by last activity and place, in hours; a missing time is neither learned nor tried."""
    held = ["ab"], [at(0, 8)]
    others = ["ab"] * 3, [at(0, 4), at(0, 6), at(0, 6)]
    source = log_of(held[0] + others[0], held[1] + others[1])
    found = learned_from(source, log_of(["ab", "a"], [at(0, 9), at(5)]))
    assert found.remaining_hours_source == pytest.approx((2 + 0) / 2)
    # Of 9 and 0 hours after a as the first activity, the upper middle.
    assert found.remaining_hours_released == pytest.approx((1 + 0) / 2)
    missing = log_of(["ab", "ab"], [at(0, None), at(0, 4)])
    assert learned_from(missing, missing).remaining_hours_source == pytest.approx(4.0)


def test_every_log_has_an_answer():
    """None where there is nothing to learn from, or to try it on."""
    log, empty = log_of(["ab"] * 6), EventLog.empty()
    assert learned_from(empty, log) == LearnedFrom()
    assert learned_from(log, empty).next_activity_released is None
    assert learned_from(log, empty).next_activity_source == 1.0
    assert learned_from(log_of(["ab"]), log).next_activity_source is None
    assert learned_from(log_of(["", "ab"]), log) == LearnedFrom()
    bare = EventLog(log.events.drop(TIMESTAMP), log.cases, log.offsets)
    assert learned_from(bare, log).remaining_hours_released is None
    without_times = log_of(["ab"] * 6, [at(None, None)] * 6)
    assert learned_from(without_times, log).remaining_hours_released is None
