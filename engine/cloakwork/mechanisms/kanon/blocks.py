"""Blocks of variants that are near each other, without comparing all pairs of them."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

_MULTIPLIER: Final = 2_654_435_761
"""Knuth's multiplicative hash: it spreads the choice of pivots, and draws nothing."""


def partition_into_blocks(
    problem: KAnonymityProblem,
    rows: Ints,
    weight: Ints,
    mass: Ints,
    most_weight: int,
    round_: int,
    deadline: Deadline,
) -> list[Ints]:
    """``rows`` (variants) in blocks of near ones, each of mass k: generalised hyperplanes (Uhlmann,
    Satisfying general proximity queries with metric trees, 1991).

    ``weight``, ``mass``: int64, shape (rows,); of each row. A block of more than ``most_weight``
    is halved between two pivots, those nearer to the one here, the others there, as long as both
    halves hold mass k and time is left; so a block may weigh more. ``round_``: other pivots, for
    other blocks. Linear in rows, times the depth, which is logarithmic.
    """
    blocks: list[Ints] = []
    # Positions in ``rows``; a stack, so that neighbours in the tree are neighbours in the list.
    waiting = [np.arange(len(rows))]
    while waiting:
        block = waiting.pop()
        cut = None
        if len(block) > 1 and int(weight[block].sum()) > most_weight and not deadline.is_over:
            block = block[_order_between_pivots(problem, rows[block], round_)]
            cut = _middle_with_mass(mass[block], weight[block], problem.k)
        if cut is None:
            blocks.append(rows[block])
        else:
            waiting += [block[cut:], block[:cut]]
    return blocks


def consecutive_groups(mass: Ints, k: int) -> Ints:
    """A group number for each of some variants in their order (int64, ascending from 0), so that
    each group holds mass k; all of them must hold it together.
    """
    group = np.zeros(len(mass), np.int64)
    number, held = 0, 0
    for row, amount in enumerate(mass.tolist()):
        group[row] = number
        held += amount
        if held >= k:
            number, held = number + 1, 0
    # What is left over at the end joins the last complete group.
    return np.minimum(group, max(number - 1, 0))


def _order_between_pivots(problem: KAnonymityProblem, rows: Ints, round_: int) -> Ints:
    """Positions of ``rows``, from those nearest to one pivot to those nearest to the other."""
    count = len(rows)
    start = int(rows[0]) + count + 1
    first = (start * _MULTIPLIER + round_) % count
    to_first = problem.distances.between(rows[[first]], rows)[0]
    if round_ == 0:
        # Far from each other: two ends of what there is.
        one = int(to_first.argmax())
        to_one = problem.distances.between(rows[[one]], rows)[0]
        other = int(to_one.argmax())
    else:
        one, to_one = first, to_first
        other = (start * _MULTIPLIER + 7919 * round_ + 1) % count
    to_other = problem.distances.between(rows[[other]], rows)[0]
    return np.asarray(np.argsort(to_one - to_other, kind="stable"), np.int64)


def _middle_with_mass(mass: Ints, weight: Ints, k: int) -> int | None:
    """Where to cut an ordered block so that both parts hold mass k, as near to the middle of its
    weight as that allows; None where nothing does.
    """
    before = np.cumsum(mass)
    earliest = int(np.searchsorted(before, k)) + 1
    latest = int(np.searchsorted(before, before[-1] - k, side="right"))
    if earliest > min(latest, len(mass) - 1):
        return None
    middle = int(np.searchsorted(np.cumsum(weight), weight.sum() / 2)) + 1
    return min(max(middle, earliest), latest, len(mass) - 1)
