"""Predicted accuracy: what the simulation said is what runs show, and the planner goes by it."""

from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.evaluation.control_flow import histogram, relative_log_similarity
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, Prediction
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.accuracy import predict_similarity
from cloakwork.mechanisms.variants.threshold import (
    VariantThreshold,
    calibrate_threshold,
    expected_error,
)
from cloakwork.noise import reproducible, secret
from cloakwork.plan.choose import choose_mechanism
from cloakwork.policy.model import Mechanisms
from cloakwork.testing import run_mechanism
from plan.conftest import DP
from scenarios import scenario

GOAL = DifferentialPrivacy.model_validate(DP)


def another(said: Prediction | None, named: str = "variants/another") -> VariantThreshold:
    """The same mechanism under another name, with a prediction of its own."""

    class Another(VariantThreshold):
        name: ClassVar[str] = named

        def predict(self, *_: Any) -> Any:
            return said

    return Another()


def chosen(*others: VariantThreshold, **mechanisms: Any) -> tuple[str, dict[str, str]]:
    """What is chosen among the threshold mechanism and ``others``, and why the rest was not."""
    known = {each.name: each for each in (VariantThreshold(), *others)}
    choice = choose_mechanism(0, GOAL, Facts(), Mechanisms(**mechanisms), known)
    (step,) = choice.steps
    return step.mechanism, {item.mechanism: item.reason for item in choice.considered}


def said(figure: float) -> Prediction:
    return Prediction(figure, figure, cases=1000)


def test_the_threshold_tells_how_far_a_count_is_off() -> None:
    """Within 13 standard errors."""
    params = calibrate_threshold(0.5, 1e-4, 2)
    noise = secret().laplace_values(params.scale, 200_000)
    assert np.abs(noise).mean() == pytest.approx(expected_error(params), rel=0.03)


def test_the_more_accurate_comes_first() -> None:
    name, considered = chosen(another(said(0.99)))
    assert name == "variants/another"
    assert "if few variants hold most cases" in considered["variants/threshold"]
    assert chosen(another(said(0.01)))[0] == "variants/threshold"


def refusal(**mechanisms: Any) -> list[tuple[str | None, str, tuple[str | int, ...]]]:
    choice = choose_mechanism(0, GOAL, Facts(), Mechanisms(**mechanisms), catalogue())
    assert not choice.steps
    return [(cause.mechanism, cause.reason, cause.where) for cause in choice.causes]


@pytest.mark.parametrize(
    ("key", "lists"),
    [
        ("allow", {"allow": ("kanon/*",)}),
        ("deny", {"deny": ("variants/*", "dfg/*")}),
        ("deny", {"allow": ("variants/*",), "deny": ("variants/*",)}),
    ],
)
def test_lists_that_leave_nothing_are_refused_in_one_line(key: str, lists: Any) -> None:
    """It says which list, where it stands, and what it rules out; of other mechanisms, only what is
    allowed says why it cannot.
    """
    (list_, reason, where), *others = refusal(**lists)
    assert all(name and name.startswith("kanon/") for name, _, _ in others)
    assert (list_, where) == (f"mechanisms.{key}", ("spec", "mechanisms", key))
    assert reason.startswith("it leaves none that gives this; without it these could: variants/")


def test_what_is_denied_does_not_run_under_another_name() -> None:
    """variants/adaptive may run either of two."""
    choice = choose_mechanism(0, GOAL, Facts(), Mechanisms(deny=("variants/markov",)), catalogue())
    assert choice.steps[0].mechanism in ("variants/threshold", "variants/amun")
    reasons = {item.mechanism: item.reason for item in choice.considered}
    assert "may run variants/markov" in reasons["variants/adaptive"]


def test_what_is_nothing_on_one_kind_of_log_does_not_come_first() -> None:
    """A fair release of any log is better than one of half the logs and none of the others."""
    risky, fair = Prediction(0.9, 0.0, cases=1000), Prediction(0.4, 0.3, cases=1000)
    reasons = chosen(another(risky, "variants/risky"), another(fair, "variants/fair"))[1]
    assert not any("variants/risky comes first" in reason for reason in reasons.values())
    assert risky.expected < fair.expected
    concentrated = replace(risky, variant_concentration=1.0)
    assert concentrated.expected == 0.9


def test_who_cannot_tell_comes_last() -> None:
    mute = another(None, "variants/mute")
    assert chosen(mute)[0] == "variants/threshold"
    assert chosen(mute, prefer=("variants/mute",))[0] == "variants/mute"


