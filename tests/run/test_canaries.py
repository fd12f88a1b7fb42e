"""Canaries tell how much the noise that is really drawn hides: nearly all that it is charged for,
and more where there is half of it.
"""

import numpy as np
import pytest

from cloakwork.errors import CloakworkError
from cloakwork.evaluation.dp_audit import CanaryAudit, audit_canaries
from cloakwork.evaluation.one_mechanism import plan_for
from cloakwork.evaluation.pairs import canary_log
from cloakwork.kernel import Gaussian, Laplace
from cloakwork.noise import reproducible
from cloakwork.run.replay import CanaryScores, canary_scores, replayed_steps

DELTA = 1e-4
LOG = canary_log()


def audited(mechanism: str, runs: int, epsilon: float = 1.0, **options: str) -> CanaryAudit:
    plan = plan_for(mechanism, LOG, epsilon, DELTA, options)
    (step,) = replayed_steps(plan, LOG, mechanism)
    return audit_canaries(canary_scores(step, 100, runs, reproducible(1)), DELTA)


def halved(monkeypatch: pytest.MonkeyPatch, noise: type) -> None:
    draw = noise.draw

    def less(self, source, size):
        return draw(self, source, size) // 2

    monkeypatch.setattr(noise, "draw", less)


@pytest.mark.parametrize(
    ("noise", "options"),
    [(Laplace, {}), (Gaussian, {"noise": "gaussian"})],
    ids=["laplace", "normal"],
)
def test_frequent_variants_have_nearly_the_noise_that_they_are_charged_for(
    noise: type, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = audited("variants/threshold", 200, **options)
    assert 0.2 * found.claim <= found.epsilon <= found.claim and found.passed
    assert (found.mu is not None) == (noise is Gaussian)
    halved(monkeypatch, noise)
    twin = audited("variants/threshold", 200, **options)
    assert twin.epsilon > twin.claim
    # Beyond doubt where epsilon is larger, so that few runs tell.
    assert not audited("variants/threshold", 200, epsilon=4.0, **options).passed


@pytest.mark.parametrize(
    ("mechanism", "runs"), [("timestamps/histogram", 30), ("attributes/histogram", 60)]
)
def test_tables_have_the_noise_that_they_are_charged_for(
    mechanism: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it shows at an epsilon at which few runs tell; few cases have all that a case may
    have of values.
    """
    assert audited(mechanism, runs, epsilon=8.0).passed
    halved(monkeypatch, Gaussian)
    twin = audited(mechanism, runs, epsilon=8.0)
    assert twin.epsilon > twin.claim


def test_gradient_sums_are_told_by_as_well() -> None:
    found = audited("timestamps/regression", 2, epsilon=8.0)
    assert found.passed and found.mu is not None


def test_what_asks_for_no_sums_has_no_canaries() -> None:
    """Noise on each value by itself: no answer of a kernel is about it."""
    with pytest.raises(CloakworkError):
        audited("timestamps/laplace", 2)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_bound_is_that_of_normal_numbers(mu: float) -> None:
    """Of mu itself it is a little below; where canaries of a run share their noise, further."""
    draws = np.random.default_rng(1)
    member = draws.random((400, 50)) < 0.5

    def found(noise):
        scores = mu * (noise + mu * member) - mu**2 / 2
        event = plan_for("variants/threshold", LOG).steps[-1].event
        return audit_canaries(CanaryScores(scores, member, True, event), DELTA).mu

    apart = found(draws.normal(size=member.shape))
    shared = found(np.repeat(draws.normal(size=(400, 1)), 50, axis=1))
    assert 0.9 * mu - 0.05 <= apart <= mu
    assert shared < apart - 0.02
