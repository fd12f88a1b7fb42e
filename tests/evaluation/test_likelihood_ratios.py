"""Ratios learned from runs: what they find where membership shows, and where it does not."""

import numpy as np

from cloakwork.evaluation.bounds import JudgedScores
from cloakwork.evaluation.membership import LikelihoodRatios, ShadowRuns

GROUP = np.zeros(40, np.int64)


def runs_of(effects: np.ndarray, runs: int, seed: int) -> ShadowRuns:
    """Normal statistics that membership moves by ``effects`` (targets, 3)."""
    draws = np.random.default_rng(seed)
    member = draws.random((runs, len(effects))) < 0.5
    noise = draws.normal(size=(runs, len(effects), 3))
    return ShadowRuns(noise + member[:, :, None] * effects, member)


def area(effects: np.ndarray, runs: int = 40) -> float:
    """What an attack reaches that learned from so many runs."""
    ratios = LikelihoodRatios.learned(runs_of(effects, runs, 1), GROUP)
    judged = runs_of(effects, 100, 2)
    return JudgedScores(ratios.scores(judged), judged.member).area().share


def test_an_effect_that_all_targets_share_is_found() -> None:
    """An effect of two deviations gives an area of .921 at best."""
    assert 0.88 < area(np.tile([2.0, 0.0, 0.0], (40, 1))) < 0.93


def test_an_effect_of_each_target_by_itself_is_found() -> None:
    """Also where the effects of all targets cancel."""
    signs = np.where(np.arange(40) % 2, 2.0, -2.0)
    assert area(signs[:, None] * [1.0, 0.0, 0.0]) > 0.85


def test_no_effect_is_no_ratio_worth_a_guess() -> None:
    """What chance explains is given up: most scores are next to nothing."""
    assert 0.45 < area(np.zeros((40, 3))) < 0.55
    ratios = LikelihoodRatios.learned(runs_of(np.zeros((40, 3)), 40, 1), GROUP)
    assert np.median(np.abs(ratios.weights)) < 0.2


def test_constant_statistics_and_targets_that_were_never_in() -> None:
    """Nothing to learn from is no error."""
    runs = runs_of(np.zeros((40, 3)), 10, 1)
    runs.statistics[:] = 1.0
    runs.member[:, 0] = False
    runs.member[:, 1] = True
    ratios = LikelihoodRatios.learned(runs, GROUP)
    assert np.isfinite(ratios.scores(runs)).all()
    assert not ratios.weights.any()
