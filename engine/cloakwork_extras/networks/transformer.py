"""Frequent variants as they are; the other cases as a Markov chain with a memory describes them: a
small network that reads all of the prefix.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from cloakwork.base.costs import Composed, Cost, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel
from cloakwork.mechanisms.base import Offer, Options, PartOfGoal, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.markov import (
    SELECTION_SHARE,
    MarkovParams,
    VariantMarkov,
    measure_with,
)
from cloakwork_extras.networks.params import (
    MOST_LABELS,
    TransformerParams,
    Width,
    layer_sizes,
)
from cloakwork_extras.networks.steps import (
    TrainsNetwork,
    multiplier_for,
    multiplier_of_mu,
    steps_event,
    weights_of,
)

SHARE: Final = 0.3
"""The part of the budget (of 1/sigma**2) that trains the network."""

TIMES: Final = 20
"""Gradient steps, each on all cases: with noise for so many of them, more steps learn no more."""

LEARNING: Final = 0.18
"""How far a step changes what the last layer adds to the logarithm of a share, for an input of 1.
"""

PLACES: Final = 64
"""Places of a case that the network learns from, at most."""

ATTENTION: Final = 8
"""Numbers a place in attention, by default."""

WEAK: Final = 100.0
"""Declared units times what one moves the network's noise by, in deviations, under which
steps are half as long: what is learned would be noise.

