"""Is this case in the log? An attack that learns from releases of random halves of the log what a
release shows of a case that was in it (shadow models; Shokri et al. 2017, Carlini et al. 2022).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import LogError, MechanismError
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.base.naming import values_of
from cloakwork.base.progress import Reporter, heard_by, say, silent
from cloakwork.engines.memory import in_memory
from cloakwork.evaluation.bounds import NORMAL_999, JudgedScores
from cloakwork.evaluation.dp_audit import epsilon_of_shares
from cloakwork.evaluation.one_mechanism import prepare
from cloakwork.evaluation.risk_figures import (
    ClaimBasis,
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    RecognisedMembers,
)
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.log.eventlog import EventLog
from cloakwork.log.variants import Variants, variants_of
from cloakwork.mechanisms.base import Mechanism
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.run.prepare import prepared_log
from cloakwork.run.run import Run

ReleaseOf = Callable[[EventLog], EventLog]
"""Makes a release of a log, with noise of its own each time."""

STATISTICS: Final = ("count of its sequence", "counts of its steps", "likelihood of its sequence")
"""What is read off a release for each target, one column each."""

FEWEST_RUNS: Final = 20
MOST_TARGETS: Final = 1000

LEVELS: Final = (0.001, 0.01, 0.1)
"""Shares of false alarms at which an attack is judged, where others are enough to tell them."""

_FEWEST_ALARMS: Final = 10
_GROUP_SIZES: Final = (2, 5, 10)

_SMOOTHING: Final = 0.5
"""Cases that each step of the release's Markov model has besides."""

_RUNS_OF_GROUP: Final = 20
"""Runs that the covariance of a target's group counts for beside its own."""

_LEAST_VARIANCE: Final = 1e-6
_DECIMALS: Final = 9
_SECONDS_BETWEEN: Final = 2.0

_NOT_MADE_UP: Final = (
    "the plan makes no cases anew (it changes those of the log), so releases of halves of the log "
    "tell nothing that linking does not; leave out --membership"
)


@dataclass(frozen=True, slots=True)
class AttackedMechanism:
    """What makes releases of logs, and what is claimed for it; ``unit``: the attribute of cases
    that names whose they are, None where each case is by itself.
    """

    name: str
    release: ReleaseOf
    claimed: ClaimedBound | None
    unit: str | None = None


