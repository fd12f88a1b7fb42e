"""BF-PRETSA: k-anonymity by greedy best-first search over partly sanitised logs, and local
improvement of its end. ``kanon/optimal`` begins with the same search.
"""

from typing import ClassVar, Final

from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.best_first import search_best_first
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, KAnonymityProblem, Solution
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts, improve_by_hill_climbing

PAPER: Final = (
    "Fahrenkrog-Petersen, van der Aa and Weidlich, Optimal event log sanitization for "
    "privacy-preserving process mining, Data & Knowledge Engineering, 2023"
)


class BestFirstParams(FamilyParams):
    """As for the whole family; it has no options of its own."""


class BestFirst(Anonymiser[BestFirstParams]):
    """Greedy best-first k-anonymisation of the control flow, whole variants at a time.

    Ours, not the paper's: what the greedy search ends with is improved by closing, opening and
    replacing classes while that costs less (module ``whole_variants``).

    **Why it is k-anonymous.** The search ends with no class that falls short (core module
    ``best_first``). The improvement accepts only answers of
    ``repair_to_k_anonymous``, which ends with no class that falls short.

    Deterministic. Its memory is that of all pairs of variants: up to 6,000 variants, more are
    refused.
    """

    name: ClassVar[str] = "kanon/best-first"
    summary: ClassVar[str] = (
        "Merges rare variants, the cheapest merger first, then improves what it found."
    )
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source=f"{PAPER} (BF-PRETSA); termination and k proved in this class's docstring",
    )
    Params = BestFirstParams

    def solve(
        self,
        params: BestFirstParams,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """Search greedily, then improve; the report also tells the distance that the greedy search
        alone reached. Raises ``OutOfTime`` where ``deadline`` is over before the greedy search has
        ended.
        """
        costs = MoveCosts.of(problem, self.name)
        greedy = search_best_first(costs, deadline)
        improved = improve_by_hill_climbing(costs, greedy, deadline)
        stop_reason = "no single change of a class made it better"
        if deadline.is_over:
            stop_reason = "the time was used up"
        assignment = Assignment.of_targets(problem, improved)
        figures = {"greedy_distance": costs.total_cost(greedy)}
        return Solution(assignment, None, stop_reason, figures)
