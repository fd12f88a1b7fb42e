"""Frequent variants as they are; the other cases as a Markov chain of variable order describes
them.

A transition of order o is the o steps before an event (START counts as one) together with the
event, or END. The counts of one case, of at most ``MOST_CELLS`` different transitions, are scaled
to Euclidean norm 1 and rounded down to a grid of 1/``UNIT_NORM``. So long cases count for no more
than short ones, and one case more or less moves a table of transitions by at most ``UNIT_NORM``
grid steps (L2), in at most ``MOST_CELLS`` cells.

Cases are coded over a public alphabet of A labels; in a transition they are 1 to A, 0 is START and
A + 1 is END.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import BaseModel, Field

from cloakwork.accounting.leaf_events import epsilon_of_normal, leaves_of
from cloakwork.base.arrays import Floats, Ints, owners_of
from cloakwork.base.costs import (
    Composed,
    Cost,
    DiscreteGaussian,
    EpsilonDelta,
    NonPrivate,
    PrivacyEvent,
)
from cloakwork.base.facts import Facts, ProcessRules
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import OTHERS_TABLE, STEPS_TABLE, VARIANTS_TABLE
from cloakwork.base.quantities import IF_SAID, Frozen, Number
from cloakwork.base.records import BY_CHANCE
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import (
    Cases,
    Clip,
    Entries,
    Gaussian,
    Kernel,
    Query,
    Table,
    vector_event,
    vectors_of,
)
from cloakwork.mechanisms.base import Offer, Options, PartOfGoal, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import DEFAULT_CASES, Simulated
from cloakwork.mechanisms.variants.chain import (
    MOST_CASES,
    Context,
    LengthGroups,
    MarkovChain,
    StepFactors,
    draw_sequences,
    fit_flow,
    in_whole,
    length_edges,
    nearest_counts,
    permitted_pairs,
    permitted_steps,
    refine_contexts,
)
from cloakwork.mechanisms.variants.family import VariantParams, VariantRelease

UNIT_NORM: Final = 2**13
"""Grid steps in one case. With sigma above 1,000 steps the accountant charges a whole vector by its
Euclidean norm.
"""

MOST_CELLS: Final = 64
"""Different transitions, or activities, that one case may count for; those that come first in it.
"""

WHOLE: Final = Clip("l1", UNIT_NORM, 1)
"""A case counts for one, on one cell."""

SPREAD: Final = Clip("l2", UNIT_NORM, MOST_CELLS)
"""A case counts for a vector of norm 1."""


def transitions_of(order: int) -> Query:
    """The transitions of ``order`` of cases that are coded over the alphabet: time linear in
    events.

    The code of the transition s1, ..., so, next is their number to the base A + 2, most significant
    first. Each counts for ``UNIT_NORM``, so that every vector is at least as long as ``SPREAD``
    allows, and is scaled down to it.
    """

    def transitions(cases: Cases) -> Entries:
        # All cases one after the other, each as START, its labels, END; none without events.
        lengths = np.where(cases.lengths > 0, cases.lengths + 2, 0)
        ends = np.cumsum(lengths)
        symbol = np.zeros(lengths.sum(), np.int64)
        # Labels stand behind the START of their case; codes are shifted, as 0 is START.
        symbol[(ends - lengths)[cases.case_of] + 1 + cases.place] = cases.codes + 1
        symbol[ends[lengths > 0] - 1] = len(cases.alphabet) + 1
        case = owners_of(lengths)
        # A transition is a window of symbols that ends at ``end``; it counts where all of it lies
        # in one case, which it does where both its ends do.
        end = np.arange(order, len(symbol))
        end = end[case[end] == case[end - order]]
        # Horner's scheme over the window, the oldest symbol first.
        code = np.zeros(len(end), np.int64)
        for back in range(order, -1, -1):
            code *= len(cases.alphabet) + 2
            code += symbol[end - back]
        return Entries(case[end], np.full(len(end), UNIT_NORM), code)

    return transitions


def codes_after(contexts: Sequence[Sequence[int]], labels: int) -> Ints:
    """The codes of all transitions from each of ``contexts``, of one order, to each label and END:
    int64, shape (contexts, ``labels`` + 1).
    """
    base = labels + 2
    begin = np.zeros(len(contexts), np.int64)
    for steps in zip(*contexts, strict=True):
        begin = begin * base + np.array(steps, np.int64)
    return begin[:, None] * base + np.arange(1, base)


def steps_table(order: int, alphabet: Sequence[str]) -> Table:
    """What the transitions of ``order`` are called, and how their codes are spelled: START and END
    as None.
    """

    def spell(codes: Ints) -> list[tuple[str | None, ...]]:
        names = (None, *alphabet, None)
        base = len(names)
        digits = [codes // base**place % base for place in range(order, -1, -1)]
        return [tuple(names[each] for each in key) for key in zip(*digits, strict=True)]

    name = STEPS_TABLE if order == 1 else f"{STEPS_TABLE}, behind {order}"
    return Table(name, spell)


def nonempty(cases: Cases) -> Entries:
    """One entry for each case with events."""
    rows = np.flatnonzero(cases.lengths)
    return Entries(rows, np.full(len(rows), UNIT_NORM))


def lengths_by(edges: Ints) -> Query:
    """One entry for each case with events: the place of its length, in events, between ``edges``
    (int64, ascending): 0 below the first.
    """

    def lengths(cases: Cases) -> Entries:
        rows = np.flatnonzero(cases.lengths)
        place = np.searchsorted(edges, cases.lengths[rows], side="right")
        return Entries(rows, np.full(len(rows), UNIT_NORM), place.astype(np.int64))

    return lengths


def variant(cases: Cases) -> Entries:
    """One entry for each case with events: its activity sequence."""
    rows = np.flatnonzero(cases.lengths)
    start = cases.offsets[:-1][rows]
    stop = cases.offsets[1:][rows]
    return Entries(
        rows,
        np.full(len(rows), UNIT_NORM),
        None,
        start,
        stop,
    )


def activities(cases: Cases) -> Entries:
    """Each activity of a case, once: that of its first event."""
    _, first = np.unique(cases.case_of * len(cases.alphabet) + cases.codes, return_index=True)
    # Back in the order of events: the clip keeps the activities that come first in a case.
    events = np.sort(first)
    size = np.full(len(events), UNIT_NORM)
    return Entries(
        cases.case_of[events],
        size,
        None,
        events,
        events + 1,
    )


SHARES: Final = (0.34, 0.03, 0.07, 0.26, 0.18, 0.12)
"""Parts of the budget (of 1/sigma**2): frequent variants, number of other cases, their lengths, and
their transitions of order 1, 2 and 3.

