"""What an attack on membership found, in words."""

from typing import Final

from cloakwork.evaluation.risk_figures import MembershipFigures, MembershipGroup, RecognisedMembers

_USUAL: Final = 0.01
"""Of the shares of false alarms, the one that is said first."""


def membership_lines(found: MembershipFigures) -> list[str]:
    """One sentence on all targets beside the claim, one on those alone, one where the claim is
    exceeded; this one first.
    """
    lines = []
    if found.claimed is not None and found.exceeded:
        lines.append(
            f"The attack on membership EXCEEDS the claim of epsilon {found.claimed.epsilon:g}: "
            f"epsilon is at least {found.epsilon_at_least:.2f}."
        )
    for group in found.groups:
        lines.append(_group_line(found, group))
    return lines


def _group_line(found: MembershipFigures, group: MembershipGroup) -> str:
    level = _usual_level(group)
    words = f"Membership by {found.judged:,} releases of {found.mechanism}, {group.in_words}: "
    area = f"area {group.area.share:.3f} (guessing: .5)"
    if level is None:
        return f"{words}{area}, too few to say more."
    false, true = level.false_positives, level.true_positives
    recognised = (
        f"{true.share:.1%} of members recognised ({true.low:.1%} to {true.high:.1%}) at "
        f"{false.share:.1%} false alarms"
    )
    if found.claimed is None:
        return f"{words}{recognised}; {area}."
    allowed = found.claimed.limit(false.share)
    bound = f"epsilon {found.claimed.epsilon:g} allows {allowed:.1%}"
    if found.claimed.basis == "published":
        bound = f"the published epsilon {found.claimed.epsilon:g} would allow {allowed:.1%}"
    return f"{words}{recognised}, where {bound}; {area}."


def _usual_level(group: MembershipGroup) -> RecognisedMembers | None:
    if not group.levels:
        return None
    return min(group.levels, key=lambda each: abs(each.at_most - _USUAL))
