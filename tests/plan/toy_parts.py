"""Made-up mechanisms that serve parts of a joint goal: noisy means, written to every row."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, JsonValue

from cloakwork.base.costs import Composed, EpsilonDelta, PrivacyEvent
from cloakwork.base.exact import drawn_sigma
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.guarantees import Guarantee
from cloakwork.kernel import Cases, Clip, Entries, Gaussian, Kernel
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, PartOfGoal, Proof, Refusal, Theorem
from cloakwork.mechanisms.registry import OURS, catalogue
from cloakwork.mechanisms.steps import Enrichment, EnrichStep, Listed, Times
from cloakwork.plan.model import Catalogue

NORM = 2**13
CLIP = Clip("l2", NORM, 4)
KEYS = 4


class PartParams(BaseModel):
    """``sigma``: in grid steps, ``NORM`` to a case; ``delta``: what a threshold may spend."""

    columns: tuple[str, ...]
    sigma: float
    delta: float = 0.0
    domains: dict[str, tuple[JsonValue, ...]] = {}


class ToyTimes(Mechanism[PartParams]):
    """All events take place when a noisy count says."""

    name: ClassVar[str] = "toy/times"
    summary: ClassVar[str] = "Times from a noisy count."
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem("is private", "nobody")
    serves_parts: ClassVar[bool] = True
    Params = PartParams
    reads: ClassVar[frozenset[str]] = frozenset({CONTROL_FLOW})
    spends_delta: ClassVar[bool] = False

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PartParams] | Refusal:
        """It serves parts alone."""
        return Refusal("never", "it serves parts of a goal alone")

    def serves(self, columns: tuple[str, ...]) -> bool:
        """Whether these are its columns."""
        return columns == (TIMESTAMPS,)

    def offer_part(
        self, part: PartOfGoal, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PartParams] | Refusal:
        """Noise on one vector."""
        if not self.serves(part.columns):
            return Refusal("never", "it writes other columns")
        if options.get("broken"):
            return Refusal("misconfigured", "option broken: it is")
        declared = {**facts.ranges, **facts.domains}
        missing = [name for name in part.columns if name != TIMESTAMPS and name not in declared]
        if missing:
            needed = tuple(f"attributes['{name}'].domain" for name in missing)
            return Refusal("needs", "values come from a declared domain", needed)
        params = PartParams(
            columns=part.columns,
            sigma=drawn_sigma(facts.unit.max_cases * NORM / part.mu),
            delta=part.delta if self.spends_delta else 0.0,
            domains={name: declared[name] for name in part.columns if name in declared},
        )
        return Offer(params, f"measures {len(part.columns):,} columns")

    def event(self, params: PartParams, facts: Facts) -> PrivacyEvent:
        """One vector, and a threshold."""
        (noise, *_) = Gaussian(params.sigma).events(CLIP, facts.unit.max_cases, KEYS)
        if not params.delta:
            return noise
        return Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=params.delta)))

    def step(self, params: PartParams, facts: Facts) -> EnrichStep:
        """Measures the source, reads what is released, writes its columns."""
        return EnrichStep(
            lineage=Lineage(
                measures=frozenset({CONTROL_FLOW, *params.columns}),
                reads=self.reads,
                writes=frozenset(params.columns),
                enriches=True,
            ),
            event=self.event(params, facts),
            enrich=partial(self.enrich, params),
        )

    def enrich(self, params: PartParams, kernel: Kernel, cases: Cases) -> Enrichment:
        """The same for every row."""
        sums = kernel.sum(_spread, Gaussian(params.sigma), CLIP, keys=KEYS).at(np.arange(KEYS))
        found: dict[str, Any] = {}
        for name in params.columns:
            size = len(cases) if name.startswith("case:") else len(cases.codes)
            if name == TIMESTAMPS:
                found[name] = Times(cases.place * 3_600_000_000 * max(1, int(sums[0] // NORM)))
            else:
                domain = params.domains[name]
                found[name] = Listed(np.arange(size) % len(domain), domain)
        return Enrichment(found)


def _spread(cases: Cases) -> Entries:
    """One event, one entry."""
    events = np.arange(len(cases.codes))
    return Entries(cases.case_of, np.full(len(events), NORM), cases.place % KEYS)


class ToyAttributes(ToyTimes):
    """All values of a domain, in turn."""

    name: ClassVar[str] = "toy/attributes"
    gives: ClassVar[tuple[Gives, ...]] = ()

    def serves(self, columns: tuple[str, ...]) -> bool:
        """Any attributes."""
        return not {CONTROL_FLOW, TIMESTAMPS} & set(columns)


SERVE_PARTS = (
    "timestamps/histogram",
    "timestamps/regression",
    "attributes/histogram",
    "attributes/regression",
)
"""Ours that serve times, or attributes, as a part of a goal."""


def with_toys(*toys: Any) -> Catalogue:
    """Ours that serve no such part, and ``toys``; by default both."""
    ours = {name: catalogue()[name] for name in catalogue() if name in OURS.keys() - SERVE_PARTS}
    return ours | {toy.name: toy for toy in toys or (ToyTimes(), ToyAttributes())}
