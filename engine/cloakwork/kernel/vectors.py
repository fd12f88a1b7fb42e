"""Vectors of cases, bounded whatever the query does, and their sums.

A case's entries are added up by key, the first ``cells`` keys are kept, and the vector is scaled
down to the clip where it is longer, each value rounded towards zero (``privacy.md`` 9: rounding to
the nearest after clipping can raise the norm).

**Sampled clips.** Of a vector that is too long a few units are drawn at random instead, by the case
for itself: what one case draws does not depend on any other. So, whatever all draws are, a unit
moves the sum by its cases times the clip, as with any other clip; the draws' distribution is the
same for all neighbours, so a mechanism that is (epsilon, delta)-DP for each outcome of them is so
on the whole.
"""

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from cloakwork.base.arrays import (
    Bools,
    Ints,
    begins_of,
    distinct,
    group_sums,
    grouped,
    offsets_of,
    owners_of,
    place_in_run,
)
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.frozen import frozen
from cloakwork.kernel.cases import ASKED_AGAIN, DIFFERS, Cases, Entries, Query, Silently
from cloakwork.noise import Noise

MOST: Final = 1 << 24
"""Grid steps: no value of a vector is larger, so that sums of squares stay within int64."""

MOST_LABELS: Final = 1 << 20
"""Labels in the keys of one case, all together: keys beyond are left out, silently."""

MOST_BYTES: Final = 1 << 28
"""Bytes of these labels, each time that one occurs: as for ``MOST_LABELS``. A file may hold a long
text once, and a case may have it many times.
"""

MOST_CELLS: Final = 1 << 14


@frozen
class Clip:
    """What bounds a case's vector, in grid steps.

    ``norm``: ``l1`` the sum of the sizes of its values, ``l2`` their Euclidean norm, ``max`` the
    largest of them. ``most``: what the norm is clipped to. ``cells``: how many keys it may have.
    ``sampled``: of a vector that has too much, a few units are drawn at random instead
    (``sampled_sums``): ``most`` where sizes are summed, ``cells`` where each is at most 1.
    ``replaced``: the case is in both of two neighbours, with other values. No value of its vector
    is below 0 then (one that is counts as 0), unless the vector is ``signed``.
    """

    norm: Literal["l1", "l2", "max"]
    most: int
    cells: int
    sampled: bool = False
    signed: bool = False
    replaced: bool = False

    def __post_init__(self) -> None:
        if self.norm not in ("l1", "l2", "max"):
            raise ValueError(f"a clip is in norm l1, l2 or max, not {self.norm}")
        if not (1 <= self.most <= MOST and 1 <= self.cells <= MOST_CELLS):
            raise ValueError(f"a clip lies between 1 and {MOST:,}, in 1 to {MOST_CELLS:,} cells")
        fits = {"l1": self.cells >= self.most, "l2": False, "max": self.most == 1}
        if self.sampled and (self.replaced or not fits[self.norm]):
            raise ValueError("units are drawn of l1 vectors with a cell each, or of values up to 1")

    @property
    def moved(self) -> int:
        """By how much one case moves a sum at most (L2; where the norm is ``max``, each value).

        Two vectors x and y without values below 0 differ by |x - y|^2 <= |x|^2 + |y|^2, since no
        x_i y_i is negative: by at most the root of 2 times the clip, rounded up here. Others differ
        by at most 2 times the clip.
        """
        if not self.replaced:
            return self.most
        if self.signed:
            return 2 * self.most
        return self.most if self.norm == "max" else math.isqrt(2 * self.most**2 - 1) + 1

    @property
    def moved_cells(self) -> int:
        """In how many keys at most: those of both vectors, where one is replaced by another."""
        # Values are integers: no more of them than the sum of their sizes.
        cells = min(self.cells, self.most) if self.norm == "l1" else self.cells
        return 2 * cells if self.replaced else cells

    @property
    def units(self) -> int:
        """How many units are drawn of a vector, where they are."""
        return self.most if self.norm == "l1" else self.cells


ONE: Final = Clip("l1", 1, 1)
"""One case counts for one, at one key."""

_SHORT: Final = 4
"""Labels of the longest runs that are compared label by label."""

Keys = list[bytes]
"""Keys as bytes, each of one spelling: a code in eight bytes, and labels with their lengths."""


