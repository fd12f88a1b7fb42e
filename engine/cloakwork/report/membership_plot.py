"""A drawing of an attack on membership: members recognised against false alarms, beside what the
claim allows. Plain SVG.
"""

import math
from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape

import numpy as np

from cloakwork.evaluation.risk_figures import MembershipFigures

_LEFT, _TOP, _SIDE, _RIGHT = 70, 50, 380, 330
_WIDTH, _HEIGHT = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + 60
_LEAST: Final = 1e-3
"""Where both axes begin; they are logarithmic, since few false alarms are what tells."""

_COLOURS: Final = {"all": "#17507a", "alone": "#9a3412"}
_INK, _GRID = "#1d2733", "#dbe2e9"
_DASHED: Final = "stroke-dasharray='5 4'"
_SANS: Final = "font-family='system-ui, sans-serif' font-size='13'"


def membership_svg(found: MembershipFigures) -> str:
    """The drawing as text: a line for each group of targets, one for guessing, and, dashed, the
    most that the claim allows to any attack.
    """
    view = f"viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}'"
    title = f"{found.mechanism}: members recognised"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {view} role='img' aria-label='{_quoted(title)}'>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#fff'/>",
        _text(_LEFT, 28, title, "font-weight='600' "),
        *_axes(),
        _line(((_LEAST, _LEAST), (1.0, 1.0)), f"stroke='{_INK}' stroke-width='.7'"),
    ]
    legend = [("guessing", f"stroke='{_INK}' stroke-width='.7'")]
    if found.claimed is not None:
        limit = [(each, found.claimed.limit(each)) for each in np.geomspace(_LEAST, 1, 120)]
        style = f"stroke='{_INK}' stroke-width='1.5' {_DASHED}"
        lines.append(_line(limit, style))
        published = " (as published)" if found.claimed.basis == "published" else ""
        bound = f"most at epsilon {found.claimed.epsilon:g}, delta {found.claimed.delta:g}"
        legend.append((bound + published, style))
    for group in found.groups:
        style = f"stroke='{_COLOURS[group.name]}' stroke-width='2'"
        lines.append(_line(group.curve, style))
        legend.append((f"{group.in_words} ({group.targets:,})", style))
    return "\n".join([*lines, *_legend(legend), "</svg>\n"])


def _axes() -> list[str]:
    bottom, right = _TOP + _SIDE, _LEFT + _SIDE
    lines = []
    for power in range(round(math.log10(_LEAST)), 1):
        x, y = _place(10.0**power, 10.0**power)
        words = f"{10.0**power:.{max(0, -power - 2)}%}"
        lines += [
            f"<path d='M{x} {_TOP}V{bottom}M{_LEFT} {y}H{right}' stroke='{_GRID}'/>",
            _text(x, bottom + 20, words, "text-anchor='middle' "),
            _text(_LEFT - 8, y + 4, words, "text-anchor='end' "),
        ]
    below = "false alarms: cases that were not in the log, taken for members"
    beside = "members recognised"
    middle = _TOP + _SIDE / 2
    turned = f"text-anchor='middle' transform='rotate(-90 18 {middle:g})' "
    return [*lines, _text(_LEFT, bottom + 44, below), _text(18, middle, beside, turned)]


def _legend(entries: Iterable[tuple[str, str]]) -> list[str]:
    left = _LEFT + _SIDE + 20
    lines = []
    for row, (words, style) in enumerate(entries):
        y = _TOP + 16 + 26 * row
        lines.append(f"<path d='M{left} {y}h26' fill='none' {style}/>")
        lines.append(_text(left + 34, y + 4, words))
    return lines


def _line(points: Iterable[tuple[float, float]], style: str) -> str:
    places = [_place(x, y) for x, y in points]
    path = "L".join(f"{x} {y}" for x, y in places)
    return f"<path d='M{path}' fill='none' {style}/>"


def _place(false: float, true: float) -> tuple[float, float]:
    """Pixels from the left and from above; what lies below the axes is drawn at their edge."""
    span = -math.log10(_LEAST)
    x, y = (1 + math.log10(min(1.0, max(_LEAST, each))) / span for each in (false, true))
    return round(_LEFT + _SIDE * x, 1), round(_TOP + _SIDE * (1 - y), 1)


def _quoted(words: str) -> str:
    return escape(words, {"'": "&apos;"})


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f"<text x='{x:g}' y='{y:g}' {_SANS} {attributes}fill='{_INK}'>{escape(words)}</text>"
