"""Predicted accuracy: what the formulas say is what runs show, and the planner goes by it where all can tell."""

from typing import Any, ClassVar

import numpy as np
import pytest

from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, Prediction
from cloakwork.mechanisms.registry import Catalogue, catalogue
from cloakwork.mechanisms.variants.threshold import VariantThreshold, calibrated
from cloakwork.noise import secret
from cloakwork.plan.choose import choose
from cloakwork.policy.model import Mechanisms
from plans.conftest import DP

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
    known = Catalogue({"variants/threshold": "cloakwork.mechanisms.variants.threshold:VariantThreshold"})
    for other in others:
        known = known.with_mechanism(other)
    choice = choose(0, GOAL, Facts(), Mechanisms(**mechanisms), known)
    assert choice.step is not None
    return choice.step.mechanism, {item.mechanism: item.reason for item in choice.considered}


def test_the_threshold_predicts_what_its_noise_does() -> None:
    params = calibrated(0.5, 1e-4, 2)
    told = VariantThreshold().predict(params, Facts())
    noise = secret().laplace_values(params.scale, 200_000)
    assert np.abs(noise).mean() == pytest.approx(told.error, rel=0.03)
    assert (told.least + noise >= params.tau).mean() > 0.5 > (told.least - 1 + noise >= params.tau).mean()


def test_the_more_accurate_comes_first() -> None:
    better, worse = Prediction(least=2, error=0.1), Prediction(least=1000, error=0.1)
    name, considered = chosen(another(better))
    assert name == "variants/another"
    assert "released from about" in considered["variants/threshold"]
    assert chosen(another(worse))[0] == "variants/threshold"


def test_error_decides_between_equal_thresholds() -> None:
    offer = VariantThreshold().offer(GOAL, Facts(), {})
    assert isinstance(offer, Offer)
    tau = offer.params.tau
    assert chosen(another(Prediction(least=tau, error=0.1)))[0] == "variants/another"
    assert chosen(another(Prediction(least=tau, error=9.0)))[0] == "variants/threshold"


def test_where_one_cannot_tell_the_catalogue_decides() -> None:
    mute = another(None, "variants/mute")
    assert chosen(another(Prediction(least=2, error=0.1)), mute)[0] == "variants/threshold"


def test_what_the_policy_prefers_goes_before() -> None:
    better = another(Prediction(least=2, error=0.1))
    assert chosen(better, prefer=("variants/threshold",))[0] == "variants/threshold"
    assert chosen(better, prefer=("*mute*",))[0] == "variants/another"


def test_every_prediction_is_a_finite_figure() -> None:
    """Of every mechanism of ours that offers for differential privacy and predicts."""
    facts, told = Facts(alphabet=("a", "b"), longest_case=5, units_at_most=1000), 0
    for mechanism in catalogue().values():
        offer = mechanism.offer(GOAL, facts, {})
        if isinstance(offer, Offer) and (said := getattr(mechanism, "predict", lambda *_: None)(offer.params, facts)):
            assert said.least >= 0 and 0 <= said.error < np.inf
            told += 1
    assert told
