"""What an attack on membership found, in sentences."""

import pytest

from cloakwork.evaluation.risk_figures import (
    ClaimBasis,
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    RecognisedMembers,
    Share,
)
from cloakwork.report.risk import membership_lines


def share(value: float) -> Share:
    """With bounds a tenth of it away."""
    return Share(share=value, low=0.9 * value, high=1.1 * value)


def figures(claimed: ClaimedBound | None, shown: float = 0.0) -> MembershipFigures:
    """One group that can be judged at two levels, one at none."""
    levels = tuple(
        RecognisedMembers(at_most=level, false_positives=share(level), true_positives=share(0.2))
        for level in (0.01, 0.1)
    )
    area = share(0.6)
    return MembershipFigures(
        mechanism="variants/some",
        runs=40,
        judged=20,
        targets=9,
        claimed=claimed,
        epsilon_at_least=shown,
        groups=(
            MembershipGroup(name="all", targets=9, area=area, levels=levels, curve=()),
            MembershipGroup(name="alone", targets=2, area=area, levels=(), curve=()),
        ),
    )


@pytest.mark.parametrize(
    ("basis", "allowed"),
    [
        ("derived", "epsilon 1 allows 2.7%"),
        ("published", "the published epsilon 1 would allow 2.7%"),
    ],
)
def test_beside_what_is_claimed(basis: ClaimBasis, allowed: str) -> None:
    first, second = membership_lines(figures(ClaimedBound(epsilon=1.0, basis=basis)))
    assert first == (
        "Membership by 20 releases of variants/some, all targets: 20.0% of members recognised "
        f"(18.0% to 22.0%) at 1.0% false alarms, where {allowed}; area 0.600 (guessing: .5)."
    )
    assert second.endswith(
        "alone with their sequence: area 0.600 (guessing: .5), too few to say more."
    )


def test_what_exceeds_the_claim_is_said_first() -> None:
    lines = membership_lines(figures(ClaimedBound(epsilon=1.0), 2.5))
    assert lines[0] == (
        "The attack on membership EXCEEDS the claim of epsilon 1: epsilon is at least 2.50."
    )
    assert len(lines) == 3


def test_without_a_claim() -> None:
    """Nothing is compared with anything."""
    first, _ = membership_lines(figures(None, 2.5))
    assert "allow" not in first