These, ``LABELS_BUDGET``, ``SHARPNESS``, ``PENALTIES`` and ``KNOWN`` were chosen on synthetic logs
alone (``benchmarks/variants/synthetic.py``).
"""

SHARES_OF_ALL: Final = (0.001, 0.05, 0.1, 0.5, 0.25, 0.099)
"""The same where no variant is frequent enough to be released: nothing is spent on these."""

SHARES_OF_FEW: Final = (0.2, 0.04, 0.08, 0.4, 0.2, 0.08)
"""The same beside other columns where noise is so much that few variants are released."""

FEW_BELOW: Final = 0.15
"""Noise is so much where one case moves all tables together by fewer deviations: a variant then
needs about 60 cases to be released (epsilon .5 for a whole log, and less).
"""

LABELS_BUDGET: Final = 0.25
"""The part of the budget for selecting activities, where none are declared; the others get what it
leaves.
"""

SELECTION_SHARE: Final = 0.49
"""The part of delta that the threshold spends; the accountant gives Gaussian noise the other half.
"""

LABELS_SHARE: Final = 0.5
"""Of that, the part for the activities' threshold."""

SHARPNESS: Final = 1.4

LONGEST: Final = 200
"""Events of a generated case at most, where the policy does not declare ``longest_case``."""

# Above it the accountant charges a vector by its Euclidean norm (see ``UNIT_NORM``).
_LEAST_SIGMA: Final = 1024.0

Share = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]


class Selection(Frozen):
    """Activities are selected by noisy counts of the cases that hold them: ``sigma`` and least
    count ``tau``, in grid steps.
    """

    sigma: Annotated[Number, Field(gt=0)]
    tau: Annotated[int, Field(ge=1)]


class MarkovOptions(BaseModel):
    """``sharpness``: 1 draws steps with the shares they were measured with; more makes frequent
    steps more frequent.

    ``shares``: how the budget is split, as ``SHARES`` lists it; scaled to add up to 1. None: as
    ``SHARES`` says, or ``SHARES_OF_FEW``.
    """

    model_config = {"extra": "forbid", "frozen": True}
    sharpness: Annotated[float, Field(ge=1, le=4, allow_inf_nan=False)] = SHARPNESS
    shares: tuple[Share, Share, Share, Share, Share, Share] | None = None


