"""Gradient steps under noise: DP-SGD (Song et al. 2013; Abadi et al. 2016), without a framework.

Each step draws a Poisson sample of the units, sums a gradient of each case in it, clipped in L2 and
in whole grid steps, and adds discrete Gaussian noise: integers throughout, so the noise is exact.
What stays in floating point is the gradient of a case by itself: its last bits may depend on how
many cases are computed at once, as those of any sum of floats.

**Factors.** A layer's weights are a matrix W (inputs, outputs) that is applied at several places of
a case: the gradient of case i is the sum over places t of the outer products of what went in,
``left[i, t]``, and of what comes back, ``right[i, t]``. Its norm follows from both factors without
the matrix (ghost clipping: Li, Tramer, Liang and Hashimoto 2022; Goodfellow 2015), and the sum over
cases is one product of matrices.

Both factors are rounded to whole numbers so small that this product is exact in double precision.
So a case counts for a vector of integers, whose norm (L2) is at most the clip whatever the factors
hold, and sums are the same in any order; noise is added to integers. Factors that differ in their
last bits, as floats do that were computed beside other cases, may be rounded otherwise: see
``docs/decisions/05-noise.md``.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import PoissonSampled, PrivacyEvent
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.exact import drawn_rate, drawn_sigma
from cloakwork.base.frozen import frozen
from cloakwork.kernel.cases import DIFFERS, Cases, Silently
from cloakwork.kernel.noises import Gaussian

Array = Any
"""An array of numpy or a tensor of torch, on any device: all that is called here is spelled alike
in both.
"""

LEFT_STEPS: Final = 2.0**15
RIGHT_STEPS: Final = 2.0**21
"""The largest values of both factors, rounded."""

_EXACT: Final = 2.0**53
"""Sums of integers of at most this size are exact in double precision."""

MOST_PLACES: Final = 1 << 17
"""Places of a case: the sum over so many stays exact. A case of more counts for nothing."""

_LARGEST: Final = 1e150
"""Values are held here, so that no product of two overflows."""

_SLACK: Final = 2.0**-30
"""By how much a norm may be off that is computed in double precision, relative to its largest
possible value: more than 2^19 roundings.
"""

_TRIALS: Final = 4

_SHORTER: Final = 0.999
"""What is longer than the clip is scaled to this part of it, so that rounding hardly ever makes it
too long: that would take another trial, on which a last bit could decide.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """The gradients of one matrix of weights, a case each, as sums of outer products.

    ``left``: shape (cases, places, inputs); ``right``: shape (cases, places, outputs). Places that
    a case does not have hold zeros.
    """

    left: Array
    right: Array

    @property
    def longest(self) -> Array:
        """At least the norm of each case's vector: shape (cases,)."""
        module = _module_of(self.left)
        sizes = [module.sqrt((each * each).sum(axis=2)) for each in (self.left, self.right)]
        most = (sizes[0] * sizes[1]).sum(axis=1)
        squared = module.clip(_squared_norm(self.left, self.right), 0.0, None)
        return module.sqrt(squared + _SLACK * most * most)

    def summed(self, counts: Ints) -> Ints:
        """Of whole numbers, the sum of the matrices, that of case i ``counts[i]`` times: int64."""
        most = self.left.shape[1] * LEFT_STEPS * RIGHT_STEPS
        # How often cases may count, in all, that are summed at once.
        exact = int(_EXACT / most)
        # Counts digit by digit: large ones would leave room for no other case beside them.
        length = int(counts.max(initial=0)).bit_length()
        bits = max(1, min(length, (exact.bit_length() - 1) // 2))
        at_once = max(1, exact >> bits)
        total = np.zeros((self.left.shape[2], self.right.shape[2]), np.int64)
        for shift in range(0, length, bits):
            digits = (counts >> shift) & ((1 << bits) - 1)
            rows = np.flatnonzero(digits)
            for start in range(0, len(rows), at_once):
                chunk = rows[start : start + at_once]
                total += _exact_sum(self, chunk, digits[chunk]) << shift
        return total


class Moves(Protocol):
    """What cases count for: a vector of integers (grid steps) each, within the clip."""

    def rows(self) -> Ints:
        """The vectors: int64, shape (cases, size)."""
        ...

    def summed(self, counts: Ints) -> Ints:
        """The sum of the vectors, that of case i ``counts[i]`` times: int64, shape (size,)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DenseMoves:
    """Vectors one by one: ``values``, int64, shape (cases, size)."""

    values: Ints

    def rows(self) -> Ints:
        """The vectors themselves."""
        return self.values

    def summed(self, counts: Ints) -> Ints:
        """In integers."""
        return np.asarray(counts @ self.values, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FactorMoves:
    """Vectors as factors of whole numbers in double precision; ``layers`` as of ``Factors``."""

    layers: tuple[Factors, ...]

    def rows(self) -> Ints:
        """Multiplied out."""
        # Exact, as no sum exceeds places * LEFT_STEPS * RIGHT_STEPS.
        found = [_on_host(each.left.swapaxes(1, 2) @ each.right) for each in self.layers]
        return np.concatenate([each.reshape(len(each), -1) for each in found], 1).astype(np.int64)

    def summed(self, counts: Ints) -> Ints:
        """By products of matrices that are exact."""
        return np.concatenate([each.summed(counts).reshape(-1) for each in self.layers])


@dataclass(frozen=True, slots=True, eq=False)
class MovesApart:
    """Vectors of ``size`` numbers that were found case by case; None: zeros."""

    found: tuple[Moves | None, ...]
    size: int

    def rows(self) -> Ints:
        """One below the other."""
        nothing = np.zeros((1, self.size), np.int64)
        rows = [nothing if each is None else each.rows() for each in self.found]
        return np.concatenate([nothing[:0], *rows])

    def summed(self, counts: Ints) -> Ints:
        """Added up one by one."""
        total = np.zeros(self.size, np.int64)
        for count, each in zip(counts, self.found, strict=True):
            if each is not None:
                total += each.summed(np.array([count]))
        return total


def clipped_rows(
    found: object,
    cases: int,
    size: int,
    grid: float,
    clip: int,
) -> DenseMoves:
    """Gradients one a row, in steps of ``grid``, each scaled down to a norm of ``clip`` where it is
    longer, and rounded towards zero.

    Raises ValueError for another shape than (``cases``, ``size``).
    """
    values = np.asarray(found)
    if values.shape != (cases, size) or values.dtype.kind == "c":
        raise ValueError(f"a gradient has the shape {(cases, size)}, and is real")
    values = values.astype(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    # Relative to the largest value of the row, so that no square overflows.
    largest = np.abs(values).max(
        axis=1,
        keepdims=True,
        initial=0.0,
    )
    shares = values / np.where(largest > 0, largest, 1.0)
    norms = np.maximum(np.sqrt(np.square(shares).sum(axis=1, keepdims=True)), 1.0)
    with np.errstate(over="ignore"):
        kept = np.minimum(norms * (largest / grid), clip)
    steps: Ints = np.trunc(shares * (kept / norms)).astype(np.int64)
    # Floats may have come out a step too long: integers decide.
    while (too_long := (steps * steps).sum(axis=1) > clip**2).any():
        steps[too_long] -= np.sign(steps[too_long])
    return DenseMoves(steps)


def clipped_factors(
    found: Sequence[Factors],
    cases: int,
    size: int,
    grid: float,
    clip: int,
) -> FactorMoves:
    """Gradients by factors, in steps of ``grid``, each scaled down to a norm of ``clip`` over all
    layers where it is longer, and rounded.

    Raises ValueError for other shapes than those of ``cases`` cases and ``size`` weights.
    """
    # Each layer's largest value is 1: norms of all are added up without overflow.
    layers = [_Layer.of(each, cases) for each in found]
    if sum(each.weights for each in layers) != size:
        raise ValueError(f"there are {size} weights, not those of the factors")
    norms = _together([each.scale * each.norm for each in layers])
    module = _module_of(norms)
    # Steps that a gradient of 1 is worth, by case.
    most = _SHORTER * clip / module.clip(norms, 1 / _LARGEST, None)
    worth = module.clip(most, None, 1 / grid)
    for each in layers:
        # Held, so that the rounded factors stay small; also a vector that cancels out in sum.
        held = LEFT_STEPS * RIGHT_STEPS / module.clip(each.scale, 1 / _LARGEST, None)
        worth = module.minimum(worth, held)
    for _ in range(_TRIALS):
        moves = [each.rounded(worth) for each in layers]
        longest = _together([each.longest for each in moves])
        is_within = longest <= clip
        if bool(is_within.all()):
            return FactorMoves(tuple(moves))
        # Rounding made them longer.
        less = worth * (_SHORTER * clip / module.where(longest > 0, longest, 1.0))
        worth = module.where(is_within, worth, less)
    return FactorMoves(tuple(each.rounded(module.where(is_within, worth, 0.0)) for each in layers))


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Factors whose largest value is 1 in each case, and what they were divided by: ``scale`` and
    ``norm`` (of what is left), shape (cases,).
    """

    left: Array
    right: Array
    scale: Array
    norm: Array

    @classmethod
    def of(cls, factors: Factors, cases: int) -> "_Layer":
        """Factors of ``cases`` cases; what is not finite is zero."""
        left = _finite(factors.left)
        right = _finite(factors.right)
        if left.ndim != 3 or right.ndim != 3 or left.shape[:2] != right.shape[:2]:
            raise ValueError("factors have the shape (cases, places, numbers)")
        if left.shape[0] != cases or not all((*left.shape[1:], *right.shape[1:])):
            raise ValueError(f"factors are those of {cases} cases")
        if left.shape[1] > MOST_PLACES:
            raise ValueError(f"factors have at most {MOST_PLACES:,} places")
        module = _module_of(left)
        largest = []
        for factor in (left, right):
            most = module.amax(abs(factor), axis=(1, 2))
            largest.append(module.where(most > 0, most, 1.0))
        left = left / largest[0][:, None, None]
        right = right / largest[1][:, None, None]
        norm = module.sqrt(module.clip(_squared_norm(left, right), 0.0, None))
        return cls(
            left,
            right,
            largest[0] * largest[1],
            norm,
        )

    @property
    def weights(self) -> int:
        """How many weights there are."""
        return int(self.left.shape[2] * self.right.shape[2])

    def rounded(self, worth: Array) -> Factors:
        """Whole numbers whose products are steps; a gradient of 1 is ``worth`` of them."""
        module = _module_of(self.left)
        product = worth * self.scale
        # As fine on both sides, as far as that goes.
        left = module.clip(module.sqrt(product), 1.0, LEFT_STEPS)
        right = product / left
        return Factors(
            module.round(self.left * left[:, None, None]),
            module.round(self.right * right[:, None, None]),
        )


def _squared_norm(left: Array, right: Array) -> Array:
    """The squares of all entries of the matrices, added up: shape (cases,)."""
    places = left.shape[1]
    inputs = left.shape[2]
    outputs = right.shape[2]
    if places == 1:
        return (left * left).sum(axis=(1, 2)) * (right * right).sum(axis=(1, 2))
    if places * (inputs + outputs) < inputs * outputs:
        # The sum over pairs of places of (left . left') (right . right').
        return ((left @ left.swapaxes(1, 2)) * (right @ right.swapaxes(1, 2))).sum(axis=(1, 2))
    found = left.swapaxes(1, 2) @ right
    return (found * found).sum(axis=(1, 2))


def _together(norms: Sequence[Array]) -> Array:
    """The norm of vectors of which ``norms`` are those of the pieces; no square overflows."""
    module = _module_of(norms[0])
    stacked = module.stack(list(norms))
    largest = module.amax(stacked, axis=0)
    shares = stacked / module.where(largest > 0, largest, 1.0)
    return largest * module.sqrt((shares * shares).sum(axis=0)) * (1 + 2.0**-40)


def _exact_sum(
    moves: Factors,
    rows: Ints,
    counts: Ints,
) -> Ints:
    """The sum of the matrices at ``rows``, where all partial sums are exact: int64."""
    inputs = moves.left.shape[2]
    outputs = moves.right.shape[2]
    at: slice | Array = slice(int(rows[0]), int(rows[-1]) + 1)
    if len(rows) <= rows[-1] - rows[0]:
        at = rows if _module_of(moves.left) is np else _beside(moves.left, rows).long()
    weight = _beside(moves.left, counts)[:, None, None]
    left = moves.left[at].reshape(-1, inputs)
    right = (moves.right[at] * weight).reshape(-1, outputs)
    return _on_host(left.T @ right).astype(np.int64)


def _finite(values: Array) -> Array:
    """In double precision, with 0 for what is not finite, and within ``_LARGEST``."""
    module = _module_of(values)
    values = np.asarray(values) if module is np else values.detach()
    if values.dtype in (module.complex64, module.complex128):
        raise ValueError("a gradient has no imaginary part")
    values = values.astype(np.float64) if module is np else values.double()
    values = module.nan_to_num(
        values,
        nan=0.0,
        posinf=0.0,
        neginf=0.0,
    )
    return module.clip(values, -_LARGEST, _LARGEST)


def _module_of(values: Array) -> Any:
    """torch for its tensors, which exist only once it is loaded; else numpy."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(values, torch.Tensor) else np


def _beside(values: Array, numbers: Ints) -> Array:
    """``numbers`` in double precision, where ``values`` are."""
    module = _module_of(values)
    if module is np:
        return numbers.astype(np.float64)
    return module.as_tensor(numbers, dtype=values.dtype, device=values.device)


def _on_host(values: Array) -> Floats:
    if _module_of(values) is np:
        return np.asarray(values, np.float64)
    return np.asarray(values.cpu().numpy(), np.float64)


def length_chunks(
    lengths: Ints,
    cases: int,
    events: int,
) -> list[Ints]:
    """Rows in chunks of about equal length: at most ``cases`` of them, or ``events`` events if all
    were as long as the longest one; at least one.

    >>> [chunk.tolist() for chunk in length_chunks(np.array([9, 1, 1, 2]), 3, 6)]
    [[1, 2, 3], [0]]
    """
    rows = np.argsort(lengths, kind="stable")
    chunks: list[Ints] = []
    start = 0
    for end in range(1, len(rows) + 1):
        is_full = end - start == cases
        if end < len(rows):
            is_full = is_full or (end + 1 - start) * int(lengths[rows[end]]) > events
        if is_full or end == len(rows):
            chunks.append(rows[start:end])
            start = end
    return chunks


Gradient = Callable[[Floats, Cases, int], Floats | Sequence[Factors]]
"""From parameters (float64, shape (size,), read-only), cases and the number of the step (from 0) to
a gradient of each case: a pure function, in which no case's gradient depends on another case.

Either one row a case (float64, shape (cases, size)); or the factors of each matrix of weights, of
which the parameters are the entries, row by row, one matrix after another. What is random in a
step follows from its number, so it is the same for all cases.
"""

Update = Callable[[Floats, Floats], Floats]
"""From parameters and a noisy mean gradient to new parameters, all of shape (size,)."""


ROUNDING: Final = 2
ROUNDING_SHARE: Final = 5e-4
"""Grid steps, or the part of the clip if that is more, by which a gradient may differ: sums of
floats depend on how many cases there are, and a last bit of them may decide how a factor is
rounded.
"""

LONGEST_CLIP: Final = 1 << 30
"""Grid steps: the square of a clip stays within int64."""

CASES_AT_ONCE: Final = 1 << 11
EVENTS_AT_ONCE: Final = 1 << 16
"""What a gradient is asked for at a time, counting all cases as long as the longest."""


@frozen
class Descent:
    """How gradient steps are taken; none of it may follow from data.

    ``times``: how many steps. ``rate``: with which probability a unit is in the sample of one.
    ``grid``: the size of a grid step, in the gradient's unit. ``clip``: what each case's gradient
    is clipped to (L2), in grid steps. ``noise``: on each number of the sum. ``denominator``: what
    the sum is divided by, such as the declared number of cases times ``rate``.
    """

    times: int
    rate: float
    grid: float
    clip: int
    noise: Gaussian
    denominator: float

    def __post_init__(self) -> None:
        if not 1 <= self.clip <= LONGEST_CLIP:
            raise ValueError(f"a clip lies between 1 and {LONGEST_CLIP:,} grid steps")
        if not (0 < self.grid < math.inf and 0 < self.denominator < math.inf):
            raise ValueError("a grid step and a denominator are positive numbers")

    @classmethod
    def of(
        cls,
        *,
        times: int,
        rate: float,
        norm: float,
        multiplier: float,
        denominator: float,
        max_cases: int = 1,
    ) -> "Descent":
        """Steps on a fine grid. ``norm``: what a case's gradient is clipped to, in its own unit;
        ``multiplier``: deviations of the noise to what a unit of ``max_cases`` cases moves a sum
        by.
        """
        # The finest grid on which squares stay within int64.
        sigma = drawn_sigma(multiplier * max_cases * LONGEST_CLIP)
        grid = norm / LONGEST_CLIP
        return cls(
            times,
            rate,
            grid,
            LONGEST_CLIP,
            Gaussian(sigma),
            denominator,
        )

    def event(self, size: int, max_cases: int) -> PrivacyEvent:
        """What one step costs, for ``size`` parameters and units of ``max_cases`` cases."""
        moved = self.noise.event_of_vector(max_cases * self.clip, size)
        return PoissonSampled(rate=drawn_rate(self.rate), event=moved)

    def summed(
        self,
        gradient: Gradient,
        parameters: Floats,
        cases: Cases,
        counts: Ints,
        step: int,
    ) -> Ints:
        """The sum of the gradients of the cases, that of case i ``counts[i]`` times, in grid steps:
        int64, shape (size,).
        """
        total = np.zeros(len(parameters), np.int64)
        for rows in length_chunks(cases.lengths, CASES_AT_ONCE, EVENTS_AT_ONCE):
            total += self.clipped(
                gradient,
                parameters,
                cases.take(rows),
                step,
            ).summed(counts[rows])
        return total

    def clipped(
        self,
        gradient: Gradient,
        parameters: Floats,
        cases: Cases,
        step: int = 0,
    ) -> Moves:
        """The gradient of each case in grid steps, within the clip.

        A case that it fails on has zeros, silently: that it failed would tell of one case.
        """
        # A copy that is read-only: a gradient changes nothing that the next one is told.
        parameters = np.array(parameters, np.float64)
        parameters.flags.writeable = False
        size = len(parameters)

        def find(batch: Cases) -> Moves:
            found = gradient(parameters, batch, step)
            factored = isinstance(found, list | tuple) and found and isinstance(found[0], Factors)
            clipped: Callable[..., Moves] = clipped_factors if factored else clipped_rows
            return clipped(found, len(batch), size, self.grid, self.clip)

        with Silently():
            return find(cases)
        # Case by case where the batch fails: the others are as if it were not there.
        apart: list[Moves | None] = []
        for row in range(len(cases)):
            moves = None
            with Silently():
                moves = find(cases.take(np.array([row])))
            apart.append(moves)
        return MovesApart(tuple(apart), size)

    def require_same_rows(
        self,
        gradient: Gradient,
        parameters: Floats,
        cases: Cases,
        step: int,
    ) -> None:
        """Raises PlanUnsound where a gradient of another package finds something else in a case
        once it is called again, on other batches in another order; last bits may differ.
        """
        found = self.clipped(gradient, parameters, cases, step).rows()
        rows = np.arange(len(cases))[::-1]
        for half in (rows[::2], rows[1::2]):
            again = self.clipped(gradient, parameters, cases.take(half), step).rows()
            apart = np.abs(again - found[half]).max(initial=0)
            if apart > max(ROUNDING, ROUNDING_SHARE * self.clip):
                raise PlanUnsound(DIFFERS)
