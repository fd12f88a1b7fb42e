"""The noise on answers, what an answer costs that it is added to, and the books of a step: what the
plan allows it to measure, and what it has measured.

The plan's event lists, as its leaves, the answers to come. Each answer fills one of these slots: of
the same kind, with no less noise, and with a sensitivity, a rate and a delta that are no larger.
What fits no slot is refused before it is answered. Parameters are fixed beforehand, so composition
holds however a mechanism chooses what it asks next (``privacy.md`` 9).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NoReturn

import numpy as np

from cloakwork.accounting.calibrate import gaussian_threshold_delta, threshold_delta
from cloakwork.accounting.leaf_events import LARGEST_SIGMA, leaves_of
from cloakwork.base.arrays import Floats, Ints
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
from cloakwork.base.exact import drawn_scale, drawn_sigma, exactly, rounded_up
from cloakwork.base.frozen import frozen
from cloakwork.kernel.vectors import ONE, Clip
from cloakwork.noise import Noise

LARGEST: Final = 1 << 60
"""Grid steps: noise is held here, so that no sum of it and an answer leaves int64."""


@frozen
class Laplace:
    """Discrete Laplace noise of ``scale`` grid steps."""

    scale: float

    @property
    def deviation(self) -> float:
        """Its standard deviation: the root of 2 q over 1 - q, q = e**(-1/b)."""
        return math.sqrt(2) * math.exp(-0.5 / self.scale) / -math.expm1(-1 / self.scale)

    def draw(self, noise: Noise, size: int) -> Ints:
        """``size`` draws, int64."""
        return np.clip(
            noise.laplace_values(self.scale, size),
            -LARGEST,
            LARGEST,
        )

    def events(
        self,
        clip: Clip,
        cases: int,
        keys: int | None,
    ) -> tuple[PrivacyEvent, ...]:
        """What an answer costs whose vectors ``clip`` bounds, for units of ``cases`` cases; several
        where several forms of it hold.
        """
        del keys  # The sum of all moves counts, whatever the number of keys.
        if clip.replaced:
            raise PlanUnsound("a sum over cases whose values are replaced needs Gaussian noise")
        scale = drawn_scale(self.scale)
        if clip.norm == "max":
            one = DiscreteLaplace(scale=scale, sensitivity=cases * clip.most)
            in_all = DiscreteLaplace(scale=scale, sensitivity=cases * clip.most * clip.cells)
            return (repeated(clip.cells, one), in_all)
        if clip.norm == "l2":
            # A vector of n values has at most the root of n times the sum of their squares' root.
            most = math.isqrt(clip.most**2 * clip.cells)
            return (DiscreteLaplace(scale=scale, sensitivity=cases * most),)
        return (DiscreteLaplace(scale=scale, sensitivity=cases * clip.most),)

    def selection_delta(
        self,
        tau: int,
        clip: Clip,
        cases: int,
    ) -> float:
        """The probability, at most, that a key is told which one unit alone has: see
        ``selection_delta``.
        """
        if clip == Clip("l1", 1, 1):
            return threshold_delta(self.scale, tau, cases)
        if clip.norm == "max" and clip.most == 1:
            one = exactly(threshold_delta(self.scale, tau, cases))
            return min(1.0, rounded_up(clip.cells * one))
        return _many_keys_delta(
            lambda least: laplace_tail(self.scale, least),
            tau,
            clip,
            cases,
        )


@frozen
class Gaussian:
    """Discrete Gaussian noise of ``sigma`` grid steps."""

    sigma: float

    @property
    def deviation(self) -> float:
        """Its standard deviation, at most: discrete noise varies no more than continuous noise
        (Canonne, Kamath and Steinke 2020, corollary 9).
        """
        return self.sigma

    def draw(self, noise: Noise, size: int) -> Ints:
        """``size`` draws, int64."""
        return np.clip(
            noise.gaussian_values(self.sigma, size),
            -LARGEST,
            LARGEST,
        )

    def events(
        self,
        clip: Clip,
        cases: int,
        keys: int | None,
    ) -> tuple[PrivacyEvent, ...]:
        """What an answer costs whose vectors ``clip`` bounds, for units of ``cases`` cases; several
        where several forms of it hold. Raises PlanUnsound as ``event_of_vector`` does.
        """
        sigma = drawn_sigma(self.sigma)
        norm = cases * clip.moved
        if clip.norm == "max":
            one = DiscreteGaussian(sigma=sigma, sensitivity=norm)
            return (repeated(clip.moved_cells, one),)
        cells = clip.moved_cells
        # A question without keys is charged as one with a key.
        moved = cases * cells if keys is None else max(1, min(cases * cells, keys))
        if cells > 1:
            return (self.event_of_vector(norm, moved),)
        alone = DiscreteGaussian(sigma=sigma, sensitivity=norm)
        if sigma <= LARGEST_SIGMA:
            return (alone,)
        # The form that counts several cells first: another answer may need the slot of one.
        return (vector_event(sigma, norm, moved), alone)

    def event_of_vector(self, norm: int, cells: int) -> PrivacyEvent:
        """What a vector costs that moves by at most ``norm`` (L2), in at most ``cells`` cells.

        Raises PlanUnsound for several cells under noise so fine that the accountant goes by its
        distribution: there no split of a norm over cells bounds all others (sigma 1: one cell moved
        by 2 costs more than four moved by 1).
        """
        sigma = drawn_sigma(self.sigma)
        if cells > 1 and sigma <= LARGEST_SIGMA:
            raise PlanUnsound(
                f"a vector needs Gaussian noise of more than {LARGEST_SIGMA:g} grid steps, not"
                f" {sigma:g}: below, what it costs depends on how a case spreads it"
            )
        return vector_event(sigma, norm, cells)

    def selection_delta(
        self,
        tau: int,
        clip: Clip,
        cases: int,
    ) -> float:
        """The probability, at most, that a key is told which one unit alone has: see
        ``selection_delta``.
        """
        if clip == Clip("l1", 1, 1):
            return gaussian_threshold_delta(self.sigma, tau, cases)
        return _many_keys_delta(
            lambda least: gaussian_tail(self.sigma, least),
            tau,
            clip,
            cases,
        )


@frozen
class Truncated:
    """Discrete Laplace noise of ``scale`` grid steps, given that it is at most ``bound``; only for
    selections from ``bound + 1`` on.
    """

    scale: float
    bound: int

    @property
    def deviation(self) -> float:
        """Its standard deviation, at most: that of noise that is not cut off."""
        return Laplace(self.scale).deviation

    def draw(self, noise: Noise, size: int) -> Ints:
        """``size`` draws, int64."""
        drawn = noise.laplace_values(self.scale, size)
        # Drawing again what lies beyond is the distribution given that it does not.
        while (beyond := np.flatnonzero(np.abs(drawn) > self.bound)).size:
            drawn[beyond] = noise.laplace_values(self.scale, beyond.size)
        return drawn

    def events(
        self,
        clip: Clip,
        cases: int,
        keys: int | None,
    ) -> tuple[PrivacyEvent, ...]:
        """What a selection costs."""
        del keys
        if clip.norm != "l1":
            raise ValueError("truncated noise is for vectors whose sizes are summed (l1)")
        sensitivity = cases * clip.most
        return (TruncatedGeometric(scale=self.scale, bound=self.bound, sensitivity=sensitivity),)

    def selection_delta(
        self,
        tau: int,
        clip: Clip,
        cases: int,
    ) -> float:
        """It is part of the event, for a threshold above the bound."""
        del clip, cases
        return 0.0 if tau > self.bound else 1.0


AnswerNoise = Laplace | Gaussian | Truncated


_KNOWN: Final[tuple[type, ...]] = (Laplace, Gaussian, Truncated)


def require_known(noise: AnswerNoise, clip: Clip = ONE) -> None:
    """Refuse noise or a clip of a class that is not the kernel's own: what it draws, or bounds, is
    not known to be what it says.
    """
    if type(clip) is not Clip:
        raise PlanUnsound(f"a clip is a Clip, not {type(clip).__name__}")
    if type(noise) not in _KNOWN:
        raise PlanUnsound(f"noise is Laplace, Gaussian or Truncated, not {type(noise).__name__}")


def selection_event(delta: float) -> PrivacyEvent:
    """The chance that a key of one unit alone is told."""
    return EpsilonDelta(epsilon=0.0, delta=min(delta, math.nextafter(1.0, 0.0)))


def _many_keys_delta(
    tail: Callable[[int], float],
    tau: int,
    clip: Clip,
    cases: int,
) -> float:
    """At least the probability that one of the keys that a unit alone has reaches ``tau``.

    Its keys are at most n = ``cases * clip.cells``, and the sum v of each is an integer from 1 to
    S = ``cases * clip.most``: a union over them gives n h(S) at most, where h(v), the tail of
    tau - v, grows with v. Where sizes are summed (l1), the v add up to S at most. h is convex below
    tau, so h(v) / v is largest at 1 or at S, and the union is at most the larger of S h(1) and
    h(S).
    """
    total = cases * clip.most
    if tau <= total:
        return 1.0
    union = cases * clip.cells * tail(tau - total)
    if clip.norm == "l1":
        union = min(union, max(tail(tau - total), total * tail(tau - 1)))
    return min(1.0, union)


def laplace_tail(scale: float, least: int) -> float:
    """At least Pr[noise >= least], for ``least`` of 1 or more: e**(-j/b) / (1 + e**(-1/b))."""
    # Rounded up by more than the floating-point functions can err.
    return min(1.0, math.exp(-least / scale) / (1 + math.exp(-1 / scale)) * (1 + 1e-12))


def gaussian_tail(sigma: float, least: int) -> float:
    """At least Pr[noise >= least], for ``least`` of 1 or more: at most that of the continuous noise
    from ``least - 1`` on (Canonne, Kamath and Steinke 2020, proposition 25).
    """
    return min(1.0, math.erfc((least - 1) / (sigma * math.sqrt(2))) / 2 * (1 + 1e-12))


def vector_event(
    sigma: float,
    norm: int,
    cells: int,
) -> PrivacyEvent:
    """Discrete Gaussian noise of ``sigma`` on a vector that moves by at most ``norm`` (L2), in at
    most ``cells`` cells.

    It is charged as ``cells`` counts that each move by s = ceil(norm / sqrt(cells)). That is an
    upper bound where the accountant goes by sums over cells, so for sigma above 1,000 grid steps:
    the squares of the moves add up to at most cells * s**2, hence (Cauchy and Schwarz) the moves to
    at most cells * s.
    """
    each = math.isqrt(norm * norm // cells)
    # The root was rounded down; s is rounded up.
    each += each * each * cells < norm * norm
    return repeated(cells, DiscreteGaussian(sigma=sigma, sensitivity=each))


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
