"""The variants of a log: its distinct activity sequences, coded as integers; and cases that follow
given ones, range by range, so that what takes memory is the variants.

For edit distances variants are strings of one character an activity, the form in which these are
fast.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.base.arrays import Ints, Ints32, offsets_of, ranges_of
from cloakwork.base.errors import MechanismError
from cloakwork.base.frozen import frozen
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog


@frozen
class Variants:
    """The distinct activity sequences of a log.

    - ``alphabet``: the activity labels, sorted; code ``c`` stands for ``alphabet[c]``.
    - ``codes``: int32, the sequences end to end; variant ``v`` is
      ``codes[offsets[v]:offsets[v + 1]]``.
    - ``offsets``: int64, shape (variants + 1,).
    - ``counts``: int64, shape (variants,); cases of each variant.
    - ``of_case``: int64, shape (cases,); the variant of each case.
    """

    alphabet: tuple[str, ...]
    codes: Ints32
    offsets: Ints
    counts: Ints
    of_case: Ints

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, variant: int) -> Ints32:
        """The codes of one variant: int32, shape (length,)."""
        return self.codes[self.offsets[variant] : self.offsets[variant + 1]]

    def labels(self, variant: int) -> tuple[str, ...]:
        """One variant as activity labels."""
        return tuple(self.alphabet[code] for code in self[variant])


def with_activity(log: EventLog) -> EventLog:
    """``log`` without events that have no activity."""
    labels = log.events[ACTIVITY]
    return log.keep_events(labels.is_not_null().to_numpy()) if labels.null_count() else log


def variants_of(log: EventLog) -> Variants:
    """Find the variants of ``log``, exactly, in time linear in events times log(cases).

    Events must have labels (``bound`` drops those without). Cases of one length are compared as
    rows of one matrix.
    """
    labels = log.activities
    alphabet = labels.unique().sort()
    codes = labels.cast(pl.Enum(alphabet)).to_physical().cast(pl.Int32).to_numpy()
    lengths = np.diff(log.offsets)
    of_case = np.empty(len(lengths), np.int64)
    found: list[Ints32] = []
    counts: list[Ints] = []
    sizes: list[Ints] = []
    total = 0
    for length in np.unique(lengths):
        cases = np.flatnonzero(lengths == length)
        # Rows of the events, one line a case: its first row, the next one, ...
        event_rows = log.offsets[cases][:, None] + np.arange(length)
        matrix = np.ascontiguousarray(codes[event_rows])
        distinct, inverse, count = _distinct_rows(matrix)
        of_case[cases] = total + inverse
        found.append(distinct)
        counts.append(count)
        total += len(count)
        sizes.append(np.full(len(count), length))
    return Variants(
        alphabet=tuple(alphabet.to_list()),
        # An empty array in front, as a log without cases has nothing to join.
        codes=np.concatenate([np.zeros(0, np.int32), *(rows.ravel() for rows in found)]),
        offsets=offsets_of(np.concatenate([np.zeros(0, np.int64), *sizes])),
        counts=np.concatenate([np.zeros(0, np.int64), *counts]),
        of_case=of_case,
    )


def _distinct_rows(
    matrix: Ints32,
) -> tuple[Ints32, Ints, Ints]:
    """Distinct rows, the index of each row among them, and how often each occurs."""
    if matrix.shape[1] == 0:
        # A row of no bytes is no value to sort by; all such rows are alike.
        return matrix[:1], np.zeros(len(matrix), np.int64), np.array([len(matrix)])
    # Each row as one value of so many bytes, which sorts faster than a row of columns.
    row_type = np.dtype((np.void, matrix.dtype.itemsize * matrix.shape[1]))
    rows = matrix.view(row_type).ravel()
    _, first, inverse, count = np.unique(
        rows,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    return matrix[first], inverse.astype(np.int64).ravel(), count


@frozen
class CasesOfVariants:
    """So many cases of each of some variants, one variant after another; none of them made yet.

    ``labels``: String, the variants end to end; variant v is ``offsets[v]:offsets[v + 1]`` (int64,
    shape (variants + 1,)). ``cases_before`` and ``events_before``: int64, shape (variants + 1,);
    how many cases, and events, those before each variant have, and last all of them. ``stride``:
    from one case to the next, so many places on in that order, and from its end on at its begin.
    """

    labels: pl.Series
    offsets: Ints
    cases_before: Ints
    events_before: Ints
    stride: int = 1

    @classmethod
    def of(cls, variants: Sequence[tuple[str, ...]], cases: Ints) -> "CasesOfVariants":
        """``cases[i]`` cases of ``variants[i]``; none where the number is below 1."""
        times = np.maximum(np.asarray(cases, np.int64), 0)
        lengths = np.fromiter(map(len, variants), np.int64, len(variants))
        labels = pl.Series(list(chain.from_iterable(variants)), dtype=pl.String)
        return cls(
            labels,
            offsets_of(lengths),
            offsets_of(times),
            offsets_of(lengths * times),
        )

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        return int(self.cases_before[-1])

    @property
    def event_count(self) -> int:
        """How many events they have."""
        return int(self.events_before[-1])

    def events_until(self, case: int) -> int:
        """How many events the first ``case`` cases have; about, where they are spread."""
        if self.stride > 1:
            return self.event_count * case // self.case_count
        variant = int(np.searchsorted(self.cases_before, case, side="right")) - 1
        # Behind all cases, it is the last variant that counts.
        variant = min(variant, len(self.cases_before) - 2)
        if variant < 0:
            return 0
        length = self.offsets[variant + 1] - self.offsets[variant]
        return int(self.events_before[variant] + (case - self.cases_before[variant]) * length)

    def offsets_of_cases(self) -> Ints:
        """Where the events of each case begin, and last where they end: int64, shape
        (cases + 1,).
        """
        return offsets_of(np.repeat(np.diff(self.offsets), np.diff(self.cases_before)))

    def spread(self) -> "CasesOfVariants":
        """The same cases, such that those of any range are about as all are: a stride near the
        golden section leaves no variant out for long (Knuth 1998, 6.4, theorem S).
        """
        stride = int(self.case_count * (math.sqrt(5) - 1) / 2)
        while math.gcd(stride, self.case_count) > 1:
            stride += 1
        return replace(self, stride=max(stride, 1))

    def made(self, first: int, behind: int) -> EventLog:
        """The cases from ``first`` on, before ``behind``, without times or attributes; their ids
        are their numbers.
        """
        place = np.arange(first, behind) * self.stride % max(self.case_count, 1)
        variant = np.searchsorted(self.cases_before, place, side="right") - 1
        lengths = np.diff(self.offsets)[variant]
        offsets = offsets_of(lengths)
        rows = ranges_of(self.offsets[variant], lengths)
        events = self.labels.gather(pl.Series(rows)).alias(ACTIVITY).to_frame()
        ids = pl.int_range(first, behind, eager=True).cast(pl.String).alias(CASE_ID).to_frame()
        return EventLog(
            events,
            ids,
            offsets,
            case_index=np.arange(first, behind),
        )


def log_of_variants(variants: Sequence[tuple[str, ...]], cases: Ints) -> EventLog:
    """``cases[i]`` cases of ``variants[i]`` as one log, numbered, without times or attributes; none
    where the number is below 1.
    """
    made = CasesOfVariants.of(variants, cases)
    return replace(made.made(0, made.case_count), case_index=None)


Metric = Literal["levenshtein", "indel"]
"""Single edits: insertion, deletion and substitution of an event; ``indel`` counts a substitution
as two edits.
"""

_FIRST_SURROGATE: Final = 0xD800
_NUMBER_OF_SURROGATES: Final = 0x800
MOST_EVENTS: Final = 16_383
"""Events of the longest case whose distance to any other fits 16 bits."""


@frozen
class CodedSequences:
    """Sequences of labels over one sorted alphabet.

    ``texts[i]`` holds one character for each label of sequence ``i``; comparing texts compares the
    sequences lexicographically by label. Alphabets of up to 1.1 million labels fit.
    """

    alphabet: tuple[str, ...]
    texts: tuple[str, ...]


def encode_sequences(sequences: pl.Series) -> CodedSequences:
    """Code ``sequences`` (List[String], no null labels) over the alphabet of all labels that occur
    in them.
    """
    # A sequence without labels explodes to a null.
    labels = sequences.explode().drop_nulls()
    labels_in_order = labels.unique().sort()
    alphabet = tuple(labels_in_order.to_list())
    position = labels.cast(pl.Enum(labels_in_order)).to_physical().to_numpy().astype(np.uint32)
    # All texts as one, cut where sequences end: much faster than a join for each.
    characters = positions_to_codes(position).astype("<u4").tobytes().decode("utf-32-le")
    borders = [0, *np.cumsum(sequences.list.len().to_numpy()).tolist()]
    texts = tuple(characters[start:end] for start, end in pairwise(borders))
    return CodedSequences(alphabet, texts)


def positions_to_codes(positions: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The code points that stand for the labels at ``positions`` of the alphabet; the surrogates
    are left out.
    """
    behind = positions + np.uint32(_NUMBER_OF_SURROGATES)
    return np.where(positions < _FIRST_SURROGATE, positions, behind)


