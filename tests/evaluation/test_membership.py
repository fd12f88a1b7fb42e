"""Who is in the log, by releases of random halves of it."""

import math
import os
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cloakwork
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import Lineage
from cloakwork.errors import LogError, MechanismError
from cloakwork.evaluation.bounds import JudgedScores
from cloakwork.evaluation.membership import (
    LEVELS,
    AttackedMechanism,
    LikelihoodRatios,
    ShadowRuns,
    SoughtSequences,
    attack_membership,
    attacked_plan,
    epsilon_shown,
    log_for,
    membership,
    shadow_runs,
    units_of,
)
from cloakwork.evaluation.risk_figures import ClaimedBound, MembershipFigures
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_policy
from cloakwork.testing.contract_logs import log_of
from conftest import ROOT

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
        "variants/ddpm-published", LOG, epsilon=1.0, delta=1e-3, runs=25, options=BRIEFLY
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


PLANNED_LOG = log_of(["ab"] * 40 + ["acb"] * 20)
SHIPPED = ROOT / "policies" / "dp-control-flow.yaml"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A shipped one that leaves little to choose."""
    text = SHIPPED.read_text("utf-8").replace("variants/*", "variants/threshold")
    path = tmp_path / "policy.yaml"
    path.write_text(text, "utf-8")
    return path


def test_a_plan_is_run_up_to_the_step_that_makes_the_cases(policy: Path) -> None:
    """What is added to cases afterwards tells nothing more that the attack looks at."""
    plan = make_plan(load_policy(policy))
    added = plan.steps[-1].model_copy(update={"mechanism": "no/such", "lineage": Lineage()})
    longer = plan.model_copy(update={"steps": (*plan.steps, added)})
    attacked = attacked_plan(longer, 1)
    assert attacked.name == "variants/threshold"
    assert attacked.claimed == ClaimedBound(epsilon=1.0, delta=1e-6)
    assert attacked.unit is None
    assert attacked.release(log_for(plan, PLANNED_LOG)).case_count > 0


def test_units_are_those_of_the_plan(policy: Path) -> None:
    """A person's cases are in or out together."""
    plan = make_plan(load_policy(policy))
    unit = Unit(attribute="case:row", max_cases=2)
    of_persons = plan.model_copy(update={"facts": plan.facts.model_copy(update={"unit": unit})})
    assert attacked_plan(of_persons, 1).unit == "case:row"


def test_the_attack_needs_no_ledger(policy: Path) -> None:
    """Figures beside the plan's claim."""
    plan = make_plan(load_policy(policy))
    found = membership(log_for(plan, PLANNED_LOG), attacked_plan(plan, 1), runs=20, targets=60)
    assert found.claimed == ClaimedBound(epsilon=1.0, delta=1e-6)
    assert (found.runs, found.judged, found.targets) == (20, 10, 60)


def test_a_plan_that_changes_the_cases_of_the_log_is_refused(policy: Path) -> None:
    """With what to do instead."""
    plan = make_plan(load_policy(policy)).model_copy(update={"steps": ()})
    with pytest.raises(MechanismError, match="makes no cases anew"):
        attacked_plan(plan, 1)


def test_without_a_plan_nothing_is_attacked(policy: Path, tmp_path: Path) -> None:
    """A release's plan goes before a policy's, which does as a file or as it was read."""
    with pytest.raises(LogError, match="no plan says how"):
        cloakwork.risk(PLANNED_LOG, membership=20)
    of_file, of_policy = (
        cloakwork.risk(PLANNED_LOG, policy=each, membership=20, targets=20)
        for each in (policy, load_policy(policy))
    )
    assert of_file == of_policy
    folder = tmp_path / "release"
    folder.mkdir()
    plan = make_plan(load_policy(policy)).model_copy(update={"steps": ()})
    (folder / "plan.json").write_text(plan.model_dump_json(), "utf-8")
    (folder / "log.csv").write_text("case:concept:name,concept:name\n1,a\n", "utf-8")
    with pytest.raises(MechanismError, match="makes no cases anew"):
        cloakwork.risk(PLANNED_LOG, folder, policy=policy, membership=20)


def test_statistics_are_those_of_the_release() -> None:
    """Counts and likelihoods, computed by hand; labels that the log has not are one more symbol."""
    log = log_of(["ab", "ac", "ab", "c"])
    released = log_of(["ab", "ab", "abz"])
    sought = SoughtSequences.of(log, np.arange(4), np.array([0, 3]))
    found = sought.statistics(released)
    # Symbols: a, b, c, another one, START, END.
    steps = Counter({("START", "a"): 3, ("a", "b"): 3, ("b", "END"): 2, ("b", "z"): 1})

    def likelihood(source: str, target: str) -> float:
        leaving = sum(count for (each, _), count in steps.items() if each == source)
        return math.log((steps[source, target] + 0.5) / (leaving + 6 * 0.5))

    def row(sequence: str, count: int) -> list[float]:
        path = ["START", *sequence, "END"]
        pairs = list(pairwise(path))
        mean_count = np.mean([math.log1p(steps[pair]) for pair in pairs])
        return [math.log1p(count), mean_count, np.mean([likelihood(*pair) for pair in pairs])]

    assert found == pytest.approx(np.array([row("ab", 2), row("c", 0)]))


