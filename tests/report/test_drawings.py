"""Curves as path data: steps from left to right, scaled to the largest share. Directly-follows
graphs in pixels, one activity below the other.
"""

from hypothesis import given
from hypothesis import strategies as st

from cloakwork.evaluation.control_flow import FlowGraph, FlowStep
from cloakwork.evaluation.times import ShareCurve
from cloakwork.report.drawings import BEGIN, END, WIDTH, drawn, drawn_flows, in_order


def test_a_curve_is_drawn_in_steps():
    """The largest share of both lines lies 8 pixels below the edge, a share of 0 on the base."""
    curve = ShareCurve(title="t", source=(0.0, 0.5), released=(0.25, 0.75), marks=((0.5, "m"),))
    found = drawn(curve)
    assert found.source == "M0 100V100.0H180.0V38.7H360.0"
    assert found.released == "M0 100V69.3H180.0V8.0H360.0"
    assert found.marks == ((180.0, "m"),)
    assert found.highest == 0.75
    assert drawn(curve.model_copy(update={"source": (), "released": ()})).source == "M0 100"


LAYOUT_NAMES = st.sampled_from("abcdefghij")


def test_what_follows_most_often_stands_below():
    links = [(BEGIN, "a"), ("a", "b"), ("b", END), ("a", "c"), ("c", "b"), ("b", "a"), ("b", "b")]
    assert in_order([*links, ("x", "c")]) == [BEGIN, "a", "b", "c", "x", END]


@given(
    st.lists(
        st.tuples(LAYOUT_NAMES | st.just(BEGIN), LAYOUT_NAMES | st.just(END)),
        max_size=15,
        unique=True,
    )
)
def test_every_activity_has_one_place(links):
    placed = in_order(links)
    assert sorted(placed) == sorted({BEGIN, END, *(name for link in links for name in link)})
    assert (placed[0], placed[-1]) == (BEGIN, END)


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
    for flow in drawn_flows(graph(*steps)):
        for box in flow.activities:
            assert box.x - box.width / 2 >= 0
            assert box.x + box.width / 2 <= WIDTH
            assert box.y - box.height / 2 >= 0
            assert box.y + box.height / 2 <= flow.height
            assert len(box.lines) <= 2
        for link in flow.links:
            assert 8 <= link.x <= WIDTH - 8
            assert 8 <= link.y <= flow.height - 8