class EditDistances:
    """Edit distances between coded sequences, found when asked.

    ``texts``: coded sequences.
    """

    def __init__(self, texts: tuple[str, ...], metric: Metric = "levenshtein") -> None:
        self._texts = np.array(texts, dtype=object)
        self.metric = metric

    @cached_property
    def matrix(self) -> NDArray[np.int16]:
        """All of them at once: int16, shape (texts, texts); 2 bytes a pair.

        Raises ``MechanismError`` where a distance might not fit: for a case of more than 16,383
        events.
        """
        from rapidfuzz import process

        texts = list(self._texts)
        if max(map(len, texts), default=0) > MOST_EVENTS:
            raise MechanismError(
                "edit distances",
                f"a case has more than {MOST_EVENTS:,} events; "
                "'assume: {longest_case: ...}' cuts such cases",
            )
        return np.asarray(
            process.cdist(
                texts,
                texts,
                scorer=self._scorer(),
                dtype=np.int16,
                workers=-1,
            )
        )

    def pairs(self, sources: Ints, targets: Ints) -> Ints:
        """The distance of each source to the target beside it: int64, shape (pairs,)."""
        from rapidfuzz import process

        if not len(sources):
            return np.zeros(0, np.int64)
        left = list(self._texts[sources])
        right = list(self._texts[targets])
        distances = process.cpdist(
            left,
            right,
            scorer=self._scorer(),
            dtype=np.int32,
        )
        return np.asarray(distances, np.int64)

    def between(self, sources: Ints, targets: Ints) -> Ints:
        """The distance of each source to each target: int64, shape (sources, targets)."""
        from rapidfuzz import process

        # A text of a million symbols is compared with itself for half a minute.
        if max(map(len, self._texts[sources]), default=0) > MOST_EVENTS:
            found = np.zeros((len(sources), len(targets)), np.int64)
            of_source, of_target = np.nonzero(sources[:, None] != targets)
            others = self.pairs(sources[of_source], targets[of_target])
            found[of_source, of_target] = others
            return found
        distances = process.cdist(
            self._texts[sources],
            self._texts[targets],
            scorer=self._scorer(),
            dtype=np.int32,
        )
        return np.asarray(distances, np.int64)

    def _scorer(self) -> Any:
        from rapidfuzz.distance import Indel, Levenshtein

        return Levenshtein.distance if self.metric == "levenshtein" else Indel.distance
