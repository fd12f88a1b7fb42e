"""Noise on each value of an attribute by itself (local differential privacy): what a mechanism says
of it, and the one place that adds it.

A value is a code, an integer from 0; one more than the largest stands for a value that is missing
or not declared, so that presence is hidden as well. What comes out of a value depends on it and on
fresh randomness alone.

**Randomised response** (Warner 1965; k values: Kairouz, Oh and Viswanath 2016). Of k codes the true
one stays with probability p, else each other is as likely. With p <= e**epsilon / (e**epsilon + k -
1) no output is more than e**epsilon times likelier under one code than under another. p is a number
of 62 bits, rounded down and at least 1/k, and is drawn exactly. Of all channels from k values to k
that give epsilon this one keeps the most values true: for each output y, P[y | y] <= e**epsilon P[y
| x], so that P[y | y] (1 + (k - 1) e**-epsilon) <= sum over x of P[y | x]; summed over y, whose
right side is k, the mean of P[y | y] is at most p. So a hash of the value (optimal local hashing;
Wang et al. 2017), which serves estimates of frequencies that are computed from hashes, could only
lose where values are released.

**Bounded noise.** Whether there is a value is a response of two codes. A number inside declared
bounds, in steps, gets discrete Laplace noise of a scale for all steps, and is moved back inside the
bounds, which is post-processing; where there is none, the middle gets it. The two compose.

**Values of a case.** ``times``: only so many values of a case are looked at, those of its first
events; the others count as missing. All outputs of a case are independent given its values, so
their costs add up.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.costs import Composed, DiscreteLaplace, EpsilonDelta, PrivacyEvent
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.exact import drawn_scale
from cloakwork.base.frozen import frozen
from cloakwork.kernel.books import Books, repeated
from cloakwork.noise import Addresses, Stream

_ONE: Final = 1 << 62
"""Probabilities are so many parts of one."""

_BELOW: Final = 1 - Fraction(1, 10**12)
"""What rounding of an exponential is worth, many times over."""


@frozen
class Response:
    """Randomised response over ``values`` codes and the one for missing values, at ``epsilon``."""

    values: int
    epsilon: float

    def __post_init__(self) -> None:
        if self.values < 1 or not 0 < self.epsilon < math.inf:
            raise ValueError("a response has a value at least, and an epsilon above 0")

    def event(self) -> PrivacyEvent:
        """The cost of one value."""
        return EpsilonDelta(epsilon=self.epsilon)


@frozen
class BoundedNoise:
    """Codes from 0 to ``steps`` with discrete Laplace noise of ``scale``, moved back inside;
    whether there is a value is answered at epsilon ``presence``.
    """

    steps: int
    scale: float
    presence: float

    @property
    def values(self) -> int:
        """How many codes there are beside that for missing values."""
        return self.steps + 1

    def event(self) -> PrivacyEvent:
        """The cost of one value: that of presence, and that of the number."""
        number = DiscreteLaplace(scale=drawn_scale(self.scale), sensitivity=self.steps)
        return Composed(events=(EpsilonDelta(epsilon=self.presence), number))


LocalNoise = Response | BoundedNoise


@frozen
class Randomisation:
    """The noise on attributes, by name: all of one cost.

    ``per_case``: over how many values the cost is counted; None where it is that of one value.
    ``times``: of each attribute of events, how many values of a case are looked at; None: all.
    """

    noises: Mapping[str, LocalNoise]
    per_case: int | None = None
    times: int | None = None

    def event(self) -> PrivacyEvent:
        """What it costs a value, or a case; PlanUnsound where attributes cost differently."""
        # One figure is claimed for all attributes.
        costs = {noise.event() for noise in self.noises.values()}
        if len(costs) != 1:
            raise PlanUnsound("values of one randomisation have one cost")
        (cost,) = costs
        return cost if self.per_case is None else repeated(self.per_case, cost)


class Randomising:
    """Adds the noise that a mechanism has declared. Its event is in the books before a value is
    looked at, and a value has one draw, at its address, however often it is asked for.

    ``of_cases``: which of the attributes have one value a case. Raises PlanUnsound where the plan
    does not list this noise, or where a case has more values than it is charged for.
    """

    def __init__(
        self,
        declared: Randomisation,
        of_cases: frozenset[str],
        books: Books,
        stream: Stream,
    ) -> None:
        known = type(declared) is Randomisation and all(
            type(noise) in (Response, BoundedNoise) for noise in declared.noises.values()
        )
        if not known:
            raise PlanUnsound("noise on values is declared by the kernel's own classes alone")
        if declared.per_case is not None:
            # A case's values are at most those that its cost is counted over.
            of_events = len(declared.noises.keys() - of_cases)
            values = of_events * (declared.times or 0) + len(declared.noises.keys() & of_cases)
            if (of_events and declared.times is None) or values > declared.per_case:
                raise PlanUnsound("a case may have more values than its cost is counted over")
        books.record(declared.event())
        self.declared = declared
        self.__noise = stream

    def released(
        self,
        attribute: str,
        codes: Ints,
        at: Addresses,
    ) -> Ints:
        """Noisy codes for those of an attribute (int64, shape (n,)) at these addresses; -1 where no
        value is released. ``codes``: -1 where a value is missing or not declared.
        """
        # A value has one draw, at its address.
        noise = self.declared.noises[attribute]
        stream = self.__noise.part(attribute)
        # Undeclared values, and those behind the ones that are charged, count as missing.
        known = (codes >= 0) & (codes < noise.values)
        if self.declared.times is not None:
            known &= at.positions < self.declared.times
        if isinstance(noise, Response):
            # A missing value has the code behind all others.
            exact = np.where(known, codes, noise.values)
            noisy = _responses(
                exact,
                noise.values + 1,
                noise.epsilon,
                stream,
                at,
            )
            return np.where(noisy == noise.values, -1, noisy)
        present = (
            _responses(
                known.astype(np.int64),
                2,
                noise.presence,
                stream,
                at,
            )
            == 1
        )
        # Where one is shown that the log does not have, it is the middle with noise.
        middle = np.where(known, codes, noise.steps // 2)
        drawn = stream.part("number").laplace_values(noise.scale, at)
        # Held where no sum with it leaves int64.
        drawn = np.clip(drawn, -noise.steps, noise.steps)
        return np.where(
            present,
            np.clip(middle + drawn, 0, noise.steps),
            -1,
        )


def _responses(
    codes: Ints,
    places: int,
    epsilon: float,
    stream: Stream,
    at: Addresses,
) -> Ints:
    """Randomised response over ``places`` codes, at least two."""
    if not len(codes):
        return codes
    ones = np.full(len(codes), _ONE, np.int64)
    stays: Bools = stream.part("stays").uniform(ones, at) < kept_parts(places, epsilon)
    others = stream.part("others").uniform(np.full(len(codes), places - 1, np.int64), at)
    # Another code than the true one: those from it on move up by one.
    return np.where(stays, codes, others + (others >= codes))


def kept_parts(places: int, epsilon: float) -> int:
    """How many of 2**62 parts of probability the true one of ``places`` codes has."""
    # Rounded down, as more would cost more than epsilon; but never below mere chance.
    share = Fraction(1 / (1 + (places - 1) * math.exp(-epsilon))) * _BELOW
    return max(int(share * _ONE), -(-_ONE // places))