class MarkovParams(VariantParams):
    """``sigmas``: of the discrete Gaussian noise on the six tables that ``SHARES`` names, in that
    order.

    ``tau``: least noisy count of a frequent variant. Both in grid steps, ``UNIT_NORM`` to a case.
    ``alphabet``: the public labels; or else ``selection``: how they are found. ``rules``: public
    ones, which no drawn case breaks. ``longest``: events
    of a generated case; ``max_cases``: cases of a unit. ``epsilon`` and ``delta``: what sigmas and
    tau were found for.
    """

    alphabet: tuple[str, ...] | None = None
    selection: Selection | None = None
    rules: Annotated[ProcessRules | None, IF_SAID] = None
    longest: Annotated[int, Field(ge=1)] = LONGEST
    sharpness: Annotated[Number, Field(ge=1, le=4)] = SHARPNESS
    sigmas: tuple[float, float, float, float, float, float]
    tau: Annotated[int, Field(ge=1)]


MarkovNoise = tuple[tuple[float, float, float, float, float, float], int, Selection | None]
"""Sigmas and tau of ``MarkovParams``, and how activities are selected."""


# Asked for anew by each plan, and by each proof of one, of the same few targets.
@lru_cache(maxsize=256)
def calibrate_markov(
    target: Cost,
    max_cases: int,
    shares: tuple[float, ...],
    declared: bool,
) -> MarkovNoise:
    """Sigmas, tau and, unless activities are ``declared``, how to select them, at a cost of at most
    ``target``.
    """
    from cloakwork.accounting.calibrate import smallest_scale

    # Thresholds get their part of delta first; the noise is then as small as the rest allows.
    deltas = selection_deltas(target.delta, 1 if declared else 2)

    def event_at(scale: float) -> PrivacyEvent:
        return noise_event(sigmas_at(scale, shares, declared), deltas, max_cases)

    scale = smallest_scale(event_at, target)
    return _with_thresholds(sigmas_at(scale, shares, declared), deltas, max_cases)


def markov_part(
    mu: float,
    delta: float,
    max_cases: int,
    shares: Sequence[float],
    declared: bool,
) -> MarkovNoise:
    """The same for noise on all tables that a unit moves by ``mu`` deviations at most, with
    thresholds that it passes with a probability of at most ``delta``.
    """
    # ``delta`` is what thresholds spend, so the whole is that over their share.
    deltas = selection_deltas(delta / SELECTION_SHARE, 1 if declared else 2)
    scale = max_cases * UNIT_NORM / mu
    for _ in range(4):
        # Norms are rounded up, cell by cell: a little more noise makes up for it.
        event = noise_event(sigmas_at(scale, shares, declared), (), max_cases)
        excess = sum(
            times * (leaf.sensitivity / leaf.sigma) ** 2
            for leaf, times in leaves_of(event)
            if isinstance(leaf, DiscreteGaussian)
        )
        if excess <= mu * mu:
            break
        scale *= math.sqrt(excess) / mu * (1 + 1e-12)
    return _with_thresholds(sigmas_at(scale, shares, declared), deltas, max_cases)


def sigmas_at(
    scale: float,
    shares: Sequence[float],
    declared: bool,
) -> tuple[float, ...]:
    """Of all tables, and of the activities' counts unless they are ``declared``, for noise of
    ``scale`` altogether: a table's part of the budget is of 1/sigma**2.
    """
    all_shares = list(shares)
    if not declared:
        # So that activities get LABELS_BUDGET of the whole, and the tables keep their proportions.
        all_shares.append(sum(shares) * LABELS_BUDGET / (1 - LABELS_BUDGET))
    total = sum(all_shares)
    return tuple(max(scale / math.sqrt(share / total), _LEAST_SIGMA) for share in all_shares)


def _with_thresholds(
    sigmas: Sequence[float],
    deltas: Sequence[float],
    max_cases: int,
) -> MarkovNoise:
    frequent, count, lengths, first, second, third, *labels = sigmas
    tau = least_tau(frequent, deltas[0], max_cases)
    selection = None
    # A case has one variant but up to MOST_CELLS activities, so their threshold is higher.
    if labels:
        least = least_tau(labels[0], deltas[1], max_cases, labels=MOST_CELLS)
        selection = Selection(sigma=labels[0], tau=least)
    return (frequent, count, lengths, first, second, third), tau, selection


def selection_deltas(delta: float, selections: int) -> tuple[float, ...]:
    """What the thresholds of frequent variants and, if there are two, of activities may spend of
    ``delta``.
    """
    spent = SELECTION_SHARE * delta
    if selections == 1:
        return (spent,)
    return spent * (1 - LABELS_SHARE), spent * LABELS_SHARE


