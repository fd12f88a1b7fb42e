"""dfg/laplace: a noisy directly-follows graph, released as a log of cases that follow it, or as a
table.

Theorem: each case counts for at most M of its steps (drawn at random where it has more), so a unit
of at most m cases moves the counts by at most m M in L1, and discrete Laplace noise of scale m M /
epsilon on every pair of the public alphabet, START and END included, is epsilon-DP (unbounded
neighbours; Dwork, McSherry, Nissim, Smith 2006, theorem 1; Ghosh, Roughgarden, Sundararajan 2009
for integers). The draw is one of each case by itself: which steps one case counts for does not
depend on any other case.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import BaseModel, Field

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import (
    Composed,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PrivacyEvent,
)
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import drawn_scale
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Cases, Clip, Entries, Kernel, Laplace, Randomness, Selected
from cloakwork.mechanisms.base import Offer, Options, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import Simulated
from cloakwork.mechanisms.variants.chain import (
    MOST_CASES,
    Context,
    LengthGroups,
    MarkovChain,
    Table,
    draw_sequences,
    fit_flow,
)
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork_extras.trees.prefix_tree import (
    DEFAULT_LENGTH,
    FALSE_PER_PREFIX,
    alphabet_of,
    most_cases_of,
)
from cloakwork_extras.trees.tree import MOST_EVENTS, least_tail_value, tail_probability

MOST_STEPS: Final = 10_000
"""Steps that one case may count for."""

MOST_LABELS: Final = 3000
"""Labels of an alphabet: every pair gets noise, seen or not, so the table has their square."""


@frozen
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
        cls,
        epsilon: float,
        alphabet: Sequence[str],
        most_steps: int,
        max_cases: int = 1,
    ) -> "DirectlyFollows":
        """The least noise that costs at most ``epsilon`` for units of ``max_cases`` cases;
        MechanismError if none does.
        """
        # What must hold: NaN, which meets no condition, is refused as well.
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
            coded_steps,
            Laplace(self.scale),
            most_steps_clip(self.most_steps),
            keys=side * side,
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
    # The last event of each case also leads to the END.
    step = np.concatenate([source * side + code, (code[last] + 1) * side + side - 1])
    return Entries(np.append(case, case[last]), np.ones(len(step), np.int64), step)


BEGIN, BETWEEN, END = 0, 1, 2
"""The number in the key of a step by its labels: it leads from START, between two, or to END."""


def labelled_steps(cases: Cases) -> Entries:
    """Every step of every case, its key one of the numbers above with its one or two labels."""
    case, event = cases.case_of, np.arange(len(cases.codes))
    is_first = cases.place == 0
    last = cases.offsets[1:][cases.lengths > 0] - 1
    # The key's labels are a run of events: of one for START and END, else of two.
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


DEFAULT_STEPS: Final = DEFAULT_LENGTH + 1
"""Steps that a case counts for where neither the option nor a smaller ``longest_case`` says
otherwise.
"""

MOST_ACTIVITIES: Final = 1000
"""Activities of a release, those of the most noisy steps: the flow's time grows with their square.
"""

LONGEST: Final = 200
"""Events of a generated case at most, where the policy does not declare ``longest_case``."""


class DfgOptions(BaseModel):
    """``most_steps``: steps that one case counts for, the case's beginning and end among them; of a
    case that has more, so many are drawn at random. The fewer, the less noise, and the less long
    cases count.
    """

    model_config = {"extra": "forbid", "frozen": True}

    most_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] | None = None


class DfgParams(Frozen):
    """``scale``: of the noise, in steps; ``most_steps``: that one case counts for; ``tau``: least
    noisy count that is kept.

    ``alphabet``: the public activities, if declared; without them ``tau`` hides steps of a single
    unit. ``longest``: events of a generated case; ``most_cases``: cases released at most;
    ``max_cases``: cases of one unit. ``epsilon`` and ``delta``: the target that scale and tau were
    found for.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(ge=0, lt=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    alphabet: tuple[str, ...] | None = None
    most_steps: Annotated[int, Field(ge=1)]
    scale: Annotated[Number, Field(gt=0)]
    tau: Annotated[int, Field(ge=1)]
    longest: Annotated[int, Field(ge=1)] = LONGEST
    most_cases: Annotated[int, Field(ge=1)] | None = None

    @property
    def noise_factor(self) -> float:
        """How much more noise there is than where cases count for the usual number of steps
        (``accuracy``).
        """
        return self.most_steps / DEFAULT_STEPS

    @property
    def sensitivity(self) -> int:
        """Steps that one unit counts for."""
        return self.most_steps * self.max_cases


class DfgLaplace(VariantRelease[DfgParams]):
    """Count with noise how often each activity directly follows another, and release cases drawn
    from that graph.

    The counts that reach ``tau`` are made a flow (what comes to an activity leaves it), and as many
    cases as leave its start are drawn step by step: what a case did earlier than its last event is
    forgotten. Variants are therefore mostly made up, while the directly-follows graph is that of
    the log, with noise. Long cases count for less than they are. An empty log gives an empty
    release or one of noise; one case, or unique variants, drown in it; with a single activity there
    are three steps to count. It never aborts on data.
    """

    name: ClassVar[str] = "dfg/laplace"
    options: ClassVar[Mapping[str, str]] = {
        "most_steps": "for how many steps one case counts (longest_case + 1, at most 21)",
    }
    action: ClassVar[str] = "draw activity sequences with noise"
    summary: ClassVar[str] = "Releases cases drawn from a noisy directly-follows graph."
    theorem: ClassVar[Theorem] = Theorem(
        "Each case counts for at most M of its steps, drawn by the case for itself, so a unit of "
        "at most m cases moves the counts by m M in L1; discrete Laplace noise of scale m M / "
        "epsilon on every pair of a public alphabet, start and end included, is epsilon-DP "
        "(unbounded neighbours). Where only pairs that occur are counted, those that one unit "
        "alone has, of counts that add up to m M at most, reach tau with probability at most the "
        "larger of Pr[m M + noise >= tau] and m M Pr[1 + noise >= tau] (the tail being convex), "
        "which is added as delta. Flow and cases are post-processing.",
        "Dwork, McSherry, Nissim, Smith 2006, theorem 1; Ghosh, Roughgarden, Sundararajan 2009 "
        "(integers); Korolova et al. 2009, theorem 1 (the threshold)",
    )
    Params = DfgParams
    simulated: ClassVar[Simulated] = (
        (0, 0, 0.22, 0.84, 0.91, 0.96, 0.98, 0.98),
        (0.02, 0.03, 0.11, 0.55, 0.59, 0.6, 0.61, 0.61),
    )
    undeclared: ClassVar[Simulated] = (
        (0, 0, 0, 0, 0.85, 0.95, 0.96, 0.97),
        (0, 0, 0, 0, 0.04, 0.65, 0.61, 0.61),
    )

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[DfgParams] | Refusal:
        """The least noise for so many steps, and a threshold that lets few steps pass that nobody
        takes.
        """
        chosen = DfgOptions.model_validate(options)
        if facts.alphabet is None and not goal.delta:
            return Refusal(
                "needs", "without a delta all activities must be public", ("assume.alphabet",)
            )
        if facts.alphabet is not None and len(facts.alphabet) > MOST_LABELS:
            return Refusal(
                "misconfigured",
                f"every pair of activities gets noise: at most {MOST_LABELS:,} of them",
            )
        params = calibrate_dfg(goal, facts, chosen.most_steps)
        counted = "every step" if params.alphabet is not None else "the steps that occur"
        return Offer(
            params,
            f"counts {counted} between activities with noise, and draws cases from the graph",
        )

    def event(self, params: DfgParams, facts: Facts) -> PrivacyEvent:
        """The noise, and the chance that a step of one unit alone is kept."""
        noise = DiscreteLaplace(scale=params.scale, sensitivity=params.sensitivity)
        if params.alphabet is not None:
            return noise
        # The two ends of the convex tail: one step of count m M, or m M steps of count 1.
        most = params.sensitivity
        singleton_delta = max(
            tail_probability(params.scale, params.tau - most, "laplace"),
            most * tail_probability(params.scale, params.tau - 1, "laplace"),
        )
        if singleton_delta >= 1 or params.tau <= most:
            return NonPrivate(reason="the threshold hides no step of one unit alone")
        return Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=singleton_delta)))

    def measure(self, params: DfgParams, kernel: Kernel) -> Measurement:
        """Count steps with noise, make a flow of them, and draw cases from it."""
        labels, step, noisy = measure_steps(params, kernel)
        used, table = _connected_activities(step, noisy, len(labels))
        flow = fit_flow(table, np.zeros_like(table), 0.0, allowed=table > 0)
        used_labels = [labels[place] for place in used]
        drawn = Counter(_draw_cases(flow, used_labels, params, kernel.randomness))
        cases = np.array(list(drawn.values()), np.int64)
        return Measurement(list(drawn), cases, {"steps kept": len(step)})


