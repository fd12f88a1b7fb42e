"""The steps of cases from one activity to the next, and a directly-follows graph with noisy counts
of them. The mechanism dfg/laplace makes a log of one.

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

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import DiscreteLaplace, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import drawn_scale
from cloakwork.kernel import Cases, Clip, Entries, Kernel, Laplace

MOST_STEPS: Final = 10_000
"""Steps that one case may count for."""

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
        if most_steps > MOST_STEPS:
            raise MechanismError("dfg/laplace", f"a case counts for at most {MOST_STEPS:,} steps")
        labels = tuple(dict.fromkeys(alphabet))
        if len(labels) > MOST_LABELS:
            raise MechanismError(
                "dfg/laplace", f"an alphabet of {len(labels):,} labels; at most {MOST_LABELS:,}"
            )
        scale = least_scale(epsilon, most_steps * max_cases)
        return cls(labels, most_steps, scale, max_cases)

    @property
    def event(self) -> PrivacyEvent:
        """What one graph costs."""
        return DiscreteLaplace(scale=self.scale, sensitivity=self.most_steps * self.max_cases)

    def measure(self, kernel: Kernel) -> Ints:
        """Noisy counts, which may be negative: int64, shape (A + 1, A + 1). Row 0 is START and row
        a + 1 the label at place a; column a is that label and column A END.

        Events of undeclared labels are left out, and cases left without events. What stands for
        START to END is noise alone.
        """
        side = len(self.alphabet) + 1
        counts = kernel.narrowed(self.alphabet).sum(
            coded_steps, Laplace(self.scale), most_steps_clip(self.most_steps), keys=side * side
        )
        return counts.at(np.arange(side * side)).reshape(side, side)


def most_steps_clip(most_steps: int) -> Clip:
    """Each case counts for so many of its steps at most, drawn at random."""
    return Clip("l1", most_steps, most_steps, sampled=True)


def coded_steps(cases: Cases) -> Entries:
    """Every step of every case over an alphabet of A labels, as source * (A + 1) + target: source 0
    is START and a + 1 the label at place a; target a is that label and A is END.
    """
    case, code = cases.case_of, cases.codes
    side = len(cases.alphabet) + 1
    is_first = cases.place == 0
    last = cases.offsets[1:][cases.lengths > 0] - 1
    # An event that begins no case comes directly after the one before it.
    source = np.where(is_first, 0, np.roll(code, 1) + 1)
    step = np.concatenate([source * side + code, (code[last] + 1) * side + side - 1])
    return Entries(np.append(case, case[last]), np.ones(len(step), np.int64), step)


BEGIN, BETWEEN, END = 0, 1, 2
"""The number in the key of a step by its labels: it leads from START, between two, or to END."""


def labelled_steps(cases: Cases) -> Entries:
    """Every step of every case, its key one of the numbers above with its one or two labels."""
    case, event = cases.case_of, np.arange(len(cases.codes))
    is_first = cases.place == 0
    last = cases.offsets[1:][cases.lengths > 0] - 1
    return Entries(
        case=np.append(case, case[last]),
        value=np.ones(len(case) + len(last), np.int64),
        code=np.append(np.where(is_first, BEGIN, BETWEEN), np.full(len(last), END)),
        start=np.append(np.where(is_first, event, event - 1), last),
        stop=np.append(event + 1, last + 1),
    )


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
