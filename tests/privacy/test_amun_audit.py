"""Statistical audits of variants/amun over a declared domain, and of broken counterparts that must
fail.

Counts are noised independently, so a domain of many equal variants is as many runs at once. Without
a domain it is variants/threshold, whose audits stand beside this one. Draws are seeded: what is
found is found in every run.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.base.facts import Facts, Unit
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Mechanism, Offer
from cloakwork.mechanisms.variants.amun import AmunParams, VariantAmun
from cloakwork.noise import Noise, reproducible
from cloakwork_extras.published import VariantAmunPublished
from measuring import release

RUNS, EPSILON = 16_000, 1.0
DOMAIN = [[str(run)] for run in range(RUNS)]
AMUN = VariantAmun()
GOAL = DifferentialPrivacy(kind="differential-privacy", epsilon=EPSILON, over=("control-flow",))


def params_of(max_cases: int = 1) -> AmunParams:
    """What is offered for the declared domain."""
    answer = AMUN.offer(
        GOAL, Facts(unit=Unit(attribute="p", max_cases=max_cases)), {"variants": DOMAIN}
    )
    assert isinstance(answer, Offer)
    return answer.params


def outcomes(count: int, params: AmunParams, noise: Noise) -> NDArray[np.int64]:
    """The released count of each variant of the domain, all of which have ``count`` cases; 0 where
    it is not released.
    """
    summary = pl.DataFrame({"variant": DOMAIN, "cases": np.full(RUNS, count)}).filter(
        pl.col("cases") > 0
    )
    summary = summary.cast({"variant": pl.List(pl.String), "cases": pl.Int64})
    kept = release(AMUN, params, summary, noise).table["cases"].to_numpy()
    return np.concatenate([kept, np.zeros(RUNS - len(kept), np.int64)])


def audit(counts: tuple[int, int], params: AmunParams) -> AuditResult:
    """Neighbours that differ in the cases of one variant."""
    events = [
        HalfLine(max(counts), upper=True),
        HalfLine(min(counts), upper=False),
        HalfLine(1, upper=True),
    ]
    noise = reproducible(1)
    a, b = (lambda _, count=count: outcomes(count, params, noise) for count in counts)
    return empirical_epsilon(a, b, runs=RUNS, claim=EPSILON, events=events)


def test_a_case_more_is_covered_and_the_audit_is_sharp() -> None:
    """On a frequent variant, and on one that nobody else follows: it may appear from noise in both
    logs.
    """
    frequent = audit((31, 30), params_of())
    assert frequent.passed
    assert frequent.epsilon_lower_bound > 0.8 * EPSILON
    assert audit((1, 0), params_of()).passed
    assert audit((33, 30), params_of(3)).passed


def test_half_the_noise_and_units_counted_as_one_are_found() -> None:
    """A scale of half, and three cases of one unit under noise for one."""
    params = params_of()
    assert not audit(
        (31, 30), params.model_copy(update={"scale": params.scale and params.scale / 2})
    ).passed
    assert not audit((33, 30), params).passed


def test_absent_variants_without_noise_are_found() -> None:
    """The counterpart that releases only variants that occur: one case more or less decides whether
    a variant can appear.
    """
    noise = reproducible(1)

    def only_present(count: int) -> NDArray[np.int64]:
        return outcomes(count, params_of(), noise) if count else np.zeros(RUNS, np.int64)

    events = [HalfLine(1, upper=True)]
    found = empirical_epsilon(
        lambda _: only_present(1),
        lambda _: only_present(0),
        runs=RUNS,
        claim=EPSILON,
        events=events,
    )
    assert not found.passed


def test_the_published_form_fails_its_own_claim() -> None:
    """A unique variant beside a frequent one is there in every run, and never without its owner."""
    published: Mechanism[object] = VariantAmunPublished()
    answer = published.offer(GOAL, Facts(), {})
    assert isinstance(answer, Offer)
    noise = reproducible(1)

    def released(variants: list[list[str]], cases: list[int], runs: int) -> NDArray[np.int64]:
        summary = pl.DataFrame({"variant": variants, "cases": cases})
        tables = (release(published, answer.params, summary, noise).table for _ in range(runs))
        return np.array([table.height for table in tables])

    found = empirical_epsilon(
        lambda runs: released([["a"], ["b"]], [30, 1], runs),
        lambda runs: released([["a"]], [30], runs),
        runs=300,
        delta=1e-4,
        claim=EPSILON,
        events=[HalfLine(2, upper=True)],
    )
    assert not found.passed
