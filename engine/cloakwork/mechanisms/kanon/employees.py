"""k-anonymity of employees: cases move between the variants of the log, or are left out, until
nobody performed more than 1/k of the events at any place of a released variant.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from pydantic import Field, JsonValue, ValidationError

from cloakwork.base.arrays import Bools, Ints, offsets_of, rank_among_equals
from cloakwork.base.errors import Infeasible
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.quantities import MOST_ROWS, Frozen
from cloakwork.base.text import listed, quoted
from cloakwork.guarantees import Guarantee, KAnonymity
from cloakwork.guarantees.employees import performers
from cloakwork.log.eventlog import EventLog, as_lists
from cloakwork.mechanisms.aggregates import CASES, INDEX, VARIANT
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    Proof,
    Refusal,
    Theorem,
    option_fault,
)
from cloakwork.mechanisms.kanon.blocks import search_in_blocks
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem, problem_from_histogram
from cloakwork.mechanisms.kanon.rewriting import (
    ASSIGNMENT_SCHEMA,
    RANKS,
    SOURCE,
    TARGET,
    case_rewriter,
    origin_of_events,
)
from cloakwork.mechanisms.steps import (
    Decision,
    MapCases,
    MapCasesBySummary,
    Rewrite,
    RewriteStep,
)
from cloakwork.noise import Noise, Stream

NAME: Final = "kanon/employees"
EMPLOYEES: Final = "employees"
NOBODY: Final = -1
LEFT_OUT: Final = -1
_NEAREST: Final = 12
"""Into how many classes a case that does not fit is tried to go, the nearest first."""
_SIZES_TRIED: Final = 6
"""How often the classes that cases are gathered in are made twice as large."""


class EmployeesParams(Frozen):
    """``k``: nobody performed more than 1/k of the events at a place; ``least_cases``: how many
    cases share a variant at least; ``attribute``: of events, names who performed each.
    """

    k: Annotated[int, Field(ge=2, le=MOST_ROWS)]
    least_cases: Annotated[int, Field(ge=2, le=MOST_ROWS)]
    attribute: str
    seconds: Annotated[
        float, Field(gt=0, le=86_400, description="Most seconds that the search may take")
    ] = 30.0


@frozen
class PerformedCases:
    """Each case with who performed its events.

    A summary has one row a case: ``index`` (Int64, where it stands in the whole log), ``variant``
    (List[String]), ``employees`` (List[String], one an event; null for nobody).
    """

    attribute: str

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The cases of one batch."""
        labels = batch.activities
        names = performers(batch, self.attribute)
        # What was inserted before nobody performed.
        names = names.set(pl.Series(~batch.kept), None)
        return pl.DataFrame(
            {
                INDEX: pl.Series(batch.index_of_case),
                VARIANT: as_lists(labels, batch.offsets),
                EMPLOYEES: as_lists(names, batch.offsets),
            }
        )

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """All of them, in the order of the whole log."""
        return summaries.sort(INDEX)


