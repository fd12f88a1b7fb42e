"""A guarantee holds at the figure that its check measures, and at none that is stricter."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from cloakwork.guarantees import ConfidenceBound, Guarantee, KAnonymity, LDiversity, TCloseness
from cloakwork.testing.contract_logs import log_of
from guarantees.measuring import (
    largest_distance,
    least_diversity,
    measure,
    smallest_group,
    worst_knowledge,
)

ILLNESS = "case:illness"
CASES = [("ab", "flu")] * 5 + [("ab", "cold")] * 2 + [("a", "flu")] * 2 + [("a", "cold")] * 3
LOG = log_of([list(labels) for labels, _ in CASES])
LOG = replace(LOG, cases=LOG.cases.with_columns(pl.Series(ILLNESS, [ill for _, ill in CASES])))
KNOWS = {"kind": "confidence-bound", "L": 2, "precision": "1h"}


def k_anonymous(k: Any) -> Guarantee:
    return KAnonymity(kind="k-anonymity", k=int(k))


def diverse(bound: Any) -> LDiversity:
    return LDiversity(kind="l-diversity", l=bound, attribute=ILLNESS, variety="entropy")


def close(bound: Any) -> TCloseness:
    return TCloseness(kind="t-closeness", t=bound, attribute=ILLNESS)


def groups(least: Any) -> ConfidenceBound:
    return ConfidenceBound(**KNOWS, K=int(least), C=1.0, attribute=ILLNESS)


def confident(bound: Any) -> ConfidenceBound:
    return ConfidenceBound(**KNOWS, K=2, C=bound, attribute=ILLNESS)


@pytest.mark.parametrize(
    ("goal", "figure", "stricter"),
    [
        (k_anonymous, lambda: smallest_group(LOG, k_anonymous(2)), 1),
        (diverse, lambda: least_diversity(LOG, diverse(1.5)), 0.01),
        (close, lambda: largest_distance(LOG, close(0.5)) + 1e-9, -0.01),
        (groups, lambda: worst_knowledge(LOG, groups(2)).smallest, 1),
        (confident, lambda: worst_knowledge(LOG, confident(1.0)).confidence, -0.01),
    ],
    ids=["k", "l", "t", "K", "C"],
)
def test_a_figure_is_a_bound_and_a_stricter_one_is_broken(goal, figure, stricter) -> None:
    assert measure(LOG, goal(figure())).holds
    assert not measure(LOG, goal(figure() + stricter)).holds
