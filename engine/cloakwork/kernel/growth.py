"""Keys that grow level by level: prefixes of cases.

On each level a case has one key at most: its key on the level before, if that was kept, with one
extension. Which keys are kept follows from noisy counts alone, so given earlier answers a unit of m
cases moves the counts of a level by m altogether (l1, hence l2): each level is one more adaptively
composed answer of sensitivity m.

``declared`` adds noise to every extension, so nothing else is told. ``occurring`` tells which keys
there are; this is why its thresholds cost delta, once for all levels. Take a case of a unit, and
the first level on which its key is one that nobody else has. The key holds at most m cases, so it
is told with probability at most p = Pr[m + noise >= least], whatever was answered before. Unless it
is, the case is followed no further, and no key below is ever drawn for: each key is drawn for once.
So some key of the unit alone is told with probability at most m p, for the largest p of all levels;
else the answers are those to a log of the shared keys (``privacy.md`` 6.2; Korolova et al. 2009,
theorem 1).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cloakwork.base.arrays import Ints, group_sums
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.frozen import frozen
from cloakwork.kernel.books import Books
from cloakwork.kernel.cases import Cases, Query
from cloakwork.kernel.noises import AnswerNoise, require_known
from cloakwork.kernel.vectors import ONE, answered
from cloakwork.noise import Noise


@frozen
class Level:
    """Noisy counts of one level's keys, by parent and extension, ascending.

    ``parent``: int64, the place of a key among those kept on the level before (0 on the first).
    ``extension``: int64, a number as the query has it, or the place of a label in ``labels``, and
    -1 for none. ``noisy``: int64.
    """

    parent: Ints
    extension: Ints
    noisy: Ints
    labels: tuple[str, ...] = ()


@dataclass(slots=True, repr=False)
class Growth:
    """The levels so far: ``_key`` holds the place of each case's key among those kept last, -1 if
    it was not.
    """

    _cases: Cases
    _counts: Ints
    _books: Books
    _noise: Noise
    _max_cases: int
    _delta: float
    _twice: Callable[[Query], Query] = lambda query: query
    _kept: int = 1
    _key: Ints = field(init=False)
    _latest: tuple[Ints, Ints] | None = None

    def __post_init__(self) -> None:
        self._key = np.zeros(len(self._cases), np.int64)

    def declared(
        self,
        query: Query,
        noise: AnswerNoise,
        extensions: int,
        among: Ints | None = None,
    ) -> Level:
        """Noisy counts of every kept key with every extension, whether they occur or not.

        ``query``: each case's extension as the code of an entry, 0 to ``extensions`` - 1.
        ``among``: the extensions that are asked for (int64, ascending), all where None. Raises
        PlanUnsound for a number outside of the declared ones, or one that comes twice.
        """
        asked = np.arange(extensions) if among is None else np.asarray(among, np.int64)
        # A key told twice would have two draws, and one case would move both.
        if ((asked < 0) | (asked >= extensions)).any() or (np.diff(asked) <= 0).any():
            raise PlanUnsound("extensions are asked for in ascending order, each once")
        # Charged before cases are counted.
        self._start_level(noise)
        case, number, _, _ = self._first_entries(query)
        code = np.full(len(self._cases), -1)
        code[case] = np.where(number < extensions, number, -1)
        keys = (np.arange(self._kept)[:, None] * extensions + asked).ravel()
        own = np.where(
            (self._key >= 0) & (code >= 0),
            self._key * extensions + code,
            -1,
        )
        counts = group_sums(own[own >= 0], self._counts[own >= 0], self._kept * extensions)
        noisy = counts[keys] + noise.draw(self._noise, len(keys))
        self._latest = (keys, own)
        return Level(keys // extensions, keys % extensions, noisy)

    def occurring(
        self,
        query: Query,
        noise: AnswerNoise,
        least: int,
    ) -> Level:
        """Noisy counts of the keys that occur and reach ``least``.

        ``query``: each case's extension as the label of an entry's run (one event, or none).
        Raises PlanUnsound where the chance of a key of one unit alone is above what was charged.
        """
        require_known(noise)
        if not noise.selection_delta(least, ONE, self._max_cases) <= self._delta:
            raise PlanUnsound(f"a threshold of {least:,} spends more delta than the plan lists")
        self._start_level(noise)
        alphabet = self._cases.alphabet
        case, _, start, stop = self._first_entries(query)
        has_label = start < stop
        # By rank, so by the labels' own order and not by that of the log; -1 is no label.
        order = sorted(range(len(alphabet)), key=alphabet.__getitem__)
        rank = np.full(len(self._cases), -1)
        rank[case[has_label]] = np.argsort(order)[self._cases.codes[start[has_label]]]
        has_entry = np.zeros(len(self._cases), np.bool_)
        has_entry[case] = True
        width = len(alphabet) + 1
        counted = (self._key >= 0) & has_entry
        own = np.where(
            counted,
            self._key * width + rank + 1,
            -1,
        )
        keys, place = np.unique(own[counted], return_inverse=True)
        counts = group_sums(place, self._counts[counted], len(keys))
        noisy = counts + noise.draw(self._noise, len(keys))
        reached = noisy >= least
        keys = keys[reached]
        noisy = noisy[reached]
        self._latest = (keys, own)
        extension = keys % width - 1
        shown = np.unique(extension[extension >= 0])
        labels = tuple(alphabet[order[each]] for each in shown.tolist())
        named = np.where(
            extension >= 0,
            np.searchsorted(shown, extension),
            -1,
        )
        return Level(keys // width, named, noisy, labels)

    def keep(self, rows: Ints) -> None:
        """Go on with the keys at ``rows`` (ascending) of the level just told; they get the places
        0, 1, ... in that order. Cases of other keys are followed no further.
        """
        if self._latest is None:
            raise PlanUnsound("keys are kept once a level, after it was told")
        keys, own = self._latest
        # Keys are ascending, so places are found by bisection.
        kept = keys[rows]
        self._latest, self._kept = None, len(kept)
        place = np.searchsorted(kept, own)
        # No key is -2: nothing is found beyond the last one.
        self._key = np.where(
            np.append(kept, -2)[place] == own,
            place,
            -1,
        )

    def _start_level(self, noise: AnswerNoise) -> None:
        """Enter one level in the books.

        A key of one unit alone has one chance to be told: were a level told twice, it would have
        two, and its chance is charged once.
        """
        if self._latest is not None:
            raise PlanUnsound("a level is told once, and its keys are kept before the next")
        require_known(noise)
        self._books.record(*noise.events(ONE, self._max_cases, None))

    def _first_entries(self, query: Query) -> tuple[Ints, Ints, Ints, Ints]:
        """Of each case that has one the first entry: its case, number, and run of events."""
        found = answered(self._cases, self._twice(query))
        case, first = np.unique(found.case, return_index=True)
        return case, found.code[first], found.start[first], found.stop[first]
