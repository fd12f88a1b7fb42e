"""The one decision that every k-anonymiser of the control flow makes: which cases of which variant
become which.

``KAnonymityProblem`` is the question, ``Assignment`` an answer. ``edit_cost`` is what it changes,
and ``smallest_class`` tells whether it is an answer at all. The algorithms differ in how they
search, and in nothing else.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.frozen import frozen
from cloakwork.log.variants import EditDistances, Metric, encode_sequences
from cloakwork.mechanisms.aggregates import CASES, UNIT, VARIANT
from cloakwork.mechanisms.kanon.rewriting import ASSIGNMENT_SCHEMA, SOURCE, TARGET
from cloakwork.mechanisms.steps import Figures

Scope = Literal["variants", "prefixes"]


@frozen
class KAnonymityProblem:
    """A variant histogram to be made k-anonymous at least cost.

    - ``texts``: the variants, one character an activity, distinct, ascending.
    - ``cases``: int64, shape (variants,); how many cases each has, at least 1: what moving it
      costs, per edit.
    - ``mass``: int64, shape (variants,); the number that counts toward k: the cases of each
      variant, or the units that are counted there.
    - ``scope``: every variant that keeps cases needs mass k, or every non-empty prefix of one does.
    - ``distances``: between the variants, in single edits.
    """

    texts: tuple[str, ...]
    cases: Ints
    mass: Ints
    k: int
    scope: Scope
    distances: EditDistances

    def restricted_to(self, rows: Ints) -> "KAnonymityProblem":
        """The problem of some variants alone (int64, ascending)."""
        texts = tuple(self.texts[row] for row in rows)
        distances = EditDistances(texts, self.distances.metric)
        cases = self.cases[rows]
        mass = self.mass[rows]
        return KAnonymityProblem(
            texts,
            cases,
            mass,
            self.k,
            self.scope,
            distances,
        )

    @property
    def is_feasible(self) -> bool:
        """Whether there is an answer: the log is empty, or one variant could take mass k."""
        return len(self.texts) == 0 or int(self.mass.sum()) >= self.k


@frozen
class Assignment:
    """Cases of variant ``source[i]`` that become variant ``target[i]``: int64, shape (pairs,); no
    pair occurs twice.

    Every case of every variant is in exactly one pair; those that stay have target = source.
    """

    source: Ints
    target: Ints
    cases: Ints

    @classmethod
    def of_targets(cls, problem: KAnonymityProblem, target: Ints) -> "Assignment":
        """Every variant moves as a whole; ``target``: int64, shape (variants,)."""
        return cls(np.arange(len(target)), np.asarray(target, np.int64), problem.cases)

    @property
    def splits_variants(self) -> bool:
        """Whether cases of one variant go to different variants."""
        return len(np.unique(self.source)) < len(self.source)


@frozen
class Solution:
    """An answer, and what is proved about it.

    ``bound``: no answer of this kind costs less; None where the algorithm proves nothing.
    ``stop_reason``: why the search ended, in plain words. ``figures``: what else the internal
    report should tell.
    """

    assignment: Assignment
    bound: int | None
    stop_reason: str
    figures: Figures = field(default_factory=dict)


def edit_cost(problem: KAnonymityProblem, assignment: Assignment) -> int:
    """How many single edits of cases ``assignment`` makes in all: the log distance."""
    # Cases that stay cost nothing, and most of them stay.
    moved = assignment.source != assignment.target
    distance = problem.distances.pairs(assignment.source[moved], assignment.target[moved])
    return int(distance @ assignment.cases[moved])


def smallest_class(problem: KAnonymityProblem, assignment: Assignment) -> int | None:
    """The least mass of any class that keeps cases, in the problem's scope; None without one."""
    kept = np.unique(assignment.target)
    if not len(kept):
        return None
    # Where mass is not the number of cases, no variant may be split.
    counts_cases = problem.mass is problem.cases or bool((problem.mass == problem.cases).all())
    moved_mass = assignment.cases if counts_cases else problem.mass[assignment.source]
    mass = np.bincount(assignment.target, moved_mass, len(problem.texts)).astype(np.int64)
    if problem.scope == "variants":
        return int(mass[kept].min())
    mass_of_prefix: dict[str, int] = {}
    for variant in kept:
        text = problem.texts[variant]
        for length in range(1, len(text) + 1):
            prefix = text[:length]
            mass_of_prefix[prefix] = mass_of_prefix.get(prefix, 0) + int(mass[variant])
    return min(mass_of_prefix.values(), default=None)


def relative_gap(distance: int, bound: int | None) -> float | None:
    """By which share of ``bound`` the distance may exceed the least possible one; None where
    nothing is proved.
    """
    if bound is None:
        return None
    # A bound of 0 has no shares: the edits above it are then given as they are.
    return max(distance - bound, 0) / max(bound, 1)


def longest_prefixes(texts: Sequence[str]) -> Ints:
    """For each text the longest other one, the empty one excepted, that it begins with: int64,
    shape (texts,); -1 where there is none. ``texts``: distinct, ascending.
    """
    parent = np.full(len(texts), -1)
    # Sorted, the prefixes of a text are on the path of those that came before, the longest last.
    path: list[int] = []
    for row, text in enumerate(texts):
        while path and not text.startswith(texts[path[-1]]):
            path.pop()
        if path:
            parent[row] = path[-1]
        if text:
            path.append(row)
    return parent


def problem_from_histogram(
    summary: pl.DataFrame,
    k: int,
    scope: Scope,
    metric: Metric,
) -> tuple[KAnonymityProblem, pl.Series]:
    """The problem that a variant histogram poses, and its variants as lists of labels, in the
    problem's order.

    ``summary``: rows as ``VariantCounts`` gives them. Where it names units, each unit counts once,
    in its rarest variant: a class whose mass is k then has at least k distinct units, wherever
    their other cases go. A case without a unit counts nowhere; it goes where the others of its
    variant go.
    """
    counts = summary.group_by(VARIANT, maintain_order=True).agg(pl.col(CASES).sum())
    texts = encode_sequences(counts[VARIANT]).texts
    order = sorted(range(len(texts)), key=texts.__getitem__)
    counts = counts[order]
    cases = counts[CASES].to_numpy().astype(np.int64)
    mass = cases
    if UNIT in summary.columns:
        numbered = counts.select(VARIANT, pl.col(CASES).alias("of_variant")).with_row_index("row")
        rows = summary.select(VARIANT, UNIT).join(numbered, on=VARIANT, maintain_order="left")
        # The rarest variant of each unit comes first; of equally rare ones the first in order.
        rarest_first = rows.sort("of_variant", "row").select("row", UNIT).explode(UNIT)
        rarest = rarest_first.drop_nulls().unique(UNIT, keep="first")
        mass = np.bincount(rarest["row"].to_numpy(), minlength=counts.height).astype(np.int64)
    ascending = tuple(texts[row] for row in order)
    distances = EditDistances(ascending, metric)
    return KAnonymityProblem(
        ascending,
        cases,
        mass,
        k,
        scope,
        distances,
    ), counts[VARIANT]


def assignment_table(assignment: Assignment, labels: pl.Series) -> pl.DataFrame:
    """As ``case_rewriter`` reads it; ``labels``: the variants as lists, in the problem's order."""
    columns = {
        SOURCE: labels.gather(assignment.source),
        TARGET: labels.gather(assignment.target),
        CASES: assignment.cases,
    }
    return pl.DataFrame(columns, schema=ASSIGNMENT_SCHEMA)
