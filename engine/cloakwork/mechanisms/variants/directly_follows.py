"""A directly-follows graph with noisy counts, as a table. The mechanism dfg/laplace makes a log of
one.

Theorem: each case counts for at most M of its steps (drawn at random where it has more), so a unit
of at most m cases moves the counts by at most m M in L1, and discrete Laplace noise of scale m M /
epsilon on every pair of the public alphabet, START and END included, is epsilon-DP (unbounded
neighbours; Dwork, McSherry, Nissim, Smith 2006, theorem 1; Ghosh, Roughgarden, Sundararajan 2009
for integers). The draw is one of each case by itself: which steps one case counts for does not
depend on any other case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from cloakwork.arrays import Ints
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.noise import Noise, drawn_scale
from cloakwork.privacy_event import DiscreteLaplace, PrivacyEvent

SCHEMA: Final = pl.Schema([("source", pl.String()), ("target", pl.String()), ("count", pl.Int64())])
MOST_LABELS: Final = 3000
"""Labels of an alphabet: every pair gets noise, seen or not, so the table has their square."""


@dataclass(frozen=True, slots=True)
class DirectlyFollows:
    """How steps are counted: ``alphabet`` (public labels), ``most_steps`` a case (M), and the
    noise's ``scale`` in steps.
    """

    alphabet: tuple[str, ...]
    most_steps: int
    scale: float
    max_cases: int = 1

    @classmethod
    def for_epsilon(
        cls, epsilon: float, alphabet: Sequence[str], most_steps: int, max_cases: int = 1
    ) -> "DirectlyFollows":
        """The least noise that costs at most ``epsilon`` for units of ``max_cases`` cases;
        MechanismError if none does.
        """
        has_budget = 0 < epsilon < float("inf")
        has_steps = most_steps >= 1 and max_cases >= 1 and len(alphabet) > 0
        if not (has_budget and has_steps):
            raise MechanismError(
                "dfg/laplace", "needs epsilon > 0, at least one step and case, and an alphabet"
            )
        labels = tuple(dict.fromkeys(alphabet))
        if len(labels) > MOST_LABELS:
            raise MechanismError(
                "dfg/laplace", f"an alphabet of {len(labels):,} labels; at most {MOST_LABELS:,}"
            )
        scale = least_scale(epsilon, most_steps * max_cases)
        return cls(labels, most_steps, scale, max_cases)

    @property
    def event(self) -> PrivacyEvent:
        """What one table costs."""
        return DiscreteLaplace(scale=self.scale, sensitivity=self.most_steps * self.max_cases)

    def measure(self, log: EventLog, noise: Noise) -> pl.DataFrame:
        """One row a pair: ``source`` (null: START), ``target`` (null: END), ``count`` (Int64, may
        be negative).

        Events of undeclared labels are left out, and cases left without events. The caller bounds a
        unit's cases.
        """
        counts = self._bounded_counts(log, noise)
        noisy = counts + noise.laplace_values(self.scale, counts.size)
        # Place 0 is START as a source and, one turn further, END as a target.
        labels = pl.Series([None, *self.alphabet], dtype=pl.String)
        side = len(self.alphabet) + 1
        source, target_column = np.divmod(np.arange(side * side), side)
        target = (target_column + 1) % side
        frame = pl.DataFrame(
            {"source": labels.gather(source), "target": labels.gather(target), "count": noisy},
            SCHEMA,
        )
        # No case goes from START to END at once.
        return frame.filter(pl.any_horizontal(pl.col("source", "target").is_not_null()))

    def _bounded_counts(self, log: EventLog, noise: Noise) -> Ints:
        """Raw counts of bounded contributions, int64, shape ((A + 1)**2,): source by target, END
        last.
        """
        steps = kept_steps(log, self.alphabet, self.most_steps, noise)
        counts = np.bincount(steps, minlength=(len(self.alphabet) + 1) ** 2)
        return counts.astype(np.int64)


def least_scale(epsilon: float, sensitivity: int) -> float:
    """The scale, in steps, of the least discrete Laplace noise that costs at most ``epsilon`` at
    this L1 sensitivity.
    """
    exact = Fraction(sensitivity) / Fraction(epsilon)
    # The nearest float may lie below: then the next one.
    scale = float(exact)
    if Fraction(scale) < exact:
        scale = float(np.nextafter(scale, np.inf))
    return drawn_scale(scale)


def kept_steps(log: EventLog, alphabet: Sequence[str], most_steps: int, noise: Noise) -> Ints:
    """The steps that cases count for, each at most ``most_steps``, drawn at random by each case for
    itself: int64.

    A step is source * (A + 1) + target: source 0 is START and a the label at place a of
    ``alphabet``, from 1; target a - 1 is that label and A is END. Events of other labels are left
    out, and cases left without events.
    """
    side = len(alphabet) + 1
    codes = pl.DataFrame(
        {ACTIVITY: pl.Series(alphabet, dtype=pl.String), "code": np.arange(1, side)}
    )
    labels = log.events.select(ACTIVITY).with_columns(case=pl.Series(log.case_of))
    # The inner join leaves events of other labels out.
    events = labels.join(codes, on=ACTIVITY, how="inner", maintain_order="left")
    case = events["case"].to_numpy().astype(np.int64)
    code = events["code"].to_numpy().astype(np.int64)
    begins = np.diff(case, prepend=-1) != 0
    ends = np.append(begins[1:], True)[: case.size]
    inner = np.flatnonzero(~begins)
    from_start = code[begins] - 1
    # An event that begins no case comes directly after the one in the row before it.
    between = code[inner - 1] * side + code[inner] - 1
    to_end = code[ends] * side + side - 1
    step = np.concatenate([from_start, between, to_end])
    owner = np.concatenate([case[begins], case[inner], case[begins]])
    # Each case's steps in random order, of which it keeps the first.
    order = np.lexsort((noise.permutation(step.size), owner))
    ordered_owner = owner[order]
    # A step's place among those of its case: owners ascend, so the search finds the first.
    rank = np.arange(owner.size) - np.searchsorted(ordered_owner, ordered_owner)
    kept = order[rank < most_steps]
    return step[kept]
