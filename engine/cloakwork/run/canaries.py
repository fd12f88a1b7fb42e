"""Canaries: cases that are put into a log or left out of it by a coin each, and how well the
answers to a step tell which.

Whoever knows the log but for a canary, and what a step asks, tells best by the likelihood ratio of
the answers: with the canary, and without. Noisy tables are published, so these are what somebody
has. One run tells of all canaries (Steinke, Nasr and Jagielski 2023, "Privacy auditing with one (1)
training run").
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import DiscreteGaussian, PrivacyEvent
from cloakwork.base.errors import CloakworkError
from cloakwork.base.progress import say
from cloakwork.kernel import NoisySums, Selected
from cloakwork.kernel.books import noise_in
from cloakwork.kernel.growth import Level
from cloakwork.kernel.vectors import Sums, key_of
from cloakwork.log.variants import variants_of
from cloakwork.noise import Noise
from cloakwork.run.replay import Question, ReplayedStep


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """``scores``: the log of each canary's likelihood ratio, float64, shape (runs, canaries);
    ``member``: whether it was in the log, bool, of the same shape. ``is_gaussian``: whether all
    noise that they come from is. ``event``: what the step is charged for.
    """

    scores: Floats
    member: Bools
    is_gaussian: bool
    event: PrivacyEvent


def canary_scores(step: ReplayedStep, canaries: int, runs: int, noise: Noise) -> CanaryScores:
    """Of so many cases of the step's log, each in half of the runs; the others are in all of them.

    Raises CloakworkError where no answer can be told apart: its noise is not added to sums of all
    cases.
    """
    log, owner = step.log, step.step.unit.attribute
    if owner is not None:
        raise CloakworkError("canaries are single cases, and the unit is not the case")
    chosen = _telling(step, canaries)
    own = log.keep_cases(chosen)
    scores = np.zeros((runs, len(chosen)))
    member = np.zeros(scores.shape, np.bool_)
    kinds = set[bool]()
    for run in range(runs):
        say(f"run {run + 1:,} of {runs:,}")
        member[run] = noise.coins(0.5, len(chosen))
        kept = np.setdiff1d(np.arange(log.case_count), chosen[~member[run]])
        recorded = ReplayedStep(step.step, log.keep_cases(kept), step.released)
        recorded.record(noise)
        told = [_told_by(each) for each in recorded.script.questions]
        kinds |= {each.is_gaussian for each in told if each is not None}
        for answer, sums in zip(told, recorded.sums_of(own), strict=False):
            if answer is None:
                continue
            for place, each in sums.items():
                scores[run, place] += answer.ratio(each, is_in=bool(member[run, place]))
    if not kinds:
        raise CloakworkError(
            f"{step.step.name}: no noise on sums of all cases, so no canary is in it"
        )
    return CanaryScores(scores, member, kinds == {True}, step.step.kind.event)


def _telling(step: ReplayedStep, canaries: int) -> Ints:
    """Cases that move the recorded answers nearly as far as any, one of a variant, by variant."""
    variants = variants_of(step.log)
    labels = [variants.labels(each) for each in range(len(variants.counts))]
    # The most frequent first: what is rare may not be told at all.
    often = np.argsort(-variants.counts, kind="stable")[: 4 * canaries]
    tried = sorted(often.tolist(), key=labels.__getitem__)
    first = np.unique(variants.of_case, return_index=True)[1][tried]
    told = [_told_by(each) for each in step.script.questions]
    moved = np.zeros(len(tried))
    for answer, sums in zip(told, step.sums_of(step.log.keep_cases(first)), strict=False):
        if answer is None:
            continue
        for place, each in sums.items():
            moved[place] += float(((answer.at(each) / answer.scale) ** 2).sum())
    chosen: Ints = first[moved >= NEARLY * moved.max(initial=0.0)]
    return chosen[:canaries]


NEARLY: Final = 0.9
"""Canaries that move answers less far, in squares, would make the others seem to."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What an answer tells: ``noisy`` numbers, what is behind them (``exact``), and the noise's
    ``scale``, all in grid steps; ``at``: the same numbers of other sums.
    """

    noisy: Floats
    exact: Floats
    at: Callable[[Sums], Ints]
    scale: float
    is_gaussian: bool

    def ratio(self, own: Sums, *, is_in: bool) -> float:
        """The log of how much likelier the answer is with a case, whose sums are ``own``."""
        move = self.at(own).astype(np.float64)
        others = self.exact - move if is_in else self.exact
        apart = (self.noisy - others) / self.scale
        move /= self.scale
        if self.is_gaussian:
            return float(apart @ move - move @ move / 2)
        return float((np.abs(apart) - np.abs(apart - move)).sum())


def _told_by(question: Question) -> _Told | None:
    """None where it is no noisy sum."""
    if question.sums is None or question.charged is None:
        return None
    noise = noise_in(question.charged)
    if noise is None:
        return None
    is_gaussian = isinstance(noise, DiscreteGaussian)
    scale = noise.sigma if isinstance(noise, DiscreteGaussian) else noise.scale
    noisy, at = _numbers(question.answer)
    exact = at(question.sums)
    if np.shape(noisy) != exact.shape:
        return None
    return _Told(np.asarray(noisy, np.float64), exact.astype(np.float64), at, scale, is_gaussian)


def _numbers(answer: Any) -> tuple[Any, Callable[[Sums], Ints]]:
    """The noisy numbers of an answer, and what reads the same keys off other sums."""
    if isinstance(answer, NoisySums | Selected):
        told = answer.read if isinstance(answer, NoisySums) else answer
        if not any(told.labels):
            return told.noisy, lambda sums: sums.at(told.codes)
        keys = [key_of(*key) for key in zip(told.codes.tolist(), told.labels, strict=True)]
        return told.noisy, lambda sums: sums.at_spelled(keys)
    if isinstance(answer, Level):
        answer = answer.noisy
    # Of a gradient step the last part, in grid steps.
    noisy = answer[-1] if isinstance(answer, tuple) else answer
    return noisy, lambda sums: sums.at(np.arange(len(noisy)))
