"""dfg/laplace: the graph that its release shows, what it costs, and what it refuses."""

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import NonPrivate
from cloakwork.base.facts import Facts, Unit
from cloakwork.evaluation.control_flow import directly_follows
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible, secret
from cloakwork_extras.dfg import MOST_ACTIVITIES, DfgLaplace
from measuring import release

DFG = DfgLaplace()
FACTS = Facts(alphabet=("a", "b", "c"), longest_case=4)


def offered(facts=FACTS, epsilon=1.0, delta=1e-3, **options):
    # Unchecked: some tests ask for more than a policy may.
    goal = DifferentialPrivacy.model_construct(
        kind="differential-privacy",
        epsilon=epsilon,
        delta=delta,
        over=("control-flow",),
        neighbours="unbounded",
    )
    return DFG.offer(goal, facts, options)


def histogram(rows):
    return pl.DataFrame(
        {"variant": list(map(list, rows)), "cases": list(rows.values())},
        schema=VARIANT_COUNTS_SCHEMA,
    )


def run(rows, params, noise=None):
    table = release(DFG, params, histogram(rows), noise or secret()).table
    return {tuple(variant): cases for variant, cases in table.rows()}


@pytest.mark.parametrize("facts", [Facts(alphabet=("a", "b", "c"), longest_case=40), Facts()])
def test_the_release_shows_the_graph(facts):
    """With next to no noise the graph comes back, though not the variants."""
    rows = {("a", "b", "a", "c"): 400, ("a", "b"): 200, ("c",): 400}
    found = run(rows, offered(facts, epsilon=500.0).params, reproducible(1))
    assert sum(found.values()) == 1000
    graph = directly_follows(rows)
    shown = directly_follows(found)
    assert shown.keys() == graph.keys()
    # Steps are drawn by their shares, with a rounding for each beginning that cases share.
    assert all(abs(shown[pair] - count) < 0.1 * count for pair, count in graph.items())


def test_long_cases_count_for_as_many_steps_as_asked():
    """Each of 50 cases counts its beginning in 5 draws of 401: 20 of them would with probability
    1e-25.
    """
    params = offered(Facts(alphabet=("a",), longest_case=500), epsilon=100.0, most_steps=5).params
    assert params.most_steps == 5
    assert params.sensitivity == 5
    few = release(DFG, params, histogram({("a",) * 400: 50}), secret())
    assert int(few.table["cases"].sum()) < 20
    assert offered(Facts(alphabet=("a",), longest_case=500)).params.most_steps == 21
    assert offered().params.most_steps == 5


@pytest.mark.parametrize(
    "facts", [FACTS, Facts(), Facts(unit=Unit(attribute="case:p", max_cases=3), longest_case=9)]
)
def test_costs_what_was_asked(facts):
    params = offered(facts, epsilon=0.3, delta=1e-5).params
    spent = cost(DFG.step(params, facts).event, 1e-5)
    assert 0.29 < spent.epsilon <= 0.3
    if facts.alphabet is None:
        lower = params.model_copy(update={"tau": params.tau - 1})
        assert cost(DFG.step(lower, facts).event, 1e-5).epsilon > 0.3
        assert isinstance(
            DFG.step(params.model_copy(update={"tau": params.sensitivity}), facts).event, NonPrivate
        )


@pytest.mark.parametrize(
    ("facts", "delta", "options", "words"),
    [
        (Facts(), 0.0, {}, "must be public"),
        (Facts(alphabet=tuple(map(str, range(3001)))), 0.0, {}, "at most 3,000"),
        (FACTS, 0.0, {"most_steps": 0}, "most_steps"),
    ],
)
def test_refusals_say_why(facts, delta, options, words):
    answer = offered(facts, delta=delta, **options)
    assert isinstance(answer, Refusal)
    assert words in answer.reason


@pytest.mark.parametrize(
    "rows", [{}, {("a",): 1}, {("z",): 3}, {(): 4}, {("a", "b", "c", "a", "b"): 1}]
)
@pytest.mark.parametrize("facts", [FACTS, Facts(), Facts(alphabet=())])
def test_nothing_aborts_on_data(rows, facts):
    """And cases are as long and as many as was declared."""
    bounded = facts.model_copy(update={"longest_case": 4, "units_at_most": 7})
    for seed in range(5):
        found = run(rows, offered(bounded, epsilon=0.05).params, reproducible(seed))
        assert all(1 <= len(variant) <= 4 for variant in found)
        assert sum(found.values()) <= 7


def test_many_activities_that_occur_end_in_the_most_frequent():
    """A log of more activities than a flow is made of is no reason to stop.

    Steps of 40 cases all pass a threshold of 24, at noise of scale 0.42, but for 1e-14.
    """
    rows = {(str(number),): 40 for number in range(MOST_ACTIVITIES)} | {("a", "b"): 90}
    params = offered(Facts(), epsilon=50.0).params
    found = run(rows, params)
    labels = {label for variant in found for label in variant}
    assert len(labels) == MOST_ACTIVITIES
    assert {"a", "b"} <= labels


def test_it_is_the_planners_last_choice():
    """Of all that release a control flow under differential privacy."""
    names = [name for name in catalogue() if name.startswith(("variants/", "dfg/"))]
    assert names[-1] == "dfg/laplace"


def test_a_flow_keeps_to_what_is_allowed():
    """Steps whose noisy count is too low have none in the flow, whatever balances it."""
    from cloakwork.mechanisms.variants.chain import fit_flow

    noisy = np.array([[100.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 90.0]])
    flow = fit_flow(noisy, np.zeros((3, 3)), 0.0, allowed=noisy > 0)
    assert ((flow > 0) == (noisy > 0)).all()
    assert flow[noisy > 0] == pytest.approx(83.33, abs=0.05)
