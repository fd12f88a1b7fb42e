"""What a mechanism gets to see: sums with noise, and keys that were selected."""

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import PlanUnsound
from cloakwork.kernel.noises import AnswerNoise
from cloakwork.kernel.vectors import Sums, key_of
from cloakwork.noise import Noise

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """Keys that were selected, with their noisy sums (int64, grid steps), in the order of the keys:
    it says nothing of the log's.

    A key is a number (``codes``, int64) with ``labels``.
    """

    codes: Ints
    labels: tuple[Labels, ...]
    noisy: Ints


@dataclass(slots=True, repr=False)
class NoisySums:
    """A vector of sums, each with noise of its own, read key by key.

    Every key has noise, whether a case has it or not. It is drawn when the key is first read and
    stays, so reading a part, chosen in whatever way, tells no more than reading all.
    """

    _sums: Sums
    _noise: AnswerNoise
    _source: Noise
    _keys: int | None = None
    _codes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _noisy: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _by_label: dict[bytes, int] = field(default_factory=dict)

    def __reduce__(self) -> NoReturn:
        """A copy would draw noise of its own."""
        raise PlanUnsound("a kernel's answer is not copied")

    def __copy__(self) -> "NoisySums":
        """The same answer."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "NoisySums":
        """The same answer."""
        return self

    def at(self, codes: Ints) -> Ints:
        """The noisy sums at keys that are numbers alone: int64, of the shape of ``codes``.

        Raises PlanUnsound for a number outside of the declared ones.
        """
        codes = np.asarray(codes, np.int64)
        if codes.size == 0:
            return np.zeros(codes.shape, np.int64)
        if self._keys is not None and not 0 <= codes.min() <= codes.max() < self._keys:
            raise PlanUnsound(f"a key lies outside of the {self._keys:,} that were declared")
        asked = np.sort(codes, axis=None)
        asked = asked[np.append(True, np.diff(asked) != 0)]
        new = np.setdiff1d(asked, self._codes, assume_unique=True)
        noisy = self._sums.at(new) + self._noise.draw(self._source, len(new))
        merged = np.concatenate([self._codes, new])
        order = np.argsort(merged, kind="stable")
        self._codes = merged[order]
        self._noisy = np.concatenate([self._noisy, noisy])[order]
        return self._noisy[np.searchsorted(self._codes, codes)]

    def at_labels(self, keys: list[tuple[int, Labels]]) -> Ints:
        """The noisy sums at keys of a number and labels: int64, shape (keys,).

        Raises PlanUnsound where the keys are declared to be numbers.
        """
        if self._keys is not None:
            raise PlanUnsound("the keys were declared to be numbers: they have no labels")
        if any(not labels for _, labels in keys):
            raise PlanUnsound("a key without labels is a number: it is read by ``at``")
        spelled = [key_of(code, labels) for code, labels in keys]
        new = sorted(set(spelled) - self._by_label.keys())
        drawn = self._noise.draw(self._source, len(new))
        found = self._sums.at_spelled(new) + drawn
        self._by_label.update(zip(new, found.tolist(), strict=True))
        return np.array([self._by_label[key] for key in spelled], np.int64)
