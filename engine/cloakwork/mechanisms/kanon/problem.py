"""The one decision that every k-anonymiser of the control flow makes: which cases of which variant
become which.

``Problem`` is the question, ``Assignment`` an answer, ``cost`` what it changes, ``smallest_class``
whether it is an answer at all. The algorithms differ in how they search, and in nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.mechanisms.aggregates import CASES, UNIT, VARIANT
from cloakwork.mechanisms.kanon.rewriting import ASSIGNMENT_SCHEMA, SOURCE, TARGET
from cloakwork.mechanisms.kanon.sequences import EditDistances, Metric, encode

Ints = NDArray[np.int64]
Scope = Literal["variants", "prefixes"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A variant histogram to be made k-anonymous at least cost.

    - ``texts``: the variants, one character an activity, distinct, ascending.
    - ``cases``: int64, shape (variants,); how many cases each has, at least 1: what moving it
      costs, per edit.
    - ``mass``: int64, shape (variants,); what each counts towards k: its cases, or the units that
      are counted there.
    - ``scope``: every variant that keeps cases needs mass k, or every non-empty prefix of one does.
    - ``distances``: between the variants, in single edits.
    """

    texts: tuple[str, ...]
    cases: Ints
    mass: Ints
    k: int
    scope: Scope
    distances: EditDistances

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        cases: Sequence[int] | Ints,
        k: int,
        scope: Scope,
        metric: Metric = "levenshtein",
    ) -> "Problem":
        """The problem of ``texts`` (distinct, in any order), where each case counts one towards k."""
        order = sorted(range(len(texts)), key=texts.__getitem__)
        counts = np.asarray(cases, np.int64)[order] if order else np.zeros(0, np.int64)
        ascending = tuple(texts[row] for row in order)
        return cls(ascending, counts, counts, k, scope, EditDistances(ascending, metric))

    @property
    def feasible(self) -> bool:
        """Whether any answer exists: the log is empty, or there is mass k in all, so that one
        variant can take it.
        """
        return len(self.texts) == 0 or int(self.mass.sum()) >= self.k


@dataclass(frozen=True, slots=True)
class Assignment:
    """Cases of variant ``source[i]`` that become variant ``target[i]``: int64, shape (pairs,); no
    pair occurs twice.

    Every case of every variant is in exactly one pair; those that stay have target = source.
    """

    source: Ints
    target: Ints
    cases: Ints

    @classmethod
    def whole(cls, problem: Problem, target: Ints) -> "Assignment":
        """Every variant moves as a whole; ``target``: int64, shape (variants,)."""
        return cls(np.arange(len(target)), np.asarray(target, np.int64), problem.cases)

    @property
    def parts(self) -> bool:
        """Whether the cases of some variant part."""
        return len(np.unique(self.source)) < len(self.source)


@dataclass(frozen=True, slots=True)
class Solution:
    """An answer, and what is proved about it.

    ``bound``: no answer of this kind costs less; None where the algorithm proves nothing.
    ``stopped``: why the search ended, in plain words.
    """

    assignment: Assignment
    bound: int | None
    stopped: str


def cost(problem: Problem, assignment: Assignment) -> int:
    """How many single edits of cases ``assignment`` makes in all: the log distance."""
    moved = assignment.source != assignment.target
    distance = problem.distances.pairs(assignment.source[moved], assignment.target[moved])
    return int(distance @ assignment.cases[moved])


def held_mass(problem: Problem, assignment: Assignment) -> Ints:
    """The mass that each variant ends with: int64, shape (variants,). A variant with mass of its
    own must be whole wherever mass is not the number of cases.
    """
    same = problem.mass is problem.cases or bool((problem.mass == problem.cases).all())
    mass = assignment.cases if same else problem.mass[assignment.source]
    return np.bincount(assignment.target, mass, len(problem.texts)).astype(np.int64)


def smallest_class(problem: Problem, assignment: Assignment) -> int | None:
    """The least mass of any class that keeps cases, in the problem's scope; None when there is no
    class.
    """
    kept = np.unique(assignment.target)
    mass = held_mass(problem, assignment)
    if problem.scope == "variants":
        return int(mass[kept].min()) if len(kept) else None
    below: dict[str, int] = {}
    for variant in kept:
        text = problem.texts[variant]
        for length in range(1, len(text) + 1):
            below[text[:length]] = below.get(text[:length], 0) + int(mass[variant])
    return min(below.values(), default=None)


def gap(distance: int, bound: int | None) -> float | None:
    """By which share of ``bound`` the distance may exceed the least possible one; None where
    nothing is proved.
    """
    if bound is None:
        return None
    return 0.0 if distance <= bound else (distance - bound) / max(bound, 1)


def read_problem(
    summary: pl.DataFrame, k: int, scope: Scope, metric: Metric
) -> tuple[Problem, pl.Series]:
    """The problem that a variant histogram poses, and its variants as lists of labels, in the
    problem's order.

    ``summary``: rows as ``VariantCounts`` gives them. Where it names units, each unit counts once,
    in its rarest variant: a class whose mass is k then has at least k distinct units, wherever
    their other cases go. A case without a unit counts nowhere; it goes where the others of its
    variant go.
    """
    counts = summary.group_by(VARIANT, maintain_order=True).agg(pl.col(CASES).sum())
    texts = encode(counts[VARIANT]).texts
    order = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
    counts = counts[order]
    cases = counts[CASES].to_numpy().astype(np.int64)
    mass = cases if UNIT not in summary.columns else _units_counted_once(summary, counts)
    ascending = tuple(texts[row] for row in order)
    return Problem(ascending, cases, mass, k, scope, EditDistances(ascending, metric)), counts[
        VARIANT
    ]


_PLACE: Final = "place"


def _units_counted_once(summary: pl.DataFrame, counts: pl.DataFrame) -> Ints:
    """For each row of ``counts`` how many units count there: int64, shape (variants,)."""
    placed = counts.with_row_index(_PLACE).rename({CASES: "of_variant"})
    rows = summary.join(placed, on=VARIANT, how="left", maintain_order="left")
    named = (
        rows.filter(pl.col(UNIT).is_not_null())
        .sort("of_variant", _PLACE)
        .unique(UNIT, keep="first")
    )
    return np.bincount(named[_PLACE].to_numpy(), minlength=counts.height).astype(np.int64)


def as_table(assignment: Assignment, labels: pl.Series) -> pl.DataFrame:
    """An assignment as ``rewrite_cases`` reads it; ``labels``: the variants as lists, in the
    problem's order.
    """
    columns = {
        SOURCE: labels.gather(assignment.source),
        TARGET: labels.gather(assignment.target),
        CASES: assignment.cases,
    }
    return pl.DataFrame(columns, schema=ASSIGNMENT_SCHEMA)
