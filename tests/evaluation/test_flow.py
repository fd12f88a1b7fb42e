"""The most frequent steps of two logs, by hand."""

from datetime import timedelta

import pytest

from cloakwork.evaluation.control_flow import MOST_STEPS, FlowStep, flow_graph, histogram
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from contracts.sample_logs import BEGIN, log_of


def at(*hours):
    return [None if hour is None else BEGIN + timedelta(hours=hour) for hour in hours]


def graph(source, release, most=MOST_STEPS):
    """The graph of two small logs."""
    return flow_graph(source, release, (histogram(source), histogram(release)), most)


def test_steps_by_hand():
    """Beginnings and ends among them; medians of the hours that are known; shares of all steps."""
    source = log_of(["ab", "ab", "ab", "", "ac"], [at(0, 1), at(0, 3), at(0, None), [], at(0, 0)])
    release = log_of(["ab", "b"], [at(0, 5), at(0)])
    found = graph(source, release)
    steps = {(step.first, step.second): step for step in found.steps}
    assert steps[None, "a"] == FlowStep(first=None, second="a", source=4, released=1)
    assert steps["b", None] == FlowStep(first="b", second=None, source=3, released=2)
    assert steps["a", "b"] == FlowStep(
        first="a", second="b", source=3, released=1, source_median=2.0, released_median=5.0
    )
    assert steps[None, "b"].source == 0
    assert steps["a", "c"].released_median is None
    assert (found.source_share, found.released_share) == (1.0, 1.0)
    # Of 12 steps in the source and 5 in the release, those with the largest shares come first.
    assert [(step.first, step.second) for step in graph(source, release, 2).steps] == [
        ("b", None),
        (None, "a"),
    ]
    assert graph(source, release, 2).source_share == pytest.approx(7 / 12)


def test_every_log_has_a_graph():
    """Without events, without cases, without times."""
    log = log_of(["ab"])
    for empty in (EventLog.empty(), log_of([""])):
        assert graph(empty, empty).steps == ()
        assert graph(empty, empty).source_share is None
        assert graph(log, empty).released_share is None
        assert {step.source for step in graph(empty, log).steps} == {0}
    bare = EventLog(log.events.drop(TIMESTAMP), log.cases, log.offsets)
    assert {step.source_median for step in graph(bare, log).steps} == {None}