def calibrate_dfg(goal: DifferentialPrivacy, facts: Facts, most_steps: int | None) -> DfgParams:
    """Scale and threshold that cost at most the goal's (epsilon, delta)."""
    m = facts.unit.max_cases
    alphabet = alphabet_of(facts)
    steps = most_steps or min(DEFAULT_STEPS, (facts.longest_case or DEFAULT_LENGTH) + 1)
    sensitivity = steps * m
    scale = least_scale(goal.epsilon, sensitivity)
    if alphabet is not None:
        # So that noise alone passes for few of the steps from one activity.
        tau = least_tail_value(scale, FALSE_PER_PREFIX / (len(alphabet) + 1), "laplace")
    else:
        # The two ends of the theorem: one step of count m M, or m M steps of count 1.
        hides_one = least_tail_value(scale, goal.delta, "laplace") + sensitivity
        hides_many = least_tail_value(scale, goal.delta / sensitivity, "laplace") + 1
        tau = max(hides_one, hides_many)
    return DfgParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        max_cases=m,
        alphabet=alphabet,
        most_steps=steps,
        scale=scale,
        tau=tau,
        longest=facts.longest_case or LONGEST,
        most_cases=most_cases_of(facts),
    )


def measure_steps(params: DfgParams, kernel: Kernel) -> tuple[tuple[str, ...], Ints, Ints]:
    """The labels, the steps among them that are kept, as ``coded_steps`` codes them, and their
    noisy counts: of every step, or of those that occur.
    """
    if params.alphabet is None:
        clip = most_steps_clip(params.most_steps)
        # Keys made of labels are told only from ``tau`` on.
        found = kernel.select(labelled_steps, Laplace(params.scale), params.tau, clip)
        labels, step = _coded(found)
        return labels, step, found.noisy
    graph = DirectlyFollows(params.alphabet, params.most_steps, params.scale, params.max_cases)
    noisy = graph.measure(kernel).ravel()
    kept = np.flatnonzero(noisy >= params.tau)
    return params.alphabet, kept, noisy[kept]


