"""The pairs of ``cloakwork audit dp``: what keeps its claim passes, what does not is found."""

import pytest

from cloakwork.errors import MechanismError
from cloakwork.evaluation.pairs import PairAudit
from cloakwork.testing import audit_mechanism
from evaluation.counterparts import _counterparts, _seeded  # noqa: F401 - fixtures

RUNS = {"variants": 300, "timestamps": 100}
"""Each run of times is on fifty cases alike."""


def audited(name: str) -> tuple[PairAudit, ...]:
    return audit_mechanism(name, epsilon=1.0, delta=1e-3, runs=RUNS[name.partition("/")[0]])


@pytest.mark.parametrize(
    ("name", "bound"), [("variants/threshold", 0.0), ("timestamps/laplace", 0.5)]
)
def test_what_keeps_its_claim_passes(name: str, bound: float) -> None:
    """And something is seen, so the pairs are not idle."""
    found = audited(name)
    assert all(item.result.passed for item in found)
    assert max(item.result.epsilon_lower_bound for item in found) > bound


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("variants/no-threshold", ["variant of its own"]),
        ("variants/a-tenth", ["one case more on a variant"]),
        ("timestamps/quiet", ["middle of three times", "one edge of the bounds"]),
    ],
)
def test_a_broken_counterpart_is_found_on_the_pairs_made_for_it(
    name: str, pairs: list[str]
) -> None:
    found = audited(name)
    for pair in pairs:
        assert [item.result.passed for item in found if pair in item.pair] == [False], found


def test_other_mechanisms_are_refused() -> None:
    for name in ("bound", "attributes/redact", "kanon/tlkc"):
        with pytest.raises(MechanismError, match="no differential privacy"):
            audit_mechanism(name, epsilon=1.0, delta=1e-3, runs=10)
