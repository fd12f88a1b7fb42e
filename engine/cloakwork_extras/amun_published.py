"""Amun as published: duplicate cases until every edge of an automaton of the log carries its
noise.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.base.costs import guessing_advantage
from cloakwork.base.facts import Facts
from cloakwork.base.progress import say
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel
from cloakwork.mechanisms.base import Offer, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.family import NoOptions
from cloakwork_extras.dafsa import build_dafsa, draw_duplicates
from cloakwork_extras.published import PublishedRelease


class AmunPublishedParams(Frozen):
    """``published``: the epsilon that the paper claims for ``advantage``; noise of scale
    1/published on each edge.
    """

    advantage: Annotated[Number, Field(gt=0, lt=1)]
    published: Annotated[Number, Field(gt=0)]


class VariantAmunPublished(PublishedRelease[AmunPublishedParams]):
    """Put one-sided noise on every edge of the log's automaton, by duplicating random cases that
    pass it.

    Every true variant stays, with at least its true count; no variant is ever added. The paper's
    noise on timestamps, with an epsilon for each event taken from the data, is not part of this
    mechanism, which releases the control flow alone.
    """

    name: ClassVar[str] = "variants/amun-published"
    summary: ClassVar[str] = (
        "Duplicates cases as Amun was published; it is NOT differentially private."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: a guessing advantage g by noise |Laplace(1/epsilon)| on each DAFSA edge, epsilon "
        "= 2 ln((1+g)/(1-g)).",
        "Elkoumy, Pankova, Dumas 2022 (Amun), ACM Transactions on Management Information Systems",
    )
    Params = AmunPublishedParams
    flaw: ClassVar[str] = (
        "every variant of the source is released with at least its count: a unique variant shows "
        "that its owner is in the log"
    )

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[AmunPublishedParams]:
        """The noise that the paper gives for this epsilon."""
        NoOptions.model_validate(options)
        params = AmunPublishedParams(
            advantage=guessing_advantage(goal.epsilon), published=goal.epsilon
        )
        return Offer(
            params,
            f"duplicates cases; published as epsilon {goal.epsilon:g} "
            f"(guessing advantage {params.advantage:.3g}), which does not hold: {self.flaw}",
        )

    def measure(self, params: AmunPublishedParams, kernel: Kernel) -> Measurement:
        """Noise on the edges, and cases duplicated for it."""
        variants, cases = kernel.raw().by_variant()
        say(f"building the automaton of {len(variants):,} variants")
        automaton = build_dafsa(variants)
        edges = len(automaton.variants_of)
        noise = kernel.randomness
        required = np.abs(noise.laplace_values(1 / params.published, edges))
        added = draw_duplicates(automaton, required, noise)
        figures: dict[str, JsonValue] = {
            "edges of the automaton": edges,
            "cases duplicated": int(added.sum()),
        }
        return Measurement(variants, cases + added, figures)