def test_an_empty_release_shows_nothing() -> None:
    log = log_of(["ab", "c"])
    found = SoughtSequences.of(log, np.arange(2), np.arange(2)).statistics(EventLog.empty())
    assert found[:, :2].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert found[:, 2] == pytest.approx(math.log(1 / 6))


def test_units_are_in_or_out_with_all_their_cases() -> None:
    """Each about half of the time, and what is noted is what the release was made of."""
    log = log_of(["a", "b", "c", "d", "e"])
    unit = np.array([0, 1, 0, 2, 1])
    seen: list[set[str]] = []

    def release(half: EventLog) -> EventLog:
        seen.append(set(half.cases[CASE_ID].to_list()))
        return half

    runs = shadow_runs(log, unit, np.array([0, 1, 2]), release, 200, 1)
    cases = [{"case 0", "case 2"}, {"case 1", "case 4"}, {"case 3"}]
    for run, held in enumerate(seen):
        for target, own in enumerate(cases):
            assert (own <= held) == runs.member[run, target]
            assert (own & held == set()) != runs.member[run, target]
    assert (np.abs(runs.member.mean(axis=0) - 0.5) < 0.2).all()
    # Released as they are: the statistic of a unit is the mean over its cases.
    assert runs.statistics[:, 2, 0] == pytest.approx(math.log(2) * runs.member[:, 2])


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


scored = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=12, max_size=12).filter(
    lambda cells: len({member for _, member in cells}) == 2
)


def judged(cells: list[tuple[int, bool]]) -> JudgedScores:
    """Four releases of three targets."""
    scores = np.array([score for score, _ in cells], np.float64).reshape(4, 3)
    return JudgedScores(scores, np.array([member for _, member in cells]).reshape(4, 3))


@given(scored)
def test_the_area_is_the_chance_that_a_member_scores_higher(cells: list[tuple[int, bool]]) -> None:
    inside = [score for score, member in cells if member]
    outside = [score for score, member in cells if not member]
    wins = [(a > b) + (a == b) / 2 for a, b in product(inside, outside)]
    area = judged(cells).area()
    assert area.share == pytest.approx(np.mean(wins))
    assert 0 <= area.low <= area.share <= area.high <= 1


@given(scored, st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]))
def test_no_more_false_alarms_than_asked_for(cells: list[tuple[int, bool]], at_most: float) -> None:
    """And the rates are shares of the members and of the others."""
    found = judged(cells)
    threshold = found.threshold(at_most)
    false, true = found.rates(threshold)
    assert false.share <= at_most
    inside = [score > threshold for score, member in cells if member]
    assert true.share == pytest.approx(np.mean(inside))


@given(scored)
def test_a_curve_rises_from_nothing_to_everything(cells: list[tuple[int, bool]]) -> None:
    points = judged(cells).curve()
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (1.0, 1.0)
    assert all(x <= u and y <= v for (x, y), (u, v) in pairwise(points))


def test_bounds_allow_for_what_releases_have_in_common() -> None:
    """Where all targets of a release score alike, there are as many trials as releases."""
    draws = np.random.default_rng(1)
    member = draws.random((100, 400)) < 0.5
    apart = JudgedScores(draws.normal(size=(100, 400)), member)
    together = JudgedScores(np.repeat(draws.normal(size=(100, 1)), 400, axis=1), member)

    def width(scores: JudgedScores) -> float:
        _, true = scores.rates(scores.threshold(0.1))
        return true.high - true.low

    assert width(apart) < 0.01
    assert width(together) > 0.1


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_bounds_hold_the_true_figures(shift: float) -> None:
    """On normal scores, whose area is known: in 100 experiments at 95 % the bounds hold in at
    least 85 (fewer come by chance with probability below 1e-4).
    """
    draws = np.random.default_rng(2)
    true_area = {0.0: 0.5, 1.0: 0.7602499389065233}[shift]
    held = 0
    for _ in range(100):
        member = draws.random((30, 20)) < 0.5
        shared = draws.normal(size=(30, 1)) * 0.01
        area = JudgedScores(draws.normal(size=(30, 20)) + shared + shift * member, member).area()
        held += area.low <= true_area <= area.high
    assert held >= 85
