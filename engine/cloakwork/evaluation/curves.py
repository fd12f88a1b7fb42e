"""Distributions before and after, as shares that a report can draw."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.quantities import Frozen

_MARKS: Final = ((1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 d"), (604_800, "1 w"))
_YEAR: Final = 365 * 86_400
_PER_POWER: Final = 4
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class ShareCurve(Frozen):
    """Shares of the source and of the release in the same classes, which follow one another.

    ``marks``: where along them, from 0 to 1, words stand that say what a class is.
    """

    title: str
    source: tuple[float, ...]
    released: tuple[float, ...]
    marks: tuple[tuple[float, str], ...]


def duration_curve(source: Floats, release: Floats) -> ShareCurve:
    """Case durations in seconds, in four classes for each power of ten; the first holds those below
    one second.
    """
    longest = max(float(side.max(initial=_YEAR)) for side in (source, release))
    classes = int(np.ceil(np.log10(longest) * _PER_POWER)) + 1
    sides = [
        np.where(side < 1, 0, np.log10(np.maximum(side, 1)) * _PER_POWER + 1).astype(np.int64)
        for side in (source, release)
    ]
    marks = [
        ((np.log10(seconds) * _PER_POWER + 1) / (classes + 1), words)
        for seconds, words in (*_MARKS, (_YEAR, "1 y"))
    ]
    return _curve("How long cases take", sides, classes + 1, marks)


def profile_curve(source: Ints, release: Ints, slots: int) -> ShareCurve:
    """Events by hour of the week (``slots`` 168) or day of the week (7), from Monday on."""
    marks = [(place / 7, day) for place, day in enumerate(_DAYS)]
    what = "When events happen: hours of the week, UTC" if slots > 7 else "When events happen"
    return _curve(what, [source, release], slots, marks)


def _curve(
    title: str, sides: list[Ints], classes: int, marks: list[tuple[float, str]]
) -> ShareCurve:
    shares = [
        np.bincount(np.minimum(side, classes - 1), minlength=classes) / max(len(side), 1)
        for side in sides
    ]
    return ShareCurve(
        title=title,
        source=tuple(shares[0].round(6).tolist()),
        released=tuple(shares[1].round(6).tolist()),
        marks=tuple((round(float(place), 4), words) for place, words in marks),
    )
