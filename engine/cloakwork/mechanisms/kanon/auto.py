"""The whole family, and the best of what it finds: picks by size and time limit, and says why."""

from collections.abc import Mapping
from time import perf_counter
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee, KAnonymity
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Problem, Solution, cost, gap
from cloakwork.mechanisms.kanon.sequences import LONGEST
from cloakwork.mechanisms.kanon.whole import LARGEST
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

SMALL: Final = 60
"""Variants up to which ``kanon/a-star`` is tried: beyond, it seldom ends."""
SHARE: Final = 0.05
"""Share of the time limit that ``kanon/a-star`` may take for its comparison."""


class AutoParams(FamilyParams):
    """``seconds``: most that the search may take; ``gap``: share above the least possible at which
    it may stop; ``parts``: identical cases may move to different variants; ``among``: the
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
    parts: Annotated[
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
        """As the whole family does; cases part unless units are counted."""
        counts_units = (
            isinstance(goal, KAnonymity)
            and goal.count == "units"
            and facts.unit.attribute is not None
        )
        if counts_units and options.get("parts"):
            return Refusal(
                "misconfigured",
                "option parts: the cases of a variant can part only where k counts cases",
            )
        return super().offer(goal, facts, {**options, "parts": False} if counts_units else options)

    def how(self, params: AutoParams) -> str:
        """Which may be used, and for how long."""
        names = ", ".join(name.removeprefix("kanon/") for name in params.among)
        return f", by the best of {names} within {params.seconds:g} s"

    def solve(
        self, params: AutoParams, problem: Problem
    ) -> tuple[Solution, Mapping[str, JsonValue]]:
        """The best answer of those that were tried; which, why, and what the others would have
        changed.
        """
        begun = perf_counter()
        tried: dict[str, Solution] = {}
        for name in _worth_trying(params, problem):
            left = params.seconds - (perf_counter() - begun)
            if tried and left <= 0:
                break
            tried[name] = _run(name, params, problem, max(left, 0.0))
            say(f"{name}: {cost(problem, tried[name].assignment):,} edits")
        distances = {name: cost(problem, solution.assignment) for name, solution in tried.items()}
        chosen = min(reversed(tried), key=distances.__getitem__)
        bounds = [
            solution.bound
            for name, solution in tried.items()
            if solution.bound is not None and (name == "kanon/optimal" or not params.parts)
        ]
        best, bound = tried[chosen], max(bounds, default=None)
        others: dict[str, JsonValue] = {name: distances[name] for name in tried if name != chosen}
        why = _why(params, len(problem.texts), tuple(tried), gap(distances[chosen], bound))
        return Solution(best.assignment, bound, best.stopped), {
            "algorithm": chosen,
            "why": why,
            "others": others,
        }


def _worth_trying(params: AutoParams, problem: Problem) -> tuple[str, ...]:
    """The algorithms that a problem of this size allows; at least one of ``among``.

    Only ``kanon/pretsa`` does without all distances at once, of up to ``LARGEST`` variants of up to
    ``LONGEST`` events.
    """
    variants = len(problem.texts)
    held = variants <= LARGEST and max(map(len, problem.texts), default=0) <= LONGEST
    fit = {
        "kanon/pretsa": True,
        "kanon/best-first": held,
        "kanon/a-star": held and variants <= SMALL,
        "kanon/optimal": held,
    }
    chosen = tuple(name for name in params.among if fit[name])
    return chosen or params.among[:1]


def _run(name: str, params: AutoParams, problem: Problem, seconds: float) -> Solution:
    from cloakwork.mechanisms.registry import catalogue

    mechanism = catalogue()[name]
    assert isinstance(mechanism, Anonymiser)  # noqa: S101 - the family's names are its members'
    own = {
        "seconds": max(0.1, seconds * (SHARE if name == "kanon/a-star" else 1)),
        "gap": params.gap,
        "parts": params.parts,
    }
    shared = {
        "k": params.k,
        "scope": params.scope,
        "unit": params.unit,
        "distance": params.distance,
    }
    options = {
        option: value for option, value in own.items() if option in mechanism.Params.model_fields
    }
    solution, _ = mechanism.solve(mechanism.Params.model_validate(shared | options), problem)
    return solution


def _why(params: AutoParams, variants: int, tried: tuple[str, ...], reached: float | None) -> str:
    """Why these were tried and this one kept, in one sentence."""
    size = f"{variants:,} variants and {params.seconds:g} s allow {', '.join(tried)}"
    if reached is None:
        return f"{size}; the one that changes least was kept; nothing is proved about better ones"
    if reached == 0:
        return f"{size}; the one kept changes as little as possible"
    return (
        f"{size}; the one kept changes at most {100 * reached:.2g} % more than the least possible"
    )
