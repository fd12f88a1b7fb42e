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

from cloakwork.arrays import Bools, Floats, Ints
from cloakwork.attacks.case_table import CaseTable

TOLERANCE: Final = 0.05
"""A guessed number counts as right within this share of the true one."""
COLUMNS_OF_A_PREDICATE: Final = 3

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

    def linkability(self, targets: Ints, one: Sequence[str], other: Sequence[str]) -> Tries:
        """Who knows some columns of a case, and others of it without knowing that they are of one
        case: do both lead to the same released case?
        """

        def joined(table: CaseTable, row: int, without: int | None) -> float:
            found = [self._nearest(table, row, names, without) for names in (one, other)]
            both = len(np.intersect1d(found[0], found[1], assume_unique=True))
            return both / (len(found[0]) * len(found[1]))

        return self._tried(targets, joined)

    def inference(self, targets: Ints, secret: str) -> Tries:
        """Who knows all columns but one guesses that one from the nearest released case."""
        known = [name for name in self.source.names if name != secret]
        numeric = secret in self.source.numeric
        place = (self.source.numeric if numeric else self.source.categorical).index(secret)

        def guessed(table: CaseTable, row: int, without: int | None) -> float:
            found = self._nearest(table, row, known, without)
            if not numeric:
                same = self.released.categories[found, place] == table.categories[row, place]
                return float(same.mean())
            true, guesses = table.numbers[row, place], self.released.numbers[found, place]
            if np.isnan(true):
                return float(np.isnan(guesses).mean())
            return float((np.abs(guesses - true) <= TOLERANCE * np.abs(true)).mean())

        return self._tried(targets, guessed)

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

    def _tried(
        self, targets: Ints, success: Callable[[CaseTable, int, int | None], float]
    ) -> Tries:
        """An attack on each target, and its control."""
        tries = Tries([], [])
        for target in targets.tolist():
            tries.attack.append(success(self.source, target, None))
            if self.others is None:
                posterior = self.posterior(target)
                own = int(np.argmax(posterior))
                chance = float(posterior[own])
                without = success(self.source, target, own)
                tries.control.append(chance * without + (1 - chance) * tries.attack[-1])
        if self.others is not None:
            rows = range(min(len(targets), len(self.others.numbers)))
            tries.control.extend(success(self.others, row, None) for row in rows)
        return tries

    def _nearest(
        self, table: CaseTable, row: int, among: Sequence[str], without: int | None
    ) -> Ints:
        found = self.released.nearest(table, row, among)
        if without is None or without not in found:
            return found
        if len(found) > 1:
            return np.asarray(found[found != without])
        apart = self.released.distances(table.numbers[row], table.categories[row], among)
        apart[without] = np.inf
        return np.flatnonzero(apart <= apart.min() + 1e-12)

    def _predicates(
        self, number: int, seed: int
    ) -> Iterator[tuple[int, Callable[[CaseTable], Bools]]]:
        """At most ``number`` predicates of some columns of a released case that no other released
        case fulfils: a number at least or at most as far from the middle, the same category.
        """
        draws = np.random.default_rng([seed, 29])
        names, middles = self.released.names, np.nanmedian(self.released.numbers, axis=0)
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


def _predicate(
    table: CaseTable, record: int, chosen: Sequence[int], middles: Floats
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
