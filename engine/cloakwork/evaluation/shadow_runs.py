"""Releases of random halves of a log, and what they show of each target: what an attack on
membership learns from, and is judged by (shadow models; Shokri et al. 2017).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.progress import heard_by, say, silent
from cloakwork.log.eventlog import EventLog
from cloakwork.log.variants import Variants, variants_of

ReleaseOf = Callable[[EventLog], EventLog]
"""Makes a release of a log, with noise of its own each time."""

STATISTICS: Final = ("count of its sequence", "counts of its steps", "likelihood of its sequence")
"""What is read off a release for each target, one column each."""

_SMOOTHING: Final = 0.5
"""Cases that each step of the release's Markov model has besides."""

_SECONDS_BETWEEN: Final = 2.0


@dataclass(frozen=True, slots=True)
class ShadowRuns:
    """What each release shows of each target, and whether the target was in its log.

    ``statistics``: float64, shape (runs, targets, 3). ``member``: bool, shape (runs, targets).
    """

    statistics: Floats
    member: Bools

    def __len__(self) -> int:
        return len(self.member)

    def part(self, chosen: slice) -> "ShadowRuns":
        """Some of the runs."""
        return ShadowRuns(self.statistics[chosen], self.member[chosen])


def shadow_runs(
    log: EventLog, unit: Ints, targets: Ints, release: ReleaseOf, runs: int, seed: int
) -> ShadowRuns:
    """``runs`` releases, each of a log that holds every unit of ``log`` with probability 1/2.

    ``unit``: int64, shape (cases,); whose case each is, from 0. ``targets``: the units that are
    looked for. Given all others, a target is in or out by a coin of its own, so what an attack on
    such runs finds is bounded by the differential privacy of ``release``.
    """
    draws = np.random.default_rng([seed, 5])
    sought = SoughtSequences.of(log, unit, targets)
    statistics = np.empty((runs, len(targets), len(STATISTICS)))
    member = np.empty((runs, len(targets)), np.bool_)
    begun = reported = monotonic()
    for run in range(runs):
        if monotonic() - reported > _SECONDS_BETWEEN:
            reported = monotonic()
            left = (reported - begun) / run * (runs - run) if run else 0.0
            say(f"{run:,} of {runs:,} releases, about {left:,.0f} s left")
        drawn = draws.random(int(unit.max(initial=-1)) + 1) < 0.5
        with heard_by(silent):
            released = release(log.keep_cases(np.flatnonzero(drawn[unit])))
        statistics[run] = sought.statistics(released)
        member[run] = drawn[targets]
    return ShadowRuns(statistics, member)


@dataclass(frozen=True, slots=True)
class StepsOfSequences:
    """Sequences as the steps they take, end to end, START and END included.

    ``symbols``: activities and three more. ``step``: int64, source * symbols + target. ``begins``:
    where the steps of each sequence begin. ``codes``: each sequence by itself.
    """

    symbols: int
    step: Ints
    begins: Ints
    codes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, variants: Variants, alphabet: Sequence[str]) -> "StepsOfSequences":
        """The variants, coded over ``alphabet``; all other labels are one symbol."""
        place = {label: code for code, label in enumerate(alphabet)}
        other, start, end = len(alphabet), len(alphabet) + 1, len(alphabet) + 2
        of_label = np.array([place.get(each, other) for each in variants.alphabet], np.int64)
        codes = of_label[variants.codes]
        lengths = np.diff(variants.offsets)
        begins = variants.offsets[:-1] + np.arange(len(lengths))
        source = np.full(len(codes) + len(lengths), start)
        target = np.full(len(source), end)
        inside = np.ones(len(source), np.bool_)
        inside[begins] = False
        source[inside] = codes
        inside = np.ones(len(source), np.bool_)
        inside[begins + lengths] = False
        target[inside] = codes
        each = tuple(
            tuple(codes[first:behind].tolist())
            for first, behind in zip(variants.offsets[:-1], variants.offsets[1:], strict=True)
        )
        return cls(end + 1, source * (end + 1) + target, begins, each)

    def mean_of_steps(self, values: Floats) -> Floats:
        """The mean over the steps of each sequence of a value by step: shape (sequences,)."""
        lengths = np.diff(np.append(self.begins, len(self.step)))
        sums: Floats = np.add.reduceat(values[self.step], self.begins) / lengths
        return sums


@dataclass(frozen=True, slots=True)
class SoughtSequences:
    """The sequences of the targets' cases.

    ``sequences``: each distinct one. ``sequence`` and ``begins``: int64; those of target i are
    ``sequence[begins[i]:begins[i + 1]]``.
    """

    alphabet: tuple[str, ...]
    sequences: StepsOfSequences
    sequence: Ints
    begins: Ints

    @classmethod
    def of(cls, log: EventLog, unit: Ints, targets: Ints) -> "SoughtSequences":
        """Of all cases of the units ``targets``, each of which has one."""
        found = variants_of(log)
        by_unit = np.argsort(unit, kind="stable")
        first = np.searchsorted(unit[by_unit], targets)
        behind = np.searchsorted(unit[by_unit], targets, side="right")
        rows = [by_unit[low:high] for low, high in zip(first, behind, strict=True)]
        begins = np.cumsum([0, *map(len, rows)])[:-1]
        coded = StepsOfSequences.of(found, found.alphabet)
        return cls(found.alphabet, coded, found.of_case[np.concatenate(rows)], begins)

    def statistics(self, released: EventLog) -> Floats:
        """What a release shows of each target, the mean over its cases: shape (targets, 3).

        Counts as ln(1 + count); of the steps their mean; the log-likelihood by step under the
        Markov model that the release's directly-follows counts give, smoothed.
        """
        found = variants_of(released)
        coded = StepsOfSequences.of(found, self.alphabet)
        counted: Counter[tuple[int, ...]] = Counter()
        for codes, count in zip(coded.codes, found.counts.tolist(), strict=True):
            counted[codes] += count
        own = np.array([counted[codes] for codes in self.sequences.codes], np.float64)
        symbols = self.sequences.symbols
        lengths = np.diff(np.append(coded.begins, len(coded.step)))
        weights = np.repeat(found.counts, lengths)
        steps = np.bincount(coded.step, weights, symbols**2)
        graph = steps.reshape(symbols, symbols) + _SMOOTHING
        likelihood = np.log(graph / graph.sum(axis=1, keepdims=True)).ravel()
        of_sequence = np.stack(
            [
                np.log1p(own),
                self.sequences.mean_of_steps(np.log1p(steps)),
                self.sequences.mean_of_steps(likelihood),
            ],
            axis=1,
        )
        sums = np.add.reduceat(of_sequence[self.sequence], self.begins)
        cases = np.diff(np.append(self.begins, len(self.sequence)))
        means: Floats = sums / cases[:, None]
        return means
