"""Release the variants whose noisy count reaches a threshold: an example of a mechanism."""

import polars as pl
from pydantic import BaseModel, ConfigDict

from cloakwork.accounting.calibrate import laplace_scale, partition_threshold, threshold_delta
from cloakwork.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.mechanisms.aggregates import CASES, VariantCounts
from cloakwork.mechanisms.base import Decision, GenerateCases, Gives, Offer, Refusal, Theorem
from cloakwork.mechanisms.variants.family import cases_of
from cloakwork.privacy_event import Composed, DiscreteLaplace, EpsilonDelta


class ExampleParams(BaseModel):
    """``scale``: of the noise; ``tau``: least noisy count released; ``max_cases``: of a unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    scale: float
    tau: int
    max_cases: int


class ExampleThreshold:
    """Count each variant, add discrete Laplace noise, release those that reach ``tau``.

    An empty log gives an empty release; of unique variants each goes but for probability delta.
    """

    name = "example/threshold"
    summary = "Releases noisy counts of variants that reach a threshold."
    proof = "proved"
    theorem = Theorem(
        "One unit changes counts by at most max_cases in all, so noise of scale max_cases/epsilon "
        "hides it; a variant that it alone has reaches tau with probability at most delta.",
        "Korolova et al. 2009, theorem 1; Desfontaines et al. 2022, section 3",
    )
    gives = (Gives("differential-privacy", CONTROL_FLOW),)
    Params = ExampleParams

    def offer(self, goal, facts, options):
        if goal.kind != "differential-privacy" or goal.neighbours != "unbounded":
            return Refusal("never", "it protects the presence of a unit by noise, nothing else")
        if goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it releases the control flow and nothing else")
        if options:
            return Refusal("misconfigured", f"it has no option '{min(options)}'")
        if goal.delta == 0:
            return Refusal("needs", "the threshold needs a delta above 0", ("guarantees[].delta",))
        cases = facts.unit.max_cases
        scale = laplace_scale(goal.epsilon, cases)
        tau = partition_threshold(scale, goal.delta, cases)
        params = ExampleParams(scale=scale, tau=tau, max_cases=cases)
        return Offer(params, f"variants of {tau} noisy cases or more are released")

    def event(self, params, facts):
        delta = threshold_delta(params.scale, params.tau, params.max_cases)
        noise = DiscreteLaplace(scale=params.scale, sensitivity=params.max_cases)
        return Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=delta)))

    def currency(self, params):
        return "unit"

    def lineage(self, params):
        written = {CONTROL_FLOW, METADATA}
        return Lineage(measures={CONTROL_FLOW}, writes=written, generates=True)

    def facts_after(self, params, facts):
        return facts

    def summarise(self, params):
        return VariantCounts()

    def decide(self, params, summary, noise):
        counts = noise.laplace_counts(summary[CASES].to_numpy(writable=True), params.scale)
        noisy = summary.with_columns(pl.Series(CASES, counts, pl.Int64))
        return Decision(noisy.filter(pl.col(CASES) >= params.tau))

    def rewrite(self, params, decision, stream):
        return GenerateCases(lambda: cases_of(decision.table))