@frozen
class Sums:
    """Sums over all cases: ``keys``, ascending, and the sum of each, int64. Either numbers alone,
    or numbers with labels.
    """

    keys: Keys | Ints
    sums: Ints

    def at(self, codes: Ints) -> Ints:
        """The sums at keys that are numbers alone, 0 where no case has one: int64."""
        if not isinstance(self.keys, np.ndarray):
            return self.at_spelled([key_of(code, ()) for code in codes.tolist()])
        if not len(self.keys):
            return np.zeros(codes.shape, np.int64)
        place = np.minimum(np.searchsorted(self.keys, codes), len(self.keys) - 1)
        return np.where(
            self.keys[place] == codes,
            self.sums[place],
            0,
        )

    def at_spelled(self, keys: Keys) -> Ints:
        """The sums at keys as bytes, 0 where no case has one: int64."""
        if isinstance(self.keys, np.ndarray):
            return np.zeros(len(keys), np.int64)
        place = {key: row for row, key in enumerate(self.keys)}
        return np.array([self.sums[place[key]] if key in place else 0 for key in keys], np.int64)

    def at_rows(self, rows: Ints) -> tuple[Ints, tuple[tuple[str, ...], ...]]:
        """The number and the labels of each of the keys at ``rows``."""
        if isinstance(self.keys, np.ndarray):
            return self.keys[rows], ((),) * len(rows)
        spelled = [parts_of(self.keys[row]) for row in rows.tolist()]
        codes = np.array([code for code, _ in spelled], np.int64)
        return codes, tuple(labels for _, labels in spelled)


def added_up(batches: Sequence[Sums]) -> Sums:
    """The sums of several batches, added up by key."""
    numbers = [batch.keys for batch in batches if isinstance(batch.keys, np.ndarray)]
    sums = np.concatenate([batch.sums for batch in batches])
    keys: Keys | Ints
    if len(numbers) == len(batches):
        keys, place = np.unique(np.concatenate(numbers), return_inverse=True)
    else:
        spelled: Keys = []
        for batch in batches:
            if isinstance(batch.keys, np.ndarray):
                spelled += [key_of(key, ()) for key in batch.keys.tolist()]
            else:
                spelled += batch.keys
        keys = sorted(set(spelled))
        row = {key: each for each, key in enumerate(keys)}
        place = np.array([row[key] for key in spelled], np.int64)
    return Sums(keys, group_sums(place, sums, len(keys)))


@frozen
class Vectors:
    """The bounded vectors of cases: ``case`` and ``key`` (places in ``keys``) of each entry, and
    its ``value``; all int64.
    """

    keys: Keys | Ints
    case: Ints
    key: Ints
    value: Ints

    def sums(self, weight: Ints) -> Sums:
        """The sum of the vectors, that of case i ``weight[i]`` times."""
        counted = self.value * weight[self.case]
        return Sums(self.keys, group_sums(self.key, counted, len(self.keys)))


def vectors_of(
    cases: Cases,
    query: Query,
    clip: Clip,
    labels: str | None = None,
) -> Vectors:
    """What ``query`` finds in each of ``cases``, bounded by ``clip``; whole, where the clip is
    sampled. A case that it fails on has no entry.

    ``labels``: the column whose texts label keys; None: the activities.
    """
    return bounded(
        cases,
        answered(cases, query, labels),
        clip,
        labels,
    )


@frozen
class Answered:
    """The entries of a query that are well-formed, all columns filled in: int64, of one length."""

    case: Ints
    value: Ints
    code: Ints
    start: Ints
    stop: Ints


def answered(
    cases: Cases,
    query: Query,
    labels: str | None = None,
) -> Answered:
    """The query's entries; where it fails on the batch, those of each case by itself.

    A failure is silent, and counts as an empty vector: that it occurred would tell of one case.
    """
    found = _answered(cases, query, labels)
    if isinstance(query, AskedTwice):
        query.require_same(cases, found, labels)
    return found


def _answered(cases: Cases, query: Query, labels: str | None) -> Answered:
    with Silently():
        return _well_formed(cases, query(cases), labels)
    nothing = np.zeros(0, np.int64)
    found = [Answered(nothing, nothing, nothing, nothing, nothing)]
    _, _, offsets = cases.texts(labels)
    for row, first in enumerate(offsets[:-1].tolist()):
        one = cases.take(np.array([row]))
        with Silently():
            own = _well_formed(one, query(one), labels)
            found.append(
                Answered(
                    own.case + row,
                    own.value,
                    own.code,
                    own.start + first,
                    own.stop + first,
                )
            )
    columns = ((each.case, each.value, each.code, each.start, each.stop) for each in found)
    return Answered(*map(np.concatenate, zip(*columns, strict=True)))