def least_tau(
    sigma: float,
    delta: float,
    max_cases: int,
    labels: int = 1,
) -> int:
    """The least tau (grid steps) whose ``selection_delta`` is at most ``delta``."""
    from cloakwork.accounting.calibrate import least_above

    # Below m cases no threshold hides a unit.
    return least_above(
        max_cases * UNIT_NORM, lambda tau: selection_delta(sigma, tau, max_cases, labels) <= delta
    )


def selection_delta(
    sigma: float,
    tau: int,
    max_cases: int,
    labels: int = 1,
) -> float:
    """At least m l Pr[m + N >= tau] for N of ``sigma`` (grid steps), m = ``max_cases``: the
    delta that the threshold spends.

    ``labels``: l, how many counts one case may have a share in. Discrete Gaussian noise reaches x
    at most as often as a normal variable reaches x - 1 (Canonne, Kamath and Steinke 2020,
    proposition 25). Rounded up by more than it can err.
    """
    # One less than the distance: the bound for discrete noise is a normal tail at x - 1.
    reached = tau - max_cases * UNIT_NORM - 1
    tail = math.erfc(reached / (sigma * math.sqrt(2))) / 2
    delta = max_cases * labels * tail
    return min(delta * (1 + 1e-9), 1 - 2.0**-30)


def noise_event(
    sigmas: Sequence[float],
    deltas: Sequence[float],
    max_cases: int,
) -> PrivacyEvent:
    """The thresholds, at ``deltas``, and the noise on every table, at ``sigmas`` in grid steps."""
    frequent, count, lengths, *tables = sigmas
    norm = max_cases * UNIT_NORM
    events: list[PrivacyEvent] = []
    for delta in deltas:
        # Rounded up by more than the logarithm can err.
        epsilon = -math.log1p(-delta) * (1 + 1e-9)
        events.append(EpsilonDelta(epsilon=epsilon, delta=delta))
    # What a unit of m cases moves: m counts of variants, the one count of cases, m of lengths, and
    # of each table m times a case's cells (labels are such too).
    events.append(vector_event(frequent, norm, cells=max_cases))
    events.append(vector_event(count, norm, cells=1))
    events.append(vector_event(lengths, norm, cells=max_cases))
    for sigma in tables:
        events.append(vector_event(sigma, norm, cells=max_cases * MOST_CELLS))
    return Composed(events=tuple(events))


PENALTIES: Final = (1.5, 0.7, 0.7)
"""By order: how many sigmas a count must stand out by, to be believed against what is expected."""

KNOWN: Final = 5.0
"""Sigmas of a longer context's noise that its mass must have, for its own continuations to be
counted.
"""

SEEN_STEP: Final = 5.0
"""How many deviations of the noise on a step a log must have cases, for steps to show."""

LEAST_START: Final = 0.5
"""Sigmas of the noise on a step that what is believed of first steps must have together, for steps
to be known at all: less is noise, and a chain of noise goes in circles.
"""

MOST_CONTEXTS: Final = 4096

MOST_LENGTHS: Final = 24
"""Groups of lengths that cases are counted in, at most."""

LENGTH_SIGMAS: Final = 4.0
"""Sigmas of that count's noise that a group has to hold, on average."""

MOST_LENGTH: Final = 400
"""Events of a case; longer ones are one group."""

ROUNDS: Final = 2
"""How often the chain is corrected by what a sample of its cases shows of the measured steps."""

SAMPLE: Final = 3000
"""Cases of such a sample."""

USUAL_LENGTH: Final = 10
"""Events of a case, on average, where neither steps nor lengths stand out of the noise."""

FEW_CASES: Final = 100
"""Where nothing but a model is released, as many cases are drawn at least, or as the deviation of
the noise on their number, if that is less: enough to show the model.
"""

DOUBT: Final = 10.0
"""Sigmas of the noise on a step that are added to what is measured and to what a sample shows,
before one is divided by the other: rare steps are hardly corrected.
"""


