"""One clock for a whole search, here one that a test moves on."""

import math

import pytest

from cloakwork.mechanisms.kanon.deadline import Deadline, OutOfTime


class StepClock:
    """A clock that goes on by ``step`` seconds whenever it is looked at."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        """The time, and a step."""
        self.now += self.step
        return self.now


def test_shares_end_no_later_than_the_whole() -> None:
    """Whatever share is asked for, and however late."""
    clock = StepClock(0)
    whole = Deadline.after(10, clock)
    half = whole.share(0.5)
    assert half.seconds_left == 5
    assert whole.within(20).seconds_left == 10
    clock.now = 6
    assert half.is_over
    assert not whole.is_over
    assert half.share(0.5).seconds_left == 0
    clock.now = 10
    assert whole.is_over
    with pytest.raises(OutOfTime):
        whole.require_time()


def test_without_a_limit_it_is_never_over() -> None:
    """Neither the whole nor a share of it."""
    deadline = Deadline()
    deadline.share(0.1).require_time()
    assert math.isinf(deadline.share(0.1).seconds_left)
    assert not deadline.is_over
