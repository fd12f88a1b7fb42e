"""Share curves and directly-follows graphs as lines and boxes that a page can hold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import hypot
from textwrap import wrap
from typing import Final, Literal

from cloakwork.evaluation.control_flow import FlowGraph
from cloakwork.evaluation.times import ShareCurve

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

WIDEST: Final = 3
"""Activities in a layer, at most."""

Link = tuple[str, str]


def links_of(graph: FlowGraph) -> list[Link]:
    """The steps of a graph, beginnings and ends by their names here, in the graph's order."""
    return [
        (BEGIN if s.first is None else s.first, END if s.second is None else s.second)
        for s in graph.steps
    ]


def layers_of(links: Sequence[Link]) -> list[list[str]]:
    """The activities layer by layer: each link leads downwards but for those that close a circle,
    the rarest of it (``links`` begin with the most frequent).
    """
    # From what each activity comes, by links that close no circle.
    parents: dict[str, list[str]] = {name: [] for name in (BEGIN, *chain(*links))}
    for first, second in links:
        # ``first`` and all that lies above it: a link to one of these would close a circle.
        ancestors, waiting = set[str](), [first]
        while waiting:
            name = waiting.pop()
            if name not in ancestors:
                ancestors.add(name)
                waiting += parents[name]
        if second not in ancestors:
            parents[second].append(first)
    # Parents come before what follows them, so that their layers are known by then.
    ordered: list[str] = []
    left = list(parents)
    while left:
        ready = [name for name in left if all(each in ordered for each in parents[name])]
        ordered += ready
        left = [name for name in left if name not in ready]
    # Each below all of its parents, in the next layer that has room.
    layer: dict[str, int] = {BEGIN: 0}
    taken: dict[int, list[str]] = {0: [BEGIN]}
    for name in ordered:
        if name in (BEGIN, END):
            continue
        place = 1 + max((layer[each] for each in parents[name]), default=0)
        while len(taken.get(place, ())) == WIDEST:
            place += 1
        layer[name] = place
        taken.setdefault(place, []).append(name)
    found = [
        _by_parents(taken[place], parents, taken.get(place - 1, [])) for place in sorted(taken)
    ]
    return [*found, [END]]


def _by_parents(
    names: list[str], parents: Mapping[str, Sequence[str]], above: Sequence[str]
) -> list[str]:
    """From left to right as the activities above that they come from."""
    # Barycentre heuristic (Sugiyama, Tagawa and Toda 1981): few links cross.
    place = {name: row for row, name in enumerate(above)}

    def mean_place(name: str) -> float:
        known = [place[each] for each in parents[name] if each in place]
        # What has no parent above stands in the middle.
        return sum(known) / len(known) if known else len(above) / 2

    return sorted(names, key=mean_place)


Side = Literal["source", "released"]
Point = tuple[float, float]

WIDTH: Final = 360
_MARGIN, _BOX_WIDTH, _BOX_HEIGHT, _LAYER, _END_RADIUS = 34, 140, 32, 62, 7
_LETTER: Final = 6.4
"""Pixels that a letter of a name takes, about."""
_LANES: Final = (10, 18, 26)
"""How far from the edge links run that pass layers by."""
_PLACES: Final = (0.5, 0.36, 0.64, 0.24, 0.76)
"""Where along a link its number may stand."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """A line with its number in the table, and the place of the number; ``stroke``: its width."""

    number: int
    path: str
    stroke: float
    x: float
    y: float


@dataclass(frozen=True, slots=True)
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
    layers = layers_of(links)
    boxes = {box.name: box for box in _boxes(layers, there)}
    depth = {name: row for row, names in enumerate(layers) for name in names}
    most = max(times, default=0)
    drawn: list[DrawnLink] = []
    for number, (link, count) in enumerate(zip(links, times, strict=True), 1):
        curve = _curve(link, boxes, depth, number)
        if count:
            # Where a number stands in the way of no other one, as far as that can be.
            places = [_at(curve, share) for share in _PLACES]
            free = [
                (x, y)
                for x, y in places
                if all(hypot(x - other.x, y - other.y) > 17 for other in drawn)
            ]
            x, y = (free or places)[0]
            # From 1 to 5 pixels wide, by how often the step occurs.
            drawn.append(DrawnLink(number, _path(curve), 1 + 4 * count / most, x, y))
    return DrawnFlow(title, side, tuple(boxes.values()), tuple(drawn), len(layers) * _LAYER)


def _boxes(layers: list[list[str]], there: set[str]) -> Iterator[DrawnActivity]:
    for row, names in enumerate(layers):
        slot = (WIDTH - 2 * _MARGIN) / max(len(names), 1)
        for place, name in enumerate(names):
            x, y = _MARGIN + slot * (place + 0.5), (row + 0.5) * _LAYER
            if name in (BEGIN, END):
                size = 2 * _END_RADIUS
                yield DrawnActivity(name, (), x, y, size, size, name in there)
            else:
                width = min(_BOX_WIDTH, slot - 10)
                lines = _lines(name, int(width / _LETTER))
                yield DrawnActivity(name, lines, x, y, width, _BOX_HEIGHT, name in there)


def _lines(name: str, letters: int) -> tuple[str, ...]:
    """At most two lines of so many letters."""
    return tuple(wrap(name, letters, max_lines=2, placeholder="…")) or (name[:letters],)


Curve = tuple[Point, Point, Point, Point]
"""Of a cubic curve: both ends, and between them what it is drawn towards."""


def _curve(
    link: Link, boxes: dict[str, DrawnActivity], depth: dict[str, int], number: int
) -> Curve:
    """Straight down to the next layer; past layers along the left edge, upwards along the right."""
    first, second = (boxes[name] for name in link)
    down = depth[second.name] - depth[first.name]
    if down == 1:
        start = first.x, first.y + first.height / 2
        stop = second.x, second.y - second.height / 2 - 2
        middle = (start[1] + stop[1]) / 2
        return start, (start[0], middle), (stop[0], middle), stop
    # An activity that follows itself: a loop at the right edge of its box.
    if down == 0 and first is second:
        edge = first.x + first.width / 2
        return (
            (edge, first.y - 8), (edge + 28, first.y - 14),
            (edge + 28, first.y + 14), (edge + 2, first.y + 8),
        )  # fmt: skip
    # Lanes take turns by the link's number, so that few links lie on each other.
    sign = -1 if down > 0 else 1
    start = first.x + sign * first.width / 2, first.y + 4
    stop = second.x + sign * (second.width / 2 + 2), second.y - 4
    lane = _LANES[number % len(_LANES)]
    towards = lane if down > 0 else WIDTH - lane
    return start, (towards, start[1]), (towards, stop[1]), stop


def _path(curve: Curve) -> str:
    (x, y), *others = curve
    rest = " ".join(f"{a:.1f} {b:.1f}" for a, b in others)
    return f"M{x:.1f} {y:.1f}C{rest}"


def _at(curve: Curve, share: float) -> Point:
    """The point of a cubic curve at ``share`` (Bernstein's form)."""
    rest = 1 - share
    weights = rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3
    x = sum(weight * point[0] for weight, point in zip(weights, curve, strict=True))
    y = sum(weight * point[1] for weight, point in zip(weights, curve, strict=True))
    return round(x, 1), round(y, 1)
