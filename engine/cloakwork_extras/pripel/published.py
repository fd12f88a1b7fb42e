"""PRIPEL as published: the noisy prefix tree makes cases, each is matched with one of the log, and
takes its times and values over, each through noise of its own.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, JsonValue, ValidationError

from cloakwork.base.costs import NonPrivate
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.kernel import Cases, Kernel, Measured
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal, Theorem, option_fault
from cloakwork.mechanisms.steps import Listed, Measurement, MeasureStep, Numbers, Times
from cloakwork_extras.pripel.local_as_published import (
    times_as_published,
    values_as_published,
)
from cloakwork_extras.pripel.matching import DistinctCases, matched_cases, matched_events
from cloakwork_extras.trees.prefix_tree import DEFAULT_LENGTH
from cloakwork_extras.trees.published import (
    PublishedTreeOptions,
    PublishedTreeParams,
    grow_as_published,
)
from cloakwork_extras.trees.raw_rules import RawVariants


class PripelPublishedParams(PublishedTreeParams):
    """``columns``: what is released beside the control flow, by the names of a lineage; of these,
    ``numbers`` have a declared range. The rest as of the published prefix tree; ``published`` is
    also the epsilon of each value.
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    numbers: tuple[str, ...] = ()


class PripelPublished(Mechanism[PripelPublishedParams]):
    """Make cases by the published prefix tree; match each with a case of the log, of the same
    sequence or else of one at the least edit distance; take its values over, each through local
    noise of the full epsilon.

    Numbers (of a declared range), and times as the gap before an event and the start of a case:
    Laplace noise of range over epsilon, inside the range (Holohan et al. 2020), which is the log's
    own: that of an attribute, of the gaps that lead to an activity, of all starts. Truth values:
    randomised response. Others: the exponential mechanism, by which a value is worth 1 in its own
    place and 0 elsewhere, over the values that the log has. A value that is missing stays so.
    Events without a counterpart in the matched case take the values of any event of their activity,
    cases that are left over those of any case.

    **Edge cases.** An empty log has no activities: nothing is released. No times at all: all events
    take place in 1970.
    """

    name: ClassVar[str] = "variants/pripel-published"
    action: ClassVar[str] = "draw activity sequences with noise"
    summary: ClassVar[str] = "Whole logs as PRIPEL was published; it is NOT differentially private."
    proof: ClassVar[Proof] = "published"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("differential-privacy"),)
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon-DP of the event log: an epsilon-DP query of variants, and epsilon-local "
        "DP of all contextual information.",
        "Fahrenkrog-Petersen, van der Aa, Weidlich 2020 (PRIPEL), BPM, section 4; its "
        "query: Mannhardt et al. 2019, algorithm 1",
    )
    Params = PripelPublishedParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PripelPublishedParams] | Refusal:
        """Accept differential privacy over the control flow together with other columns, for whole
        units.
        """
        if not isinstance(goal, DifferentialPrivacy) or not goal.hides_presence():
            return Refusal(
                "never", f"it claims differential privacy of whole logs, not {goal.kind}"
            )
        columns = tuple(sorted({*goal.over} - {CONTROL_FLOW, METADATA}))
        if CONTROL_FLOW not in goal.over or not columns:
            return Refusal("never", "it releases the control flow together with other columns")
        try:
            chosen = PublishedTreeOptions.model_validate(options)
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))
        params = PripelPublishedParams(
            published=goal.epsilon,
            length=chosen.length or facts.longest_case or DEFAULT_LENGTH,
            threshold=chosen.threshold,
            prefixes=chosen.prefixes,
            columns=columns,
            numbers=tuple(name for name in columns if facts.numeric_range(name)),
        )
        return Offer(
            params,
            "takes times and values of matched real cases over as published, which claims epsilon "
            f"{goal.epsilon:g}",
        )

    def step(self, params: PripelPublishedParams, facts: Facts) -> MeasureStep:
        """Reads everything as it is; no epsilon bounds it."""
        columns = frozenset({CONTROL_FLOW, METADATA, *params.columns})
        flaw = (
            "which real case is matched, which values are missing, and the activities, "
            "values and ranges that there are, are read off the log; of a case, each value costs "
            f"epsilon {params.published:g} by itself, and each event (of "
            f"{params.length:,} at most) in the tree {params.published + math.log(2):.4g}"
        )
        return MeasureStep(
            lineage=Lineage(reads=columns, writes=columns, generates=True),
            event=NonPrivate(reason=flaw),
            measure=partial(self.measure, params),
        )

    def measure(self, params: PripelPublishedParams, kernel: Kernel) -> Measurement:
        """Grow the tree, match its cases, and take values over."""
        random, epsilon = kernel.randomness, params.published
        raw = kernel.raw().cases
        source = raw.within(tuple(sorted(raw.alphabet)))
        found = grow_as_published(RawVariants.of(_histogram(source)), params, random)
        made = Cases.of(found.variants, source.alphabet)
        made = made.take(np.repeat(np.arange(len(made)), found.cases))
        matched = matched_cases(made, source, random)
        event = matched_events(made, source, matched, random)
        # Whoever is left over takes the start and the values of any case.
        anyone = random.uniform(np.full(len(made), max(1, len(source)), np.int64))
        case = np.where(matched >= 0, matched, anyone)
        figures: dict[str, JsonValue] = {
            "cases matched with one of the log": int((matched >= 0).sum()),
            "cases left over": int((matched < 0).sum()),
        }

        def values(name: str) -> Listed | Numbers | Times:
            if name == TIMESTAMPS:
                return times_as_published(source, made, case, event, epsilon, random)
            rows, column = case if name.startswith(CASE_PREFIX) else event, source.columns[name]
            is_number = name in params.numbers
            return values_as_published(column, rows, epsilon, random, is_number=is_number)

        columns = {name: values(name) for name in params.columns}
        return Measurement(found.variants, found.cases, figures, columns)


def _histogram(cases: Cases) -> Measured:
    """The distinct sequences alone, and how many cases follow each."""
    distinct = DistinctCases.of(cases)
    sequences = Cases(cases.alphabet, cases.codes, cases.offsets)
    return Measured(sequences.take(distinct.first), distinct.counts)
