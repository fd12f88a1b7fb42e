"""What the mechanisms share that release the control flow under differential privacy: the goal,
lineage, new cases.
"""

import math
from abc import abstractmethod
from functools import partial
from typing import Annotated, ClassVar, Generic, TypeVar

from pydantic import BaseModel, Field, ValidationError

from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, Lineage
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.kernel import Kernel
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    PartOfGoal,
    Prediction,
    Proof,
    Refusal,
    option_fault,
)
from cloakwork.mechanisms.steps import CASES_FROM_ANSWERS, Measurement, MeasureStep
from cloakwork.mechanisms.variants.accuracy import Simulated, predict_similarity

P = TypeVar("P", bound=BaseModel)


class VariantRelease(Mechanism[P], Generic[P]):
    """Release variants with counts that noise was added to; every case of the release is made from
    them alone.

    Nothing here aborts on data: an empty log gives an empty release or one made of noise.

    ``simulated``: how accurate it was on invented processes; ``undeclared``: where the activities
    are not declared, if that makes a difference.
    """

    proof: ClassVar[Proof] = "proved"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("differential-privacy", CONTROL_FLOW),)
    action: ClassVar[str] = "draw activity sequences with noise"
    needs_delta: ClassVar[bool] = False
    simulated: ClassVar[Simulated | None] = None
    undeclared: ClassVar[Simulated | None] = None

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """Accept differential privacy over the control flow alone, for whole units."""
        # Goals that the mechanism never meets first, then what a policy could still change.
        if not isinstance(goal, DifferentialPrivacy):
            return Refusal("never", f"it gives differential privacy, not {goal.kind}")
        if goal.neighbours != "unbounded":
            return Refusal("never", "it protects the presence of a unit, not its timestamps")
        if goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it releases the control flow and nothing else")
        if self.needs_delta and goal.delta == 0:
            return Refusal("needs", "the threshold needs a delta above 0", ("guarantees[].delta",))
        if self.needs_delta and goal.epsilon / facts.unit.max_cases < -math.log1p(-goal.delta):
            return Refusal(
                "misconfigured",
                "epsilon is smaller than delta allows: needs epsilon/m >= -ln(1 - delta)",
            )
        # Options come from the policy: what they get wrong is a refusal, not a crash.
        try:
            return self.meet(goal, facts, options)
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))

    @abstractmethod
    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """Parameters whose cost is at most the goal's (epsilon, delta), or why there are none.

        A pydantic ``ValidationError`` raised here (options read by a model) becomes a refusal.
        """

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """Serve the control flow of a goal, where it serves parts; a threshold spends ``delta``."""
        if not self.serves_parts:
            return super().offer_part(part, facts, options)
        if part.columns != (CONTROL_FLOW,):
            return Refusal("never", "it releases the control flow and nothing else")
        if part.delta <= 0:
            return Refusal("needs", "the threshold needs a delta above 0", ("guarantees[].delta",))
        try:
            return self.meet_part(part, facts, options)
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))

    def meet_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """As ``meet``, of a mechanism that serves parts: Gaussian noise, told by ``part.mu``, and
        ``part.delta`` above 0 for thresholds. It serves none where this is not overridden.
        """
        return super().offer_part(part, facts, options)

    def predict(self, params: P, facts: Facts) -> Prediction | None:
        """By simulation, for the target that ``params`` were found for, and ``noise_factor`` by
        what they say; None where it was not simulated.
        """
        # Parameters of any subclass: not all of them state a target or a noise factor.
        epsilon = getattr(params, "epsilon", None)
        rows = self.simulated
        if facts.alphabet is None and self.undeclared is not None:
            rows = self.undeclared
        if epsilon is None or rows is None:
            return None
        delta = getattr(params, "delta", 0.0)
        noise_factor = getattr(params, "noise_factor", 1.0)
        return predict_similarity(
            rows,
            epsilon,
            delta,
            facts,
            noise_factor=noise_factor,
        )

    def lineage(self, params: P) -> Lineage:
        """Measures the control flow; every case of the release is made from the noisy counts."""
        return CASES_FROM_ANSWERS

    def step(self, params: P, facts: Facts) -> MeasureStep:
        """``measure`` at the cost of ``event``."""
        return MeasureStep(
            lineage=self.lineage(params),
            event=self.event(params, facts),
            measure=partial(self.measure, params),
        )

    @abstractmethod
    def event(self, params: P, facts: Facts) -> PrivacyEvent:
        """What ``measure`` costs, naming the noise actually drawn."""

    @abstractmethod
    def measure(self, params: P, kernel: Kernel) -> Measurement:
        """Ask, and make variants of the answers."""


class VariantParams(Frozen):
    """What parameters say whatever the mechanism: ``epsilon`` and ``delta``, the target that its
    noise was found for, and ``max_cases``, cases of one unit.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1


class NoOptions(BaseModel):
    """The options of a mechanism that has none."""

    model_config = {"extra": "forbid", "frozen": True}
