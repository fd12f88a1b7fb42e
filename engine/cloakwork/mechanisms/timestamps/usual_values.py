"""What is usual in a log, by a sample of its noisy starts and gaps: what events without a time draw
from, and which gap is typical of a directly-follows pair.
"""

from dataclasses import dataclass, replace

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.kernel.cases import Cases
from cloakwork.mechanisms.steps import NoisySample
from cloakwork.mechanisms.timestamps.bounds import Bounds


@dataclass(frozen=True)
class UsualValues:
    """A sample inside public bounds.

    ``pairs``: int64, ascending; directly-follows pairs as numbers, the place of one activity in the
    sample's alphabet times its size plus the place of the next. ``typical``: int64, a gap of each.
    """

    sample: NoisySample
    pairs: Ints
    typical: Ints

    @classmethod
    def of(cls, sample: NoisySample, bounds: Bounds) -> "UsualValues":
        """What ``sample`` says, each value moved inside ``bounds``."""
        inside = replace(
            sample,
            starts=bounds.starts_inside(sample.starts),
            gaps=bounds.gaps_inside(sample.gaps),
            pair_gaps=bounds.gaps_inside(sample.pair_gaps),
        )
        pair = inside.before * len(inside.alphabet) + inside.after
        return cls(inside, *median_bounds(pair, inside.pair_gaps))

    def codes_of(self, cases: Cases) -> Ints:
        """For each event the place of its activity in the sample's alphabet: int64, -1 for none."""
        return cases.coded(self.sample.alphabet)

    def typical_gaps(self, cases: Cases) -> Ints:
        """For each event a gap that is typical of its directly-follows pair, at least 1; 1 for the
        first event of a case, and where nothing is known of the pair.
        """
        code = self.codes_of(cases)
        typical = np.ones(len(code), np.int64)
        before = np.roll(code, 1)
        follows = np.flatnonzero((cases.place > 0) & (code >= 0) & (before >= 0))
        if not len(self.pairs):
            return typical
        pair = before[follows] * len(self.sample.alphabet) + code[follows]
        place = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        known = self.pairs[place] == pair
        typical[follows[known]] = np.maximum(self.typical[place[known]], 1)
        return typical


def median_bounds(group: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The distinct groups, ascending, and of each a lower confidence bound of the median: the order
    statistic 1/sqrt(n) below the middle, about two standard errors, whatever the distribution. 1
    where there are too few values. All int64.

    Where the noise hides all about a pair, its events are so drawn apart by one step only.
    """
    order = np.lexsort((values, group))
    groups, first, size = np.unique(group[order], return_index=True, return_counts=True)
    rank = np.floor(size / 2 - np.sqrt(size)).astype(np.int64)
    bound = values[order][first + np.maximum(rank, 0)]
    return groups, np.where(rank >= 0, bound, 1)
