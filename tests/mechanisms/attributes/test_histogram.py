"""Attributes for cases that were made of noisy answers."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.costs import Composed
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import ACTIVITY
from cloakwork.engines.measured import measured_of, released_cases
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Books, Gaussian, Kernel, NoisySums
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes import histogram
from cloakwork.mechanisms.attributes.contributions import TableLayout
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.tables import NoisyTables
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of
from mechanisms.attributes.enriching import (
    COLUMNS,
    DOMAINS,
    FACTS,
    MECHANISM,
    RANGES,
    enriched,
    offered,
    ordinary,
    params_of,
    released_of,
)


def moves(params):
    """What the plan's event says of one unit, as the square of a normal's move."""
    event = MECHANISM.step(params, FACTS).event
    return sum(times * (leaf.sensitivity / leaf.sigma) ** 2 for leaf, times in leaves_of(event))


def test_is_registered():
    found = catalogue()["attributes/histogram"]
    assert found.serves_parts


@pytest.mark.parametrize("max_cases", [1, 3, 1000])
@pytest.mark.parametrize("mu", [0.01, 0.3, 4.0])
def test_the_noise_tells_mu_and_no_more(mu, max_cases):
    assert mu**2 * (1 - 1e-6) < moves(params_of(mu, max_cases)) <= mu**2


def test_noise_is_coarse_whatever_mu():
    """The accountant charges a vector by its norm under coarse noise alone."""
    params = params_of(1e6)
    assert min(params.sigma, params.norms_sigma) > 1000
    assert moves(params) <= 1e12


def test_refusals():
    """What must be declared is named; nothing depends on a log."""
    refused = offered(columns=("role", "case:x", "y"))
    assert refused.kind == "needs"
    assert refused.needs == (
        "domain or range of 'case:x' under spec.attributes",
        "domain or range of 'y' under spec.attributes",
    )
    for columns in ((), (CONTROL_FLOW,), ("role", TIMESTAMPS)):
        assert offered(columns=columns).kind == "never"
    assert offered(no_such_option=1).kind == "misconfigured"
    goal = DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=("role",))
    assert isinstance(MECHANISM.offer(goal, FACTS, {}), Refusal)
    assert isinstance(offered(norms_share=0.1), Offer)
    nothing_left = offered(norms_share=0.5, structure_share=0.5)
    assert nothing_left.kind == "misconfigured"
    assert nothing_left.reason.startswith("options: norms_share and structure_share")


def test_lineage():
    lineage = MECHANISM.step(params_of(), Facts()).lineage
    assert lineage.measures == {CONTROL_FLOW, *COLUMNS}
    assert lineage.reads == {CONTROL_FLOW}
    assert lineage.writes == set(COLUMNS)
    assert lineage.enriches
    assert not lineage.generates


def kernel_for(log, params, seed=1, at_once=1 << 16, event=None):
    rows = CaseRows(tuple(sorted(COLUMNS))).of(log)
    noise = reproducible(seed)
    measured = replace(measured_of(rows, noise), at_once=at_once)
    event = event or MECHANISM.step(params, FACTS).event
    return Kernel(measured, Books.of(event), noise, params.max_cases)


BARE = released_of([("register", "treat", "pay"), ("register", "pay")], np.array([20, 10]))
RELEASED = released_cases(BARE, [CONTROL_FLOW])


def test_less_noise_or_a_question_more_is_refused():
    """The broken twins: half the noise, more cases a unit than planned, tables asked for twice."""
    params = params_of()
    event = MECHANISM.step(params, FACTS).event
    half = params.model_copy(update={"sigma": params.sigma / 2})
    more = params.model_copy(update={"max_cases": 2})
    for broken in (half, more):
        with pytest.raises(PlanUnsound):
            MECHANISM.enrich(broken, kernel_for(ordinary(), broken, event=event), RELEASED)
    kernel = kernel_for(ordinary(), params)
    MECHANISM.enrich(params, kernel, RELEASED)
    with pytest.raises(PlanUnsound):
        MECHANISM.enrich(params, kernel, RELEASED)
    without = Composed(events=event.events[1:])
    with pytest.raises(PlanUnsound):
        MECHANISM.enrich(params, kernel_for(ordinary(), params, event=without), RELEASED)


@pytest.mark.parametrize("at_once", [1, 4, 60])
def test_batches_change_nothing(at_once):
    params, log = params_of(), ordinary(90)
    whole = MECHANISM.enrich(params, kernel_for(log, params), RELEASED)
    parts = MECHANISM.enrich(params, kernel_for(log, params, at_once=at_once), RELEASED)
    for name, column in whole.columns.items():
        for field in ("codes", "values"):
            if hasattr(column, field):
                same = getattr(column, field), getattr(parts.columns[name], field)
                np.testing.assert_array_equal(*same)


def with_events(log, **columns):
    return replace(log, events=log.events.with_columns(**columns))


def missing_everywhere():
    log = ordinary(40)
    nulls = {name: pl.lit(None, pl.String) for name in COLUMNS}
    events = {name: each for name, each in nulls.items() if ":" not in name}
    of_cases = {name: each for name, each in nulls.items() if ":" in name}
    cases = log.cases.with_columns(**of_cases)
    return replace(with_events(log, **events), cases=cases)


LOGS = {
    "empty": log_of([]),
    "empty, with columns": ordinary().keep_cases(np.zeros(0, np.int64)),
    "without columns": log_of([["register", "pay"]] * 20),
    "without events": log_of([[]] * 9),
    "one case": ordinary(1),
    "missing everywhere": missing_everywhere(),
    "outside": with_events(ordinary(50), role=pl.lit("king"), cost=pl.lit(-1e300)),
    "other types": with_events(
        ordinary(50), role=pl.lit(5), cost=pl.lit("much"), urgent=pl.lit(2.5), score=pl.lit([1])
    ),
    "times": with_events(ordinary(50), role=pl.col("time:timestamp"), score=pl.lit(True)),
    "other activities": log_of([["sleep"] * 40] * 5),
    "a long case": log_of([["register"] * 20_000]),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("mu", [0.05, 5.0])
def test_every_log_gives_a_release(name, mu):
    """Of the declared domains and ranges, with as many rows as there were."""
    noise = reproducible(3)
    for released in (None, released_of([]), released_of([("new",)]), released_of([(), ("pay",)])):
        made = enriched(LOGS[name], noise, mu, released)
        for column in COLUMNS:
            table = made.cases if column.startswith("case:") else made.events
            values = table[column].drop_nulls()
            if column in DOMAINS:
                assert set(values.to_list()) <= set(DOMAINS[column])
            else:
                assert values.is_between(*RANGES[column]).all()


@pytest.mark.parametrize(
    ("domain", "released"),
    [
        ((5, "5", "x", 2.5, True, None, [1]), ["5", "5", "x", "2.5", "true", "[1]"]),
        ((1, None), [1]),
        ((None,), []),
        ((1, 2.5), [1.0, 2.5]),
    ],
)
def test_domains_of_several_types_are_released_as_text(domain, released):
    facts = Facts(domains={"role": domain})
    params = MECHANISM.offer_part(PartOfGoal(("role",), 0.1, 0.0), facts, {}).params
    log, noise = with_events(ordinary(90), role=pl.lit("x")), reproducible(1)
    made = run_step(MECHANISM, params, log, noise, facts, released=BARE)
    assert set(made.events["role"].drop_nulls().to_list()) <= set(released)


def test_a_column_of_text_here_and_numbers_there():
    """A value is read by itself: the numbers are found, and the others are missing."""
    log = ordinary(400)
    mixed = [f"{row % 3 * 10}" if row % 2 else "unknown" for row in range(400)]
    log = replace(log, cases=log.cases.with_columns(pl.Series("case:age", mixed)))
    made = enriched(log, reproducible(1), 20.0)
    shares = made.cases["case:age"].is_null().mean()
    assert 0.6 < shares < 0.75  # a half is unknown, and a sixth 0, which is not declared


def test_with_little_noise_the_release_is_like_the_log():
    log = ordinary(3000)
    made = enriched(log, reproducible(1), 20.0)
    events = made.events
    by = {a: events.filter(pl.col(ACTIVITY) == a) for a in ("register", "treat", "pay")}
    assert by["register"]["urgent"].null_count() == 0
    assert by["treat"]["urgent"].null_count() == len(by["treat"])
    assert by["register"]["urgent"].mean() == pytest.approx(0.25, abs=0.02)
    assert by["pay"]["cost"].null_count() == 0
    assert by["pay"]["cost"].median() == pytest.approx(np.exp(4), rel=0.3)
    assert made.cases["case:age"].null_count() == pytest.approx(75, abs=10)
    roles = events.with_columns(pl.Series("row", made.case_of)).group_by("row")
    assert roles.agg(pl.col("role").n_unique())["role"].max() == 1


def test_the_norm_follows_the_cases():
    """Small cases are not clipped to what a few large ones need."""
    norms = []
    for log in (ordinary(2000), log_of([["register"]] * 2000)):
        params = params_of(2.0)
        found = MECHANISM.enrich(params, kernel_for(log, params), RELEASED)
        norms.append(found.internal["norm of a case"])
    assert norms[0] > norms[1]
    empty = kernel_for(log_of([]), params_of())
    usual = MECHANISM.enrich(params_of(), empty, RELEASED).internal["norm of a case"]
    assert usual == histogram.USUAL_NORM


def test_bins_are_finer_where_a_log_is_large():
    """As far as noise lets know: two sums of money near to each other stay apart."""
    log = ordinary(3000)
    spiked = pl.when(pl.col("cost").is_not_null()).then(pl.lit(36.0)).alias("cost")
    log = replace(log, events=log.events.with_columns(spiked))
    near = {}
    for mu in (0.2, 20.0):
        cost = enriched(log, reproducible(1), mu).events["cost"].drop_nulls()
        near[mu] = cost.is_between(35.5, 36.9).mean()
    assert near[20.0] > 0.95
    assert near[0.2] < 0.2


def test_plans_of_many_attributes_are_quick():
    facts = Facts(domains={f"a{i}": tuple(map(str, range(500))) for i in range(40)})
    found = MECHANISM.offer_part(PartOfGoal(tuple(facts.domains), 0.2, 0.0), facts, {})
    assert len(found.params.attributes) == 40
    assert MECHANISM.step(found.params, facts).event


@pytest.mark.parametrize(("cases", "mu", "asked"), [(300, 0.2, False), (3000, 2.0, True)])
def test_tables_that_noise_would_hide_are_not_asked(monkeypatch, cases, mu, asked):
    """Of a small log the first tables are counted twice, with the noise that the plan lists: the
    kernel refuses any other question.
    """
    found = []

    def find_forest(*given):
        found.append(given)
        return []

    monkeypatch.setattr(histogram, "_find_forest", find_forest)
    release = enriched(ordinary(cases), reproducible(5), mu)
    assert bool(found) == asked
    assert set(COLUMNS) <= {*release.events.columns, *release.cases.columns}


def test_two_answers_are_one_with_less_noise():
    """Weighted by their precision: what is averaged has the deviation that it says."""
    attribute = MeasuredAttribute(name="case:x", domain=tuple(range(2000)))
    layout, noise = TableLayout((attribute,), ("a",)), reproducible(8)
    exact = Sums(np.zeros(0, np.int64), np.zeros(0, np.int64))
    answers = [(NoisySums(exact, Gaussian(sigma), noise), sigma) for sigma in (3e6, 4e6)]
    counted = NoisyTables(layout, answers, 1e-6).counted(0)
    assert counted.sigma == pytest.approx(2.4 / layout.weight(0))
    # Of 2,000 draws the deviation is known to 1.6 percent: this is six times that.
    assert counted.values.std() == pytest.approx(counted.sigma, rel=0.1)
