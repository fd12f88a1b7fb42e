"""The risk report as a page: before and after for each attack, with its bounds."""

from dataclasses import dataclass
from typing import Final

from cloakwork.evaluation.risk_figures import Attack, MembershipFigures, RiskReport, Share
from cloakwork.report.html import page
from cloakwork.report.membership_plot import membership_svg

_WIDTH: Final = 240

_HEADINGS: Final = {
    "linking": "Is the case found? The best guess of somebody who knows",
    "linking-releases": "Two releases",
    "uniqueness": "Is the case alone? Cases that nobody else is like, by what is known",
    "singling-out": "Singling out",
    "linkability": "Linkability",
    "inference": "Attribute inference",
}


@dataclass(frozen=True, slots=True)
class DrawnShare:
    """A share as a bar, and its bounds as a line: pixels from the left, and words."""

    share: float
    low: float
    high: float
    words: str


@dataclass(frozen=True, slots=True)
class DrawnAttack:
    """One row of a table; None where there is no figure."""

    attack: Attack
    before: DrawnShare | None
    after: DrawnShare | None


def risk_page(report: RiskReport) -> str:
    """The page as HTML; what comes from the logs is escaped by the template."""
    kinds: dict[str, list[DrawnAttack]] = {}
    for attack in report.attacks:
        kind = attack.name.partition("/")[0]
        row = DrawnAttack(attack, _drawn(attack.before), _drawn(attack.after))
        kinds.setdefault(kind, []).append(row)
    tables = [(_HEADINGS[kind], kinds[kind]) for kind in _HEADINGS if kind in kinds]
    groups = [each for each in report.attacks if each.groups_before is not None]
    drawing = None if report.membership is None else _drawing(report.membership)
    return page(
        "risk.html", report=report, tables=tables, groups=groups, width=_WIDTH, drawing=drawing
    )


def _drawing(found: MembershipFigures) -> str:
    """The attack on membership (SVG), which escapes what it is given."""
    from markupsafe import Markup

    return Markup(membership_svg(found))  # noqa: S704 - see above


def _drawn(share: Share | None) -> DrawnShare | None:
    if share is None:
        return None
    share_x, low_x, high_x = (
        round(_WIDTH * each, 1) for each in (share.share, share.low, share.high)
    )
    return DrawnShare(share_x, low_x, high_x, str(share))
