"""The noise on answers, and what an answer costs that it is added to."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from cloakwork.accounting.calibrate import gaussian_threshold_delta, threshold_delta
from cloakwork.accounting.leaf_events import LARGEST_SIGMA
from cloakwork.base.arrays import Ints
from cloakwork.base.costs import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    PrivacyEvent,
    TruncatedGeometric,
)
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.exact import drawn_scale, drawn_sigma, exactly, rounded_up
from cloakwork.base.frozen import frozen
from cloakwork.kernel.books import repeated
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
