"""Noise on single values: randomised response over domains, bounded noise on numbers."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork import apply, load_policy, make_plan, publish, verify
from cloakwork.base.facts import Facts
from cloakwork.errors import PlanImpossible
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import LocalDP
from cloakwork.mechanisms.attributes.local import (
    BoundedLaplace,
    LocalAttribute,
    LocalParams,
    RandomisedResponse,
)
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.noise import reproducible
from cloakwork.run.run import Run
from contracts.sample_logs import log_of

RESPONSE, BOUNDED = RandomisedResponse(), BoundedLaplace()
LISTED = Facts(domains={"drug": ("a", "b"), "case:ward": (1, 2, 3)}, longest_case=4)
RANGED = Facts(ranges={"dose": (-5.0, 15.0)})
POLICY = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: local, version: 1.0.0, owner: o, purpose: p, dataset: d}
spec:
  unit: case
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "drug": {role: sensitive, domain: [a, b]}
    "case:dose": {role: sensitive, range: [0, 10]}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 2, over: [control-flow], scope: variants}
    - {kind: local-dp, epsilon: 1.0, over: [drug], per: VALUE}
    - {kind: local-dp, epsilon: 2.0, over: ["case:dose"], per: case}
  mechanisms: {parameters: {kanon/optimal: {seconds: 0.1}}}
  budget: {total: {epsilon: 8.0}}
  output: {format: xes.gz}
"""


def goal(*over, per="value", epsilon=1.0):
    return LocalDP(kind="local-dp", epsilon=epsilon, over=over, per=per)


def with_values(name, values):
    """A log of one event a case, with these values of an attribute; None: without it."""
    log = log_of(["a"] * (300 if values is None else len(values)))
    if values is None:
        return log
    return replace(log, events=log.events.with_columns(pl.Series(name, values)))


def released(values, epsilon, facts=RANGED, seed=1):
    """The noisy values of ``drug`` or ``dose``, whichever the facts are of."""
    mechanism, name = (BOUNDED, "dose") if facts.ranges else (RESPONSE, "drug")
    params = mechanism.offer(goal(name, epsilon=epsilon), facts, {}).params
    log = with_values(name, values)
    return run_step(mechanism, params, log, reproducible(seed)).events[name]


def test_offers():
    """The whole of epsilon for one value, a share for each value of a case."""
    offer = RESPONSE.offer(goal("drug", "case:ward"), LISTED, {})
    assert isinstance(offer, Offer)
    assert offer.params.epsilon == 1.0
    offer = RESPONSE.offer(goal("drug", "case:ward", per="case"), LISTED, {})
    assert offer.params.epsilon == pytest.approx(1 / 5)
    assert RESPONSE.offer(goal("case:ward", per="case"), Facts(domains=LISTED.domains), {}).params


DATES = RANGED.model_copy(update={"types": {"dose": "date"}})


@pytest.mark.parametrize(
    ("mechanism", "asked", "facts", "options", "kind"),
    [
        (RESPONSE, goal("drug"), Facts(), {}, "needs"),
        (RESPONSE, goal("drug", per="case"), Facts(domains=LISTED.domains), {}, "needs"),
        (RESPONSE, goal("control-flow"), LISTED, {}, "never"),
        (RESPONSE, goal("drug"), LISTED, {"p": 0.5}, "misconfigured"),
        (BOUNDED, goal("other"), RANGED, {}, "needs"),
        (BOUNDED, goal("dose"), DATES, {}, "needs"),
    ],
)
def test_refusals(mechanism, asked, facts, options, kind):
    """What is not public, not an attribute, or not known; days have no noise of this kind."""
    answer = mechanism.offer(asked, facts, options)
    assert isinstance(answer, Refusal)
    assert answer.kind == kind
    assert bool(answer.needs) == (kind == "needs")


