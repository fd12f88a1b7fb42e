"""Logs of more variants than can all be compared in the time: an answer block by block, and a bound
from how far each variant is from the one nearest to it.
"""

from typing import Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.log.sequences import MOST_EVENTS
from cloakwork.mechanisms.kanon.blocks import PAIRS_PER_SECOND, search_in_blocks
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.lower_bound import (
    CoverConstraints,
    bound_from_nearest,
    least_to_another,
)
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
)
from cloakwork.mechanisms.kanon.whole_variants import MOST_VARIANTS

_ROWS_AT_ONCE: Final = 64
_ALWAYS_COMPARED: Final = 500
_ALL_PAIRS_PER_SECOND: Final = 1_000_000
"""Pairs of all variants that a second suffices for: distances, bounds, programs over them."""
_SHARE_FOR_SEARCH: Final = 0.75
"""Of the time; the bound has what is left."""


def compares_all_pairs(problem: KAnonymityProblem, seconds: float) -> bool:
    """Whether all pairs of variants are compared with each other: up to 500 variants, and up to
    6,000 where the time suffices, unless a case is so long that distances do not fit 16 bits.
    """
    variants = len(problem.texts)
    fits_time = variants <= _ALWAYS_COMPARED or variants**2 <= _ALL_PAIRS_PER_SECOND * seconds
    longest = max(map(len, problem.texts), default=0)
    return variants <= MOST_VARIANTS and fits_time and longest <= MOST_EVENTS


def solve_long_tail(
    problem: KAnonymityProblem,
    seconds: float,
    deadline: Deadline,
    *,
    split_cases: bool,
) -> Solution:
    """An answer that moves whole variants, found block by block, and a bound."""
    begun = deadline.clock()
    share = deadline.share(_SHARE_FOR_SEARCH)
    found = search_in_blocks(problem, _SHARE_FOR_SEARCH * seconds, share)
    nearest, compared = nearest_distances(problem, (1 - _SHARE_FOR_SEARCH) * seconds, deadline)
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    bound = bound_from_nearest(problem, constraints, nearest, deadline)
    above = relative_gap(edit_cost(problem, found.assignment), bound) or 0.0
    reason = f"{found.stop_reason} ({seconds:.3g} s), within {above:.0%} of the least possible"
    figures: dict[str, JsonValue] = {
        "seconds": round(deadline.clock() - begun, 2),
        "bound_proved": "in whole numbers, from how far variants are from the nearest other one",
        "bound_in_whole_numbers": bound,
        "variants_compared_with_all": compared,
    }
    return Solution(found.assignment, bound, reason, figures)


def nearest_distances(
    problem: KAnonymityProblem, seconds: float, deadline: Deadline
) -> tuple[Ints, int]:
    """How far each variant is from any other one at least: int64, shape (variants,); and how many
    were compared with all others, as many as ``seconds`` worth of work suffice for. Of the others
    is known without looking that they are an edit apart.
    """
    every = np.arange(len(problem.texts))
    nearest = np.ones_like(every)
    compared = min(len(every), int(seconds * PAIRS_PER_SECOND) // max(len(every), 1))
    for start in range(0, compared, _ROWS_AT_ONCE):
        if deadline.is_over:
            return nearest, start
        rows = every[start : min(start + _ROWS_AT_ONCE, compared)]
        nearest[rows] = least_to_another(problem.distances.between(rows, every))
    return nearest, compared
