"""Logs of more variants than can all be compared in the time: an answer block by block, and a bound
from near pairs alone.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from cloakwork.log.sequences import MOST_EVENTS
from cloakwork.mechanisms.kanon.block_search import search_in_blocks
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.near_bound import certify_near_bound
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
)
from cloakwork.mechanisms.kanon.whole_variants import MOST_VARIANTS

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
    problem: KAnonymityProblem, seconds: float, deadline: Deadline, *, split_cases: bool
) -> tuple[Solution, Mapping[str, JsonValue]]:
    """An answer that moves whole variants, found block by block, and a bound from near pairs."""
    begun = deadline.clock()
    share = deadline.share(_SHARE_FOR_SEARCH)
    found = search_in_blocks(problem, _SHARE_FOR_SEARCH * seconds, share)
    bound = certify_near_bound(
        problem, (1 - _SHARE_FOR_SEARCH) * seconds, deadline, split_cases=split_cases
    )
    assignment = Assignment.of_targets(problem, found.target)
    above = relative_gap(edit_cost(problem, assignment), bound.value) or 0.0
    reason = f"{found.stop_reason} ({seconds:.3g} s), within {above:.0%} of the least possible"
    return Solution(assignment, bound.value, reason), {
        "seconds": round(deadline.clock() - begun, 2),
        "bound_proved": f"in whole numbers, from pairs less than {bound.beyond} edits apart",
        "bound_in_whole_numbers": bound.value,
        "near_pairs": bound.pairs,
    }
