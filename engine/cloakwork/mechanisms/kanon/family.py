"""What the k-anonymisers of the control flow share: the goals they meet, the problem they read, the
cases they move.

An algorithm of the family is a subclass with a name, a theorem and ``solve``. It inherits the proof
that its releases are k-anonymous: every answer is measured here before it is acted on, and measured
again, by another count, on the released log.

What a search of the family found, as plain data: it can be kept, and is measured when it is
used again.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Final, Generic, TypeVar

import numpy as np
import polars as pl
from pydantic import Field, JsonValue, ValidationError

from cloakwork.base.arrays import group_sums
from cloakwork.base.errors import Infeasible
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.quantities import MOST_ROWS, Frozen
from cloakwork.base.text import first_fault
from cloakwork.guarantees import Guarantee, KAnonymity
from cloakwork.guarantees.classes import class_in_short
from cloakwork.log.variants import Metric
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Options, Proof, Refusal, option_fault
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Scope,
    Solution,
    assignment_table,
    edit_cost,
    problem_from_histogram,
    relative_gap,
    smallest_class,
)
from cloakwork.mechanisms.kanon.rewriting import case_rewriter, with_drawn_cases
from cloakwork.mechanisms.steps import Decision, Rewrite, RewriteStep, Search
from cloakwork.noise import Noise, Stream

_Rows = tuple[Annotated[int, Field(ge=0, le=MOST_ROWS, strict=True)], ...]
_UNFIT: Final = "the result of this search is no answer to this problem"


class SearchResult(Frozen):
    """A ``Solution`` as plain data.

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
    def of(cls, solution: Solution) -> "SearchResult":
        """``solution`` as data."""
        found = solution.assignment
        return cls(
            source=tuple(found.source.tolist()),
            target=tuple(found.target.tolist()),
            cases=tuple(found.cases.tolist()),
            bound=solution.bound,
            stop_reason=solution.stop_reason,
            figures=dict(solution.figures),
        )

    def solution_of(self, problem: KAnonymityProblem) -> Solution:
        """The solution, measured on ``problem``.

        Raises ValueError where it does not say of each case of the problem, once, what becomes of
        it, and where it leaves a class below k.
        """
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
        of_variant = group_sums(source, cases, variants)
        if (cases < 1).any() or not np.array_equal(of_variant, problem.cases):
            raise ValueError(f"{_UNFIT}: it moves other cases than there are")
        assignment = Assignment(source, target, cases)
        # Where units are counted, a variant moves as a whole: which of its units would part?
        if assignment.splits_variants and not np.array_equal(problem.mass, problem.cases):
            raise ValueError(f"{_UNFIT}: the cases of a variant part, and k counts units")
        smallest = smallest_class(problem, assignment)
        if smallest is not None and smallest < problem.k:
            raise ValueError(f"{_UNFIT}: a class of {smallest} is below k = {problem.k}")
        return Solution(
            assignment,
            self.bound,
            self.stop_reason,
            self.figures,
        )


REFUSED_KINDS: Final = {
    "t-closeness": "it bounds how many cases share an activity sequence, "
    "not what their attribute values reveal",
    "l-diversity": "it bounds how many cases share an activity sequence, "
    "not how varied their attribute values are",
    "confidence-bound": "it bounds groups of complete activity sequences, "
    "not what partial background knowledge implies",
    "differential-privacy": "k-anonymity bounds group sizes; it cannot give differential privacy",
    "metric-privacy": "k-anonymity bounds group sizes; "
    "it leaves the values of kept events as they are",
    "local-dp": "k-anonymity bounds group sizes; it randomises no value",
}
"""Why the family does not meet guarantees of other kinds."""

K_ANONYMOUS: Final = (
    "Every released variant (or every prefix of one) is a variant seen in the log and shared by at "
    "least k released cases, each made from a different case of the log (or by cases of at least k "
    "units); moved cases count like those that stayed."
)
"""The theorem of the whole family."""


DISTANCE_OPTION: Final = {
    "distance": "what one edit is: levenshtein, or indel, where a replacement counts as two "
    "(levenshtein)"
}


