"""Share curves as lines that a page can hold: path data of SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cloakwork.evaluation.curves import ShareCurve

_WIDTH: Final = 360
_BASE: Final = 100
_HEIGHT: Final = _BASE + 24


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """A curve in pixels: path data of both lines, and words with their places from the left.

    ``base``: where the share 0 lies; ``highest``: the largest share of either line.
    """

    title: str
    source: str
    released: str
    marks: tuple[tuple[float, str], ...]
    highest: float
    width: int = _WIDTH
    base: int = _BASE
    height: int = _HEIGHT


def drawn(curve: ShareCurve) -> DrawnCurve:
    """The drawing: steps from the left to the right, the largest share near the upper edge."""
    highest = max((*curve.source, *curve.released), default=0.0)
    return DrawnCurve(
        title=curve.title,
        source=_path(curve.source, highest),
        released=_path(curve.released, highest),
        marks=tuple((round(place * _WIDTH, 1), words) for place, words in curve.marks),
        highest=highest,
    )


def _path(shares: Sequence[float], highest: float) -> str:
    step = _WIDTH / max(len(shares), 1)
    lines = [f"M0 {_BASE}"]
    for place, share in enumerate(shares):
        y = _BASE - (_BASE - 8) * share / highest if highest else _BASE
        lines.append(f"V{y:.1f}H{(place + 1) * step:.1f}")
    return "".join(lines)
