"""Mechanisms of other packages: a rewrite in two passes, noise on times and parts of joint goals
are open to them, and are watched.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from cloakwork.base.facts import Facts
from cloakwork.engines.batched import LocalEngine
from cloakwork.errors import MechanismError
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import MetricPrivacy
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.attributes.redact import Redact, RedactParams
from cloakwork.mechanisms.attributes.redact import Treatment as Rule
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.registry import OfPackage, Package
from cloakwork.mechanisms.steps import Decision, MapCases, MapCasesBySummary, NoiseOnTimesStep
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.testing.contract_logs import BATCH_LOG, Batches, assert_same_log
from cloakwork_extras.pretsa import Pretsa
from plan.conftest import policy_of
from plan.test_joint import spec
from plan.toy_parts import ToyAttributes, ToyTimes, with_toys

PACKAGE = Package("timestamps/laplace", "acme 1.0")
METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))


class Treatment(Redact):
    """Redacts in two passes, which nothing of ours does; fails in one, or returns what is no
    mapping.
    """

    def __init__(self, fault: str = "none") -> None:
        self.fault = fault

    def rewrite(self, params: Any, decision: Decision, stream: Any) -> Any:
        action = super().rewrite(params, decision, stream)
        assert isinstance(action, MapCases)

        def fails(_: Any) -> Any:
            raise KeyError("a fault")

        def no_mapping(table: pl.DataFrame) -> Any:
            return table

        class Failing(VariantCounts):
            of = staticmethod(fails)

        def with_another_column(log: EventLog) -> EventLog:
            return EventLog(log.events.with_columns(note=pl.lit("x")), log.cases, log.offsets)

        summary = VariantCounts()
        return {
            "none": MapCasesBySummary(summary, lambda _: action),
            "first pass": MapCasesBySummary(Failing(), lambda _: action),
            "mapping": MapCasesBySummary(summary, fails),
            "no mapping": MapCasesBySummary(summary, no_mapping),
            "second pass": MapCasesBySummary(summary, lambda _: MapCases(fails)),
            "column": MapCasesBySummary(summary, lambda _: MapCases(with_another_column)),
        }[self.fault]


def treated(fault: str, batches: int = 1) -> EventLog:
    """The log of the contract after the treatment, watched."""
    watched = OfPackage(Treatment(fault), Package("attributes/redact", "acme 1.0"))
    params = RedactParams(treatments=(Rule(attribute="org:role", treatment="pseudonymise"),))
    parted = Batches.random(BATCH_LOG, batches)
    return run_step(watched, params, parted, reproducible(1), engine=LocalEngine())


def test_a_watched_treatment_releases_the_same() -> None:
    """In one batch and in several."""
    assert_same_log(treated("none"), treated("none", 4))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("first pass", "summary failed: KeyError"),
        ("mapping", "rewrite failed: KeyError"),
        ("no mapping", "rewrite returned DataFrame, not MapCases"),
        ("second pass", "rewrite failed: KeyError"),
        ("column", "releases note, which its lineage does not write"),
    ],
)
def test_each_pass_is_watched(fault: str, said: str) -> None:
    """One line that names the package."""
    with pytest.raises(MechanismError, match=said) as caught:
        treated(fault)
    assert "(package acme 1.0)" in str(caught.value)


class Noisy(TimestampLaplace):
    """Fails where it says what becomes of noisy times."""

    proof = "kernel"

    def __init__(self, fault: str = "none") -> None:
        self.fault = fault

    def step(self, params: Any, facts: Facts) -> NoiseOnTimesStep:
        def fails(_: Any) -> Any:
            raise KeyError("a fault")

        def fails_later(_: Any) -> Any:
            return fails

        step = super().step(params, facts)
        if self.fault == "type":
            return replace(step, noise="noise")  # type: ignore[arg-type]
        completes = {"sample": fails, "batch": fails_later}
        return replace(step, complete=completes.get(self.fault, step.complete))


def noised(fault: str, batches: int = 1) -> EventLog:
    """The log of the contract after noise on times, watched."""
    watched = OfPackage(Noisy(fault), PACKAGE)
    offer = watched.offer(METRIC, Facts(), {})
    assert isinstance(offer, Offer)
    parted = Batches.random(BATCH_LOG, batches)
    return run_step(watched, offer.params, parted, reproducible(1), engine=LocalEngine())


def test_watched_noise_is_the_same() -> None:
    """In one batch and in several, and as it is without watching."""
    offer = TimestampLaplace().offer(METRIC, Facts(), {})
    assert isinstance(offer, Offer)
    plain = run_step(TimestampLaplace(), offer.params, BATCH_LOG, reproducible(1))
    assert_same_log(plain, noised("none"))
    assert_same_log(plain, noised("none", 4))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("type", "its noise is no Perturbation"),
        ("sample", "complete failed: KeyError"),
        ("batch", "complete failed: KeyError"),
    ],
)
def test_what_becomes_of_noisy_times_is_watched(fault: str, said: str) -> None:
    """One line that names the package."""
    with pytest.raises(MechanismError, match=said) as caught:
        noised(fault)
    assert "(package acme 1.0)" in str(caught.value)


TOYS = Package("toy/times", "toys 1.0")


class KernelTimes(ToyTimes):
    """Times of another package."""

    proof = "kernel"


def test_another_package_serves_a_part_of_a_joint_goal() -> None:
    """Where the policy names it; its offer names the package."""
    allowed = ["bound", "variants/*", "attributes/*", "toy/times", "toy/attributes"]
    toys = OfPackage(KernelTimes(), TOYS), ToyAttributes()
    plan = make_plan(policy_of(**spec(mechanisms={"allow": allowed})), catalogue=with_toys(*toys))
    (step,) = (step for step in plan.steps if step.mechanism == "toy/times")
    assert step.why.endswith("(package toys 1.0)")


def test_what_it_offers_for_a_part_is_watched() -> None:
    class Failing(KernelTimes):
        def offer_part(self, *asked: Any) -> Any:
            raise KeyError("a fault")

    class OtherParams(KernelTimes):
        def offer_part(self, *asked: Any) -> Any:
            return Offer("none", "says so")  # type: ignore[type-var]

    for twin, said in ((Failing(), "offer_part failed: KeyError"), (OtherParams(), "not Part")):
        with pytest.raises(MechanismError, match=said):
            OfPackage(twin, TOYS).offer_part(PartOfGoal(("timestamps",), 1.0, 0.0), Facts(), {})
    refused = OfPackage(Pretsa(), TOYS).offer_part(PartOfGoal((), 1.0, 0.0), Facts(), {})
    assert isinstance(refused, Refusal)
