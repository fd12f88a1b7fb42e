"""Where the activities of a directly-follows graph stand: in layers from the beginning of cases to
their end, few to a layer, so that a drawing fits a narrow screen.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from cloakwork.evaluation.control_flow import FlowGraph

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
    parents = _without_circles(links)
    layer: dict[str, int] = {BEGIN: 0}
    taken: dict[int, list[str]] = {0: [BEGIN]}
    for name in _parents_first(parents):
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


def _without_circles(links: Sequence[Link]) -> dict[str, list[str]]:
    """From what each activity comes, by links that close no circle."""
    parents: dict[str, list[str]] = {name: [] for name in (BEGIN, *chain(*links))}
    for first, second in links:
        if first != second and second not in _ancestors(first, parents):
            parents[second].append(first)
    return parents


def _ancestors(name: str, parents: Mapping[str, Iterable[str]]) -> set[str]:
    found, left = set[str](), [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left.extend(parents[each])
    return found


def _parents_first(parents: Mapping[str, Sequence[str]]) -> list[str]:
    found: list[str] = []
    left = list(parents)
    while left:
        ready = [name for name in left if all(each in found for each in parents[name])]
        found.extend(ready)
        left = [name for name in left if name not in ready]
    return found


def _by_parents(
    names: list[str], parents: Mapping[str, Sequence[str]], above: Sequence[str]
) -> list[str]:
    """From left to right as the activities above that they come from."""
    place = {name: row for row, name in enumerate(above)}

    def mean_place(name: str) -> float:
        known = [place[each] for each in parents[name] if each in place]
        return sum(known) / len(known) if known else len(above) / 2

    return sorted(names, key=mean_place)
