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
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import JsonValue

from cloakwork.errors import MechanismError
from cloakwork.noise import LARGEST_SCALE, Noise

Ints = NDArray[np.int64]
Randomiser = Callable[[Ints, float, Noise], pl.Series]
"""Codes of values (int64), epsilon (infinity: leave them), randomness; a released value for each
code.
"""

NAME: Final = "kanon/closeness"
_DRAWS: Final = 2**52
_SAFE: Final = 1 - 1e-12
"""What epsilon is scaled by, so that rounding in floating point never makes it larger than proved.
"""


def epsilon_for(t: float, sizes: NDArray[np.int64]) -> float:
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
    whole, smallest = int(sizes.sum()), int(sizes.min())
    return math.log((t * whole - smallest) / (whole - smallest)) * _SAFE


def least_t(steps: int) -> float:
    """The least t for which noise over a range of ``steps`` steps can be drawn, however large the
    classes: e^(steps/2**53).
    """
    return math.exp(steps / LARGEST_SCALE) * (1 + 1e-9)


def randomiser_of(
    distinct: pl.Series,
    domain: tuple[JsonValue, ...] | None,
    between: tuple[float, float] | None,
    step: float,
) -> Randomiser:
    """The randomiser for codes of the values ``distinct``, over a declared domain or else a range.

    Raises ``MechanismError`` when the values are of another type than what was declared.
    """
    if domain is not None:
        return _response(distinct, _members(distinct, domain))
    assert between is not None  # noqa: S101 - offered only with one of the two
    low, high, width = (Fraction(str(figure)) for figure in (*between, step))
    return _laplace(distinct, low, int((high - low) / width), width)


def _response(distinct: pl.Series, domain: pl.Series) -> Randomiser:
    """k-ary randomised response (Warner 1965; Kairouz, Oh and Viswanath 2014): keep the value with
    probability q, else draw any of the k members. P(x) / P(y) = 1 + k q / (1 - q), so q =
    (e^epsilon - 1) / (e^epsilon - 1 + k).
    """
    or_missing = pl.concat([domain, pl.Series(domain.name, [None], dtype=domain.dtype)])
    member = {value: place for place, value in enumerate(or_missing.to_list())}
    place_of = np.array([member.get(value, -1) for value in distinct.to_list()], np.int64)

    def randomise(codes: Ints, epsilon: float, noise: Noise) -> pl.Series:
        lacks = place_of[codes] == len(domain)
        if lacks.all():
            return pl.Series(domain.name, [None] * len(codes), dtype=domain.dtype)
        size = len(domain) + bool(lacks.any())
        kept = _DRAWS if math.isinf(epsilon) else _kept_of(_DRAWS, epsilon, size)
        stays = noise.uniform(np.full(len(codes), _DRAWS, np.int64)) < kept
        drawn = noise.uniform(np.full(len(codes), size, np.int64))
        true = place_of[codes]
        return or_missing.gather(np.where(stays & (true >= 0), true, drawn))

    return randomise


def _kept_of(draws: int, epsilon: float, size: int) -> int:
    """In how many of ``draws`` equally likely cases a value stays: rounded down, which only adds
    noise.
    """
    odds = math.expm1(min(epsilon, 700.0)) / size
    return math.floor(draws * (odds / (1 + odds)) * _SAFE)


def _told_truly(draws: int, epsilon: float) -> int:
    """In how many of ``draws`` equally likely cases a truth is told: with odds e^epsilon, rounded
    down, at least half.
    """
    return max(draws // 2, math.floor(draws / (1 + math.exp(-epsilon)) * _SAFE))


def _members(distinct: pl.Series, domain: tuple[JsonValue, ...]) -> pl.Series:
    """The declared values as the column has them, each once."""
    if distinct.dtype in (pl.String, pl.Null):
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in domain]
        return pl.Series(list(dict.fromkeys(texts)), dtype=pl.String)
    try:
        members = pl.Series(list(domain), strict=True).cast(distinct.dtype, strict=True)
    except (TypeError, pl.exceptions.PolarsError):
        raise MechanismError(
            NAME, f"the values of '{distinct.name}' are of another type than its domain"
        ) from None
    return members.unique(maintain_order=True)


def _laplace(distinct: pl.Series, low: Fraction, steps: int, width: Fraction) -> Randomiser:
    """Discrete Laplace noise of scale ``steps / epsilon`` on the grid ``low + i * width``, clamped
    to it before and after (Ghosh, Roughgarden and Sundararajan 2009): two values lie at most
    ``steps`` apart.

    Where some values are missing, half of epsilon goes to whether a value is: that is told truly
    with odds e^(epsilon/2). A missing value that is to be told as present is a random place of the
    grid, and passes the noise as all others do. So the two answers have odds of at most
    e^(epsilon/2) for any two inputs, and so has a number, given that one is told.
    """
    if len(distinct) and not distinct.dtype.is_numeric():
        raise MechanismError(
            NAME, f"'{distinct.name}' has a range, and its values are no numbers; declare a domain"
        )
    numbers = (
        distinct.alias("").cast(pl.Float64).fill_nan(float(low)).fill_null(float(low)).to_numpy()
    )
    place_of = np.clip(np.rint((numbers - float(low)) / float(width)), 0, steps).astype(np.int64)
    is_missing = distinct.is_null().to_numpy()
    whole = low.denominator == width.denominator == 1 and distinct.dtype.is_integer()

    def randomise(codes: Ints, epsilon: float, noise: Noise) -> pl.Series:
        places, lacks = place_of[codes], is_missing[codes]
        if lacks.any() and not lacks.all() and not math.isinf(epsilon):
            epsilon /= 2
            lies = noise.uniform(np.full(len(codes), _DRAWS, np.int64)) >= _told_truly(
                _DRAWS, epsilon
            )
            anywhere = noise.uniform(np.full(len(codes), steps + 1, np.int64))
            places, lacks = np.where(lacks, anywhere, places), lacks ^ lies
        if not math.isinf(epsilon) and len(codes):
            scale = math.nextafter(steps / epsilon * (1 + 1e-12), math.inf)
            places = np.clip(places + noise.laplace_values(scale, len(codes)), 0, steps)
        shared = low.denominator * width.denominator
        values = (int(low * shared) + places * int(width * shared)) / shared
        told = pl.Series(values).cast(pl.Int64 if whole else pl.Float64)
        return told.zip_with(
            pl.Series(~lacks), pl.Series(told.name, [None] * len(told), dtype=told.dtype)
        )

    return randomise
