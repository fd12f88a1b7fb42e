"""What a search of the family found, as plain data: it can be kept, and is measured when it is
used again.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.base.quantities import MOST_ROWS, Frozen
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Solution,
    smallest_class,
)

_Rows = tuple[Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)], ...]
_UNFIT: Final = "the result of this search is no answer to this problem"


class SearchResult(Frozen):
    """A ``Solution``, and what else the internal report tells of the search.

    ``source``, ``target``, ``cases``: an ``Assignment``. Variants are numbers, in the order of the
    problem: without the log they do not say which activities were done.
    """

    source: _Rows
    target: _Rows
    cases: _Rows
    bound: Annotated[int, Field(ge=0, strict=True)] | None
    stop_reason: str
    figures: dict[str, JsonValue]

    @classmethod
    def of(cls, solution: Solution, figures: Mapping[str, JsonValue]) -> "SearchResult":
        """``solution`` as data, with ``figures`` beside it."""
        found = solution.assignment
        return cls(
            source=tuple(found.source.tolist()),
            target=tuple(found.target.tolist()),
            cases=tuple(found.cases.tolist()),
            bound=solution.bound,
            stop_reason=solution.stop_reason,
            figures=dict(figures),
        )

    def solution_of(self, problem: KAnonymityProblem) -> Solution:
        """The solution, measured on ``problem``.

        Raises ValueError where it does not say of each case of the problem, once, what becomes of
        it, and where it leaves a class below k.
        """
        assignment = self._assignment_for(problem)
        smallest = smallest_class(problem, assignment)
        if smallest is not None and smallest < problem.k:
            raise ValueError(f"{_UNFIT}: a class of {smallest} is below k = {problem.k}")
        return Solution(assignment, self.bound, self.stop_reason)

    def _assignment_for(self, problem: KAnonymityProblem) -> Assignment:
        variants = len(problem.texts)
        if not len(self.source) == len(self.target) == len(self.cases):
            raise ValueError(f"{_UNFIT}: its columns differ in length")
        if max((*self.source, *self.target), default=-1) >= variants:
            raise ValueError(f"{_UNFIT}: it names a variant that there is not")
        source, target, cases = (
            np.array(column, np.int64) for column in (self.source, self.target, self.cases)
        )
        if len(np.unique(source * variants + target)) < len(source):
            raise ValueError(f"{_UNFIT}: a pair of variants occurs twice")
        of_variant = np.zeros(variants, np.int64)
        np.add.at(of_variant, source, cases)
        if (cases < 1).any() or not np.array_equal(of_variant, problem.cases):
            raise ValueError(f"{_UNFIT}: it moves other cases than there are")
        assignment = Assignment(source, target, cases)
        # Where units are counted, a variant moves as a whole: which of its units would part?
        if assignment.splits_variants and not np.array_equal(problem.mass, problem.cases):
            raise ValueError(f"{_UNFIT}: the cases of a variant part, and k counts units")
        return assignment
