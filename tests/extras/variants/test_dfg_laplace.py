"""dfg/laplace: the graph that its release shows, what it costs, and what it refuses."""

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import NonPrivate
from cloakwork.base.facts import Facts, Unit
from cloakwork.evaluation.control_flow import directly_follows
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.chain import fit_flow
from cloakwork.noise import reproducible
from cloakwork_extras import dfg
from extras.variants.tried import FACTS, ROWS_OF_ODD_LOGS, Tried

DFG = Tried(dfg.DfgLaplace())


@pytest.mark.parametrize("facts", [Facts(alphabet=("a", "b", "c"), longest_case=40), Facts()])
def test_the_release_shows_the_graph(facts):
    """With next to no noise the graph comes back, though not the variants."""
    rows = {("a", "b", "a", "c"): 400, ("a", "b"): 200, ("c",): 400}
    found = DFG.released(rows, DFG.offered(facts, epsilon=500.0), reproducible(1))
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
    params = DFG.offered(Facts(alphabet=("a",), longest_case=500), epsilon=100.0, most_steps=5)
    assert params.most_steps == 5
    assert params.sensitivity == 5
    assert sum(DFG.released({("a",) * 400: 50}, params).values()) < 20
    assert DFG.offered(Facts(alphabet=("a",), longest_case=500)).most_steps == 21
    assert DFG.offered().most_steps == 5


@pytest.mark.parametrize(
    "facts", [FACTS, Facts(), Facts(unit=Unit(attribute="case:p", max_cases=3), longest_case=9)]
)
def test_costs_what_was_asked(facts):
    params = DFG.offered(facts, epsilon=0.3, delta=1e-5)
    assert 0.29 < cost(DFG.event(params, facts), 1e-5).epsilon <= 0.3
    if facts.alphabet is None:
        lower, revealing = (
            DFG.event(params.model_copy(update={"tau": tau}), facts)
            for tau in (params.tau - 1, params.sensitivity)
        )
        assert cost(lower, 1e-5).epsilon > 0.3
        assert isinstance(revealing, NonPrivate)


@pytest.mark.parametrize(
    ("facts", "delta", "options", "words"),
    [
        (Facts(), 0.0, {}, "must be public"),
        (Facts(alphabet=tuple(map(str, range(3001)))), 0.0, {}, "at most 3,000"),
        (FACTS, 0.0, {"most_steps": 0}, "most_steps"),
    ],
)
def test_refusals_say_why(facts, delta, options, words):
    DFG.refused(facts, delta, options, words)


@pytest.mark.parametrize("rows", ROWS_OF_ODD_LOGS)
@pytest.mark.parametrize("facts", [FACTS, Facts(), Facts(alphabet=())])
def test_nothing_aborts_on_data(rows, facts):
    """And cases are as long and as many as was declared."""
    bounded = facts.model_copy(update={"longest_case": 4, "units_at_most": 7})
    params = DFG.offered(bounded, epsilon=0.05)
    for seed in range(5):
        found = DFG.released(rows, params, reproducible(seed))
        assert all(1 <= len(variant) <= 4 for variant in found)
        assert sum(found.values()) <= 7


def test_many_activities_that_occur_end_in_the_most_frequent(monkeypatch):
    """A log of more activities than a flow is made of is no reason to stop.

    Steps of 40 cases all pass a threshold of 24, at noise of scale 0.42, but for 1e-15.
    """
    monkeypatch.setattr(dfg, "MOST_ACTIVITIES", 30)
    rows = {(str(number),): 40 for number in range(30)} | {("a", "b"): 90}
    found = DFG.released(rows, DFG.offered(Facts(), epsilon=50.0))
    labels = {label for variant in found for label in variant}
    assert len(labels) == 30
    assert {"a", "b"} <= labels


def test_it_is_the_planners_last_choice():
    """Of all that release a control flow under differential privacy."""
    names = [name for name in catalogue() if name.startswith(("variants/", "dfg/"))]
    assert names[-1] == "dfg/laplace"


def test_a_flow_keeps_to_what_is_allowed():
    """Steps whose noisy count is too low have none in the flow, whatever balances it."""
    noisy = np.array([[100.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 90.0]])
    flow = fit_flow(noisy, np.zeros((3, 3)), 0.0, allowed=noisy > 0)
    assert ((flow > 0) == (noisy > 0)).all()
    assert flow[noisy > 0] == pytest.approx(83.33, abs=0.05)