@frozen
class AskedTwice:
    """A query of another package, of which nobody knows that a case's vector follows from that case
    alone: it is asked again for a random part of the cases, in another order and batch.
    """

    query: Query
    noise: Noise

    def __call__(self, cases: Cases) -> Entries:
        """As the query."""
        return self.query(cases)

    def require_same(self, cases: Cases, found: Answered, labels: str | None) -> None:
        """Raises PlanUnsound where it finds something else than was ``found``."""
        size = len(cases)
        # Half of them at most, so that it is another batch.
        rows = self.noise.permutation(size)[: min(ASKED_AGAIN, -(-size // 2))]
        part = cases.take(rows)
        again = _answered(part, self.query, labels)
        place = np.full(size, -1)
        place[rows] = np.arange(len(rows))
        before = _by_case(found, cases.texts(labels)[2], place)
        after = _by_case(again, part.texts(labels)[2], np.arange(len(rows)))
        if not np.array_equal(before, after):
            raise PlanUnsound(DIFFERS)


def _by_case(found: Answered, offsets: Ints, place: Ints) -> Ints:
    """Entries of the cases that have a ``place``, by it: what they are, and where in their case."""
    case = place[found.case]
    length = found.stop - found.start
    # Where there is no run, ``start`` says nothing.
    begin = np.where(length > 0, found.start - offsets[found.case], 0)
    columns = [case, found.value, found.code, begin, length]
    kept = np.flatnonzero(case >= 0)
    order = kept[np.argsort(case[kept], kind="stable")]
    return np.array(columns)[:, order]


def _well_formed(
    cases: Cases,
    found: Entries,
    labels: str | None,
) -> Answered:
    """Only entries whose run lies in their own case, and has no missing label."""
    case = np.asarray(found.case)
    value = found.value
    if not (isinstance(value, np.ndarray) and value.dtype == np.int64):
        size = np.nan_to_num(np.asarray(value, np.float64), posinf=MOST, neginf=-MOST)
        # Towards zero: never to more than the query said.
        value = np.trunc(np.clip(size, -MOST, MOST)).astype(np.int64)
    value = np.clip(value, -MOST, MOST)
    columns = [case, value]
    for column in (found.code, found.start, found.stop):
        columns.append(np.zeros(len(case), np.int64) if column is None else np.asarray(column))
    if any(column.shape != case.shape or column.dtype.kind != "i" for column in columns):
        raise ValueError("a query returns columns of integers, all of one length")
    case, value, code, start, stop = (column.astype(np.int64, copy=False) for column in columns)
    is_case = (case >= 0) & (case < len(cases))
    has_run = start < stop
    if is_case.all() and not has_run.any():
        nothing = np.zeros_like(case)
        return Answered(case, value, code, nothing, nothing)
    row = np.where(is_case, case, 0)
    alphabet, texts, offsets = cases.texts(labels)
    own = np.zeros(len(case), np.bool_)
    if len(cases):
        own = (start >= offsets[row]) & (stop <= offsets[row + 1])
    good = is_case & (~has_run | own)
    if labels is not None:
        missing = offsets_of(texts < 0)
        inside = np.where(good & has_run, [start, stop], 0)
        good &= missing[inside[0]] == missing[inside[1]]
    # Without a run there are no labels, whatever ``start`` and ``stop`` say.
    start = np.where(has_run, start, 0)
    stop = np.where(has_run, stop, 0)
    good &= _within(
        row,
        np.where(good, stop - start, 0),
        MOST_LABELS,
    )
    if good.any() and has_run.any():
        # The last size is that of what is missing.
        sizes = np.array([*(len(text.encode()) for text in alphabet), 0], np.int64)
        bytes_until = offsets_of(sizes[texts])
        first, last = np.where(good, [start, stop], 0)
        good &= _within(row, bytes_until[last] - bytes_until[first], MOST_BYTES)
    return Answered(
        case[good],
        value[good],
        code[good],
        start[good],
        stop[good],
    )


def _within(
    case: Ints,
    amount: Ints,
    most: int,
) -> Bools:
    """Entries up to the one with which ``amount`` adds up to more than ``most`` in its case."""
    # Sums that run over the entries of each case.
    order, _ = grouped(case)
    total = np.cumsum(amount[order])
    first = np.arange(len(case)) - place_in_run(case[order])
    in_case = total - (total - amount[order])[first]
    within = np.empty(len(case), np.bool_)
    within[order] = in_case <= most
    return within


def bounded(
    cases: Cases,
    found: Answered,
    clip: Clip,
    labels: str | None = None,
) -> Vectors:
    """The vectors of ``found``, each within ``clip``."""
    # Keys of all cases at once, then vector by vector.
    keys, key = _keys_of(cases, found, labels)
    case, key, value, first = _added_up(found.case, key, found.value)
    has_many = len(keys) > clip.cells and bool((place_in_run(case) >= clip.cells).any())
    # Which of many keys are kept, or drawn, the order says in which the query named them.
    if clip.sampled or has_many:
        named, _ = grouped(case, first)
        key = key[named]
        value = value[named]
    if clip.replaced and not clip.signed:
        value = np.maximum(value, 0)
    if clip.sampled:
        # What is drawn is drawn by each case for itself, so it is none of the distinct cases'.
        most = clip.most if clip.norm == "max" else MOST
        return Vectors(
            keys,
            case,
            key,
            np.clip(value, -most, most),
        )
    if has_many:
        kept = place_in_run(case) < clip.cells
        case = case[kept]
        key = key[kept]
        value = value[kept]
    return Vectors(
        keys,
        case,
        key,
        _clipped(case, value, clip),
    )


def _added_up(
    case: Ints,
    key: Ints,
    value: Ints,
) -> tuple[Ints, Ints, Ints, Ints]:
    """One entry a case and key, by both; and the row of the first one of each."""
    order, begins = grouped(case, key)
    first = order[begins]
    total = np.clip(np.add.reduceat(value[order], begins), -MOST, MOST)
    return case[first], key[first], total, first


def _clipped(
    case: Ints,
    value: Ints,
    clip: Clip,
) -> Ints:
    """The values (by case, ascending), scaled down where their vector is longer than the clip."""
    if clip.norm == "max":
        return np.clip(value, -clip.most, clip.most)
    if not len(case):
        return value
    begins = begins_of(case)
    lengths = np.diff(begins, append=len(case))
    size = np.abs(value)
    if clip.norm == "l1":
        total = np.repeat(np.add.reduceat(size, begins), lengths)
        # Integers: at most 2**24 * 2**24, divided rounding down.
        scaled = np.where(
            total > clip.most,
            size * clip.most // np.maximum(total, 1),
            size,
        )
        return np.sign(value) * scaled
    square = np.repeat(np.add.reduceat(size * size, begins), lengths)
    is_long = square > clip.most**2
    root = np.sqrt(np.maximum(square, 1).astype(np.float64))
    scaled = np.where(
        is_long,
        np.floor(size * (clip.most / root)),
        size,
    ).astype(np.int64)
    # Floats may have come out a step too high: integers decide.
    while (too_long := np.add.reduceat(scaled * scaled, begins) > clip.most**2).any():
        scaled = np.where(
            np.repeat(too_long, lengths),
            np.maximum(scaled - 1, 0),
            scaled,
        )
    return np.sign(value) * scaled


def _keys_of(
    cases: Cases,
    found: Answered,
    labels: str | None,
) -> tuple[Keys | Ints, Ints]:
    """The distinct keys, ascending, and the place of each entry's among them."""
    if not (found.start < found.stop).any():
        if found.code.min(initial=0) < 0:
            return np.unique(found.code, return_inverse=True)
        return distinct(found.code)[:2]
    alphabet, codes, _ = cases.texts(labels)
    first, place = _distinct_runs(codes, len(alphabet), found)
    spelled_labels = [_label_bytes(label) for label in alphabet]
    spelled = []
    for row in first.tolist():
        run = codes[found.start[row] : found.stop[row]].tolist()
        spelled.append(
            key_of(int(found.code[row]), ()) + b"".join(spelled_labels[each] for each in run)
        )
    order = sorted(range(len(spelled)), key=spelled.__getitem__)
    # Sorting an order gives the place of each.
    return [spelled[each] for each in order], np.argsort(order)[place]


def _distinct_runs(
    labels: Ints,
    alphabet: int,
    found: Answered,
) -> tuple[Ints, Ints]:
    """The first entry of each distinct number and run of ``labels`` (from 0 to ``alphabet`` - 1),
    and for each entry which of these it has.
    """
    longest = int((found.stop - found.start).max(initial=0))
    if longest > _SHORT:
        codes = labels.tolist()
        runs = zip(
            found.code.tolist(),
            found.start.tolist(),
            found.stop.tolist(),
            strict=True,
        )
        seen: dict[tuple[int, ...], int] = {}
        place = [seen.setdefault((code, *codes[begin:end]), len(seen)) for code, begin, end in runs]
        return np.unique(np.array(place, np.int64), return_index=True)[1], np.array(place, np.int64)
    # Label by label: runs are equal so far where the numbers of what came before are.
    key = found.code
    for step in range(longest):
        _, key = np.unique(key, return_inverse=True)
        event = found.start + step
        label = labels[np.minimum(event, len(labels) - 1)]
        key = key * (alphabet + 1) + np.where(event < found.stop, label + 1, 0)
    _, first, place_of_run = np.unique(key, return_index=True, return_inverse=True)
    return first, place_of_run


def key_of(code: int, labels: tuple[str, ...]) -> bytes:
    """A key as bytes: no two keys have the same."""
    return code.to_bytes(8, "big", signed=True) + b"".join(map(_label_bytes, labels))


def parts_of(key: bytes) -> tuple[int, tuple[str, ...]]:
    """The code and the labels that ``key_of`` spelled."""
    code = int.from_bytes(key[:8], "big", signed=True)
    rest = key[8:]
    labels = []
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        labels.append(rest[4:end].decode())
        rest = rest[end:]
    return code, tuple(labels)


def _label_bytes(label: str) -> bytes:
    text = label.encode()
    return len(text).to_bytes(4, "big") + text


_DRAWS: Final = 1 << 20
"""Units that are drawn at a time."""


def sampled_sums(
    vectors: Vectors,
    clip: Clip,
    weight: Ints,
    noise: Noise,
) -> Sums:
    """The sum of the vectors, that of case i ``weight[i]`` times, where of a vector of more units
    than the clip allows so many are drawn, without replacement, each time anew.

    A value of v stands for |v| units. Time is linear in the units drawn; vectors that are short
    enough need no draw.
    """
    most = clip.units
    size = np.abs(vectors.value)
    units = group_sums(vectors.case, size, len(weight))
    is_long = (units > most)[vectors.case]
    counted = size * weight[vectors.case]
    counted[is_long] = _kept(
        vectors.case[is_long],
        size[is_long],
        most,
        weight,
        noise,
    )
    counted *= np.sign(vectors.value)
    return Sums(vectors.keys, group_sums(vectors.key, counted, len(vectors.keys)))


def _kept(
    case: Ints,
    size: Ints,
    most: int,
    weight: Ints,
    noise: Noise,
) -> Ints:
    """How many units of each entry are kept in all: of ``size``'s shape; ``case`` ascends."""
    rows, first = np.unique(case, return_index=True)
    ends = np.cumsum(size)
    begins = (ends - size)[first]
    units = np.diff(np.append(begins, size.sum()))
    # What is dropped is as random as what is kept: the fewer are drawn.
    drawn = np.minimum(most, units - most)
    hits = np.zeros(len(size), np.int64)
    owner = owners_of(weight[rows])
    chunk = max(1, _DRAWS // most)
    for start in range(0, len(owner), chunk):
        own = owner[start : start + chunk]
        place = _distinct(units[own], drawn[own], noise)
        at = np.repeat(begins[own], drawn[own]) + place
        hits += np.bincount(np.searchsorted(ends, at, side="right"), minlength=len(size))
    is_kept = np.repeat(most <= units - most, np.diff(np.append(first, len(size))))
    return np.where(is_kept, hits, size * weight[case] - hits)


def _distinct(
    below: Ints,
    many: Ints,
    noise: Noise,
) -> Ints:
    """For each i a uniformly random set of ``many[i]`` integers in [0, ``below[i]``): int64, one
    set after the other.

    What was drawn before is drawn again. No integer is treated otherwise than another, so all sets
    of this size are equally likely.
    """
    begins = np.cumsum(below) - below
    chosen = np.zeros(0, np.int64)
    lacking = many
    while lacking.any():
        row = owners_of(lacking)
        drawn = np.sort(begins[row] + noise.uniform(below[row]))
        drawn = drawn[np.diff(drawn, prepend=-1) != 0]
        place = np.minimum(np.searchsorted(chosen, drawn), max(0, len(chosen) - 1))
        new = drawn[chosen[place] != drawn] if len(chosen) else drawn
        # Two ascending runs: a stable sort merges them.
        chosen = np.sort(np.concatenate([chosen, new]), kind="stable")
        found = np.searchsorted(begins, new, side="right") - 1
        lacking = lacking - np.bincount(found, minlength=len(below))
    return chosen - np.repeat(begins, many)
