"""The least possible cost of small k-anonymity problems, found by trying every answer; it shares no code with solvers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

from cloakwork.mechanisms.kanon.problem import Scope


def least_cost(
    texts: Sequence[str], cases: Sequence[int], mass: Sequence[int], k: int, scope: Scope, *, parts: bool = False
) -> int | None:
    """The least number of single edits after which every class holds mass ``k``; None when no answer exists.

    ``texts``: distinct; ``cases``, ``mass``: one of each. Tries ``len(texts)`` answers per variant, or with ``parts``
    per case (identical cases are not told apart; ``mass`` is then ``cases``).
    """
    best: int | None = None
    ways = [list(_ways(len(texts), count)) if parts else _whole(len(texts), count) for count in cases]
    prices = [[_price(texts, row, way) for way in of_row] for row, of_row in enumerate(ways)]
    for choice in product(*[range(len(of_row)) for of_row in ways]):
        price = sum(prices[row][chosen] for row, chosen in enumerate(choice))
        if best is not None and price >= best:
            continue
        held: Counter[int] = Counter()
        present = set()
        for row, chosen in enumerate(choice):
            for target, moved in enumerate(ways[row][chosen]):
                if moved:
                    present.add(target)
                    held[target] += moved if parts else mass[row]
        if all(size >= k for size in _classes(texts, present, held, scope).values()):
            best = price
    return best


def edit_distance(one: str, other: str) -> int:
    """Insertions, deletions and substitutions, by their recurrence."""

    @cache
    def of(left: int, right: int) -> int:
        if not left or not right:
            return left + right
        same = of(left - 1, right - 1) + (one[left - 1] != other[right - 1])
        return min(same, of(left - 1, right) + 1, of(left, right - 1) + 1)

    return of(len(one), len(other))


def _classes(texts: Sequence[str], present: set[int], held: Counter[int], scope: Scope) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for target in present:
        text = texts[target]
        for name in [text] if scope == "variants" else [text[:end] for end in range(1, len(text) + 1)]:
            sizes[name] += held[target]
    return sizes


def _price(texts: Sequence[str], row: int, way: tuple[int, ...]) -> int:
    return sum(moved * edit_distance(texts[row], texts[target]) for target, moved in enumerate(way) if moved)


def _whole(targets: int, count: int) -> list[tuple[int, ...]]:
    return [tuple(count if here == target else 0 for here in range(targets)) for target in range(targets)]


def _ways(targets: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to spread ``count`` identical cases over ``targets``."""
    if targets == 1:
        yield (count,)
        return
    for here in range(count + 1):
        for rest in _ways(targets - 1, count - here):
            yield (here, *rest)
