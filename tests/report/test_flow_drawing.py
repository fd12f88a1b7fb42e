"""Directly-follows graphs in pixels."""

from hypothesis import given
from hypothesis import strategies as st

from cloakwork.evaluation.control_flow import FlowGraph, FlowStep
from cloakwork.report.drawings import WIDTH, drawn_flows

NAMES = st.none() | st.text(max_size=60)
STEPS = st.builds(
    FlowStep, first=NAMES, second=NAMES, source=st.integers(0, 99), released=st.integers(0, 99)
)


def graph(*steps):
    return FlowGraph(steps=steps, source_share=1.0, released_share=1.0)


def test_what_a_log_lacks_is_drawn_as_absent():
    """Its step is not there, and its box stands where it does in the other drawing."""
    source, released = drawn_flows(
        graph(
            FlowStep(first=None, second="a", source=4, released=2),
            FlowStep(first="a", second="b", source=3, released=0),
        )
    )
    assert [link.number for link in source.links] == [1, 2]
    assert [link.number for link in released.links] == [1]
    assert source.links[0].stroke > source.links[1].stroke
    boxes = {box.name: box for box in released.activities}
    assert boxes["a"].is_there
    assert not boxes["b"].is_there
    places = [[(box.x, box.y) for box in drawn.activities] for drawn in (source, released)]
    assert places[0] == places[1]


@given(st.lists(STEPS, max_size=15))
def test_everything_lies_within_the_drawing(steps):
    """Whatever the names are; numbers are within it, too."""
    for drawn in drawn_flows(graph(*steps)):
        for box in drawn.activities:
            assert box.x - box.width / 2 >= 0
            assert box.x + box.width / 2 <= WIDTH
            assert box.y - box.height / 2 >= 0
            assert box.y + box.height / 2 <= drawn.height
            assert len(box.lines) <= 2
        for link in drawn.links:
            assert 8 <= link.x <= WIDTH - 8
            assert 8 <= link.y <= drawn.height - 8
