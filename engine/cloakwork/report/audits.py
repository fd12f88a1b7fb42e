"""What audits of a mechanism's claim say: in lines, as JSON values, and as a drawing."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cloakwork.evaluation.pairs import PairAudit
from cloakwork.report.drawings import DASHED, GRID, INK, svg_text

_WIDTH, _LEFT, _ROW, _TOP, _BAR = 900, 430, 40, 70, 18
_COLOURS: Final = {True: "#17507a", False: "#9a3412"}
"""Of the bars, by whether the audit was passed."""


def audit_lines(found: Sequence[PairAudit], width: int) -> Iterator[str]:
    """For each pair of neighbours the bound that its runs show, and what showed it."""
    for item in found:
        result = item.result
        bound = result.epsilon_lower_bound
        seen = f"epsilon >= {bound:.3f}" if bound > 0 else "nothing seen"
        verdict = "within the claim" if result.passed else "EXCEEDS the claim"
        claim = f"{verdict} of {result.claim:g} (delta {result.delta:g})"
        line = f"{item.pair}: {seen}, {claim}"
        yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
        if bound > 0:
            hits = f"{result.hits[0]} against {result.hits[1]} of {result.counted} runs"
            yield f"    {item.statistic}, {result.event}: {hits}"
    yield "  wrong with probability at most 1e-6 over all pairs; passing is no proof"


def audit_json(item: PairAudit) -> dict[str, Any]:
    """What the runs on one pair of neighbours showed."""
    result = item.result
    return {
        "pair": item.pair,
        "figure": item.statistic,
        "event": result.event,
        "epsilon_at_least": max(0.0, result.epsilon_lower_bound),
        "delta": result.delta,
        "passed": result.passed,
        "hits": list(result.hits),
        "counted": result.counted,
        "direction": result.direction,
    }


def audit_svg(title: str, claim: float, audits: Sequence[PairAudit]) -> str:
    """One bar a pair of neighbours: epsilon from 0 to the right, the claim as a dashed line, bounds
    above it in another colour.
    """
    right = 1.15 * max(claim, *(audit.result.epsilon_lower_bound for audit in audits))

    def pixels(epsilon: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 110) * max(0.0, epsilon) / right, 1)

    height = _TOP + _ROW * len(audits) + 50
    foot = height - 30
    view = f"viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}'"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {view}>",
        f"<rect width='{_WIDTH}' height='{height}' fill='#fff'/>",
        svg_text(20, 30, title, "font-weight='600' "),
        _upright(_LEFT, _TOP - 10, foot - 14, f"stroke='{GRID}'"),
    ]
    for place, audit in enumerate(audits):
        bound, y = audit.result.epsilon_lower_bound, _TOP + place * _ROW
        colour, end = _COLOURS[audit.result.passed], pixels(bound)
        width = f"{end - _LEFT:g}"
        shown = f"{bound:.3f}" if bound > 0 else "nothing seen"
        lines += [
            svg_text(_LEFT - 12, y + 14, audit.pair, "text-anchor='end' "),
            f"<rect x='{_LEFT}' y='{y}' width='{width}' height='{_BAR}' fill='{colour}'/>",
            svg_text(f"{end + 8:g}", y + 14, shown, colour=colour),
        ]
    claimed = pixels(claim)
    lines += [
        _upright(claimed, _TOP - 14, foot - 14, f"stroke='{INK}' {DASHED}"),
        svg_text(claimed, _TOP - 20, f"claimed {claim:g}", "text-anchor='middle' "),
        svg_text(_LEFT, foot + 6, "epsilon is at least ... (lower bound by the runs)"),
        "</svg>\n",
    ]
    return "\n".join(lines)


def _upright(x: float, top: float, bottom: float, attributes: str) -> str:
    return f"<line x1='{x}' x2='{x}' y1='{top}' y2='{bottom}' {attributes}/>"
