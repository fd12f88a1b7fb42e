"""Singling out, linkability and attribute inference in the sense of the Article 29 Working Party
(Opinion 05/2014), measured as Giomi et al. 2023 ("A Unified Framework for Quantifying Privacy Risk
in Synthetic Data", PETS) measure them.

Each attack has a control: the same attack where the target gave nothing to the release. The risk is
what the attack finds beyond its control. The paper takes cases that were held back; where there are
none, the control here is the release without the target's own case, as far as it is known.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.evaluation.case_table import CaseTable

TOLERANCE: Final = 0.05
"""A guessed number counts as right within this share of the true one."""
COLUMNS_OF_A_PREDICATE: Final = 3
_SAME: Final = 1e-12
"""Distances that differ by less are the same: sums of numbers are rounded."""

Posterior = Callable[[int], Floats]
"""For a case of the source, how likely each released case is to be the one made from it."""


class Tries(NamedTuple):
    """Chances of success of each try of an attack, and of its control."""

    attack: list[float]
    control: list[float]


@dataclass(frozen=True)
class ReleaseAttacked:
    """A release, the log that it was made from, and, if there are any, cases that it was not made
    from.
    """

    source: CaseTable
    released: CaseTable
    posterior: Posterior
    others: CaseTable | None = None

    def guesses(
        self,
        targets: Ints,
        halves: tuple[Sequence[str], Sequence[str]] | None,
        secrets: Sequence[str],
    ) -> tuple[Tries, dict[str, Tries]]:
        """Linkability, and the inference of each secret.

        Who knows some columns of a case, and others of it without knowing that they are of one
        case: do both lead to the same released case? And who knows all columns but one guesses
        that one from the nearest released case.
        """
        linked = Tries([], [])
        inferred = {secret: Tries([], []) for secret in secrets}
        if halves is None and not secrets:
            return linked, inferred
        tries = [linked, *inferred.values()] if halves else list(inferred.values())
        for target in targets.tolist():
            posterior = self.posterior(target) if self.others is None else None
            own = None if posterior is None else int(np.argmax(posterior))
            found = self._found(self.source, target, halves, secrets, own)
            for each, (with_own, without) in zip(tries, found, strict=True):
                each.attack.append(with_own)
                if posterior is not None:
                    chance = float(posterior[own])
                    each.control.append(chance * without + (1 - chance) * with_own)
        if self.others is not None:
            for row in range(min(len(targets), len(self.others.numbers))):
                found = self._found(self.others, row, halves, secrets, None)
                for each, (with_own, _) in zip(tries, found, strict=True):
                    each.control.append(with_own)
        return linked, inferred

    def _found(
        self,
        table: CaseTable,
        row: int,
        halves: tuple[Sequence[str], Sequence[str]] | None,
        secrets: Sequence[str],
        own: int | None,
    ) -> Iterator[tuple[float, float]]:
        """The chance of success of each guess about a row, with all released cases and without
        one of them, ``own``.
        """
        apart = self.released.distances(table, row)
        if halves:
            sums = [np.sum([apart[name] for name in names], axis=0) for names in halves]
            yield _with_and_without(_in_common, sums, own)
        every = np.sum(list(apart.values()), axis=0) if secrets else np.zeros(0)
        for secret in secrets:

            def guessed(found: Sequence[Ints], secret: str = secret) -> float:
                return self._guessed(table, row, secret, found[0])

            yield _with_and_without(guessed, [every - apart[secret]], own)

    def _guessed(self, table: CaseTable, row: int, secret: str, found: Ints) -> float:
        """How likely one of the released cases ``found`` tells a row's secret."""
        if secret in self.source.categorical:
            place = self.source.categorical.index(secret)
            same = self.released.categories[found, place] == table.categories[row, place]
            return float(same.mean())
        place = self.source.numeric.index(secret)
        true, guesses = table.numbers[row, place], self.released.numbers[found, place]
        if np.isnan(true):
            return float(np.isnan(guesses).mean())
        return float((np.abs(guesses - true) <= TOLERANCE * np.abs(true)).mean())

    def singling_out(self, number: int, seed: int) -> Tries:
        """Predicates that hold of exactly one released case: do they hold of exactly one case of
        the source?

        Without cases that were held back, a predicate counts for the control where the case that it
        isolates is not the one that the released case was made from.
        """
        tries = Tries([], [])
        for record, predicate in self._predicates(number, seed):
            alone = np.flatnonzero(predicate(self.source))
            success = float(len(alone) == 1)
            tries.attack.append(success)
            if self.others is not None:
                tries.control.append(float(predicate(self.others).sum() == 1))
            elif success:
                tries.control.append(1.0 - float(self.posterior(int(alone[0]))[record]))
            else:
                tries.control.append(0.0)
        return tries

    def _predicates(
        self, number: int, seed: int
    ) -> Iterator[tuple[int, Callable[[CaseTable], Bools]]]:
        """At most ``number`` predicates of some columns of a released case that no other released
        case fulfils: a number at least or at most as far from the middle, the same category.
        """
        draws = np.random.default_rng([seed, 29])
        names = self.released.names
        middles = [_middle(column) for column in self.released.numbers.T]
        seen: set[tuple[object, ...]] = set()
        for _ in range(20 * number):
            if len(seen) == number:
                return
            record = int(draws.integers(len(self.released.numbers)))
            size = min(COLUMNS_OF_A_PREDICATE, len(names))
            chosen = sorted(draws.choice(len(names), size, replace=False).tolist())
            predicate = _predicate(self.released, record, chosen, middles)
            found = predicate(self.released)
            values = (self.released.numbers[record], self.released.categories[record])
            key = (*chosen, *(np.concatenate(values)[chosen].tolist()))
            if found.sum() == 1 and key not in seen:
                seen.add(key)
                yield record, predicate


def _in_common(found: Sequence[Ints]) -> float:
    both = len(np.intersect1d(found[0], found[1], assume_unique=True))
    return both / (len(found[0]) * len(found[1]))


def _with_and_without(
    success: Callable[[Sequence[Ints]], float], apart: Sequence[Floats], own: int | None
) -> tuple[float, float]:
    """The success with the nearest cases by each of the distances, and without one case."""
    found = [_nearest(each) for each in apart]
    with_own = success(found)
    if own is None or not any(own in each for each in found):
        return with_own, with_own
    if len(apart[0]) == 1:
        return with_own, 0.0
    for each in apart:
        each[own] = np.inf
    return with_own, success([_nearest(each) for each in apart])


def _nearest(apart: Floats) -> Ints:
    """The cases at the least distance, ties and all."""
    return np.flatnonzero(apart <= apart.min() + _SAME)


def _middle(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


def _predicate(
    table: CaseTable, record: int, chosen: Sequence[int], middles: Sequence[float]
) -> Callable[[CaseTable], Bools]:
    """What a case must fulfil to be like ``record`` in the chosen columns."""
    numeric = len(table.numeric)

    def holds(other: CaseTable) -> Bools:
        found = np.ones(len(other.numbers), np.bool_)
        for place in chosen:
            if place >= numeric:
                column = place - numeric
                found &= other.categories[:, column] == table.categories[record, column]
                continue
            value, values = table.numbers[record, place], other.numbers[:, place]
            if np.isnan(value):
                found &= np.isnan(values)
            else:
                found &= values >= value if value > middles[place] else values <= value
        return found

    return holds
