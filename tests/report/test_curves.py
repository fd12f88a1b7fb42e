"""Curves as path data: steps from left to right, scaled to the largest share."""

from cloakwork.evaluation.curves import ShareCurve
from cloakwork.report.drawings import drawn


def test_a_curve_is_drawn_in_steps():
    """The largest share of both lines lies 8 pixels below the edge, a share of 0 on the base."""
    curve = ShareCurve(title="t", source=(0.0, 0.5), released=(0.25, 0.75), marks=((0.5, "m"),))
    found = drawn(curve)
    assert found.source == "M0 100V100.0H180.0V38.7H360.0"
    assert found.released == "M0 100V69.3H180.0V8.0H360.0"
    assert found.marks == ((180.0, "m"),)
    assert found.highest == 0.75
    assert drawn(curve.model_copy(update={"source": (), "released": ()})).source == "M0 100"