class VariantMarkov(VariantRelease[MarkovParams]):
    """Release frequent variants by threshold, and make the other cases from noisy counts of what
    follows what.

    The cases that are left when frequent variants are out are counted with noise, and so are their
    transitions of order 1, 2 and 3 (every cell of order 1; longer contexts only where the noisy
    order before says that they are common) and their lengths, in groups. A Markov chain fitted to
    the transitions draws as many cases of each group of lengths. A case's transitions count for 1
    together, so that the shares of steps are those of short cases rather than of long ones: the
    chain is corrected until the cases that it draws, counted in the same way, show what was
    measured.
    Steps that stand out of the noise too little are lost, and frequent steps come out a little more
    frequent (``sharpness``): the release shows common behaviour, not the rare one. Where no
    activities are declared, those that enough cases hold are selected, with noise, beside those of
    the frequent variants, which are released anyway; others are left out.

    Where no variant is frequent and no step stands out of the noise, each activity follows each
    other one alike: cases tell of the activities, which are declared or were selected, and of
    lengths, as far as these stand out. With declared activities no release is empty. An empty log
    then gives cases made of noise, and else an empty release or a few of these; one case, or
    variants that are all unique, are drowned by noise; with a single activity there is one
    transition to count. It never aborts on data.
    """

    name: ClassVar[str] = "variants/markov"
    options: ClassVar[Mapping[str, str]] = {
        "sharpness": "from 1 to 4: 1 draws steps with the shares measured, more makes frequent "
        "steps more frequent (1.4)",
        "shares": "six numbers, how the budget is split over frequent variants, the number of "
        "other cases, their lengths, and steps after one, two and three others",
    }
    serves_parts: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Releases frequent variants, and draws the other cases from a noisy Markov model."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): (1) noisy counts of the variants "
        "that one unit alone has reach tau with probability at most d = m Pr[m + N >= tau], which "
        "is (-ln(1 - d), d)-DP, and all other counts move by at most m (L2); (2) given which "
        "variants are released, one unit changes at most m of the other cases, hence their number "
        "by at most m, and their numbers by length and each table of transitions by at most m "
        "(L2), a case's vector having norm at most 1. Where no activities are declared: (3) a case "
        "counts for its first 64 activities as a vector of norm at most 1, and one of the at most "
        "64 m activities that one unit alone has reaches its tau with probability at most d' = 64 "
        "m Pr[m + N >= tau], again (-ln(1 - d'), d')-DP. Discrete Gaussian noise on all of them "
        "composes adaptively; the chain is post-processing.",
        "Rafiei, Wangelik, van der Aalst 2022 (TraVaS); Canonne, Kamath, Steinke 2020, theorem 14 "
        "and proposition 25; Zhang, Xiao, Xie 2016 (PrivTree), for contexts that grow where they "
        "are common",
    )
    Params = MarkovParams
    simulated: ClassVar[Simulated] = (
        (0.16, 0.51, 0.82, 0.92, 0.95, 0.97, 0.98, 0.99),
        (0.22, 0.31, 0.53, 0.67, 0.72, 0.75, 0.79, 0.8),
    )
    undeclared: ClassVar[Simulated] = (
        (0, 0.32, 0.82, 0.9, 0.95, 0.97, 0.98, 0.99),
        (0.09, 0, 0.52, 0.66, 0.71, 0.75, 0.78, 0.8),
    )
    needs_delta: ClassVar[bool] = True

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[MarkovParams] | Refusal:
        """The least noise, shared out as ``SHARES`` says."""
        chosen = MarkovOptions.model_validate(options)
        target = Cost(epsilon=goal.epsilon, delta=goal.delta)
        declared = facts.alphabet is not None
        noise = calibrate_markov(
            target,
            facts.unit.max_cases,
            chosen.shares or SHARES,
            declared,
        )
        return _offered(target, noise, facts, chosen)

    def meet_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[MarkovParams] | Refusal:
        """Noise that a unit moves by ``mu`` deviations over all tables, shared out as ``SHARES``
        says, or ``SHARES_OF_FEW``, and thresholds that spend ``delta``.
        """
        chosen = MarkovOptions.model_validate(options)
        declared = facts.alphabet is not None
        # How much noise there is, is public: the log has no say in what is asked of it.
        is_coarse = part.mu < FEW_BELOW * facts.unit.max_cases
        noise = markov_part(
            part.mu,
            part.delta,
            facts.unit.max_cases,
            chosen.shares or (SHARES_OF_FEW if is_coarse else SHARES),
            declared,
        )
        # The target that these would meet by themselves.
        in_all = part.delta / SELECTION_SHARE
        target = Cost(epsilon=epsilon_of_normal(part.mu, in_all - part.delta), delta=in_all)
        offer = _offered(target, noise, facts, chosen)
        return Offer(offer.params, offer.why + _of_few(offer.params, facts)) if is_coarse else offer

    def event(self, params: MarkovParams, facts: Facts) -> PrivacyEvent:
        """Noise on six tables, and the chance that a variant of one unit alone passes the
        threshold.
        """
        m = params.max_cases
        sigmas: tuple[float, ...] = params.sigmas
        deltas = [selection_delta(sigmas[0], params.tau, m)]
        if params.selection is not None:
            sigma = params.selection.sigma
            sigmas = (*sigmas, sigma)
            deltas.append(selection_delta(sigma, params.selection.tau, m, labels=MOST_CELLS))
        elif params.alphabet is None:
            return NonPrivate(
                reason="activities that are neither declared nor selected would be read off the log"
            )
        # What the thresholds spend may be less than was planned; the larger of both is charged.
        planned = selection_deltas(params.delta, len(deltas))
        return noise_event(sigmas, tuple(map(max, deltas, planned)), m)

    def measure(self, params: MarkovParams, kernel: Kernel) -> Measurement:
        """Select the frequent variants, count the transitions of the remaining cases, fit a chain,
        and draw from it.
        """
        return measure_with(params, kernel)


