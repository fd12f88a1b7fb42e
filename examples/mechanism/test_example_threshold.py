"""The contract that every mechanism passes, and an audit that must catch a broken twin."""

from example_threshold import ExampleThreshold

from cloakwork.facts import Facts, Unit
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Decision
from cloakwork.testing import MechanismContract, audit_mechanism

GOAL = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-3, over=("control-flow",)
)


class TestExampleThreshold(MechanismContract):
    mechanism = ExampleThreshold()
    goals = (GOAL,)
    facts = Facts(unit=Unit(attribute="case:row", max_cases=2))


class RawCounts(ExampleThreshold):
    """A broken twin: it forgets the noise."""

    name = "example/raw-counts"

    def decide(self, params, summary, noise):
        return Decision(summary)


def test_an_audit_finds_nothing() -> None:
    """An honest mechanism fails it by chance in one of a thousand million runs."""
    found = audit_mechanism(
        ExampleThreshold(), epsilon=1.0, delta=1e-3, runs=150, confidence=1 - 1e-9
    )
    assert all(pair.result.passed for pair in found)


def test_an_audit_catches_the_broken_twin() -> None:
    """Without noise one case more shows at once."""
    found = audit_mechanism(RawCounts(), epsilon=1.0, delta=1e-3, runs=150, confidence=1 - 1e-9)
    assert not all(pair.result.passed for pair in found)
