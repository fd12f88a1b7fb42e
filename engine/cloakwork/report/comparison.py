"""What ``compare`` found, as a screen with a line and a bar a setting, and as an HTML page with
bars of privacy against what is left.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from cloakwork.base.notebook_html import html_of, listing, shown, table
from cloakwork.base.text import printable
from cloakwork.evaluation.compare import (
    AttackBound,
    ComparedSetting,
    Comparison,
    FigureSpread,
)
from cloakwork.evaluation.utility import Utility
from cloakwork.report.html import lines, page
from cloakwork.report.screen import ScreenSection, block, fitted, print_sections
from cloakwork.report.texts import INTERNAL

if TYPE_CHECKING:
    from cloakwork.evaluation.compare import RehearsedForm

MOST_LINES: Final = 25
ALL: Final = "--all"
_BAR: Final = 6
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_COLUMNS: Final = (("Cases", 6), ("Times", 6), ("Attributes", 11), ("Attack", 11), ("Budget", 7))
"""Called as ``plan`` calls them."""
_FLOW: Final = 19
"""Columns of the bar and the similarity beside it."""

_ROWS_WITH_REASONS: Final = 10
"""Lines of the table up to which a refusal has two."""

_SHORTEST_NAME: Final = 6

_LEGEND: Final = (
    "Activities: similarity{spread}, 1 is best. Times, Attributes: errors, 0 is best. Attack, at "
    "most: 1 in n, to pick out a case; +9 in 100: so much surer who is in it. Budget: epsilon."
)


def print_comparison(
    found: "Comparison", log_name: str, width: int, *, show_all: bool = False
) -> None:
    """At most ``MOST_LINES`` lines unless ``show_all``; what concerns the whole stands first."""
    rows = list(_rows(found, width))
    similarities = [each.figures.similarity for each in found.settings if each.figures]
    spread = " and range" if any(each and _is_spread(each) for each in similarities) else ""
    legend = list(block("", [_LEGEND.format(spread=spread)], width, indent=0))
    # The table is never cut; what stands above it gives way.
    room = MOST_LINES - len(rows) - len(legend) - 2
    # The policy stands in the head where there is one, and what it guarantees throughout.
    policies = list(dict.fromkeys(setting.policy for setting in found.settings))
    first = found.settings[0].guarantees
    head = f"{log_name}, dataset {found.dataset}, {len(policies)} policies"
    if len(policies) == 1:
        alike = all(setting.guarantees == first for setting in found.settings)
        guarantees = f": {' + '.join(first)}" if alike else ""
        head = f"{log_name} under {policies[0]}, dataset {found.dataset}{guarantees}"
    sections: tuple[ScreenSection, ...] = (
        ScreenSection("Compared", (head,), most_lines=2),
        ScreenSection("Measured on", found.notice, most_lines=3, legible_lines=3),
        ScreenSection("Supposed", found.assumed, ALL, most_lines=2, legible_lines=2),
        ScreenSection("Notes", tuple(_remarks(found)), ALL, most_lines=2, legible_lines=2),
    )
    if show_all:
        sections = tuple(replace(section, most_lines=None) for section in sections)
    print_sections(sections if show_all else fitted(sections, room, width), width)
    click.echo()
    for number, row in enumerate(rows):
        click.echo(click.style(row, bold=True) if number == 0 else row)
    click.echo()
    for line in legend:
        click.echo(line)


def _rows(found: "Comparison", width: int) -> Iterator[str]:
    room = width - _FLOW - sum(size for _, size in _COLUMNS) - 1
    header = "".join(f"{name:>{size}}" for name, size in _COLUMNS)
    yield f"{'Setting':<{room}} {'Activities':<{_FLOW}}{header}"
    refused = sum(setting.refused is not None for setting in found.settings)
    most = 2 if len(found.settings) + refused <= _ROWS_WITH_REASONS else 1
    for label, setting in zip(labels(found), found.settings, strict=True):
        name = f"{_fitted_label(printable(label), room):<{room}}"
        if setting.refused is None:
            yield f"{name} {_cells(setting)}".rstrip()
        else:
            reason = f"cannot be: {setting.refused}"
            yield from block(name, [reason], width, indent=room + 1, most_lines=most)


def _fitted_label(label: str, room: int) -> str:
    """The label in ``room`` columns; what was swept stands at its end, and stays."""
    if len(label) <= room:
        return label
    name, space, values = label.partition(" ")
    left = room - len(space + values) - 1
    # A name cut this short tells nothing: the label is cut at its end.
    if left < _SHORTEST_NAME:
        return label[: room - 1] + "…"
    return f"{name[:left]}…{space}{values}"


def _cells(setting: "ComparedSetting") -> str:
    figures = setting.figures
    if figures is None:
        return ""
    cells = [
        share_text(figures.cases),
        _number(figures.durations),
        _number(figures.attributes),
        ", ".join(map(attack_text, setting.bounds[:1])) or "-",
        # A cost says 'epsilon E, delta D', and the column has room for E alone.
        setting.cost[0].partition("epsilon ")[2].partition(",")[0] if setting.cost else "none",
    ]
    sizes = [size for _, size in _COLUMNS]
    right = "".join(f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=True))
    kept = "-"
    if (similarity := figures.similarity) is not None:
        low, middle, high = map(_short, (similarity.low, similarity.median, similarity.high))
        share = max(0.0, min(1.0, similarity.median))
        # The bar is drawn in eighths of a character.
        full, rest = divmod(round(share * _BAR * 8), 8)
        drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
        kept = f"{drawn:<{_BAR}} {middle}"
        kept += f" {low}-{high}" if _is_spread(similarity) else ""
    return f"{kept:<{_FLOW}}{right}"


def _number(figure: "FigureSpread | None") -> str:
    return "-" if figure is None else _short(figure.median)


def _short(value: float) -> str:
    """Two digits: ``.86``, ``1.00``."""
    text = f"{value:.2f}"
    return text.removeprefix("0") if value < 1 else text


def _is_spread(figure: "FigureSpread") -> bool:
    return _short(figure.low) != _short(figure.high)


def _remarks(found: "Comparison") -> Iterator[str]:
    """What else to know: what the bounds leave out, then what concerns single settings."""
    yield from beside_lines(found)
    for label, setting in zip(labels(found), found.settings, strict=True):
        yield from (f"{label}: {remark}" for remark in setting.remarks)


_HEADS: Final = (
    *("Setting", "Activities", "Cases", "Events", "Times, error", "Attributes, error"),
    *("Attack, at most", "Cases found", "Budget"),
)


def comparison_html(found: Comparison, log_name: str) -> str:
    """The page; figures of the raw log are marked as internal in its first line."""
    return page(
        "compare.html",
        found=found,
        log_name=log_name,
        heads=_HEADS,
        rows=table_rows(found),
        beside=beside_lines(found),
    )


@html_of.register
def comparison_shown(found: Comparison) -> str:
    """The table, for notebooks."""
    rows = [
        (label, *([cell for cell, _ in cells] or [f"{setting.refused}"]))
        for label, setting, cells in table_rows(found)
    ]
    return shown(" ".join(found.notice), table(_HEADS, rows), listing("", beside_lines(found)))


def table_rows(found: Comparison) -> list[tuple[str, ComparedSetting, list[tuple[str, str]]]]:
    """The settings as rows of a table: the label, the setting, and its cells, each of them a figure
    and what stands small below it.
    """
    named = zip(labels(found), found.settings, strict=True)
    return [(label, setting, _table_cells(setting)) for label, setting in named]


def _table_cells(setting: ComparedSetting) -> list[tuple[str, str]]:
    figures = setting.figures
    if figures is None:
        return []
    # The largest share of cases that are found, whatever is known of them, and its bounds.
    most = max(setting.found.values(), key=lambda each: each.share, default=None)
    return [
        _with_spread(figures.similarity),
        (share_text(figures.cases), ""),
        (share_text(figures.events), ""),
        _with_spread(figures.durations),
        _with_spread(figures.attributes),
        (", ".join(map(attack_text, setting.bounds)) or "no bound", ""),
        ("–", "") if most is None else (f"{most.share:.1%}", f"{most.low:.1%}–{most.high:.1%}"),
        (", ".join(setting.cost) or "none", ""),
    ]


def _with_spread(figure: FigureSpread | None) -> tuple[str, str]:
    if figure is None:
        return "–", ""
    low, middle, high = (f"{each:.2f}" for each in (figure.low, figure.median, figure.high))
    return middle, "" if low == high else f"{low}–{high}"


_MARKS: Final = re.compile("^(?:Cases|Events|Variants|Hours|Share|Powers of ten)|[01] is best")


def utility_lines(found: "Utility", width: int) -> Iterator[str]:
    """Each figure by its plain name, below what they must not be used for."""
    yield f"{INTERNAL[:1].upper()}{INTERNAL[1:]}"
    figures = [*lines(found)]
    room = max((len(each.name) for each in figures), default=0) + 2
    for each in figures:
        # What it says begins with the unit, and ends with which value is best.
        said = _MARKS.findall(each.says)
        beside = f" ({', '.join(said).lower()})" if said else ""
        yield f"{each.name:<{room}}{each.value}{beside}"
    notes = (*found.notes, *(found.whole_log.notes if found.whole_log else ()))
    yield from block("Note", notes, width, indent=6)


_THOUSAND: Final = 1000


def labels(found: Comparison) -> list[str]:
    """What each row is called: what was swept, after the policy where several are compared; its
    guarantees where nothing was swept.
    """
    several = len({setting.policy for setting in found.settings}) > 1
    return [_label(setting, with_policy=several) for setting in found.settings]


def _label(setting: ComparedSetting, *, with_policy: bool) -> str:
    values = ", ".join(f"{name} {value}" for name, value in setting.values.items())
    if with_policy:
        return f"{setting.policy.partition(' ')[0]} {values}".strip()
    return values or " + ".join(setting.guarantees)


def beside_lines(found: Comparison) -> list[str]:
    """What the star of ``attack_text`` means, a line for each set of columns."""
    bounds = [bound for setting in found.settings for bound in setting.bounds if bound.beside]
    column_lists = dict.fromkeys(", ".join(bound.beside) for bound in bounds)
    return [
        f"* by the activity sequence alone: whoever knows values of {columns} can often tell "
        "which released case it is"
        for columns in column_lists
    ]


def attack_text(bound: AttackBound) -> str:
    """``1 in 10`` for a guess, with a star where other columns tell more; ``+27 in 100``, rounded
    up, for how much surer somebody becomes.
    """
    if bound.kind == "guess":
        cases = round(1 / bound.most)
        shown = f"{cases}" if cases < _THOUSAND else f"{cases / _THOUSAND:.3g}k"
        return f"1 in {shown}" + ("*" if bound.beside else "")
    # Rounded up: a bound must not look smaller than it is.
    return f"+{math.ceil(100 * bound.most)} in 100"


def share_text(figure: FigureSpread | None) -> str:
    """The median in per cent."""
    return "-" if figure is None else f"{figure.median:.0%}"


_FOUND_BY: Final = {
    "sequence": "% found by sequence",
    "timed-events-3": "% by three times",
    "sequence-times": "% by both",
}


def form_rows(forms: "Sequence[RehearsedForm]", most: float) -> list[tuple[str, list[str]]]:
    """Forms of release beside each other, a label and a cell each: what is kept, who is found, what
    it costs. A share of cases above ``most`` is marked with ``!``, one that may be with ``?``.
    """

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    def share(form: "RehearsedForm", kind: str) -> str:
        known = form.found.get(kind)
        if known is None:
            return "-"
        mark = "!" if known.share > most else "?" if known.high > most else " "
        return f"{100 * known.share:.1f} (to {100 * known.high:.1f}){mark}"

    def cost(form: "RehearsedForm") -> str:
        if form.cost is None:
            return "-"
        left = "" if form.left is None else f" ({form.left.epsilon:g} left)"
        return f"{form.cost.epsilon:g}{left}"

    attributes = []
    if any(each.attributes is not None for each in forms):
        attributes = [("attributes off by", [number(each.attributes) for each in forms])]
    return [
        ("similarity (1 best)", [number(each.similarity) for each in forms]),
        ("durations off by", [number(each.durations) for each in forms]),
        ("waits off by (log10)", [number(each.waits) for each in forms]),
        *attributes,
        *((label, [share(each, kind) for each in forms]) for kind, label in _FOUND_BY.items()),
        ("epsilon", [cost(each) for each in forms]),
    ]
