"""Randomisers of declared values, for stochastic t-closeness.

A randomiser M has epsilon when no outcome is more than e^epsilon times as likely from one value as
from another of the declared ones. Each randomiser here takes any value: one that was not declared
is clamped to the range, or becomes a uniformly random member of the domain, which keeps M's
epsilon. Where some values of an activity are missing, missing is one more value that there may be,
and whether a value is missing is randomised as well; where none is (or all are), no class can stand
out by it, and nothing becomes missing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import LARGEST_SCALE
from cloakwork.mechanisms.kanon.attribute_values import NAME
from cloakwork.noise import Noise

Randomiser = Callable[[Ints, float, Noise], pl.Series]
"""Codes of values (int64), epsilon (infinity: leave them), randomness; a released value for each
code.
"""

_DRAWS: Final = 2**52
_SAFETY_FACTOR: Final = 1 - 1e-12
"""What epsilon is scaled by, so that rounding in floating point never makes it larger than proved.
"""
_LARGEST_EXPONENT: Final = 700.0
"""e to the power of more may exceed the largest float."""


def epsilon_for(t: float, sizes: Ints) -> float:
    """The epsilon with which every value must be randomised so that no class of ``sizes`` values
    stands out by more than t.

    ``sizes``: int64, at least 1 each; the values of one activity in each class. With N in all and E
    one of the classes, P(S | E) and P(S | rest) differ by at most a factor e^epsilon, and P(S) is
    their mean, weighted |E| to N - |E|. So P(S) / P(S | E) is at most (|E| + (N - |E|) e^epsilon) /
    N, which is t for

        e^epsilon = (t N - |E|) / (N - |E|).

    The inverse ratio is at most N / (|E| + (N - |E|) e^-epsilon), which is never more (Jensen's
    inequality: 1/x is convex). The expression rises with |E|, so the smallest class decides. With
    one class only nothing can stand out: infinity. After Domingo-Ferrer and Soria-Comas 2015, whose
    N - |E| - 1 in the denominator is off by one.

    >>> round(epsilon_for(1.5, np.array([5, 5])), 4)
    0.6931
    """
    if len(sizes) < 2:
        return math.inf
    total = int(sizes.sum())
    smallest = int(sizes.min())
    largest_ratio = (t * total - smallest) / (total - smallest)
    return math.log(largest_ratio) * _SAFETY_FACTOR


def least_t(steps: int) -> float:
    """The least t that noise over ``steps`` steps allows whatever the classes: e^(steps/2**53)."""
    return math.exp(steps / LARGEST_SCALE) * (1 + 1e-9)


def randomiser_of(
    distinct: pl.Series,
    domain: tuple[JsonValue, ...] | None,
    value_range: tuple[float, float] | None,
    step: float,
) -> Randomiser:
    """The randomiser for codes of the values ``distinct``, over a declared domain or else a range.

    Raises ``MechanismError`` when the values are of another type than what was declared.
    """
    if domain is not None:
        return _randomised_response(distinct, _members_of_domain(distinct, domain))
    assert value_range is not None  # noqa: S101 - offered only with one of the two
    # As text, a declared 0.1 is the tenth that its author meant, not the nearest float.
    low, high = (Fraction(str(end)) for end in value_range)
    width = Fraction(str(step))
    steps = int((high - low) / width)
    return _laplace_noise(distinct, _Grid(low, width, steps))


def _randomised_response(distinct: pl.Series, domain: pl.Series) -> Randomiser:
    """k-ary randomised response (Warner 1965; Kairouz, Oh and Viswanath 2014): keep the value with
    probability q, else draw any of the k members. P(x) / P(y) = 1 + k q / (1 - q), so q =
    (e^epsilon - 1) / (e^epsilon - 1 + k).
    """
    missing = len(domain)
    nothing = pl.Series(domain.name, [None], dtype=domain.dtype)
    or_missing = pl.concat([domain, nothing])
    member = {value: index for index, value in enumerate(or_missing.to_list())}
    # -1 for a value that was not declared: it is never kept.
    member_of = np.array([member.get(value, -1) for value in distinct.to_list()], np.int64)

    def randomise(codes: Ints, epsilon: float, noise: Noise) -> pl.Series:
        true = member_of[codes]
        is_missing = true == missing
        if is_missing.all():
            return nothing.new_from_index(0, len(codes))
        # Missing is one more member where some values, and not all, are missing.
        size = missing + int(is_missing.any())
        kept_below = _keep_draws(_DRAWS, epsilon, size)
        is_kept = _uniform_draws(noise, len(codes), _DRAWS) < kept_below
        is_declared = true >= 0
        drawn = _uniform_draws(noise, len(codes), size)
        return or_missing.gather(np.where(is_kept & is_declared, true, drawn))

    return randomise


def _keep_draws(draws: int, epsilon: float, size: int) -> int:
    """In how many of ``draws`` cases a value is kept, rounded down; all for an infinite epsilon."""
    if math.isinf(epsilon):
        return draws
    ratio = math.expm1(min(epsilon, _LARGEST_EXPONENT)) / size
    return math.floor(draws * (ratio / (1 + ratio)) * _SAFETY_FACTOR)


def _truthful_draws(draws: int, epsilon: float) -> int:
    """In how many of ``draws`` equally likely cases the truth is said: with odds e^epsilon, rounded
    down, at least half.
    """
    truthful = math.floor(draws / (1 + math.exp(-epsilon)) * _SAFETY_FACTOR)
    return max(draws // 2, truthful)


def _members_of_domain(distinct: pl.Series, domain: tuple[JsonValue, ...]) -> pl.Series:
    """The declared values as the column has them, each once."""
    if distinct.dtype in (pl.String, pl.Null):
        # A column of text spells truth values "true" and "false".
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in domain]
        return pl.Series(list(dict.fromkeys(texts)), dtype=pl.String)
    try:
        members = pl.Series(list(domain), strict=True).cast(distinct.dtype, strict=True)
    except (TypeError, pl.exceptions.PolarsError):
        raise MechanismError(
            NAME, f"the values of '{distinct.name}' are of another type than its domain"
        ) from None
    return members.unique(maintain_order=True)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The declared points ``low + i * width``, i from 0 to ``steps``."""

    low: Fraction
    width: Fraction
    steps: int

    @property
    def is_of_integers(self) -> bool:
        """Whether all points are whole numbers."""
        return self.low.denominator == self.width.denominator == 1

    def numbers_at(self, points: Ints) -> Floats:
        """The numbers at the points of these indexes: float64, each the nearest one."""
        # In integers up to the last division, which rounds once.
        denominator = self.low.denominator * self.width.denominator
        low, width = int(self.low * denominator), int(self.width * denominator)
        return np.asarray((low + points * width) / denominator, np.float64)

    def nearest_points(self, distinct: pl.Series) -> Ints:
        """The index of the point nearest to each value: int64; 0 for a missing one."""
        if len(distinct) and not distinct.dtype.is_numeric():
            reason = f"'{distinct.name}' has a range, and its values are no numbers"
            raise MechanismError(NAME, f"{reason}; declare a domain")
        low = float(self.low)
        numbers = distinct.alias("").cast(pl.Float64).fill_nan(low).fill_null(low).to_numpy()
        points = np.rint((numbers - low) / float(self.width))
        return np.clip(points, 0, self.steps).astype(np.int64)


