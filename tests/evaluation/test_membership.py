"""The attack on membership as a whole: a mechanism within its claim, and one that is not."""

import math
import os

import numpy as np
import pytest

from cloakwork.errors import LogError
from cloakwork.evaluation.bounds import JudgedScores
from cloakwork.evaluation.membership import (
    LEVELS,
    AttackedMechanism,
    attack_membership,
    epsilon_shown,
    membership,
    units_of,
)
from cloakwork.evaluation.risk_figures import ClaimedBound, MembershipFigures
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.testing.contract_logs import log_of

LOG = log_of(["ab"] * 30 + ["acb"] * 12 + ["ac" + "ab"[n % 2] * (n // 2) for n in range(18)])
"""Two frequent variants, and 18 cases nearly all of which are alone with theirs."""

RUNS = 80


def attacked(mechanism: str, runs: int = RUNS) -> MembershipFigures:
    """At epsilon 1, seeded: what is found is found each time."""
    return attack_membership(mechanism, LOG, epsilon=1.0, delta=1e-3, runs=runs)


def test_a_proved_mechanism_stays_below_its_limit() -> None:
    """Nothing that the attack shows exceeds the claim."""
    found = attacked("variants/threshold")
    assert found.claimed == ClaimedBound(epsilon=1.0, delta=1e-3)
    assert not found.exceeded
    assert found.epsilon_at_least <= 1.0
    for group in found.groups:
        for level in group.levels:
            assert level.true_positives.low <= found.claimed.limit(level.false_positives.high)


def test_a_mechanism_that_is_only_published_is_found_out() -> None:
    """Amun keeps every variant: who is alone with one is recognised, without a false alarm."""
    found = attacked("variants/amun-published")
    assert found.claimed is not None
    assert found.claimed.basis == "published"
    assert found.exceeded
    assert found.epsilon_at_least > 2.0
    alone = found.groups[1]
    assert (alone.name, alone.area.share > 0.99) == ("alone", True)
    assert alone.levels[-1].true_positives.low > 0.9


BRIEFLY = {"epochs": 1, "steps": 5}


def test_published_networks_are_found_out() -> None:
    """However briefly trained: they draw variants of the source, and no others."""
    pytest.importorskip("torch")
    found = attack_membership(
        "variants/ddpm-published", LOG, epsilon=1.0, delta=1e-3, runs=40, options=BRIEFLY
    )
    assert found.exceeded
    assert found.groups[1].area.low > 0.8


@pytest.mark.skipif("CLOAKWORK_RUNS" not in os.environ, reason="a minute: CLOAKWORK_RUNS=1")
@pytest.mark.parametrize(
    ("name", "exceeded"),
    [
        ("variants/travag-published", True),
        ("variants/ddpm-published", True),
        ("variants/travag", False),
        ("variants/ddpm", False),
    ],
)
def test_networks_as_they_are_trained(name: str, exceeded: bool) -> None:
    """The published forms exceed what they claim, the proved ones do not."""
    pytest.importorskip("torch")
    facts = {} if exceeded else {"units_at_most": 1000}
    found = attack_membership(name, LOG, epsilon=1.0, delta=1e-3, runs=60, **facts)
    assert found.exceeded is exceeded


def test_what_is_found_follows_from_the_seed() -> None:
    """Twice the same; another seed gives other figures."""
    first, again = attacked("variants/threshold", 20), attacked("variants/threshold", 20)
    other = attack_membership("variants/threshold", LOG, epsilon=1.0, delta=1e-3, runs=20, seed=2)
    assert first == again
    assert first != other


def test_releases_as_they_are_show_everybody_who_is_alone() -> None:
    """Without any protection, and without a claim."""
    found = membership(LOG, AttackedMechanism("as it is", lambda half: half, None), runs=100)
    assert not found.exceeded
    assert found.groups[1].area.share > 0.99
    assert found.epsilon_at_least > 2.0


def test_releases_that_show_nothing() -> None:
    """An empty release: every score is the same, and the area is that of guessing."""
    empty = AttackedMechanism("nothing", lambda half: EventLog.empty(), None)
    found = membership(LOG, empty, runs=20, targets=10)
    assert found.targets == 10
    assert [group.area.share for group in found.groups] == [0.5] * len(found.groups)
    assert found.epsilon_at_least == 0.0


def test_logs_and_runs_that_are_too_few() -> None:
    nothing = AttackedMechanism("nothing", lambda half: half, None)
    with pytest.raises(LogError, match="fewer than two cases"):
        membership(log_of(["a"]), nothing, runs=20)
    with pytest.raises(ValueError, match="at least 20"):
        membership(LOG, nothing, runs=19)


def test_whose_cases_are_whose() -> None:
    """Cases without a name are their own."""
    log = log_of(["a"] * 4)
    cases = log.cases.with_columns(log.cases[CASE_ID].replace({"case 2": "case 0"}).alias("case:p"))
    named = EventLog(log.events, cases, log.offsets)
    assert units_of(named, "case:p").tolist() == [0, 1, 0, 2]
    assert units_of(named, None).tolist() == [0, 1, 2, 3]


def test_what_a_claim_allows() -> None:
    """No more than e^epsilon times the false alarms, and never everybody without any."""
    claim = ClaimedBound(epsilon=1.0, delta=0.01)
    assert claim.limit(0.0) == pytest.approx(0.01)
    assert claim.limit(0.1) == pytest.approx(0.1 * math.e + 0.01)
    assert claim.limit(0.9) == pytest.approx(1 - (1 - 0.01 - 0.9) / math.e)
    assert claim.limit(1.0) == 1.0
    assert ClaimedBound(epsilon=1000.0).limit(0.01) == 1.0


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.99], ids=["apart", "alike", "nearly the same"])
def test_scores_that_are_noise_never_show_an_epsilon(shared: float) -> None:
    """In 100 experiments of few releases each, also where all targets of one score alike."""
    draws = np.random.default_rng(15)
    for _ in range(100):
        own, of_release = draws.normal(size=(10, 200)), draws.normal(size=(10, 1))
        noise = np.sqrt(1 - shared) * own + np.sqrt(shared) * of_release
        scores = JudgedScores(noise, draws.random((10, 200)) < 0.5)
        assert max(epsilon_shown(scores, level, 0.0) for level in LEVELS) <= 0


def test_the_best_attack_on_a_tight_mechanism_does_not_exceed_it() -> None:
    """Randomised response at epsilon 1, which some members answer e times as often: in 100
    experiments the epsilon that it shows is near 1, and never above.
    """
    draws = np.random.default_rng(15)
    found = []
    for _ in range(100):
        member = draws.random((40, 100)) < 0.5
        answers = draws.random(member.shape) < np.where(member, 0.1 * math.e, 0.1)
        scores = JudgedScores(answers + 1e-6 * draws.random(member.shape), member)
        found.append(max(epsilon_shown(scores, level, 0.0) for level in LEVELS))
    assert 0.5 < np.mean(found) < max(found) <= 1