These constants were chosen on synthetic logs alone (``benchmarks/variants/synthetic.py``).
"""

UNITS: Final = 1000
"""Units that are assumed where the policy does not declare how many there are."""

MOST_UNITS: Final = 100_000
"""Units in a step, about: of more, each step takes a sample."""

Share = Annotated[float, Field(ge=0.01, le=0.9, allow_inf_nan=False)]


class TransformerOptions(BaseModel):
    """``share``: the part of the budget that trains the network. ``steps``: how many; ``learning``:
    how far each goes. ``width``: numbers a place in attention, even; 0: none of it. ``places``:
    events of a case that are learned from.
    """

    model_config = {"extra": "forbid", "frozen": True}

    share: Share = SHARE
    steps: Annotated[int, Field(ge=1, le=100_000)] = TIMES
    learning: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    width: Width = ATTENTION
    places: Annotated[int, Field(ge=1, le=4096)] = PLACES


@frozen
class Schedule:
    """What follows from what is declared: ``width`` of attention, ``learning`` of a step, ``rate``
    of the samples.
    """

    width: int
    learning: float
    rate: float

    @classmethod
    def of(
        cls,
        options: TransformerOptions,
        units: int | None,
        mu: float,
    ) -> "Schedule":
        """By the declared number of units, or ``UNITS``, and by what one of them moves the
        network's noise by, in deviations (``mu``); by ``options`` where they say so.
        """
        known = units or UNITS
        learning = LEARNING / 2 if known * mu < WEAK else LEARNING
        return cls(
            options.width,
            learning if options.learning is None else options.learning,
            min(1.0, MOST_UNITS / known),
        )


ROUNDED: Final = 1 + 1e-6
"""More noise by so much makes up for norms that are rounded up, cell by cell."""


SECONDS_A_STEP: Final = 0.01
SECONDS_A_PLACE: Final = 3e-7
SECONDS_A_WEIGHT: Final = 6e-9
"""What a step takes on one core of a usual machine: by itself, and for each place of a case, and
each weight at it. Measured on a busy one (cases of 13 and 23 events, 240 to 1,092 weights), within
a factor of two.
"""


class VariantTransformer(TrainsNetwork, VariantRelease[TransformerParams]):
    """Release frequent variants by threshold, and draw the other cases from a Markov chain whose
    steps a network takes more or less often, by all that came before.

    The noisy tables are those of ``variants/markov``, at what the network leaves of the budget. The
    network reads which activities have occurred, how many events there were and, where that can be
    learned, what causal attention makes of the prefix. It is trained on the remaining cases by
    gradient steps with noise, each case clipped as one, to predict the next activity or the end; it
    begins where the tables are, and what it learns changes only steps that they allow. Cases are
    drawn as ``variants/markov`` draws them: as many of each group of lengths as were counted, and
    such that their steps show what was measured.

    An empty log gives an empty release or one of a few cases made of noise; one case, or variants
    that are all unique, are drowned by noise; with a single activity the network has nothing but
    the length to learn; of a case longer than ``places`` it learns the beginning. It never aborts
    on data.
    """

    name: ClassVar[str] = "variants/transformer"
    options: ClassVar[Mapping[str, str]] = {
        "share": "the part of the budget that trains the network; the tables of variants/markov "
        "get the rest (0.3)",
        "steps": "how many gradient steps (20)",
        "learning": "how far a step goes (0.18, or half of it where the signal is weak)",
        "width": "numbers a place in attention, even; 0 for none of it (8)",
        "places": "how many events of a case are learned from (64)",
    }
    serves_parts: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Releases frequent variants, and draws the other cases from a Markov model with a network's"
        " memory (experimental)."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): variants/markov at a part of the "
        "budget; then, given its answers, gradient steps over the cases that follow no frequent "
        "variant, each on a Poisson sample of the units: one unit moves the sum of a step by at "
        "most m times the clip (L2), a case's gradient being clipped over all layers and steps of "
        "the case at once, under discrete Gaussian noise of so many times that (gradients of a "
        "case by itself are computed in floating point; clipping, sums and noise are integers). "
        "Both compose adaptively; what the optimiser, the draws and the correction of the chain "
        "make of the answers is post-processing.",
        "variants/markov for its own; Abadi et al. 2016 (DP-SGD), on integers; Canonne, Kamath, "
        "Steinke 2020, theorem 14; Dong, Roth, Su 2022, corollary 3.3",
    )
    Params = TransformerParams
    needs_delta: ClassVar[bool] = True

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[TransformerParams] | Refusal:
        """The tables at their part of the budget, and the least noise on the gradient steps that
        the accountant allows beside them.
        """
        from cloakwork.accounting.leaf_events import mu_of_cost

        target = Cost(epsilon=goal.epsilon, delta=goal.delta)
        chosen = TransformerOptions.model_validate(options)
        # What thresholds leave of delta turns epsilon into mu, which tables and network share.
        mu = mu_of_cost(goal.epsilon, goal.delta * (1 - SELECTION_SHARE))
        schedule = _schedule(mu, facts, chosen)
        try:
            tables = _tables(mu, goal.delta * SELECTION_SHARE, facts, chosen)
            multiplier = multiplier_for(
                chosen.steps,
                schedule.rate,
                weights_of(layer_sizes(_labels(facts), schedule.width)),
                facts.unit.max_cases,
                target,
                VariantMarkov().event(tables, facts),
            )
        except MechanismError as error:
            return Refusal("misconfigured", str(error))
        return _offered(target, tables, multiplier, facts, chosen, schedule)

    def meet_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[TransformerParams] | Refusal:
        """Tables and gradient steps that a unit moves by ``mu`` deviations altogether, and
        thresholds that spend ``delta``; each step is on everybody.
        """
        from cloakwork.accounting.leaf_events import epsilon_of_normal

        chosen = TransformerOptions.model_validate(options)
        # On everybody, since steps on samples are not composed with other columns by mu.
        schedule = replace(_schedule(part.mu, facts, chosen), rate=1.0)
        multiplier = multiplier_of_mu(chosen.steps, part.mu * math.sqrt(chosen.share)) * ROUNDED
        in_all = part.delta / SELECTION_SHARE
        target = Cost(epsilon=epsilon_of_normal(part.mu, in_all - part.delta), delta=in_all)
        try:
            tables = _tables(part.mu, part.delta, facts, chosen)
            offer = _offered(target, tables, multiplier, facts, chosen, schedule)
            self.event(offer.params, facts)
        except MechanismError as error:
            return Refusal("misconfigured", str(error))
        return offer

    def event(self, params: TransformerParams, facts: Facts) -> PrivacyEvent:
        """The tables, and the gradient steps."""
        trained = steps_event(
            params.steps,
            params.rate,
            params.multiplier,
            params.size,
            params.max_cases,
        )
        return Composed(events=(VariantMarkov().event(params.markov, facts), trained))

    def lineage(self, params: TransformerParams) -> Lineage:
        """Measures which unit follows which variants; every case of the release is made from the
        noisy answers.
        """
        owner = frozenset() if params.unit is None else frozenset({params.unit})
        return Lineage(
            measures=frozenset({CONTROL_FLOW}) | owner,
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def training_seconds(
        self, params: TransformerParams, facts: Facts, device: Literal["cpu", "cuda"]
    ) -> float | None:
        """About how long training takes, if nearly all of the declared units' cases follow no
        frequent variant.
        """
        del device  # The steps are too small for a graphics card to make a difference.
        units = facts.units_at_most or UNITS
        cases = units * params.max_cases * params.rate
        places = min(params.places, params.markov.longest + 1)
        a_place = SECONDS_A_PLACE + params.size * SECONDS_A_WEIGHT
        return params.steps * (SECONDS_A_STEP + cases * places * a_place)

    def measure(self, params: TransformerParams, kernel: Kernel) -> Measurement:
        """Measure what ``variants/markov`` measures, train on the remaining cases, and draw."""
        from cloakwork_extras.networks.prefix_network import learned_factors

        return measure_with(
            params.markov,
            kernel,
            lambda remaining: learned_factors(params, remaining),
        )


def _labels(facts: Facts) -> int:
    if facts.alphabet is None:
        return MOST_LABELS
    return max(1, min(len(set(facts.alphabet)), MOST_LABELS))


def _schedule(mu: float, facts: Facts, chosen: TransformerOptions) -> Schedule:
    """For noise on everything that a unit moves by ``mu`` deviations."""
    return Schedule.of(chosen, facts.units_at_most, mu * math.sqrt(chosen.share))


def _tables(
    mu: float,
    delta: float,
    facts: Facts,
    chosen: TransformerOptions,
) -> MarkovParams:
    """Those of ``variants/markov`` at what the network leaves of ``mu``."""
    # It is mu squared that is shared out, so a part of mu is by the root.
    left = mu * math.sqrt(1 - chosen.share)
    offer = VariantMarkov().offer_part(PartOfGoal((CONTROL_FLOW,), left, delta), facts, {})
    if isinstance(offer, Refusal):
        raise MechanismError(VariantTransformer.name, offer.reason)
    return offer.params


def _offered(
    target: Cost,
    tables: MarkovParams,
    multiplier: float,
    facts: Facts,
    chosen: TransformerOptions,
    schedule: Schedule,
) -> Offer[TransformerParams]:
    params = TransformerParams(
        epsilon=target.epsilon,
        delta=target.delta,
        unit=facts.unit.attribute,
        max_cases=facts.unit.max_cases,
        markov=tables,
        steps=chosen.steps,
        rate=schedule.rate,
        multiplier=multiplier,
        learning=schedule.learning,
        labels=_labels(facts),
        width=schedule.width,
        places=chosen.places,
    )
    why = "keeps frequent variants, and draws the other cases from a noisy model with a memory"
    return Offer(params, why)