@frozen
class RemainingCases:
    """What is known of the cases that follow no frequent variant.

    ``kernel``: that answers about them; ``alphabet``: their labels; ``masses``: noisy ones of what
    follows each context, in grid steps; ``count``: about how many there are, noisy too.
    """

    kernel: Kernel
    alphabet: Sequence[str]
    masses: Mapping[Context, Floats]
    count: int


Learn = Callable[[RemainingCases], StepFactors]
"""Finds factors by which steps are taken more often than a chain says, given all of a prefix."""


def measure_with(
    params: MarkovParams,
    kernel: Kernel,
    learn: Learn | None = None,
) -> Measurement:
    """Select the frequent variants; generate the other cases as ``VariantMarkov`` does, with the
    factors that ``learn`` finds, if it is given.
    """
    if params.alphabet is not None:
        kernel = kernel.narrowed(params.alphabet)
    # Frequent variants come first: their labels and cases shape all that follows.
    noise = Gaussian(params.sigmas[0])
    found = kernel.select(variant, noise, params.tau, WHOLE, table=Table(VARIANTS_TABLE))
    cases = np.rint(found.noisy / UNIT_NORM).astype(np.int64)
    if params.rules is not None:
        # A variant that breaks a public rule is not released.
        cases *= np.array([params.rules.keeps(each) for each in found.labels], np.int64)
    alphabet = params.alphabet
    if alphabet is None:
        # Labels of frequent variants are released anyway, so they need no selection.
        labels = set[str]().union(*found.labels)
        # Of the others those that enough cases hold, each case a vector of norm at most 1.
        if params.selection is not None:
            noise = Gaussian(params.selection.sigma)
            least = params.selection.tau
            table = Table("activities")
            labels.update(*kernel.select(activities, noise, least, SPREAD, table=table).labels)
        alphabet = tuple(sorted(labels))
    drawn: list[tuple[str, ...]] = []
    by_chance = False
    if alphabet:
        others = kernel.narrowed(alphabet, without=found.labels)
        # Released variants say, at no cost, what steps to expect of the other cases.
        prior = _transitions_a_case(found.labels, cases, alphabet)
        drawn, by_chance = _generate_variants(
            others,
            alphabet,
            prior,
            params,
            learn,
            alone=not cases.any(),
        )
    # A sequence may be frequent and drawn as well: its counts add up.
    total = Counter(dict(zip(found.labels, cases.tolist(), strict=True)))
    total.update(drawn)
    return Measurement(
        list(total),
        np.array(list(total.values()), np.int64),
        {
            "frequent variants": len(cases),
            "cases of frequent variants, released": int(cases.sum()),
            "cases drawn from the model": len(drawn),
            **({BY_CHANCE: True} if by_chance else {}),
        },
    )


def cases_by_chance(params: MarkovParams, kernel: Kernel) -> Measurement:
    """``FEW_CASES`` cases of declared activities, each following each other one alike; asks
    nothing.
    """
    labels = params.alphabet or ()
    if params.rules is not None and not permitted_pairs(params.rules, labels)[0].any():
        return Measurement([], np.zeros(0, np.int64))
    length = min(USUAL_LENGTH, params.longest)
    chain = MarkovChain.from_masses(_uniform_steps(len(labels), length), 1.0)
    groups = LengthGroups.of_any(FEW_CASES)
    rules = _permitted(params, labels)
    drawn = draw_sequences(chain, groups, params.longest, kernel.randomness, rules)
    found = Counter(tuple(labels[code - 1] for code in sequence) for sequence in drawn)
    return Measurement(list(found), np.array(list(found.values()), np.int64), {BY_CHANCE: True})


def _permitted(params: MarkovParams, alphabet: Sequence[str]) -> StepFactors | None:
    return None if params.rules is None else permitted_steps(params.rules, alphabet)


def _both(one: StepFactors, other: StepFactors | None) -> StepFactors:
    return one if other is None else lambda prefixes: one(prefixes) * other(prefixes)