class Employees(Mechanism[EmployeesParams]):
    """Gather similar cases, leave out of each class whom it holds too often, and try these cases in
    the classes next to it.

    Cases are gathered as ``kanon/optimal`` does in large logs, for k cases, then for twice as many,
    and so on, since larger classes hold more employees; the answer that changes least counts, a
    case left out as the loss of all its events. In a class, as long as one employee performed more
    than 1/k of the events kept at some place, as many of the cases in which it did are left out as
    it takes, first those that are too many at other places as well. Whatever was left out, of that
    class or of one that became too small, then goes into the nearest class where it makes no share
    too large, if that changes less than leaving it out. Which of several identical cases goes is
    drawn at random.

    **Why the result holds.** A class is opened only when no share at any of its places is above
    1/k and it holds ``least_cases`` cases; afterwards it only gains cases, each after it was found
    to leave all shares so. Events that a case lacks in its class are inserted, and count for nobody
    and not at all. The release is counted by other code before it is written. **Why it ends.** Each
    cut leaves a case out, and each pass into classes places one.

    **Edge cases.** Empty log: empty release. One employee did everything, or no class holds:
    refused with ``Infeasible``. An activity that fewer than k employees perform is in no released
    variant, unless nobody at all does (events without a value are steps of a system). A log without
    any value: refused.
    """

    name: ClassVar[str] = NAME
    action: ClassVar[str] = "merge and leave out cases until no employee stands out"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("k-anonymity", CONTROL_FLOW),)
    options: ClassVar[Mapping[str, str]] = {
        "seconds": "the most that the search may take (30)",
        "least_cases": "how many cases share an activity sequence at least, if more than k (k)",
    }
    summary: ClassVar[str] = (
        "Moves or leaves out cases until no employee performed too much of an activity."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="Every released variant is a variant seen in the log and shared by at least k "
        "cases, each made from a different case of the log, and nobody performed more than 1/k of "
        "the events at any of its places.",
        source="the classes and the bounds of Fahrenkrog-Petersen et al., Optimal Event Log "
        "Sanitization for Privacy-Preserving Process Mining, section 3, with employees counted in "
        "each class; proved in this class's docstring",
    )
    Params = EmployeesParams

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[EmployeesParams] | Refusal:
        """Meet k-anonymity of employees over the control flow."""
        if not isinstance(goal, KAnonymity) or goal.employees is None:
            return Refusal("never", "it bounds the shares of employees in k-anonymity alone")
        if goal.over != (CONTROL_FLOW,):
            return Refusal("never", f"who performed events is counted over {CONTROL_FLOW} alone")
        stated = {"k": goal.k, "attribute": goal.employees}
        if set_by_goal := ", ".join(sorted(set(options) & set(stated))):
            return Refusal(
                "misconfigured", f"{set_by_goal} comes from the guarantee; it is no option"
            )
        try:
            params = EmployeesParams.model_validate({"least_cases": goal.k, **options, **stated})
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))
        if params.least_cases < params.k:
            return Refusal("misconfigured", f"option least_cases: must be at least k, {params.k}")
        why = (
            f"moves cases, and leaves out those that fit nowhere, until every activity sequence is "
            f"shared by at least {params.least_cases:,} of them and no '{params.attribute}' "
            f"performed more than 1/{params.k} of the events at one place of it"
        )
        return Offer(params, why)

    def step(self, params: EmployeesParams, facts: Facts) -> RewriteStep:
        """Reads the control flow and who performed it; events that it inserts change which values
        are present.
        """
        return RewriteStep(
            lineage=Lineage(
                reads=frozenset({CONTROL_FLOW, params.attribute}),
                writes=frozenset({CONTROL_FLOW, METADATA}),
                inserts=True,
                stability=None,
            ),
            summary=PerformedCases(params.attribute),
            decide=partial(self.decide, params),
            rewrite=partial(self.rewrite, params),
        )

    def decide(self, params: EmployeesParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Say which variant each case becomes: a table as ``case_rewriter`` reads it, with the
        variant without events for cases that are left out.

        Raises ``Infeasible`` where nothing can be kept of a log that holds something.
        """
        if summary.height == 0:
            return Decision(pl.DataFrame(schema=ASSIGNMENT_SCHEMA))
        cases = CodedCases.of(summary)
        if not (cases.employee != NOBODY).any():
            raise Infeasible(self.name, f"no event has a value of '{params.attribute}'")
        target = _Search(params, cases, noise.permutation(len(cases.variant))).best()
        kept = target != LEFT_OUT
        if not kept.any():
            raise Infeasible(
                self.name,
                f"no group of {params.least_cases:,} cases was found in which one "
                f"'{params.attribute}' performed at most 1/{params.k} of the events at each place"
                f"{_why_none(params, summary)}",
            )
        moved = kept & (target != cases.variant)
        figures: dict[str, JsonValue] = {
            "cases": len(target),
            "cases_left_out": int((~kept).sum()),
            "cases_moved": int(moved.sum()),
            "distance": int(
                cases.problem.distances.pairs(cases.variant[moved], target[moved]).sum()
            ),
            "variants_before": len(cases.problem.texts),
            "variants_after": len(np.unique(target[kept])),
        }
        return Decision(_assignment_table(cases, target), figures)

    def rewrite(self, params: EmployeesParams, decision: Decision, stream: Stream) -> Rewrite:
        """Move the cases, each by itself; those left without events go."""
        moving = case_rewriter(decision.table, mechanism=self.name)
        if isinstance(moving, MapCases):
            return _without_empty_cases(moving)
        mapping = moving.mapping
        return MapCasesBySummary(
            moving.aggregate, lambda found: _without_empty_cases(mapping(found))
        )


def _without_empty_cases(moving: MapCases) -> MapCases:
    def move(log: EventLog) -> EventLog:
        moved = moving.apply(log)
        return moved.keep_cases(np.flatnonzero(np.diff(moved.offsets)))

    return replace(moving, apply=move)


def _why_none(params: EmployeesParams, summary: pl.DataFrame) -> str:
    """The activities that too few employees perform, as the end of a sentence."""
    events = summary.select(VARIANT, EMPLOYEES).explode(VARIANT, EMPLOYEES).drop_nulls()
    of_activity = events.group_by(VARIANT).agg(pl.col(EMPLOYEES).n_unique())
    few = of_activity.filter(pl.col(EMPLOYEES) < params.k)[VARIANT].sort().to_list()
    if not few:
        return "; choose a smaller k"
    named = listed((*quoted(few[:3]), *([f"{len(few) - 3:,} more"] if len(few) > 3 else [])))
    return (
        f": fewer than {params.k} of them perform {named}; choose a smaller k, or leave out the "
        "events that a system performs, or their values"
    )


@frozen
class CodedCases:
    """The cases of a log by numbers.

    ``problem``, ``labels``: the variants, coded and as lists of labels; ``variant``: int64, shape
    (cases,); ``employee``: int64, shape (events,), ``NOBODY`` for nobody; ``offsets``: where the
    events of each case begin.
    """

    problem: KAnonymityProblem
    labels: pl.Series
    variant: Ints
    employee: Ints
    offsets: Ints

    @classmethod
    def of(cls, summary: pl.DataFrame) -> "CodedCases":
        """Of a merged ``PerformedCases``."""
        one_each = summary.select(VARIANT, pl.lit(1, pl.Int64).alias(CASES))
        problem, labels = problem_from_histogram(one_each, 2, "variants", "levenshtein")
        numbered = pl.DataFrame({VARIANT: labels}).with_row_index("row")
        variant = summary.select(VARIANT).join(numbered, VARIANT, maintain_order="left")["row"]
        number = summary[EMPLOYEES].explode(empty_as_null=False).rank("dense").cast(pl.Int64) - 1
        return cls(
            problem,
            labels,
            variant.to_numpy().astype(np.int64),
            number.fill_null(NOBODY).to_numpy(),
            offsets_of(summary[VARIANT].list.len().to_numpy()),
        )

    def possible(self, k: int) -> Ints:
        """The variants without an activity of which somebody performed all events, and fewer than k
        did: int64, ascending.
        """
        texts = self.problem.texts
        performed: dict[str, set[int]] = {}
        for row, variant in enumerate(self.variant.tolist()):
            own = self.employee[self.offsets[row] : self.offsets[row + 1]].tolist()
            for activity, employee in zip(texts[variant], own, strict=True):
                performed.setdefault(activity, set()).add(employee)
        few = {each for each, by in performed.items() if NOBODY not in by and len(by) < k}
        return np.flatnonzero([few.isdisjoint(text) for text in texts])

    def performed(self, rows: Ints, target: int) -> Ints:
        """Who performed the events that the cases ``rows`` keep on the variant ``target``: int64,
        shape (rows, places).
        """
        found = np.full((len(rows), len(self.problem.texts[target])), NOBODY)
        for variant in np.unique(self.variant[rows]):
            members = np.flatnonzero(self.variant[rows] == variant)
            origin = origin_of_events(self.problem.texts[variant], self.problem.texts[target])
            places = np.flatnonzero(origin >= 0)
            events = self.offsets[rows[members]][:, None] + origin[places]
            found[members[:, None], places] = self.employee[events]
        return found


@frozen
class _Search:
    """``order``: the cases in random order, which decides among those that are alike."""

    params: EmployeesParams
    cases: CodedCases
    order: Ints

    def best(self) -> Ints:
        """For each case the variant that it becomes, or ``LEFT_OUT``: int64, shape (cases,)."""
        deadline = Deadline.after(self.params.seconds)
        best = np.full(len(self.order), LEFT_OUT)
        size = self.params.least_cases
        for _ in range(_SIZES_TRIED):
            if size > len(self.order) or deadline.is_over:
                break
            best = min(best, self._answer(size, deadline), key=self._cost)
            size *= 2
        return best

    def _cost(self, target: Ints) -> int:
        """Edits, and events of cases that are left out."""
        kept = target != LEFT_OUT
        edits = self.cases.problem.distances.pairs(self.cases.variant[kept], target[kept]).sum()
        return int(edits + np.diff(self.cases.offsets)[~kept].sum())

    def _answer(self, size: int, deadline: Deadline) -> Ints:
        """An answer from classes of ``size`` cases at least."""
        seconds = self.params.seconds / _SIZES_TRIED
        found = search_in_blocks(replace(self.cases.problem, k=size), seconds, deadline)
        target = np.full(len(self.order), LEFT_OUT)
        possible = self.cases.possible(self.params.k)
        if not len(possible):
            return target
        # A class on a variant that none can be on gathers on the nearest of the others.
        opened, class_ = np.unique(found.assignment.target, return_inverse=True)
        nearest = self.cases.problem.distances.between(opened, possible).argmin(axis=1)
        opened = np.where(np.isin(opened, possible), opened, possible[nearest])
        gathered = opened[class_][self.cases.variant[self.order]]
        held: dict[int, Ints] = {}
        for on in np.unique(gathered).tolist():
            members = self.order[gathered == on]
            performed = self.cases.performed(members, on)
            stays = _without_too_many(performed, self.params.k, self.params.least_cases)
            if stays.sum() >= self.params.least_cases:
                target[members[stays]] = on
                held[on] = _counts(performed[stays], int(self.cases.employee.max()) + 1)
        while held and self._places_some(target, held):
            pass
        return target

    def _places_some(self, target: Ints, held: dict[int, Ints]) -> bool:
        """Whether something that is left out found a class that it fits in: the nearest such.

        ``held``: by variant how many events each employee performed at each place.
        """
        opened = np.array([*held])
        placed = False
        left = self.order[target[self.order] == LEFT_OUT]
        variants = np.unique(self.cases.variant[left])
        distances = self.cases.problem.distances.between(variants, opened)
        for variant, distance in zip(variants, distances, strict=True):
            near = np.argsort(distance, kind="stable")[:_NEAREST]
            # Farther than this it changes more than leaving the case out.
            for on in opened[
                near[distance[near] < len(self.cases.problem.texts[variant])]
            ].tolist():
                rows = left[(self.cases.variant[left] == variant) & (target[left] == LEFT_OUT)]
                performed = self.cases.performed(rows, on)
                for row, names in zip(rows.tolist(), performed, strict=True):
                    if _fits(held[on], names, self.params.k):
                        places = np.flatnonzero(names != NOBODY)
                        held[on][places, names[places]] += 1
                        target[row], placed = on, True
        return placed


def _fits(counts: Ints, names: Ints, k: int) -> bool:
    """Whether one case more leaves all shares at most 1/k. ``counts``: int64, shape (places,
    employees); ``names``: who performed its events there, int64, shape (places,).
    """
    places = np.flatnonzero(names != NOBODY)
    own = counts[places, names[places]] + 1
    # Whoever else was within a share of fewer events is within one of more.
    return bool((k * own <= counts[places].sum(axis=1) + 1).all())


def _counts(performed: Ints, employees: int) -> Ints:
    """How many events each employee performed at each place: int64, shape (places, employees)."""
    places = performed.shape[1]
    row, place = np.nonzero(performed != NOBODY)
    cell = place * employees + performed[row, place]
    return np.bincount(cell, minlength=places * employees).reshape(places, employees)


def _without_too_many(performed: Ints, k: int, least: int) -> Bools:
    """The cases that stay until nobody holds more than 1/k of a place: bool, shape (cases,).

    ``performed``: as ``CodedCases.performed`` gives it, of cases in random order. Ends as soon as
    fewer than ``least`` would stay.
    """
    # Employees of this class alone, so that the counts are no larger than they must be.
    names, coded = np.unique(performed, return_inverse=True)
    performed = np.where(performed == NOBODY, NOBODY, coded.reshape(performed.shape))
    stays = np.ones(len(performed), np.bool_)
    counts = _counts(performed, len(names))
    places = np.arange(performed.shape[1])
    while counts.size and stays.sum() >= least:
        known = counts.sum(axis=1)
        excess = k * counts - known[:, None]
        place, employee = np.unravel_index(np.argmax(excess), excess.shape)
        if excess[place, employee] <= 0:
            break
        # One case less lowers k times its count by k, and what it is compared with by one.
        out = -(-int(excess[place, employee]) // (k - 1))
        own = np.flatnonzero(stays & (performed[:, place] == employee))
        too_many = (excess > 0)[places, performed[own]] & (performed[own] != NOBODY)
        gone = own[np.argsort(-too_many.sum(axis=1), kind="stable")[:out]]
        counts -= _counts(performed[gone], len(names))
        stays[gone] = False
    return stays


def _assignment_table(cases: CodedCases, target: Ints) -> pl.DataFrame:
    """As ``case_rewriter`` reads it, with the ranks of the cases of variants that part."""
    rank = rank_among_equals(cases.variant)
    rows = pl.DataFrame({SOURCE: cases.variant, TARGET: target, RANKS: rank})
    pairs = rows.group_by(SOURCE, TARGET).agg(pl.col(RANKS).sort(), pl.len().alias(CASES))
    pairs = pairs.sort(SOURCE, TARGET)
    empty = pl.Series([[]], dtype=pl.List(pl.String))
    labels = pl.concat([cases.labels, empty])
    # The last one, which stands for all that are left out, has no events.
    return pl.DataFrame(
        {
            SOURCE: labels.gather(pairs[SOURCE]),
            TARGET: labels.gather(pairs[TARGET].replace(LEFT_OUT, len(cases.labels))),
            CASES: pairs[CASES].cast(pl.Int64),
            RANKS: pairs[RANKS],
        }
    )
