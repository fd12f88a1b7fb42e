"""Which released case is whose: a release does not tell, so what is known of it is a distribution.

A release has fresh case ids in random order. Whoever holds the source as well can say how likely
each released case is to be the one made from a case of the source: by how often each activity
sequence occurs before and after, and by how far times lie apart. The noise on times is fitted to
the two logs, so that a release of any tool can be looked at, and nothing is taken from its plan.

The chance that an attacker's guess is right is the probability of the case that he guesses. It is
right on average wherever the distribution is; ``benchmarks/risk`` compares it with releases whose
true links are known.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
from rapidfuzz.distance import LCSseq, Levenshtein
from rapidfuzz.process import cdist
from scipy.optimize import isotonic_regression

from cloakwork.base.arrays import Floats, Ints, offsets_of
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.coded import CodedLog, code_cases
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.steps import NoiseOnTimesStep
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.run.run import granted
from cloakwork.run.steps import GrantedStep

PER_EDIT: Final = 2.0
"""By how much, in logarithms, a sequence of one more edit is less likely to be what a sequence that
is no longer there became."""
NEAREST: Final = 40
"""Sequences that one which is no longer there may have become."""
_LOOKED_AT: Final = 30
_KEPT: Final = 0.999
"""How likely a value that is kept is the same in both logs."""
_MANY: Final = 20_000
_FITTED: Final = 120
_SIMULATED: Final = 400
_SCALES: Final = (1e3 * 2.0 ** np.arange(40)).tolist()
"""Microseconds: 1 ms to 17,000 years."""
_SHARPNESS: Final = (0.01, 4.0)
_HALVINGS: Final = 6
_REMEMBERED: Final = 4_000_000
"""Pairs of cases whose likelihood is remembered: 64 MB."""
_ALIGNED: Final = 50_000
"""Pairs of sequences of which it is remembered what they have in common: about 30 MB."""
_MICROSECOND: Final = 1e-6


class Scales(NamedTuple):
    """How far times moved, as scales of Laplace noise in microseconds.

    ``start``: of a case's first time. ``gap``: of the time from one event to the next. Where each
    time moved by itself, ``gap`` is None and ``start`` is the scale of every one.
    """

    start: float
    gap: float | None = None

    def moved(self, times: Ints, noise: np.random.Generator) -> Floats:
        """The times of a case with such noise, and in order again."""
        if self.gap is None:
            after = times + noise.laplace(0, self.start, len(times))
        else:
            gaps = np.diff(times) + noise.laplace(0, self.gap, len(times) - 1)
            first = times[0] + noise.laplace(0, self.start)
            after = np.concatenate([[first], first + np.cumsum(gaps)])
        # Isotonic regression: in order again with the least change, in squares.
        return np.asarray(isotonic_regression(after).x)


class Moved(NamedTuple):
    """How far the times of some cases lie from those of one: for each case the number of times
    compared, the summed distances, the distance of the first, and the summed distances of the gaps,
    in microseconds.
    """

    times: Ints
    apart: Floats
    first: Floats
    gaps: Floats

    def log_likelihood(self, scales: Scales, span: float) -> Floats:
        """The logarithm of how likely each case is, beside times that lie anywhere in ``span``."""
        # The Laplace density of each time, over the even one of a time anywhere in the span.
        start = np.log(span / (2 * scales.start))
        if scales.gap is None:
            return np.asarray(self.times * start - self.apart / scales.start)
        gaps = np.maximum(self.times - 1, 0) * np.log(span / (2 * scales.gap))
        norm = np.minimum(self.times, 1) * start + gaps
        return np.asarray(norm - self.first / scales.start - self.gaps / scales.gap)


class Beside(NamedTuple):
    """Cases beside any one of a sequence of the other log: of each how many times are compared
    (``numbers``); and of all, one after the other, these (``times``), and with which time of that
    one (``places``).
    """

    numbers: Ints
    times: Ints
    places: Ints

    @classmethod
    def of(cls, log: CodedLog, aligned: dict[int, tuple[Ints, Ints]]) -> "Beside":
        """All cases of some variants of ``log``, in their order. ``aligned``: for each of these
        which events of the sequence, and which of its own, are compared.
        """
        numbers = []
        times = []
        places = []
        for variant, (ours, theirs) in aligned.items():
            cases = log.cases_of[variant]
            numbers.append(np.full(len(cases), len(ours)))
            times.append(log.clock[log.offsets[cases][:, None] + theirs].ravel())
            places.append(np.tile(ours, len(cases)))
        return cls(*map(np.concatenate, (numbers, times, places)))

    def moved(self, times: Ints) -> Moved:
        """How far the times of each case lie from ``times``, shape (times,)."""
        ends = np.cumsum(self.numbers)
        begins, is_compared = ends - self.numbers, self.numbers > 0
        # The 0 behind all of them stands for none at the end.
        apart = np.append(self.times - times[self.places], 0).astype(np.float64)
        gaps = np.abs(np.diff(apart, append=0))
        # From the last time of a case to the first of the next there is no gap.
        gaps[ends[is_compared] - 1] = 0
        found = np.abs(apart)
        # For no times ``reduceat`` gives what comes next.
        return Moved(
            self.numbers,
            np.add.reduceat(found, begins) * is_compared,
            found[begins] * is_compared,
            np.add.reduceat(gaps, begins) * is_compared,
        )


class PossibleCases(NamedTuple):
    """The released cases that may be a case of the source.

    ``prior``: the logarithm of each one's probability before times are looked at. ``beside``: their
    times; None where times tell nothing.
    """

    cases: Ints
    prior: Floats
    beside: Beside | None


class Became(NamedTuple):
    """What a sequence of the source may have become: rows of released sequences, each with its
    probability, and the probability of none.
    """

    rows: list[tuple[int, float]]
    absent: float


@dataclass
class Links:
    """For a case of ``source``, which case of ``released`` is likely to be the same; both coded by
    one alphabet. Where ``source`` and ``released`` are samples of logs in batches (``whole``), the
    cases of these are meant.

    ``scales`` and ``rehearse``: how far the plan moves times, and the times of a log under such
    noise, if they are known. ``kept_values``: attributes that cases keep, coded alike, of both
    logs: int64, shape (cases, attributes). ``times_are_drawn``: for every event anew, so that they
    tell of no case whose it is. ``looked_for``: at most so many cases decide how far times moved.
    """

    source: CodedLog
    released: CodedLog
    seed: int
    scales: Scales | None = None
    rehearse: Callable[[CodedLog], Ints | None] | None = None
    kept_values: tuple[Ints, Ints] | None = None
    times_are_drawn: bool = False
    looked_for: int = _SIMULATED
    sharpness: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        # Caches of this object alone, which go when it goes.
        self.aligned = lru_cache(_ALIGNED)(self._aligned)
        self._became = cache(self._find_became)
        self._edits = cache(self._find_edits)
        self._claims: dict[int, float] = {}
        self._origins: dict[int, list[tuple[int, float]]] = {}
        self._kept_terms: dict[int, tuple[Floats, Floats]] = {}
        self._kept_numbers = 0
        # Of the released sequence that was asked about last.
        self._may_become: dict[int, PossibleCases] = {}
        # Of each sequence of the source, how many cases are there in the release, too; of each of
        # the release, how many are more than that; and how likely one that is gone is left out.
        self._row = {sequence: row for row, sequence in enumerate(self.released.sequences)}
        # A row of -1 picks the 0 that is appended: no case of such a sequence is released.
        rows = [self._row.get(sequence, -1) for sequence in self.source.sequences]
        self._same = np.minimum(np.append(self.released.sizes, 0)[rows], self.source.sizes)
        kept = np.bincount(np.maximum(rows, 0), self._same, len(self.released.sizes))
        self._extra = self.released.sizes - kept
        # Of cases whose sequence is gone, as many are left out as the release has fewer cases.
        lost = int((self.source.sizes - self._same).sum())
        missing = max(0, int(self.source.sizes.sum() - self.released.sizes.sum()))
        self._absent = min(1.0, missing / max(1, lost))
        if self.has_times:
            span = int(np.ptp(self.source.clock)) + int(np.ptp(self.released.clock))
            self._span = float(max(span, 1))

    def fit(self) -> None:
        """Find how far times moved, unless it is known, and how sharply that tells cases apart."""
        if self.has_times and self.times_are_drawn:
            self.scales, self.sharpness = Scales(self._span), 0.0
        elif self.has_times:
            if self.scales is None:
                reverse = Links(self.released, self.source, self.seed, looked_for=self.looked_for)
                self.scales = self._most_likely([*self._sampled(), *reverse._sampled()])
            self.sharpness = self._calibrated(self.scales)
        if self.has_times or self.kept_values is not None:
            self.note_origins()

    def by_flow(self) -> "Links":
        """The same by sequences and times alone, whatever values cases keep."""
        if self.kept_values is None:
            return self
        alone = replace(self, kept_values=None)
        alone.sharpness = self.sharpness
        if self.has_times:
            alone.note_origins()
        return alone

    def note_origins(self) -> None:
        """Find the variants of the source that each released sequence may come from."""
        # A variant of all of a log may have no case in a part of it.
        for variant in np.flatnonzero(self.source.sizes).tolist():
            for row, share in self._became(variant).rows:
                self._origins.setdefault(row, []).append((variant, share))

    @property
    def has_times(self) -> bool:
        """Whether both logs have times."""
        return self.source.times is not None and self.released.times is not None

    def posterior(self, case: int) -> Floats:
        """How likely each released case is to be ``case``: shape (released cases,), a sum of at
        most 1; what is missing to 1 is that none is.
        """
        weights, sought = self._weights(case), self._sought(case)
        sought.weigh(weights, 0)
        sought.share_out(np.array([self._claim_on(each) for each in sought.numbers.tolist()]))
        return sought.posterior(weights, 0)

    def posteriors(self, cases: Sequence[int]) -> Iterator[tuple[int, CodedLog, Floats]]:
        """Each of ``cases`` with each part of the release, and how likely each case of the part is
        to be it: the same as ``posterior``, where log and release are in batches.
        """
        if self.released.whole is None:
            yield from ((case, self.released, self.posterior(case)) for case in cases)
            return
        sought = {case: self._sought(case) for case in cases}
        told = {}
        for first, part in self.released.numbered_parts("weighing released cases"):
            here = self._of_parts(self.source, part)
            for case, each in sought.items():
                each.weigh(here._weights(case), first)
            # More are kept for a while than weigh most in the end.
            found = _heaviest(sought.values())
            if self._origins:
                for number in found[inside(found, first, part.cases)].tolist():
                    told[number] = part.told(number - first)
        asked = _heaviest(sought.values())
        claims = np.zeros(len(asked))
        # Others of the log may have become the same cases.
        if told:
            heaviest = self.released.with_cases([told[number] for number in asked.tolist()])
            claims -= np.inf
            # One sequence after the other: its cases may come from the same ones.
            order = np.argsort(heaviest.variant)
            for _, part in self.source.numbered_parts("sharing them out among the log's"):
                here = self._of_parts(part, heaviest)
                more = [here._claim_on(row) for row in order.tolist()]
                claims[order] = np.logaddexp(claims[order], more)
        for each in sought.values():
            each.share_out(claims[np.searchsorted(asked, each.numbers)])
        for first, part in self.released.numbered_parts("looking at released cases"):
            here = self._of_parts(self.source, part)
            for case, each in sought.items():
                yield case, part, each.posterior(here._weights(case), first)

    def _of_parts(self, source: CodedLog, released: CodedLog) -> "Links":
        """The same for parts of the two logs. Of these nothing is asked twice, nor remembered."""
        part = copy(self)
        part.source, part.released = source, released
        part._claims, part._kept_terms, part._kept_numbers = {}, {}, _REMEMBERED
        part._may_become = {}
        return part

    def _sought(self, case: int) -> "Sought":
        # Of very many cases fewer are looked at in full.
        most = _LOOKED_AT if self.source.sizes.sum() <= _MANY else _LOOKED_AT // 6
        return Sought(most, self._became(int(self.source.variant[case])).absent)

    def _weights(self, case: int) -> Floats:
        """How likely each released case is under ``case`` alone, as logarithms."""
        weights = np.full(self.released.cases, -np.inf)
        found = self.candidates(case)
        weights[found.cases] = found.prior + self._agreement(found.cases, case)
        if found.beside is not None and self.scales is not None:
            moved = found.beside.moved(self.source.times_of(case))
            weights[found.cases] += self.sharpness * self._likelihood(moved)
        return weights

    def candidates(self, case: int) -> PossibleCases:
        """The released cases that ``case`` may have become."""
        variant = int(self.source.variant[case])
        sizes = self.released.sizes
        rows = [(row, share / sizes[row]) for row, share in self._became(variant).rows]
        return self._possible(self.released, rows, lambda row: self.aligned(variant, row))

    def _possible(
        self,
        log: CodedLog,
        variants: Sequence[tuple[int, float]],
        aligned: Callable[[int], tuple[Ints, Ints]],
    ) -> PossibleCases:
        """The cases of ``log`` that may be one of a sequence of the other log. ``variants``: of
        these they are, each with its probability. ``aligned``: which events the sequence has in
        common with one of a variant.
        """
        # A part of a log has no cases of most variants.
        there = [each for each in variants if len(log.cases_of[each[0]])]
        if not there:
            return PossibleCases(np.zeros(0, np.int64), np.zeros(0), None)
        cases = [log.cases_of[row] for row, _ in there]
        prior = np.repeat(np.log([share for _, share in there]), [len(each) for each in cases])
        beside = None
        # Times that were drawn anew tell nothing.
        if self.has_times and not self.times_are_drawn:
            beside = Beside.of(log, {row: aligned(row) for row, _ in there})
        return PossibleCases(np.concatenate(cases), prior, beside)

    def _claim_on(self, case: int) -> float:
        """The logarithm of how likely a released case is under all cases of the source."""
        if not self._origins:
            return 0.0
        # Where neither times nor values tell cases apart, those of a sequence are alike.
        if self.times_are_drawn and self.kept_values is None:
            case = int(self.released.cases_of[self.released.variant[case]][0])
        if case not in self._claims:
            prior, times = self._terms_of(case)
            self._claims[case] = _log_of_sum(prior + self.sharpness * times)
        return self._claims[case]

    def _agreement(self, released: Ints | int, source: Ints | int) -> Floats | float:
        """How much likelier the values that cases keep make each pair, as logarithms."""
        if self.kept_values is None:
            return 0.0
        before, after = self.kept_values
        # An equal value makes a pair likelier the rarer it is; another one nearly rules it out.
        equal = before[source] == after[released]
        kept = np.log(_KEPT * self._rarity[released] + 1 - _KEPT)
        return np.asarray(np.where(equal, kept, np.log(1 - _KEPT)).sum(axis=1))

    @cached_property
    def _rarity(self) -> Floats:
        """One by the share of the released cases that have a value, for each value of each."""
        assert self.kept_values is not None  # noqa: S101 - asked only then
        shares = []
        for column in self.kept_values[1].T:
            counts = np.bincount(column)
            shares.append(counts[column] / len(column))
        return 1 / np.stack(shares, axis=1)

    def _terms_of(self, case: int) -> tuple[Floats, Floats]:
        """How likely a released case is under each case of the source that it may be, as
        logarithms: by sequences and kept values, and by times at a sharpness of 1 (0 without
        times). Remembered while they are few, since a calibration asks at several sharpnesses.
        """
        if case in self._kept_terms:
            return self._kept_terms[case]
        row = int(self.released.variant[case])
        if row not in self._may_become:
            found = self._possible(
                self.source,
                self._origins[row],
                lambda variant: self.aligned(variant, row)[::-1],
            )
            self._may_become = {row: found}
        possible = self._may_become[row]
        # It may be any one of the released cases of its sequence.
        prior = possible.prior - np.log(self.released.sizes[row])
        prior = prior + self._agreement(case, possible.cases)
        times = np.zeros(len(prior))
        if possible.beside is not None:
            times = self._likelihood(possible.beside.moved(self.released.times_of(case)))
        self._kept_numbers += len(prior)
        if self._kept_numbers <= _REMEMBERED:
            self._kept_terms[case] = prior, times
        return prior, times

    def _likelihood(self, moved: Moved) -> Floats:
        """The likelihood of times, as a logarithm; ``sharpness`` says how far to rely on it."""
        assert self.scales is not None  # noqa: S101 - found before anything is asked
        return moved.log_likelihood(self.scales, self._span)

    def nearest(self, variant: int) -> Ints:
        """The released sequences with the fewest edits from a variant of the source: rows."""
        same = self._row.get(self.source.sequences[variant])
        if same is not None:
            return np.array([same])
        edits = self._edits(variant)
        return np.flatnonzero(edits == edits.min())

    def _find_edits(self, variant: int) -> Ints:
        """The edit distance from a variant of the source to every released one."""
        sequence = self.source.sequences[variant]
        found = cdist([sequence], self.released.sequences, scorer=Levenshtein.distance)
        return np.asarray(found[0], np.int64)

    def _find_became(self, variant: int) -> Became:
        """Most likely the same sequence; as for the rest, sequences of which the release has more
        cases than the source, the likelier the fewer edits away.
        """
        same = float(self._same[variant] / self.source.sizes[variant])
        rows = [(self._row[self.source.sequences[variant]], same)] if same > 0 else []
        absent = (1 - same) * self._absent
        moved = 1 - same - absent
        if moved > 0:
            # Not remembered, as it is asked of every variant.
            edits = self._find_edits(variant)
            weights = self._extra * np.exp(-PER_EDIT * (edits - edits.min()))
            order = np.argsort(-weights, kind="stable")[:NEAREST]
            # Sequences of hardly any weight would only cost time; the others share theirs.
            order = order[weights[order] > 1e-4 * weights.sum()]
            # No released sequence has more cases than before, so what is gone is nowhere.
            if not len(order):
                absent = 1 - same
            shares = moved * weights[order] / weights[order].sum()
            # Of the same sequence the release has no more cases, so it is not among these.
            rows += zip(order.tolist(), shares.tolist(), strict=True)
        return Became(rows, absent)

    def _aligned(self, variant: int, row: int) -> tuple[Ints, Ints]:
        """The events that a variant of the source and a released one have in common, in order."""
        edits = LCSseq.opcodes(self.source.sequences[variant], self.released.sequences[row])
        blocks = edits.as_matching_blocks()
        ours = [np.arange(each.a, each.a + each.size) for each in blocks]
        theirs = [np.arange(each.b, each.b + each.size) for each in blocks]
        return np.concatenate(ours), np.concatenate(theirs)

    def _sampled(self) -> Iterator[tuple[Floats, Moved]]:
        number = min(_FITTED, self.looked_for)
        chosen = np.random.default_rng(self.seed).permutation(self.source.cases)[:number]
        for case in chosen.tolist():
            found = self.candidates(case)
            if found.beside is not None:
                yield found.prior, found.beside.moved(self.source.times_of(case))

    def _most_likely(self, possible: Sequence[tuple[Floats, Moved]]) -> Scales:
        # All pairs at once: one by one they would be asked about at each of some 200 scales.
        if not possible:
            return Scales(_SCALES[0])
        sizes = [len(prior) for prior, _ in possible]
        prior = np.concatenate([each for each, _ in possible])
        moved = Moved(*map(np.concatenate, zip(*(each for _, each in possible), strict=True)))
        begins = offsets_of(sizes)[:-1]

        def likelihood(scales: Scales) -> float:
            weights = prior + moved.log_likelihood(scales, self._span)
            highest = np.maximum.reduceat(weights, begins)
            sums = np.add.reduceat(np.exp(weights - np.repeat(highest, sizes)), begins)
            return float((highest + np.log(sums)).sum())

        # One scale for all times; then one for starts and one for gaps, in turns.
        of_times = max((Scales(scale) for scale in _SCALES), key=likelihood)
        start = gap = of_times.start
        for _ in range(2):
            start = max((Scales(scale, gap) for scale in _SCALES), key=likelihood).start
            of_gaps = max((Scales(start, scale) for scale in _SCALES), key=likelihood)
            gap = of_gaps.gap or gap
        return max(of_times, Scales(start, gap), key=likelihood)

    def _calibrated(self, scales: Scales) -> float:
        """The power of the likelihood at which the best guess is right as often as claimed.

        Restoring the order of times makes errors of one case alike, so a product over its times
        claims to know more than it does; that no two cases become one is not used in full. The
        cases of the source get sequences as the release has them and noise of ``scales``: of these
        it is known whose they are.
        """
        noise = np.random.default_rng(self.seed)
        # The more cases there are at a time, the less times tell them apart: a random sample would
        # mislead, neighbours do not.
        source = self.source.neighbours(self.seed)
        changed, became = self.in_sequences_of_release(source, noise)
        times = None if self.rehearse is None else self.rehearse(changed)
        if times is None:
            moved = [scales.moved(changed.times_of(case), noise) for case in range(changed.cases)]
            times = np.concatenate(moved).astype(np.int64)
        # The rehearsal is attacked as the release is, but here it is known whose each case is.
        trial = Links(source, replace(changed, times=times), self.seed, scales)
        trial.note_origins()
        number = _SIMULATED if source.cases <= _MANY else _SIMULATED // 8
        number = min(number, self.looked_for)
        chosen = noise.permutation(source.cases)[:number].tolist()
        # Bisection on logarithms: the sharper the likelihood, the more is claimed.
        low, high = np.log(_SHARPNESS)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            trial.sharpness = float(np.exp(middle))
            if trial.overclaims(chosen, became) > 0:
                high = middle
            else:
                low = middle
        return float(np.exp((low + high) / 2))

    def in_sequences_of_release(
        self, source: CodedLog, draws: np.random.Generator
    ) -> tuple[CodedLog, Ints]:
        """``source``, cases of the source, in sequences of the release, each drawn as likely as it
        is that the case has it; and which of them each case became, -1 where it is left out: int64,
        shape (cases,).

        An event that is not of the source has no time.
        """
        became = np.full(source.cases, -1)
        sequences: list[tuple[int, ...]] = []
        times: list[int | None] = []
        for case, variant in enumerate(source.variant.tolist()):
            rows, absent = self._became(variant)
            shares = np.array([*(share for _, share in rows), absent])
            drawn = int(draws.choice(len(shares), p=shares / shares.sum()))
            # The last of the outcomes is that the case is left out.
            if drawn == len(rows):
                continue
            row = rows[drawn][0]
            ours, theirs = self.aligned(variant, row)
            before = source.times_of(case)
            kept = dict(zip(theirs.tolist(), before[ours].tolist(), strict=True))
            became[case] = len(sequences)
            sequences.append(self.released.sequences[row])
            times += [kept.get(place) for place in range(len(sequences[-1]))]
        # Where no time is known, the source stands for itself.
        if not any(time is not None for time in times):
            return source, np.arange(source.cases)
        return code_cases(sequences, times, source.alphabet), became

    def overclaims(self, cases: Sequence[int], became: Ints) -> float:
        """By how much the best guess is claimed to be right more often than it is, where case i of
        the source became case ``became[i]`` of the release.
        """
        # Claims depend on the sharpness, which may have changed.
        self._claims.clear()
        total = 0.0
        for case in cases:
            posterior = self.posterior(case)
            best = np.flatnonzero(posterior == posterior.max())
            total += float(posterior[best[0]]) - float((best == became[case]).mean())
        return total


class Sought:
    """A case of the source, sought among the released ones, batch by batch. One that many cases of
    the source may have become is less likely to be this one: ``weigh`` all batches, ``share_out``
    the ``most`` heaviest (``numbers``), and ask for the ``posterior`` of each batch. ``absent``:
    how likely it is not released.
    """

    def __init__(self, most: int, absent: float) -> None:
        self.most = most
        self.numbers, self.weights = np.zeros(0, np.int64), np.zeros(0)
        self.none = float(np.log(absent)) if absent > 0 else -np.inf
        self.rest = -np.inf

    def weigh(self, weights: Floats, first: int) -> None:
        """Of a batch, whose first case has the number ``first``: ``weights`` as logarithms."""
        likely = np.flatnonzero(weights > -np.inf)
        numbers = np.concatenate([self.numbers, first + likely])
        weights = np.concatenate([self.weights, weights[likely]])
        # Of very many only those that weigh most, the others together.
        if len(weights) > self.most:
            order = np.argpartition(-weights, self.most)
            numbers, weights = numbers[order], weights[order]
        self.numbers, self.weights = numbers[: self.most], weights[: self.most]
        self.rest = _log_of_sum(np.append(weights[self.most :], self.rest))

    def share_out(self, claims: Floats) -> None:
        """``claims``: how likely the heaviest are under all cases of the source, as logarithms; the
        others by the mean of these.
        """
        mean = float(claims.mean()) if len(claims) else 0.0
        shared = self.weights - claims
        whole = _log_of_sum(np.append(shared, [self.rest - mean, self.none]))
        self.weights, self.less = shared - whole, mean + whole

    def posterior(self, weights: Floats, first: int) -> Floats:
        """How likely each case of a batch is to be the one that is sought."""
        shared = weights - self.less
        here = inside(self.numbers, first, len(weights))
        shared[self.numbers[here] - first] = self.weights[here]
        return np.asarray(np.exp(shared))


def inside(numbers: Ints, first: int, cases: int) -> Ints:
    """Which of the numbers are those of ``cases`` cases from ``first`` on: rows."""
    return np.flatnonzero((first <= numbers) & (numbers < first + cases))


def _heaviest(sought: Iterable[Sought]) -> Ints:
    """The numbers of released cases that weigh most for any of those that are sought, ascending."""
    return np.unique(np.concatenate([each.numbers for each in sought]))


def _log_of_sum(logarithms: Floats) -> float:
    """The logarithm of the sum; numpy's own ``logaddexp.reduce`` takes many times as long."""
    highest = float(logarithms.max(initial=-np.inf))
    if highest == -np.inf:
        return highest
    return highest + float(np.log(np.exp(logarithms - highest).sum()))


