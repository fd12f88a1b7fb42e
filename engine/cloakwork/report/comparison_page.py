"""A comparison as one HTML page, with the picture of privacy against what is left."""

from dataclasses import dataclass
from typing import Final

from cloakwork.evaluation.comparison_messages import attack_text, beside_lines, labels, share_text
from cloakwork.evaluation.comparison_model import ComparedSetting, Comparison, FigureSpread
from cloakwork.report.html import page

_WIDTH: Final = 760
_LABEL: Final = 250
_ATTACK: Final = 170
_GAP: Final = 20
_FLOW: Final = 250
_ROW: Final = 30
_TOP: Final = 34
_MIDDLE: Final = _LABEL + _ATTACK
_LONGEST_LABEL: Final = 38


@dataclass(frozen=True, slots=True)
class PictureRow:
    """One setting in pixels: to the left of the middle what an attacker may gain, to the right what
    is left of the control flow, with its spread.
    """

    y: int
    label: str
    attack_x: float
    attack_width: float
    attack: str
    kept_width: float
    low_x: float
    high_x: float
    kept: str


@dataclass(frozen=True, slots=True)
class ComparisonPicture:
    """The picture of all settings that have figures, with its size in pixels."""

    rows: tuple[PictureRow, ...]
    says: str
    width: int
    height: int
    middle: int
    kept_x: int
    kept_end: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """One setting as texts; each cell is a figure and what stands small below it."""

    label: str
    guarantees: str
    cells: tuple[tuple[str, str], ...]
    refused: str
    remarks: tuple[str, ...]


def comparison_html(found: Comparison, log_name: str) -> str:
    """The page; figures of the raw log are marked as internal in its first line."""
    return page(
        "compare.html",
        found=found,
        log_name=log_name,
        rows=table_rows(found),
        picture=picture(found),
        beside=beside_lines(found),
    )


def table_rows(found: Comparison) -> tuple[TableRow, ...]:
    """The settings as rows of a table."""
    named = zip(labels(found), found.settings, strict=True)
    return tuple(_table_row(label, setting) for label, setting in named)


def picture(found: Comparison) -> ComparisonPicture:
    """The picture; a setting that cannot be has no row in it."""
    named = zip(labels(found), found.settings, strict=True)
    shown = [(label, each) for label, each in named if each.figures and each.figures.similarity]
    rows = tuple(
        _picture_row(label, each, _TOP + place * _ROW) for place, (label, each) in enumerate(shown)
    )
    says = "; ".join(f"{row.label}: attack {row.attack}, control flow {row.kept}" for row in rows)
    return ComparisonPicture(
        rows=rows,
        says=says,
        width=_WIDTH,
        height=_TOP + _ROW * len(rows) + 8,
        middle=_MIDDLE,
        kept_x=_MIDDLE + _GAP,
        kept_end=_MIDDLE + _GAP + _FLOW,
    )


def _picture_row(label: str, setting: ComparedSetting, y: int) -> PictureRow:
    assert setting.figures is not None  # noqa: S101 - by ``picture``
    kept = setting.figures.similarity
    assert kept is not None  # noqa: S101 - by ``picture``
    bound = setting.bounds[0] if setting.bounds else None
    attack = 0.0 if bound is None else bound.most * (_ATTACK - 50)
    begin = _MIDDLE + _GAP
    return PictureRow(
        y=y,
        label=label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…",
        attack_x=round(_MIDDLE - attack, 1),
        attack_width=round(attack, 1),
        attack="no bound" if bound is None else attack_text(bound),
        kept_width=round(_FLOW * kept.median, 1),
        low_x=round(begin + _FLOW * kept.low, 1),
        high_x=round(begin + _FLOW * kept.high, 1),
        kept=f"{kept.median:.2f}",
    )


def _table_row(label: str, setting: ComparedSetting) -> TableRow:
    figures = setting.figures
    cells: tuple[tuple[str, str], ...] = ()
    if figures is not None:
        cells = (
            _with_spread(figures.similarity),
            (share_text(figures.cases), ""),
            (share_text(figures.events), ""),
            _with_spread(figures.durations),
            _with_spread(figures.attributes),
            (", ".join(map(attack_text, setting.bounds)) or "no bound", ""),
            (", ".join(setting.cost) or "none", ""),
        )
    return TableRow(
        label, " + ".join(setting.guarantees), cells, setting.refused or "", setting.remarks
    )


def _with_spread(figure: FigureSpread | None) -> tuple[str, str]:
    if figure is None:
        return "–", ""
    low, middle, high = (f"{each:.2f}" for each in (figure.low, figure.median, figure.high))
    return middle, "" if low == high else f"{low}–{high}"
