"""Sweeps: which settings they give, and what they refuse."""

import pytest

from cloakwork.api import load_policy
from cloakwork.errors import CloakworkError
from cloakwork.evaluation.sweeping import MOST_SETTINGS, read_sweep, settings_of, sweep_of


def test_several_sweeps_give_every_combination_in_order() -> None:
    """The last sweep changes fastest, and every value stands in the policy."""
    policy = load_policy("kanon-dp-timestamps")
    settings = settings_of([policy], [read_sweep("k=5,10"), read_sweep("shift=30m, 2h")])
    found = []
    for setting in settings:
        k_anonymity, metric = setting.policy.spec.guarantees
        found.append((k_anonymity.k, metric.shift.total_seconds() / 3600))
        assert metric.epsilon == 1.0
    assert found == [(5, 0.5), (5, 2.0), (10, 0.5), (10, 2.0)]
    assert settings[0].values == {"k": 5, "shift": "30m"}


def test_a_sweep_may_name_one_kind_of_guarantee() -> None:
    """Other guarantees that have the same number keep theirs."""
    policy = load_policy("kanon-dp-timestamps")
    (setting,) = settings_of([policy], [read_sweep("metric-privacy.epsilon=3")])
    assert setting.policy.spec.guarantees[1].epsilon == 3.0
    with pytest.raises(CloakworkError, match="no guarantee of these policies has 'epsilon'"):
        settings_of([policy], [read_sweep("local-dp.epsilon=3")])


def test_a_policy_without_the_number_stands_once() -> None:
    """A sweep must fit one policy at least, not all."""
    policies = [load_policy("kanon-control-flow"), load_policy("dp-control-flow")]
    settings = settings_of(policies, [read_sweep("k=5,10")])
    assert [dict(each.values) for each in settings] == [{"k": 5}, {"k": 10}, {}]
    assert settings[2].policy == policies[1]


def test_what_a_release_may_cost_is_left_open_where_costs_are_swept() -> None:
    """The dataset's total is not."""
    policy = load_policy("dp-control-flow")
    assert policy.spec.budget.release is not None
    (setting,) = settings_of([policy], [read_sweep("epsilon=2")])
    assert setting.policy.spec.budget.release is None
    assert setting.policy.spec.budget.total == policy.spec.budget.total


def test_a_guessing_advantage_takes_the_place_of_epsilon() -> None:
    """tanh(epsilon / 4) is the advantage, but for delta."""
    (setting,) = settings_of(
        [load_policy("dp-control-flow")], [read_sweep("guessing_advantage=.1")]
    )
    assert 0.1 < setting.policy.spec.guarantees[0].epsilon < 0.4014


def test_longer_names_stand_for_what_policies_write() -> None:
    """``confidence`` is C of a confidence bound."""
    assert sweep_of("confidence", [0.5]).field == "C"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("k", "must be NAME=VALUE"),
        ("k=", "must be NAME=VALUE"),
        ("=5", "must be NAME=VALUE"),
        ("kay=5", "no guarantee has it; there are C, K, L, delta"),
        ("anonymity.k=5", "is no kind of guarantee"),
        ("shift=1h", "no guarantee of these policies has 'shift'"),
        ("k=" + ",".join(map(str, range(2, MOST_SETTINGS + 3))), "13 settings are to be compared"),
    ],
)
def test_what_cannot_be_swept_is_one_line(text: str, says: str) -> None:
    """It names the sweep, and what would do."""
    with pytest.raises(CloakworkError, match=says) as refused:
        settings_of([load_policy("kanon-control-flow")], [read_sweep(text)])
    assert "\n" not in str(refused.value)


def test_the_same_sweep_twice_is_refused() -> None:
    """Which of both counts would be a guess."""
    sweeps = [read_sweep("k=5"), read_sweep("k=6")]
    with pytest.raises(CloakworkError, match="is given twice"):
        settings_of([load_policy("kanon-control-flow")], sweeps)


@pytest.mark.parametrize("value", ["1", "many", "-3", "2.5"])
def test_a_value_that_makes_no_policy_is_a_setting_that_says_why(value: str) -> None:
    """The other values are still compared."""
    settings = settings_of([load_policy("kanon-control-flow")], [read_sweep(f"k={value},7")])
    assert settings[0].policy is None
    assert "k must be" in settings[0].refused
    assert settings[1].policy is not None
