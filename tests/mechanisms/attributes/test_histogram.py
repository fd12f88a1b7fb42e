"""Attributes for cases that were made of noisy answers: by tables, and by a gradient step."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.costs import Composed, EpsilonDelta
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import ACTIVITY, values_of
from cloakwork.engines.measured import measured_cases, released_cases
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Books, Gaussian, Kernel, NoisySums, vectors_of
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes import histogram
from cloakwork.mechanisms.attributes import histogram as found_values
from cloakwork.mechanisms.attributes.contributions import UNIT_NORM, TableLayout
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.histogram import (
    CLIP,
    LONGEST,
    MOST_OF_A_CASE,
    START_SHARE,
    AttributesRegression,
    find_values,
    least_sum,
)
from cloakwork.mechanisms.attributes.tables import NoisyTables
from cloakwork.mechanisms.base import PartOfGoal, Refusal
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of
from conftest import in_long_form
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

STEP = AttributesRegression()
BOTH = pytest.mark.parametrize("mechanism", [MECHANISM, STEP], ids=["tables", "step"])
BARE = released_of([("register", "treat", "pay"), ("register", "pay")], np.array([20, 10]))
RELEASED = released_cases(BARE, [CONTROL_FLOW])


# What is offered, and what it costs.


def moves(mechanism, params):
    """What the plan's event says of one unit, as the square of a normal's move."""
    event = mechanism.step(params, FACTS).event
    return sum(times * (leaf.sensitivity / leaf.sigma) ** 2 for leaf, times in leaves_of(event))


@BOTH
@pytest.mark.parametrize("max_cases", [1, 3, 1000])
@pytest.mark.parametrize("mu", [0.01, 0.3, 4.0])
def test_the_noise_tells_mu_and_no_more(mechanism, mu, max_cases):
    params = params_of(mu, max_cases, mechanism=mechanism)
    assert mu**2 * (1 - 1e-6) < moves(mechanism, params) <= mu**2


def test_noise_is_coarse_whatever_mu():
    """The accountant charges a vector by its norm under coarse noise alone."""
    params = params_of(1e6)
    assert min(params.sigma, params.norms_sigma) > 1000
    assert moves(MECHANISM, params) <= 1e12


def test_tables_and_step_share_what_tables_alone_have():
    """Together they tell as much of values as the tables of attributes/histogram."""
    tables, both = params_of(), params_of(mechanism=STEP)
    assert tables.step_sigma is None
    assert both.values_sigma == pytest.approx(tables.values_sigma, rel=1e-9)
    assert both.sigma == pytest.approx(tables.sigma / START_SHARE**0.5, rel=1e-9)


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
    goal = DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=("role",))
    assert isinstance(MECHANISM.offer(goal, FACTS, {}), Refusal)


def test_lineage():
    lineage = MECHANISM.step(params_of(), Facts()).lineage
    assert lineage.measures == {CONTROL_FLOW, *COLUMNS}
    assert lineage.reads == {CONTROL_FLOW}
    assert lineage.writes == set(COLUMNS)
    assert lineage.enriches
    assert not lineage.generates


def test_plans_of_many_attributes_are_quick():
    facts = Facts(domains={f"a{i}": tuple(map(str, range(500))) for i in range(40)})
    found = MECHANISM.offer_part(PartOfGoal(tuple(facts.domains), 0.2, 0.0), facts, {})
    assert len(found.params.attributes) == 40
    assert MECHANISM.step(found.params, facts).event


# What is asked.


def kernel_for(log, params, event=None, mechanism=MECHANISM):
    noise = reproducible(1)
    seen = measured_cases(log, CaseRows(tuple(sorted(COLUMNS))), noise)
    event = event or mechanism.step(params, FACTS).event
    return Kernel(seen, Books.of(event), noise, params.max_cases)


@BOTH
def test_less_noise_or_a_question_more_is_refused(mechanism):
    """The broken twins: half the noise, more cases a unit than planned, an answer that is not
    charged, tables asked for twice.
    """
    params, log = params_of(mechanism=mechanism), ordinary(30)
    event = mechanism.step(params, FACTS).event
    last = "sigma" if params.step_sigma is None else "step_sigma"
    half = params.model_copy(update={last: getattr(params, last) / 2})
    more = params.model_copy(update={"max_cases": 2})
    left_out = Composed(events=(*event.events[:2], *event.events[3:]))
    for broken, charged in ((half, event), (more, event), (params, left_out)):
        with pytest.raises(PlanUnsound):
            mechanism.enrich(broken, kernel_for(log, broken, charged, mechanism), RELEASED)
    kernel = kernel_for(log, params, event, mechanism)
    mechanism.enrich(params, kernel, RELEASED)
    with pytest.raises(PlanUnsound):
        mechanism.enrich(params, kernel, RELEASED)


@pytest.mark.parametrize(("cases", "mu", "asked"), [(300, 0.2, False), (1000, 4.0, True)])
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


# What is released.


def with_events(log, **columns):
    return replace(log, events=log.events.with_columns(**columns))


LOGS = {
    "empty": lambda: log_of([]),
    "one case": lambda: ordinary(1),
    "outside": lambda: with_events(ordinary(50), role=pl.lit("king"), cost=pl.lit(-1e300)),
    "other types": lambda: with_events(
        ordinary(50), role=pl.lit(5), cost=pl.lit("much"), urgent=pl.lit(2.5), score=pl.lit([1])
    ),
    "times": lambda: with_events(ordinary(50), role=pl.col("time:timestamp"), score=pl.lit(True)),
}


@BOTH
@pytest.mark.parametrize("name", LOGS)
def test_what_is_released_is_declared(name, mechanism):
    """Whatever the log holds, and whatever cases are given values."""
    noise, log = reproducible(3), LOGS[name]()
    others = released_of([("new",), (), ("pay",)])
    for mu, released in ((0.05, None), (5.0, others), (5.0, released_of([]))):
        made = enriched(log, noise, mu, released, mechanism=mechanism)
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


@cache
def large():
    return ordinary(3000)


@BOTH
def test_with_little_noise_the_release_is_like_the_log(mechanism):
    """Values by activity, those that are missing, and a value that its case keeps."""
    made = enriched(large(), reproducible(1), 20.0, mechanism=mechanism)
    events = made.events
    by = {a: events.filter(values_of(events, ACTIVITY) == a) for a in ("register", "treat", "pay")}
    assert by["register"]["urgent"].null_count() == 0
    assert by["treat"]["urgent"].null_count() == len(by["treat"])
    assert by["register"]["urgent"].mean() == pytest.approx(0.25, abs=0.02)
    assert by["pay"]["cost"].null_count() == 0
    assert by["pay"]["cost"].median() == pytest.approx(np.exp(4), rel=0.3)
    assert made.cases["case:age"].null_count() == pytest.approx(75, abs=10)
    roles = events.with_columns(pl.Series("row", made.case_of)).group_by("row")
    assert roles.agg(pl.col("role").n_unique())["role"].max() == 1


WINDING = released_of(
    [("register", "register", "treat", "pay"), ("pay", "treat", "treat", "register")],
    np.array([60, 40]),
)
"""Cases whose order no case of the log has, with activities that come twice."""


def most_values_of_a_case(mechanism, mu, seed):
    """Of ``role``, a text, and ``cost``, a number, that never change within a case of the log; and
    of ``score``, which does.
    """
    log = ordinary(400)
    cost = pl.Series((log.case_of * 37 % 1000).astype(float))
    made = enriched(with_events(log, cost=cost), reproducible(seed), mu, WINDING, mechanism)
    by_case = made.events.with_columns(pl.Series("row", made.case_of)).group_by("row")
    names = ("role", "cost", "score")
    found = by_case.agg(pl.col(name).drop_nulls().n_unique() for name in names)
    return tuple(found[name].max() for name in names)


@BOTH
@pytest.mark.parametrize("mu", [0.05, *in_long_form(0.3, 1.0, 5.0), 20.0])
def test_what_never_changes_in_a_case_never_changes_in_a_released_one(mechanism, mu):
    """However large the noise; what changes is seen to change where noise lets that show."""
    for seed in range(3):
        role, cost, score = most_values_of_a_case(mechanism, mu, seed)
        assert role <= 1
        assert cost <= 1
        assert score > 1 or mu < 1


def test_an_attribute_that_is_drawn_event_by_event_changes_in_a_case(monkeypatch):
    """The broken twin takes no attribute for constant."""
    monkeypatch.setattr(histogram, "with_copies", lambda drawn, cases: drawn)
    assert most_values_of_a_case(STEP, 20.0, 0)[:2] > (1, 1)


def test_a_step_finds_shares_that_are_nearer_than_those_of_tables_alone():
    """Where most cases have the usual value of each of many attributes, whose gradients are short:
    mean error of rare values over 24 attributes, at equal mu.
    """
    names = [f"is_{place}" for place in range(24)]
    facts = Facts(domains=dict.fromkeys(names, (True, False)))
    random = np.random.default_rng(5)
    values = {name: pl.Series(random.random(600) < 0.1) for name in names}
    log = with_events(log_of([["register"]] * 600), **values)
    released, noise = released_of([("register",)], np.array([600])), reproducible(7)
    apart = []
    for mechanism in (MECHANISM, STEP):
        params = mechanism.offer_part(PartOfGoal(tuple(names), 0.25, 0.0), facts, {}).params
        made = [run_step(mechanism, params, log, noise, facts, released=released) for _ in "ab"]
        apart.append(
            np.mean(
                [
                    abs(each.events[name].sum() - values[name].sum()) / 600
                    for each in made
                    for name in names
                ]
            )
        )
    assert apart[1] < 0.8 * apart[0]


def test_the_norm_follows_the_cases():
    """Small cases are not clipped to what a few large ones need."""
    params = params_of(2.0)
    logs = ordinary(1000), log_of([["register"]] * 1000), log_of([])
    large, small, none = (
        MECHANISM.enrich(params, kernel_for(log, params), RELEASED).internal["norm of a case"]
        for log in logs
    )
    assert large > small
    assert none == histogram.USUAL_NORM


def test_bins_are_finer_where_a_log_is_large():
    """As far as noise lets know: two sums of money near to each other stay apart."""
    spiked = pl.when(pl.col("cost").is_not_null()).then(pl.lit(36.0))
    log = with_events(large(), cost=spiked)
    near = {}
    for mu in (0.2, 20.0):
        found = enriched(log, reproducible(1), mu).events["cost"].drop_nulls()
        near[mu] = found.is_between(35.5, 36.9).mean()
    assert near[20.0] > 0.95
    assert near[0.2] < 0.2


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


# Values that are found in the log through noise, and what is never told.


TO_FIND = Facts(found={"drug": "text", "case:ward": "integer"})
FOUND = tuple(TO_FIND.found)
DELTA = 1e-6


def log_with(drugs, wards=()):
    """A case for each entry of ``drugs``, which lists the values of its events."""
    log = log_of([["a"] * len(drug) for drug in drugs])
    ward = pl.Series("case:ward", [*wards, *[None] * (len(drugs) - len(wards))], pl.String)
    drug = pl.Series("drug", [value for each in drugs for value in each], pl.String)
    return replace(log, events=log.events.with_columns(drug), cases=log.cases.with_columns(ward))


def seen(log):
    return measured_cases(log, CaseRows(tuple(sorted(FOUND))), reproducible(1))


def searching(mu=1.0, max_cases=1, delta=DELTA, facts=TO_FIND):
    facts = facts.model_copy(update={"unit": Unit(max_cases=max_cases)})
    return MECHANISM.offer_part(PartOfGoal(FOUND, mu, delta), facts, {}).params


def found(log, name, params, least=None):
    event = MECHANISM.step(params, TO_FIND).event
    kernel = Kernel(seen(log), Books.of(event), reproducible(1), params.max_cases)
    (attribute,) = (each for each in params.attributes if each.name == name)
    selection = params.selection
    return find_values(attribute, kernel, selection.sigma, least or selection.least).domain


def test_values_of_many_cases_are_found_with_their_type():
    """Of whole numbers as such; what no list holds, or is as long as free text, is not told."""
    long = "x" * (LONGEST + 1)
    drugs = [["b", "b", "a"], [long], ["", "a"], [None, "c" * LONGEST]] * 400
    log, params = log_with(drugs, ["7", "-12", "007", "7.5"] * 400), searching()
    assert found(log, "drug", params) == ("a", "b", "c" * LONGEST)
    assert found(log, "case:ward", params) == (-12, 7)


def test_the_threshold_keeps_what_one_unit_alone_has():
    """However often it has it; the delta that is charged for this is no more than was given."""
    drugs = [["common"]] * 200 + [["secret"] * 500]
    assert found(log_with(drugs), "drug", searching(mu=50.0)) == ("common",)
    for max_cases, delta in ((1, 1e-6), (3, 1e-9)):
        event = MECHANISM.step(searching(0.3, max_cases, delta), TO_FIND).event
        spent = sum(each.delta for each in event.events if isinstance(each, EpsilonDelta))
        assert 0.9 * delta < spent <= delta


def test_a_threshold_within_one_unit_is_refused():
    """The kernel answers no selection that hides nothing, nor one with a lower threshold than the
    plan charges for.
    """
    params = searching()
    for least in (UNIT_NORM // 2, params.selection.least - UNIT_NORM):
        with pytest.raises(PlanUnsound):
            found(log_with([["a"]]), "drug", params, least)


def told(least, sigma, runs=40_000):
    """How often a value of one case alone, which has nothing else, reaches ``least``."""
    drawn = Gaussian(sigma).draw(reproducible(3), runs)
    return float((UNIT_NORM + drawn >= least).mean())


def test_a_value_of_one_case_is_told_with_delta_at_most():
    """At a delta that shows: over eight values of a case, each of all its weight, at most; a
    threshold that forgets the case's own weight tells it too often.
    """
    sigma, delta = 2.0 * UNIT_NORM, 0.04
    least = least_sum(sigma, delta, 1)
    assert told(least, sigma) <= delta / MOST_OF_A_CASE * 1.3
    assert told(least - UNIT_NORM, sigma) > delta / MOST_OF_A_CASE * 1.3


def test_a_case_counts_for_norm_one_whatever_it_holds():
    """Its vector follows from it alone, whatever cases lie beside it."""
    drugs = [[f"v{value}" for value in range(size)] for size in (1, 2, 8, 40)] + [[None], ["v1"]]
    query = found_values._values_of("drug", "text")
    cases = seen(log_with(drugs)).cases
    vectors = vectors_of(cases, query, CLIP, "drug")
    norms = np.sqrt(np.bincount(vectors.case, vectors.value.astype(float) ** 2, len(drugs)))
    sizes = np.bincount(vectors.case, minlength=len(drugs))
    assert norms.max() <= UNIT_NORM
    assert sorted(sizes.tolist()) == [0, 1, 1, 2, MOST_OF_A_CASE, MOST_OF_A_CASE]
    for row in range(len(drugs)):
        alone = vectors_of(cases.take(np.array([row])), query, CLIP, "drug")
        of_row = vectors.value[vectors.case == row]
        assert sorted(alone.value.tolist()) == sorted(of_row.tolist())


@pytest.mark.parametrize("drugs", [[], [[None]], [["secret"]]])
def test_where_nothing_is_found_all_is_missing(drugs):
    """An empty log, one case, missing everywhere."""
    released = released_cases(released_of([("a", "a")], np.array([20])), [CONTROL_FLOW])
    params = searching()
    books = Books.of(MECHANISM.step(params, TO_FIND).event)
    kernel = Kernel(seen(log_with(drugs)), books, reproducible(1), 1)
    columns = MECHANISM.enrich(params, kernel, released).columns
    assert columns["drug"].domain == columns["case:ward"].domain == ()
    assert (columns["drug"].codes == -1).all()


@pytest.mark.parametrize(
    ("delta", "unit", "reason"),
    [
        (0.0, Unit(), "to find values takes a delta above 0"),
        (DELTA, Unit(attribute="case:ward", max_cases=2), "'case:ward' says who is protected"),
    ],
)
def test_values_that_cannot_be_found(delta, unit, reason):
    """Of the unit's attribute none is measured: what were drawn would be noise, or persons."""
    facts = TO_FIND.model_copy(update={"unit": unit})
    refused = MECHANISM.offer_part(PartOfGoal(FOUND, 1.0, delta), facts, {})
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith(reason)


def test_what_is_declared_is_not_searched_for():
    """And costs what it cost before there was a search."""
    params = searching(facts=Facts(domains={"drug": ("a",), "case:ward": (1, 2)}))
    assert params.selection is None
    assert "selection" not in params.model_dump()
    declared = MeasuredAttribute(name="drug", domain=("a",))
    assert find_values(declared, None, 1.0, 1) is declared
