"""What a mechanism that adds noise to times goes by: noisy values, the control flow, and draws."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cloakwork.base.arrays import Ints
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.perturb import StartsAndGaps, addresses_of
from cloakwork.noise import Addresses, Stream


@dataclass(frozen=True, slots=True)
class Draws:
    """Randomness for what is made of noisy times: the same for a case in any batch.

    Nothing of the noise can be told from it: both come of keys of their own.
    """

    _stream: Stream
    _offsets: Ints
    _index: Ints

    def part(self, name: str) -> "Draws":
        """Draws for one purpose, independent of all others."""
        return replace(self, _stream=self._stream.part(name))

    def of_cases(self, below: Ints, cases: Ints) -> Ints:
        """For each of ``cases`` a uniform integer in [0, ``below``): int64."""
        return self._stream.uniform(below, Addresses.of_cases(self._index[cases]))

    def of_events(self, below: Ints, rows: Ints) -> Ints:
        """For each of the events at ``rows`` a uniform integer in [0, ``below``): int64."""
        return self._stream.uniform(below, addresses_of(rows, self._offsets, self._index))


@dataclass(frozen=True, slots=True)
class NoisyTimes:
    """What a mechanism sees of a batch of cases: their control flow, and noisy times."""

    cases: Cases
    noised: StartsAndGaps
    draws: Draws


@dataclass(frozen=True, slots=True)
class NoisySample:
    """Some noisy values of the whole log, drawn at random; activities are places in ``alphabet``.

    ``starts``; ``gaps`` with each one's ``activity``; and the gaps of directly-follows pairs
    (``pair_gaps``) whose events both have a time, with the activities ``before`` and ``after`` of
    each: all int64.
    """

    alphabet: tuple[str, ...]
    starts: Ints
    gaps: Ints
    activity: Ints
    pair_gaps: Ints
    before: Ints
    after: Ints


Completion = Callable[[NoisyTimes], Ints]
"""A time for every event of a batch, in steps of the grid: int64, shape (events,)."""