def _laplace_noise(distinct: pl.Series, grid: _Grid) -> Randomiser:
    """Discrete Laplace noise of scale ``steps / epsilon`` on the grid, clamped to it before and
    after (Ghosh, Roughgarden and Sundararajan 2009): two values lie at most ``steps`` apart.

    Where some values are missing, half of epsilon goes to whether a value is missing: the truth
    about that is released with odds e^(epsilon/2). A missing value that is to be released as
    present is a random point of the grid, and passes the noise as all others do. So the two answers
    have odds of at most e^(epsilon/2) for any two inputs, and so has a number, given that one is
    released.
    """
    point_of = grid.nearest_points(distinct)
    missing_of = distinct.is_null().to_numpy()
    is_integer = grid.is_of_integers and distinct.dtype.is_integer()
    released_type = pl.Int64 if is_integer else pl.Float64

    def randomise(codes: Ints, epsilon: float, noise: Noise) -> pl.Series:
        points, is_missing = point_of[codes], missing_of[codes]
        some_are_missing = is_missing.any() and not is_missing.all()
        if some_are_missing and not math.isinf(epsilon):
            # Half of epsilon for whether a value is missing, half for the noise below.
            epsilon /= 2
            truthful = _truthful_draws(_DRAWS, epsilon)
            is_flipped = _uniform_draws(noise, len(codes), _DRAWS) >= truthful
            anywhere = _uniform_draws(noise, len(codes), grid.steps + 1)
            points = np.where(is_missing, anywhere, points)
            is_missing = is_missing ^ is_flipped
        if not math.isinf(epsilon) and len(codes):
            # Rounded up, so that the noise is never less than epsilon asks for.
            scale = math.nextafter(grid.steps / epsilon * (1 + 1e-12), math.inf)
            noised = points + noise.laplace_values(scale, len(codes))
            points = np.clip(noised, 0, grid.steps)
        values = pl.Series(grid.numbers_at(points)).cast(released_type)
        return values.set(pl.Series(is_missing), None)

    return randomise


def _uniform_draws(noise: Noise, count: int, below: int) -> Ints:
    """``count`` uniform draws from 0 to ``below - 1``: int64."""
    return noise.uniform(np.full(count, below, np.int64))