DOSE = LocalAttribute(name="dose", range=(0, 1))


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (LocalAttribute, {"name": "dose"}),
        (LocalAttribute, {"name": "dose", "domain": ()}),
        (LocalAttribute, {"name": "dose", "range": (1, 1)}),
        (LocalParams, {"attributes": (DOSE, DOSE), "epsilon": 1.0}),
        (LocalParams, {"attributes": (DOSE,), "epsilon": 1.0, "per": "case"}),
    ],
)
def test_parameters_that_do_not_fit_each_other(model, fields):
    with pytest.raises(ValueError, match=r"dose|twice|longest_case"):
        model(**fields)


@pytest.mark.parametrize(
    "drugs", [None, [None] * 300, ["a", "b", "other"] * 100, [1, 2, 3] * 100, [True] * 300]
)
def test_whatever_the_log_holds_values_of_the_domain_are_released(drugs):
    """And missing ones; for values outside it, of other types, or none at all."""
    assert set(released(drugs, 1.0, LISTED).to_list()) == {"a", "b", None}
    assert released([], 1.0, LISTED).len() == 0


@pytest.mark.parametrize("doses", [["3", "x"], [None, None], [[1], [2]], [True, False]])
def test_whatever_the_log_holds_numbers_are_released(doses):
    """Text, nothing, lists and truth values: missing, or what number they spell."""
    found = released(doses * 100, 2.0)
    assert found.dtype == pl.Float64
    assert 0 < found.null_count() < 200


def test_many_values_stay():
    """At epsilon 20 all of them, whatever type they were read as."""
    facts = Facts(domains={"drug": (1, 2, 7.5)})
    for drugs in ([1, 2, None] * 100, ["1", "2.0", None] * 100, [1.0, 2.0, 99.0] * 100):
        assert released(drugs, 20.0, facts).to_list() == [1.0, 2.0, None] * 100


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


def test_whole_numbers_stay_whole():
    """Where the policy says that they are."""
    facts = RANGED.model_copy(update={"types": {"dose": "integer"}})
    found = released([7] * 50, 2.0, facts, seed=3)
    assert found.dtype == pl.Int64
    assert -5 <= found.min() < found.max() <= 15


def test_a_whole_release(tmp_path, ledger):
    """Planned, applied, published and verified; claims about values and cases, beside
    k-anonymity.
    """
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("VALUE", "value"), "utf-8")
    plan = make_plan(load_policy(path))
    names = [each.mechanism for each in plan.steps]
    assert names.index("attributes/randomised-response") < names.index("kanon/optimal")
    assert [claim.currency for claim in plan.claims] == [None, "local", "local"]
    assert [charge.unit for charge in plan.charges] == ["value", "case"]
    log = log_of(["abc"] * 40 + ["ab"] * 30)
    events = log.events.with_columns(pl.Series("drug", ["a", "b"] * 90))
    cases = log.cases.with_columns(pl.Series("case:dose", [float(i % 12) for i in range(70)]))
    release = apply(plan, replace(log, events=events, cases=cases), ledger=ledger)
    doses = release.log.cases["case:dose"]
    assert 0 <= doses.min() <= doses.max() <= 10
    assert release.internal.utility["whole_log"]["attributes_per_activity"] > 0
    publish(release, tmp_path / "out")
    assert verify(tmp_path / "out")


def test_a_case_of_any_length_has_no_claim(tmp_path):
    """Without the longest case declared there is no plan."""
    path = tmp_path / "policy.yaml"
    policy = POLICY.replace("VALUE", "case")
    path.write_text(policy, "utf-8")
    with pytest.raises(PlanImpossible, match="longest_case"):
        make_plan(load_policy(path))
    path.write_text(policy.replace("  budget:", "  assume: {longest_case: 3}\n  budget:"), "utf-8")
    run = Run(plan=make_plan(load_policy(path)), noise=reproducible(1))
    made = run.release(with_values("drug", ["a"] * 300), None).log
    assert made.events["drug"].n_unique() == 3
