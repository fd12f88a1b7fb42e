"""The whole family, and the best of what it finds: picks by size and time limit, and says why."""

from collections.abc import Mapping
from time import perf_counter
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee, KAnonymity
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
)
from cloakwork.mechanisms.kanon.sequences import MOST_EVENTS
from cloakwork.mechanisms.kanon.whole_variants import MOST_VARIANTS
from cloakwork.progress import say

Algorithm = Literal["kanon/pretsa", "kanon/best-first", "kanon/a-star", "kanon/optimal"]
FAMILY: Final[tuple[Algorithm, ...]] = (
    "kanon/pretsa",
    "kanon/best-first",
    "kanon/a-star",
    "kanon/optimal",
)
"""Cheap ones first; a later one is preferred where two find the same distance, since it proves
more.
"""

A_STAR_VARIANTS: Final = 60
"""Variants up to which ``kanon/a-star`` is tried: beyond, it seldom ends."""
A_STAR_SHARE: Final = 0.05
"""Share of the time limit that ``kanon/a-star`` may take for its comparison."""


class AutoParams(FamilyParams):
    """``seconds``: most that the search may take; ``gap``: share above the least possible at which
    it may stop; ``split_cases``: identical cases may move to different variants; ``among``: the
    algorithms that may be used, of those that the policy's lists of mechanisms allow.
    """

    seconds: Annotated[
        float, Field(gt=0, le=86_400, description="Most seconds that the search may take")
    ] = 30.0
    gap: Annotated[
        float,
        Field(
            ge=0, description="Share above the least possible distance at which the search may stop"
        ),
    ] = 0.01
    split_cases: Annotated[
        bool,
        Field(description="Identical cases may move to different variants; not where units count"),
    ] = True
    among: Annotated[
        tuple[Algorithm, ...],
        Field(
            min_length=1, description="Algorithms that may be tried; all allowed ones unless given"
        ),
    ] = FAMILY


class Auto(Anonymiser[AutoParams]):
    """Run what the size of the problem allows, keep the answer that changes least, and report all
    of them.

    Where k counts cases, identical cases may move to different variants (``kanon/optimal`` alone
    uses that): which of them goes where is drawn at random. Which algorithms run follows from the
    number of variants and the time limit alone; which answer is kept, from their distances. Both
    depend on nothing but the control flow, which every claim beside k-anonymity takes as known.
    """

    name: ClassVar[str] = "kanon/auto"
    summary: ClassVar[str] = (
        "Tries the k-anonymisers that the log's size allows, and takes the best answer."
    )
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source="each algorithm's own; the answer that is kept is one of theirs",
    )
    Params = AutoParams
    delegates: ClassVar[tuple[str, ...]] = FAMILY

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[AutoParams] | Refusal:
        """As the whole family does; cases may be split unless units are counted."""
        asks_for_units = isinstance(goal, KAnonymity) and goal.count == "units"
        # Where no attribute names the unit, each case is one.
        if not asks_for_units or facts.unit.attribute is None:
            return super().offer(goal, facts, options)
        if options.get("split_cases"):
            return Refusal(
                "misconfigured",
                "option split_cases: the cases of a variant can be split only where k counts cases",
            )
        return super().offer(goal, facts, {**options, "split_cases": False})

    def describe_method(self, params: AutoParams) -> str:
        """Which may be used, and for how long."""
        names = ", ".join(name.removeprefix("kanon/") for name in params.among)
        return f", by the best of {names} within {params.seconds:g} s"

    def solve(
        self, params: AutoParams, problem: KAnonymityProblem
    ) -> tuple[Solution, Mapping[str, JsonValue]]:
        """The best answer of those that were tried; which, why, and what the others would have
        changed.
        """
        tried = _try_algorithms(params, problem)
        distances = {
            name: edit_cost(problem, solution.assignment) for name, solution in tried.items()
        }
        # Of equal distances the later algorithm's, since it proves more.
        chosen = min(reversed(tried), key=distances.__getitem__)
        bound = _best_bound(tried, cases_may_split=params.split_cases)
        best = tried[chosen]
        others: dict[str, JsonValue] = {name: distances[name] for name in tried if name != chosen}
        gap = relative_gap(distances[chosen], bound)
        explanation = _explain_choice(params, len(problem.texts), tuple(tried), gap)
        return Solution(best.assignment, bound, best.stop_reason), {
            "algorithm": chosen,
            "why": explanation,
            "others": others,
        }