def _offered(
    target: Cost,
    noise: MarkovNoise,
    facts: Facts,
    chosen: MarkovOptions,
) -> Offer[MarkovParams]:
    sigmas, tau, selection = noise
    params = MarkovParams(
        epsilon=target.epsilon,
        delta=target.delta,
        max_cases=facts.unit.max_cases,
        alphabet=None if facts.alphabet is None else tuple(dict.fromkeys(facts.alphabet)),
        selection=selection,
        rules=facts.rules,
        longest=facts.longest_case or LONGEST,
        sharpness=chosen.sharpness,
        sigmas=sigmas,
        tau=tau,
    )
    why = "keeps frequent variants, and draws the other cases from a noisy Markov model of them"
    return Offer(params, why)


def _of_few(params: MarkovParams, facts: Facts) -> str:
    """What so much noise that few variants are released means, and what is made of it."""
    tau = params.tau / UNIT_NORM
    said = f"; with so much noise a variant needs about {tau:,.0f} cases to be released"
    if params.alphabet is None:
        return f"{said}, and the release may be empty: declare assume.alphabet, and it is never"
    steps = what_steps_show(params, facts)
    return f"{said}, so more is spent on the steps that other cases are drawn from: {steps}"


def what_steps_show(params: MarkovParams, facts: Facts) -> str:
    """By how much cases that are drawn from counts of steps may be off, and what is left of them
    where no step shows, by declared facts.
    """
    # The number of cases, and that of cases with a step.
    off = [params.sigmas[place] / UNIT_NORM for place in (1, 3)]
    said = f"their number off by about {off[0]:,.0f}, cases with a step by about {off[1]:,.0f}"
    cases = facts.units_at_most or DEFAULT_CASES
    if off[1] * SEEN_STEP < cases:
        return said
    known = f"of {cases:,} cases" if facts.units_at_most else f"of {cases:,} cases, say,"
    return (
        f"{said}; {known} hardly a step shows then, and the release says LITTLE more than which "
        "activities are declared"
    )


def _generate_variants(
    others: Kernel,
    alphabet: Sequence[str],
    prior: Floats,
    params: MarkovParams,
    learn: Learn | None,
    *,
    alone: bool,
) -> tuple[list[tuple[str, ...]], bool]:
    """About as many sequences as there are other cases, about as long, from a chain fitted to noisy
    counts of their steps; and whether no step stood out of the noise. ``prior``: the steps that are
    expected of one of them. ``alone``: nothing else is released, so that there are some however
    little is known.
    """
    # How many other cases there are, from one noisy count.
    table = Table(OTHERS_TABLE)
    cases = others.sum(nonempty, Gaussian(params.sigmas[1]), WHOLE, keys=1, table=table)
    (noisy,) = cases.at(np.zeros(1, np.int64)).tolist()
    least = min(FEW_CASES, math.ceil(params.sigmas[1] / UNIT_NORM)) if alone else 0
    count = min(max(round(noisy / UNIT_NORM), least), MOST_CASES)
    # The chain from noisy steps.
    rows = _measure_transitions(others, alphabet, prior * count, params)
    # Nothing stands out of the noise: beside frequent variants no case is made.
    is_unknown = rows[(0,)].sum() <= LEAST_START * params.sigmas[3]
    if not count or (is_unknown and not alone):
        return [], False
    if is_unknown:
        rows = _uniform_steps(len(alphabet), min(USUAL_LENGTH, params.longest))
    if params.rules is not None:
        # Steps that no case takes, and none if no case can begin.
        possible = permitted_pairs(params.rules, alphabet)
        if not possible[0].any():
            return [], False
        rows = {context: mass * possible[context[-1]] for context, mass in rows.items()}
    chain = MarkovChain.from_masses(rows, params.sharpness)
    # How long the cases should be, in groups about even in the chain; no more of them than hold
    # LENGTH_SIGMAS sigmas of the noise each.
    sigma = params.sigmas[2]
    most = min(MOST_LENGTHS, count * UNIT_NORM / (LENGTH_SIGMAS * sigma))
    edges = length_edges(chain, max(1, int(most)), min(params.longest, MOST_LENGTH))
    bounds = [1, *edges.tolist(), None]
    table = Table("lengths of other cases", lambda codes: [bounds[at : at + 2] for at in codes])
    sums = others.sum(lengths_by(edges), Gaussian(sigma), WHOLE, table=table)
    lengths = sums.at(np.arange(len(edges) + 1)) / UNIT_NORM
    # Noisy counts are made non-negative and whole, with the total that is known already.
    groups = LengthGroups(in_whole(nearest_counts(lengths, count), count), edges)
    factors = _permitted(params, alphabet)
    if learn is not None:
        factors = _both(learn(RemainingCases(others, alphabet, rows, count)), factors)

    def drawn(by: MarkovChain, required: LengthGroups) -> list[tuple[str, ...]]:
        codes = draw_sequences(
            by,
            required,
            params.longest,
            others.randomness,
            factors,
        )
        return [tuple(alphabet[code - 1] for code in sequence) for sequence in codes]

    if is_unknown:
        return drawn(chain, groups), True
    # Correct the chain until a sample, counted as the log was, shows the steps measured.
    measured = np.array([rows[step] for step in _single_steps(len(alphabet))]) / count
    doubt = DOUBT * params.sigmas[3] / count
    for _ in range(ROUNDS):
        sample = Counter(drawn(chain, groups.reduced(SAMPLE)))
        shown = _transitions_a_case(list(sample), np.array(list(sample.values())), alphabet)
        # Both sides get the same doubt, so that steps within the noise stay as they are.
        chain = chain.weighted((measured + doubt) / (shown + doubt))
    return drawn(chain, groups), False


