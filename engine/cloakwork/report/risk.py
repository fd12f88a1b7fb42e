"""What attacks and audits found: as screens, as a page, as drawings (plain SVG), and as the
document that a report takes in.
"""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

import numpy as np
from pydantic import ValidationError

from cloakwork.base.errors import OutputError
from cloakwork.base.text import first_fault
from cloakwork.evaluation.pairs import PairAudit
from cloakwork.evaluation.risk_figures import Attack, MembershipFigures, RiskReport, Share
from cloakwork.report.drawings import DASHED, GRID, INK, svg_text
from cloakwork.report.html import page
from cloakwork.report.ledger_text import fields_json
from cloakwork.report.model import Audience, Format
from cloakwork.report.screen import block, printable
from cloakwork.report.texts import membership_lines, range_text, threshold_lines


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
        **fields_json(result, "delta", "passed", "hits", "counted", "direction"),
    }


# --- the screen


_MOST_LINES: Final = 25
_SHARE: Final = 12
"""Columns of a share."""


def risk_screen(found: RiskReport, width: int, *, show_all: bool) -> list[str]:
    """The table, then remarks: on the first screen as many as there is room for."""
    # What is above the threshold ends in a mark.
    wide = width - 2 * _SHARE - 1
    heading = "Share of cases found by who knows"
    lines = [
        *block("", [f"{found.internal[:1].upper()}{found.internal[1:]}."], width, indent=0),
        "",
        f"{heading:<{wide}}{'before':>{_SHARE}}{'after':>{_SHARE}}",
    ]
    for attack in found.attacks if show_all else found.chosen:
        words = printable(attack.in_words)
        if len(words) > wide - 2:
            words = words[: wide - 5] + "..."
        shares = f"{range_text(attack.before):>{_SHARE}}{range_text(attack.after):>{_SHARE}}"
        mark = "!" if attack in found.above else ""
        lines.append(f"{words:<{wide}}{shares}{mark}")
    lines.append("")
    remarks = list(_remarks(found))
    if show_all:
        return [*lines, *block("", remarks, width, indent=0)]
    last = "All attacks and notes: --all, --json or --html FILE."
    # The figures' basis stays, and what was asked for: the bounds of employees.
    kept = 1 if found.threshold is None else 2
    if found.employees is not None:
        asked = remarks.pop(remarks.index(_as_sentence(found.employees.in_words())))
        remarks.insert(kept, asked)
        kept += 1
    # The least important remark goes first, until the screen is short enough.
    while True:
        below = list(block("", [*remarks, last], width, indent=0))
        if len(lines) + len(below) <= _MOST_LINES or len(remarks) == kept:
            return [*lines, *below]
        remarks.pop()


def _as_sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def _remarks(found: RiskReport) -> Iterator[str]:
    """What the figures rest on, the most important first."""
    if found.membership is not None:
        yield from membership_lines(found.membership)
    yield from threshold_lines(found.attacks, found.threshold)
    targets = "every case" if found.targets == found.cases else f"{found.targets:,} at random"
    yield (
        f"{found.cases:,} cases, {targets} looked for; bounds at 95 % confidence. "
        "Whose case is whose in a release is estimated (docs: risk)."
    )
    inferred = [each for each in found.attacks if each.name.startswith("inference/")]
    beyond = [each for each in inferred if each.after is not None and each.after.low > 0]
    if beyond:
        said = ", ".join(
            f"{printable(each.name.partition('/')[2])} {range_text(each.after)}" for each in beyond
        )
        yield (
            f"Inferred beyond what the control tells ({beyond[0].control}): {said}; "
            f"{len(inferred) - len(beyond)} attributes are not."
        )
    yield from map(_as_sentence, found.notes)
    by_sequence = found.attack("uniqueness/sequence").groups_before
    if by_sequence is not None:
        yield (
            f"Groups with one sequence: {by_sequence.alone:.0%} of the cases are alone, "
            f"{by_sequence.two_to_four:.0%} in groups of 2 to 4, "
            f"{by_sequence.five_to_nine:.0%} of 5 to 9."
        )


# --- the page


_BAR: Final = 240
"""Pixels of a share of 1."""

