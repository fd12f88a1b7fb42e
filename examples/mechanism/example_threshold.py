"""Release the variants whose noisy count reaches a threshold: an example of a mechanism."""

from pydantic import BaseModel, ConfigDict

from cloakwork.accounting.calibrate import laplace_scale, partition_threshold, threshold_delta
from cloakwork.base.costs import Composed, DiscreteLaplace, EpsilonDelta
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.kernel import Entries, Laplace
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement, MeasureStep


class ExampleParams(BaseModel):
    """``scale``: of the noise; ``tau``: least noisy count released; ``max_cases``: of a unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    scale: float
    tau: int
    max_cases: int


class ExampleThreshold(Mechanism[ExampleParams]):
    """Count each variant, add discrete Laplace noise, release those that reach ``tau``.

    An empty log gives an empty release; of unique variants each goes but for probability delta.
    """

    name = "example/threshold"
    summary = "Releases noisy counts of variants that reach a threshold."
    proof = "kernel"
    theorem = Theorem(
        "Noise of scale max_cases/epsilon; one unit's own variants pass tau with probability delta.",
        "Korolova et al. 2009, theorem 1; Desfontaines et al. 2022, section 3",
    )
    gives = (Gives("differential-privacy", CONTROL_FLOW),)
    Params = ExampleParams

    def offer(self, goal, facts, options):
        if goal.kind != "differential-privacy" or goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it releases the control flow under differential privacy")
        if goal.delta == 0:
            return Refusal("needs", "the threshold needs a delta above 0", ("guarantees[].delta",))
        if options:
            return Refusal("misconfigured", f"it has no option '{min(options)}'")
        cases = facts.unit.max_cases
        scale = laplace_scale(goal.epsilon, cases)
        tau = partition_threshold(scale, goal.delta, cases)
        params = ExampleParams(scale=scale, tau=tau, max_cases=cases)
        return Offer(params, f"variants of {tau} noisy cases or more are released")

    def step(self, params, facts):
        passed = threshold_delta(params.scale, params.tau, params.max_cases)
        noise = DiscreteLaplace(scale=params.scale, sensitivity=params.max_cases)
        event = Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=passed)))
        return MeasureStep(event=event, measure=lambda kernel: self.measure(params, kernel))

    def measure(self, params, kernel):
        found = kernel.select(Entries.of_variants, Laplace(params.scale), params.tau)
        return Measurement(found.labels, found.noisy)
