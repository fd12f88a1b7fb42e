"""The whole family, and the best of what it finds: picks by size and time limit, and says why.

It was the choice of earlier versions, whose policies and releases name it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args

from pydantic import Field, JsonValue

from cloakwork.base.progress import say
from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.blocks import compares_all_pairs
from cloakwork.mechanisms.kanon.deadline import Deadline, OutOfTime
from cloakwork.mechanisms.kanon.family import (
    K_ANONYMOUS,
    Anonymiser,
)
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
)
from cloakwork.mechanisms.registry import catalogue

Algorithm = Literal["kanon/pretsa", "kanon/best-first", "kanon/a-star", "kanon/optimal"]
FAMILY: Final[tuple[Algorithm, ...]] = get_args(Algorithm)
"""Cheap ones first; a later one is preferred where two find the same distance, since it proves
more.
"""
TRIED: Final[tuple[Algorithm, ...]] = ("kanon/best-first", "kanon/optimal")
"""Those that are tried unless a policy names others of the family."""

A_STAR_VARIANTS: Final = 60
"""Variants up to which ``kanon/a-star`` is tried: beyond, it seldom ends."""
TIME_SHARES: Final[Mapping[str, float]] = {
    "kanon/pretsa": 0.1,
    "kanon/best-first": 0.25,
    "kanon/a-star": 0.05,
    "kanon/optimal": 1.0,
}
"""Share of the time left that each may take, unless it is the last one."""


WITH_TIME_LIMIT: Final = ("kanon/a-star", "kanon/optimal")
"""Those that have an answer whenever the time is over."""


class AutoParams(OptimalParams):
    """As for ``kanon/optimal``; ``among``: the algorithms that may be used, of those that the
    policy's lists of mechanisms allow.
    """

    among: Annotated[
        tuple[Algorithm, ...],
        Field(
            min_length=1, description="Algorithms that may be tried; all allowed ones unless given"
        ),
    ] = TRIED


class Auto(Anonymiser[AutoParams]):
    """Run what the size of the problem allows, keep the answer that changes least, and report all
    of them.

    Where k counts cases, identical cases may move to different variants (``kanon/optimal`` alone
    uses that): which of them goes where is drawn at random. Which algorithms run follows from the
    number of variants and the time limit alone; which answer is kept, from their distances. Both
    depend on nothing but the control flow, which every claim beside k-anonymity takes as known.
    """

    name: ClassVar[str] = "kanon/auto"
    options: ClassVar[Mapping[str, str]] = {
        **Optimal.options,
        "among": "the algorithms that may be tried, by name (all that the policy allows)",
    }
    summary: ClassVar[str] = (
        "Tries the k-anonymisers that the log's size allows, and takes the best answer."
    )
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source="each algorithm's own; the answer that is kept is one of theirs",
    )
    Params = AutoParams
    delegates: ClassVar[tuple[str, ...]] = FAMILY

    def describe_method(self, params: AutoParams) -> str:
        """Which may be used, and for how long."""
        names = ", ".join(name.removeprefix("kanon/") for name in params.among)
        return f", by the best of {names} within {params.seconds:g} s"

    def solve(
        self,
        params: AutoParams,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """The best answer that was found; which, why, and what the others would have changed.

        Each algorithm that a problem of this size allows in this time is tried, as long as time is
        left; at least one of them. Those that only compare have a share of the time; what they have
        not found by then is left out. ``kanon/optimal`` alone ends in time however many variants
        there are.
        """
        variants = len(problem.texts)
        compares_all = compares_all_pairs(problem, params.seconds)
        is_applicable = {
            "kanon/pretsa": compares_all,
            "kanon/best-first": compares_all,
            "kanon/a-star": compares_all and variants <= A_STAR_VARIANTS,
            "kanon/optimal": True,
        }
        allowed = [name for name in params.among if is_applicable[name]] or params.among[:1]
        tried: dict[str, Solution] = {}
        distances: dict[str, int] = {}
        for name in allowed:
            is_last = name == allowed[-1]
            if tried and deadline.is_over:
                break
            share = deadline if is_last else deadline.share(TIME_SHARES[name])
            # Somebody must answer: the last one has no other to rely on, whatever the time.
            if is_last and not tried and name not in WITH_TIME_LIMIT:
                share = Deadline()
            delegate = cast("Anonymiser[Any]", catalogue()[name])
            # It has those of the options that it knows; the seconds are those of the whole: what
            # the size allows does not depend on what others took.
            shared = AutoParams.model_fields.keys() & delegate.Params.model_fields.keys()
            own = delegate.Params.model_validate({each: getattr(params, each) for each in shared})
            try:
                tried[name] = delegate.solve(own, problem, share)
            except OutOfTime:
                say(f"{name}: stopped without an answer")
                continue
            distances[name] = edit_cost(problem, tried[name].assignment)
            say(f"{name}: {distances[name]:,} edits")

        # Of equal distances the later algorithm's, since it proves more.
        chosen = min(reversed(tried), key=distances.__getitem__)
        # Where cases may split, a bound on moves of whole variants says nothing.
        bounds = [
            solution.bound
            for name, solution in tried.items()
            if solution.bound is not None and (name == "kanon/optimal" or not params.split_cases)
        ]
        bound = max(bounds, default=None)
        gap = relative_gap(distances[chosen], bound)
        if gap is None:
            how_good = "that changes least was kept; nothing is proved about better ones"
        elif gap == 0:
            how_good = "kept changes as little as possible"
        else:
            more = f"{100 * gap:.2g}" if gap < 1 else f"{100 * gap:,.0f}"
            how_good = f"kept changes at most {more}% more than the least possible"
        figures: dict[str, JsonValue] = {
            "algorithm": chosen,
            "why": f"{variants:,} variants and {params.seconds:g} s allow {', '.join(tried)}; "
            f"the one {how_good}",
            "others": {name: distances[name] for name in tried if name != chosen},
        }
        best = tried[chosen]
        return Solution(
            best.assignment,
            bound,
            best.stop_reason,
            figures,
        )
