"""Long work says every few seconds how far it is."""

import pytest

from cloakwork.base import progress
from cloakwork.base.progress import Pace, counted, heard_by


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its one number is the time, in seconds."""
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_it_is_due_again_after_some_seconds(clock: list[float]) -> None:
    """Not at once, and not twice."""
    pace = Pace()
    due = []
    for seconds in (0.0, 4.9, 0.2, 0.1, 20.0, 4.0):
        clock[0] += seconds
        due.append(pace.is_due())
    assert due == [False, False, True, False, True, False]


def test_items_are_counted_as_they_are_done(clock: list[float]) -> None:
    """None is lost; what takes no time is silent."""
    said: list[str] = []
    with heard_by(said.append):
        assert list(counted("abc", 3, "letter")) == ["a", "b", "c"]
        assert said == []
        for _ in counted(range(4000), 4000, "batch"):
            clock[0] += 0.0078125
    assert said[:2] == ["batch 640 of 4,000", "batch 1,280 of 4,000"]
    assert len(said) == 6
