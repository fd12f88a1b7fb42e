"""The least possible cost of small k-anonymity problems, found by trying every answer; it shares no
code with solvers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from operator import add

from cloakwork.log.variants import Metric
from cloakwork.mechanisms.kanon.problem import Scope


def least_cost(
    texts: Sequence[str],
    cases: Sequence[int],
    mass: Sequence[int],
    k: int,
    scope: Scope,
    *,
    split_cases: bool = False,
    metric: Metric = "levenshtein",
) -> int | None:
    """The least number of single edits after which every class holds mass ``k``; None when no
    answer exists.

    ``texts``: distinct; ``cases``, ``mass``: one of each. ``split_cases``: identical cases may go
    to different variants; ``mass`` is then ``cases``. ``metric``: what an edit is. Every answer is
    tried that is not more expensive already than one found before.
    """
    best: int | None = None
    ways = [
        sorted(
            (_price(texts, row, way, metric), way)
            for way in (_ways if split_cases else _together)(len(texts), count)
        )
        for row, count in enumerate(cases)
    ]

    def place(row: int, price: int, held: tuple[int, ...], present: frozenset[int]) -> None:
        nonlocal best
        if best is not None and price >= best:
            return
        if row == len(texts):
            if all(size >= k for size in _classes(texts, present, held, scope).values()):
                best = price
            return
        for more, way in ways[row]:
            added = [moved if split_cases else mass[row] * (moved > 0) for moved in way]
            here = frozenset(target for target, moved in enumerate(way) if moved)
            place(row + 1, price + more, tuple(map(add, held, added)), present | here)

    place(0, 0, (0,) * len(texts), frozenset())
    return best


def edit_distance(one: str, other: str, metric: Metric = "levenshtein") -> int:
    """Insertions, deletions and substitutions (which count two where the metric is ``indel``), by
    their recurrence.
    """
    substitution = 1 if metric == "levenshtein" else 2

    @cache
    def of(left: int, right: int) -> int:
        if not left or not right:
            return left + right
        same = of(left - 1, right - 1) + substitution * (one[left - 1] != other[right - 1])
        return min(same, of(left - 1, right) + 1, of(left, right - 1) + 1)

    return of(len(one), len(other))


def _classes(
    texts: Sequence[str], present: frozenset[int], held: Sequence[int], scope: Scope
) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for target in present:
        text = texts[target]
        for name in (
            [text] if scope == "variants" else [text[:end] for end in range(1, len(text) + 1)]
        ):
            sizes[name] += held[target]
    return sizes


def _price(texts: Sequence[str], row: int, way: tuple[int, ...], metric: Metric) -> int:
    return sum(
        moved * edit_distance(texts[row], texts[target], metric)
        for target, moved in enumerate(way)
        if moved
    )


def _together(targets: int, count: int) -> Iterator[tuple[int, ...]]:
    for target in range(targets):
        yield tuple(count if here == target else 0 for here in range(targets))


def _ways(targets: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to spread ``count`` identical cases over ``targets``."""
    if targets == 1:
        yield (count,)
        return
    for here in range(count + 1):
        for rest in _ways(targets - 1, count - here):
            yield (here, *rest)
