"""The contract that every mechanism passes, and what the kernel does with broken twins."""

import pytest
from example_threshold import ExampleThreshold

from cloakwork.base.facts import Facts, Unit
from cloakwork.errors import PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Entries, Laplace
from cloakwork.mechanisms.steps import Measurement
from cloakwork.testing import MechanismContract, audit_mechanism, prepare
from cloakwork.testing.contract_logs import log_of

GOAL = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-3, over=("control-flow",)
)


class TestExampleThreshold(MechanismContract):
    mechanism = ExampleThreshold()
    goals = (GOAL,)
    facts = Facts(unit=Unit(attribute="case:row", max_cases=2))


class HalvedNoise(ExampleThreshold):
    """A broken twin: half the noise that its plan is charged for."""

    def measure(self, params, kernel):
        found = kernel.select(Entries.of_variants, Laplace(params.scale / 2), params.tau)
        return Measurement(found.labels, found.noisy)


class ExtraQuery(ExampleThreshold):
    """A broken twin: it asks for the number of cases besides."""

    def measure(self, params, kernel):
        kernel.sum(Entries.one_each, Laplace(params.scale), keys=1)
        return super().measure(params, kernel)


class RawLook(ExampleThreshold):
    """A broken twin: it releases the counts as they are."""

    def measure(self, params, kernel):
        return Measurement(*kernel.raw().by_variant())


@pytest.mark.parametrize("twin", [HalvedNoise, ExtraQuery, RawLook])
def test_the_kernel_stops_broken_twins(twin) -> None:
    """Before anything is drawn, on any log."""
    prepared = prepare(twin(), epsilon=1.0, delta=1e-3)
    for log in (log_of([]), log_of([["a", "b"]] * 30)):
        with pytest.raises(PlanUnsound, match="its plan does not list"):
            prepared.run(log)


def test_an_audit_finds_nothing() -> None:
    """An honest mechanism fails it by chance in one of a thousand million runs."""
    found = audit_mechanism(
        ExampleThreshold(), epsilon=1.0, delta=1e-3, runs=60, confidence=1 - 1e-9
    )
    assert all(pair.result.passed for pair in found)