def scales_of(plan: Plan) -> Scales | None:
    """How far the plan moves times; None where no step of it puts noise on them."""
    found = _noise_on_times(plan)
    if found is None:
        return None
    noise = found[1].noise
    # The plan counts its scales in steps of the grid.
    grid = noise.grid.step.total_seconds() / _MICROSECOND
    gap = None if noise.noised == "times" else max(noise.gap_scale, 1.0) * grid
    return Scales(noise.start_scale * grid, gap)


def draws_times(plan: Plan) -> bool:
    """Whether times are drawn anew for every event of cases that are real."""
    return any(
        TIMESTAMPS in step.lineage.writes and step.lineage.is_given_flow for step in plan.steps
    )


def rehearsed_times(plan: Plan, source: CodedLog, seed: int) -> Ints | None:
    """The times of the source's events under fresh noise of the plan, int64, shape (events,); None
    where no step of the plan puts noise on them. They belong to known cases: nobody but the risk
    report sees them.
    """
    found = _noise_on_times(plan)
    if found is None or source.times is None:
        return None
    log = replace(
        source.log,
        events=source.log.events.select(ACTIVITY, TIMESTAMP),
        cases=source.log.cases.select(CASE_ID),
    )
    step, engine, noise = found[0], MemoryEngine(), reproducible(seed)
    made = engine.rewrite(log, step.take(step.look(log, engine, noise), noise).rewrite)
    # Where events came or went, times belong to no known event.
    if not np.array_equal(made.offsets, log.offsets):
        return None
    return made.events[TIMESTAMP].to_physical().to_numpy().astype(np.int64)


def _noise_on_times(plan: Plan) -> tuple[GrantedStep, NoiseOnTimesStep] | None:
    """The last step that puts noise on times."""
    mechanisms = catalogue()
    for step in reversed(plan.steps):
        if TIMESTAMPS in step.lineage.measures and step.mechanism in mechanisms:
            taken = granted(step, plan, mechanisms)
            if isinstance(taken.kind, NoiseOnTimesStep):
                return taken, taken.kind
    return None
