"""Noise on single values: randomised response over domains, bounded noise on numbers."""

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

RESPONSE = RandomisedResponse()
LISTED = Facts(domains={"drug": ("a", "b"), "case:ward": (1, 2, 3)}, longest_case=4)
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
  budget: {total: {epsilon: 8.0}}
  output: {format: xes.gz}
"""


def goal(*over, per="value", epsilon=1.0):
    """A local guarantee."""
    return LocalDP(kind="local-dp", epsilon=epsilon, over=over, per=per)


def test_offers():
    """The whole of epsilon for one value, a share for each value of a case."""
    offer = RESPONSE.offer(goal("drug", "case:ward"), LISTED, {})
    assert isinstance(offer, Offer)
    assert offer.params.epsilon == 1.0
    offer = RESPONSE.offer(goal("drug", "case:ward", per="case"), LISTED, {})
    assert offer.params.epsilon == pytest.approx(1 / 5)
    assert RESPONSE.offer(goal("case:ward", per="case"), Facts(domains=LISTED.domains), {}).params


@pytest.mark.parametrize(
    ("asked", "facts", "options", "kind"),
    [
        (goal("drug"), Facts(), {}, "needs"),
        (goal("drug", per="case"), Facts(domains=LISTED.domains), {}, "needs"),
        (goal("control-flow"), LISTED, {}, "never"),
        (goal("drug"), LISTED, {"p": 0.5}, "misconfigured"),
    ],
)
def test_what_is_not_public_is_refused(asked, facts, options, kind):
    """What is not public, not an attribute, or not known."""
    answer = RESPONSE.offer(asked, facts, options)
    assert isinstance(answer, Refusal)
    assert answer.kind == kind
    assert bool(answer.needs) == (kind == "needs")


def with_drugs(drugs):
    """A log of one event a case, with these values; None: without the attribute."""
    log = log_of(["a"] * 300)
    if drugs is None:
        return log
    return type(log)(log.events.with_columns(pl.Series("drug", drugs)), log.cases, log.offsets)


@pytest.mark.parametrize(
    "drugs", [None, [None] * 300, ["a", "b", "other"] * 100, [1, 2, 3] * 100, [True] * 300]
)
def test_of_any_log_values_of_the_domain_are_released(drugs):
    """Values of the domain, and missing ones; values outside it, of other types, or none at all."""
    params = RESPONSE.offer(goal("drug"), LISTED, {}).params
    released = run_step(RESPONSE, params, with_drugs(drugs), reproducible(1))
    assert set(released.events["drug"].to_list()) == {"a", "b", None}
    assert run_step(RESPONSE, params, log_of([]), reproducible(1)).events.height == 0


def test_many_values_stay():
    """At epsilon 20 all of them, whatever type they were read as."""
    facts = Facts(domains={"drug": (1, 2, 7.5)})
    params = RESPONSE.offer(goal("drug", epsilon=20.0), facts, {}).params
    for drugs in ([1, 2, None] * 100, ["1", "2.0", None] * 100, [1.0, 2.0, 99.0] * 100):
        released = run_step(RESPONSE, params, with_drugs(drugs), reproducible(1))
        assert released.events["drug"].to_list() == [1.0, 2.0, None] * 100


def test_a_whole_release(tmp_path):
    """Planned, applied, published and verified; claims about values and cases, beside
    k-anonymity.
    """
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("VALUE", "value"), "utf-8")
    plan = make_plan(load_policy(path))
    names = [each.mechanism for each in plan.steps]
    assert names.index("attributes/randomised-response") < names.index("kanon/auto")
    assert [claim.currency for claim in plan.claims] == [None, "local", "local"]
    assert [charge.unit for charge in plan.charges] == ["value", "case"]
    log = log_of(["abc"] * 40 + ["ab"] * 30)
    events = log.events.with_columns(pl.Series("drug", ["a", "b"] * 90))
    cases = log.cases.with_columns(pl.Series("case:dose", [float(i % 12) for i in range(70)]))
    log = type(log)(events, cases, log.offsets)
    release = apply(plan, log, ledger=f"sqlite:///{tmp_path}/ledger.db")
    doses = release.log.cases["case:dose"]
    assert 0 <= doses.min() <= doses.max() <= 10
    assert release.internal.utility["whole_log"]["attributes_per_activity"] > 0
    publish(release, tmp_path / "out")
    assert verify(tmp_path / "out")


def test_a_case_of_any_length_has_no_claim(tmp_path):
    """Without the longest case declared there is no plan."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("VALUE", "case"), "utf-8")
    with pytest.raises(PlanImpossible, match="longest_case"):
        make_plan(load_policy(path))
    declared = POLICY.replace("VALUE", "case").replace(
        "  budget:", "  assume: {longest_case: 3}\n  budget:"
    )
    path.write_text(declared, "utf-8")
    plan = make_plan(load_policy(path))
    log = with_drugs(["a"] * 300)
    assert (
        Run(plan=plan, noise=reproducible(1)).release(log, None).log.events["drug"].n_unique() == 3
    )


BOUNDED = BoundedLaplace()
FACTS = Facts(ranges={"dose": (-5.0, 15.0)})


def params_of(epsilon):
    """For one value at ``epsilon``."""
    goal = LocalDP(kind="local-dp", epsilon=epsilon, over=("dose",))
    return BOUNDED.offer(goal, FACTS, {}).params


def released(doses, epsilon, seed=1):
    """The noisy values of events with these doses."""
    log = log_of(["a"] * len(doses))
    events = log.events.with_columns(pl.Series("dose", doses))
    log = type(log)(events, log.cases, log.offsets)
    return run_step(BOUNDED, params_of(epsilon), log, reproducible(seed)).events["dose"]


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
    answer = BOUNDED.offer(goal, FACTS, {})
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
    params = BOUNDED.offer(goal, facts, {}).params
    log = log_of(["a"] * 50)
    log = type(log)(log.events.with_columns(dose=pl.Series([7] * 50)), log.cases, log.offsets)
    found = run_step(BOUNDED, params, log, reproducible(3)).events["dose"]
    assert found.dtype == pl.Int64
    assert -5 <= found.min() < found.max() <= 15
    days = FACTS.model_copy(update={"types": {"dose": "date"}})
    assert isinstance(BOUNDED.offer(goal, days, {}), Refusal)