class FamilyParams(Frozen):
    """What the policy's guarantee says, and how distance is counted.

    ``k``: least size of a class; ``scope``: classes are complete variants, or all their prefixes;
    ``unit``: the case attribute whose distinct values k counts (None: cases); ``distance``: what
    one single edit is.
    """

    k: Annotated[int, Field(ge=2)]
    scope: Scope = "variants"
    unit: str | None = None
    distance: Annotated[
        Metric, Field(description="levenshtein, or indel: a substitution counts as two edits")
    ] = "levenshtein"

    def start_clock(self) -> Deadline:
        """When a search that begins now must end: after ``seconds``, where there is that option."""
        return Deadline.after(float(getattr(self, "seconds", math.inf)))


P = TypeVar("P", bound=FamilyParams)
_SET_BY_GOAL: Final = ("k", "scope", "unit")
"""Parameters that the guarantee sets; all others are options of the policy."""


class Anonymiser(Mechanism[P], Generic[P]):
    """k-anonymity over the control flow by moving cases between the variants of the log.

    **Edge cases**, the same for every algorithm. Empty log: empty release. Fewer than k cases
    (units): refused with ``Infeasible``, for no k-anonymous release of them exists. One variant
    only: unchanged. Exactly k cases: everything gathers on one variant (for prefixes, on one when
    they share no beginning). All variants unique: each class gathers on one of its members. A case
    without events is the empty variant: it has no prefixes and stays for scope ``prefixes``, and is
    a class like any other for ``variants``.
    """

    gives: ClassVar[tuple[Gives, ...]] = (Gives("k-anonymity", CONTROL_FLOW),)
    options: ClassVar[Mapping[str, str]] = DISTANCE_OPTION
    proof: ClassVar[Proof] = "proved"
    action: ClassVar[str] = "merge rare activity sequences"

    @abstractmethod
    def solve(
        self,
        params: P,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """An answer to ``problem`` (feasible, at least one variant). ``deadline`` may be over when
        a search has ``seconds``; it then gives an answer that takes n log n steps.
        """

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """Meet k-anonymity over the control flow, counted in cases or units; other columns of
        ``over`` come after it.
        """
        if not isinstance(goal, KAnonymity):
            return Refusal("never", REFUSED_KINDS.get(goal.kind, f"it gives no {goal.kind}"))
        if goal.employees is not None:
            return Refusal("never", "it counts cases, or units of them, not who performed events")
        if CONTROL_FLOW not in goal.over:
            return Refusal(
                "never", "it changes the control flow, which the guarantee does not cover"
            )
        if set_by_goal := ", ".join(sorted(set(options) & set(_SET_BY_GOAL))):
            return Refusal(
                "misconfigured", f"{set_by_goal} comes from the guarantee; it is no option"
            )
        # Cases alike in all that is beside the control flow are alike in every beginning.
        scope = goal.scope if goal.over == (CONTROL_FLOW,) else "variants"
        unit = facts.unit.attribute if goal.count == "units" else None
        if unit is not None and "split_cases" in self.Params.model_fields:
            if options.get("split_cases"):
                return Refusal(
                    "misconfigured",
                    "option split_cases: the cases of a variant can be split only where k counts "
                    "cases",
                )
            options = {**options, "split_cases": False}
        try:
            params = self.Params.model_validate(
                {**options, "k": goal.k, "scope": scope, "unit": unit}
            )
        except ValidationError as error:
            kind = error.errors()[0]["type"]
            (name, _) = first_fault(error)
            reason = option_fault(error)
            if kind == "extra_forbidden":
                known = [each for each in self.Params.model_fields if each not in _SET_BY_GOAL]
                reason = f"{reason}; it has {', '.join(known)}"
            elif kind == "tuple_type":
                reason = f"option {name}: input should be a list"
            elif kind == "too_short":
                reason = f"option {name}: the policy's lists of mechanisms allow none of it"
            return Refusal("misconfigured", reason)
        shared = class_in_short(params.scope)
        sharers = "of them" if unit is None else f"different values of '{unit}'"
        return Offer(
            params,
            f"moves cases until every {shared} is shared by at least {goal.k} {sharers}"
            f"{self.describe_method(params)}",
        )

    def describe_method(self, params: P) -> str:
        """How the algorithm goes about it, as the end of a sentence."""
        return ""

    def step(self, params: P, facts: Facts) -> RewriteStep:
        """Reads and writes the control flow; events that it inserts change which values are
        present. The summary is the variant histogram, by unit where units are counted.
        """
        unit_columns = {params.unit} if params.unit else set()
        return RewriteStep(
            lineage=Lineage(
                reads=frozenset({CONTROL_FLOW, *unit_columns}),
                writes=frozenset({CONTROL_FLOW, METADATA}),
                inserts=True,
                stability=None,
            ),
            summary=VariantCounts(params.unit),
            decide=partial(self.decide, params),
            rewrite=partial(self.rewrite, params),
            search=Search(
                SearchResult,
                partial(self.search, params),
                partial(self.decide_by, params),
            ),
        )

    def decide(self, params: P, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Say which cases of which variant become which: a table of ``source``, ``target``,
        ``cases``, and ``ranks`` where the cases of some variant are split.

        Raises ``Infeasible`` when the log holds something, but fewer than k, and ``AssertionError``
        should the algorithm have a bug: an answer that is not k-anonymous is never acted on.
        """
        return self.decide_by(
            params,
            summary,
            self.search(params, summary),
            noise,
        )

    def search(self, params: P, summary: pl.DataFrame) -> SearchResult:
        """The answer of ``solve``; raises as ``decide`` does."""
        deadline = params.start_clock()
        begun = deadline.clock()
        problem, _ = problem_from_histogram(
            summary,
            params.k,
            params.scope,
            params.distance,
        )
        # Measuring the answer and telling the cases takes about twice as long as this did.
        afterwards = 2 * (deadline.clock() - begun)
        left = deadline.seconds_left
        deadline = deadline.within(max(left - afterwards, left / 2))
        if not problem.is_feasible:
            counted = "cases" if params.unit is None else f"distinct values of '{params.unit}'"
            raise Infeasible(
                self.name,
                f"the log holds fewer than k = {params.k} {counted}; "
                "no k-anonymous release of it exists",
            )
        if len(problem.texts):
            solution = self.solve(params, problem, deadline)
        else:
            # An empty log has an answer, which no algorithm needs to find.
            nothing = Assignment.of_targets(problem, np.zeros(0, np.int64))
            solution = Solution(nothing, 0, "the log is empty")
        return SearchResult.of(solution)

    def decide_by(
        self,
        params: P,
        summary: pl.DataFrame,
        found: SearchResult,
        noise: Noise,
    ) -> Decision:
        """The decision that ``found`` leads to. Which of several identical cases moves is drawn
        here, each time anew.
        """
        problem, labels = problem_from_histogram(
            summary,
            params.k,
            params.scope,
            params.distance,
        )
        solution = found.solution_of(problem)
        assignment = solution.assignment
        table = assignment_table(assignment, labels)
        if assignment.splits_variants:
            table = with_drawn_cases(table, noise)
        # What the internal report may show; measured on the raw log, never public.
        distance = edit_cost(problem, assignment)
        moved = assignment.source != assignment.target
        figures: dict[str, JsonValue] = {
            "distance": distance,
            "cases": int(problem.cases.sum()),
            "cases_moved": int(assignment.cases[moved].sum()),
            "variants_before": len(problem.texts),
            "variants_after": len(np.unique(assignment.target)),
            "k_reached": smallest_class(problem, assignment),
            "stopped": solution.stop_reason,
        }
        if solution.bound is not None:
            figures["bound"] = solution.bound
            figures["gap"] = relative_gap(distance, solution.bound)
        return Decision(table, {**figures, **solution.figures})

    def rewrite(self, params: P, decision: Decision, stream: Stream) -> Rewrite:
        """Move the cases, each by itself."""
        return case_rewriter(decision.table, mechanism=self.name, metric=params.distance)