_HEADINGS: Final = {
    "linking": "Is the case found? The best guess of somebody who knows",
    "unusual": "The same of the 5 % most unusual cases, whose sequences are the least likely",
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
    from markupsafe import Markup

    kinds: dict[str, list[DrawnAttack]] = {}
    for attack in report.attacks:
        # The first part of an attack's name is its kind.
        kind = attack.name.partition("/")[0]
        row = DrawnAttack(attack, _drawn_share(attack.before), _drawn_share(attack.after))
        kinds.setdefault(kind, []).append(row)
    drawing = None
    if report.membership is not None:
        # The drawing escapes what it is given.
        drawing = Markup(membership_svg(report.membership))  # noqa: S704
    return page(
        "risk.html",
        report=report,
        # In the order of the headings; an attack without one comes last, by its own name.
        tables=[
            (_HEADINGS.get(kind, kind), kinds[kind])
            for kind in dict.fromkeys([*_HEADINGS, *kinds])
            if kind in kinds
        ],
        groups=[each for each in report.attacks if each.groups_before is not None],
        width=_BAR,
        drawing=drawing,
    )


def _drawn_share(share: Share | None) -> DrawnShare | None:
    if share is None:
        return None
    middle, low, high = (round(_BAR * each, 1) for each in (share.share, share.low, share.high))
    return DrawnShare(middle, low, high, str(share))


# --- the drawing of an attack on membership


_LEFT, _TOP, _SIDE, _RIGHT = 70, 50, 380, 330
_WIDTH, _HEIGHT = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + 60
_LEAST: Final = 1e-3
"""Where both axes begin; they are logarithmic, since few false alarms are what tells."""

_COLOURS: Final = {"all": "#17507a", "alone": "#9a3412"}


def membership_svg(found: MembershipFigures) -> str:
    """Members recognised against false alarms: a line for each group of targets, one for guessing,
    and, dashed, the most that the claim allows to any attack.
    """
    title = f"{found.mechanism}: members recognised"
    # The attribute stands in single quotes here, which escape leaves as they are.
    quoted = escape(title, {"'": "&apos;"})
    view = f"viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}'"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {view} role='img' aria-label='{quoted}'>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#fff'/>",
        _text(_LEFT, 28, title, "font-weight='600' "),
        *_axes(),
    ]
    guessing = f"stroke='{INK}' stroke-width='.7'"
    lines.append(_line(((_LEAST, _LEAST), (1.0, 1.0)), guessing))
    legend = [("guessing", guessing)]
    if found.claimed is not None:
        # Even steps on a logarithmic axis, so that the limit is drawn smoothly.
        limit = [(each, found.claimed.limit(each)) for each in np.geomspace(_LEAST, 1, 120)]
        style = f"stroke='{INK}' stroke-width='1.5' {DASHED}"
        lines.append(_line(limit, style))
        published = " (as published)" if found.claimed.basis == "published" else ""
        bound = f"most at epsilon {found.claimed.epsilon:g}, delta {found.claimed.delta:g}"
        legend.append((bound + published, style))
    for group in found.groups:
        style = f"stroke='{_COLOURS[group.name]}' stroke-width='2'"
        lines.append(_line(group.curve, style))
        legend.append((f"{group.in_words} ({group.targets:,})", style))
    beside = _LEFT + _SIDE + 20
    for row, (words, style) in enumerate(legend):
        y = _TOP + 16 + 26 * row
        lines.append(f"<path d='M{beside} {y}h26' fill='none' {style}/>")
        lines.append(_text(beside + 34, y + 4, words))
    return "\n".join([*lines, "</svg>\n"])


def _axes() -> list[str]:
    bottom, right = _TOP + _SIDE, _LEFT + _SIDE
    lines = []
    for power in range(round(math.log10(_LEAST)), 1):
        x, y = _place(10.0**power, 10.0**power)
        # As many decimals as the power needs: 0.1%, 1%, 10%.
        words = f"{10.0**power:.{max(0, -power - 2)}%}"
        lines += [
            f"<path d='M{x} {_TOP}V{bottom}M{_LEFT} {y}H{right}' stroke='{GRID}'/>",
            _text(x, bottom + 20, words, "text-anchor='middle' "),
            _text(_LEFT - 8, y + 4, words, "text-anchor='end' "),
        ]
    below = "false alarms: cases that were not in the log, taken for members"
    middle = _TOP + _SIDE / 2
    turned = f"text-anchor='middle' transform='rotate(-90 18 {middle:g})' "
    return [
        *lines,
        _text(_LEFT, bottom + 44, below),
        _text(18, middle, "members recognised", turned),
    ]


def _line(points: Iterable[tuple[float, float]], style: str) -> str:
    places = [_place(x, y) for x, y in points]
    path = "L".join(f"{x} {y}" for x, y in places)
    return f"<path d='M{path}' fill='none' {style}/>"


def _place(false: float, true: float) -> tuple[float, float]:
    """Pixels from the left and from above; what lies below the axes is drawn at their edge."""
    span = -math.log10(_LEAST)
    x, y = (1 + math.log10(min(1.0, max(_LEAST, each))) / span for each in (false, true))
    return round(_LEFT + _SIDE * x, 1), round(_TOP + _SIDE * (1 - y), 1)


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return svg_text(f"{x:g}", f"{y:g}", words, attributes)


# --- the document


WITH_RISK: Final[tuple[Format, ...]] = ("html", "pdf", "json", "dpia")
"""The formats that hold the figures of an attack."""

_LARGEST: Final = 64 * 2**20
"""Bytes: an attack is a few hundred of them."""
_AGAIN: Final = "write it with: cloakwork risk LOG DIR --json > FILE"


def read_risk(path: Path) -> RiskReport:
    """The document in ``path``, as ``cloakwork risk --json`` printed it; raises OutputError where
    it is none.
    """
    try:
        with path.open("rb") as file:
            # One byte more than allowed tells that there is more.
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror})") from error
    if len(content) > _LARGEST:
        raise OutputError(f"{path}: is too large for what cloakwork risk prints")
    try:
        return RiskReport.model_validate_json(content)
    except ValidationError as error:
        where, says = first_fault(error)
        place = " ".join(where.split())
        # A fault of the document as a whole has no place.
        fault = f"{place}: {says}" if place else says
        raise OutputError(
            f"{path}: is not what cloakwork risk --json prints ({fault}); {_AGAIN}"
        ) from error


def require_internal(audience: Audience, format_: Format) -> None:
    """Raise OutputError where a report for this audience, or of this format, holds no figures of
    an attack.
    """
    if audience != "internal":
        raise OutputError(
            "figures of an attack are read off the raw log: use --risk with --audience internal"
        )
    if format_ not in WITH_RISK:
        raise OutputError(
            f"{format_} holds no figures of an attack: use --risk with --format "
            f"{', '.join(WITH_RISK[:-1])} or {WITH_RISK[-1]}"
        )


def require_of_release(risk: RiskReport, release: str) -> None:
    """Raise OutputError unless the attacked release states the id ``release``."""
    if risk.release == release:
        return
    if risk.release is None:
        what = "does not say which release was attacked: name the release's folder, no log file"
    else:
        what = f"is of the release {risk.release}, and this one is {release}"
    raise OutputError(f"the risk document {what}; {_AGAIN}")
