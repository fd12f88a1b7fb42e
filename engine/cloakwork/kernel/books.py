"""The books of a step: what the plan allows it to measure, and what it has measured.

The plan's event lists, as its leaves, the answers to come. Each answer fills one of these slots: of
the same kind, with no less noise, and with a sensitivity, a rate and a delta that are no larger.
What fits no slot is refused before it is answered. Parameters are fixed beforehand, so composition
holds however a mechanism chooses what it asks next (``privacy.md`` 9).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NoReturn

import numpy as np

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.base.errors import PlanUnsound


@dataclass(slots=True)
class Books:
    """``slots``: leaves of the plan's event that are still open, with how often; ``recorded``: the
    events really drawn, in their order.
    """

    slots: dict[PrivacyEvent, int]
    recorded: list[PrivacyEvent] = field(default_factory=list)
    is_closed: bool = False
    branches: list["Books"] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def of(cls, event: PrivacyEvent) -> "Books":
        """Books for a step that the plan charges ``event`` for."""
        return cls(dict(leaves_of(event)))

    def record(self, *alternatives: PrivacyEvent) -> None:
        """Fill slots by an event, or by the first of several that all describe it.

        Raises PlanUnsound where none fits, and once the step is over: then nothing is drawn.
        """
        # Two threads cannot fill one slot.
        with self._lock:
            if self.is_closed:
                raise PlanUnsound("a step that is over asks for more")
            for event in alternatives:
                filled = self._filled(event)
                if filled is not None:
                    self.slots = filled
                    self.recorded.append(event)
                    return
        raise PlanUnsound(f"a step asked for what its plan does not list: {alternatives[0]!r}")

    def close(self) -> None:
        """The step is over: nothing more is answered."""
        with self._lock:
            self.is_closed = True
        for books in self.branches:
            books.close()

    def branch(self, event: PrivacyEvent) -> "Books":
        """Books of their own for a way to go on, which end with these."""
        books = Books.of(event)
        self.branches.append(books)
        return books

    def __reduce__(self) -> NoReturn:
        """A copy would fill the same slots again."""
        raise PlanUnsound("what a kernel keeps is not copied")

    def _filled(self, event: PrivacyEvent) -> dict[PrivacyEvent, int] | None:
        """The slots left when ``event`` is answered; None where it fits none."""
        # All leaves of the event, or none.
        left = dict(self.slots)
        for leaf, times in leaves_of(event):
            fitting = [slot for slot in left if left[slot] >= times and fits(leaf, slot)]
            if not fitting:
                return None
            # The slot that says the same, where there is one; else one that the others fit least.
            chosen = leaf if leaf in fitting else min(fitting, key=_allowance)
            left[chosen] -= times
        return left


def _allowance(slot: PrivacyEvent) -> tuple[float, float]:
    """How much a slot (a leaf) allows for, to be compared with slots of the same kind."""
    match slot:
        case DiscreteLaplace() | TruncatedGeometric():
            return slot.sensitivity / slot.scale, 0.0
        case DiscreteGaussian():
            return slot.sensitivity / slot.sigma, 0.0
        case EpsilonDelta():
            return slot.epsilon, slot.delta
        case PoissonSampled():
            return slot.rate, 0.0
    return math.inf, 0.0


def fits(event: PrivacyEvent, slot: PrivacyEvent) -> bool:
    """Whether ``event`` (a leaf) costs no more than ``slot`` (a leaf), whatever is composed with
    it.
    """
    match event, slot:
        case DiscreteLaplace(), DiscreteLaplace():
            return event.sensitivity <= slot.sensitivity and event.scale >= slot.scale
        case DiscreteGaussian(), DiscreteGaussian():
            # More noise need not cost less: between two integers, delta may rise with sigma.
            return event.sensitivity <= slot.sensitivity and event.sigma == slot.sigma
        case TruncatedGeometric(), TruncatedGeometric():
            same = event.scale == slot.scale and event.sensitivity <= slot.sensitivity
            return same and event.bound >= slot.bound
        case EpsilonDelta(), EpsilonDelta():
            return event.epsilon <= slot.epsilon and event.delta <= slot.delta
        case PoissonSampled(), PoissonSampled():
            return event.rate <= slot.rate and Books.of(slot.event)._filled(event.event) is not None
        case NonPrivate(), NonPrivate():
            return True
    return False


def part_moved(event: PrivacyEvent, moved: Floats) -> float:
    """By how far sums moved, of what ``event`` allows, which they were charged by: at most 1 where
    it covers them. ``moved``: the size of each move, in grid steps.
    """
    for leaf, times in leaves_of(event):
        # ``times`` keys move, each by the sensitivity; of samples, the sums of each move by one.
        noise, keys = (leaf.event, 1) if isinstance(leaf, PoissonSampled) else (leaf, times)
        if isinstance(noise, DiscreteGaussian):
            return float(np.linalg.norm(moved)) / (noise.sensitivity * math.sqrt(keys))
        if isinstance(noise, DiscreteLaplace | TruncatedGeometric):
            return float(moved.sum()) / (noise.sensitivity * keys)
    return 0.0


def noise_in(
    event: PrivacyEvent,
) -> DiscreteGaussian | DiscreteLaplace | TruncatedGeometric | None:
    """The noise of one answer's event; None of samples, and of what has none."""
    noises = (DiscreteGaussian, DiscreteLaplace, TruncatedGeometric)
    return next((leaf for leaf, _ in leaves_of(event) if isinstance(leaf, noises)), None)


def answers_in(event: PrivacyEvent) -> int:
    """How many answers an event lists."""
    return sum(times for _, times in leaves_of(event))


def composed(events: Sequence[PrivacyEvent]) -> PrivacyEvent:
    """All of ``events``, as one."""
    return events[0] if len(events) == 1 else Composed(events=tuple(events))


def repeated(times: int, event: PrivacyEvent) -> PrivacyEvent:
    """``event``, ``times`` times."""
    return event if times == 1 else Repeated(times=times, event=event)