def test_equals_come_as_the_catalogue_has_them() -> None:
    """A hundredth is the scatter of the simulation."""
    told = predict_similarity(VariantThreshold.simulated, GOAL.epsilon, GOAL.delta, Facts())
    assert told is not None
    assert chosen(another(replace(told, usual=told.usual + 0.015)))[0] == "variants/threshold"
    assert chosen(another(replace(told, usual=told.usual + 0.1)))[0] == "variants/another"


def test_a_profile_decides_between_the_two_processes() -> None:
    """Where it knows that few courses hold most cases, no model; where nearly each goes its own
    way, no threshold.
    """
    known = {name: catalogue()[name] for name in ("variants/markov", "variants/threshold")}

    def taken(head_share: float | None) -> str:
        facts = Facts(alphabet=("a", "b"), units_at_most=300, head_share=head_share)
        step = choose_mechanism(0, GOAL, facts, Mechanisms(), known).steps[0]
        assert step is not None
        assert step.predicted is not None
        assert ("DP profile" in step.predicted) == (head_share is not None)
        return step.mechanism

    assert (taken(0.9), taken(0.0)) == ("variants/threshold", "variants/markov")


def test_without_a_profile_the_planner_takes_what_looks_itself() -> None:
    """At every signal that leaves anything to be seen."""
    for units, alphabet in product((1_000, 2_000, 10_000, 100_000, 1_000_000), (("a", "b"), None)):
        step = choose_mechanism(
            0, GOAL, Facts(alphabet=alphabet, units_at_most=units), Mechanisms(), catalogue()
        ).steps[0]
        assert step is not None
        assert step.mechanism == "variants/adaptive"


def test_more_signal_is_never_predicted_to_be_much_worse() -> None:
    """More epsilon, more units, fewer cases a unit, more delta: all count as they should."""
    few, many = Facts(units_at_most=1000), Facts(units_at_most=10_000)
    several = Facts(units_at_most=10_000, unit=Unit(attribute="case:p", max_cases=10))
    figures = [getattr(each, "simulated", None) for each in catalogue().values()]
    simulated = [rows for rows in figures if rows is not None]
    assert len(simulated) == 8
    for rows in simulated:
        told = [
            predict_similarity(rows, 1.0, 1e-6, few),
            predict_similarity(rows, 1.0, 1e-4, few),
            predict_similarity(rows, 1.0, 1e-4, many),
        ]
        usual = [each.usual for each in told]
        assert usual == sorted(usual)
        of_several = predict_similarity(rows, 1.0, 1e-4, several)
        assert of_several == replace(told[1], cases=10_000)


@pytest.mark.parametrize("name", ["variants/threshold", "variants/markov", "variants/adaptive"])
@pytest.mark.parametrize("process", ["usual", "varied"])
def test_the_table_says_what_runs_show(name: str, process: str) -> None:
    """At a signal of 1000, on fewer cases at a larger epsilon than it was made with."""
    log = scenario(process, 1000)
    source = histogram(log)
    alphabet = tuple(sorted(set().union(*source)))
    noise = reproducible(1)
    released = histogram(
        run_mechanism(name, log, noise=noise, epsilon=1.0, delta=1e-4, alphabet=alphabet)
    )
    rows = getattr(catalogue()[name], "undeclared", None) or catalogue()[name].simulated
    told = predict_similarity(rows, 1.0, 1e-4, Facts(units_at_most=1000))
    assert relative_log_similarity(source, released) == pytest.approx(
        getattr(told, process), abs=0.12
    )


def test_what_the_policy_prefers_goes_before() -> None:
    better = another(said(0.99))
    assert chosen(better, prefer=("variants/threshold",))[0] == "variants/threshold"
    assert chosen(better, prefer=("*mute*",))[0] == "variants/another"


def test_every_mechanism_of_the_control_flow_predicts() -> None:
    """Each that is proved and offers, by a share; the published ones, and those that train a
    network, say nothing.
    """
    facts = Facts(alphabet=("a", "b"), longest_case=5, units_at_most=1000)
    for mechanism in catalogue().values():
        offer = mechanism.offer(GOAL, facts, {})
        if isinstance(offer, Offer):
            told = mechanism.predict(offer.params, facts)
            says_something = mechanism.proof == "proved" and not mechanism.trains
            assert (told is not None) == says_something
            assert told is None or 0 <= told.usual <= 1 >= told.varied >= 0
