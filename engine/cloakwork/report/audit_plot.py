"""A drawing of an audit: one bar a pair of neighbours, up to the bound that its runs show, beside
the claim. Plain SVG.
"""

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from cloakwork.evaluation.pairs import PairAudit

_WIDTH, _LEFT, _ROW, _TOP, _BAR = 900, 430, 40, 70, 18
_COLOUR_WITHIN, _COLOUR_ABOVE, _INK, _GRID = "#17507a", "#9a3412", "#1d2733", "#dbe2e9"
_DASHED: Final = "stroke-dasharray='5 4'"
_SANS: Final = "font-family='system-ui, sans-serif' font-size='13'"


def audit_svg(title: str, claim: float, audits: Sequence[PairAudit]) -> str:
    """The drawing as text: epsilon from 0 to the right, the claim as a dashed line, bounds above it
    in another colour.
    """
    right = 1.15 * max(claim, *(audit.result.epsilon_lower_bound for audit in audits))
    height = _TOP + _ROW * len(audits) + 50
    foot = height - 30
    claim_x = _x_position(claim, right)
    rows: list[str] = []
    for place, audit in enumerate(audits):
        rows += _draw_row(audit, _TOP + place * _ROW, right)
    view = f"viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}'"
    axis = "epsilon is at least ... (lower bound by the runs)"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' {view}>",
            f"<rect width='{_WIDTH}' height='{height}' fill='#fff'/>",
            _draw_text(20, 30, title, "font-weight='600' "),
            _draw_upright(_LEFT, _TOP - 10, foot - 14, f"stroke='{_GRID}'"),
            *rows,
            _draw_upright(claim_x, _TOP - 14, foot - 14, f"stroke='{_INK}' {_DASHED}"),
            _draw_text(claim_x, _TOP - 20, f"claimed {claim:g}", "text-anchor='middle' "),
            _draw_text(_LEFT, foot + 6, axis),
            "</svg>\n",
        ]
    )


def _draw_row(audit: PairAudit, y: int, right: float) -> list[str]:
    bound = audit.result.epsilon_lower_bound
    colour = _COLOUR_WITHIN if audit.result.passed else _COLOUR_ABOVE
    end = _x_position(bound, right)
    width = f"{end - _LEFT:g}"
    shown = f"{bound:.3f}" if bound > 0 else "nothing seen"
    return [
        _draw_text(_LEFT - 12, y + 14, audit.pair, "text-anchor='end' "),
        f"<rect x='{_LEFT}' y='{y}' width='{width}' height='{_BAR}' fill='{colour}'/>",
        _draw_text(f"{end + 8:g}", y + 14, shown, colour=colour),
    ]


def _draw_text(
    x: float | str, y: float, words: str, attributes: str = "", colour: str = _INK
) -> str:
    start = f"<text x='{x}' y='{y}' {_SANS} {attributes}fill='{colour}'>"
    return f"{start}{escape(words)}</text>"


def _draw_upright(x: float, top: float, bottom: float, attributes: str) -> str:
    return f"<line x1='{x}' x2='{x}' y1='{top}' y2='{bottom}' {attributes}/>"


def _x_position(epsilon: float, right: float) -> float:
    """Where an epsilon lies, in pixels from the left."""
    return round(_LEFT + (_WIDTH - _LEFT - 110) * max(0.0, epsilon) / right, 1)