def membership(
    log: EventLog,
    attacked: AttackedMechanism,
    *,
    runs: int,
    targets: int = MOST_TARGETS,
    seed: int = 1,
    reporter: Reporter = silent,
) -> MembershipFigures:
    """How well somebody who sees a release, and knows the process, tells whose case is in the log.

    ``runs`` releases are made, each of a log that holds every case (unit) of ``log`` with
    probability 1/2: the first half teaches what a release shows of each target with and without it,
    and the other half is judged. ``targets``: so many at random. Internal: the figures are of the
    raw log. Raises LogError for a log of fewer than two units, ValueError for fewer than
    ``FEWEST_RUNS`` runs.
    """
    if runs < FEWEST_RUNS:
        raise ValueError(f"an attack on membership needs at least {FEWEST_RUNS} releases")
    unit = units_of(log, attacked.unit)
    units = int(unit.max(initial=-1)) + 1
    if units < 2:
        raise LogError("log", "holds fewer than two cases, so nobody's membership can be attacked")
    chosen = np.sort(np.random.default_rng([seed, 4]).permutation(units)[:targets])
    reporter("attacking membership")
    with heard_by(reporter):
        found = shadow_runs(log, unit, chosen, attacked.release, runs, seed)
    # For each unit how many cases have the rarest of its sequences.
    variants = variants_of(log)
    alike = np.full(units, log.cases.height)
    np.minimum.at(alike, unit, variants.counts[variants.of_case])
    sizes = alike[chosen]
    # Taught on one half of the releases and judged on the other: no score judges itself.
    taught, judged = found.part(slice(0, runs // 2)), found.part(slice(runs // 2, runs))
    ratios = LikelihoodRatios.learned(taught, np.digitize(sizes, _GROUP_SIZES))
    scores = JudgedScores(ratios.scores(judged), judged.member)
    groups: list[tuple[Literal["all", "alone"], JudgedScores]] = [("all", scores)]
    # Whoever is alone with a sequence is hardest to hide, so these are judged apart, too.
    alone = np.flatnonzero(sizes == 1)
    if 0 < len(alone) < len(chosen):
        groups.append(("alone", scores.of_targets(alone)))
    return _figures(attacked, groups, runs, len(chosen))


def units_of(log: EventLog, attribute: str | None) -> Ints:
    """Whose case each is, numbered from 0: int64, shape (cases,). Cases that name nobody are their
    own.
    """
    if attribute is None or attribute not in log.cases.columns:
        return np.arange(log.cases.height)
    names = values_of(log.cases, attribute).cast(pl.String).to_list()
    numbers: dict[object, int] = {}
    found = np.empty(len(names), np.int64)
    for row, name in enumerate(names):
        found[row] = numbers.setdefault(row if name is None else name, len(numbers))
    return found


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
    log: EventLog,
    unit: Ints,
    targets: Ints,
    release: ReleaseOf,
    runs: int,
    seed: int,
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
        # One coin a unit: all its cases are in, or all are out.
        drawn = draws.random(int(unit.max(initial=-1)) + 1) < 0.5
        with heard_by(silent):
            released = release(log.keep_cases(np.flatnonzero(drawn[unit])))
        statistics[run] = sought.statistics(released)
        member[run] = drawn[targets]
    return ShadowRuns(statistics, member)


@dataclass(frozen=True, slots=True)
class StepsOfSequences:
    """Sequences as the steps they take, end to end, a start and an end included.

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
        first, behind = variants.offsets[:-1], variants.offsets[1:]
        # Step i of all sequences, laid end to end, goes from source i to target i.
        source = np.insert(codes, first, start)
        target = np.insert(codes, behind, end)
        return cls(
            symbols=end + 1,
            step=source * (end + 1) + target,
            begins=first + np.arange(len(first)),
            codes=tuple(
                tuple(codes[low:high].tolist()) for low, high in zip(first, behind, strict=True)
            ),
        )

    @property
    def lengths(self) -> Ints:
        """The steps of each sequence: int64, shape (sequences,)."""
        return np.diff(np.append(self.begins, len(self.step)))

    def mean_of_steps(self, values: Floats) -> Floats:
        """The mean over the steps of each sequence of a value by step: shape (sequences,)."""
        means: Floats = np.add.reduceat(values[self.step], self.begins) / self.lengths
        return means


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
    def of(
        cls,
        log: EventLog,
        unit: Ints,
        targets: Ints,
    ) -> "SoughtSequences":
        """Of all cases of the units ``targets``, each of which has one."""
        found = variants_of(log)
        by_unit = np.argsort(unit, kind="stable")
        first = np.searchsorted(unit[by_unit], targets)
        behind = np.searchsorted(unit[by_unit], targets, side="right")
        rows = [by_unit[low:high] for low, high in zip(first, behind, strict=True)]
        begins = np.cumsum([0, *map(len, rows)])[:-1]
        steps = StepsOfSequences.of(found, found.alphabet)
        return cls(found.alphabet, steps, found.of_case[np.concatenate(rows)], begins)

    def statistics(self, released: EventLog) -> Floats:
        """What a release shows of each target, the mean over its cases: shape (targets, 3).

        Counts as ln(1 + count); of the steps their mean; the log-likelihood by step under the
        Markov model that the release's directly-follows counts give, smoothed.
        """
        found = variants_of(released)
        seen = StepsOfSequences.of(found, self.alphabet)
        # How often the release has each sequence, and takes each step.
        counted: Counter[tuple[int, ...]] = Counter()
        for codes, count in zip(seen.codes, found.counts.tolist(), strict=True):
            counted[codes] += count
        own = np.array([counted[codes] for codes in self.sequences.codes], np.float64)
        symbols = self.sequences.symbols
        steps = np.bincount(seen.step, np.repeat(found.counts, seen.lengths), symbols**2)
        # The Markov model of the release.
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


@dataclass(frozen=True, slots=True)
class LikelihoodRatios:
    """How much likelier what a release shows of a target is with the target in the log than
    without: the likelihood-ratio attack (Carlini et al. 2022), by normal distributions of one
    covariance.

    ``middle`` and ``weights``: float64, shape (targets, statistics); the logarithm of the ratio is
    the product of ``weights`` with the distance from ``middle``.
    """

    middle: Floats
    weights: Floats

    @classmethod
    def learned(cls, runs: ShadowRuns, group: Ints) -> "LikelihoodRatios":
        """From runs; ``group``: int64, shape (targets,): targets that are alike.

        Few runs tell little of one target. So its effect is drawn towards the mean effect of its
        group, by as much as chance explains the difference (James and Stein 1961), and so is its
        covariance.
        """
        # The effect of membership on each target's statistics, and what is left without it.
        values, member = runs.statistics, runs.member[:, :, None]
        inside, outside = member.sum(axis=0), (~member).sum(axis=0)
        mean_inside = np.where(member, values, 0.0).sum(axis=0) / np.maximum(inside, 1)
        mean_outside = np.where(member, 0.0, values).sum(axis=0) / np.maximum(outside, 1)
        # A target that was always in, or always out, shows no effect of its own.
        known = (inside[:, 0] > 0) & (outside[:, 0] > 0)
        effect = np.where(known[:, None], mean_inside - mean_outside, 0.0)
        residual = values - np.where(member, mean_inside, mean_outside)
        # Two means were estimated for each target: two degrees of freedom less.
        own = np.einsum("rti,rtj->tij", residual, residual) / max(1, len(runs) - 2)
        # Both drawn towards the group's.
        covariance, expected = np.empty_like(own), np.empty_like(effect)
        for each in np.unique(group):
            alike = group == each
            shared = own[alike].mean(axis=0)
            weighted = len(runs) * own[alike] + _RUNS_OF_GROUP * shared
            covariance[alike] = weighted / (len(runs) + _RUNS_OF_GROUP)
            rows = alike & known
            expected[alike] = effect[rows].mean(axis=0) if rows.any() else 0.0
        # Keeps the matrix invertible where a statistic never varies.
        covariance += _LEAST_VARIANCE * np.eye(values.shape[2])
        # The variance of a difference of two means, in units of the covariance.
        error = 1 / np.maximum(inside[:, 0], 1) + 1 / np.maximum(outside[:, 0], 1)
        effect = expected + _kept(effect - expected, covariance, error, known)
        # With one covariance for both, the log-ratio is linear (Fisher's discriminant).
        weights = np.linalg.solve(covariance, effect[:, :, None])[:, :, 0]
        middle = (values - (member - 0.5) * effect).mean(axis=0)
        return cls(middle, weights)

    def scores(self, runs: ShadowRuns) -> Floats:
        """The logarithm of each ratio: float64, shape (runs, targets)."""
        found = ((runs.statistics - self.middle) * self.weights).sum(axis=2)
        # What differs by rounding alone is the same.
        rounded: Floats = np.round(found, _DECIMALS)
        return rounded


def _kept(
    apart: Floats,
    covariance: Floats,
    error: Floats,
    known: Floats,
) -> Floats:
    """What of the differences ``apart`` chance does not explain."""
    solved = np.linalg.solve(covariance, apart[:, :, None])[:, :, 0]
    # By chance alone, the mean of this squared distance is the number of statistics.
    distance = (apart * solved).sum(axis=1) / error
    share = np.maximum(0.0, 1 - apart.shape[1] / np.maximum(distance, 1e-12))
    return np.where(known, share, 0.0)[:, None] * apart


def _figures(
    attacked: AttackedMechanism,
    groups: Sequence[tuple[Literal["all", "alone"], JudgedScores]],
    runs: int,
    targets: int,
) -> MembershipFigures:
    delta = 0.0 if attacked.claimed is None else attacked.claimed.delta
    kept = [(name, scores) for name, scores in groups if scores.can_be_judged]
    shown = [epsilon_shown(scores, level, delta) for _, scores in kept for level in _levels(scores)]
    return MembershipFigures(
        mechanism=attacked.name,
        runs=runs,
        judged=runs - runs // 2,
        targets=targets,
        claimed=attacked.claimed,
        epsilon_at_least=max([0.0, *shown]),
        groups=tuple(_group(name, scores) for name, scores in kept),
    )


def _levels(scores: JudgedScores) -> list[float]:
    others = int((~scores.member).sum())
    return [level for level in LEVELS if level * others >= _FEWEST_ALARMS]


def _group(name: Literal["all", "alone"], scores: JudgedScores) -> MembershipGroup:
    least = _FEWEST_ALARMS / int((~scores.member).sum())
    levels = []
    for level in _levels(scores):
        false, true = scores.rates(scores.threshold(level))
        levels.append(RecognisedMembers(at_most=level, false_positives=false, true_positives=true))
    return MembershipGroup(
        name=name,
        targets=scores.member.shape[1],
        area=scores.area(),
        levels=tuple(levels),
        curve=tuple(point for point in scores.curve() if point[0] >= least),
    )


def epsilon_shown(scores: JudgedScores, level: float, delta: float) -> float:
    """How large epsilon must be at ``delta``, given the members recognised at this share of false
    alarms, by bounds at 99.9 %: below 0 where nothing shows.
    """
    false, true = scores.rates(scores.threshold(level), NORMAL_999)
    return epsilon_of_shares(true.low, false.high, delta)


def attack_membership(
    name: str | Mechanism[Any],
    log: EventLog,
    *,
    epsilon: float,
    delta: float,
    runs: int,
    targets: int = MOST_TARGETS,
    seed: int = 1,
    options: Mapping[str, Any] | None = None,
    **facts: Any,
) -> MembershipFigures:
    """Attack releases that the mechanism ``name`` (or one that is not registered) makes of random
    halves of ``log``, beside what the claim (epsilon, delta) allows.

    ``facts``: declared facts, as for ``run_mechanism``; the others as for ``attacks.membership``.
    What is found follows from ``seed``. Charges no ledger; the figures are of the raw log. Raises
    MechanismError where the mechanism refuses the claim.

    >>> from cloakwork.testing.contract_logs import log_of
    >>> log = log_of([["a", "b"]] * 20 + [["a", "c"]])
    >>> found = attack_membership("variants/threshold", log, epsilon=1.0, delta=1e-3, runs=20)
    >>> found.exceeded
    False
    """
    claim = {"epsilon": epsilon, "delta": delta}
    prepared = prepare(name, options=options, **claim, **facts)
    noise = reproducible(seed)
    mechanism = prepared.mechanism
    basis = "published" if mechanism.proof == "published" else "derived"
    attacked = AttackedMechanism(
        mechanism.name,
        lambda half: prepared.run(half, noise),
        ClaimedBound.model_validate({**claim, "basis": basis}),
        prepared.facts.unit.attribute,
    )
    return membership(log, attacked, runs=runs, targets=targets, seed=seed)


def attacked_plan(plan: Plan, seed: int) -> AttackedMechanism:
    """The steps of ``plan`` up to the one that makes the cases, and what the plan claims of it.

    No ledger is charged, and nothing is released: what comes out must not leave the attack. The
    noise follows from ``seed``. Raises MechanismError where the plan makes no cases anew.
    """
    last = next((step for step in plan.steps if step.lineage.generates), None)
    if last is None:
        raise MechanismError("risk", _NOT_MADE_UP)
    steps = plan.steps[: plan.steps.index(last) + 1]
    run = Run(plan=plan.model_copy(update={"steps": steps}), noise=reproducible(seed))

    def release(prepared: EventLog) -> EventLog:
        return in_memory(run.steps(prepared)[0])

    # The least bound of the control flow, whatever else is released; else what a paper claims.
    derived = _hiding_members(each.guarantee for each in plan.claims if each.given is None)
    published = _hiding_members(each.guarantee for each in plan.unproven)
    claimed = None
    if derived or published:
        least = min(derived or published, key=lambda each: each.epsilon)
        basis: ClaimBasis = "derived" if derived else "published"
        claimed = ClaimedBound(epsilon=least.epsilon, delta=least.delta, basis=basis)
    return AttackedMechanism(last.mechanism, release, claimed, plan.facts.unit.attribute)


def log_for(plan: Plan, log: EventLog) -> EventLog:
    """``log`` as the plan's steps see it, of which halves may be taken."""
    return replace(prepared_log(log, plan), notes=())


def _hiding_members(guarantees: Iterable[Guarantee]) -> list[DifferentialPrivacy]:
    """Those that hide from who sees the control flow whether a unit is in the log."""
    return [
        each
        for each in guarantees
        if isinstance(each, DifferentialPrivacy)
        and each.neighbours == "unbounded"
        and CONTROL_FLOW in each.over
    ]