def _transitions_a_case(
    released: Sequence[tuple[str, ...]],
    cases: Ints,
    alphabet: Sequence[str],
) -> Floats:
    """The transitions of order 1 that a case of the released variants has on average, in grid
    steps: the layout of ``chain.Table``; zero if none was released.
    """
    codes = codes_after(_single_steps(len(alphabet)), len(alphabet))
    if not cases.sum():
        return np.zeros(codes.shape)
    # Counted as the kernel counts cases, clip included, so that both are comparable.
    sums = vectors_of(Cases.of(released, alphabet), transitions_of(1), SPREAD).sums(cases)
    return sums.at(codes) / int(cases.sum())


def _uniform_steps(labels: int, length: int) -> dict[Context, Floats]:
    """Masses by which every label follows every other alike, in cases of about ``length`` events:
    the END's is that of all labels over ``length``.
    """
    after_label = np.append(np.ones(labels), labels / length)
    # A case has an event at least.
    start = np.append(np.ones(labels), 0.0)
    return {step: after_label if step[0] else start for step in _single_steps(labels)}


def _single_steps(labels: int) -> list[Context]:
    """Every context of one step: START and each label."""
    return [(label,) for label in range(labels + 1)]


def _measure_transitions(
    others: Kernel,
    alphabet: Sequence[str],
    prior: Floats,
    params: MarkovParams,
) -> dict[Context, Floats]:
    """Masses of what follows each context: all of order 1, then, order by order, of contexts that
    are frequent by what is known so far.
    """
    latest = _single_steps(len(alphabet))
    first = _noisy_table(others, latest, alphabet, params.sigmas[3])
    flow = fit_flow(first, prior, PENALTIES[0] * params.sigmas[3])
    measured: dict[Context, Floats] = dict(zip(latest, flow, strict=True))
    for penalty, sigma in zip(PENALTIES[1:], params.sigmas[4:], strict=True):
        latest, mass = _frequent_contexts(measured, latest, KNOWN * sigma)
        if not latest:
            break
        noisy = _noisy_table(others, latest, alphabet, sigma)
        # A longer context is expected to go on as its longest measured suffix does.
        suffixes = []
        for context in latest:
            suffix = context[1:]
            while suffix not in measured:
                suffix = suffix[1:]
            suffixes.append(measured[suffix])
        refined = refine_contexts(noisy, np.array(suffixes), mass, penalty * sigma)
        measured |= zip(latest, refined, strict=True)
    return measured


def _noisy_table(
    others: Kernel,
    contexts: Sequence[Context],
    alphabet: Sequence[str],
    sigma: float,
) -> Floats:
    """Noisy transitions of one order, in grid steps: shape (contexts, labels + 1)."""
    order = len(contexts[0])
    table = steps_table(order, alphabet)
    sums = others.sum(transitions_of(order), Gaussian(sigma), SPREAD, table=table)
    return sums.at(codes_after(contexts, len(alphabet))).astype(np.float64)


def _frequent_contexts(
    rows: Mapping[Context, Floats],
    latest: Sequence[Context],
    least: float,
) -> tuple[list[Context], Floats]:
    """Of one step more than ``latest``: the largest ``MOST_CONTEXTS`` of above ``least`` mass."""
    found: list[tuple[float, Context]] = []
    for context in latest:
        # Without the last column: nothing follows END.
        masses = rows[context][:-1]
        for column in np.flatnonzero(masses > least):
            longer = (*context, int(column) + 1)
            found.append((float(masses[column]), longer))
    # The largest first; of equal ones the first by its labels, so that the order is fixed.
    found.sort(key=lambda item: (-item[0], item[1]))
    largest = found[:MOST_CONTEXTS]
    return [context for _, context in largest], np.array([mass for mass, _ in largest])
