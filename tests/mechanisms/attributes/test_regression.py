"""Attributes by noisy tables and a gradient step from them."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.costs import Composed
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.base.naming import ACTIVITY, values_of
from cloakwork.engines.measured import measured_of, released_cases
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.kernel import Books, Kernel
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.histogram import AttributesHistogram, AttributesRegression
from cloakwork.mechanisms.attributes.params import START_SHARE, AttributesHistogramParams
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of
from mechanisms.attributes.enriching import COLUMNS, FACTS, ordinary, released_of

MECHANISM = AttributesRegression()
BARE = released_of([("register", "treat", "pay"), ("register", "pay")], np.array([200, 100]))
RELEASED = released_cases(BARE, [CONTROL_FLOW])


def offered(mu: float = 1.0, facts: Facts = FACTS, **options: Any) -> Any:
    """What it offers for all attributes of the ordinary log."""
    return MECHANISM.offer_part(PartOfGoal(COLUMNS, mu, 0.0), facts, options)


def params_of(mu: float = 1.0, max_cases: int = 1, **options: Any) -> AttributesHistogramParams:
    """Its parameters."""
    found = offered(mu, FACTS.model_copy(update={"unit": Unit(max_cases=max_cases)}), **options)
    assert isinstance(found, Offer)
    return found.params


def moves(mechanism: AttributesHistogram, params: AttributesHistogramParams) -> float:
    """What the plan's event says of one unit, as the square of a normal's move."""
    event = mechanism.step(params, FACTS).event
    return sum(times * (leaf.sensitivity / leaf.sigma) ** 2 for leaf, times in leaves_of(event))


def kernel_for(log: EventLog, params: AttributesHistogramParams, event: Any = None) -> Kernel:
    """What measures ``log``."""
    noise = reproducible(1)
    seen = measured_of(CaseRows(tuple(sorted(COLUMNS))).of(log), noise)
    event = event or MECHANISM.step(params, FACTS).event
    return Kernel(seen, Books.of(event), noise, params.max_cases)


def test_is_registered() -> None:
    """As a part of a goal that enriches, and as nothing else."""
    found = catalogue()["attributes/regression"]
    assert found.serves_parts


@pytest.mark.parametrize("max_cases", [1, 1000])
@pytest.mark.parametrize("mu", [0.01, 4.0])
def test_the_noise_tells_mu_and_no_more(mu: float, max_cases: int) -> None:
    """All answers together."""
    assert mu**2 * (1 - 1e-6) < moves(MECHANISM, params_of(mu, max_cases)) <= mu**2


def test_tables_and_step_share_what_tables_alone_have() -> None:
    """Together they tell as much of values as the tables of attributes/histogram."""
    params = params_of()
    tables = AttributesHistogram().offer_part(PartOfGoal(COLUMNS, 1.0, 0.0), FACTS, {})
    assert isinstance(tables, Offer)
    assert tables.params.step_sigma is None
    assert params.values_sigma == pytest.approx(tables.params.values_sigma, rel=1e-9)
    assert params.sigma == pytest.approx(tables.params.sigma / START_SHARE**0.5, rel=1e-9)
    assert params_of(start_share=0.9).sigma < params.sigma


@pytest.mark.parametrize("options", [{"start_share": 1.0}, {"start_share": 0}, {"steps": 2}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    """A step without tables, tables without a step, and what it does not know."""
    found = offered(**options)
    assert isinstance(found, Refusal)
    assert found.kind == "misconfigured"


def test_less_noise_or_a_question_more_is_refused() -> None:
    """The broken twins: half the noise on a step, more cases a unit, a step that is not charged."""
    params = params_of()
    event = MECHANISM.step(params, FACTS).event
    assert isinstance(event, Composed)
    assert params.step_sigma is not None
    half = params.model_copy(update={"step_sigma": params.step_sigma / 2})
    more = params.model_copy(update={"max_cases": 2})
    for broken in (half, more):
        with pytest.raises(PlanUnsound):
            MECHANISM.enrich(broken, kernel_for(ordinary(30), broken, event), RELEASED)
    without = Composed(events=(*event.events[:2], *event.events[3:]))
    with pytest.raises(PlanUnsound):
        MECHANISM.enrich(params, kernel_for(ordinary(30), params, without), RELEASED)


LOGS = {
    "empty": log_of([]),
    "without columns": log_of([["register", "pay"]] * 20),
    "without events": log_of([[]] * 9),
    "one case": ordinary(1),
    "other activities": log_of([["sleep"] * 40] * 5),
    "a long case": log_of([["register"] * 2_000]),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("mu", [0.05, 5.0])
def test_every_log_gives_a_release(name: str, mu: float) -> None:
    """For any released cases, none among them."""
    noise, params = reproducible(3), params_of(mu)
    for released in (BARE, released_of([]), released_of([("new",)]), released_of([(), ("pay",)])):
        made = run_step(MECHANISM, params, LOGS[name], noise, FACTS, released=released)
        assert set(COLUMNS) <= {*made.events.columns, *made.cases.columns}


def test_with_little_noise_the_release_is_like_the_log() -> None:
    """Values by activity, and those that are missing."""
    made = run_step(
        MECHANISM, params_of(20.0), ordinary(3000), reproducible(1), FACTS, released=BARE
    )
    by = {
        label: made.events.filter(values_of(made.events, ACTIVITY) == label)
        for label in ("register", "treat", "pay")
    }
    assert by["register"]["urgent"].null_count() == 0
    assert by["treat"]["urgent"].null_count() == len(by["treat"])
    assert by["register"]["urgent"].mean() == pytest.approx(0.25, abs=0.02)
    assert made.cases["case:age"].null_count() == pytest.approx(75, abs=10)


def test_shares_are_nearer_than_those_of_tables_alone() -> None:
    """Where most cases have the usual value of each of many attributes, whose gradients are short:
    mean error of rare values over 24 attributes, at equal mu.
    """
    names = [f"is_{place}" for place in range(24)]
    facts = Facts(domains=dict.fromkeys(names, (True, False)))
    log = log_of([["register"]] * 600)
    random = np.random.default_rng(5)
    values = {name: pl.Series(random.random(600) < 0.1) for name in names}
    log = replace(log, events=log.events.with_columns(**values))
    released, noise = released_of([("register",)], np.array([600])), reproducible(7)
    apart: dict[str, list[float]] = {"tables": [], "step": []}
    for which, mechanism in (("tables", AttributesHistogram()), ("step", MECHANISM)):
        found = mechanism.offer_part(PartOfGoal(tuple(names), 0.25, 0.0), facts, {})
        assert isinstance(found, Offer)
        for _ in range(3):
            made = run_step(mechanism, found.params, log, noise, facts, released=released)
            apart[which] += [
                abs(_share(made.events[name]) - _share(values[name])) for name in names
            ]
    assert np.mean(apart["step"]) < 0.8 * np.mean(apart["tables"])


def _share(values: pl.Series) -> float:
    """How many are true."""
    return float(values.sum()) / len(values)
