"""A drawing of an audit: one bar a pair of neighbours, up to the bound that its runs show, beside
the claim. Plain SVG.
"""

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from cloakwork.audit.pairs import PairAudit

_WIDTH, _LEFT, _ROW, _TOP, _BAR = 900, 430, 40, 70, 18
_CALM, _ALARM, _INK, _GRID = "#17507a", "#9a3412", "#1d2733", "#dbe2e9"
_SANS: Final = "font-family='system-ui, sans-serif' font-size='13'"


def audit_svg(title: str, claim: float, audits: Sequence[PairAudit]) -> str:
    """The drawing as text: epsilon from 0 to the right, the claim as a dashed line, bounds above it
    in another colour.
    """
    right = 1.15 * max(claim, *(audit.result.epsilon_lower_bound for audit in audits))
    height = _TOP + _ROW * len(audits) + 50
    at = _at(claim, right)
    rows = [
        line
        for place, audit in enumerate(audits)
        for line in _row(audit, _TOP + place * _ROW, right)
    ]
    foot = height - 30
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}'>",
            f"<rect width='{_WIDTH}' height='{height}' fill='#fff'/>",
            f"<text x='20' y='30' {_SANS} font-weight='600' fill='{_INK}'>{escape(title)}</text>",
            f"<line x1='{_LEFT}' x2='{_LEFT}' y1='{_TOP - 10}' y2='{foot - 14}' stroke='{_GRID}'/>",
            *rows,
            f"<line x1='{at}' x2='{at}' y1='{_TOP - 14}' y2='{foot - 14}' stroke='{_INK}' stroke-dasharray='5 4'/>",
            f"<text x='{at}' y='{_TOP - 20}' {_SANS} text-anchor='middle' fill='{_INK}'>claimed {claim:g}</text>",
            f"<text x='{_LEFT}' y='{foot + 6}' {_SANS} fill='{_INK}'>epsilon is at least ... (lower bound by the runs)</text>",
            "</svg>\n",
        ]
    )


def _row(audit: PairAudit, y: int, right: float) -> list[str]:
    bound = audit.result.epsilon_lower_bound
    colour = _CALM if audit.result.passed else _ALARM
    end = _at(bound, right)
    shown = f"{bound:.3f}" if bound > 0 else "nothing seen"
    return [
        f"<text x='{_LEFT - 12}' y='{y + 14}' {_SANS} text-anchor='end' fill='{_INK}'>{escape(audit.pair)}</text>",
        f"<rect x='{_LEFT}' y='{y}' width='{end - _LEFT:g}' height='{_BAR}' fill='{colour}'/>",
        f"<text x='{end + 8:g}' y='{y + 14}' {_SANS} fill='{colour}'>{shown}</text>",
    ]


def _at(epsilon: float, right: float) -> float:
    """Where an epsilon lies, in pixels from the left."""
    return round(_LEFT + (_WIDTH - _LEFT - 110) * max(0.0, epsilon) / right, 1)
