"""Shares before and after: by hand, and on the edges."""

import numpy as np
import pytest

from cloakwork.evaluation.times import duration_curve, profile_curve


def test_durations_lie_in_classes_of_a_power_of_ten():
    """Below a second, a second to 1.78, ten seconds, and longer than a year."""
    source = np.array([0.0, 1.0, 1.5, 10.0])
    curve = duration_curve(source, np.array([1e9]))
    assert curve.source[:6] == (0.25, 0.5, 0, 0, 0, 0.25)
    assert sum(curve.source) == sum(curve.released) == 1
    assert len(curve.source) == len(curve.released)
    places = [place for place, _ in curve.marks]
    assert places == sorted(places)
    assert 0 < places[0] < places[-1] <= 1
    # A mark stands where the class of its time begins.
    assert places[0] == pytest.approx(1 / len(curve.source), abs=1e-4)
    empty = duration_curve(np.zeros(0), np.zeros(0))
    assert set(empty.source) == set(empty.released) == {0}


def test_profiles_begin_on_monday():
    """Hours of the week, or its days."""
    curve = profile_curve(np.array([0, 0, 167]), np.array([1]), 168)
    assert curve.source[0] == pytest.approx(2 / 3, abs=1e-6)
    assert curve.released[1] == 1
    assert curve.marks[0] == (0, "Mon")
    assert len(profile_curve(np.array([6]), np.array([0]), 7).source) == 7