def _coded(found: Selected) -> tuple[tuple[str, ...], Ints]:
    """The labels of selected steps, and each step as ``coded_steps`` codes it."""
    labels = tuple(sorted(set(chain.from_iterable(found.labels))))
    place = {label: code for code, label in enumerate(labels)}
    side = len(labels) + 1
    step = []
    for kind, named in zip(found.codes.tolist(), found.labels, strict=True):
        source = 0 if kind == BEGIN else place[named[0]] + 1
        target = len(labels) if kind == END else place[named[-1]]
        step.append(source * side + target)
    return labels, np.array(step, np.int64)


def _connected_activities(step: Ints, noisy: Ints, labels: int) -> tuple[list[int], Table]:
    """Labels that kept steps touch, ``MOST_ACTIVITIES`` at most, and the steps among them."""
    source, target = np.divmod(step, labels + 1)
    # Places 0 and ``labels + 1`` are START and END; each label counts as source and as target.
    place = np.append(source, target + 1)
    weight = np.bincount(place, np.append(noisy, noisy), labels + 2)[1:-1]
    heaviest = np.argsort(-weight, kind="stable")[:MOST_ACTIVITIES]
    used = np.sort(heaviest[weight[heaviest] > 0])
    # The new place of START, each used label and END; -1 for labels that are not used.
    renumbered = np.full(labels + 2, -1)
    renumbered[0] = 0
    renumbered[used + 1] = np.arange(1, len(used) + 1)
    renumbered[-1] = len(used) + 1
    row = renumbered[source]
    column = renumbered[target + 1] - 1
    known = (row >= 0) & (column >= 0)
    table = np.zeros((len(used) + 1, len(used) + 1))
    table[row[known], column[known]] = noisy[known]
    return used.tolist(), table


def _draw_cases(
    flow: Table,
    labels: list[str],
    params: DfgParams,
    noise: Randomness,
) -> list[tuple[str, ...]]:
    """As many activity sequences as leave the flow's start."""
    begun = float(flow[0].sum())
    if begun <= 0:
        return []
    # No more cases than the policy allows, nor more events than memory is meant to hold.
    events_of_case = max(1.0, float(flow[:, :-1].sum()) / begun)
    most_cases = min(params.most_cases or MOST_CASES, MOST_CASES, MOST_EVENTS / events_of_case)
    cases = math.floor(min(begun + 0.5, most_cases))
    # A chain of order 1: the flow's rows are the masses behind each label.
    rows: dict[Context, Table] = {(label,): flow[label] for label in range(len(labels) + 1)}
    chain = MarkovChain.from_masses(rows, 1.0)
    drawn = draw_sequences(chain, LengthGroups.of_any(cases), params.longest, noise)
    return [tuple(labels[code - 1] for code in codes) for codes in drawn]
