"""Cases as a network reads them: step by step, padded to one length."""

from dataclasses import dataclass

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.kernel import Cases
from cloakwork.mechanisms.variants.chain import MarkovChain


@dataclass(frozen=True, slots=True)
class PaddedCases:
    """The places of a batch of cases, shape (cases, places); place t is that of the event t + 1, or
    of the end. A case is coded over an alphabet of A labels.

    ``before``: int64, the step that precedes a place: a label from 1 to A, or 0, which is START.
    ``after``: int64, what stands at the place: a label from 0 to A - 1, or A, the end. ``is_real``:
    whether the case has this place; where it has not, both are 0.
    """

    before: Ints
    after: Ints
    is_real: Bools

    @classmethod
    def of(cls, cases: Cases, most_places: int) -> "PaddedCases":
        """The first ``most_places`` (1 or more) of each case; a longer one has no end. A case
        without events has no place.
        """
        lengths = cases.lengths
        places = min(int(lengths.max(initial=0)) + 1, most_places)
        shape = len(cases), places
        before, after = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        row, place = cases.case_of, cases.place
        kept = place < places
        after[row[kept], place[kept]] = cases.codes[kept]
        kept = place + 1 < places
        before[row[kept], place[kept] + 1] = cases.codes[kept] + 1
        ended = np.flatnonzero((lengths > 0) & (lengths < places))
        after[ended, lengths[ended]] = len(cases.alphabet)
        real_places = np.where(lengths > 0, np.minimum(lengths + 1, places), 0)
        is_real = np.arange(places) < real_places[:, None]
        return cls(before, after, is_real)

    def contexts(self, chain: MarkovChain) -> Ints:
        """The context of ``chain`` at each place: int64, shape (cases, places); 0, that of START,
        where a case has no place.
        """
        found: Ints = np.zeros_like(self.before)
        for place in range(1, self.before.shape[1]):
            label = np.maximum(self.before[:, place] - 1, 0)
            reached = chain.next_context[found[:, place - 1], label]
            found[:, place] = np.where(self.is_real[:, place], reached, 0)
        return found
