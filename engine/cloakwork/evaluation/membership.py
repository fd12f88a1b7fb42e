"""Is this case in the log? An attack that learns from releases of random halves of the log what a
release shows of a case that was in it (shadow models; Shokri et al. 2017, Carlini et al. 2022).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.progress import Reporter, heard_by, silent
from cloakwork.evaluation.likelihood_ratios import LikelihoodRatios
from cloakwork.evaluation.rates import NORMAL_999, JudgedScores
from cloakwork.evaluation.risk_figures import (
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    RecognisedMembers,
)
from cloakwork.evaluation.shadow_runs import ReleaseOf, shadow_runs
from cloakwork.log.eventlog import EventLog
from cloakwork.log.variants import variants_of

FEWEST_RUNS: Final = 20
MOST_TARGETS: Final = 1000

LEVELS: Final = (0.001, 0.01, 0.1)
"""Shares of false alarms at which an attack is judged, where others are enough to tell them."""

_FEWEST_ALARMS: Final = 10
_GROUP_SIZES: Final = (2, 5, 10)


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
    sizes = _cases_alike(log, unit)[chosen]
    taught, judged = found.part(slice(0, runs // 2)), found.part(slice(runs // 2, runs))
    ratios = LikelihoodRatios.learned(taught, np.digitize(sizes, _GROUP_SIZES))
    scores = JudgedScores(ratios.scores(judged), judged.member)
    groups = [("all", scores)]
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


def _cases_alike(log: EventLog, unit: Ints) -> Ints:
    """For each unit how many cases have the rarest of its sequences: int64, shape (units,)."""
    found = variants_of(log)
    alike = np.full(int(unit.max()) + 1, log.cases.height)
    np.minimum.at(alike, unit, found.counts[found.of_case])
    return alike


def _figures(
    attacked: AttackedMechanism,
    groups: Sequence[tuple[str, JudgedScores]],
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


def _group(name: str, scores: JudgedScores) -> MembershipGroup:
    least = _FEWEST_ALARMS / int((~scores.member).sum())
    levels = []
    for level in _levels(scores):
        false, true = scores.rates(scores.threshold(level))
        found = RecognisedMembers(at_most=level, false_positives=false, true_positives=true)
        levels.append(found)
    return MembershipGroup.model_validate(
        {
            "name": name,
            "targets": scores.member.shape[1],
            "area": scores.area(),
            "levels": tuple(levels),
            "curve": tuple(point for point in scores.curve() if point[0] >= least),
        }
    )


def epsilon_shown(scores: JudgedScores, level: float, delta: float) -> float:
    """How large epsilon must be at ``delta``, given the members recognised at this share of false
    alarms, by bounds at 99.9 %: below 0 where nothing shows.
    """
    false, true = scores.rates(scores.threshold(level), NORMAL_999)
    if true.low <= delta:
        return -math.inf
    return math.log((true.low - delta) / false.high)