def _try_algorithms(params: AutoParams, problem: KAnonymityProblem) -> dict[str, Solution]:
    """What each applicable algorithm finds, as long as time is left; at least one of them."""
    begun = perf_counter()
    tried: dict[str, Solution] = {}
    for name in _applicable_algorithms(params, problem):
        seconds_left = params.seconds - (perf_counter() - begun)
        if tried and seconds_left <= 0:
            break
        tried[name] = _run_algorithm(name, params, problem, max(seconds_left, 0.0))
        say(f"{name}: {edit_cost(problem, tried[name].assignment):,} edits")
    return tried


def _best_bound(tried: Mapping[str, Solution], *, cases_may_split: bool) -> int | None:
    """The highest bound that was proved, None without any.

    Where cases may split, a bound on moves of whole variants says nothing.
    """
    bounds = [
        solution.bound
        for name, solution in tried.items()
        if solution.bound is not None and (name == "kanon/optimal" or not cases_may_split)
    ]
    return max(bounds, default=None)


def _applicable_algorithms(params: AutoParams, problem: KAnonymityProblem) -> tuple[str, ...]:
    """The algorithms that a problem of this size allows; at least one of ``among``.

    Only ``kanon/pretsa`` does without all distances at once, of up to ``MOST_VARIANTS`` variants of
    up to ``MOST_EVENTS`` events.
    """
    variants = len(problem.texts)
    longest = max(map(len, problem.texts), default=0)
    fits_matrix = variants <= MOST_VARIANTS and longest <= MOST_EVENTS
    is_applicable = {
        "kanon/pretsa": True,
        "kanon/best-first": fits_matrix,
        "kanon/a-star": fits_matrix and variants <= A_STAR_VARIANTS,
        "kanon/optimal": fits_matrix,
    }
    chosen = tuple(name for name in params.among if is_applicable[name])
    return chosen or params.among[:1]


def _run_algorithm(
    name: str, params: AutoParams, problem: KAnonymityProblem, seconds: float
) -> Solution:
    """What one algorithm finds, with those of the options that it has."""
    from cloakwork.mechanisms.registry import catalogue

    mechanism = catalogue()[name]
    assert isinstance(mechanism, Anonymiser)  # noqa: S101 - the family's names are its members'
    share = A_STAR_SHARE if name == "kanon/a-star" else 1
    options: dict[str, object] = {
        "seconds": max(0.1, seconds * share),
        "gap": params.gap,
        "split_cases": params.split_cases,
    }
    known = {
        option: value
        for option, value in options.items()
        if option in mechanism.Params.model_fields
    }
    goal = {
        "k": params.k,
        "scope": params.scope,
        "unit": params.unit,
        "distance": params.distance,
    }
    solution, _ = mechanism.solve(mechanism.Params.model_validate(goal | known), problem)
    return solution


def _explain_choice(
    params: AutoParams, variants: int, tried: tuple[str, ...], gap: float | None
) -> str:
    """Why these were tried and this one kept, in one sentence."""
    size = f"{variants:,} variants and {params.seconds:g} s allow {', '.join(tried)}"
    if gap is None:
        return f"{size}; the one that changes least was kept; nothing is proved about better ones"
    if gap == 0:
        return f"{size}; the one kept changes as little as possible"
    return f"{size}; the one kept changes at most {100 * gap:.2g}% more than the least possible"
