"""What mechanisms that release the control flow cost, and the options that they read."""

import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts, Unit
from cloakwork.errors import MechanismError
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.variants.adaptive import VariantAdaptive
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.threshold import VariantThreshold
from cloakwork.testing import run_mechanism
from cloakwork_extras.amun import VariantAmun
from contracts.sample_logs import log_of

ADAPTIVE, AMUN, MARKOV, THRESHOLD = (
    kind() for kind in (VariantAdaptive, VariantAmun, VariantMarkov, VariantThreshold)
)
LETTERS = Facts(alphabet=("a", "b"))


def goal(epsilon=1.0, delta=1e-4):
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


@pytest.mark.parametrize(("epsilon", "max_cases"), [(0.01, 1), (0.1, 3), (1.0, 4), (30.0, 1)])
@pytest.mark.parametrize(
    ("mechanism", "facts"),
    [(ADAPTIVE, Facts()), (MARKOV, LETTERS), (MARKOV, Facts()), (THRESHOLD, Facts())],
    ids=["adaptive", "markov", "markov, undeclared", "threshold"],
)
def test_costs_at_most_what_was_asked(mechanism, facts, epsilon, max_cases):
    """And nearly all of it where noise is needed at all."""
    unit = Unit(attribute="case:p", max_cases=max_cases)
    facts = facts.model_copy(update={"unit": unit})
    offer = mechanism.offer(goal(epsilon), facts, {})
    assert isinstance(offer, Offer)
    spent = cost(mechanism.step(offer.params, facts).event, 1e-4)
    assert spent.epsilon <= epsilon
    assert spent.delta <= 1e-4
    assert epsilon > 20 or spent.epsilon > 0.99 * epsilon


@pytest.mark.parametrize(
    ("mechanism", "options", "said"),
    [
        (ADAPTIVE, {"share": 0.9}, "share"),
        (MARKOV, {"shares": [1, 1]}, "shares"),
        (MARKOV, {"shares": [1, 1, 1, 1, 1]}, "shares"),
        (MARKOV, {"shares": [1, 1, 1, 1, 1, 0]}, "shares"),
        (THRESHOLD, {"noise": "uniform"}, "option noise"),
        *((AMUN, {"variants": each}, "variants") for each in ([["a"], ["a"]], [[]], [], "a")),
        (AMUN, {"variants": [["a", 3]]}, "variants"),
    ],
)
def test_options_are_checked(mechanism, options, said):
    """In words."""
    answer = mechanism.offer(goal(), LETTERS, options)
    assert isinstance(answer, Refusal)
    assert answer.kind == "misconfigured"
    assert said in answer.reason


@pytest.mark.parametrize("mechanism", [ADAPTIVE, AMUN, MARKOV, THRESHOLD])
def test_a_threshold_needs_a_delta(mechanism):
    """And an epsilon that is not smaller than that allows."""
    refusal = mechanism.offer(goal(delta=0.0), LETTERS, {})
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.needs) == ("needs", ("guarantees[].delta",))
    assert isinstance(mechanism.offer(goal(1e-5), LETTERS, {}), Refusal)


def test_options_are_taken():
    """A share for measuring, a kind of noise, and most of the budget for frequent variants."""
    offer = ADAPTIVE.offer(goal(), Facts(), {"share": 0.3})
    assert 1 / offer.params.scale == pytest.approx(0.3)
    units = Facts(unit=Unit(attribute="case:person", max_cases=2))
    for kind in ("laplace", "gaussian", "truncated-geometric"):
        offer = THRESHOLD.offer(goal(), units, {"noise": kind})
        assert offer.params.noise == kind
        assert kind in offer.why
    usual = MARKOV.offer(goal(), LETTERS, {})
    other = MARKOV.offer(goal(), LETTERS, {"shares": [0.9, 0.02, 0.01, 0.03, 0.02, 0.02]})
    assert other.params.tau < 0.8 * usual.params.tau
    spent = cost(MARKOV.step(other.params, Facts()).event, 1e-4)
    assert spent.epsilon == pytest.approx(1, rel=0.01)


def test_options_reach_the_mechanism_in_tests_too():
    """``options`` of ``run_mechanism``; a wrong one is refused. Scales of 4 or less: 200 is
    e**-50.
    """
    log, budget = log_of([["a"]] * 500), {"epsilon": 1.0, "delta": 1e-3}
    for kind in ("laplace", "truncated-geometric"):
        released = run_mechanism("variants/threshold", log, options={"noise": kind}, **budget)
        assert abs(released.cases.height - 500) < 200
    with pytest.raises(MechanismError, match="option noise"):
        run_mechanism("variants/threshold", log, options={"noise": "none"}, **budget)
    with pytest.raises(MechanismError, match="option sharpness: input should be greater than"):
        run_mechanism("variants/markov", log, alphabet=("a",), sharpness=0.5, **budget)
    with pytest.raises(MechanismError, match="variants"):
        run_mechanism("variants/amun", log, epsilon=1.0)
