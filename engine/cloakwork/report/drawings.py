"""Share curves and directly-follows graphs as lines and boxes that a page can hold."""

from collections.abc import Sequence
from itertools import chain
from textwrap import wrap
from typing import Final, Literal

from cloakwork.base.frozen import frozen
from cloakwork.evaluation.control_flow import FlowGraph
from cloakwork.evaluation.times import ShareCurve

_WIDTH: Final = 360
_BASE: Final = 100
_HEIGHT: Final = _BASE + 24


@frozen
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
        source=_path_of_shares(curve.source, highest),
        released=_path_of_shares(curve.released, highest),
        marks=tuple((round(place * _WIDTH, 1), words) for place, words in curve.marks),
        highest=highest,
    )


def _path_of_shares(shares: Sequence[float], highest: float) -> str:
    step = _WIDTH / max(len(shares), 1)
    lines = [f"M0 {_BASE}"]
    for place, share in enumerate(shares):
        # The largest share stays 8 pixels below the upper edge.
        y = _BASE - (_BASE - 8) * share / highest if highest else _BASE
        lines.append(f"V{y:.1f}H{(place + 1) * step:.1f}")
    return "".join(lines)


BEGIN: Final = "begin\x00"
END: Final = "end\x00"
"""Where cases begin and end; no activity has such a name in a log of XML."""

Link = tuple[str, str]


def links_of(graph: FlowGraph) -> list[Link]:
    """The steps of a graph, beginnings and ends by their names here, in the graph's order."""
    return [
        (BEGIN if s.first is None else s.first, END if s.second is None else s.second)
        for s in graph.steps
    ]


def in_order(links: Sequence[Link]) -> list[str]:
    """The activities from the beginning on, each before what follows it most often (``links`` begin
    with the most frequent).
    """
    found = dict[str, None]()
    # What no case leads to comes after all that one does.
    waiting = [*reversed(dict.fromkeys((BEGIN, *chain(*links))))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += reversed([second for first, second in links if first == name])
    return [*(name for name in found if name != END), END]


Side = Literal["source", "released"]

WIDTH: Final = 360
_ROW = 56
_BOX_WIDTH = 140
_BOX_HEIGHT = 32
_END_SIZE = 14
_LETTER: Final = 6.4
"""Pixels that a letter of a name takes, about."""
_NEAREST = 24
_FARTHEST = 120
"""By how much links bend that pass no other row, and that pass all."""
_PLACE: Final = 0.35
"""Where along a link its number stands: not in the middle, where links about one row would have
theirs."""


@frozen
class DrawnActivity:
    """A box with up to two lines of text; ``x`` and ``y``: its middle, in pixels. The ends of cases
    are dots, without text.
    """

    name: str
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    is_there: bool


@frozen
class DrawnLink:
    """A line with its number in the table, and the place of the number; ``stroke``: its width."""

    number: int
    path: str
    stroke: float
    x: float
    y: float


@frozen
class DrawnFlow:
    """A directly-follows graph in pixels."""

    title: str
    side: Side
    activities: tuple[DrawnActivity, ...]
    links: tuple[DrawnLink, ...]
    height: int
    width: int = WIDTH


def drawn_flows(graph: FlowGraph) -> tuple[DrawnFlow, DrawnFlow]:
    """The source's graph and the release's, every activity at one place in both."""
    return _drawn(graph, "source", "The source"), _drawn(graph, "released", "The release")


def _drawn(graph: FlowGraph, side: Side, title: str) -> DrawnFlow:
    links = links_of(graph)
    times: list[int] = [getattr(step, side) for step in graph.steps]
    there = {name for link, count in zip(links, times, strict=True) for name in link if count}
    names = in_order(links)
    boxes = {name: _box(name, row, name in there) for row, name in enumerate(names)}
    height = _ROW * len(names)
    most = max(times, default=0)
    drawn = []
    for number, (link, count) in enumerate(zip(links, times, strict=True), 1):
        if count:
            path, x, y = _arc(boxes[link[0]], boxes[link[1]], height)
            # From 1 to 5 pixels wide, by how often the step occurs.
            drawn.append(DrawnLink(number, path, 1 + 4 * count / most, x, y))
    return DrawnFlow(title, side, tuple(boxes.values()), tuple(drawn), height)


def _box(name: str, row: int, is_there: bool) -> DrawnActivity:
    x = WIDTH / 2
    y = (row + 0.5) * _ROW
    if name in (BEGIN, END):
        return DrawnActivity(name, (), x, y, _END_SIZE, _END_SIZE, is_there)
    letters = int(_BOX_WIDTH / _LETTER)
    lines = tuple(wrap(name, letters, max_lines=2, placeholder="…")) or (name[:letters],)
    return DrawnActivity(name, lines, x, y, _BOX_WIDTH, _BOX_HEIGHT, is_there)


def _arc(first: DrawnActivity, second: DrawnActivity, height: int) -> tuple[str, float, float]:
    """Path data of a link, and the place of its number: straight down to the next row, past rows on
    the left, upwards and to itself on the right.
    """
    x = first.x
    down = second.y - first.y
    if down == _ROW:
        start = first.y + first.height / 2
        stop = second.y - second.height / 2 - 2
        return f"M{x:g} {start:g}V{stop:g}", x, (start + stop) / 2
    sign = -1 if down > 0 else 1
    begin = x + sign * first.width / 2
    end = x + sign * (second.width / 2 + 2)
    bend = _NEAREST + (_FARTHEST - _NEAREST) * abs(down) / height
    towards = x + sign * (_BOX_WIDTH / 2 + bend)
    start = first.y + 6
    stop = second.y - 6
    path = f"M{begin:g} {start:g}C{towards:.1f} {start:g} {towards:.1f} {stop:g} {end:g} {stop:g}"
    # Of a cubic curve with such ends (Bernstein's form).
    passed = _PLACE**3
    rest = (1 - _PLACE) ** 3
    share = passed + 3 * _PLACE**2 * (1 - _PLACE)
    place = rest * begin + passed * end + (1 - passed - rest) * towards
    return path, round(place, 1), round(start + share * (stop - start), 1)
