"""Attributes for cases that were made of noisy answers, drawn from noisy tables of the log's; and
the same with a regression's gradient step from them.

A case counts for at most ``MOST_OF_A_CASE`` values of an attribute, as a vector of Euclidean norm 1
over them. A value is told where its noisy sum reaches a threshold which values of one unit alone
pass with the charged delta at most (partition selection: Korolova et al. 2009; Desfontaines et al.
2022).
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.base.arrays import Floats, Ints, grouped, place_in_run
from cloakwork.base.costs import Composed, PrivacyEvent, gaussian_moves
from cloakwork.base.facts import Facts, FoundType
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX, VALUES_TABLE
from cloakwork.base.quantities import IF_SAID, Frozen, Number
from cloakwork.kernel import Cases, Clip, Entries, Gaussian, Kernel, Query, Randomness, Table
from cloakwork.kernel.noises import selection_event
from cloakwork.mechanisms.attributes.contributions import (
    MOVED,
    NORMS,
    SPREAD,
    UNIT_NORM,
    WHOLE,
    TableLayout,
    best_norm,
    norms_of,
    tables_of,
)
from cloakwork.mechanisms.attributes.domains import UNIT, MeasuredAttribute
from cloakwork.mechanisms.attributes.drawing import (
    CLASSES,
    MOST_PAIRS,
    CaseClasses,
    Classes,
    Drawn,
    Edge,
    class_table,
    draw_values,
    forest,
    may_stand_out,
    pairs_of,
    with_copies,
    with_pairs,
    with_repeats,
    with_transitions,
)
from cloakwork.mechanisms.attributes.tables import (
    STANDS_OUT,
    Counted,
    GradientStep,
    NoisyTables,
    ValueShares,
    fitted,
)
from cloakwork.mechanisms.base import (
    MeetsNoGoal,
    Offer,
    PartOfGoal,
    Proof,
    Refusal,
    Theorem,
    no_option,
)
from cloakwork.mechanisms.steps import ColumnValues, Enrichment, EnrichStep, Listed, Numbers, Times

MOST_OF_A_CASE: Final = 8
"""Different values of an attribute that a case counts for."""

MOST_FOUND: Final = 1000
"""Values of an attribute that are told: the most frequent, by their noisy sums."""

LONGEST: Final = 100
"""Characters; what is longer is no value of a list, but free text, and never told."""

CLIP: Final = Clip("l2", UNIT_NORM, MOST_OF_A_CASE)

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,14}")


def least_sum(
    sigma: float,
    delta: float,
    max_cases: int,
) -> int:
    """The least threshold, in grid steps, that spends ``delta`` at most beside noise of
    deviation ``sigma``.
    """
    noise = Gaussian(sigma)
    alone = max_cases * UNIT_NORM
    # From a normal estimate upwards: the proved tail is evaluated only near the answer.
    far = -NormalDist().inv_cdf(min(delta / (max_cases * MOST_OF_A_CASE), 0.5))
    least = alone + 1 + int(far * sigma)
    while noise.selection_delta(least, CLIP, max_cases) > delta:
        least += max(1, int(sigma / 1000))
    return least


def find_values(
    attribute: MeasuredAttribute,
    kernel: Kernel,
    sigma: float,
    least: int,
) -> MeasuredAttribute:
    """The attribute with the values that are found as its domain; as it is, where it declares its
    own.
    """
    if attribute.found is None:
        return attribute
    query = _values_of(attribute.name, attribute.found)
    selected = kernel.select(
        query,
        Gaussian(sigma),
        least,
        CLIP,
        labels=attribute.name,
        table=Table(f"values found of {attribute.name}"),
    )
    # The most frequent by noisy sums; sorted afterwards, so that their order shows nothing.
    order = np.argsort(-selected.noisy, kind="stable")[:MOST_FOUND]
    texts = sorted(selected.labels[place][0] for place in order.tolist())
    domain: tuple[JsonValue, ...] = tuple(texts)
    if attribute.found == "integer":
        domain = tuple(sorted(map(int, texts)))
    return attribute.model_copy(update={"domain": domain, "found": None})


def _values_of(name: str, type_: FoundType) -> Query:
    """The first different values of each case, all of one weight."""

    def values(cases: Cases) -> Entries:
        column = cases.columns[name]
        every = np.arange(len(cases))
        case_of = every if name.startswith(CASE_PREFIX) else cases.case_of
        may_be_told = [
            0 < len(text) <= LONGEST and (type_ == "text" or bool(_WHOLE.fullmatch(text)))
            for text in column.alphabet
        ]
        # A missing value has the last place.
        rows = np.flatnonzero(np.array([*may_be_told, False])[column.codes])
        # Each value of a case once, at its first event; then the first few of these.
        order, begins = grouped(case_of[rows], column.codes[rows])
        rows = np.sort(rows[order[begins]])
        case = case_of[rows]
        rank = place_in_run(case)
        rows, case = rows[rank < MOST_OF_A_CASE], case[rank < MOST_OF_A_CASE]
        # A case of k values counts for 1/sqrt(k) at each: a vector of norm 1, rounded down.
        times = np.bincount(case, minlength=len(cases))[case]
        value = np.floor(UNIT_NORM / np.sqrt(times)).astype(np.int64)
        return Entries(
            case,
            value,
            None,
            rows,
            rows + 1,
        )

    return values


NORMS_SHARE: Final = 0.03
"""The part of mu squared that finds the norm which most cases lie within."""

STRUCTURE_SHARE: Final = 0.1
"""The part of mu squared for tables of two attributes, where there are several."""

SELECTION_SHARE: Final = 0.2
"""The part of what both leave that finds values, where some attributes declare none."""

START_SHARE: Final = 0.3
"""Of what tables of values have, the part that they keep where a gradient step follows."""

_LEAST_SIGMA: Final = 1024.0

_BELOW: Final = 1 - 2e-12
"""So that rounding does not exceed mu in all."""


class ValueSelection(Frozen):
    """How values are found: ``sigma`` and ``least`` (the threshold), both in grid steps."""

    sigma: Annotated[Number, Field(gt=0)]
    least: Annotated[int, Field(ge=1)]


class AttributesHistogramParams(Frozen):
    """``attributes``: what is measured, in this order. ``norms_sigma``, ``sigma``,
    ``structure_sigma``: of the discrete Gaussian noise on the classes of norms, on the tables, and
    on those of two attributes (None: there are none), in grid steps, ``UNIT_NORM`` to a case.
    ``max_cases``: cases of a unit. ``replaced``: what moves the answers is not a unit more or less,
    but other values of one. ``selection``: for each attribute whose values are found.
    ``step_sigma``: of attributes/regression, on the gradient step that follows the tables.
    ``timed``: whether durations are measured, and released cases have times already.
    """

    attributes: tuple[MeasuredAttribute, ...]
    max_cases: Annotated[int, Field(ge=1)] = 1
    replaced: Annotated[bool, IF_SAID] = False
    norms_sigma: Annotated[Number, Field(gt=0)]
    sigma: Annotated[Number, Field(gt=0)]
    structure_sigma: Annotated[Number, Field(gt=0)] | None = None
    selection: Annotated[ValueSelection | None, IF_SAID] = None

    step_sigma: Annotated[Annotated[Number, Field(gt=0)] | None, IF_SAID] = None

    timed: Annotated[bool, IF_SAID] = False

    @property
    def values_sigma(self) -> float:
        """Noise that would tell as much of values as the tables and the step together."""
        if self.step_sigma is None:
            return self.sigma
        return 1 / math.hypot(1 / self.sigma, 1 / self.step_sigma)

    @property
    def finds(self) -> int:
        """Of how many attributes values are found."""
        return sum(attribute.found is not None for attribute in self.attributes)


def calibrated(
    attributes: Sequence[MeasuredAttribute],
    max_cases: int,
    part: PartOfGoal,
    start: float,
) -> AttributesHistogramParams:
    """Noise that tells no more than the ``mu`` of the part, in all, but for its ``delta`` (above 0)
    where values are found. ``start``: what tables of values keep of their part; below 1, a gradient
    step follows them.
    """

    def sigma_of(share: float, clip: Clip) -> float:
        """The least noise on an answer with this part of the budget."""
        mu = part.mu * math.sqrt(share)
        return _sigma(mu, replace(clip, replaced=part.replaced), max_cases)

    found = sum(attribute.found is not None for attribute in attributes)
    # The budget is in mu squared, which adds up over Gaussian answers; shares are parts of it.
    of_both = 1 - NORMS_SHARE - STRUCTURE_SHARE
    of_selection = of_both * SELECTION_SHARE if found else 0.0
    of_tables = of_both - of_selection
    selection = None
    if found:
        sigma = sigma_of(of_selection / found, CLIP)
        # Slightly less than its part, so that rounding does not exceed delta in all.
        least = least_sum(sigma, part.delta / found * (1 - 1e-9), max_cases)
        selection = ValueSelection(sigma=sigma, least=least)
    return AttributesHistogramParams(
        attributes=tuple(attributes),
        max_cases=max_cases,
        replaced=part.replaced,
        norms_sigma=sigma_of(NORMS_SHARE, WHOLE),
        sigma=sigma_of(of_tables * start * _BELOW, SPREAD),
        structure_sigma=sigma_of(STRUCTURE_SHARE, SPREAD),
        selection=selection,
        step_sigma=sigma_of(of_tables * (1 - start) * _BELOW, MOVED) if start < 1 else None,
    )


def answers_event(params: AttributesHistogramParams) -> PrivacyEvent:
    """The answers, in their order."""
    m = params.max_cases
    events: list[PrivacyEvent] = []

    def answer(sigma: float, clip: Clip) -> PrivacyEvent:
        clip = replace(clip, replaced=params.replaced)
        return Gaussian(sigma).events(clip, m, None)[0]

    if params.selection is not None:
        noise = Gaussian(params.selection.sigma)
        leak = selection_event(noise.selection_delta(params.selection.least, CLIP, m))
        events += [answer(params.selection.sigma, CLIP), leak] * params.finds
    events.append(answer(params.norms_sigma, WHOLE))
    events.append(answer(params.sigma, SPREAD))
    if params.step_sigma is not None:
        events.append(answer(params.step_sigma, MOVED))
    if params.structure_sigma is not None:
        events.append(answer(params.structure_sigma, SPREAD))
    return Composed(events=tuple(events))


def _sigma(
    mu: float,
    clip: Clip,
    max_cases: int,
) -> float:
    """The least noise on an answer of ``clip`` that tells no more than ``mu``."""
    event = Gaussian(_LEAST_SIGMA).events(clip, max_cases, None)[0]
    # The squared norm that the answer is charged for, in grid steps.
    times, sensitivity = gaussian_moves(event)
    moves = times * sensitivity * sensitivity
    # Rounded up by more than the root can err.
    return max(math.sqrt(moves) / mu * (1 + 1e-12), _LEAST_SIGMA)


FINER: Final = (300.0, 3000.0)
"""How many deviations of a count's noise a log's cases must be, for finer bins of numbers."""

USUAL_NORM: Final = 4.0
"""Where the noise hides all norms."""


class AttributesHistogram(MeetsNoGoal[AttributesHistogramParams]):
    """Count with noise which values each attribute has, by activity, and give the released cases
    values that are as frequent.

    One vector a case holds the tables of all attributes: per activity how many cases have a value,
    and which; for attributes of cases, one table each. It is clipped to a norm that a first noisy
    answer finds: one at which noise and clipping together distort least. An attribute that noise
    does not show to change within cases is drawn once a case; of others, as many values stay the
    same from event to event as noise lets show. A third answer, tables of two attributes, and of
    one beside the case's first and last activity, length and duration, says what goes together;
    where noise hides that, attributes are independent, and where it would hide all that there could
    be, the third answer is the first tables again. Where a policy says
    ``find_values``, the values of an attribute are found first: those that enough cases have.

    Values outside of the declared domain count as missing, numbers outside of the declared range as
    its ends. An empty log, one case, or attributes that are missing everywhere give counts of mere
    noise, which are not believed: values are missing, or evenly spread. It never aborts on data.
    """

    name: ClassVar[str] = "attributes/histogram"
    action: ClassVar[str] = "draw attributes with noise"
    serves_parts: ClassVar[bool] = True
    alone: ClassVar[str] = (
        "it gives attributes to cases that another mechanism makes, and makes none"
    )
    summary: ClassVar[str] = (
        "Gives released cases attributes, drawn from noisy counts of values per activity."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): the numbers of cases by class of "
        "norm move by at most m, and, for whatever norm they make one choose, the tables of all "
        "attributes together by at most m (L2), a case's vector having norm at most 1; so do, for "
        "whatever classes, the tables of pairs, in each of which a case has one cell, or, where "
        "noise would hide these, all tables again; and, for each attribute whose values are "
        "found, the sums that they are found by; given the control flow (bounded neighbours), "
        "other values of a unit move each by at most the root of 2 times that, since no number "
        "is negative. Discrete Gaussian noise on all of them composes adaptively; a value that "
        "one unit alone has is found with the charged delta at most; which tables are read "
        "follows from the released control flow, and what is drawn from them is "
        "post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Dong, Roth, Su 2022, corollary 3.3; "
        "Desfontaines et al. 2022, for values that are found; Kiefer and "
        "Wolfowitz 1956, for what counts are expected to be without their noise",
    )
    Params = AttributesHistogramParams
    start: ClassVar[float] = 1.0

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Mapping[str, JsonValue],
    ) -> Offer[AttributesHistogramParams] | Refusal:
        """Attributes whose domains or ranges are declared; ``delta`` is spent where values are
        found.
        """
        if options:
            return no_option(options)
        if not part.columns or {CONTROL_FLOW, TIMESTAMPS, METADATA} & set(part.columns):
            return Refusal("never", "it serves attributes alone")
        if facts.unit.attribute in part.columns:
            return Refusal(
                "misconfigured",
                f"'{facts.unit.attribute}' says who is protected: released cases are nobody's, and "
                "have no value of it; leave it out of the guarantee",
            )
        declared = {name: _declared(name, facts) for name in part.columns}
        missing = [name for name in part.columns if declared[name] is None]
        if missing:
            return Refusal(
                "needs",
                "which values an attribute may have must be public: its domain, or for numbers "
                "its range; else those that many cases have are found by find_values: true; what "
                "identifies people has none, and is left out of the guarantee",
                tuple(f"domain or range of '{name}' under spec.attributes" for name in missing),
            )
        measured = [attribute for attribute in declared.values() if attribute is not None]
        finds = [attribute.name for attribute in measured if attribute.found]
        if finds and part.replaced:
            return Refusal(
                "needs",
                "on a control flow that is taken as known, no values are found through noise",
                tuple(f"domain of '{name}' under spec.attributes" for name in finds),
            )
        if finds and part.delta <= 0:
            return Refusal("misconfigured", "to find values takes a delta above 0")
        params = calibrated(measured, facts.unit.max_cases, part, self.start)
        params = params.model_copy(update={"timed": TIMESTAMPS in part.beside})
        return Offer(params, _why(params))

    def step(self, params: AttributesHistogramParams, facts: Facts) -> EnrichStep:
        """Measures the attributes by activity, for the released control flow: noise on the classes
        of norms, on all tables together, on those of pairs, and on a gradient step where there is
        one. Durations are measured, too, where the goal covers times. Whose events they are is
        measured as well, unless it is taken as known.
        """
        names = frozenset(attribute.name for attribute in params.attributes)
        times = frozenset({TIMESTAMPS} if params.timed else ())
        return EnrichStep(
            lineage=Lineage(
                measures=names | times | (frozenset() if params.replaced else {CONTROL_FLOW}),
                reads=frozenset({CONTROL_FLOW}) | times,
                writes=names,
                enriches=True,
            ),
            event=answers_event(params),
            enrich=partial(self.enrich, params),
            in_parts=True,
        )

    def enrich(
        self,
        params: AttributesHistogramParams,
        kernel: Kernel,
        cases: Cases,
    ) -> Enrichment:
        """Find a norm, count all tables, then those of pairs, and draw from them."""
        randomness = kernel.randomness
        # First what the layout depends on: found values, the norm, and how fine bins may be.
        attributes = params.attributes
        if params.selection is not None:
            sigma = params.selection.sigma
            least = params.selection.least
            attributes = tuple(find_values(each, kernel, sigma, least) for each in attributes)
        layout = TableLayout(attributes, cases.alphabet)
        norm, count = _find_norm(params, kernel, layout)
        # Bins are as fine as so many cases allow.
        deviation = params.values_sigma * (norm / UNIT_NORM)
        layout = layout.finer(sum(count >= times * deviation for times in FINER))
        attributes = layout.attributes
        # What noise would hide is not asked; the same noise tells more of the values.
        spare = params.structure_sigma
        beside, pairs = None, 0
        if spare is not None:
            beside, pairs = _asked_of_pairs(params, cases, count)
        again = None if pairs else spare
        tables, values = _measured_values(
            params,
            kernel,
            layout,
            norm,
            again,
            cases,
        )
        # Each attribute by itself; then those exchange values that belong together.
        drawn = []
        found = []
        for attribute, (counted, shares) in zip(attributes, values, strict=True):
            drawn.append(draw_values(shares, _groups(attribute, cases), randomness))
            found.append((counted.kept, shares))
        classes, edges = None, list[Edge]()
        if spare is not None and pairs:
            # Classes go by how often each value was drawn.
            by_class = []
            for attribute, rows in zip(attributes, drawn, strict=True):
                known = rows.codes[rows.codes >= 0]
                times = np.bincount(known, minlength=attribute.size).astype(np.float64)
                by_class.append(class_table(attribute, times))
            classes = Classes(attributes, tuple(by_class), beside)
            edges = _find_forest(spare, kernel, classes)

        def finished(drawn: list[Drawn], cases: Cases, randomness: Randomness) -> ColumnValues:
            if classes is not None:
                drawn = with_pairs(drawn, edges, classes, cases, randomness)
            # Last, values within cases: the first one of a case stays, so pairs are not undone.
            columns: dict[str, Listed | Numbers | Times] = {}
            for place, attribute in enumerate(attributes):
                rows = drawn[place]
                if not attribute.is_of_cases:
                    kept, followed = found[place][0], tables.transitions(place)
                    rows = _kept_within_cases(rows, kept, followed, cases, randomness)
                # A copied value takes the chance of its origin, so that the same number comes out.
                chance = randomness.uniform(np.full(len(rows.codes), UNIT))
                columns[attribute.name] = attribute.released(rows.codes, chance[rows.origin])
            return columns

        def of_part(part: Cases, randomness: Randomness) -> ColumnValues:
            drawn = [
                draw_values(shares, _groups(attribute, part), randomness)
                for attribute, (_, shares) in zip(attributes, found, strict=True)
            ]
            return finished(drawn, part, randomness)

        figures: dict[str, JsonValue] = {"norm of a case": norm, "pairs of attributes": len(edges)}
        return Enrichment(finished(drawn, cases, randomness), figures, of_part)


def _groups(attribute: MeasuredAttribute, cases: Cases) -> Ints:
    """By what values are drawn: the activity of each event; nothing, of an attribute of cases."""
    return np.zeros(len(cases), np.int64) if attribute.is_of_cases else cases.codes


def _why(params: AttributesHistogramParams) -> str:
    drawn = "draws attributes from noisy counts of their values per activity"
    if params.step_sigma is not None:
        drawn += ", corrected by a gradient step under noise"
    if not all(each.is_of_cases for each in params.attributes):
        drawn += "; one that noise does not show to change within cases is drawn once a case"
    if params.selection is None:
        return drawn
    least = max(1, round(params.selection.least / UNIT_NORM))
    names = ", ".join(each.name for each in params.attributes if each.found is not None)
    return f"{drawn}; of {names}, values that about {least:,} cases have are found through noise"


def _declared(name: str, facts: Facts) -> MeasuredAttribute | None:
    """The attribute, as far as it is declared, or its values are to be found."""
    if name in facts.domains:
        # None is to have no value, which every attribute may.
        domain = tuple(value for value in facts.domains[name] if value is not None)
        return MeasuredAttribute(name=name, domain=domain)
    if name in facts.found:
        return MeasuredAttribute(name=name, found=facts.found[name])
    if name in facts.ranges:
        type_ = facts.types.get(name, "number")
        return MeasuredAttribute(name=name, range=facts.ranges[name], type=type_)
    return None


def _find_norm(
    params: AttributesHistogramParams,
    kernel: Kernel,
    layout: TableLayout,
) -> tuple[float, float]:
    """The norm that cases are clipped to: where less would distort more than it saves noise; and
    how many cases there are about, those that noise hides left out.
    """
    table = Table("lengths of vectors of values")
    answer = kernel.sum(norms_of(layout), Gaussian(params.norms_sigma), WHOLE, table=table)
    noisy = answer.at(np.arange(NORMS)).astype(np.float64)
    # Classes that do not stand out of the noise hold no case to go by.
    believed = np.where(noisy > STANDS_OUT * params.norms_sigma, noisy, 0.0) / UNIT_NORM
    cases = float(believed.sum())
    if not cases:
        return USUAL_NORM, 0.0
    # A class's norms, by the middle of its bounds in the logarithm.
    inside = 2.0 ** ((np.arange(NORMS) - 0.5) / 2)
    return best_norm(inside, believed, params.sigma / UNIT_NORM), cases


def _measured_values(
    params: AttributesHistogramParams,
    kernel: Kernel,
    layout: TableLayout,
    norm: float,
    again: float | None,
    cases: Cases,
) -> tuple[NoisyTables, Iterator[tuple[Counted, ValueShares]]]:
    """The tables, and what is counted of each attribute, as it is and with the noise taken out: by
    tables alone, or by gradient steps from them. ``again``: noise that nothing else is asked with,
    if any.
    """
    sigmas = [params.sigma]
    steps = []
    if params.step_sigma is not None:
        steps.append(params.step_sigma)
    # Noise that is spare goes to the tables again, or to another step where steps are taken. Where
    # values are others, a step is charged for more than tables are, for which the spare noise is.
    if again is not None:
        (sigmas if params.step_sigma is None or params.replaced else steps).append(again)
    query = tables_of(layout, norm)
    # In cases, whatever norm was chosen.
    table = Table(VALUES_TABLE, layout.spelled, partial(layout.ones, norm=norm))
    answers = [(kernel.sum(query, Gaussian(sigma), SPREAD, table=table), sigma) for sigma in sigmas]
    tables = NoisyTables(layout, answers, norm / UNIT_NORM)
    places = range(len(layout.attributes))
    # A group passes on to those behind it as many of its values as are kept.
    labels = len(cases.alphabet)
    later = np.flatnonzero(cases.place > 0)
    pairs = cases.codes[later] * labels + cases.codes[later - 1]
    follows = np.bincount(pairs, minlength=labels * labels).reshape(labels, labels)
    events = np.bincount(cases.codes, minlength=labels)
    before = follows / np.maximum(events, 1)[:, None]

    def values_of(counted: Iterable[Counted]) -> Iterator[tuple[Counted, ValueShares]]:
        for each, attribute in zip(counted, layout.attributes, strict=True):
            passed_on = np.zeros((1, 1)) if attribute.is_of_cases else each.kept * before
            yield each, fitted(each, passed_on)

    # One after another, since an answer's noise is drawn when it is read.
    counted: Iterable[Counted] = map(tables.counted, places)
    # Each step starts from what all answers before it say.
    for sigma in steps:
        known = list(counted)
        shares = [each for _, each in values_of(known)]
        start = GradientStep.starting_at(shares, tables, cases, sigma)
        counted = start.taken(kernel, known, sigma)
    return tables, values_of(counted)


def _asked_of_pairs(
    params: AttributesHistogramParams,
    cases: Cases,
    count: float,
) -> tuple[CaseClasses | None, int]:
    """What else released cases have that attributes may go with, and how many pairs are asked for:
    those of attributes alone where more would drown, and none where these would, too.
    """
    sigma = (params.structure_sigma or math.inf) / UNIT_NORM
    attributes = len(params.attributes)
    alone = attributes * (attributes - 1) // 2
    pairs = alone + attributes * (3 + params.timed)
    if may_stand_out(pairs, count, sigma):
        return CaseClasses.of_released(cases, timed=params.timed), pairs
    return None, alone * may_stand_out(alone, count, sigma)


def _find_forest(
    sigma: float,
    kernel: Kernel,
    classes: Classes,
) -> list[Edge]:
    pairs = classes.pairs()
    # More pairs than can be counted well: a random choice, which reads nothing of the log.
    if len(pairs) > MOST_PAIRS:
        chosen = kernel.randomness.permutation(len(pairs))[:MOST_PAIRS]
        pairs = [pairs[place] for place in chosen.tolist()]
    table = Table("pairs of classes of values")
    answer = kernel.sum(pairs_of(classes, pairs), Gaussian(sigma), SPREAD, table=table)
    # A case weighs one over the root of the number of tables in each.
    step = np.sqrt(len(pairs)) / UNIT_NORM
    noisy = answer.at(np.arange(len(pairs) * CLASSES**2)) * step
    tables = noisy.reshape(len(pairs), CLASSES, CLASSES)
    return forest(pairs, tables, sigma * step, len(classes.attributes))


def _kept_within_cases(
    drawn: Drawn,
    kept: float,
    transitions: Floats | None,
    cases: Cases,
    randomness: Randomness,
) -> Drawn:
    """Values of which as many are the one before, or follow it, as the tables say."""
    if kept == 1:
        return with_copies(drawn, cases)
    if transitions is not None:
        return with_transitions(drawn, transitions, cases, randomness)
    # How often two values are the same that do not know of each other.
    known = drawn.codes[drawn.codes >= 0]
    if not len(known):
        return drawn
    shares = np.bincount(known) / len(known)
    by_chance = float((shares**2).sum())
    if kept <= by_chance:
        return drawn
    # Copies make up what chance leaves: kept = rate + (1 - rate) by_chance.
    rate = (kept - by_chance) / (1 - by_chance)
    return with_repeats(
        drawn,
        cases,
        cases.codes,
        rate,
        randomness,
    )


class AttributesRegression(AttributesHistogram):
    """As attributes/histogram, with most of its tables' budget for a gradient step from them.

    Tables of all attributes are counted with a smaller part of the budget. They are a multinomial
    logistic regression of values on activities; a gradient step follows from there
    (``GradientStep``), under noise of its own: at each value how often each case has it, less how
    often the tables expect it. That vector is shorter than what the case adds to the tables, and so
    is the norm that it is clipped to. Both answers are averaged, weighted by how precise they are.
    Where noise would hide all tables of two attributes, a second step takes their place.

    **Sensitivity.** Tables as there. The gradient of a case is divided by a norm that follows from
    earlier answers and the released control flow, and clipped by the kernel to norm 1 (L2), so a
    unit of m cases moves a step by at most m, whatever the tables expect.

    **Edge cases.** As of attributes/histogram. Where tables are mere noise, the step counts values
    as they do, and the release is that of the tables.
    """

    name: ClassVar[str] = "attributes/regression"
    action: ClassVar[str] = "draw attributes with noise, corrected by a gradient step"
    summary: ClassVar[str] = (
        "Gives released cases attributes, drawn from noisy counts of values per activity that a "
        "gradient step under noise corrects."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): as attributes/histogram, the numbers "
        "of cases by class of norm, the tables of all attributes, those of two attributes and the "
        "sums that values are found by move by at most m; so does each gradient step, whatever "
        "earlier answers it starts at: a sum of vectors of cases, each clipped to norm 1 (L2) "
        "in whole grid steps; given the control flow (bounded neighbours), other values of a "
        "unit move a step by twice that at most. Discrete Gaussian noise on all of them "
        "composes adaptively; a value that one unit alone has is found with the charged delta "
        "at most; what is drawn from counts and steps is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Dong, Roth, Su 2022, corollary 3.3; Abadi et "
        "al. 2016, for gradient steps; Desfontaines et al. 2022, for values that are found",
    )
    start: ClassVar[float] = START_SHARE
