"""Randomised response over attributes: offers, values of every type, and a whole release."""

import polars as pl
import pytest

from cloakwork import apply, load_policy, make_plan, publish, verify
from cloakwork.base.facts import Facts
from cloakwork.errors import PlanImpossible
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import LocalDP
from cloakwork.mechanisms.attributes.local import RandomisedResponse
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.noise import reproducible
from cloakwork.run.run import Run
from contracts.sample_logs import log_of

MECHANISM = RandomisedResponse()
FACTS = Facts(domains={"drug": ("a", "b"), "case:ward": (1, 2, 3)}, longest_case=4)
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
    offer = MECHANISM.offer(goal("drug", "case:ward"), FACTS, {})
    assert isinstance(offer, Offer)
    assert offer.params.epsilon == 1.0
    offer = MECHANISM.offer(goal("drug", "case:ward", per="case"), FACTS, {})
    assert offer.params.epsilon == pytest.approx(1 / 5)
    assert MECHANISM.offer(goal("case:ward", per="case"), Facts(domains=FACTS.domains), {}).params


@pytest.mark.parametrize(
    ("asked", "facts", "options", "kind"),
    [
        (goal("drug"), Facts(), {}, "needs"),
        (goal("drug", per="case"), Facts(domains=FACTS.domains), {}, "needs"),
        (goal("control-flow"), FACTS, {}, "never"),
        (goal("drug"), FACTS, {"p": 0.5}, "misconfigured"),
    ],
)
def test_refusals(asked, facts, options, kind):
    """What is not public, not an attribute, or not known."""
    answer = MECHANISM.offer(asked, facts, options)
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
def test_whatever_the_log_holds_there_is_a_release(drugs):
    """Values of the domain, and missing ones; values outside it, of other types, or none at all."""
    params = MECHANISM.offer(goal("drug"), FACTS, {}).params
    released = run_step(MECHANISM, params, with_drugs(drugs), reproducible(1))
    assert set(released.events["drug"].to_list()) == {"a", "b", None}
    assert run_step(MECHANISM, params, log_of([]), reproducible(1)).events.height == 0


def test_many_values_stay():
    """At epsilon 20 all of them, whatever type they were read as."""
    facts = Facts(domains={"drug": (1, 2, 7.5)})
    params = MECHANISM.offer(goal("drug", epsilon=20.0), facts, {}).params
    for drugs in ([1, 2, None] * 100, ["1", "2.0", None] * 100, [1.0, 2.0, 99.0] * 100):
        released = run_step(MECHANISM, params, with_drugs(drugs), reproducible(1))
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
