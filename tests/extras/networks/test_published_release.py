"""What the published generative forms share: what is offered, what is missing without torch."""

import math
import sys
from typing import Any

import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import NonPrivate
from cloakwork.base.facts import Facts
from cloakwork.errors import MissingExtra
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.noise import reproducible
from cloakwork_extras.networks.published import VariantDdpmPublished, VariantTravagPublished
from measuring import kernel_on, release

BOTH = (VariantTravagPublished(), VariantDdpmPublished())
HISTOGRAM = pl.DataFrame({"variant": [["a"], ["a", "b"], ["b"]], "cases": [7, 5, 1]})


def goal(epsilon: float = 1.0, delta: float = 1e-4) -> DifferentialPrivacy:
    """Over the control flow."""
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


@pytest.mark.parametrize("mechanism", BOTH)
def test_what_is_offered_says_that_it_does_not_hold(mechanism: Any) -> None:
    """No epsilon bounds it, and the reason is one that a person can read."""
    answer = mechanism.offer(goal(), Facts(), {})
    assert isinstance(answer, Offer)
    assert "which does not hold: only variants of the source can be drawn" in answer.why
    event = mechanism.step(answer.params, Facts()).event
    assert isinstance(event, NonPrivate)
    assert cost(event, 1e-4).epsilon == math.inf
    assert not mechanism.step(answer.params, Facts()).lineage.measures


@pytest.mark.parametrize("mechanism", BOTH)
def test_goals_that_the_papers_do_not_reach_are_refused(mechanism: Any) -> None:
    """Without delta, or with an epsilon below what their accounting knows."""
    without = mechanism.offer(goal(delta=0.0), Facts(), {})
    assert isinstance(without, Refusal) and without.needs == ("guarantees[].delta",)
    tiny = mechanism.offer(goal(epsilon=0.01), Facts(), {})
    assert isinstance(tiny, Refusal) and "no epsilon below 0.018" in tiny.reason


@pytest.mark.parametrize("mechanism", BOTH)
def test_without_torch_there_is_one_clear_line(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error; no traceback. Planning asks for no torch: a plan is verified without it."""
    params = mechanism.offer(goal(), Facts(), {}).params
    monkeypatch.setitem(sys.modules, "torch", None)
    assert mechanism.offer(goal(), Facts(), {}).params == params
    kernel = kernel_on(HISTOGRAM, mechanism.step(params, Facts()).event, reproducible(1))
    with pytest.raises(MissingExtra, match=r"needs torch, .*cloakwork\[generative\]"):
        mechanism.measure(params, kernel)


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_run_with_a_seed_repeats_and_as_many_cases_as_there_are_come_out(mechanism: Any) -> None:
    """Of variants of the source alone; with another seed, others."""
    params = mechanism.offer(goal(), Facts(), {"epochs": 3}).params
    runs = [release(mechanism, params, HISTOGRAM, reproducible(seed)) for seed in (1, 1, 2, 3)]
    tables = [run.table.sort("variant") for run in runs]
    assert tables[0].equals(tables[1])
    assert not (tables[0].equals(tables[2]) and tables[0].equals(tables[3]))
    known = {tuple(variant) for variant in HISTOGRAM["variant"]}
    for run, table in zip(runs, tables, strict=True):
        assert table["cases"].sum() == 13
        assert {tuple(variant) for variant in table["variant"]} <= known
        assert run.internal["variants that can be drawn"] == 3
        assert isinstance(run.recorded, NonPrivate)


@pytest.mark.parametrize("mechanism", BOTH)
def test_nothing_and_a_single_variant_are_logs_too(mechanism: Any) -> None:
    """No case: none comes out. One variant: it comes out."""
    params = mechanism.offer(goal(), Facts(), {"epochs": 1}).params
    assert release(mechanism, params, HISTOGRAM.clear(), reproducible(1)).table.is_empty()
    single = release(mechanism, params, HISTOGRAM.head(1), reproducible(1))
    assert single.table.rows() == [(["a"], 7)]
