"""One clock for a whole search: when it must end, and how much of its time is left."""

import math
from collections.abc import Callable
from time import monotonic
from typing import Final

from cloakwork.base.frozen import frozen


class OutOfTime(Exception):
    """A search that has no answer yet has no time left."""


@frozen
class Deadline:
    """When a search must end. ``ends_at``: seconds of ``clock``, infinite where nothing limits it.

    Every part of a search that asks does so of the same clock; a share of the time is a deadline
    of its own, never later than that of the whole.
    """

    ends_at: float = math.inf
    clock: Callable[[], float] = monotonic

    @classmethod
    def after(
        cls,
        seconds: float,
        clock: Callable[[], float] = monotonic,
    ) -> "Deadline":
        """``seconds`` from now; ``math.inf``: never."""
        return cls(clock() + seconds, clock)

    @property
    def seconds_left(self) -> float:
        """Never less than 0."""
        return max(self.ends_at - self.clock(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.clock() >= self.ends_at

    def share(self, share: float) -> "Deadline":
        """The end of ``share`` of the time that is left."""
        return self.within(share * self.seconds_left)

    def within(self, seconds: float) -> "Deadline":
        """``seconds`` from now, or this one where it is earlier."""
        return Deadline(min(self.clock() + seconds, self.ends_at), self.clock)

    def require_time(self) -> None:
        """Raise ``OutOfTime`` where none is left."""
        if self.is_over:
            raise OutOfTime


NO_LIMIT: Final = Deadline()
