"""Audits of the published generative forms: their domain is the set of the source's variants, which
few runs show.
"""

from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Facts
from cloakwork.evaluation.dp_audit import HalfLine, empirical_epsilon
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer
from cloakwork.noise import reproducible
from cloakwork_extras.networks.published import VariantDdpmPublished, VariantTravagPublished
from measuring import release

RUNS, EPSILON, DELTA = 80, 1.0, 1e-4
GOAL = DifferentialPrivacy(
    kind="differential-privacy", epsilon=EPSILON, delta=DELTA, over=("control-flow",)
)
BRIEFLY = {
    VariantTravagPublished(): {"epochs": 1, "adversarial_epochs": 1, "code": 16},
    VariantDdpmPublished(): {"epochs": 1, "steps": 5},
}


@pytest.mark.parametrize(("mechanism", "options"), BRIEFLY.items())
def test_a_variant_of_one_case_is_drawn_only_where_the_case_is(
    mechanism: Any, options: dict[str, Any]
) -> None:
    """Whatever the noise on the gradients. How many cases there are is not looked at, which tells
    as much.
    """
    answer = mechanism.offer(GOAL, Facts(), options)
    assert isinstance(answer, Offer)
    noise = reproducible(1)

    def cases_of_the_rare(variants: list[list[str]], cases: list[int], runs: int) -> Ints:
        summary = pl.DataFrame({"variant": variants, "cases": cases})
        found = []
        for _ in range(runs):
            table = release(mechanism, answer.params, summary, noise).table
            rare = table.filter(pl.col("variant") == pl.lit(["b"]))
            found.append(int(rare["cases"].sum()))
        return np.array(found, np.int64)

    found = empirical_epsilon(
        lambda runs: cases_of_the_rare([["a"], ["b"]], [30, 1], runs),
        lambda runs: cases_of_the_rare([["a"]], [30], runs),
        runs=RUNS,
        delta=DELTA,
        claim=EPSILON,
        events=[HalfLine(1, upper=True)],
    )
    assert not found.passed, found
