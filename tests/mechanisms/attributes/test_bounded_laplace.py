"""Bounded noise on numbers: offers, edges of the range, and values that are no numbers."""

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import LocalDP
from cloakwork.mechanisms.attributes.local import BoundedLaplace, LocalAttribute, LocalParams
from cloakwork.mechanisms.base import Refusal
from cloakwork.noise import reproducible
from contracts.sample_logs import log_of

MECHANISM = BoundedLaplace()
FACTS = Facts(ranges={"dose": (-5.0, 15.0)})


def params_of(epsilon):
    """For one value at ``epsilon``."""
    goal = LocalDP(kind="local-dp", epsilon=epsilon, over=("dose",))
    return MECHANISM.offer(goal, FACTS, {}).params


def released(doses, epsilon, seed=1):
    """The noisy values of events with these doses."""
    log = log_of(["a"] * len(doses))
    events = log.events.with_columns(pl.Series("dose", doses))
    log = type(log)(events, log.cases, log.offsets)
    return run_step(MECHANISM, params_of(epsilon), log, reproducible(seed)).events["dose"]


def test_numbers_stay_inside_their_range():
    """However little epsilon; a great one leaves numbers as they are, within a step."""
    found = released([-99.0, 3.25, 99.0, None] * 200, 0.01).drop_nulls()
    assert -5 <= found.min() <= found.max() <= 15
    found = released([-99.0, 3.25, 99.0] * 50, 100.0).to_numpy()
    assert np.abs(found - np.array([-5, 3.25, 15] * 50)).max() < 20


def test_noise_is_of_the_width_that_epsilon_says():
    """Half of epsilon for the number: far from the ends, the mean deviation is the range over it,
    to 5 %.
    """
    found = released([5.0] * 20_000, 40.0).drop_nulls().to_numpy()
    assert np.abs(found - 5).mean() == pytest.approx(20 / 20, rel=0.05)


@pytest.mark.parametrize("doses", [["3", "x"], [None, None], [[1], [2]], [True, False]])
def test_whatever_the_log_holds_there_is_a_release(doses):
    """Text, nothing, lists and truth values: missing, or what number they spell."""
    found = released(doses * 100, 2.0)
    assert found.dtype == pl.Float64
    assert 0 < found.null_count() < 200


def test_refusals():
    """No range, and parameters that do not fit each other."""
    goal = LocalDP(kind="local-dp", epsilon=1.0, over=("other",))
    answer = MECHANISM.offer(goal, FACTS, {})
    assert isinstance(answer, Refusal)
    assert answer.needs == ("attributes['other'].range",)
    dose = LocalAttribute(name="dose", range=(0, 1))
    for wrong in (
        lambda: LocalAttribute(name="dose"),
        lambda: LocalAttribute(name="dose", domain=()),
        lambda: LocalAttribute(name="dose", range=(1, 1)),
        lambda: LocalParams(attributes=(dose, dose), epsilon=1.0),
        lambda: LocalParams(attributes=(dose,), epsilon=1.0, per="case"),
    ):
        with pytest.raises(ValueError, match=r"dose|twice|longest_case"):
            wrong()


def test_whole_numbers_stay_whole():
    """Where the policy says that they are; days and times have no noise of this kind."""
    goal = LocalDP(kind="local-dp", epsilon=2.0, over=("dose",))
    facts = FACTS.model_copy(update={"types": {"dose": "integer"}})
    params = MECHANISM.offer(goal, facts, {}).params
    log = log_of(["a"] * 50)
    log = type(log)(log.events.with_columns(dose=pl.Series([7] * 50)), log.cases, log.offsets)
    found = run_step(MECHANISM, params, log, reproducible(3)).events["dose"]
    assert found.dtype == pl.Int64
    assert -5 <= found.min() < found.max() <= 15
    days = FACTS.model_copy(update={"types": {"dose": "date"}})
    assert isinstance(MECHANISM.offer(goal, days, {}), Refusal)
